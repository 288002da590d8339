"""A run's folder in storage: `<storage>/<run>/`.

    config.toml        the resolved config of the run, as last started
    game/              a user's game file, as it was when the run began
    log/               episodes (learner)
    checkpoints/       the learner's state (learner)
    weights/           published weights, one file a version (learner)
    logs/              one text log per role
    redis/             the embedded server: its data, its address and its password
    durable/           what must never go back: epochs, the ceiling of game numbers, the wish, the published weights
    limits.json        when the run ends by itself, as last asked for
    token              the secret that inference clients show; readable by the owner alone
    scratch.json       the folder outside storage that a `train` on one machine uses
    summary.json       what `status` says when nothing of the run is alive
    lock               held by the `train` that runs it

This module knows the layout and what a resume may change; it knows neither Ray nor Redis.
"""

from __future__ import annotations

import fcntl
import json
import re
import secrets
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zerofleet.cluster.durable import read_number, sweep, write_durably, write_number
from zerofleet.cluster.game_source import GameSource
from zerofleet.cluster.run_config import RunConfig, load_run_config
from zerofleet.cluster.storage import DEFAULT_STORAGE
from zerofleet.cluster.temp_folder import make_temp_folder, remove_temp_folder
from zerofleet.config import differences, to_toml
from zerofleet.errors import RunError, StorageError
from zerofleet.streams.store import WeightsRecord, WishRecord

