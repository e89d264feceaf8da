"""Topics and their settings, changed from outside: one function per wish."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mainstem.client import codes
from mainstem.client.client import Client
from mainstem.client.cluster import TopicPartition
from mainstem.wire.kafka.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    IncrementalAlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResource,
    IncrementalAlterConfigsResponse,
)
from mainstem.wire.kafka.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

TOPIC, BROKER = 2, 4  # kinds of resource that have settings
SET, DELETE = 0, 1
BROKER_DEFAULT = -1
_SOURCES = {1: "topic", 2: "broker", 3: "brokers", 4: "file", 5: "default", 8: "group"}


@dataclass(frozen=True, slots=True)
class ConfigValue:
    name: str
    value: str | None
    source: str  # topic: set there; else where the value comes from
    is_read_only: bool


def create_topic(
    client: Client,
    name: str,
    partitions: int = BROKER_DEFAULT,
    configs: Mapping[str, str] | None = None,
    *,
    dry_run: bool = False,
) -> int:
    """Make a topic; the number of its partitions (-1: the broker did not say)."""
    topic = CreatableTopic(
        name,
        partitions,
        BROKER_DEFAULT,
        [],
        [CreatableTopicConfig(key, value) for key, value in (configs or {}).items()],
    )
    request = CreateTopicsRequest([topic], _timeout_ms(client), dry_run)
    (result,) = client.ask(request, CreateTopicsResponse, again=False).topics
    codes.check(result.error_code, f"topic {name!r}", result.error_message)
    return result.num_partitions


def delete_topic(client: Client, name: str) -> None:
    request = DeleteTopicsRequest([DeleteTopicState(name)], [name], _timeout_ms(client))
    (result,) = client.ask(request, DeleteTopicsResponse, again=False).responses
    codes.check(result.error_code, f"topic {name!r}", result.error_message)


def add_partitions(client: Client, name: str, total: int) -> None:
    request = CreatePartitionsRequest([CreatePartitionsTopic(name, total, None)], _timeout_ms(client))
    (result,) = client.ask(request, CreatePartitionsResponse, again=False).results
    codes.check(result.error_code, f"topic {name!r}", result.error_message)


def configs_of(client: Client, kind: int, name: str) -> list[ConfigValue]:
    """Every setting of a topic or broker, by name."""
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name, None)])
    (result,) = client.ask(request, DescribeConfigsResponse).results
    codes.check(result.error_code, name, result.error_message)
    found = [
        ConfigValue(one.name, one.value, _SOURCES.get(one.config_source, "other"), one.read_only)
        for one in result.configs
    ]
    return sorted(found, key=lambda config: config.name)


def change_configs(
    client: Client, kind: int, name: str, values: Mapping[str, str], unset: Iterable[str] = ()
) -> None:
    """Set some settings, and give others back their default."""
    changes = [IncrementalAlterableConfig(key, SET, value) for key, value in values.items()]
    changes += [IncrementalAlterableConfig(key, DELETE, None) for key in unset]
    request = IncrementalAlterConfigsRequest([IncrementalAlterConfigsResource(kind, name, changes)])
    (result,) = client.ask(request, IncrementalAlterConfigsResponse, again=False).responses
    codes.check(result.error_code, name, result.error_message)


def delete_records(client: Client, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Delete what lies before these offsets (-1: everything); the new first offsets."""
    firsts: dict[TopicPartition, int] = {}
    for leader, places in client.by_leader(before).items():
        topics: dict[str, list[DeleteRecordsPartition]] = {}
        for place in places:
            topics.setdefault(place.topic, []).append(DeleteRecordsPartition(place.partition, before[place]))
        wanted = [DeleteRecordsTopic(topic, parts) for topic, parts in topics.items()]
        request = DeleteRecordsRequest(wanted, _timeout_ms(client))
        for topic in client.ask(request, DeleteRecordsResponse, node=leader).topics:
            for one in topic.partitions:
                place = TopicPartition(topic.name, one.partition_index)
                codes.check(one.error_code, str(place))
                firsts[place] = one.low_watermark
    return firsts


def topic_names(client: Client, *, internal: bool = False) -> Sequence[str]:
    topics = client.cluster().topics.values()
    return sorted(topic.name for topic in topics if internal or not topic.is_internal)


def _timeout_ms(client: Client) -> int:
    return int(client.settings.request_timeout_s * 1000)
