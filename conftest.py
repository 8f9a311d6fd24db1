"""What every test shares: the repository, a report to draw, the command line as a user calls it."""

from __future__ import annotations

import os
import platform

# OpenBLAS chooses kernels by the processor, and their last bits differ: with those of AVX-512 one
# search of designs leaves 5 % of its topologies without a proof. Tests have the same everywhere.
if platform.machine() == "x86_64":
    os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")
# Threads of PyTorch that wait for work leave the processor to other tests, as in `armillary train`.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

import functools
import gc
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import copied_workers
import hypothesis
import pytest
from command_copies import Copies, copies
from thorough import usually

from armillary.schema import Report

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# The same examples on every machine, however slow it is: a test that fails must fail again.
hypothesis.settings.register_profile("armillary", derandomize=True, deadline=None, max_examples=50)
# `make thorough`: others each time, also where a test says itself how many.
hypothesis.settings.register_profile("thorough", max_examples=1000, deadline=None)
hypothesis.settings.load_profile(usually("armillary", "thorough"))

ROOT = Path(__file__).resolve().parent
Armillary = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def report() -> Report:
    """A report with something in every part of it."""
    loaded: Report = json.loads(
        (ROOT / "tests/python/data/report.json").read_text(encoding="utf-8")
    )
    return loaded


@pytest.fixture(scope="session")
def commands() -> Iterator[Copies]:
    """A process that has loaded the command line. Each command is a copy of it."""
    with copies("commands") as made:
        yield made


@pytest.fixture(scope="session")
def running() -> Iterator[Browser]:
    """One browser for all visits."""
    import browser

    with browser.browser() as found:
        yield found


@pytest.fixture
def workers_in_copies(commands: Copies, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of sweeps of this process are copies of the process of `commands`."""
    copied_workers.use(commands, monkeypatch)


# What `armillary train` loads. The second one is what a backward pass loads.
_TRAINER = (
    "torch",
    "torch.fx.experimental.symbolic_shapes",
    "armillary_train.run.loop",
    "drawn_clicks",
    "short_repeats",
    "few_evaluated",
)


@pytest.fixture(scope="session")
def trainings() -> Iterator[Copies]:
    """As `commands`, for verbs that train: PyTorch is loaded, as `armillary train` loads it."""
    with copies("trainings", *_TRAINER, TORCH_CPP_LOG_LEVEL="FATAL") as made:
        yield made


@pytest.fixture
def armillary(request: pytest.FixtureRequest, tmp_path: Path) -> Armillary:
    """Runs the command line in a process of its own, in an empty directory, 100 columns wide. In
    tests of the trainer, PyTorch is loaded."""
    trainer = "train" in request.path.relative_to(ROOT).parts
    commands: Copies = request.getfixturevalue("trainings" if trainer else "commands")

    def call(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        whole = {**os.environ, "COLUMNS": "100", **environment}
        return commands.run([*map(str, arguments)], tmp_path, whole)

    return call


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares text with `golden/<name>`; run pytest with `--renew-golden` to accept what there is
    now."""

    def compare(name: str, text: str) -> None:
        path = ROOT / "tests/python/golden" / name
        if request.config.getoption("--renew-golden"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return compare


def pytest_collection(session: pytest.Session) -> None:
    """Each worker of `pytest -n 2` begins at another file. The first that loads a file rewrites its
    assertions, which takes most of the time; the others read what came of it."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers == 1:
        return
    own = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
    args: list[str] = []
    for each in session.config.args:
        files = sorted(map(str, Path(each).rglob("test_*.py"))) or [each]
        args += (
            file for turn in range(workers) for file in files[(own + turn) % workers :: workers]
        )
    session.config.args = args


def pytest_collectstart() -> None:
    """Collecting makes millions of objects that stay: looking through them for garbage, again and
    again, would take longer."""
    gc.disable()


def pytest_collection_finish() -> None:
    """From here on, looks for garbage among what tests make, less often than Python does: each
    time takes the longer, the more modules were loaded since."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that renews our own snapshots."""
    parser.addoption(
        "--renew-golden", action="store_true", help="accept the present output as golden"
    )


_FOLDERS = {"capture", "studies", "score", "fit", "measured"}
"""Tests of these folders share what their package keeps: rows, measurements, captured models."""
_FIRST = _FOLDERS | {"train", "trainer", "design", "plan", "report"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keeps tests that share work on one worker of `pytest -n 2`, so that it is done once: those of
    some folders, those that look at pages in a browser, and those of a file that has a fixture for
    all of its tests or keeps results (`functools.cache`). Folders that take longest come first: a
    long test at the end would leave the other worker without work."""
    items.sort(key=lambda item: (not _FIRST & set(item.path.parts), item.path))
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        fixtures = item._fixtureinfo.name2fixturedefs.values()
        if folder := _FOLDERS & set(item.path.parts):
            item.add_marker(pytest.mark.xdist_group(*folder))
        elif "running" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group("browser"))
        elif _keeps(item.module) or any(each.scope == "module" for of in fixtures for each in of):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


@functools.cache
def _keeps(module: ModuleType) -> bool:
    """Whether a function of the file keeps results."""
    return any(
        isinstance(each, functools._lru_cache_wrapper) and each.__module__ == module.__name__
        for each in vars(module).values()
    )
