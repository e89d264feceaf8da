"""Tag filters: `*` for every message, `a` for one tag, `a || b` for one of several."""

from __future__ import annotations

from mainstem.model.errors import InvalidRequest

EVERY = "*"
MAX_CHARS = 16_384
MAX_TAGS = 1_000


class TagFilter:
    """`tags` are those that pass; None if all messages do, also those without a tag."""

    __slots__ = ("tags",)

    def __init__(self, expression: str) -> None:
        self.tags = parse_tags(expression)

    def matches(self, tag: str | None) -> bool:
        return self.tags is None or tag in self.tags


def parse_tags(expression: str) -> frozenset[str] | None:
    if len(expression) > MAX_CHARS:
        raise InvalidRequest(f"a tag filter has at most {MAX_CHARS} characters")
    if expression.strip() in ("", EVERY):
        return None
    tags = frozenset(tag.strip() for tag in expression.split("||"))
    if "" in tags:
        raise InvalidRequest(f"a tag is missing beside || in {expression[:100]!r}")
    if len(tags) > MAX_TAGS:
        raise InvalidRequest(f"a tag filter names at most {MAX_TAGS} tags")
    return None if EVERY in tags else tags
