"""Small pieces of running pipelines, without Spark."""

from datetime import UTC, datetime

import pytest

from mainstem.cli.pipeline_files import hidden
from mainstem.pipeline.declare import Message
from mainstem.pipeline.failures import reason
from mainstem.pipeline.per_message import _caller

AT = datetime(2031, 5, 4, 12, tzinfo=UTC)


def call(function, topic="rest"):
    return _caller(function, topic)(b"k", b"v", [("h", b"1")], "orders", 0, 7, AT)


def test_a_function_of_messages_sends_on_drops_multiplies_and_routes():
    assert call(lambda message: message) == [(b"k", b"v", "rest", [("h", b"1")], AT)]
    assert call(lambda message: None) == []
    assert [row[2] for row in call(lambda message: [message, message.to("eu")])] == ["rest", "eu"]


def test_a_new_message_goes_to_the_topic_of_the_decorator_with_its_own_time():
    ((key, value, topic, headers, at),) = call(lambda message: Message(b"a", b"b", timestamp_ms=1_000))
    assert (key, value, topic, headers) == (b"a", b"b", "rest", [])
    assert at == datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)


def test_what_a_function_of_messages_may_not_return_is_told():
    with pytest.raises(
        RuntimeError, match="offset 7 of partition 0 of orders: TypeError: .* returns Message"
    ):
        call(lambda message: b"bytes")
    with pytest.raises(RuntimeError, match="nowhere to go"):
        call(lambda message: message, topic="")


@pytest.mark.parametrize(
    "line",
    [
        "url = 'postgresql://ann:hunter2@db/shop'",
        "url = 'jdbc:postgresql://db/shop?user=u&password=hunter2'",
        "password = 'hunter2', dbtable = 'x'",
        "kafka.sasl.password = 'hunter2'",
        "url = 'jdbc:oracle:thin:scott/hunter2@//db:1521/x'",
    ],
)
def test_passwords_are_hidden_and_lines_keep_their_length(line):
    assert "hunter2" not in hidden(line)
    assert len(hidden(line)) == len(line)


def test_of_an_error_of_spark_only_the_line_that_helps_is_told():
    text = "[STREAM_FAILED] Query [id = 1] terminated\nTraceback (most recent call last):\n  File x\n"
    assert reason(Exception(text + "mainstem.model.errors.DataLost: gone\n SQLSTATE: 38000")) == "gone"
    assert reason(Exception(text + "ValueError: too small\n")) == "ValueError: too small"
    java = "An error occurred while calling o111.start.\n: java.lang.NoSuchMethodError: 'void x()'\n\tat y"
    assert reason(Exception(java)) == "java.lang.NoSuchMethodError: 'void x()'"
    assert reason(Exception("[X] no such thing. SQLSTATE: 42703;\n'Project [...]")) == "[X] no such thing."
