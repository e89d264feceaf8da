"""How topics are read for a query: as little of them as it asks for, and without an effect on any."""

from mainstem.client import TopicPartition
from mainstem.pipeline.adhoc import TopicPlan
from mainstem.pipeline.adhoc_views import LARGE, Reach, read_options, view_columns

BROKER = {"kafka.bootstrap.servers": "one:9092"}
ORDERS = {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 0}


def options(plan, **reach):
    return read_options(plan, Reach(BROKER, **reach))


def test_fields_are_parsed_and_bad_records_stay_where_they_are():
    plan = TopicPlan("orders", "json", {"id": "BIGINT", "a b": "STRING"}, ("_key", "_offset"))

    found = options(plan)

    assert found["kafka.bootstrap.servers"] == "one:9092"
    assert found["schema"] == "`id` BIGINT, `a b` STRING"
    assert found["metadata"] == "key, offset"
    assert found["badRecords"] == "null"
    assert found["isolationLevel"] == "read_committed"
    assert view_columns(plan) == [
        "`id`",
        "`a b`",
        "make_valid_utf8(CAST(_key AS STRING)) AS _key",
        "_offset AS _offset",
    ]


def test_values_are_not_even_parsed_where_no_field_is_asked_for():
    count = TopicPlan("orders", "json", {}, ())
    times = TopicPlan("orders", "json", {}, ("_timestamp",))

    assert "format" not in options(count)
    assert options(count)["columns"] == "offset"
    assert view_columns(count) == ["offset AS _offset"]
    assert options(times)["columns"] == "timestamp"
    assert view_columns(times) == ["`timestamp` AS _timestamp"]


def test_text_is_read_as_bytes_once_even_if_it_has_two_names():
    plan = TopicPlan("log", "text", {"value": "STRING"}, ("_value",))

    assert options(plan)["columns"] == "value"
    assert [column.split(" AS ")[-1] for column in view_columns(plan)] == ["value", "_value"]


def test_a_topic_is_read_from_where_to_where_it_was_asked_for():
    ends = {place: at + 10 for place, at in ORDERS.items()} | {TopicPartition("other", 0): 7}

    found = options(TopicPlan("orders", "json", {}, ()), starts=ORDERS, ends=ends, committed=False)

    assert found["startingOffsets"] == '{"orders": {"0": 5, "1": 0}}'
    assert found["endingOffsets"] == '{"orders": {"0": 15, "1": 10}}'
    assert found["isolationLevel"] == "read_uncommitted"


def test_a_long_topic_is_shared_among_the_cores():
    plan = TopicPlan("orders", "json", {}, ())
    short = {place: at + 10 for place, at in ORDERS.items()}
    long = {place: at + LARGE for place, at in ORDERS.items()}

    assert "minPartitions" not in options(plan, starts=ORDERS, ends=short, parallel=8)
    assert options(plan, starts=ORDERS, ends=long, parallel=8)["minPartitions"] == "8"
