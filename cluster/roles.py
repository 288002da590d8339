"""The plain roles of a run, put together from their parts.  Knows no Ray: each can run in any process.

Imports of torch stay inside the builders that need it, so that an actor's process never loads it.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from zerofleet.actors.actor import Actor
from zerofleet.actors.config import SelfPlaySetup, derive_games_per_actor
from zerofleet.cluster.role_spec import RoleSpec
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.cluster.temp_folder import make_temp_folder
from zerofleet.config import to_mapping
from zerofleet.inference.client import InferenceClient
from zerofleet.inference.wire import Dimensions
from zerofleet.search.base import Evaluation
from zerofleet.streams.records import RoleRecord
from zerofleet.streams.redis_store import RedisRunStore
from zerofleet.streams.redis_stream import RedisEpisodeStream
from zerofleet.telemetry import Metrics

if TYPE_CHECKING:
    from zerofleet.cluster.probe import ErrorProbe


class Role(Protocol):
    """What a process runs."""

    address: str
    """Where clients reach it, a blank between two places; "" for roles without clients."""

    @property
    def waiting_for(self) -> str:
        """What it waits for, in words; "" while it works."""

    def numbers(self) -> dict[str, float]:
        """Return its counters and gauges; any thread may call it."""

    def run(self, stop: threading.Event) -> None:
        """Work until told to stop."""

    def tick(self) -> None:
        """Do what is due with each heartbeat; on the heartbeat's thread.

        Raises:
            StreamUnavailableError: the store does not answer.
        """

    def load_weights(self, version: int, weights: bytes) -> None:
        """Take weights; only inference servers do."""


class PlainRole:
    """A role made of a part with `run`, `waiting_for` and `numbers`."""

    def __init__(self, part: Any) -> None:  # any part of ours: they share these three members
        self._part = part
        self.address = ""

    @property
    def waiting_for(self) -> str:
        """What the part waits for."""
        return str(self._part.waiting_for)

    def numbers(self) -> dict[str, float]:
        """Return what the part counts."""
        return dict(self._part.numbers())

    def run(self, stop: threading.Event) -> None:
        """Run the part."""
        self._part.run(stop)

    def tick(self) -> None:
        """Nothing is due."""

    def load_weights(self, version: int, weights: bytes) -> None:
        """Refuse: no weights belong here."""
        raise TypeError(f"{type(self._part).__name__} takes no weights (version {version}, {len(weights)} bytes)")


class ServerDirectory:
    """The addresses of the inference servers that live now, as a client on one node is to use them."""

    def __init__(self, store: RedisRunStore, node: str) -> None:
        self._store = store
        self._node = node
        self._addresses: tuple[str, ...] = ()

    def refresh(self) -> None:
        """Read the registry anew."""
        self._addresses = tuple(
            pick_address(leased.record, self._node)
            for leased in self._store.roles()
            if leased.record.role == "inference" and leased.lease_left_s > 0.0
        )

    def __call__(self) -> Sequence[str]:
        """Return the addresses as of the last refresh."""
        return self._addresses


def pick_address(record: RoleRecord, node: str) -> str:
    """Return the address by which a client on `node` reaches a server: its Unix socket on the same node, else TCP."""
    addresses = record.address.split()
    local = [address for address in addresses if address.startswith("unix:")]
    return local[0] if local and record.node == node else addresses[-1]


class NotingClient(InferenceClient):
    """An inference client that notes the newest weights it was answered with."""

    newest_version = 0

    def collect(self, ticket: Any) -> Evaluation:  # the client's own ticket
        """Wait for the answer, and note its version."""
        evaluation = super().collect(ticket)
        self.newest_version = max(self.newest_version, evaluation.weights_version)
        return evaluation


class ActorRole(PlainRole):
    """Self-play over the network, and the client it asks."""

    def __init__(self, actor: Actor, client: NotingClient, directory: ServerDirectory) -> None:
        super().__init__(actor)
        self._client = client
        self._directory = directory

    def numbers(self) -> dict[str, float]:
        """Return the actor's counters and the newest weights that answered it."""
        return {**super().numbers(), "weights_version": float(self._client.newest_version)}

    def tick(self) -> None:
        """Look which inference servers there are."""
        self._directory.refresh()


class LearnerRole(PlainRole):
    """A learner, and the probe that measures what it publishes."""

    def __init__(self, learner: Any, probe: ErrorProbe | None) -> None:  # loads torch
        super().__init__(learner)
        self._probe = probe

    def numbers(self) -> dict[str, float]:
        """Return the learner's numbers and the newest error rates."""
        return {**super().numbers(), **(self._probe.numbers() if self._probe is not None else {})}


