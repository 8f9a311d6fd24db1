"""Who may import whom in `python/armillary`, and what must not be loaded before it is needed."""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

PACKAGE = ROOT / "python/armillary"

ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "schema": set(),
    "step_parts": set(),
    "uncertainty": set(),
    "units": set(),
    "backends": {"_core", "errors"},
    "blocks": {"_core"},
    "documents": {"errors"},
    "files": {"errors"},
    "machine": {"errors", "units"},
    "nccl": {"errors", "units"},
    "platform": {"_core", "documents", "errors", "units"},
    "wiring": {"documents", "errors", "units"},
    "kept_runs": {"_core", "documents"},
    "study": {"backends", "report"},
    "model": {"documents", "errors", "files", "schema", "units"},
    "workload": {"_core", "documents", "errors", "files", "machine", "model", "platform", "units"},
    "calibrate": {"_core", "documents", "errors", "nccl", "platform", "units"},
    "network": {"_core", "errors", "platform", "units"},
    "traffic": {"_core", "backends", "documents", "errors", "platform", "units"},
    "report": {
        "blocks",
        "documents",
        "errors",
        "files",
        "machine",
        "nccl",
        "schema",
        "step_parts",
        "traffic",
        "uncertainty",
        "workload",
        "units",
    },
    "repeat": {"schema"},
    "run_warnings": {"schema"},
    "explain": {
        "blocks",
        "errors",
        "model",
        "platform",
        "repeat",
        "report",
        "schema",
        "step_parts",
        "uncertainty",
        "workload",
        "units",
        "run_warnings",
    },
    "result": {
        "kept_runs",
        "_core",
        "errors",
        "explain",
        "files",
        "repeat",
        "report",
        "schema",
        "step_parts",
        "uncertainty",
        "units",
    },
    "api": {
        "kept_runs",
        "_core",
        "backends",
        "errors",
        "explain",
        "files",
        "nccl",
        "platform",
        "repeat",
        "report",
        "result",
        "schema",
        "uncertainty",
        "workload",
        "units",
        "run_warnings",
    },
    "sweep": {
        "_core",
        "api",
        "backends",
        "documents",
        "errors",
        "files",
        "model",
        "platform",
        "report",
        "schema",
        "step_parts",
        "uncertainty",
        "workload",
        "units",
        "run_warnings",
    },
    "design": {
        "_core",
        "api",
        "backends",
        "documents",
        "errors",
        "files",
        "platform",
        "report",
        "sweep",
        "uncertainty",
        "workload",
        "units",
        "run_warnings",
    },
    "validation": {
        "_core",
        "api",
        "calibrate",
        "documents",
        "errors",
        "model",
        "platform",
        "report",
        "schema",
        "study",
        "uncertainty",
        "workload",
        "units",
    },
    "studies": {
        "_core",
        "api",
        "design",
        "errors",
        "kept_runs",
        "model",
        "planner",
        "platform",
        "report",
        "schema",
        "study",
        "trainer",
        "validation",
        "uncertainty",
        "workload",
        "units",
    },
    "planner": {
        "api",
        "backends",
        "errors",
        "model",
        "platform",
        "result",
        "run_warnings",
        "units",
        "workload",
    },
    "trainer": {"_core", "documents", "errors", "files", "machine", "units", "model", "nccl"},
    "cli": {
        "repeat",
        "run_warnings",
        "",
        "_core",
        "api",
        "backends",
        "blocks",
        "calibrate",
        "design",
        "documents",
        "kept_runs",
        "errors",
        "explain",
        "files",
        "model",
        "nccl",
        "network",
        "planner",
        "platform",
        "report",
        "result",
        "schema",
        "studies",
        "sweep",
        "traffic",
        "trainer",
        "wiring",
        "uncertainty",
        "workload",
        "units",
    },
    "": {
        "_core",
        "api",
        "design",
        "errors",
        "network",
        "planner",
        "platform",
        "result",
        "sweep",
        "traffic",
        "workload",
    },
}
"""Room -> rooms it may import; "" is the package itself."""

