"""Values of flags as people write them."""

import click
import pytest

from mainstem.cli.values import Duration, json_pairs


@pytest.mark.parametrize(
    ("text", "wanted_ms"),
    [("500ms", 500), ("10s", 10_000), ("1.5h", 5_400_000), ("3 d", 259_200_000), ("1w", 604_800_000)],
)
def test_a_duration_has_a_unit(text, wanted_ms):
    assert Duration().convert(text, None, None) == wanted_ms


@pytest.mark.parametrize("text", ["", "10", "s", "-1s", "1y", "1s ago"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(click.BadParameter, match="is no time"):
        Duration().convert(text, None, None)


def test_values_are_json_where_they_are_and_text_where_not():
    texts = ["n=1", "t=true", "s=some text", 'q="1"', "l=[1, 2]", "e=", "eq=a=b"]
    assert json_pairs(texts, "-a") == {
        "n": 1,
        "t": True,
        "s": "some text",
        "q": "1",
        "l": [1, 2],
        "e": "",
        "eq": "a=b",
    }


@pytest.mark.parametrize("text", ["n", "=1", ""])
def test_a_pair_without_a_name_or_value_is_refused(text):
    with pytest.raises(click.UsageError, match="must be NAME=VALUE"):
        json_pairs([text], "-a")
