from __future__ import annotations

import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from zerofleet.cluster.run_folder import RunFolder
from zerofleet.cluster.temp_folder import make_temp_folder, remove_temp_folder, temp_folder

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


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not show who has a file open")
def test_who_still_writes_to_a_folder_ends_with_it_and_nobody_else() -> None:
    """A Ray whose driver was killed leaves processes that write their logs there."""
    folder, other = make_temp_folder(), make_temp_folder()
    waits = "import sys, time; file = open(sys.argv[1], 'w'); print(flush=True); time.sleep(60)"
    command = [sys.executable, "-c", waits]
    (folder / "read").touch()
    reads = [sys.executable, "-c", waits.replace("'w'", "'r'"), str(folder / "read")]
    with (
        subprocess.Popen([*command, str(folder / "log")], stdout=subprocess.PIPE) as left,
        subprocess.Popen([*command, str(other / "log")], stdout=subprocess.PIPE) as neighbour,
        subprocess.Popen(reads, stdout=subprocess.PIPE) as reader,
    ):
        for process in (left, neighbour, reader):
            assert process.stdout is not None
            process.stdout.readline()
        with (folder / "own").open("w"):  # whoever cleans up may have a file there itself
            remove_temp_folder(folder)
        assert left.wait(10.0) == -9
        assert neighbour.poll() is None
        assert reader.poll() is None  # somebody who looks at a log
        reader.kill()
        assert not folder.exists()
        remove_temp_folder(other)
        assert neighbour.wait(10.0) == -9


def test_only_a_folder_of_ours_is_removed(tmp_path: Path) -> None:
    remove_temp_folder(tmp_path)
    remove_temp_folder(Path("zerofleet-relative"))
    assert tmp_path.is_dir()
