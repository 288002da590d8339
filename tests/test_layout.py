"""The folders of the root are the package: by links in `src/zerofleet`, and by nothing else."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "zerofleet"
FOLDERS = ["actors", "cluster", "games", "inference", "learner", "network", "search", "streams"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_is_linked_into_the_package(folder: str) -> None:
    link = SOURCE / folder
    assert link.is_symlink()
    assert link.readlink() == Path("../..") / folder
    assert link.resolve() == ROOT / folder
    assert (ROOT / folder / "__init__.py").is_file()


def test_the_package_links_to_nothing_else() -> None:
    links = sorted(path.name for path in SOURCE.iterdir() if path.is_symlink())
    assert links == FOLDERS


@pytest.mark.parametrize("folder", ["tests", "docker", "docs", "benchmarks", "examples"])
def test_folders_that_are_no_packages_have_no_init(folder: str) -> None:
    assert list((ROOT / folder).rglob("__init__.py")) == []


def test_each_folder_says_what_it_is() -> None:
    for folder in FOLDERS:
        text = (ROOT / folder / "__init__.py").read_text()
        assert text.startswith('"""'), f"{folder}/__init__.py does not open with a docstring"
        assert len(text.split('"""')[1]) > 60, f"{folder}/__init__.py says too little"


def test_no_module_is_called_utils() -> None:
    names = {path.stem for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")}
    assert names & {"utils", "helpers", "common", "misc"} == set()


def test_tests_mirror_the_folders() -> None:
    known = {*FOLDERS, "native", "integration", "examples", "benchmarks", "__pycache__"}
    assert {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()} <= known


def modules_that_say(*words: str) -> list[str]:
    """Return the modules of the package that hold one of the words."""
    paths = [path for folder in [*FOLDERS, "src/zerofleet"] for path in (ROOT / folder).glob("*.py")]
    return [f"{path.relative_to(ROOT)}: {word}" for path in paths for word in words if word in path.read_text()]


def test_no_module_forks() -> None:
    """Fault 103: processes are begun by Ray or from a command line, never copied from one that may hold a GPU."""
    assert modules_that_say("multiprocessing", "os.fork", "ProcessPoolExecutor") == []


def test_no_module_reads_or_writes_pickles() -> None:
    """Faults 122 and 123: what is kept or sent is safetensors, msgpack, JSON or TOML, whatever wrote it."""
    assert modules_that_say("import pickle", "from pickle", "torch.load", "torch.save", "allow_pickle=True") == []
    assert len(modules_that_say('"""')) > 60  # the words would be found
