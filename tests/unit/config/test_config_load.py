from __future__ import annotations

from pathlib import Path

import pytest

from mainstem.config import SETTINGS, Config, ConfigFile, Endpoint, find_file, load
from mainstem.model.errors import InvalidConfig

pytestmark = pytest.mark.usefixtures("nothing_planned")


def file(text: str) -> ConfigFile:
    return ConfigFile("mainstem.toml", text)


def test_without_anything_every_value_is_its_default():
    config = load({}, {})
    assert config.server == Config().server
    assert config.server.data == Path("mainstem-data")
    assert config.topics.max_message_bytes == 1_048_588
    assert config.topics.retention_ms == 7 * 24 * 3600 * 1000
    assert set(config.origins.values()) == {"default"}
    assert set(config.origins) == set(SETTINGS)


def test_flag_wins_over_variable_over_file_over_default():
    text = file("[server]\nnode_id = 2\nmax_connections = 20\n[topics]\ndefault_partitions = 3\n")
    env = {"MAINSTEM_SERVER__NODE_ID": "3", "MAINSTEM_SERVER__MAX_CONNECTIONS": "30", "HOME": "/root"}
    config = load({"server.node_id": 4, "server.data": None}, env, text)
    assert (config.server.node_id, config.server.max_connections) == (4, 30)
    assert config.topics.default_partitions == 3
    assert config.origins["server.node_id"] == "flag --set server.node_id"
    assert config.origins["server.max_connections"] == "variable MAINSTEM_SERVER__MAX_CONNECTIONS"
    assert config.origins["topics.default_partitions"] == "file mainstem.toml"
    assert config.origins["server.data"] == "default"


def test_a_flag_is_named_as_it_was_typed():
    assert load({"server.data": "/srv/m"}, {}).origins["server.data"] == "flag --data"


@pytest.mark.parametrize(
    ("written", "listen"),
    [
        ("kafka=127.0.0.1:9092", {"kafka": Endpoint("127.0.0.1", 9092)}),
        (
            "kafka=[::1]:0, http=localhost:9640",
            {"kafka": Endpoint("::1", 0), "http": Endpoint("localhost", 9640)},
        ),
        (("kafka=127.0.0.1:1",), {"kafka": Endpoint("127.0.0.1", 1)}),
        ({"kafka": "127.0.0.1:1"}, {"kafka": Endpoint("127.0.0.1", 1)}),
    ],
)
def test_listeners_are_read_from_text_list_and_table(written, listen):
    assert load({"server.listen": written}, {}).server.listen == listen


@pytest.mark.parametrize("bad", ["kafka", "kafka=9092", "kafka=host:99999", "kafka=::1:9092", "kafka=a b:1"])
def test_a_listener_without_host_and_port_is_refused(bad):
    with pytest.raises(InvalidConfig, match="HOST:PORT|there is no port 99999"):
        load({"server.listen": bad}, {})


def test_an_endpoint_prints_as_it_is_written():
    assert str(Endpoint("127.0.0.1", 1)) == "127.0.0.1:1"
    assert str(Endpoint("::1", 9092)) == "[::1]:9092"


@pytest.mark.parametrize(
    ("key", "raw", "value"),
    [
        ("topics.retention_ms", "7d", 604_800_000),
        ("topics.retention_ms", "10m", 600_000),
        ("topics.retention_ms", -1, -1),
        ("journal.file_bytes", "64 MiB", 64 * 2**20),
        ("journal.file_bytes", "64MB", 64 * 10**6),
        ("journal.file_frames", "2_000_000", 2_000_000),
        ("topics.auto_create", "off", False),
        ("topics.auto_create", "1", True),
        ("topics.cleanup_policy", "compact,delete", ("compact", "delete")),
        ("security.superusers", ["admin", "admin"], ("admin",)),
        ("server.ready_file", "", None),
    ],
)
def test_values_are_read_as_people_write_them(key, raw, value):
    config = load({key: raw}, {})
    section, name = key.split(".")
    assert getattr(getattr(config, section), name) == value


