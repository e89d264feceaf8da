"""RabbitMQ as a peer: one node, its own defaults, durable queues.

The newest that Debian has comes by debootstrap, once, into a folder under bench/.peers, and runs there by
chroot in a mount namespace of its own: nothing is left mounted when it ends. That needs root; without it a
rabbitmq-server that is installed is taken, whatever its age. Every table names the version.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench import amqp
from bench.peers.server import Server, free_port, spawn, wait_ready

SUITE = "forky"
ROOT = Path(__file__).parents[1] / ".peers" / f"rabbitmq-{SUITE}"
SCRIPTS = "usr/lib/rabbitmq/lib"
# Mounts of this namespace alone: the root ($0), the data ($1); then the server's command. Its port mapper is
# started here, in our process group: the one that the server would start would outlive it.
ENTER = """set -e
mount --make-rprivate /
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
mount --bind "$1" "$0/srv"
root="$0"; shift
chroot "$root" epmd &
until chroot "$root" epmd -names >/dev/null 2>&1; do sleep 0.05; done
exec chroot "$root" "$@"
"""


@dataclass
class RabbitServer(Server):
    def stop(self) -> None:
        super().stop()
        with suppress(ProcessLookupError):  # the port mapper is still there
            os.killpg(self.pid, signal.SIGKILL)


def fetch() -> Path:
    """The folder that has it under usr/lib: ours, or the system's."""
    if ROOT.exists():
        return ROOT
    if os.geteuid() == 0 and shutil.which("debootstrap"):
        part = ROOT.with_name(f"{ROOT.name}.part")  # one that was broken off is not taken for a whole one
        shutil.rmtree(part, ignore_errors=True)
        command = ["debootstrap", "--variant=minbase", "--include=rabbitmq-server", SUITE, str(part)]
        rules = "/usr/share/debootstrap/scripts/sid"  # an older debootstrap does not know the suite's name
        subprocess.run(
            [*command, "http://deb.debian.org/debian", rules], check=True, stdout=subprocess.DEVNULL
        )
        (part / "etc/hosts").write_text("127.0.0.1 localhost\n")
        part.rename(ROOT)
        return ROOT
    if list(Path("/", SCRIPTS).glob("rabbitmq_server-*")):
        return Path("/")
    raise RuntimeError("the RabbitMQ peer needs root and debootstrap, or rabbitmq-server installed")


def scripts(root: Path) -> Path:
    """The folder with its own start scripts, seen from inside that root."""
    (found,) = root.joinpath(SCRIPTS).glob("rabbitmq_server-*")
    return Path("/") / found.relative_to(root)


def settings(home: str, port: int) -> dict[str, str]:
    """Where everything lies and listens; all else is the default."""
    return {
        "HOME": home,
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "RUNNING_UNDER_SYSTEMD": "true",  # the script then becomes the server, instead of waiting for it
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "ERL_EPMD_PORT": str(free_port()),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_MNESIA_BASE": f"{home}/mnesia",
        "RABBITMQ_LOG_BASE": f"{home}/log",
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_ENABLED_PLUGINS_FILE": f"{home}/plugins",
        "RABBITMQ_CONFIG_FILE": f"{home}/rabbitmq.conf",
        "RABBITMQ_CONF_ENV_FILE": f"{home}/rabbitmq-env.conf",
    }


def start_rabbitmq(
    name: str, data: Path, *, extra: Mapping[str, str] | None = None, ready_timeout_s: float = 120
) -> Server:
    """`extra` are variables for its start script."""
    root = fetch()
    data.mkdir(parents=True, exist_ok=True)
    log, port = data / "broker.log", free_port()
    server = str(scripts(root) / "sbin" / "rabbitmq-server")
    if root == Path("/"):
        home, command = data, [server]
    else:
        home = Path("/srv")
        command = ["unshare", "--mount", "sh", "-c", ENTER, str(root), str(data.resolve()), server]
    process = spawn(command, log, {**settings(str(home), port), **(extra or {})})
    ready_s = wait_ready(process, port, log, ready_timeout_s, amqp.wait_until_ready)
    version = scripts(root).name.partition("-")[2]
    return RabbitServer(
        name, process, data, port, None, ready_s, amqp_port=port, version=f"RabbitMQ {version}"
    )
