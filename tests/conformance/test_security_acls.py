"""Rules that are enforced: every API's refusal, and rules managed by the clients' own admin tools."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from security_house import Files, client, guarded, librdkafka

from mainstem.client import TopicPartition
from mainstem.client.admin import create_topic
from mainstem.model.errors import AuthenticationFailed, BrokerRefused
from mainstem.model.record import Record
from mainstem.model.records import encode_batch
from mainstem.testing import Broker
from mainstem.wire.kafka import acls, groups, offsets, quotas, sasl, tokens, transactions
from mainstem.wire.kafka.group_admin import DescribeGroupsRequest, DescribeGroupsResponse
from mainstem.wire.kafka.group_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, SECURITY_DISABLED = 29, 30, 31, 53, 54
UNSUPPORTED, TOKENS_DISABLED, NOT_FOUND, DUPLICATE, UNACCEPTABLE = 35, 61, 91, 92, 93
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("rules"))


@pytest.fixture
def broker(files):
    with guarded(files) as broker:
        yield broker


@pytest.fixture
def admin(broker, files):
    return AdminClient(librdkafka(broker, files))


@pytest.fixture
def alice(broker):
    with client(broker, "alice") as alice:
        yield alice


def rule(name, operation, *, kind=ResourceType.TOPIC, who="User:alice", pattern=LITERAL, permission=ALLOW):
    return AclBinding(kind, name, pattern, who, "*", getattr(AclOperation, operation), permission)


def set_rules(admin, *rules):
    for done in admin.create_acls(list(rules), request_timeout=30).values():
        done.result()


def make_topic(broker, *names):
    with client(broker) as one:
        one.cluster(names, create=True)


def write(one, topic):
    return one.produce({TopicPartition(topic, 0): encode_batch([Record(0, 1, None, b"x", ())])})


def refusal(call, *arguments):
    with pytest.raises(BrokerRefused) as refused:
        call(*arguments)
    return refused.value.code


def may_write(one, topic):
    """False only for want of a right; anything else that goes wrong is raised."""
    try:
        write(one, topic)
    except BrokerRefused as refused:
        if refused.code != TOPIC:
            raise
        return False
    return True


# --- what is refused, and how ---------------------------------------------------------------------


def test_a_topic_one_may_not_see_is_refused_by_name_and_left_out_of_lists(broker, admin, alice):
    make_topic(broker, "hidden", "open")
    set_rules(admin, rule("open", "DESCRIBE"))
    assert set(alice.cluster().topics) == {"open"}
    named = alice.cluster(["hidden", "open", "no-such"]).topics
    assert {name: topic.error_code for name, topic in named.items()} == {
        "hidden": TOPIC,
        "open": 0,
        "no-such": TOPIC,
    }


def test_reading_writing_and_asking_for_offsets_need_their_own_right(broker, admin, alice):
    make_topic(broker, "seen")
    set_rules(admin, rule("seen", "DESCRIBE"))
    assert refusal(write, alice, "seen") == TOPIC
    (fetched,) = alice.fetch({TopicPartition("seen", 0): 0}, max_wait_ms=0)
    assert fetched.error_code == TOPIC
    assert alice.offsets({TopicPartition("seen", 0): -1})
    set_rules(admin, rule("seen", "READ"), rule("seen", "WRITE"))
    write(alice, "seen")
    (fetched,) = alice.fetch({TopicPartition("seen", 0): 0}, max_wait_ms=0)
    assert fetched.error_code == 0


def test_a_topic_is_made_only_by_who_may(broker, admin, alice):
    set_rules(admin, rule("mine.", "DESCRIBE", pattern=PREFIXED))
    assert alice.cluster(["mine.a"], create=True).topics["mine.a"].error_code == TOPIC
    assert refusal(create_topic, alice, "mine.b") == TOPIC
    set_rules(admin, rule("mine.", "CREATE", pattern=PREFIXED))
    assert alice.cluster(["mine.a"], create=True).topics["mine.a"].error_code == 0
    assert "mine.a" in client(broker).cluster().topics


def test_groups_need_a_right_of_their_own(admin, alice):
    topic = OffsetCommitRequestTopic("t", partitions=[OffsetCommitRequestPartition(0, 1)])
    commit = OffsetCommitRequest(group_id="g", topics=[topic])

    def answers():
        coordinator = alice.ask(
            groups.FindCoordinatorRequest(key="g", coordinator_keys=["g"]), groups.FindCoordinatorResponse
        )
        joined = alice.ask(
            groups.JoinGroupRequest(
                group_id="g",
                session_timeout_ms=6000,
                rebalance_timeout_ms=6000,
                protocol_type="consumer",
                protocols=[groups.JoinGroupRequestProtocol("range", b"")],
            ),
            groups.JoinGroupResponse,
        )
        described = alice.ask(DescribeGroupsRequest(groups=["g"]), DescribeGroupsResponse)
        committed = alice.ask(commit, OffsetCommitResponse)
        return (
            coordinator.coordinators[0].error_code,
            joined.error_code,
            described.groups[0].error_code,
            committed.topics[0].partitions[0].error_code,
        )

    assert answers() == (GROUP, GROUP, GROUP, GROUP)
    set_rules(admin, rule("g", "READ", kind=ResourceType.GROUP))
    coordinator, joined, described, committed = answers()
    assert (coordinator, joined) == (0, 79)  # 79: join again with the id that was given
    assert described != GROUP
    assert committed == TOPIC  # the group is fine now, the topic is not


def test_transactional_ids_and_idempotence_need_a_right(admin, alice):
    def init(transactional_id):
        request = transactions.InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=1000
        )
        return alice.ask(request, transactions.InitProducerIdResponse).error_code

    assert (init("tx"), init(None)) == (TRANSACTIONAL_ID, CLUSTER)
    set_rules(admin, rule("any", "WRITE"))
    assert (init("tx"), init(None)) == (TRANSACTIONAL_ID, 0)
    set_rules(admin, rule("tx", "WRITE", kind=ResourceType.TRANSACTIONAL_ID))
    assert init("tx") == 0


def test_rules_users_and_quotas_are_managed_by_who_may_alter_the_cluster(admin, alice):
    def codes():
        described = alice.ask(
            acls.DescribeAclsRequest(1, None, 1, None, None, 1, 1), acls.DescribeAclsResponse
        )
        wish = acls.AclCreation(2, "x", 3, "User:alice", "*", 3, 3)
        created = alice.ask(acls.CreateAclsRequest([wish]), acls.CreateAclsResponse)
        wanted = acls.DeleteAclsFilter(1, "none", 1, None, None, 1, 1)
        deleted = alice.ask(acls.DeleteAclsRequest([wanted]), acls.DeleteAclsResponse)
        users = alice.ask(
            sasl.DescribeUserScramCredentialsRequest(users=None), sasl.DescribeUserScramCredentialsResponse
        )
        gone = sasl.ScramCredentialDeletion("nobody", 1)
        altered = alice.ask(
            sasl.AlterUserScramCredentialsRequest(deletions=[gone]), sasl.AlterUserScramCredentialsResponse
        )
        limits = alice.ask(quotas.DescribeClientQuotasRequest(), quotas.DescribeClientQuotasResponse)
        return (
            described.error_code,
            created.results[0].error_code,
            deleted.filter_results[0].error_code,
            users.error_code,
            altered.results[0].error_code,
            limits.error_code,
        )

    assert codes() == (CLUSTER,) * 6
    whole = {"kind": ResourceType.BROKER}
    set_rules(
        admin, rule("kafka-cluster", "ALTER", **whole), rule("kafka-cluster", "DESCRIBE_CONFIGS", **whole)
    )
    assert codes() == (0, 0, 0, 0, NOT_FOUND, 0)


# --- rules in force -------------------------------------------------------------------------------


def test_a_prefix_rule_covers_its_topics_and_a_denial_wins(broker, admin, alice):
    make_topic(broker, "shop.orders", "shop.secret", "other")
    set_rules(
        admin,
        rule("shop.", "WRITE", pattern=PREFIXED),
        rule("shop.secret", "WRITE", permission=DENY),
        rule("shop.secret", "DESCRIBE"),
        rule("other", "DESCRIBE"),
    )
    assert may_write(alice, "shop.orders")
    assert not may_write(alice, "shop.secret")
    assert not may_write(alice, "other")


def test_a_change_holds_at_once_on_open_connections_and_after_a_restart(broker, admin, alice):
    make_topic(broker, "orders")
    set_rules(admin, rule("orders", "DESCRIBE"))
    assert not may_write(alice, "orders")
    set_rules(admin, rule("orders", "WRITE"))
    assert may_write(alice, "orders")
    broker.restart()
    with client(broker, "alice") as again:
        assert may_write(again, "orders")
        wanted = AclBindingFilter(
            ResourceType.TOPIC,
            "orders",
            LITERAL,
            "User:alice",
            None,
            AclOperation.WRITE,
            AclPermissionType.ANY,
        )
        (done,) = admin.delete_acls([wanted], request_timeout=30).values()
        assert [one.operation for one in done.result()] == [AclOperation.WRITE]
        assert not may_write(again, "orders")
    broker.restart()
    with client(broker, "alice") as again:
        assert not may_write(again, "orders")


def test_the_admin_client_finds_the_rules_that_speak_of_a_name(admin):
    rules = {rule("orders", "READ"), rule("ord", "READ", pattern=PREFIXED), rule("*", "READ", who="User:*")}
    set_rules(admin, *rules, rule("payments", "READ"))
    wanted = AclBindingFilter(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.MATCH,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert set(admin.describe_acls(wanted, request_timeout=30).result()) == rules


def test_kafka_python_manages_rules_too(broker, files):
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        KafkaAdminClient,
        ResourcePattern,
        ResourceType,
    )

    admin = KafkaAdminClient(
        bootstrap_servers=broker.listening["kafka+tls"],
        security_protocol="SASL_SSL",
        ssl_cafile=str(files.ca),
        sasl_mechanism="SCRAM-SHA-256",
        sasl_plain_username="admin",
        sasl_plain_password="admin-password",
    )
    try:
        one = ACL(
            principal="User:bob",
            host="*",
            operation=ACLOperation.READ,
            permission_type=ACLPermissionType.ALLOW,
            resource_pattern=ResourcePattern(ResourceType.TOPIC, "orders"),
        )
        assert not admin.create_acls([one])["failed"]
        wanted = ACLFilter(
            principal="User:bob",
            host=None,
            operation=ACLOperation.ANY,
            permission_type=ACLPermissionType.ANY,
            resource_pattern=ResourcePattern(ResourceType.TOPIC, "orders"),
        )
        found, _ = admin.describe_acls(wanted)
        assert [str(acl.principal) for acl in found] == ["User:bob"]
    finally:
        admin.close()


def test_a_certificate_has_the_rights_of_its_subject(broker, files, admin):
    make_topic(broker, "orders")
    set_rules(admin, rule("orders", "WRITE", who="User:CN=orders,OU=Shop,O=Example"))
    told = []
    producer = Producer(
        {
            "bootstrap.servers": broker.listening["kafka+tls"],
            "security.protocol": "SSL",
            "ssl.ca.location": str(files.ca),
            "ssl.certificate.location": str(files.client_cert),
            "ssl.key.location": str(files.client_key),
        }
    )
    for topic in ("orders", "not-mine"):
        producer.produce(topic, b"x", on_delivery=lambda error, _: told.append(error and error.code()))
    assert producer.flush(30) == 0
    assert sorted(told, key=bool) == [None, TOPIC]


def test_confluent_kafka_is_told_which_right_it_lacks(broker, files):
    told = []
    producer = Producer(librdkafka(broker, files, "alice"))
    producer.produce("secret", b"x", on_delivery=lambda error, _: told.append(error.code()))
    assert producer.flush(30) == 0
    assert told == [TOPIC]
    transactional = Producer(librdkafka(broker, files, "alice", **{"transactional.id": "tx"}))
    with pytest.raises(KafkaException) as refused:
        transactional.init_transactions(30)
    assert refused.value.args[0].code() == TRANSACTIONAL_ID


def test_a_consumer_group_needs_its_group_and_its_topic(broker, files, admin):
    make_topic(broker, "orders")
    with client(broker) as one:
        write(one, "orders")
    settings = {"group.id": "billing", "auto.offset.reset": "earliest"}

    def first_answer():
        consumer = Consumer(librdkafka(broker, files, "alice", **settings))
        consumer.subscribe(["orders"])
        try:
            message = consumer.poll(30)
            return message.error().code() if message.error() else message.value()
        finally:
            consumer.close()

    set_rules(admin, rule("orders", "READ"))
    assert first_answer() == GROUP
    set_rules(admin, rule("billing", "READ", kind=ResourceType.GROUP))
    assert first_answer() == b"x"


# --- users, quotas, tokens ------------------------------------------------------------------------


def test_users_are_made_changed_and_removed_by_the_admin_client(broker, admin):
    def alter(*changes):
        return [done.exception() for done in admin.alter_user_scram_credentials(list(changes)).values()]

    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    assert alter(UserScramCredentialUpsertion("carol", info, b"first")) == [None]
    with client(broker, "carol", password="first") as carol:
        assert carol.cluster().nodes
    assert alter(UserScramCredentialUpsertion("carol", info, b"second")) == [None]
    with pytest.raises(AuthenticationFailed):
        client(broker, "carol", password="first").cluster()
    broker.restart()
    client(broker, "carol", password="second").cluster()
    client(broker, "carol", password="second", mechanism="PLAIN").cluster()
    held = admin.describe_user_scram_credentials(["carol"])["carol"].result().scram_credential_infos
    assert [(one.mechanism, one.iterations) for one in held] == [(ScramMechanism.SCRAM_SHA_256, 8192)]
    assert alter(UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_256)) == [None]
    with pytest.raises(AuthenticationFailed):
        client(broker, "carol", password="second").cluster()
    (gone,) = alter(UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_256))
    assert gone.args[0].code() == NOT_FOUND


def test_credentials_that_would_not_protect_are_refused(broker):
    def alter(*upsertions, deletions=()):
        request = sasl.AlterUserScramCredentialsRequest(
            deletions=list(deletions), upsertions=list(upsertions)
        )
        with client(broker) as one:
            return [r.error_code for r in one.ask(request, sasl.AlterUserScramCredentialsResponse).results]

    def wish(name="dan", mechanism=1, iterations=4096):
        return sasl.ScramCredentialUpsertion(name, mechanism, iterations, b"salt", b"salted")

    assert alter(wish(iterations=4095), wish("eve", iterations=16385)) == [UNACCEPTABLE, UNACCEPTABLE]
    assert alter(wish("")) == [UNACCEPTABLE]
    assert alter(wish(mechanism=3)) == [33]
    assert alter(wish(), wish()) == [DUPLICATE]
    assert alter(wish(), deletions=[sasl.ScramCredentialDeletion("dan", 2)]) == [NOT_FOUND]
    with client(broker) as one:
        named = sasl.DescribeUserScramCredentialsRequest(users=[sasl.UserName("dan"), sasl.UserName("alice")])
        answer = one.ask(named, sasl.DescribeUserScramCredentialsResponse)
    assert [(user.user, user.error_code) for user in answer.results] == [("dan", NOT_FOUND), ("alice", 0)]


def test_quotas_and_tokens_are_refused_rather_than_pretended(broker):
    with client(broker) as one:
        assert (
            one.ask(quotas.DescribeClientQuotasRequest(), quotas.DescribeClientQuotasResponse).entries == []
        )
        wish = quotas.QuotaAlteration(
            [quotas.QuotaEntity("user", "alice")], [quotas.QuotaChange("producer_byte_rate", 1.0)]
        )
        (refused,) = one.ask(
            quotas.AlterClientQuotasRequest([wish]), quotas.AlterClientQuotasResponse
        ).entries
        assert refused.error_code == UNSUPPORTED
        assert "not enforced" in refused.error_message
        made = one.ask(tokens.CreateDelegationTokenRequest(), tokens.CreateDelegationTokenResponse)
        assert made.error_code == TOKENS_DISABLED


def test_where_everybody_may_do_everything_there_are_no_rules_to_manage():
    with Broker() as broker, client(broker, None) as one:
        wish = acls.AclCreation(2, "x", 3, "User:alice", "*", 3, 3)
        created = one.ask(acls.CreateAclsRequest([wish]), acls.CreateAclsResponse)
        assert created.results[0].error_code == SECURITY_DISABLED
        found = one.ask(acls.DescribeAclsRequest(1, None, 1, None, None, 1, 1), acls.DescribeAclsResponse)
        assert found.error_code == SECURITY_DISABLED
        assert one.ask(offsets.ListOffsetsRequest(), offsets.ListOffsetsResponse).topics == []


def test_rules_can_be_enforced_without_logins_for_everybody_alike():
    with Broker({"security.acl_default": "deny"}) as broker, client(broker, None) as one:
        assert one.cluster(["orders"], create=True).topics["orders"].error_code == TOPIC


def test_an_allowing_default_ends_where_a_rule_speaks(files):
    with guarded(files, {"security.acl_default": "allow"}) as broker, client(broker, "alice") as alice:
        make_topic(broker, "free", "ruled")
        set_rules(AdminClient(librdkafka(broker, files)), rule("ruled", "WRITE", who="User:bob"))
        assert may_write(alice, "free")
        assert alice.cluster(["ruled"]).topics["ruled"].error_code == TOPIC
        with client(broker, "bob") as bob:
            assert may_write(bob, "ruled")


def test_a_right_taken_away_counts_for_the_next_request_of_a_busy_producer(broker, admin, alice):
    make_topic(broker, "busy")
    set_rules(admin, rule("busy", "DESCRIBE"), rule("busy", "WRITE"))
    for _ in range(4):
        write(alice, "busy")
    set_rules(admin, rule("busy", "WRITE", permission=DENY))
    assert refusal(write, alice, "busy") == TOPIC


def test_a_right_taken_away_counts_for_the_next_request_of_a_busy_consumer(broker, admin, alice):
    make_topic(broker, "busy")
    set_rules(admin, rule("busy", "READ"))
    place = TopicPartition("busy", 0)
    with client(broker) as writer:
        for _ in range(6):
            writer.produce({place: encode_batch([Record(0, 1, None, bytes(200_000), ())])})
    for offset in range(3):
        (fetched,) = alice.fetch({place: offset}, max_wait_ms=0, partition_max_bytes=1)
        assert fetched.error_code == 0
    set_rules(admin, rule("busy", "READ", permission=DENY))
    (fetched,) = alice.fetch({place: 3}, max_wait_ms=0, partition_max_bytes=1)
    assert fetched.error_code == TOPIC
