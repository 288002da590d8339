"""All settings of a run: every part's config, composed, and the rules between them."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from zerofleet.actors.config import SelfPlayConfig
from zerofleet.config import build, check_values, merge, parse_assignments, read_toml
from zerofleet.errors import ConfigError
from zerofleet.inference.config import InferenceConfig
from zerofleet.learner.config import LearnerConfig
from zerofleet.network.config import NetworkConfig
from zerofleet.search.base import SearchConfig
from zerofleet.streams.config import StreamConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """How many roles there are, and how they are watched."""

    num_actors: int = 0
    """Actors wished for when a run begins; 0 derives the number from the nodes.  `zerofleet scale` changes the wish."""

    num_inference_servers: int = 0
    """Inference servers; 0 derives the number from the nodes."""

    metrics_port: int = 9470
    """Port of the combined metrics page and of service discovery; if it is taken, any free one.  0 takes any."""

    heartbeat_s: float = 1.0
    """How often a role says that it lives."""

    start_timeout_s: float = 120.0
    """A role that has not registered so long after its start is dead."""

    drain_s: float = 30.0
    """How long a role may take to end in order; then it is ended."""

    reconcile_s: float = 0.25
    """How often the controller looks."""

    object_store_mb: int = 200
    """Ray's object store on one machine; it carries weights alone."""

    probe_share: float = 0.03
    """Share of all cores for measuring the errors of the newest weights, where the game has a solver; 0: none."""

    probe_positions: int = 50
    """Positions of each stage that errors are measured on."""

    def __post_init__(self) -> None:
        laws = (
            (0.0 <= self.probe_share <= 1.0, "probe_share", "must lie in [0, 1]"),
            (self.probe_positions >= 1, "probe_positions", "must be 1 or more"),
            (self.num_actors >= 0, "num_actors", "must be 0 (derived) or more"),
            (self.num_inference_servers >= 0, "num_inference_servers", "must be 0 (derived) or more"),
            (0 <= self.metrics_port <= 65_535, "metrics_port", "must be 0 (any) to 65535"),
            (0.05 <= self.heartbeat_s <= 60.0, "heartbeat_s", "must lie in [0.05, 60]"),
            (self.start_timeout_s > 0.0, "start_timeout_s", "must be more than 0"),
            (self.drain_s > 0.0, "drain_s", "must be more than 0"),
            (0.01 <= self.reconcile_s <= 10.0, "reconcile_s", "must lie in [0.01, 10]"),
            (self.object_store_mb >= 80, "object_store_mb", "must be 80 or more"),
        )
        check_values("cluster", self, laws)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """A run, resolved: with it, the log and a seed, everything that is learned is determined."""

    game: str
    seed: int = 0
    search: SearchConfig = field(default_factory=SearchConfig)
    self_play: SelfPlayConfig = field(default_factory=SelfPlayConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    inference: InferenceConfig = field(default_factory=InferenceConfig)
    stream: StreamConfig = field(default_factory=StreamConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**63:
            raise ConfigError(f"seed must lie in [0, 2**63), got {self.seed}")
        if self.stream.lease_s < 3.0 * self.cluster.heartbeat_s:
            raise ConfigError(
                f"stream.lease_s ({self.stream.lease_s}) must be at least 3 times cluster.heartbeat_s "
                f"({self.cluster.heartbeat_s}), or a role is held dead between two heartbeats"
            )
        if self.search.num_simulations == 0:
            raise ConfigError("search.num_simulations is 0: self-play would learn its own priors; set it to 1 or more")


def resolve_config(game: str, assignments: Sequence[str], *, preset: str | None = None) -> RunConfig:
    """Return the config of a fresh run: defaults, then the game's preset, then `--set` assignments.

    Raises:
        ConfigError: an assignment is unknown, impossible, or contradicts another setting.
    """
    values = merge(preset_values(preset if preset is not None else game), parse_assignments(assignments))
    return build(RunConfig, {**values, "game": _fixed_game(game, values)})


def resume_config(stored: RunConfig, assignments: Sequence[str], values: dict[str, object]) -> RunConfig:
    """Return a stored config with `--set` assignments on top; `values` are those of the stored config."""
    merged = merge(values, parse_assignments(assignments))
    return build(RunConfig, {**merged, "game": _fixed_game(stored.game, merged)})


def preset_values(game: str) -> dict[str, object]:
    """Return the settings of a game's preset, or of the one for games without."""
    name = game.partition("(")[0]
    folder = files("zerofleet.cluster").joinpath("presets")
    preset = folder.joinpath(f"{name}.toml")
    if ":" in name or not preset.is_file():
        preset = folder.joinpath("default.toml")
    return tomllib.loads(preset.read_text(encoding="utf-8"))


def load_run_config(path: Path) -> RunConfig:
    """Read a run's stored config.

    Raises:
        ConfigError: it holds none; the message names the file.
    """
    values = read_toml(path)
    try:
        return build(RunConfig, values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def _fixed_game(game: str, values: dict[str, object]) -> str:
    if values.get("game", game) != game:
        raise ConfigError(f"game is named by the command itself ({game}), not by --set game={values['game']}")
    return game