STRENGTH = "strength"
"""The record of how a training's final match and count of errors came out; the model card shows it."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_FIXED = ("game", "seed", "network.")
"""Settings that a resume may not change: the log and the checkpoints would mean something else."""


def fresh_run_name(game: str) -> str:
    """Return a name nobody has used: the game, the time and a few random letters."""
    word = re.sub(r"[^A-Za-z0-9]+", "-", game.rpartition(":")[2]).strip("-").lower()[:30] or "run"
    return f"{word}-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def run_names(storage: Path) -> list[str]:
    """Return the names of the runs in a storage folder."""
    return sorted(path.parent.name for path in storage.glob("*/config.toml"))


class RunFolder:
    """The files of one run, and the numbers in them that must never go back."""

    def __init__(self, storage: Path, run: str) -> None:
        if not _NAME.fullmatch(run):
            raise RunError(f"a run's name has letters, digits, '.', '_' and '-', at most 64, got {run!r}")
        self.run = run
        self.storage = storage.resolve()
        self.path = self.storage / run
        self.log = self.path / "log"
        self.checkpoints = self.path / "checkpoints"
        self.weights = self.path / "weights"
        self.logs = self.path / "logs"
        self.redis = self.path / "redis"
        self._durable = self.path / "durable"

    @property
    def as_arguments(self) -> str:
        """How a command names the run: with its storage, where that is not the default."""
        elsewhere = self.storage != DEFAULT_STORAGE.resolve()
        return f"{self.run} --storage {shlex.quote(str(self.storage))}" if elsewhere else self.run

    @property
    def exists(self) -> bool:
        """Whether the run has been started before."""
        return (self.path / "config.toml").is_file()

    def require(self) -> RunFolder:
        """Return itself, if the run exists.

        Raises:
            RunError: it does not; the message lists those that do.
        """
        if not self.exists:
            known = run_names(self.storage)
            remedy = f"runs there: {', '.join(known)}" if known else "there is none; --storage names another folder"
            raise RunError(f"there is no run {self.run!r} in {self.storage}; {remedy}")
        return self

    def create(self, config: RunConfig, game: GameSource) -> None:
        """Lay out the folder of a fresh run."""
        for folder in (self.log, self.checkpoints, self.weights, self.logs, self.redis, self._durable):
            folder.mkdir(parents=True, exist_ok=True)
        self.redis.chmod(0o700)
        if game.source is not None:
            (self.path / "game").mkdir(exist_ok=True)
            write_durably(self.path / "game" / game.filename, game.source)
        write_durably(self.path / "token", secrets.token_hex(16).encode("ascii"), mode=0o600)
        self.write_config(config)

    def resume(self, config: RunConfig, game: GameSource) -> list[str]:
        """Check a resume and store its config; return the settings that changed.

        Raises:
            RunError: the game, the network or the seed is another one.
        """
        changes = differences(self.config(), config)
        refused = [change for change in changes if change.startswith(_FIXED)]
        if refused:
            raise RunError(
                f"run {self.run!r} was started with another game, network or seed ({'; '.join(refused)}); "
                "leave them out to resume it, or start a run of another name"
            )
        stored = self.game_source(config.game)
        if stored.source != game.source:
            raise RunError(
                f"{game.filename} is not the file that run {self.run!r} was started with "
                f"({self.path / 'game' / game.filename}); start a run of another name"
            )
        for own in (self.path, self.redis, self._durable):
            sweep(own)
        self.write_config(config)
        return changes

    def config(self) -> RunConfig:
        """Return the stored config."""
        return load_run_config(self.path / "config.toml")

    def write_config(self, config: RunConfig) -> None:
        """Store the resolved config."""
        write_durably(self.path / "config.toml", to_toml(config).encode("utf-8"))

    def game_source(self, spec: str) -> GameSource:
        """Return the run's game: a built-in name, or the stored copy of a user's file."""
        return GameSource.stored(spec, self.path / "game")

    def token(self) -> str:
        """Return the secret that inference clients show."""
        return (self.path / "token").read_text(encoding="ascii")

    def begin_session(self) -> str:
        """Mark a launch of the run as the newest one, and return its name."""
        session = secrets.token_hex(8)
        write_durably(self._durable / "session", session.encode("ascii"))
        return session

    def session(self) -> str:
        """Return the newest launch of the run."""
        return (self._durable / "session").read_text(encoding="ascii")

    def epoch(self, role: str) -> int:
        """Return the highest epoch that was ever taken for a role, 0 before the first."""
        return read_number(self._durable / f"epoch-{role}")

    def persist_epoch(self, role: str, epoch: int) -> None:
        """Store an epoch before it is used."""
        write_number(self._durable / f"epoch-{role}", epoch)

    def ceiling(self) -> int:
        """Return the number below which every game number lies that was ever given out."""
        return read_number(self._durable / "ceiling")

    def persist_ceiling(self, ceiling: int) -> None:
        """Store a ceiling before it is used; it never goes down."""
        if ceiling > self.ceiling():
            write_number(self._durable / "ceiling", ceiling)

    def wish(self) -> WishRecord | None:
        """Return the last wish, None before the first."""
        stored = self.record("durable/wish")
        return WishRecord(**stored) if stored else None

    def persist_wish(self, wish: WishRecord) -> None:
        """Store a wish before it is fulfilled."""
        self.write_record("durable/wish", asdict(wish))

    def published(self) -> WeightsRecord | None:
        """Return the last weights that the controller saw published."""
        stored = self.record("durable/weights")
        return WeightsRecord(**stored) if stored else None

    def persist_published(self, weights: WeightsRecord) -> None:
        """Store what weights were published."""
        self.write_record("durable/weights", asdict(weights))

    def server_id(self) -> str:
        """Return the server whose counters were last seen to, "" before the first."""
        return str(self.record("durable/server").get("id", ""))

    def persist_server_id(self, server_id: str) -> None:
        """Store which server's counters were seen to."""
        self.write_record("durable/server", {"id": server_id})

    def read_weights(self, weights: WeightsRecord) -> bytes:
        """Return the bytes of published weights: of the files of that version, the one with that checksum.

        Only the header is looked at; whoever loads the bytes checks the rest.

        Raises:
            StorageError: there is no such file.
        """
        for path in sorted(self.weights.glob(f"{weights.version:08d}-*.safetensors"), reverse=True):
            data = path.read_bytes()
            size = int.from_bytes(data[:8], "little")
            if weights.sha256.encode("ascii") in data[8 : 8 + size]:
                return data
        raise StorageError(f"{self.weights} holds no version {weights.version} with sha256 {weights.sha256[:12]}")

    def make_scratch(self) -> Path:
        """Make a private folder with a short path for what lives as long as a `train` on this machine."""
        scratch = make_temp_folder()
        self.write_record("scratch", {"folder": str(scratch)})
        return scratch

    def remove_scratch(self) -> None:
        """Remove what a `train` that was killed left behind."""
        remove_temp_folder(Path(self.record("scratch").get("folder", "")))
        (self.path / "scratch.json").unlink(missing_ok=True)

    def write_record(self, name: str, record: dict[str, Any]) -> None:
        """Store a small record such as "summary" or "limits"."""
        write_durably(self.path / f"{name}.json", json.dumps(record, indent=1).encode("utf-8"))

    def record(self, name: str) -> dict[str, Any]:
        """Return a record, empty where there is none or it cannot be read."""
        try:
            value = json.loads((self.path / f"{name}.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for this process; the lock goes when the process does.

        Raises:
            RunError: another process runs it, or the folder cannot be written to.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / "lock").open("a")
        except OSError as error:
            reason = error.strerror or error
            raise RunError(f"cannot write to {self.path}: {reason}; --storage names another folder") from None
        with lock as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(
                    f"run {self.run!r} is running already; `zerofleet status {self.as_arguments}` shows it, "
                    f"`zerofleet stop {self.as_arguments}` ends it"
                ) from None
            yield

    def is_held(self) -> bool:
        """Whether a `train` on this machine holds the run now, even one that has only begun or waits for its end."""
        try:
            with self.locked():
                return False
        except RunError:
            return True
