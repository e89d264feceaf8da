"""Columns grow: new fields, wider numbers; the rest keeps its type and is told."""

import pytest

from mainstem.model.errors import InvalidRequest
from mainstem.pipeline.jobs.lake_schema import (
    ITEMS,
    as_stored,
    check_names,
    describe,
    field,
    merge,
    needs_rewriting,
    struct,
    without_clashes,
)


def schema(**kinds):
    return struct([field(name, kind) for name, kind in kinds.items()])


def array(kind):
    return {"type": "array", "elementType": kind, "containsNull": True}


def test_new_fields_come_behind_the_known_ones():
    grown = merge(schema(a="long"), schema(b="string", a="long"))
    assert describe(grown.schema) == "a BIGINT, b STRING"
    assert (grown.new, grown.widened, grown.conflicts) == (("b",), (), ())


@pytest.mark.parametrize(
    ("known", "seen", "result"),
    [
        ("integer", "long", "long"),
        ("long", "double", "double"),
        ("float", "long", "float"),
        ("long", "float", "double"),
        ("float", "double", "double"),
        ("double", "long", "double"),
        ("string", "long", "string"),
    ],
)
def test_numbers_get_wider_and_never_narrower(known, seen, result):
    grown = merge(schema(a=known), schema(a=seen))
    assert grown.schema == schema(a=result)
    assert grown.conflicts == ()
    assert bool(grown.widened) == (result != known)


def test_other_changes_keep_the_type_and_are_told():
    known = schema(a="long", b=struct([field("x", "boolean")]), c=array("long"))
    grown = merge(known, schema(a="string", b="string", c=array("string")))
    assert grown.schema == known
    assert grown.conflicts == (
        "a is BIGINT, not STRING",
        "b is STRUCT<x: BOOLEAN>, not STRING",
        "c[] is BIGINT, not STRING",
    )


def test_structures_and_lists_grow_inside():
    known = schema(n=struct([field("x", "long")]), l=array(struct([field("y", "integer")])))
    seen = schema(
        n=struct([field("x", "double"), field("z", "string")]), l=array(struct([field("y", "long")]))
    )
    grown = merge(known, seen)
    assert describe(grown.schema) == "n STRUCT<x: DOUBLE, z: STRING>, l ARRAY<STRUCT<y: BIGINT>>"
    assert (grown.new, grown.widened) == (("n.z",), ("n.x", "l[].y"))
    assert needs_rewriting(known, grown.schema)
    assert not needs_rewriting(grown.schema, grown.schema)
    # A file is read with all columns, in the types that it has.
    assert (
        describe(as_stored(grown.schema, known)) == "n STRUCT<x: BIGINT, z: STRING>, l ARRAY<STRUCT<y: INT>>"
    )


def test_a_file_that_lacks_columns_need_not_be_rewritten():
    assert not needs_rewriting(schema(a="long"), schema(a="long", b="double"))
    assert as_stored(schema(a="long", b="double"), schema(a="long")) == schema(a="long", b="double")


def test_names_that_are_taken_are_refused():
    with pytest.raises(
        InvalidRequest, match="'Day', which has the name of a column of the lake's own, 'day'"
    ):
        check_names(schema(Day="string"), ("day",))
    with pytest.raises(InvalidRequest, match="'ID', which has the name of another, 'id'"):
        check_names(schema(id="long", ID="long"), ())


def test_fields_that_cannot_be_columns_beside_others_are_left_out_and_told():
    inner = struct([field("A", "long"), field("a", "long")])
    fields = schema(Day="string", ID="long", id="long", x=inner, y=array(inner))
    kept, refused = without_clashes(fields, {}, ("day", "_topic"))
    assert refused == (("Day",), ("ID",), ("x", "A"), ("y", ITEMS, "A"))
    assert describe(kept) == "id BIGINT, x STRUCT<a: BIGINT>, y ARRAY<STRUCT<a: BIGINT>>"
    known = schema(ID="long", y=array(struct([field("A", "long")])))
    kept, refused = without_clashes(fields, known, ("day", "_topic"))
    assert refused == (("Day",), ("id",), ("x", "A"), ("y", ITEMS, "a"))
    assert without_clashes(kept, known, ("day",)) == (kept, ())