class InferenceRole(PlainRole):
    """An inference server, and the metrics that count for it."""

    def __init__(self, server: Any, metrics: Metrics, folder: Path) -> None:  # loads torch
        super().__init__(server)
        self.address = " ".join(server.addresses)
        self._metrics = metrics
        self._folder = folder

    def numbers(self) -> dict[str, float]:
        """Return what `status` and the controller need to know."""
        value = self._metrics.registry.get_sample_value
        names = {
            "positions": "zerofleet_inference_positions_total",
            "busy_seconds": "zerofleet_inference_busy_seconds_total",
            "weights_version": "zerofleet_inference_weights_version",
        }
        return {name: value(metric) or 0.0 for name, metric in names.items()}

    def load_weights(self, version: int, weights: bytes) -> None:
        """Make a version resident."""
        self._part.load(version, weights)

    def run(self, stop: threading.Event) -> None:
        """Serve, and leave no socket behind."""
        try:
            super().run(stop)
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)


def build_role(spec: RoleSpec, metrics: Metrics) -> Role:
    """Put together the role that `spec` names; the controller is built by the launcher."""
    builders: dict[str, Callable[[RoleSpec, Metrics], Role]] = {
        "actor": _build_actor,
        "inference": _build_inference,
        "learner": _build_learner,
    }
    return builders[spec.role](spec, metrics)


def open_store(spec: RoleSpec) -> RedisRunStore:
    """Return the run's store; it connects when it is used."""
    return RedisRunStore(spec.run.redis_url, spec.run.run, timeout_s=spec.run.config.stream.timeout_s)


def open_stream(spec: RoleSpec) -> RedisEpisodeStream:
    """Return the run's stream of episodes; it connects when it is used."""
    config = spec.run.config.stream
    return RedisEpisodeStream(
        spec.run.redis_url, spec.run.run, max_backlog=config.max_backlog, timeout_s=config.timeout_s
    )


def _build_actor(spec: RoleSpec, metrics: Metrics) -> Role:
    config = spec.run.config
    game = spec.run.game.load()
    directory = ServerDirectory(open_store(spec), spec.node)
    client = NotingClient(
        directory,
        spec.run.token,
        Dimensions.of(game),
        spread=spec.index,
        deadline_s=config.inference.deadline_s,
        total_deadline_s=config.inference.total_deadline_s,
        metrics=metrics,
    )
    setup = SelfPlaySetup(
        run=spec.run.run,
        actor=spec.slot,
        seed=config.seed,
        game=game,
        search=config.search,
        self_play=config.self_play,
        num_games=derive_games_per_actor(
            config.self_play, config.search, num_actors=spec.num_actors, num_servers=spec.num_servers
        ),
    )
    return ActorRole(Actor(setup, client, open_stream(spec), open_store(spec), metrics), client, directory)


def _build_inference(spec: RoleSpec, metrics: Metrics) -> Role:
    from zerofleet.inference.server import InferenceServer
    from zerofleet.inference.torch_backend import TorchBackend

    backend = TorchBackend(spec.run.game.load(), spec.run.config.inference)
    folder = make_temp_folder(Path(spec.run.scratch) if spec.run.scratch else None)
    addresses = [f"unix:{folder}/inference.sock", *([f"tcp:{spec.host}:0"] if spec.run.spans_nodes else [])]
    server = InferenceServer(backend, spec.run.config.inference, addresses, spec.run.token, metrics)
    return InferenceRole(server, metrics, folder)


def _build_learner(spec: RoleSpec, metrics: Metrics) -> Role:
    from zerofleet.cluster.probe import start_probe
    from zerofleet.learner.learner import Learner

    config = spec.run.config
    folder = RunFolder(Path(spec.run.storage), spec.run.run)
    store = open_store(spec)
    epoch = store.acquire_epoch("learner", folder.epoch("learner"), lambda new: folder.persist_epoch("learner", new))
    learner = Learner(
        game=spec.run.game.load(),
        config=config.learner,
        network=config.network,
        seed=config.seed,
        run=spec.run.run,
        folder=folder.path,
        stream=open_stream(spec),
        store=store,
        epoch=epoch,
        metrics=metrics,
        run_config=to_mapping(config),
    )
    cluster = config.cluster
    probe = start_probe(folder, metrics, share=cluster.probe_share, num_each=cluster.probe_positions)
    return LearnerRole(learner, probe)
