"""The episode log: durable, in order, exactly once, whoever else writes."""

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zerofleet.errors import DamagedRunError, StorageError
from zerofleet.games.base import Game
from zerofleet.learner import log as log_module
from zerofleet.learner.log import EpisodeLog

Open = Callable[..., EpisodeLog]


@pytest.fixture
def open_log(tmp_path: Path, tictactoe: Game) -> Open:
    def opened(epoch: int, **options: int) -> EpisodeLog:
        return EpisodeLog.open_epoch(tmp_path, epoch, run="test", game=tictactoe, **options)

    return opened


def _games(*numbers: int) -> list[tuple[int, int, bytes]]:
    """Games with these numbers; game n has n % 5 + 1 rows and n's digits as bytes."""
    return [(number, number % 5 + 1, str(number).encode() * 20) for number in numbers]


def _read(log: EpisodeLog, from_row: int = 0) -> list[int]:
    return [episode.game_number for episode in log.episodes(from_row)]


def _newest_file(folder: Path) -> Path:
    return max(folder.glob("*.log"))


def test_what_was_appended_is_read_back_in_order_by_everybody(open_log: Open, tmp_path: Path) -> None:
    log = open_log(1)
    log.append(_games(3, 1))
    log.append(_games(2))
    for reader in (log, EpisodeLog.read_only(tmp_path), open_log(2)):
        found = list(reader.episodes())
        assert [episode.game_number for episode in found] == [3, 1, 2]
        assert [(episode.first_row, episode.num_rows) for episode in found] == [(0, 4), (4, 2), (6, 3)]
        assert found[1].payload == b"1" * 20
        assert (reader.num_rows, reader.num_episodes) == (9, 3)
        assert 3 in reader.game_numbers
        assert 4 not in reader.game_numbers


def test_reading_begins_with_the_episode_that_holds_the_row(open_log: Open) -> None:
    log = open_log(1, segment_bytes=300)
    for number in range(20):  # rows 1 2 3 4 5 1 2 ...: game 7 holds rows 18 to 20
        log.append(_games(number))
    assert _read(log, 0) == list(range(20))
    assert _read(log, 18)[0] == 7
    assert _read(log, 20)[0] == 7
    assert _read(log, 21)[0] == 8
    assert _read(log, 60) == []


def test_large_segments_are_closed_and_new_ones_begun(open_log: Open, tmp_path: Path) -> None:
    log = open_log(1, segment_bytes=500)
    for number in range(50):
        log.append(_games(number))
    assert len(list(tmp_path.glob("*.log"))) > 3
    again = open_log(2)
    assert _read(again) == list(range(50))
    assert again.num_bytes - log.num_bytes == _newest_file(tmp_path).stat().st_size


@pytest.mark.parametrize("cut", [1, 5, 15, 16, 30])
def test_a_torn_tail_is_cut(open_log: Open, tmp_path: Path, cut: int) -> None:
    log = open_log(1)
    log.append(_games(1, 2))
    whole = _newest_file(tmp_path).stat().st_size
    log.append(_games(3))
    with _newest_file(tmp_path).open("r+b") as file:
        file.truncate(whole + cut)
    again = open_log(2)
    assert _read(again) == [1, 2]
    assert 3 not in again.game_numbers
    again.append(_games(3, 4))
    assert _read(open_log(3)) == [1, 2, 3, 4]


def test_a_tail_of_zeros_or_garbage_is_cut(open_log: Open, tmp_path: Path) -> None:
    """A crash may leave a file longer than what was written to it."""
    for epoch, tail in enumerate((b"\0" * 5000, os.urandom(300), struct.pack("<II", 1 << 31, 7) + b"x" * 50), start=1):
        log = open_log(epoch)
        log.append(_games(epoch))
        with _newest_file(tmp_path).open("ab") as file:
            file.write(tail)
    assert _read(open_log(9)) == [1, 2, 3]


def test_a_torn_header_counts_as_nothing(open_log: Open, tmp_path: Path) -> None:
    open_log(1).append(_games(1))
    open_log(2)
    for size in (0, 4, 8, 20):
        with _newest_file(tmp_path).open("r+b") as file:
            file.truncate(size)
        assert _read(EpisodeLog.read_only(tmp_path)) == [1]
    log = open_log(3)
    log.append(_games(2))
    assert _read(open_log(4)) == [1, 2]


def test_damage_before_acknowledged_games_is_an_error_that_names_the_place(open_log: Open, tmp_path: Path) -> None:
    log = open_log(1)
    log.append(_games(1))
    place = _newest_file(tmp_path).stat().st_size - 3
    log.append(_games(2))
    path = _newest_file(tmp_path)
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamagedRunError, match=r"broken at byte \d+, before games that were acknowledged"):
        EpisodeLog.read_only(tmp_path)