@pytest.mark.parametrize(
    ("key", "raw", "allowed"),
    [
        ("topics.default_partitions", 0, "a whole number 1 to 100000"),
        ("topics.default_partitions", True, "a whole number"),
        ("topics.default_partitions", "many", "a whole number"),
        ("topics.retention_ms", "-2", "or -1 for no limit"),
        ("topics.retention_ms", "7 weeks", '"7d"'),
        ("journal.file_bytes", "1 KiB", "1048576 to"),
        ("topics.auto_create", "maybe", "true or false"),
        ("log.level", "loud", "one of debug, info, warning, error"),
        ("topics.cleanup_policy", ["shred"], "one of delete, compact"),
        ("server.data", "", "a path"),
        ("server.cluster_id", 7, "text"),
    ],
)
def test_a_bad_value_names_key_value_origin_and_what_is_allowed(key, raw, allowed):
    with pytest.raises(InvalidConfig) as caught:
        load({key: raw}, {})
    message = str(caught.value)
    assert key in message
    assert repr(raw) in message
    assert "flag " in message
    assert allowed in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[server]\ndta = 'x'", "mainstem.toml: unknown key server.dta (did you mean server.data?)"),
        ("[sever]\ndata = 'x'", "mainstem.toml: unknown section [sever] (did you mean server?)"),
        ("server = 1", "mainstem.toml: server must be a section"),
        ("[server", "mainstem.toml: is not valid TOML"),
    ],
)
def test_a_slip_in_the_file_is_named_with_the_nearest_right_word(text, said):
    with pytest.raises(InvalidConfig) as caught:
        load({}, {}, file(text))
    assert said in str(caught.value)


def test_an_unknown_variable_is_an_error_only_if_it_looks_like_a_setting():
    load({}, {"MAINSTEM_CONFIG": "x", "MAINSTEM_HOME": "y"})
    with pytest.raises(InvalidConfig, match="did you mean MAINSTEM_SERVER__DATA"):
        load({}, {"MAINSTEM_SERVER__DATAA": "x"})


def test_everything_wrong_is_told_at_once():
    with pytest.raises(InvalidConfig) as caught:
        load({"log.level": "loud"}, {"MAINSTEM_TOPICS__AUTO_CREATE": "so so"}, file("[nope]\n"))
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"groups.min_session_timeout_ms": "31m"}, "above groups.max_session_timeout_ms"),
        ({"groups.consumer_heartbeat_interval_ms": "1h"}, "below groups.consumer_session_timeout_ms"),
        ({"topics.cleanup_policy": ""}, "topics.cleanup_policy must name"),
        ({"topics.max_partitions": 1, "topics.default_partitions": 2}, "above topics.max_partitions"),
        ({"security.tls_cert_file": "c.pem"}, "go together"),
        ({"security.tls_client_auth": "required"}, "needs security.tls_ca_file"),
        ({"server.listen": "kafka+tls=127.0.0.1:1"}, "needs security.tls_cert_file"),
        (
            {"server.listen": "kafak=127.0.0.1:1"},
            r"'kafak' \(did you mean kafka\?\): use .*kafka\+tls",
        ),
        ({"server.listen": "kafka+ssl=127.0.0.1:1"}, r"'kafka\+ssl' \(did you mean kafka\+tls\?\)"),
        ({"server.listen": "http=127.0.0.1:1", "server.advertise": "kafka=a:1"}, "no listener of that name"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(flags, said):
    with pytest.raises(InvalidConfig, match=said):
        load(flags, {})


def test_the_file_is_the_chosen_one_then_the_variables_then_the_usual_one(tmp_path):
    usual, other, chosen = (tmp_path / name for name in ("mainstem.toml", "other.toml", "chosen.toml"))
    assert find_file(None, {}, tmp_path) is None
    for path in (usual, other, chosen):
        path.write_text(f"# {path.name}")
    env = {"MAINSTEM_CONFIG": str(other)}
    assert find_file(None, {}, tmp_path) == ConfigFile(str(usual), "# mainstem.toml")
    assert find_file(None, env, tmp_path) == ConfigFile(str(other), "# other.toml")
    assert find_file(chosen, env, tmp_path) == ConfigFile(str(chosen), "# chosen.toml")


def test_a_chosen_file_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(InvalidConfig, match="cannot be read"):
        find_file(tmp_path / "missing.toml", {}, tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidConfig, match="not UTF-8"):
        find_file(binary, {}, tmp_path)


def test_every_setting_says_what_it_is_for_and_its_default_is_allowed():
    for setting in SETTINGS.values():
        assert setting.help.endswith("."), setting.key
        assert setting.kind.parse(setting.default) == setting.default, setting.key


def test_topic_defaults_are_told_by_kafkas_names():
    configs = load(
        {"topics.cleanup_policy": "compact,delete", "topics.retention_ms": "1d"}, {}
    ).topics.configs()
    assert configs["cleanup.policy"] == "compact,delete"
    assert configs["retention.ms"] == "86400000"
    assert configs["message.timestamp.after.max.ms"] == "3600000"
    assert "default.partitions" not in configs
    assert "auto.create" not in configs


def test_a_flag_that_may_come_several_times_is_shown_as_it_was_written():
    with pytest.raises(InvalidConfig, match=r"server\.listen = 'kafka=:9192, http=x': ':9192' must be"):
        load({"server.listen": ("kafka=:9192", "http=x")}, {})
