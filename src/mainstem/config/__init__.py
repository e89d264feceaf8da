"""Settings: read once, checked, frozen.

`load(flags, env, file)` gives a `Config` with one frozen dataclass per section; `sections.py` lists every
setting with its help. Rooms below this one take plain values, never a `Config`.
"""

from mainstem.config.exposure import check_exposure, denies_by_default, is_loopback
from mainstem.config.kinds import Endpoint, parse_endpoint
from mainstem.config.load import (
    SETTINGS,
    ConfigFile,
    Setting,
    find_file,
    load,
    read_file,
    suggestion,
)
from mainstem.config.sections import (
    USUAL_PORTS,
    Config,
    Groups,
    Journal,
    Log,
    Merge,
    Security,
    Server,
    Snapshot,
    Topics,
    Transactions,
)

__all__ = [
    "SETTINGS",
    "USUAL_PORTS",
    "Config",
    "ConfigFile",
    "Endpoint",
    "Groups",
    "Journal",
    "Log",
    "Merge",
    "Security",
    "Server",
    "Setting",
    "Snapshot",
    "Topics",
    "Transactions",
    "check_exposure",
    "denies_by_default",
    "find_file",
    "is_loopback",
    "load",
    "parse_endpoint",
    "read_file",
    "suggestion",
]
