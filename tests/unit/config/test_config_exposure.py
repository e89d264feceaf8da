from __future__ import annotations

import pytest

from mainstem.config import (
    Endpoint,
    check_exposure,
    denies_by_default,
    is_loopback,
    load,
    mechanisms_offered,
)
from mainstem.model.errors import InvalidConfig

pytestmark = pytest.mark.usefixtures("nothing_planned")
TLS = {"security.tls_cert_file": "c.pem", "security.tls_key_file": "k.pem", "security.tls_ca_file": "ca.pem"}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_login(host):
    assert is_loopback(host)
    where = f"[{host}]:9092" if ":" in host else f"{host}:9092"
    check_exposure(load({"server.listen": f"kafka={where}"}, {}))


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "[::]", "broker.example", "localhost.example"])
def test_beyond_loopback_nothing_listens_without_authentication(host):
    with pytest.raises(InvalidConfig, match="security.authentication"):
        check_exposure(load({"server.listen": f"kafka={host}:9092"}, {}))


def test_beyond_loopback_is_fine_once_people_log_in():
    check_exposure(load({"server.listen": "kafka=0.0.0.0:9092", "security.authentication": "required"}, {}))


def test_required_authentication_that_nobody_can_pass_is_refused():
    closed = {"security.authentication": "required", "security.sasl_mechanisms": ""}
    with pytest.raises(InvalidConfig, match="nobody could log in"):
        check_exposure(load({"server.listen": "kafka=0.0.0.0:9092", **closed}, {}))
    with_certificates = {"server.listen": "kafka+tls=0.0.0.0:9093", "security.tls_client_auth": "required"}
    check_exposure(load({**with_certificates, **closed, **TLS}, {}))


def test_plain_alone_is_no_login_over_an_open_network():
    only = {"security.authentication": "required", "security.sasl_mechanisms": "PLAIN"}
    with pytest.raises(InvalidConfig, match="PLAIN is for"):
        check_exposure(load({"server.listen": "kafka=0.0.0.0:9092", **only}, {}))
    check_exposure(load({"server.listen": "kafka+tls=0.0.0.0:9093", **only, **TLS}, {}))
    check_exposure(load({"server.listen": "kafka=127.0.0.1:9092", **only}, {}))


@pytest.mark.parametrize(
    ("listener", "host", "offered"),
    [("kafka", "127.0.0.1", True), ("kafka", "0.0.0.0", False), ("kafka+tls", "0.0.0.0", True)],
)
def test_plain_is_offered_where_the_password_is_safe(listener, host, offered):
    mechanisms = ("SCRAM-SHA-512", "PLAIN")
    found = mechanisms_offered(mechanisms, listener, Endpoint(host, 9092))
    assert found == (mechanisms if offered else ("SCRAM-SHA-512",))


def test_http_beyond_loopback_needs_a_token():
    beyond = {"server.listen": "http=0.0.0.0:9640", "security.authentication": "required"}
    with pytest.raises(InvalidConfig, match="http_token_file"):
        check_exposure(load(beyond, {}))
    check_exposure(load({**beyond, "security.http_token_file": "token"}, {}))


@pytest.mark.parametrize(
    ("authentication", "acl_default", "denies"),
    [("off", "auto", False), ("required", "auto", True), ("off", "deny", True), ("required", "allow", False)],
)
def test_acls_deny_by_default_once_people_log_in(authentication, acl_default, denies):
    flags = {"security.authentication": authentication, "security.acl_default": acl_default}
    assert denies_by_default(load(flags, {})) is denies
