"""Spark reads from a broker that asks who is there, over TLS."""

import pytest
import trustme
from pyspark.errors import PySparkException

from mainstem.client import Client, ClientSettings, Sasl, Tls, TopicPartition, admin, parse_bootstrap
from mainstem.model.records import Record, encode_batch
from mainstem.testing import Broker

LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="%s";'


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issued = authority.issue_cert("localhost", "127.0.0.1")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    issued.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    (folder / "users.toml").write_text('[users]\nadmin = "secret"\n')
    settings = {
        "security.authentication": "required",
        "security.users_file": str(folder / "users.toml"),
        "security.superusers": "admin",
        "security.tls_cert_file": str(folder / "cert.pem"),
        "security.tls_key_file": str(folder / "key.pem"),
    }
    with Broker(settings, listen={"kafka+tls": "127.0.0.1:0"}, process=True) as broker:
        address, ca = broker.listening["kafka+tls"], str(folder / "ca.pem")
        with Client(
            ClientSettings(parse_bootstrap(address), tls=Tls(ca_file=ca), sasl=Sasl("admin", "secret"))
        ) as client:
            admin.create_topic(client, "orders", 1)
            client.produce({TopicPartition("orders", 0): encode_batch([Record(0, 1, None, b"v")] * 10)})
        yield {
            "kafka.bootstrap.servers": address,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.ssl.truststore.location": ca,
            "kafka.ssl.truststore.type": "PEM",
            "subscribe": "orders",
        }


def test_a_user_with_the_password_reads(spark, guarded):
    login = {"kafka.sasl.jaas.config": LOGIN % "secret"}
    assert spark.read.format("mainstem").options(**guarded, **login).load().count() == 10


def test_a_wrong_password_is_told(spark, guarded):
    login = {"kafka.sasl.jaas.config": LOGIN % "guess"}
    with pytest.raises(PySparkException, match="(?i)authentication|password"):
        spark.read.format("mainstem").options(**guarded, **login).load().count()
