"""Small files that survive a crash: written aside, fsynced, renamed."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from zerofleet.errors import StorageError

_ASIDE = re.compile(r"\..+\.\d+")

_AT_WORK_S = 60.0
"""No write of a small file takes so long."""


def write_durably(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Replace the file at `path`: after a crash it holds the old bytes or the new ones, never a mixture.

    Raises:
        StorageError: it could not be written; the old file stands.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error


def sweep(folder: Path) -> None:
    """Remove what writers that were killed left aside; what is young may be somebody's at work."""
    for path in folder.glob(".*"):
        if _ASIDE.fullmatch(path.name):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _AT_WORK_S:
                    path.unlink()


def read_number(path: Path) -> int:
    """Return the whole number in the file at `path`, 0 where there is no file."""
    try:
        return int(path.read_text(encoding="ascii"))
    except FileNotFoundError:
        return 0
    except ValueError as error:
        raise StorageError(f"{path} should hold one whole number: {error}") from error


def write_number(path: Path, number: int) -> None:
    """Replace the file at `path` with one whole number."""
    write_durably(path, f"{number}\n".encode("ascii"))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
