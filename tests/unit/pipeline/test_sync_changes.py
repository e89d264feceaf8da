"""Records as changes of a table: the last of each key counts, and bad ones stand alone."""

import csv
import datetime
import io
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.pipeline.jobs.sync_changes import changes_of, csv_of, tombstone_key
from mainstem.spark.formats import Format

JSON = Format("json")
FIELDS = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])


def batch_of(records):
    """(key, value) of records with the offsets 0, 1, ..."""
    return pa.table(
        {
            "key": pa.array([key for key, _ in records], pa.binary()),
            "value": pa.array([value for _, value in records], pa.binary()),
            "partition": pa.array([0] * len(records), pa.int32()),
            "offset": pa.array(range(len(records)), pa.int64()),
            "timestamp": pa.array([0] * len(records), pa.timestamp("us", tz="UTC")),
        }
    )


def changes(records, keys=("id",), deletes=True):
    return changes_of(batch_of(records), JSON, FIELDS, keys, deletes=deletes)


CHANGES = st.lists(st.tuples(st.integers(0, 5), st.none() | st.text(max_size=5)), max_size=30)


@given(CHANGES)
def test_the_last_change_of_each_key_counts(history):
    """Compared with a dict."""
    table = {}
    for key, name in history:
        table[key] = name
    found = changes(
        [
            (b"%d" % key, None if name is None else json.dumps({"id": key, "name": name}).encode())
            for key, name in history
        ]
    )
    assert {row["id"]: row["name"] for row in found.upserts.to_pylist()} == {
        key: name for key, name in table.items() if name is not None
    }
    assert {row["id"] for row in found.deletes.to_pylist()} == {
        key for key, name in table.items() if name is None
    }
    assert not found.bad
    for row, one in zip(found.upsert_rows, found.upserts.to_pylist(), strict=True):
        assert history[row] == (one["id"], one["name"])


def test_without_a_key_every_value_is_a_row_and_nothing_is_deleted():
    found = changes([(b"1", b'{"id": 1}'), (b"1", None), (b"1", b'{"id": 1}')], keys=())
    assert found.upserts.num_rows == 2
    assert found.upsert_rows == [0, 2]
    assert found.deletes.num_rows == 0


def test_null_values_are_passed_over_where_nothing_is_to_be_deleted():
    found = changes([(b"1", b'{"id": 1}'), (b"1", None)], deletes=False)
    assert (found.upsert_rows, found.delete_rows, found.bad) == ([0], [], [])


def test_what_cannot_be_read_is_set_aside_with_its_row_and_reason():
    found = changes([(b"1", b"nonsense"), (None, None), (b"x", None), (b"2", b'{"id": 2}'), (b"3", b"{}")])
    assert found.upsert_rows == [3]
    assert [row for row, _ in found.bad] == [0, 1, 2, 4]
    assert found.bad[2][1] == "'x' is not a int64 for 'id'"


@pytest.mark.parametrize("keys", [("id",), ("name",), ()])
def test_text_that_is_not_utf_8_is_set_aside_whichever_column_it_is_in(keys):
    fields = pa.schema([*FIELDS, pa.field("tags", pa.list_(pa.string()))])
    values = [
        b'{"id": 1, "name": "a", "tags": ["x"]}',
        b'{"id": 2, "name": "\xff", "tags": ["y"]}',
        b'{"id": 3, "name": "c", "tags": ["\xff"]}',
        b"nonsense",
        b'{"id": 4, "name": "d", "tags": []}',
    ]
    found = changes_of(batch_of([(None, value) for value in values]), JSON, fields, keys, deletes=True)
    assert found.upsert_rows == [0, 4]
    assert found.upserts.column("id").to_pylist() == [1, 4]
    assert [row for row, _ in found.bad] == [1, 2, 3]
    assert "UTF8" in found.bad[0][1]


def test_a_tombstones_key_nested_beyond_all_measure_is_set_aside():
    deep = b"[" * 100_000 + b"]" * 100_000
    inside = b'{"id": ' + deep + b"}"
    found = changes([(deep, None), (inside, None), (b"2", None)])
    assert [row for row, _ in found.bad] == [0, 1]
    assert found.delete_rows == [2]


@pytest.mark.parametrize(
    ("key", "expected"), [(b"17", (17,)), (b'{"id": 17}', (17,)), (b'"17"', (17,)), (b'{"id": "17"}', (17,))]
)
def test_a_tombstones_key_may_be_plain_or_json(key, expected):
    assert tombstone_key(key, FIELDS, ["id"]) == expected


@pytest.mark.parametrize("key", [None, b"", b"\xff", b"{}", b"[1]", b'{"id": null}', b"seventeen"])
def test_a_tombstones_key_that_names_no_row_is_refused(key):
    with pytest.raises(ValueError):  # noqa: PT011
        tombstone_key(key, FIELDS, ["id"])


def test_a_key_of_several_columns_is_an_object():
    assert tombstone_key(b'{"name": "a", "id": 1}', FIELDS, ["id", "name"]) == (1, "a")
    with pytest.raises(ValueError, match="is not an object"):
        tombstone_key(b"1", FIELDS, ["id", "name"])


def test_copy_tells_nothing_from_an_empty_text_and_writes_bytes_and_structures_as_text():
    table = pa.table(
        {
            "s": pa.array(["", None, 'a"b,\n']),
            "b": pa.array([b"\x00\xff", None, b""], pa.binary()),
            "j": pa.array([{"x": [1]}, None, {"x": []}]),
            "d": pa.array([datetime.date(2026, 1, 2), None, None]),
        }
    )
    text = csv_of(table).decode()
    assert text.startswith('"","\\x00ff",')
    assert ",,,\n" in text
    read = list(csv.reader(io.StringIO(text)))
    assert read[0] == ["", "\\x00ff", '{"x": [1]}', "2026-01-02"]
    assert read[2][0] == 'a"b,\n'
