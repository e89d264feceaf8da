from __future__ import annotations

import re
import tomllib
from pathlib import Path

from mainstem.config import SETTINGS, ConfigFile, check_exposure, load
from mainstem.config.docs import page
from mainstem.config.toml import lines

OPERATE = Path(__file__).parents[3] / "docs" / "operate"


def test_the_docs_page_lists_every_setting_as_it_is():
    assert (OPERATE / "config.md").read_text() == page(), (
        "run: python -m mainstem.config.docs > docs/operate/config.md"
    )


def test_what_is_shown_is_a_file_that_gives_the_same_settings(nothing_planned):
    flags = {
        "server.listen": "kafka+tls=[::1]:9093",
        "topics.cleanup_policy": "compact",
        "server.data": 'a"b',
    }
    flags |= {"security.tls_cert_file": "c", "security.tls_key_file": "k"}
    config = load(flags, {})
    text = "\n".join(lines(config, with_origin=True))
    again = load({}, {}, ConfigFile("shown.toml", text))
    assert all(getattr(again, s.section) == getattr(config, s.section) for s in SETTINGS.values())
    assert 'data = "a\\"b"  # flag --data' in text
    assert set(tomllib.loads(text)) == {setting.section for setting in SETTINGS.values()}


def test_the_settings_in_the_security_page_are_valid(nothing_planned):
    (snippet,) = re.findall(r"```toml\n(.*?)```", (OPERATE / "security.md").read_text(), re.DOTALL)
    check_exposure(load({}, {}, ConfigFile("security.md", snippet)))