LIBRARIES: dict[str, set[str]] = {
    "rich": {"report", "cli"},
    "typer": {"cli"},
    "polars": {"result", "api", "design", "sweep", "report", "trainer"},
    "vl_convert": {"report"},
    "yaml": {"documents"},
    "numpy": {"calibrate", "design", "planner", "trainer"},
    "scipy": {"calibrate", "design", "trainer"},
    "clarabel": {"design"},
    "msgspec": {"calibrate", "kept_runs", "report", "workload", "sweep", "trainer"},
    "torch": {"trainer"},
    "triton": {"trainer"},
}
"""Library -> rooms that may import it."""


def modules() -> list[Path]:
    return sorted(
        path for path in PACKAGE.rglob("*.py") if "systems" not in path.relative_to(PACKAGE).parts
    )


def room(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


def imports(path: Path) -> Iterator[str]:
    """Absolute names of everything a file imports, wherever in it."""
    package = ["armillary", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            yield from (".".join([*base, alias.name]) for alias in node.names)


def imported_rooms(path: Path) -> set[str]:
    inside = [name.split(".")[1] for name in imports(path) if name.startswith("armillary.")]
    known = {name if name in ALLOWED or name == "_core" else "" for name in inside}
    return known - {room(path)}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_arrows(path: Path) -> None:
    assert room(path) in ALLOWED, "a new room needs a line in ALLOWED and in ARCHITECTURE.md"
    assert imported_rooms(path) <= ALLOWED[room(path)]


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_libraries(path: Path) -> None:
    for name in imports(path):
        library = name.split(".")[0]
        assert room(path) in LIBRARIES.get(library, {room(path)}), (
            f"{library} is not for {path.name}"
        )


def test_arrows_have_no_cycle() -> None:
    seen: list[str] = []
    while len(seen) < len(ALLOWED):
        ready = [
            name
            for name, needs in ALLOWED.items()
            if name not in seen and needs - {"_core"} <= set(seen)
        ]
        assert ready, f"a cycle among {set(ALLOWED) - set(seen)}"
        seen += ready


def files() -> dict[str, set[str]]:
    """Dotted names of the files of the package and of those each one imports, for types too.

    A name imported from a package stands for the file of that name, or else for the package's
    `__init__`."""
    paths = {dotted(path): path for path in modules()}
    found: dict[str, set[str]] = {}
    for name, path in paths.items():
        outside = (each for each in imports(path) if not each.startswith("armillary._core"))
        owners = {each if each in paths else each.rpartition(".")[0] for each in outside}
        found[name] = {each for each in owners if each in paths} - {name}
    return found


def dotted(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> list[Path]:
    folders = ("python", "tests/python", "examples", "benches", "tools", "fuzz/python")
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sorted(found)


def test_files_have_up_to_600_lines() -> None:
    """A longer file has more than one subject, but for the one that is written from Rust types."""
    texts = {path: path.read_text(encoding="utf-8") for path in sources()}
    counted = {
        path: len(text.splitlines())
        for path, text in texts.items()
        if "by `make generate`; do not edit" not in text[:400]
    }
    assert len(counted) == len(texts) - 2
    assert {path.name: count for path, count in counted.items() if count > 600} == {}


def test_no_files_import_each_other_in_a_circle() -> None:
    """Not even for types: a circle of files is one file in several pieces."""
    try:
        graphlib.TopologicalSorter(files()).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_a_circle_of_files_would_be_found() -> None:
    graph = files()
    graph["armillary.errors"].add("armillary.cli.app")
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(
    "arguments",
    [
        ["-c", "import armillary"],
        ["-m", "armillary.cli", "astra-sim"],
        ["-m", "armillary.cli", "--version"],
    ],
)
def test_light_start(arguments: list[str]) -> None:
    """Scripts start `armillary astra-sim` thousands of times: nothing heavy is loaded for it, for
    the version or for a bare import."""
    run = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    loaded = {
        line.split("|")[-1].strip().split(".")[0] for line in run.stderr.splitlines() if "|" in line
    }
    assert "armillary" in loaded
    heavy = {
        "msgspec",
        "typer",
        "rich",
        "polars",
        "numpy",
        "scipy",
        "clarabel",
        "pandas",
        "asyncio",
        "yaml",
        "vl_convert",
        "torch",
    }
    assert not loaded & heavy
