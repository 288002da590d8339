"""Where folders with sockets go: a Unix socket's path has 107 bytes at most, and Ray's own names take most of them."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "zerofleet-"
"""What the names of our temporary folders begin with."""

_LONGEST = 20
"""Bytes of a path under which Ray's sockets, 87 bytes further down, can still be made."""


def temp_folder() -> Path:
    """Return the system's folder for temporary files, or /tmp where that one's path is too long for sockets."""
    chosen = Path(tempfile.gettempdir())
    return chosen if len(os.fsencode(chosen)) <= _LONGEST else Path("/tmp")


def make_temp_folder(parent: Path | None = None) -> Path:
    """Make a private folder with a short path, in `parent` or in `temp_folder()`."""
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent or temp_folder()))


def remove_temp_folder(folder: Path) -> None:
    """Remove a folder of ours and end who still writes there: a Ray whose driver was killed leaves its agents."""
    if not folder.name.startswith(PREFIX) or not folder.is_absolute():
        return
    for pid in _writers(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def _writers(folder: Path) -> list[int]:
    """Return the other processes of this user that have a file under `folder` open to write, where the system tells."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended, or is another user's
            if any(_writes_under(folder, opened) for opened in (process / "fd").iterdir()):
                pids.append(int(process.name))
    return [pid for pid in pids if pid != os.getpid()]


def _writes_under(folder: Path, opened: Path) -> bool:
    """Return whether an open file, a link in /proc with a mode of its own, is under `folder` and open to write."""
    return bool(opened.lstat().st_mode & stat.S_IWUSR) and opened.readlink().is_relative_to(folder)
