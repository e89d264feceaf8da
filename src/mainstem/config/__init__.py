"""Settings: read once, checked, frozen.

`load(flags, env, file)` gives a `Config` with one frozen dataclass per section; `sections.py` lists every
setting with its help. Rooms below this one take plain values, never a `Config`.
"""

from mainstem.config.before_start import (
    PortsTaken,
    cannot_listen,
    check_before_start,
    check_named_files,
    folder_holder,
    listen_flags,
)
from mainstem.config.exposure import (
    check_exposure,
    denies_by_default,
    has_tls,
    is_loopback,
    mechanisms_offered,
)
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
from mainstem.config.secret_files import others_can_read, read_token, read_users
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
from mainstem.config.tls import server_context

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
    "PortsTaken",
    "Security",
    "Server",
    "Setting",
    "Snapshot",
    "Topics",
    "Transactions",
    "cannot_listen",
    "check_before_start",
    "check_exposure",
    "check_named_files",
    "denies_by_default",
    "find_file",
    "folder_holder",
    "has_tls",
    "is_loopback",
    "listen_flags",
    "load",
    "mechanisms_offered",
    "others_can_read",
    "parse_endpoint",
    "read_file",
    "read_token",
    "read_users",
    "server_context",
    "suggestion",
]
