"""The page docs/operate/config.md, made from the settings themselves.

    python -m mainstem.config.docs > docs/operate/config.md

A test compares the two, so a setting without docs fails the build.
"""

from __future__ import annotations

from collections.abc import Iterator

from mainstem.config.load import SETTINGS, Setting
from mainstem.config.sections import SECTIONS
from mainstem.config.toml import literal

INTRODUCTION = """\
# Settings

Made by `python -m mainstem.config.docs`; edit `src/mainstem/config/sections.py` instead.

Every setting is a key in `mainstem.toml`, a variable `MAINSTEM_SECTION__KEY` and, where one is named below,
a flag of `mainstem serve`; any other key can be given as `--set section.key=value`. A flag wins over a
variable, a variable over the file, the file over the default. `mainstem config show --origin` tells where
each value came from, `mainstem config check FILE` checks a file and those that it names;
nothing is started.

The file is the one given by `--config` or `MAINSTEM_CONFIG`, or else `mainstem.toml` in the working folder.
Sizes may be written as `"64 MiB"`, times as `"10m"` or `"7d"`. Lists and pairs in a variable are separated
by commas: `MAINSTEM_SERVER__LISTEN=kafka=127.0.0.1:9092,http=127.0.0.1:9640`. An unknown key is an error, and
so is setting one that is only planned.
"""


def page() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    for section, cls in SECTIONS.items():
        yield f"## [{section}]\n\n{cls.__doc__}\n"
        yield "| key | default | meaning |"
        yield "|---|---|---|"
        yield from (_row(setting) for setting in SETTINGS.values() if setting.section == section)
        yield ""


def _row(setting: Setting) -> str:
    flag = f" Flag `{setting.flag}`." if setting.flag else ""
    allowed = setting.kind.allowed[0].upper() + setting.kind.allowed[1:]
    planned = " **Planned: not yet in effect.**" if setting.planned else ""
    return f"| `{setting.name}` | `{literal(setting.default)}` | {setting.help}{flag} {allowed}.{planned} |"


if __name__ == "__main__":
    print(page(), end="")
