"""Ray as a run needs it: one machine's own, or a cluster that is there already.

On one machine Ray listens on loopback alone, with a token of its own, in a folder of its own: several runs on one
machine do not see each other.  Environment variables must be set before Ray is first imported; so this module imports
it late.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerofleet.errors import ConfigError, RunError

_log = logging.getLogger(__name__)

_MACHINE = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # everything on loopback
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "600",  # else Ray ends this process, before it can say what happened
    "RAY_worker_niceness": "0",  # the roles are the work: by default Ray lets every other process go before them
    # What nobody looks at here, without a dashboard, does not take the cores' time.
    "RAY_enable_metrics_collection": "0",
    "REPORTER_UPDATE_INTERVAL_MS": "60000",  # what each process uses
    "SCAN_EVENT_DIR_INTERVAL_SECONDS": "60",
    "RAY_LOG_MONITOR_MANY_FILES_THRESHOLD": "0",  # so that the next line holds: else log files are looked for at 10 Hz
    "LOG_NAME_UPDATE_INTERVAL_S": "3600",
}
ROLE_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    # glibc keeps what a step frees for the next one: otherwise a learner's memory comes and goes by tens of megabytes,
    # and creeps up for ten minutes.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}

_LISTENS_S = 5.0
"""How long the head of a cluster may take to accept a connection."""

_PROOF_S = 30.0
"""How long the other nodes may take to say whether they see the storage."""


@dataclass(slots=True)
class RaySession:
    """A connection to Ray, and the folder to remove when it ends."""

    namespace: str
    spans_nodes: bool
    home: str
    """Id of the node that this process is on."""

    folder: Path | None = None
    num_nodes: int = 1

    def end(self) -> None:
        """Disconnect; on one machine this ends Ray and everything on it."""
        import ray

        ray.shutdown()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def namespace(run: str) -> str:
    """Return the Ray namespace of a run."""
    return f"zerofleet-{run}"


def start_local(run: str, folder: Path, *, num_processes: int, object_store_mb: int) -> RaySession:
    """Start a Ray of this process's own, for one machine; it ends with this process.

    Its files lie in `folder`, which goes when the session ends.

    Raises:
        RunError: Ray does not start, a second time neither: it gives its own processes half a minute, which a machine
            that is busy with other work may need for their first.
    """
    os.environ.update(_MACHINE, RAY_AUTH_TOKEN=secrets.token_hex(32))
    for name, value in ROLE_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    os.environ.pop("RAY_ADDRESS", None)
    import ray

    for _attempt in range(2):
        try:
            ray.init(
                address="local",
                namespace=namespace(run),
                num_cpus=num_processes,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                object_store_memory=object_store_mb * 2**20,
                _temp_dir=str(folder / "ray"),
            )
            break
        except Exception as error:  # Ray raises a bare one where its processes come too late
            _log.warning("Ray did not start: %s", error)
            ray.shutdown()
            problem = error
    else:
        raise RunError(f"Ray does not start on this machine, which may be too busy: {problem}") from problem
    return RaySession(namespace=namespace(run), spans_nodes=False, home=_own_node(), folder=folder)


def connect(run: str, address: str) -> RaySession:
    """Connect to the Ray cluster at `address`.

    Raises:
        ConfigError: nothing answers there.
    """
    _require_listener(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    try:
        ray.init(
            address=address,
            namespace=namespace(run),
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env={"env_vars": dict(ROLE_ENVIRONMENT)},
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ConfigError(f"--address {address}: no Ray cluster answers there ({error})") from error
    num_nodes = len(_alive())
    return RaySession(namespace=namespace(run), spans_nodes=num_nodes > 1, home=_own_node(), num_nodes=num_nodes)


def _require_listener(address: str) -> None:
    """Return if somebody listens at `host:port`: Ray itself tries for minutes.  Other addresses are for Ray."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_LISTENS_S).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"--address {address}: nobody listens there ({error})") from error


def storage_nodes(session: RaySession, proof: Path) -> tuple[str, ...]:
    """Return the ids of the nodes on which the file `proof` has the same content as here, this node's first."""
    if not session.spans_nodes:
        return (session.home,)
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    content = proof.read_bytes()
    task: Any = ray.remote(num_cpus=0)(_file_is)
    others = [node for node in _alive() if node != session.home]
    answers = [
        task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(str(proof), content)
        for node in others
    ]
    done, _ = ray.wait(answers, num_returns=len(answers), timeout=_PROOF_S)
    seen = [node for node, answer in zip(others, answers, strict=True) if answer in done and ray.get(answer)]
    return (session.home, *seen)


def _file_is(path: str, content: bytes) -> bool:
    try:
        return Path(path).read_bytes() == content
    except OSError:
        return False


def _alive() -> list[str]:
    import ray

    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return [str(node["NodeID"]) for node in nodes if node["Alive"]]


def _own_node() -> str:
    import ray

    context: Any = ray.get_runtime_context()
    return str(context.get_node_id())