def test_a_sealed_segment_that_lost_bytes_or_a_missing_one_is_an_error(open_log: Open, tmp_path: Path) -> None:
    open_log(1).append(_games(1, 2))
    open_log(2).append(_games(3))
    first = min(tmp_path.glob("*.log"))
    data = first.read_bytes()
    first.write_bytes(data[:-1])
    with pytest.raises(DamagedRunError, match="acknowledged games are missing"):
        open_log(3)
    first.unlink()
    with pytest.raises(DamagedRunError, match="missing or torn"):
        open_log(4)


def test_a_lost_tail_of_a_closed_segment_is_noticed_by_the_next_ones_first_row(open_log: Open, tmp_path: Path) -> None:
    log = open_log(1, segment_bytes=1024)
    for number in range(40):
        log.append(_games(number))
    first = min(tmp_path.glob("*.log"))
    with first.open("r+b") as file:
        file.truncate(first.stat().st_size - 1)
    with pytest.raises(DamagedRunError, match="acknowledged games are missing"):
        open_log(2)


def test_a_new_epoch_seals_what_older_ones_wrote(open_log: Open) -> None:
    """A stopped learner that wakes up after its successor started changes nothing that counts."""
    old = open_log(1, segment_bytes=1024)
    old.append(_games(1, 2))
    new = open_log(2)
    old.append(_games(77))  # into its segment, beyond the seal
    new.append(_games(3))
    for number in range(100, 140):  # so much that it begins new segments of its old epoch
        old.append(_games(number))
    assert _read(new) == [1, 2, 3]
    third = open_log(3)
    assert _read(third) == [1, 2, 3]
    assert 77 not in third.game_numbers
    third.append(_games(77))  # delivered again, as it was never acknowledged
    old.append(_games(141))
    new.append(_games(142))
    assert _read(open_log(4)) == [1, 2, 3, 77]


def test_an_epoch_seals_even_if_it_logs_nothing(open_log: Open) -> None:
    old = open_log(1)
    old.append(_games(1))
    open_log(2).close()
    old.append(_games(2))
    assert _read(open_log(3)) == [1]


def test_a_frame_that_was_half_written_at_the_seal_stays_out(open_log: Open, tmp_path: Path) -> None:
    old = open_log(1)
    old.append(_games(1))
    path = _newest_file(tmp_path)
    whole = path.stat().st_size
    old.append(_games(2))
    late = path.read_bytes()[whole:]
    with path.open("r+b") as file:
        file.truncate(whole + 10)
    new = open_log(2)
    with path.open("ab") as file:
        file.write(late[10:])  # the rest of the write arrives
    new.append(_games(3))
    assert _read(open_log(3)) == [1, 3]


def test_an_older_epoch_may_not_open_the_log(open_log: Open) -> None:
    open_log(2)
    for epoch in (1, 2):
        with pytest.raises(StorageError, match=f"epoch {epoch} must not write"):
            open_log(epoch)


def test_a_full_disk_is_an_error_and_leaves_nothing_of_the_append(
    open_log: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(1)
    log.append(_games(1))
    real = os.write
    before = _newest_file(tmp_path).read_bytes()

    def half_then_full(descriptor: int, data: memoryview) -> int:
        if len(data) > 40:
            return real(descriptor, data[:40])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log_module.os, "write", half_then_full)
    with pytest.raises(StorageError, match="No space left on device"):
        log.append(_games(2, 3))
    monkeypatch.undo()
    assert _newest_file(tmp_path).read_bytes() == before
    assert 2 not in log.game_numbers
    assert log.num_rows == 2
    with pytest.raises(StorageError, match="closed after a write that failed"):
        log.append(_games(4))
    assert _read(open_log(2)) == [1]


def test_a_failed_fsync_is_an_error(open_log: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(1)

    def broken(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(log_module.os, "fsync", broken)
    with pytest.raises(StorageError, match="Input/output error"):
        log.append(_games(1))
    assert log.num_episodes == 0


def test_another_runs_or_games_log_and_other_files_are_refused(
    open_log: Open, tmp_path: Path, connect4: Game, tictactoe: Game
) -> None:
    """Fault 74."""
    open_log(1).append(_games(1))
    with pytest.raises(DamagedRunError, match="expected an episode log with run 'other', got 'test'"):
        EpisodeLog.open_epoch(tmp_path, 2, run="other", game=tictactoe)
    with pytest.raises(DamagedRunError, match="expected an episode log with game 'connect4', got 'tictactoe'"):
        EpisodeLog.open_epoch(tmp_path, 2, run="test", game=connect4)
    (tmp_path / "00000009-000001.log").write_bytes(b"\x80\x04pickle" * 10)
    with pytest.raises(DamagedRunError, match="expected an episode log, got a file that starts with"):
        open_log(2)


def test_an_empty_or_missing_folder_is_an_empty_log(tmp_path: Path) -> None:
    log = EpisodeLog.read_only(tmp_path / "nowhere")
    assert (log.num_rows, _read(log)) == (0, [])


def test_a_log_is_read_without_torch() -> None:
    """`zerofleet episodes` must answer at once."""
    code = "import sys, zerofleet.learner.log; sys.exit('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=environment).returncode == 0
