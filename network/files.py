"""Files that a crash never tears.  This module imports no torch, so that logs can be read without it."""

from __future__ import annotations

import os
import re
from pathlib import Path

from zerofleet.errors import StorageError

_ASIDE = re.compile(r"\..+\.\d+\.tmp")


def read_file(path: Path) -> bytes:
    """Return the file's bytes, or say why not as a `StorageError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}") from error


def write_durably(path: Path, data: bytes) -> None:
    """Replace `path` by `data` so that after a crash it holds the old bytes or the new ones, never a part of them.

    Raises:
        StorageError: the bytes could not be written; `path` is as it was.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise StorageError(f"{path}: cannot be written: {error.strerror}") from error


def sweep(folder: Path) -> None:
    """Remove what writers that were killed left aside; for whoever alone may write to `folder` now."""
    for path in folder.glob(".*.tmp"):
        if _ASIDE.fullmatch(path.name):
            path.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` survive a crash."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
