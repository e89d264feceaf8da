"""LIKE patterns: `%` for any characters, `_` for exactly one, and an escape before those that are meant.

By hand and not as a regular expression: that would go back and forth over a hostile pattern for hours.
"""

from __future__ import annotations

from mainstem.model.errors import InvalidRequest

# What lies between two `%`: characters, with None for any one.
Piece = tuple[str | None, ...]


class Like:
    __slots__ = ("_pieces",)

    def __init__(self, pattern: str, escape: str | None = None) -> None:
        self._pieces = pieces_of(pattern, escape)

    def matches(self, text: str) -> bool:
        first, *middle = self._pieces
        if not fits(first, text, 0):
            return False
        if not middle:
            return len(first) == len(text)
        last = middle.pop()
        begin, end = len(first), len(text) - len(last)
        # The leftmost place for each piece leaves the most room for those after it.
        for piece in middle:
            found = find(piece, text, begin, end)
            if found < 0:
                return False
            begin = found + len(piece)
        return begin <= end and fits(last, text, end)


def pieces_of(pattern: str, escape: str | None) -> list[Piece]:
    if escape is not None and len(escape) != 1:
        raise InvalidRequest(f"ESCAPE takes one character, not {escape[:40]!r}")
    pieces: list[Piece] = []
    piece: list[str | None] = []
    chars = iter(pattern)
    for char in chars:
        if char == escape:
            meant = next(chars, None)
            if meant not in ("%", "_", escape):
                raise InvalidRequest(f"in a LIKE pattern {escape!r} comes before %, _ or itself")
            piece.append(meant)
        elif char == "%":
            pieces.append(tuple(piece))
            piece = []
        else:
            piece.append(None if char == "_" else char)
    return [*pieces, tuple(piece)]


def fits(piece: Piece, text: str, at: int) -> bool:
    if at < 0 or at + len(piece) > len(text):
        return False
    return all(char is None or char == text[at + index] for index, char in enumerate(piece))


def find(piece: Piece, text: str, begin: int, end: int) -> int:
    """The first place from `begin` on that ends at `end` at the latest, or -1."""
    if None not in piece:
        return text.find("".join(char for char in piece if char is not None), begin, max(begin, end))
    return next((at for at in range(begin, end - len(piece) + 1) if fits(piece, text, at)), -1)
