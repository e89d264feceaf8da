"""Memory for the members of groups: bounded for each group and for all of them together."""

from __future__ import annotations

from mainstem.model.errors import GroupFull

MAX_TOTAL_BYTES = 256 << 20
# Of what members of one consumer or share group want and hold: 300,000 partitions of 100,000 topics that a
# pattern matches take 118 MB, as many of a few topics 96 MB.
MAX_GROUP_BYTES = 128 << 20


class Room:
    """Memory for the members of all groups: `held` is what they have of it."""

    __slots__ = ("held", "max_bytes")

    def __init__(self, max_bytes: int = MAX_TOTAL_BYTES) -> None:
        self.max_bytes = max_bytes
        self.held = 0


class Holding:
    """What one group has of the room."""

    __slots__ = ("_room", "held")

    def __init__(self, room: Room) -> None:
        self._room = room
        self.held = 0

    def fits(self, more: int, max_bytes: int) -> bool:
        """So many bytes more, in a group that may have `max_bytes`. What shrinks always fits."""
        fits = self.held + more <= max_bytes and self._room.held + more <= self._room.max_bytes
        return more <= 0 or fits

    def check_subscription(self, group_id: str, more: int, max_bytes: int) -> None:
        """Whoever reads the refusal need not know that there are limits, so it names the setting."""
        if self.fits(more, max_bytes):
            return
        if self.held + more > max_bytes:
            limit = f"groups.max_subscription_bytes is {max_bytes}"
        else:
            limit = f"groups.max_total_subscription_bytes is {self._room.max_bytes}"
        raise GroupFull(f"no room for {more} more bytes of what members want in {group_id}: {limit}")

    def hold(self, total: int) -> None:
        """So much in all from now on. A group that ends holds nothing: nobody else gives it back."""
        self._room.held += total - self.held
        self.held = total


def text_bytes(text: str) -> int:
    """Without what any string takes."""
    return len(text) if text.isascii() else 4 * len(text)
