"""How the columns of a lake grow with the values. Pure: schemas are Spark's, as JSON.

    {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": true, "metadata": {}}]}

A field that is new becomes a column. A number that no longer fits gets a wider type: whole numbers become
doubles. Anything else keeps the type that it has, and what does not fit in that is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from mainstem.model.errors import InvalidRequest

Kind = Any  # "long", or {"type": "array" | "struct", ...}
Schema = dict[str, Any]

_WIDTH = {"byte": 1, "short": 2, "integer": 3, "long": 4, "float": 5, "double": 6}


class Merged(NamedTuple):
    schema: Schema
    new: tuple[str, ...]
    widened: tuple[str, ...]
    conflicts: tuple[str, ...]  # fields whose values do not all fit


def struct(fields: list[Schema]) -> Schema:
    return {"type": "struct", "fields": fields}


def field(name: str, kind: Kind) -> Schema:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}


def merge(known: Schema, seen: Schema) -> Merged:
    """`known` columns stay where they are; new ones come behind them."""
    notes: dict[str, list[str]] = {"new": [], "widened": [], "conflicts": []}
    merged = _struct(known, seen, "", notes)
    return Merged(merged, tuple(notes["new"]), tuple(notes["widened"]), tuple(notes["conflicts"]))


def needs_rewriting(stored: Schema, wanted: Schema) -> bool:
    """Whether a file's own columns are narrower than they should be by now."""
    return bool(merge(stored, wanted).widened)


def as_stored(wanted: Schema, stored: Schema) -> Schema:
    """All columns of `wanted`, with the types that a file has where it has them: to read it, then cast."""
    kinds = {one["name"]: one["type"] for one in stored.get("fields", [])}
    fields = [
        {**one, "type": _stored_kind(one["type"], kinds[one["name"]])} if one["name"] in kinds else one
        for one in wanted.get("fields", [])
    ]
    return struct(fields)


def check_names(fields: Schema, taken: tuple[str, ...]) -> None:
    """Columns are told apart without regard to case, as Spark does; some names are the lake's own."""
    seen = {name.lower(): f"a column of the lake's own, {name!r}" for name in taken}
    for one in fields.get("fields", []):
        name = one["name"]
        if name.lower() in seen:
            raise InvalidRequest(
                f"the values have a field {name!r}, which has the name of {seen[name.lower()]}: "
                "give a schema without it, or partition by something else"
            )
        seen[name.lower()] = f"another, {name!r}"


class Kept(NamedTuple):
    schema: Schema
    refused: tuple[tuple[str, ...], ...]  # fields left out: names from the outermost on, ITEMS for a list's


ITEMS = "[*]"


def without_clashes(fields: Schema, known: Schema, taken: tuple[str, ...]) -> Kept:
    """The fields that can be columns. Of names that differ only in case the `known` one counts, else the one
    with the fewest capitals; also inside of structures."""
    refused: list[tuple[str, ...]] = []
    return Kept(_apart(fields, known, {name.lower() for name in taken}, (), refused), tuple(refused))


def _apart(
    fields: Schema, known: Schema, taken: set[str], path: tuple[str, ...], refused: list[tuple[str, ...]]
) -> Schema:
    kinds = {one["name"]: one["type"] for one in known.get("fields", [])}
    counting: dict[str, str] = {}
    for one in fields.get("fields", []):
        lower = one["name"].lower()
        # Capitals come before small letters.
        counting[lower] = max(one["name"], counting.get(lower, ""), key=lambda name: (name in kinds, name))
    kept = []
    for one in fields.get("fields", []):
        name, inside = one["name"], (*path, one["name"])
        if name.lower() in taken or counting[name.lower()] != name:
            refused.append(inside)
        else:
            kept.append({**one, "type": _kind_apart(one["type"], kinds.get(name), inside, refused)})
    return struct(kept)


def _kind_apart(kind: Kind, known: Kind, path: tuple[str, ...], refused: list[tuple[str, ...]]) -> Kind:
    if _is(kind, "struct"):
        return _apart(kind, known if _is(known, "struct") else {}, set(), path, refused)
    if _is(kind, "array"):
        element = known["elementType"] if _is(known, "array") else None
        return {**kind, "elementType": _kind_apart(kind["elementType"], element, (*path, ITEMS), refused)}
    return kind


def describe(schema: Schema) -> str:
    return ", ".join(f"{one['name']} {_word(one['type'])}" for one in schema.get("fields", []))


def _struct(known: Schema, seen: Schema, path: str, notes: dict[str, list[str]]) -> Schema:
    coming = {one["name"]: one for one in seen.get("fields", [])}
    fields = []
    for one in known.get("fields", []):
        other = coming.pop(one["name"], None)
        kind = one["type"] if other is None else _kind(one["type"], other["type"], path + one["name"], notes)
        fields.append({**one, "type": kind})
    for one in coming.values():
        notes["new"].append(path + one["name"])
        fields.append(field(one["name"], one["type"]))
    return struct(fields)


def _kind(known: Kind, seen: Kind, path: str, notes: dict[str, list[str]]) -> Kind:
    if known == seen or known == "string":  # text takes anything
        return known
    if isinstance(known, str) and isinstance(seen, str) and known in _WIDTH and seen in _WIDTH:
        if _WIDTH[seen] <= _WIDTH[known]:
            return known
        notes["widened"].append(path)
        return "double" if "float" in (known, seen) else seen  # a float cannot hold an integer
    if _is(known, "struct") and _is(seen, "struct"):
        return _struct(known, seen, f"{path}.", notes)
    if _is(known, "array") and _is(seen, "array"):
        element = _kind(known["elementType"], seen["elementType"], f"{path}[]", notes)
        return {**known, "elementType": element, "containsNull": True}
    notes["conflicts"].append(f"{path} is {_word(known)}, not {_word(seen)}")
    return known


def _stored_kind(wanted: Kind, stored: Kind) -> Kind:
    if _is(wanted, "struct") and _is(stored, "struct"):
        return as_stored(wanted, stored)
    if _is(wanted, "array") and _is(stored, "array"):
        return {**wanted, "elementType": _stored_kind(wanted["elementType"], stored["elementType"])}
    return stored


def _is(kind: Kind, name: str) -> bool:
    return isinstance(kind, dict) and kind.get("type") == name


def _word(kind: Kind) -> str:
    if isinstance(kind, str):
        return {"long": "BIGINT", "integer": "INT"}.get(kind, kind.upper())
    return "".join(_words(kind))


def _words(kind: Schema) -> Iterator[str]:
    if kind.get("type") == "array":
        yield f"ARRAY<{_word(kind['elementType'])}>"
    elif kind.get("type") == "struct":
        yield f"STRUCT<{', '.join(one['name'] + ': ' + _word(one['type']) for one in kind['fields'])}>"
    else:
        yield str(kind.get("type", "?")).upper()
