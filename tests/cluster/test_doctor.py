"""`doctor`: each thing that would go wrong is found, with its remedy."""

from __future__ import annotations

import json
import socket
from collections import namedtuple
from pathlib import Path

import pytest

from zerofleet.cluster import doctor
from zerofleet.cluster.cli import run_command
from zerofleet.cluster.doctor import Finding, describe, examine, exit_code
from zerofleet.errors import StorageError

Usage = namedtuple("Usage", "total used free")


def finding(what: str, storage: Path, redis_url: str | None = None) -> Finding:
    return next(found for found in examine(storage, redis_url) if found.what == what)


def test_this_machine_can_run_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["doctor", "--storage", str(tmp_path / "runs"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"]
    names = [one["what"] for one in found["findings"]]
    assert {"cores", "GPU", "memory", "/dev/shm", "compiler", "Redis", "Ray", "port"} <= set(names)
    assert not (tmp_path / "runs").exists()  # it only looks


def test_every_finding_that_is_not_ok_has_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "usable_cores", lambda: 1)
    monkeypatch.setattr(doctor, "_meminfo_mib", lambda _field: 500)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _path: Usage(1, 1, 2**20))
    monkeypatch.setattr(doctor.shutil, "which", lambda _name: None)
    monkeypatch.setattr(doctor.resource, "getrlimit", lambda _what: (256, 4096))
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    findings = examine(tmp_path, None)
    bad = {found.what for found in findings if found.verdict != "ok"}
    assert {"cores", "memory", "/dev/shm", "storage", "open files", "compiler", "Ray"} <= bad
    assert all(found.remedy for found in findings if found.verdict != "ok")
    assert exit_code(findings) == 1
    assert len(describe(findings)) == len(findings) + len([found for found in findings if found.remedy])


def test_a_taken_port_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        monkeypatch.setattr(
            doctor, "ClusterConfig", lambda: type("C", (), {"metrics_port": port, "object_store_mb": 200})
        )
        found = finding("port", tmp_path)
    assert found.verdict == "note"
    assert str(port) in found.found


def test_no_redis_program_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Path:
        raise StorageError("there is no redis-server")

    monkeypatch.setattr(doctor, "find_server", absent)
    found = finding("Redis", tmp_path)
    assert found.verdict == "wrong"
    assert "--redis-url" in found.remedy


def test_a_redis_that_does_not_answer_is_wrong_and_its_password_is_not_shown(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    found = finding("Redis", tmp_path, f"redis://:hunter2@127.0.0.1:{port}/0")
    assert found.verdict == "wrong"
    assert "hunter2" not in found.found + found.remedy


def test_a_storage_that_cannot_be_written_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.os, "access", lambda _path, _mode: False)
    found = finding("storage", tmp_path / "a" / "b")
    assert found.verdict == "wrong"
    assert str(tmp_path) in found.found
