"""A controller's world without Ray and Redis: roles that live and die as a test says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from zerofleet.cluster.controller import Controller
from zerofleet.cluster.game_source import GameSource
from zerofleet.cluster.role_spec import Role, RoleOutcome, RoleSpec, RunSpec
from zerofleet.cluster.run_config import RunConfig, resolve_config
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.cluster.topology import Node
from zerofleet.errors import StreamUnavailableError
from zerofleet.streams.records import RoleRecord
from zerofleet.streams.store import MemoryRunStore
from zerofleet.streams.stream import MemoryEpisodeStream
from zerofleet.telemetry import Metrics


@dataclass
class FakeRole:
    """A role that a test lets live, speak and die."""

    role: Role
    index: int
    incarnation: str
    node: str = "home"
    end: RoleOutcome | None = None
    stop_asked: bool = False
    killed: bool = False
    loaded: list[int] = field(default_factory=list)

    def outcome(self) -> RoleOutcome | None:
        return self.end

    def stop(self) -> None:
        self.stop_asked = True

    def kill(self) -> None:
        self.killed = True

    def load_weights(self, version: int, weights: object) -> None:
        self.loaded.append(version)


class FakeLauncher:
    """Starts fake roles, and remembers all that it ever started."""

    def __init__(self) -> None:
        self.started: list[FakeRole] = []
        self.living: list[tuple[Role, int, FakeRole]] = []
        self.cluster = [Node(id="home", cpus=2, is_home=True)]
        self.num_shared = 0

    def nodes(self) -> Sequence[Node]:
        return self.cluster

    def start(self, spec: RoleSpec) -> FakeRole:
        role = FakeRole(spec.role, spec.index, spec.incarnation, spec.node)
        self.started.append(role)
        return role

    def adopt(self) -> list[tuple[Role, int, FakeRole]]:
        return self.living

    def share(self, data: bytes) -> object:
        self.num_shared += 1
        return data

    def now(self, role: str, index: int = 0) -> FakeRole:
        """Return the newest start of a role."""
        return [found for found in self.started if (found.role, found.index) == (role, index)][-1]


class SilentStore(MemoryRunStore):
    """A store that can fall silent, and that can lose its data."""

    silent = False

    def epoch(self, role: str) -> int | None:
        if self.silent:
            raise StreamUnavailableError("nobody answers")
        return super().epoch(role)

    def lose_data(self) -> None:
        self.__init__(clock=self._clock)  # type: ignore[misc]


class World:
    """A run's folder, store, launcher and controller, and a clock that they share."""

    def __init__(self, storage: Path, clock: Any, settings: Sequence[str] = ()) -> None:
        self.clock = clock
        self.folder = RunFolder(storage, "run")
        config = resolve_config("tictactoe", ["cluster.num_actors=2", "stream.lease_s=5.0", *settings])
        self.folder.create(config, GameSource(spec="tictactoe"))
        self.spec = make_run_spec(self.folder, config)
        self.store = SilentStore(clock=clock)
        self.stream = MemoryEpisodeStream(self.store.epoch)
        self.launcher = FakeLauncher()
        self.metrics = Metrics()
        self.num_revived = 0
        self.controller = self.make_controller()

    def make_controller(self) -> Controller:
        def revive() -> bool:
            self.num_revived += 1
            return False

        return Controller(
            self.spec,
            self.folder,
            self.store,
            self.stream,
            self.launcher,
            self.metrics,
            revive_store=revive,
            clock=self.clock,
            wall_clock=self.clock,
        )

    def begin(self) -> None:
        """Take over, start everything, and let every role say hello."""
        self.controller.take_over()
        self.controller.step()
        self.speak()
        self.clock.advance(1.0)
        self.controller.step()

    def speak(self, *, but: Sequence[str] = (), **numbers: float) -> None:
        """Let every role that lives renew its lease, except those named."""
        newest = {(role.role, role.index): role for role in self.launcher.started}
        for role in newest.values():
            if role.end is None and not role.killed and f"{role.role}-{role.index}" not in but:
                self.store.heartbeat(self.record(role, numbers), 5.0)

    def record(self, role: FakeRole, numbers: dict[str, float]) -> RoleRecord:
        return RoleRecord(
            role=role.role,
            index=role.index,
            node=role.node,
            pid=1,
            incarnation=role.incarnation,
            numbers=dict(numbers),
        )


def make_run_spec(folder: RunFolder, config: RunConfig) -> RunSpec:
    return RunSpec(
        run=folder.run,
        storage=str(folder.storage),
        config=config,
        game=GameSource(spec="tictactoe"),
        redis_url="",
        redis_is_embedded=False,
        token="t",
        session=folder.begin_session(),
        storage_nodes=("home",),
        scratch="",
        spans_nodes=False,
    )


@pytest.fixture
def world(tmp_path: Path, fake_clock: Any) -> World:
    return World(tmp_path, fake_clock)


@pytest.fixture
def anew(world: World) -> Callable[[], RunSpec]:
    """Launch the run anew: what a second `train` does."""

    def launch() -> RunSpec:
        world.spec = replace(world.spec, session=world.folder.begin_session())
        return world.spec

    return launch
