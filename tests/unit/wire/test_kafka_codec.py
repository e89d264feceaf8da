"""The compiled codec: round trips, truncation, hostile lengths, version rules."""

from __future__ import annotations

import struct

import pytest
from kafka_samples import messages, specs_and_versions

from mainstem.model.errors import InvalidRequest
from mainstem.wire.kafka import codec
from mainstem.wire.kafka.api_versions import ApiVersionsRequest, ApiVersionsResponse, FinalizedFeatureKey
from mainstem.wire.kafka.apis import SPECS
from mainstem.wire.kafka.consumer_groups import ConsumerGroupAssignment, ConsumerGroupHeartbeatResponse
from mainstem.wire.kafka.consumer_protocol import ConsumerProtocolSubscription, TopicPartition
from mainstem.wire.kafka.group_offsets import OffsetCommitRequest, OffsetFetchRequest, OffsetFetchRequestTopic
from mainstem.wire.kafka.groups import JoinGroupRequest
from mainstem.wire.kafka.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from mainstem.wire.kafka.schema import BYTES, INT32, STRING, Message, array, wire

EVERY = [
    pytest.param(cls, version, id=f"{cls.__name__}-{version}")
    for spec, version in specs_and_versions()
    for cls in (spec.request, spec.response)
]


@pytest.mark.parametrize(("cls", "version"), EVERY)
def test_encoding_in_steps_makes_the_same_bytes(cls, version):
    for message in messages(cls, version):
        out = bytearray()
        for _ in codec.encoder_in_steps(cls, version)(message, out):
            pass
        assert bytes(out) == codec.encode(message, version)


@pytest.mark.parametrize(("cls", "version"), EVERY)
def test_what_is_encoded_decodes_to_itself(cls, version):
    for message in messages(cls, version):
        data = codec.encode(message, version)
        assert codec.decoder(cls, version)(data, 0) == (message, len(data))
        shifted = memoryview(b"\x01\x02" + data + b"\x03")
        assert codec.decoder(cls, version)(shifted, 2) == (message, 2 + len(data))


@pytest.mark.parametrize(("cls", "version"), EVERY)
def test_a_message_cut_anywhere_is_an_invalid_request_that_names_it(cls, version):
    decode = codec.decoder(cls, version)
    for message in messages(cls, version, count=1):
        data = codec.encode(message, version)
        for cut in range(len(data)):
            with pytest.raises(InvalidRequest, match=f"{cls.__name__} v{version}: "):
                decode(memoryview(data)[:cut], 0)


def test_fields_of_other_versions_are_dropped_and_come_back_as_defaults():
    request = MetadataRequest(
        topics=[MetadataRequestTopic(topic_id=b"i" * 16, name="t")], allow_auto_topic_creation=False
    )
    old = codec.decode(MetadataRequest, 1, codec.encode(request, 1))
    assert old == MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True)


def test_list_defaults_are_not_shared():
    first, second = MetadataResponse(), MetadataResponse()
    first.topics.append("x")  # type: ignore[arg-type]
    assert second.topics == []


def test_a_huge_array_count_is_refused_before_memory_is_spent():
    data = struct.pack(">i", 2**31 - 1)
    with pytest.raises(
        InvalidRequest, match=r"MetadataRequest v1: MetadataRequest\.topics: count 2147483647"
    ):
        codec.decode(MetadataRequest, 1, data)


def test_a_huge_compact_count_is_refused_before_memory_is_spent():
    with pytest.raises(InvalidRequest, match=r"MetadataRequest\.topics: count 4294967294"):
        codec.decode(MetadataRequest, 12, b"\xff\xff\xff\xff\x0f" + bytes(20))


def test_counts_are_held_against_the_smallest_element():
    # 13 topics of at least 2 bytes each cannot be in 24 bytes.
    with pytest.raises(InvalidRequest, match="count 13"):
        codec.decode(MetadataRequest, 0, struct.pack(">i", 13) + bytes(24))


@pytest.mark.parametrize("length", [-2, -(2**15)])
def test_a_negative_length_is_refused(length):
    with pytest.raises(InvalidRequest, match=r"JoinGroupRequest\.group_id: length -"):
        codec.decode(JoinGroupRequest, 0, struct.pack(">h", length) + bytes(30))


def test_null_is_refused_where_it_is_not_allowed():
    with pytest.raises(InvalidRequest, match=r"MetadataRequest\.topics: length -1"):
        codec.decode(MetadataRequest, 0, struct.pack(">i", -1))
    assert codec.decode(MetadataRequest, 1, struct.pack(">i", -1)) == MetadataRequest(topics=None)


