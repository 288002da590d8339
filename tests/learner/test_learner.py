"""The role: what it acknowledges, publishes, waits for, and what it survives."""

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from zerofleet.errors import DamagedRunError, FatalRoleError, StaleEpochError, StorageError, StreamUnavailableError
from zerofleet.learner import learner as learner_module
from zerofleet.learner import log as log_module
from zerofleet.learner.checkpoint import load_newest
from zerofleet.learner.config import LearnerConfig
from zerofleet.learner.log import EpisodeLog
from zerofleet.learner.training import replay_log
from zerofleet.network.files import write_durably
from zerofleet.network.weights import find_weights, list_weights, load_weights
from zerofleet.streams.codec import encode_episode


def _numbers(bench: Any) -> list[int]:
    return [episode.game_number for episode in EpisodeLog.read_only(bench.folder / "log").episodes()]


def _weights(bench: Any, version: int) -> dict[str, torch.Tensor]:
    record = bench.store.weights()
    sha256 = record.sha256 if record.version == version else None
    return load_weights(find_weights(bench.folder / "weights", version, sha256))[0]


def test_a_fresh_run_publishes_the_untrained_network_as_version_one(bench: Any) -> None:
    bench.run_until(bench.learner(), lambda it: bench.store.weights() is not None)
    record = bench.store.weights()
    assert (record.version, record.step) == (1, 0)
    _tensors, meta = load_weights(find_weights(bench.folder / "weights", 1, record.sha256))
    assert (meta.run, meta.game, meta.step) == ("test", "tictactoe", 0)


def test_a_checkpoint_holds_all_settings_of_the_run(bench: Any) -> None:
    settings = {"game": "tictactoe", "seed": 3, "search": {"num_simulations": 50, "sizes": (1, 2)}}
    bench.run_config = settings
    learner = bench.run_until(bench.learner(), lambda _it: bench.store.weights() is not None)
    checkpoint = load_newest(bench.folder / "checkpoints", learner._identity)
    assert checkpoint is not None
    assert checkpoint.run_config == {**settings, "search": {"num_simulations": 50, "sizes": [1, 2]}}


def test_what_a_killed_predecessor_left_half_written_is_removed(bench: Any) -> None:
    left = [
        bench.folder / "checkpoints" / ".000001-0000000030.safetensors.77.tmp",
        bench.folder / "weights" / ".00000003-000001.safetensors.77.tmp",
    ]
    for path in left:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"half")
    bench.learner().log.close()
    assert [path for path in left if path.exists()] == []


def test_everything_published_is_logged_once_and_acknowledged(bench: Any) -> None:
    """Duplicates of a game's number are ignored, in one read and across restarts."""
    bench.publish([1, 2, 2, 3])
    bench.run_dry(bench.learner())
    bench.publish([3, 4, 1])
    learner = bench.run_dry(bench.learner())
    assert _numbers(bench) == [1, 2, 3, 4]
    counts = bench.stream.counts()
    assert (counts.backlog, counts.pending, counts.dead_letters) == (0, 0, 0)
    assert learner.numbers()["duplicates"] == 2
    assert bench.metrics.learner_duplicates._value.get() == 3


def test_what_a_predecessor_left_pending_is_claimed(bench: Any) -> None:
    bench.publish(range(8))
    bench.stream.read("learner-of-old", 5, 0.0)
    bench.run_dry(bench.learner())
    assert sorted(_numbers(bench)) == list(range(8))
    assert bench.stream.counts().pending == 0


def test_entries_that_cannot_be_used_go_to_the_dead_letters_and_stop_nobody(
    bench: Any, play: Callable[..., Any]
) -> None:
    bench.stream.publish(b"no msgpack \xc1")
    bench.stream.publish(encode_episode(replace(play(bench.game, 5), final_crc=1)))
    bench.stream.publish(encode_episode(play(bench.game, 6, run="another")))
    bench.publish([7])
    bench.run_dry(bench.learner())
    assert _numbers(bench) == [7]
    reasons = [letter.reason for letter in bench.stream.dead_letters()]
    assert len(reasons) == 3
    assert "expected an episode of run test" in reasons[0]
    assert "CRC" in reasons[1]
    assert "msgpack" in reasons[2]
    assert bench.metrics.stream_dead_letters._value.get() == 3


