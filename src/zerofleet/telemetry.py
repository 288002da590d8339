"""Every Prometheus metric of Zerofleet, declared once.

A process makes one `Metrics` and hands it to its role; tests make their own with a fresh registry.  Names read
`zerofleet_<role>_<what>_<unit>`; no label has an unbounded set of values.  Units are seconds and bytes.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

_BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096)
_SECONDS_BUCKETS = (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Metrics:
    """The metrics of one process, in a registry of their own."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry if registry is not None else CollectorRegistry()
        self._declare_actor()
        self._declare_inference()
        self._declare_stream()
        self._declare_learner()
        self._declare_controller()
        self.process_resident_bytes = self._gauge("process_resident_bytes", "Resident memory of this process", ["role"])

    def _counter(self, name: str, text: str, labels: list[str] | None = None) -> Counter:
        return Counter(f"zerofleet_{name}", text, labels or [], registry=self.registry)

    def _gauge(self, name: str, text: str, labels: list[str] | None = None) -> Gauge:
        return Gauge(f"zerofleet_{name}", text, labels or [], registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"zerofleet_{name}", text, buckets=buckets, registry=self.registry)

    def _declare_actor(self) -> None:
        self.actor_games = self._counter("actor_games", "Finished games that were published")
        self.actor_positions = self._counter("actor_positions", "Leaf positions that an evaluator answered")
        self.actor_moves = self._counter("actor_moves", "Moves played")
        self.actor_simulations = self._counter("actor_simulations", "Simulations, terminal ones included")
        self.actor_reused_visits = self._counter("actor_reused_visits", "Visits carried over in reused subtrees")
        self.actor_waiting_seconds = self._counter(
            "actor_waiting_seconds", "Time in which the actor could not search, by what it waited for", ["reason"]
        )
        self.actor_abandoned_games = self._counter(
            "actor_abandoned_games", "Games dropped unfinished when the actor ended"
        )
        self.actor_uniform_priors = self._counter(
            "actor_uniform_priors", "Rows whose priors were all zero or not finite and were replaced by uniform ones"
        )
        self.actor_resends = self._counter("actor_resends", "Requests sent again after a deadline or a lost connection")
        self.actor_games_in_flight = self._gauge("actor_games_in_flight", "Games being played now")

    def _declare_inference(self) -> None:
        self.inference_positions = self._counter("inference_positions", "Positions evaluated, padding not counted")
        self.inference_requests = self._counter("inference_requests", "Requests answered")
        self.inference_refused = self._counter("inference_refused", "Frames and connections refused", ["reason"])
        self.inference_batch_size = self._histogram(
            "inference_batch_size", "Positions in a forward pass", _BATCH_BUCKETS
        )
        self.inference_queue_seconds = self._histogram(
            "inference_queue_seconds", "From a request's arrival to its forward pass", _SECONDS_BUCKETS
        )
        self.inference_forward_seconds = self._histogram(
            "inference_forward_seconds", "One forward pass", _SECONDS_BUCKETS
        )
        self.inference_busy_seconds = self._counter("inference_busy_seconds", "Time in forward passes")
        self.inference_weights_version = self._gauge("inference_weights_version", "Newest weights loaded")
        self.inference_non_finite_rows = self._counter(
            "inference_non_finite_rows", "Positions for which the network gave a number that is not finite"
        )
        self.inference_connections = self._gauge("inference_connections", "Clients connected")
        self.inference_resident_versions = self._gauge("inference_resident_versions", "Weights versions held")

    def _declare_stream(self) -> None:
        self.stream_backlog_episodes = self._gauge("stream_backlog_episodes", "Episodes nobody has read yet")
        self.stream_pending_episodes = self._gauge("stream_pending_episodes", "Episodes read and not yet acknowledged")
        self.stream_dead_letters = self._counter(
            "stream_dead_letters", "Entries put aside as undecodable or unreplayable"
        )

    def _declare_learner(self) -> None:
        self.learner_steps = self._counter("learner_steps", "Optimiser steps since this process started")
        self.learner_step = self._gauge("learner_step", "Optimiser steps of the run")
        self.learner_loss = self._gauge("learner_loss", "Loss of the last step, by part", ["part"])
        self.learner_samples_per_insert = self._gauge("learner_samples_per_insert", "Rows sampled per position logged")
        self.learner_weights_version = self._gauge("learner_weights_version", "Last version published")
        self.learner_replay_positions = self._gauge("learner_replay_positions", "Positions in the replay buffer")
        self.learner_replay_distinct_share = self._gauge(
            "learner_replay_distinct_share", "Distinct positions among the rows of the last batch"
        )
        self.learner_episodes = self._counter("learner_episodes", "Episodes logged")
        self.learner_duplicates = self._counter("learner_duplicates", "Episodes that came again and were ignored")
        self.learner_positions = self._counter("learner_positions", "Positions logged")
        self.learner_waiting_seconds = self._counter("learner_waiting_seconds", "Time without a step", ["reason"])
        self.learner_log_bytes = self._gauge("learner_log_bytes", "Size of the episode log")
        self.learner_error_rate = self._gauge(
            "learner_error_rate",
            "Share of solved positions in which the newest weights give game value away, alone or with 100 simulations",
            ["stage", "player"],
        )
        self.learner_lost_steps = self._gauge("learner_lost_steps", "Steps that the last resume had to repeat")

    def _declare_controller(self) -> None:
        self.controller_actors = self._gauge("controller_actors", "Actors, wished and alive", ["state"])
        self.controller_restarts = self._counter("controller_restarts", "Roles restarted", ["role"])
        self.controller_waiting = self._gauge("controller_waiting", "1 for what the run waits for now", ["reason"])
        self.controller_store_errors = self._counter("controller_store_errors", "Times the store did not answer")


def serve(metrics: Metrics, host: str = "127.0.0.1", port: int = 0) -> int:
    """Serve `metrics` over HTTP from a daemon thread and return the port; 0 takes any free one."""
    server, _thread = start_http_server(port, addr=host, registry=metrics.registry)
    return int(server.server_port)