def test_a_varint_of_more_than_five_bytes_is_refused():
    with pytest.raises(InvalidRequest, match="varint is longer than 5 bytes"):
        codec.decode(MetadataRequest, 12, b"\x80\x80\x80\x80\x80\x01" + bytes(9))


def test_text_that_is_not_utf8_is_refused():
    with pytest.raises(InvalidRequest, match=r"OffsetCommitRequest\.group_id: not UTF-8"):
        codec.decode(OffsetCommitRequest, 2, b"\x00\x01\xff" + bytes(40))


def test_unknown_tagged_fields_are_ignored():
    data = codec.encode(ApiVersionsRequest("librdkafka", "2.6"), 3)
    assert data[-1] == 0
    tagged = data[:-1] + b"\x02" + b"\x07\x03abc" + b"\xc8\x01\x00"
    assert codec.decoder(ApiVersionsRequest, 3)(tagged, 0) == (
        ApiVersionsRequest("librdkafka", "2.6"),
        len(tagged),
    )


def test_a_tagged_field_whose_size_lies_is_refused():
    data = codec.encode(ApiVersionsResponse(finalized_features_epoch=5), 3)
    assert data.endswith(b"\x01\x01\x08" + bytes(7) + b"\x05")
    with pytest.raises(InvalidRequest, match="announced size"):
        codec.decode(ApiVersionsResponse, 3, data.replace(b"\x01\x01\x08", b"\x01\x01\x07"))
    with pytest.raises(InvalidRequest, match="length 9"):
        codec.decode(ApiVersionsResponse, 3, data.replace(b"\x01\x01\x08", b"\x01\x01\x09"))


def test_tagged_fields_are_sent_in_tag_order_and_only_if_set():
    plain = codec.encode(ApiVersionsResponse(), 3)
    assert plain == b"\x00\x00\x01\x00\x00\x00\x00\x00"
    feature = FinalizedFeatureKey("group.version", max_version_level=1, min_version_level=1)
    full = ApiVersionsResponse(finalized_features_epoch=0, finalized_features=[feature])
    assert codec.encode(full, 3)[7:] == (
        b"\x02"
        + b"\x01\x08" + bytes(8)
        + b"\x02\x14" + b"\x02\x0egroup.version\x00\x01\x00\x01\x00"
    )  # fmt: skip


def test_a_nullable_struct_has_a_presence_byte():
    absent = codec.encode(ConsumerGroupHeartbeatResponse(), 0)
    present = codec.encode(ConsumerGroupHeartbeatResponse(assignment=ConsumerGroupAssignment()), 0)
    assert absent[-2:] == b"\xff\x00"
    assert present[-4:] == b"\x01\x01\x00\x00"


def test_the_embedded_consumer_protocol_is_never_flexible():
    owned = [TopicPartition("t", [0, 1])]
    subscription = ConsumerProtocolSubscription(["t"], b"me", owned_partitions=owned, generation_id=3)
    data = codec.encode(subscription, 2)
    assert data.startswith(b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x02me")
    assert codec.decode(ConsumerProtocolSubscription, 2, data) == subscription


class Inner(Message):
    names: list[str] = wire(array(STRING), nullable=1)


class Outer(Message, flexible_since=2):
    size: int = wire(INT32)
    n: int = wire(INT32, since=1)
    inner: Inner = wire(Inner)
    pos: bytes | None = wire(BYTES, nullable=0, default=None)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_field_names_cannot_meet_those_of_the_generated_code(version):
    message = Outer(size=7, n=8 if version else 0, inner=Inner(["a", "b"]), pos=b"z")
    assert codec.decode(Outer, version, codec.encode(message, version)) == message


def test_a_struct_default_is_made_for_each_message():
    assert Outer().inner is not Outer().inner
    assert repr(Outer(1)) == "Outer(size=1, n=0, inner=Inner(names=[]), pos=None)"
    assert Outer() != Inner()


def test_every_class_declares_the_flexible_versions_of_its_api():
    for spec in SPECS.values():
        assert spec.request.FLEXIBLE_SINCE == spec.response.FLEXIBLE_SINCE == spec.flexible_since


def test_a_message_with_more_elements_in_all_than_are_allowed_is_refused():
    """Elements of every array count: two topics with two partitions each are six."""
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])] * 2
    data = codec.encode(OffsetFetchRequest(group_id="g", topics=topics), 7)
    message, _ = codec.decoder(OffsetFetchRequest, 7, 6)(data, 0)
    assert message.topics == topics
    with pytest.raises(InvalidRequest, match="partition_indexes: its arrays hold more"):
        codec.decoder(OffsetFetchRequest, 7, 5)(data, 0)
