"""Settings of topics, brokers and groups.

Resource types: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group. Operations of
IncrementalAlterConfigs: 0 set, 1 delete, 2 append, 3 subtract. Sources: 1 topic, 2 this broker, 3 all
brokers, 4 static, 5 default, 6 logger, 7 client metrics, 8 group.
"""

from __future__ import annotations

from mainstem.wire.kafka.schema import BOOL, INT8, INT16, INT32, STRING, Message, array, wire


class DescribeConfigsResource(Message):
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configuration_keys: list[str] | None = wire(array(STRING), nullable=0)


class DescribeConfigsRequest(Message, flexible_since=4):
    """Null keys means all settings of the resource."""

    resources: list[DescribeConfigsResource] = wire(array(DescribeConfigsResource))
    include_synonyms: bool = wire(BOOL, since=1)
    include_documentation: bool = wire(BOOL, since=3)


class DescribeConfigsSynonym(Message):
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable=0)
    source: int = wire(INT8)


class DescribeConfigsResourceResult(Message):
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable=0)
    read_only: bool = wire(BOOL)
    is_default: bool = wire(BOOL, until=0)
    config_source: int = wire(INT8, since=1, default=-1)
    is_sensitive: bool = wire(BOOL)
    synonyms: list[DescribeConfigsSynonym] = wire(array(DescribeConfigsSynonym), since=1)
    config_type: int = wire(INT8, since=3)
    documentation: str | None = wire(STRING, since=3, nullable=0, default=None)


class DescribeConfigsResult(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: list[DescribeConfigsResourceResult] = wire(array(DescribeConfigsResourceResult))


class DescribeConfigsResponse(Message, flexible_since=4):
    throttle_time_ms: int = wire(INT32)
    results: list[DescribeConfigsResult] = wire(array(DescribeConfigsResult))


class AlterableConfig(Message):
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable=0)


class AlterConfigsResource(Message):
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: list[AlterableConfig] = wire(array(AlterableConfig))


class AlterConfigsRequest(Message, flexible_since=2):
    """Replaces all settings of a resource; IncrementalAlterConfigs changes single ones."""

    resources: list[AlterConfigsResource] = wire(array(AlterConfigsResource))
    validate_only: bool = wire(BOOL)


class AlterConfigsResourceResponse(Message):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable=0, default=None)
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)


class AlterConfigsResponse(Message, flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    responses: list[AlterConfigsResourceResponse] = wire(array(AlterConfigsResourceResponse))


class IncrementalAlterableConfig(Message):
    name: str = wire(STRING)
    config_operation: int = wire(INT8)
    value: str | None = wire(STRING, nullable=0)


class IncrementalAlterConfigsResource(Message):
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: list[IncrementalAlterableConfig] = wire(array(IncrementalAlterableConfig))


class IncrementalAlterConfigsRequest(Message, flexible_since=1):
    resources: list[IncrementalAlterConfigsResource] = wire(array(IncrementalAlterConfigsResource))
    validate_only: bool = wire(BOOL)


class IncrementalAlterConfigsResponse(Message, flexible_since=1):
    throttle_time_ms: int = wire(INT32)
    responses: list[AlterConfigsResourceResponse] = wire(array(AlterConfigsResourceResponse))


class ListConfigResourcesRequest(Message, flexible_since=0):
    resource_types: list[int] = wire(array(INT8), since=1)


class ConfigResource(Message):
    resource_name: str = wire(STRING)
    resource_type: int = wire(INT8, since=1, default=16)


class ListConfigResourcesResponse(Message, flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    config_resources: list[ConfigResource] = wire(array(ConfigResource))
