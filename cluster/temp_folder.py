"""Where folders with sockets go: a Unix socket's path has 107 bytes at most, and Ray's own names take most of them."""

from __future__ import annotations

import os
import tempfile
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
