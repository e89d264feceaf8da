"""The page on Kafka says what the code offers."""

from __future__ import annotations

import re
from pathlib import Path

from mainstem.fronts.kafka.dispatch import MAX_DECODED_BYTES
from mainstem.fronts.kafka.handlers import HANDLERS, HOT_HANDLERS
from mainstem.fronts.kafka.versions import api_versions, offered
from mainstem.wire.kafka.apis import SPECS

PAGE = (Path(__file__).parents[3] / "docs" / "protocols" / "kafka.md").read_text()


def test_the_table_of_versions_is_what_is_offered():
    written = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) to (\d+) \|$", PAGE, re.MULTILINE)
    made = [
        (SPECS[api.api_key].name, str(int(api.api_key)), str(api.min_version), str(api.max_version))
        for api in api_versions(offered(set(HANDLERS) | set(HOT_HANDLERS)))
    ]
    assert written == made


def test_what_is_not_offered_is_named():
    offered_keys = set(HANDLERS) | set(HOT_HANDLERS)
    missing = [spec.name for key, spec in SPECS.items() if key not in offered_keys]
    assert [name for name in missing if name not in PAGE] == []


def test_the_limit_of_requests_that_are_not_produce_is_told():
    assert f"all but Produce: {MAX_DECODED_BYTES >> 20} MiB" in PAGE