def test_a_full_disk_ends_the_learner_with_nothing_acknowledged(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 56."""
    learner = bench.learner()
    bench.publish(range(3))

    def full(_descriptor: int, _data: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log_module.os, "write", full)
    with pytest.raises(StorageError, match="No space left on device"):
        bench.run_dry(learner)
    monkeypatch.undo()
    assert bench.stream.counts().pending == 3
    assert _numbers(bench) == []
    bench.run_dry(bench.learner())
    assert _numbers(bench) == [0, 1, 2]


def test_it_says_how_many_positions_it_has_and_needs(bench: Any) -> None:
    """Faults 61, 77 and 78."""
    learner = bench.learner()
    bench.publish([1])
    seen = set()
    bench.run_until(learner, lambda it: seen.add(it.waiting_for) or "has 9 of 20 positions" in it.waiting_for)
    assert learner.training.step == 0
    assert learner.numbers()["positions"] == 9
    assert bench.metrics.learner_waiting_seconds.labels("positions")._value.get() > 0


def test_while_it_waits_it_lets_games_gather(bench: Any) -> None:
    """One write, fsync and acknowledgement for several games; but none where more is there, or a step can be made."""
    rests: list[float | None] = []
    stop = threading.Event()
    stop.wait = lambda timeout=None: bool(rests.append(timeout))  # type: ignore[method-assign]
    learner = bench.learner()
    learner._take_in(stop)
    assert rests == []  # nothing came: the read itself has waited
    bench.publish([1])  # 9 of the 20 positions of the first step
    learner._take_in(stop)
    assert rests == [learner_module.GATHER_S]
    assert _numbers(bench) == [1]
    bench.publish([2, 3])
    learner._take_in(stop)
    assert learner.training.may_step
    learner.paused = True
    bench.publish([4, 5, 6])  # as many as one read takes
    learner._take_in(stop)
    assert rests == [learner_module.GATHER_S]


def test_it_stops_reading_where_the_log_is_too_far_ahead(bench: Any, small_config: LearnerConfig) -> None:
    """Fault 61: then the stream fills and the actors wait."""
    bench.publish(range(60))
    learner = bench.learner()
    learner.training.make_step = lambda: (_ for _ in ()).throw(AssertionError("no step in this test"))
    reads = []
    learner._make_steps = lambda _stop: reads.append(1)  # type: ignore[assignment, method-assign]
    bench.run_until(learner, lambda it: len(reads) > 30)
    # n(1) = 20 and 40 ahead: it reads while below 60, three games of at most nine rows at a time
    assert 60 <= learner.log.num_rows < 60 + 27
    assert bench.stream.counts().backlog > 40


def test_an_absent_store_is_waited_for_and_nothing_is_lost(bench: Any) -> None:
    bench.publish(range(12))
    learner = bench.learner()
    calls = {"ack": 0, "publish_weights": 0, "read": 0}

    def flaky(owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def call(*arguments: Any) -> Any:
            calls[name] += 1
            if calls[name] % 3:
                raise StreamUnavailableError("connection refused")
            return real(*arguments)

        setattr(owner, name, call)

    flaky(bench.stream, "ack")
    flaky(bench.stream, "read")
    flaky(bench.store, "publish_weights")
    bench.run_dry(learner)
    assert sorted(_numbers(bench)) == list(range(12))
    assert len(_numbers(bench)) == 12
    assert learner.numbers()["duplicates"] == 0
    assert bench.stream.counts().pending == 0


def test_a_loss_that_is_not_finite_ends_the_role_and_publishes_nothing_of_it(bench: Any) -> None:
    """Fault 152: also after a restart only what was good is there."""
    bench.publish(range(25))
    learner = bench.learner()
    train_step = learner.training.trainer.train_step

    def poisoned(batch: Any) -> Any:
        if learner.training.step == 12:
            batch.values[0] = float("nan")
        return train_step(batch)

    learner.training.trainer.train_step = poisoned
    with pytest.raises(FatalRoleError, match="loss is not finite at step 13"):
        bench.run_dry(learner)
    record = bench.store.weights()
    assert record.step == 10
    for version, _epoch, path in list_weights(bench.folder / "weights"):
        tensors, meta = load_weights(path)
        assert meta.version == version
        assert meta.step <= 10
        assert all(torch.isfinite(tensor).all() for tensor in tensors.values())


def test_statistics_that_are_not_finite_are_neither_stored_nor_published(bench: Any) -> None:
    """The loss stays finite: in training a batch norm goes by its batch."""
    bench.publish(range(25))
    learner = bench.learner()
    trainer = learner.training.trainer
    train_step = trainer.train_step

    def poisoned(batch: Any) -> Any:
        report = train_step(batch)
        if learner.training.step == 12:
            trainer.net.state_dict()["stem.norm.running_var"].fill_(float("inf"))
        assert math.isfinite(report.total)
        return report

    trainer.train_step = poisoned
    with pytest.raises(FatalRoleError, match=r"stem\.norm\.running_var is not finite after step"):
        bench.run_dry(learner)
    assert bench.store.weights().step <= 12
    files = [*(bench.folder / "weights").iterdir(), *(bench.folder / "checkpoints").iterdir()]
    assert len(files) > 2
    for path in files:
        assert all(torch.isfinite(tensor).all() for tensor in load_file(path).values())


CRASH_POINTS = ["before checkpoint", "after checkpoint", "after weights file", "after number"]


@pytest.mark.parametrize("point", CRASH_POINTS)
@pytest.mark.parametrize("version", [1, 2, 4])
def test_a_version_never_has_two_contents_wherever_the_learner_is_killed(
    bench: Any, monkeypatch: pytest.MonkeyPatch, point: str, version: int
) -> None:
    bench.publish(range(14))
    seen: dict[int, str] = {}
    publish_weights = bench.store.publish_weights

    def watched(number: int, step: int, sha256: str, epoch: int) -> None:
        assert seen.setdefault(number, sha256) == sha256
        publish_weights(number, step, sha256, epoch)
        if point == "after number" and number == version:
            raise KeyboardInterrupt

    bench.store.publish_weights = watched
    first = bench.learner()
    save, write = learner_module.save_checkpoint, first._publisher.write

    def dying_save(*arguments: Any) -> Any:
        if point == "before checkpoint" and first.version == version:
            raise KeyboardInterrupt
        path = save(*arguments)
        if point == "after checkpoint" and first.version == version:
            raise KeyboardInterrupt
        return path

    def dying_write(number: int, *arguments: Any) -> None:
        write(number, *arguments)
        if point == "after weights file" and number == version:
            raise KeyboardInterrupt

    monkeypatch.setattr(learner_module, "save_checkpoint", dying_save)
    first._publisher.write = dying_write  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        bench.run_dry(first)
    monkeypatch.undo()
    point = ""
    before = {path.name: path.read_bytes() for _v, _e, path in list_weights(bench.folder / "weights")}
    second = bench.run_dry(bench.learner())
    for name, data in before.items():
        assert (bench.folder / "weights" / name).read_bytes() == data
    contents: dict[int, set[str]] = {}
    for number, _epoch, path in list_weights(bench.folder / "weights"):
        contents.setdefault(number, set()).add(load_weights(path)[1].sha256)
    assert all(len(found) == 1 for found in contents.values())
    assert sorted(seen) == list(range(1, second.version + 1))
    assert bench.store.weights().version == second.version
    assert bench.store.weights().sha256 == seen[second.version]


def test_a_learner_that_wakes_after_its_successor_changes_nothing_that_counts(bench: Any) -> None:
    bench.publish(range(12))
    sleeping = bench.learner()
    found: dict[str, Any] = {}

    def sleeps_after_step_three(it: Any) -> bool:
        if it.training.step >= 3 and not found:
            found["sleeps"] = True
            found["new"] = bench.run_dry(bench.learner())
            found["record"], found["logged"] = bench.store.weights(), _numbers(bench)
            bench.publish(range(12, 20))
        return False

    with pytest.raises(StaleEpochError):
        bench.run_until(sleeping, sleeps_after_step_three)
    assert bench.store.weights() == found["record"]
    assert _numbers(bench) == found["logged"]
    last = bench.run_dry(bench.learner())
    assert sorted(_numbers(bench)) == list(range(20))
    assert len(_numbers(bench)) == 20
    log = EpisodeLog.read_only(bench.folder / "log")
    offline = replay_log(bench.game, bench.config, bench.network, bench.seed, log, num_steps=10_000)
    assert offline.step == last.training.step > found["new"].training.step
    ours, theirs = offline.trainer.state(), last.training.trainer.state()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_checkpoints_of_a_woken_learner_are_not_gone_on_from(bench: Any) -> None:
    bench.publish(range(20))
    sleeping = bench.learner()
    new = bench.run_dry(bench.learner())
    sleeping.training.trainer.step = 9999
    sleeping.version = 77
    sleeping._save_checkpoint()
    resumed = bench.run_dry(bench.learner())
    assert resumed.training.step == new.training.step
    assert resumed.version == new.version


def test_a_torn_newest_checkpoint_costs_steps_but_no_number(bench: Any) -> None:
    """The steps are repeated and published again under fresh numbers."""
    bench.publish(range(25))
    first = bench.run_dry(bench.learner())
    newest = max((bench.folder / "checkpoints").iterdir())
    write_durably(newest, newest.read_bytes()[:-9])
    before = bench.store.weights()
    second = bench.run_dry(bench.learner())
    assert second.training.step == first.training.step
    assert second.version > before.version
    assert bench.store.weights().version == second.version


def test_weights_without_any_checkpoint_are_an_error(bench: Any) -> None:
    """Fault 71: the run does not quietly begin again from an untrained network."""
    bench.publish(range(10))
    bench.run_dry(bench.learner())
    for path in (bench.folder / "checkpoints").iterdir():
        path.unlink()
    with pytest.raises(DamagedRunError, match="no checkpoint, though weights were published"):
        bench.run_dry(bench.learner())


def test_a_store_that_forgot_its_weights_is_told_again(bench: Any) -> None:
    bench.publish(range(10))
    first = bench.run_dry(bench.learner())
    record = bench.store.weights()
    bench.store._weights = None
    second = bench.run_dry(bench.learner())
    assert second.version == first.version
    assert bench.store.weights() == record


@pytest.mark.parametrize("average_decay", [0.0, 0.9])
def test_stopping_publishes_what_was_learned_since_the_last_version(
    bench: Any, small_config: LearnerConfig, average_decay: float
) -> None:
    bench.publish(range(25))
    config = replace(small_config, average_decay=average_decay)
    learner = bench.run_until(bench.learner(config), lambda it: it.training.step >= 8)
    assert learner.training.step % 5 != 0
    record = bench.store.weights()
    assert record.step == learner.training.step
    tensors = _weights(bench, record.version)
    state = learner.training.trainer.published_net.state_dict()
    assert all(torch.equal(tensors[name], state[name]) for name in state)
    last = learner.training.trainer.net.state_dict()
    assert all(torch.equal(tensors[name], last[name]) for name in last) == (average_decay == 0.0)


def test_old_weights_and_checkpoints_leave_the_disk(bench: Any, small_config: LearnerConfig) -> None:
    """Fault 90."""
    bench.publish(range(40))
    config = replace(small_config, weights_keep=4, checkpoint_keep=2)
    learner = bench.run_dry(bench.learner(config))
    versions = [version for version, _epoch, _path in list_weights(bench.folder / "weights")]
    assert versions == list(range(learner.version - 3, learner.version + 1))
    assert len(list((bench.folder / "checkpoints").iterdir())) == 2


def test_a_learner_that_sees_one_position_alone_shows_it(bench: Any, play: Callable[..., Any]) -> None:
    """Fault 59: games cut after one ply hold the first position alone; of the 8 rows of a batch 1 is distinct."""
    for number in range(40):
        bench.stream.publish(encode_episode(play(bench.game, number, max_plies=1)))
    learner = bench.run_dry(bench.learner())
    assert learner.training.step > 0
    assert bench.metrics.learner_replay_distinct_share._value.get() == 1 / 8


def test_metrics_and_numbers_say_what_happened(bench: Any) -> None:
    bench.publish(range(25))
    learner = bench.run_dry(bench.learner())
    numbers, metrics = learner.numbers(), bench.metrics
    assert numbers["step"] == metrics.learner_step._value.get() == metrics.learner_steps._value.get()
    assert numbers["positions"] == metrics.learner_positions._value.get()
    assert numbers["games"] == metrics.learner_episodes._value.get() == 25
    assert numbers["weights_version"] == metrics.learner_weights_version._value.get()
    assert numbers["samples_per_insert"] == pytest.approx(2.0, abs=8 / numbers["positions"])
    assert metrics.learner_loss.labels("policy")._value.get() == numbers["loss_policy"]
    assert 0 < metrics.learner_replay_distinct_share._value.get() <= 1
    assert metrics.learner_log_bytes._value.get() == sum(
        path.stat().st_size for path in (bench.folder / "log").iterdir()
    )
