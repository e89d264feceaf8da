from __future__ import annotations

import json

import pytest
import trustme
from click.testing import CliRunner

from mainstem.cli.main import cli
from mainstem.config import SETTINGS


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *words: CliRunner().invoke(cli, list(words))


def test_show_tells_the_origin_of_each_value(run, tmp_path, monkeypatch):
    (tmp_path / "mainstem.toml").write_text("[topics]\ndefault_partitions = 6\n")
    monkeypatch.setenv("MAINSTEM_LOG__LEVEL", "debug")
    shown = run("config", "show", "--origin", "--data", "/srv/m", "--set", "server.node_id=9").output
    assert 'data = "/srv/m"  # flag --data' in shown
    assert "node_id = 9  # flag --set server.node_id" in shown
    assert 'level = "debug"  # variable MAINSTEM_LOG__LEVEL' in shown
    assert "default_partitions = 6  # file " in shown
    assert "auto_create = true  # default" in shown


def test_show_as_json_has_a_line_per_setting(run):
    lines = [json.loads(line) for line in run("config", "show", "--json").output.splitlines()]
    assert [line["key"] for line in lines] == list(SETTINGS)
    assert lines[0]["variable"] == "MAINSTEM_SERVER__DATA"


def test_listeners_are_given_one_flag_each(run):
    shown = run("config", "show", "--listen", "kafka=127.0.0.1:1", "--listen", "http=127.0.0.1:2").output
    assert 'listen = { "kafka" = "127.0.0.1:1", "http" = "127.0.0.1:2" }' in shown


def test_every_flag_of_a_setting_is_in_the_help(run):
    text = run("config", "show", "--help").output
    for setting in SETTINGS.values():
        if setting.flag:
            assert f"{setting.flag} " in text
            assert f"[{setting.key}]" in text.replace("\n", "")


def test_check_accepts_a_good_file_and_explains_a_bad_one(run, tmp_path):
    good, bad, exposed = (tmp_path / name for name in ("good.toml", "bad.toml", "exposed.toml"))
    good.write_text("[log]\nlevel = 'debug'\n")
    bad.write_text("[log]\nlevle = 'debug'\n")
    exposed.write_text("[server.listen]\nkafka = '0.0.0.0:9092'\n")
    assert run("config", "check", str(good)).exit_code == 0
    wrong = run("config", "check", str(bad))
    assert wrong.exit_code == 2
    assert "bad.toml: unknown key log.levle (did you mean log.level?)" in wrong.output
    assert "reachable from other machines" in run("config", "check", str(exposed)).output
    assert run("config", "check", str(tmp_path / "none.toml")).exit_code == 2


def test_check_reads_the_files_that_a_start_would_read(run, tmp_path):
    file, users, token = (tmp_path / name for name in ("m.toml", "users.toml", "token"))
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    file.write_text(
        f"[server.listen]\n'kafka+tls' = '127.0.0.1:9093'\n[security]\nusers_file = '{users}'\n"
        f"http_token_file = '{token}'\ntls_cert_file = '{cert}'\ntls_key_file = '{key}'\n"
    )
    missing = run("config", "check", str(file))
    assert missing.exit_code == 2
    for name, path in (("users_file", users), ("http_token_file", token), ("tls_cert_file", cert)):
        assert f"security.{name} {path} cannot be read: No such file" in missing.output
    users.write_text("alice = 'secret'\n")
    token.write_text("")
    cert.write_text("no certificate")
    key.write_text("no key")
    wrong = run("config", "check", str(file)).output
    assert "must hold one table, [users]" in wrong
    assert "must hold one line of ASCII text" in wrong
    assert "are not both PEM" in wrong
    users.write_text("[users]\nalice = 'secret'\n")
    token.write_text("token\n")
    issued = trustme.CA().issue_cert("localhost")
    issued.cert_chain_pems[0].write_to_path(cert)
    issued.private_key_pem.write_to_path(key)
    assert run("config", "check", str(file)).exit_code == 0


def test_check_tells_machines_what_is_wrong_too(run, tmp_path):
    file = tmp_path / "m.toml"
    file.write_text("[log]\nlevle = 'debug'\nformat = 'xml'\n")
    wrong = run("config", "check", str(file), "--json")
    assert wrong.exit_code == 2
    told = json.loads(wrong.stdout)
    assert told["file"] == str(file)
    assert len(told["errors"]) == 2
    assert "unknown key log.levle" in told["errors"][0]
    file.write_text("[log]\nlevel = 'debug'\n")
    assert json.loads(run("config", "check", str(file), "--json").stdout)["errors"] == []
