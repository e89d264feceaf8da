"""What is to happen at a time of its own: delayed messages, for example. Pure: the clock is the caller's.

timers.py   entries (when, id): add, move, cancel, take what is due, list, dump in slices
pairs.py    the container below it: sorted pairs of integers, eight bytes a number
"""
