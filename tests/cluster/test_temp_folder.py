from __future__ import annotations

import stat
import tempfile
from pathlib import Path

import pytest

from zerofleet.cluster.run_folder import RunFolder
from zerofleet.cluster.temp_folder import make_temp_folder, temp_folder

RAY_SOCKET = "ray/session_2026-11-30_01-01-55_123456_4194303/sockets/plasma_store"
"""Ray's longest name of a socket, with the greatest process id that Linux gives out."""


def test_sockets_fit_however_long_the_path_of_temporary_files_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 60)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    folder = make_temp_folder()
    try:
        assert len(str(folder / RAY_SOCKET)) <= 107
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        folder.rmdir()


def test_the_systems_choice_stands_where_it_is_short_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/" + "x" * 19)
    assert temp_folder() == Path("/" + "x" * 19)
    assert len(f"{temp_folder()}/zerofleet-abcdefgh/{RAY_SOCKET}") <= 107
    monkeypatch.setattr(tempfile, "tempdir", "/" + "x" * 20)
    assert temp_folder() == Path("/tmp")


def test_scratch_is_removed_by_who_looks_for_temporary_files_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path, "run")
    folder.path.mkdir()
    scratch = folder.make_scratch()
    monkeypatch.setattr(tempfile, "tempdir", "/var/tmp")
    folder.remove_scratch()
    assert not scratch.exists()
