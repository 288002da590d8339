"""The names that dashboards rely on, and what a name may look like."""

import re
import urllib.request

import pytest
from prometheus_client import CollectorRegistry

from zerofleet.telemetry import Metrics, serve

# What DESIGN promises, as Prometheus shows it.  Renaming one breaks somebody's dashboard.
PROMISED = {
    "zerofleet_actor_games_total": set(),
    "zerofleet_actor_positions_total": set(),
    "zerofleet_actor_simulations_total": set(),
    "zerofleet_actor_waiting_seconds_total": {"reason"},
    "zerofleet_inference_positions_total": set(),
    "zerofleet_inference_batch_size": set(),
    "zerofleet_inference_queue_seconds": set(),
    "zerofleet_inference_forward_seconds": set(),
    "zerofleet_inference_busy_seconds_total": set(),
    "zerofleet_stream_backlog_episodes": set(),
    "zerofleet_stream_pending_episodes": set(),
    "zerofleet_stream_dead_letters_total": set(),
    "zerofleet_learner_steps_total": set(),
    "zerofleet_learner_loss": {"part"},
    "zerofleet_learner_samples_per_insert": set(),
    "zerofleet_learner_weights_version": set(),
    "zerofleet_learner_replay_positions": set(),
    "zerofleet_controller_actors": {"state"},
    "zerofleet_controller_restarts_total": {"role"},
    "zerofleet_process_resident_bytes": {"role"},
}
# Labels whose sets of values are bounded.
BOUNDED_LABELS = {"reason", "part", "state", "role", "stage", "player"}


def declared(metrics: Metrics) -> dict[str, tuple[str, set[str]]]:
    """Name in Prometheus, without a histogram's suffixes → (type, labels)."""
    found = {}
    for value in vars(metrics).values():
        if isinstance(value, CollectorRegistry):
            continue
        family = next(iter(value.describe()))
        suffix = "_total" if family.type == "counter" else ""
        found[family.name + suffix] = (family.type, set(value._labelnames))
    return found


def test_every_promised_metric_exists_with_its_labels() -> None:
    found = declared(Metrics())
    assert {name: found[name][1] for name in PROMISED if name in found} == PROMISED


def test_names_follow_the_pattern_and_labels_are_bounded() -> None:
    for name, (kind, labels) in declared(Metrics()).items():
        assert re.fullmatch(r"zerofleet_(actor|inference|stream|learner|controller|process)_[a-z_]+", name), name
        assert labels <= BOUNDED_LABELS, name
        assert not re.search(r"_(ms|milliseconds|mb|kb|percent)(_|$)", name), f"{name} is not in base units"
        assert name.endswith("_total") == (kind == "counter"), name


def test_two_sets_of_metrics_live_in_one_process() -> None:
    first, second = Metrics(), Metrics()
    first.actor_games.inc()
    assert first.registry.get_sample_value("zerofleet_actor_games_total") == 1.0
    assert second.registry.get_sample_value("zerofleet_actor_games_total") == 0.0


@pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")  # the server's thread lives on
def test_metrics_are_served_over_http_on_loopback() -> None:
    metrics = Metrics()
    metrics.learner_loss.labels(part="value").set(0.25)
    port = serve(metrics)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        text = page.read().decode()
    assert 'zerofleet_learner_loss{part="value"} 0.25' in text
