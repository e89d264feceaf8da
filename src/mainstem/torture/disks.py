"""A small ext4 in a file, whose power can be cut. Needs root: it mounts a loop device."""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path

from mainstem.model.errors import MainstemError

EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2  # 0 would write the file system's own log first, as no power cut does
CAP_SYS_ADMIN = 21  # the number of its bit
UMOUNT_TIMEOUT_S = 20.0
POWER_UP_TIMEOUT_S = 120.0


def why_no_power_cut() -> str | None:
    """What is missing here to cut the power of a loop-mounted ext4; None: nothing."""
    if not _may_mount():
        return "cutting the power of a loop-mounted ext4 needs root, with the right to mount (CAP_SYS_ADMIN)"
    missing = [tool for tool in ("mkfs.ext4", "mount", "umount", "losetup") if shutil.which(tool) is None]
    if missing:
        return f"cutting the power of a loop-mounted ext4 needs {', '.join(missing)}"
    if not os.path.exists("/dev/loop-control"):
        return "cutting the power of a loop-mounted ext4 needs loop devices (/dev/loop-control)"
    return None


def _may_mount() -> bool:
    """Root in a container may be root without that right."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return False
    granted = next((line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), "0")
    return bool(int(granted, 16) >> CAP_SYS_ADMIN & 1)


class LoopDisk:
    """`folder` gets the image and the mount point; `path` is the root of the file system."""

    def __init__(self, folder: Path, size_bytes: int) -> None:
        self._image = folder / "disk.img"
        self.path = folder / "disk"
        self._size = size_bytes

    def create(self) -> None:
        self.path.mkdir(parents=True)
        with self._image.open("wb") as image:
            image.truncate(self._size)
        # Quick to make, and nothing kept back for root: a full disk is then full for everybody.
        _run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1", str(self._image))
        self.mount()

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.path))

    def cut(self) -> None:
        """From now on nothing reaches the disk; what was not synced is gone."""
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def power_up(self) -> None:
        """Mount it again, as after a power cut: whoever used it must be dead by now."""
        until = time.monotonic() + POWER_UP_TIMEOUT_S
        self.unmount()
        self.mount()
        # Whoever made a mount namespace of their own meanwhile (a container, say) has this file system in it,
        # and keeps it in use. Then it is the one that was shut down which was mounted again.
        while not self._is_alive():
            if time.monotonic() > until:
                raise MainstemError(f"{self.path} stays shut down: something keeps it in use")
            time.sleep(0.05)
            self.unmount()
            self.mount()

    def _is_alive(self) -> bool:
        probe = self.path / "probe"
        try:
            probe.touch()
            probe.unlink()
        except OSError:
            return False
        return True

    def unmount(self) -> None:
        """Killed processes let go of their files a moment after they are gone."""
        until = time.monotonic() + UMOUNT_TIMEOUT_S
        while os.path.ismount(self.path):
            try:
                _run("umount", str(self.path))
            except MainstemError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)

    def remove(self) -> None:
        self.unmount()
        self._image.unlink(missing_ok=True)
        if self.path.is_dir():
            self.path.rmdir()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise MainstemError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
