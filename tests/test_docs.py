"""What the texts name exists: files, make targets, metrics, dials; and each dependency is pinned."""

import re
import tomllib
from pathlib import Path
from typing import get_type_hints

import pytest

from zerofleet.cluster.run_config import RunConfig
from zerofleet.telemetry import Metrics

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_into_the_repository_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert missing == []


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    texts = "\n".join(page.read_text() for page in PAGES)
    named = set(re.findall(r"(?:^    |`)make ([a-z-]+)", texts, re.MULTILINE))
    assert named <= targets
    assert {"install", "train", "test", "lint", "bench"} <= targets


def test_every_metric_that_is_named_exists() -> None:
    families = {
        family.name + ("_total" if family.type == "counter" else "")
        for value in vars(Metrics()).values()
        if hasattr(value, "describe")
        for family in value.describe()
    }
    text = (ROOT / "docs" / "operations.md").read_text()
    assert set(re.findall(r"zerofleet_[a-z_]+", text)) <= families


def test_every_dial_that_the_readme_names_exists() -> None:
    dials = re.findall(r"`((?:search|network|learner|inference|self_play)\.[a-z_]+)`", (ROOT / "README.md").read_text())
    assert len(dials) >= 4
    for dial in dials:
        part, field = dial.split(".")
        assert field in get_type_hints(get_type_hints(RunConfig)[part]), dial


def test_every_direct_dependency_is_pinned() -> None:
    def normal(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    lines = (ROOT / "requirements" / "constraints.txt").read_text().splitlines()
    pinned = {normal(line.split("==")[0]) for line in lines if "==" in line}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["dev"],
        *project["build-system"]["requires"],
    ]
    assert {normal(re.split(r"[^A-Za-z0-9._-]", name)[0]) for name in wanted} <= pinned
    assert not [line for line in lines if "+" in line], "a local version is pinned"


def test_the_page_of_faults_names_the_tests_that_name_them() -> None:
    named: dict[int, set[Path]] = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        for numbers in re.findall(r"[Ff]aults?\s+(\d+(?:(?:,|\s+and)\s+\d+)*)", path.read_text()):
            for number in re.findall(r"\d+", numbers):
                named.setdefault(int(number), set()).add(path)
    page = ROOT / "docs" / "known-faults.md"
    listed: dict[int, set[Path]] = {}
    for row in re.findall(r"^\| (\d+) \|.*\| (.*) \|$", page.read_text(), re.MULTILINE):
        listed[int(row[0])] = {(page.parent / target).resolve() for target in re.findall(r"\]\(([^)]+)\)", row[1])}
    assert set(named) <= set(listed), "a fault has no row"
    for number, paths in listed.items():
        assert bool(paths) == (number in named), f"fault {number} has a test and no link, or the other way round"
        assert paths <= named.get(number, set()), f"a test of fault {number} does not name it"
    assert len(named) > 80
