"""The table from errors to Kafka's codes, and the versions that are offered."""

from __future__ import annotations

import pytest

from mainstem.fronts.kafka.codes import CODES, UNKNOWN_SERVER_ERROR, code_of, text_of
from mainstem.fronts.kafka.handlers import HANDLERS, HOT_HANDLERS, OPEN_BEFORE_LOGIN
from mainstem.fronts.kafka.versions import LIMITS, api_versions, offered
from mainstem.model import errors
from mainstem.wire.kafka.apis import SPECS, ApiKey


def every_error() -> list[type[errors.MainstemError]]:
    return [
        found
        for found in vars(errors).values()
        if isinstance(found, type) and issubclass(found, errors.MainstemError)
    ]


def test_every_error_has_a_code_of_its_own_or_of_an_ancestor_that_has_one():
    for error in every_error():
        ancestors = [cls for cls in error.__mro__ if cls in CODES and cls is not errors.MainstemError]
        assert ancestors or error is errors.MainstemError, f"{error.__name__} would be UNKNOWN_SERVER_ERROR"


def test_codes_are_numbers_that_kafka_has():
    assert all(-1 <= code <= 133 and code != 0 for code in CODES.values())


def test_the_code_of_a_bug_is_unknown_server_error():
    assert code_of(KeyError("x")) == UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("kind", "code"), [("topic", 29), ("group", 30), ("cluster", 31), ("transactional_id", 53)]
)
def test_a_missing_right_has_a_code_by_kind_of_resource(kind, code):
    assert code_of(errors.NotAuthorized("User:a", "read", kind, "x")) == code


def test_a_message_is_cut_to_fit_the_shortest_field():
    assert len(text_of(errors.UnknownTopic("x" * 40_000)).encode()) < 32_767


def test_every_api_that_has_a_handler_is_known_to_the_codec_and_answered_by_one_of_them():
    assert not set(HANDLERS) & set(HOT_HANDLERS)
    assert set(HANDLERS) | set(HOT_HANDLERS) <= set(SPECS)
    assert set(HANDLERS) >= OPEN_BEFORE_LOGIN


def test_what_is_offered_lies_within_what_the_codec_knows():
    for key, (low, high) in offered(set(HANDLERS) | set(HOT_HANDLERS)).items():
        assert SPECS[key].min_version <= low <= high <= SPECS[key].max_version
    assert set(LIMITS) <= set(HANDLERS) | set(HOT_HANDLERS)


def test_produce_is_offered_from_version_0_though_it_is_served_from_3():
    versions = offered({ApiKey.PRODUCE})
    assert versions[ApiKey.PRODUCE][0] == 3
    assert api_versions(versions)[0].min_version == 0
