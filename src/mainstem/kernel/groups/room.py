"""Memory for the members of groups: bounded for each group and for all of them together.

All groups together may take `max_bytes`. Beyond that a small group still gets in while all small ones take no
more than a quarter of it together, so that large groups, however they grew, do not lock small ones out. There
is no other bound to how many small groups there are: one connection may speak for members of any number.
"""

from __future__ import annotations

from mainstem.model.errors import GroupFull

# Of what members of one consumer or share group want and hold: 300,000 partitions of 100,000 topics that a
# pattern matches take 118 MB, as many of a few topics 96 MB.
MAX_GROUP_BYTES = 128 << 20
MAX_TOTAL_BYTES = 4 * MAX_GROUP_BYTES
SMALL_GROUP_BYTES = 1 << 20  # the most of a small group: one or two members with some 3,000 partitions
SMALL_GROUPS_PART = 4  # the part of `max_bytes`, a quarter, that is for small groups whatever others take
# What a group takes beside its id and its members: seen of the newer kinds with CPython 3.11, rounded.
GROUP_BYTES = 2500


class Room:
    """Memory for the members of all groups: `held` is what they have, `small_held` what small groups have."""

    __slots__ = ("held", "max_bytes", "small_held")

    def __init__(self, max_bytes: int = MAX_TOTAL_BYTES) -> None:
        self.max_bytes = max_bytes
        self.held = 0
        self.small_held = 0

    def fits(self, before: int, after: int) -> bool:
        """One group has `after` bytes instead of `before`."""
        more = after - before
        fits_beside_small = self.small_held + more <= self.max_bytes // SMALL_GROUPS_PART
        return self.held + more <= self.max_bytes or (after <= SMALL_GROUP_BYTES and fits_beside_small)

    def change(self, before: int, after: int) -> None:
        self.held += after - before
        self.small_held += _if_small(after) - _if_small(before)


class Holding:
    """What one group has of the room."""

    __slots__ = ("_own", "_room", "held")

    def __init__(self, room: Room, own: int = 0) -> None:
        """`own`: what the group takes by itself, from when it first holds anything until it gives it back."""
        self._room = room
        self._own = own
        self.held = 0

    def fits(self, more: int, max_bytes: int) -> bool:
        """So many bytes more, in a group that may have `max_bytes`. What shrinks always fits."""
        after = self._held_with(more)
        return more <= 0 or (after <= max_bytes and self._room.fits(self.held, after))

    def check_subscription(self, group_id: str, more: int, max_bytes: int) -> None:
        """Whoever reads the refusal need not know that there are limits, so it names the setting."""
        if self.fits(more, max_bytes):
            return
        if self._held_with(more) > max_bytes:
            limit = f"groups.max_subscription_bytes is {max_bytes}"
        else:
            limit = f"groups.max_total_subscription_bytes is {self._room.max_bytes}"
        raise GroupFull(f"no room for {more} more bytes of what members want in {group_id}: {limit}")

    def hold(self, members: int) -> None:
        """So much for all members from now on."""
        self._change(self._own + members)

    def give_back(self) -> None:
        """The group is gone: nobody else gives it back."""
        self._change(0)

    def _held_with(self, more: int) -> int:
        return max(self.held, self._own) + more

    def _change(self, held: int) -> None:
        self._room.change(self.held, held)
        self.held = held


def _if_small(size: int) -> int:
    return size if size <= SMALL_GROUP_BYTES else 0


def group_bytes(group_id: str) -> int:
    """What a group takes for as long as it is there, with members or without."""
    return GROUP_BYTES + text_bytes(group_id)


def text_bytes(text: str) -> int:
    """Without what any string takes."""
    return len(text) if text.isascii() else 4 * len(text)
