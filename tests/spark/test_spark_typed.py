"""Values in a format become typed columns; what cannot be read goes to a topic of its own with the reason."""

import datetime

import pytest
from pyspark.errors import PySparkException

ORDER = "id BIGINT, customer STRING, amount DOUBLE, at TIMESTAMP"


def order(i, amount=1.5):
    return b'{"id": %d, "customer": "c%d", "amount": %s, "at": "2024-05-01T10:00:%02dZ", "more": [1]}' % (
        i,
        i % 3,
        str(amount).encode(),
        i % 60,
    )


def test_json_becomes_typed_columns(house, topic):
    house.create(topic, 2)
    house.fill(topic, [order(i) for i in range(50)], 0)
    house.fill(topic, [order(i) for i in range(50, 90)], 1)
    frame = house.read(topic, format="json", schema=ORDER)
    assert frame.dtypes == [
        ("id", "bigint"),
        ("customer", "string"),
        ("amount", "double"),
        ("at", "timestamp"),
    ]
    rows = frame.orderBy("id").collect()
    assert [row.id for row in rows] == list(range(90))
    assert rows[7].customer == "c1"
    at = datetime.datetime(2024, 5, 1, 10, 0, 7, tzinfo=datetime.UTC)
    assert rows[7].at.astimezone(datetime.UTC) == at


def test_metadata_comes_beside_the_fields(house, topic):
    house.create(topic)
    house.fill(topic, [order(1)], key=b"k")
    (row,) = house.read(topic, format="json", schema="id INT", metadata="key, offset, topic").collect()
    assert (row.id, bytes(row._key), row._offset, row._topic) == (1, b"k", 0, topic)


def test_nested_and_missing_fields(house, topic):
    house.create(topic)
    house.fill(topic, [b'{"a": {"b": [1, 2]}}', b"{}", None, b'{"a": {"b": null}, "c": true}'])
    frame = house.read(topic, format="json", schema="a STRUCT<b: ARRAY<INT>>, c BOOLEAN", metadata="offset")
    rows = frame.orderBy("_offset").collect()
    assert [row.a and row.a.b for row in rows] == [[1, 2], None, None, None]
    assert [row.c for row in rows] == [None, None, None, True]


def test_bad_records_are_set_aside_with_the_reason_and_the_good_ones_arrive(house, topic):
    house.create(topic)
    lines = [order(i) for i in range(1000)]
    lines[3] = b"not json"
    lines[500] = b'{"id": "many"}'
    lines[999] = b'{"id": 1}{"id": 2}'
    house.fill(topic, lines, key=b"k")
    frame = house.read(topic, format="json", schema=ORDER)
    assert sorted(row.id for row in frame.collect()) == [i for i in range(999) if i not in (3, 500)]
    dead = house.read(f"{topic}.dead", includeHeaders="true").orderBy("offset").collect()
    assert [bytes(row.value) for row in dead] == [lines[3], lines[500], lines[999]]
    assert bytes(dead[0].key) == b"k"
    headers = {header.key: bytes(header.value).decode() for header in dead[1].headers}
    assert headers["mainstem.topic"] == topic
    assert (headers["mainstem.partition"], headers["mainstem.offset"]) == ("0", "500")
    assert "many" in headers["mainstem.reason"] or "id" in headers["mainstem.reason"]


def test_the_dead_letter_topic_can_be_named(house, topic):
    house.create(topic)
    house.fill(topic, [b"x"])
    house.read(topic, format="json", schema="id INT", deadLetterTopic=f"{topic}-bad").collect()
    assert house.read(f"{topic}-bad").count() == 1


def test_csv_becomes_typed_columns(house, topic):
    house.create(topic)
    house.fill(topic, [b'1,"Smith, Joe",2.5', b"2,,", b"x,y,z", b"3,Ann,4"])
    frame = house.read(topic, format="csv", schema="id INT, name STRING, amount DOUBLE")
    assert sorted(tuple(row) for row in frame.collect()) == [
        (1, "Smith, Joe", 2.5),
        (2, None, None),
        (3, "Ann", 4.0),
    ]
    assert house.read(f"{topic}.dead").count() == 1
    house.fill(topic, [b"4;Eve;1"])
    start = {"startingOffsets": f'{{"{topic}": {{"0": 4}}}}'}
    frame = house.read(
        topic, format="csv", schema="id INT, name STRING, amount DOUBLE", delimiter=";", **start
    )
    assert [tuple(row) for row in frame.collect()] == [(4, "Eve", 1.0)]


def test_text_is_a_string_and_must_be_one(house, topic):
    house.create(topic)
    house.fill(topic, ["grüezi".encode(), b"\xff\xfe", b""])
    assert sorted(row.value for row in house.read(topic, format="text").collect()) == ["", "grüezi"]
    assert house.read(f"{topic}.dead").count() == 1


def test_a_type_that_cannot_be_read_is_named(house, topic):
    house.create(topic)
    with pytest.raises(PySparkException, match="map<string, int32> cannot be read from json; use STRING"):
        house.read(topic, format="json", schema="a MAP<STRING, INT>").collect()


def test_without_a_schema_it_is_told_from_a_sample(house, topic):
    house.create(topic, 2)
    house.fill(
        topic, [b'{"id": 1, "a": {"b": [true]}}', b"junk", b'{"id": 2.5, "at": "2024-05-01T10:00:00Z"}'], 1
    )
    frame = house.read(topic, format="json")
    assert frame.dtypes == [("id", "double"), ("a", "struct<b:array<boolean>>"), ("at", "timestamp")]
    assert sorted(row.id for row in frame.collect()) == [1.0, 2.5]


def test_an_empty_topic_tells_no_schema(house, topic):
    house.create(topic)
    with pytest.raises(PySparkException, match="there is no JSON to tell it from"):
        house.read(topic, format="json").collect()
