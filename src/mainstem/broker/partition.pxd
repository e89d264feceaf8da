# Types for partition.py when it is compiled; without a compiler nobody reads this file.
cimport cython
from mainstem.kernel.log.journal cimport Append, BatchAppend, Round

cdef class Topic:
    cdef public str name
    cdef public bytes id
    cdef public list partitions
    cdef public object configs, policy, created_ms
    cdef public bint internal

cdef class Partition:
    cdef public long long id, index, log_start, high_watermark, next_offset, reserved, reserved_on_disk
    cdef public Topic topic
    cdef public object producers
    cdef public tuple epochs
    cdef public set waiters

@cython.locals(append=Append, batch=BatchAppend, partition=Partition, woken=set)
cpdef set raise_watermarks(dict partitions, Round done)
