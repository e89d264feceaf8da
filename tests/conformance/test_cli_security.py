"""The flags that commands log in with."""

import pytest
from click.testing import CliRunner
from security_house import PASSWORDS, Files, guarded

from mainstem.cli.main import cli


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("flags"))


@pytest.fixture(scope="module")
def broker(files):
    with guarded(files) as running:
        yield running


@pytest.fixture
def run(monkeypatch):
    for name in ("MAINSTEM_USER", "MAINSTEM_PASSWORD", "MAINSTEM_TLS_CA", "MAINSTEM_BOOTSTRAP"):
        monkeypatch.delenv(name, raising=False)

    def run_command(*words, code=0):
        result = CliRunner().invoke(cli, [str(word) for word in words])
        assert result.exit_code == code, result.output
        return result.output

    return run_command


@pytest.fixture
def password(tmp_path):
    (tmp_path / "password").write_text(PASSWORDS["admin"] + "\n")
    return tmp_path / "password"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "scram-sha-256", "PLAIN"])
def test_a_user_logs_in_over_tls(run, broker, files, password, mechanism):
    where = broker.listening["kafka+tls"]
    user = ("--user", "admin", "--password-file", password, "--mechanism", mechanism)
    run("topic", "ls", "-b", where, "--tls-ca", files.ca, *user)


def test_a_certificate_of_ones_own_is_shown(run, broker, files, password):
    where = broker.listening["kafka+tls"]
    own = ("--tls-cert", files.client_cert, "--tls-key", files.client_key)
    run("topic", "ls", "-b", where, "--tls-ca", files.ca, *own)


def test_a_wrong_password_is_told(run, broker, tmp_path):
    (tmp_path / "wrong").write_text("wrong")
    text = run(
        "topic", "ls", "-b", broker.kafka, "--user", "admin", "--password-file", tmp_path / "wrong", code=1
    )
    assert "'admin' was not let in" in text


def test_an_unknown_authority_is_told(run, broker, password):
    where = broker.listening["kafka+tls"]
    text = run("topic", "ls", "-b", where, "--tls", "--user", "admin", "--password-file", password, code=1)
    assert "TLS with" in text
    assert "certificate" in text


def test_forgetting_tls_or_using_it_where_there_is_none_is_told(run, broker, files, password):
    where = broker.listening["kafka+tls"]
    user = ("--user", "admin", "--password-file", password)
    assert "TLS" in run("topic", "ls", "-b", where, *user, code=1)
    assert "TLS with" in run("topic", "ls", "-b", broker.kafka, "--tls-ca", files.ca, *user, code=1)


def test_files_that_are_no_certificates_are_a_wrong_request(run, broker, password):
    where = broker.listening["kafka+tls"]
    assert "cannot use the certificates" in run("topic", "ls", "-b", where, "--tls-ca", password, code=2)
    assert "cannot use the certificates" in run("topic", "ls", "-b", where, "--tls-ca", "nowhere.pem", code=2)


def test_without_a_login_a_broker_that_asks_for_one_refuses(run, broker):
    run("topic", "ls", "-b", broker.kafka, code=1)
