"""Allowed imports between the rooms of `python/armillary`, and modules that load late."""

from __future__ import annotations

import graphlib
import subprocess
import sys
from pathlib import Path

import pytest
from arrows import House
from conftest import ROOT

ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "schema": set(),
    "step_parts": set(),
    "uncertainty": set(),
    "units": set(),
    "old_modules": set(),
    "old_words": {"errors"},
    "_late": set(),
    "polars_extra": {"errors"},
    "_moved": {"old_modules"},
    "backends": {"_core", "errors"},
    "blocks": {"_core"},
    "documents": {"errors"},
    "first_bytes": {"documents"},
    "natural_order": set(),
    "plain_pickle": set(),
    "declared": {"documents", "errors", "units"},
    "files": {"errors"},
    "machine": {"errors", "units"},
    "nccl": {"errors", "units"},
    "sizes": {"errors", "nccl", "units"},
    "inspector_dump": {"documents", "errors"},
    "mlperf_log": {"errors"},
    "training_log": {"documents", "errors", "mlperf_log"},
    "option_fields": {"errors", "old_words"},
    "platform": {"_core", "_late", "documents", "errors", "units"},
    "wiring": {"documents", "errors", "natural_order", "units"},
    "kept_runs": {"_core", "documents"},
    "model": {"old_words", "declared", "documents", "errors", "files", "schema", "units"},
    "workload": {
        "capture",
        "_core",
        "_late",
        "declared",
        "documents",
        "errors",
        "files",
        "first_bytes",
        "machine",
        "model",
        "natural_order",
        "old_words",
        "option_fields",
        "plain_pickle",
        "platform",
        "sizes",
        "units",
    },
    "kernels": {"declared", "documents", "errors", "files", "platform", "uncertainty", "units"},
    "capture": {"documents", "errors", "files", "model", "units"},
    "calibrate": {
        "_core",
        "_late",
        "documents",
        "errors",
        "inspector_dump",
        "nccl",
        "platform",
        "units",
    },
    "network": {"_core", "errors", "platform", "units"},
    "serve": {
        "_core",
        "declared",
        "documents",
        "errors",
        "kernels",
        "launch",
        "model",
        "platform",
        "uncertainty",
        "units",
        "workload",
    },
    "traffic": {
        "_core",
        "_late",
        "backends",
        "documents",
        "errors",
        "files",
        "platform",
        "polars_extra",
        "units",
    },
    "report": {
        "blocks",
        "documents",
        "errors",
        "files",
        "goodput",
        "kernels",
        "machine",
        "nccl",
        "schema",
        "serve",
        "step_parts",
        "traffic",
        "uncertainty",
        "workload",
        "units",
    },
    "goodput": {"_late", "documents", "errors"},
    "repeat": {"schema"},
    "run_warnings": {"schema"},
    "estimate": {"_core", "blocks", "errors", "platform", "schema", "units", "workload"},
    "explain": {
        "_late",
        "estimate",
        "option_fields",
        "blocks",
        "documents",
        "errors",
        "first_bytes",
        "inspector_dump",
        "model",
        "platform",
        "polars_extra",
        "repeat",
        "report",
        "schema",
        "step_parts",
        "uncertainty",
        "workload",
        "units",
        "run_warnings",
        "training_log",
    },
    "result": {
        "polars_extra",
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
        "capture",
        "old_words",
        "polars_extra",
        "estimate",
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
        "training_log",
    },
    "sweep": {
        "old_words",
        "polars_extra",
        "option_fields",
        "_core",
        "_late",
        "api",
        "backends",
        "declared",
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
        "polars_extra",
        "estimate",
        "_core",
        "api",
        "backends",
        "declared",
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
    "plan": {
        "old_words",
        "estimate",
        "layouts",
        "option_fields",
        "sizes",
        "api",
        "backends",
        "errors",
        "model",
        "platform",
        "result",
        "run_warnings",
        "uncertainty",
        "units",
        "workload",
    },
    "layouts": {
        "_core",
        "api",
        "declared",
        "documents",
        "errors",
        "launch",
        "model",
        "option_fields",
        "platform",
        "report",
        "result",
        "uncertainty",
        "units",
        "workload",
        "training_log",
    },
    "launch": {"declared", "documents", "errors", "model", "old_words", "workload"},
    "migrate": {"documents", "errors", "files", "model", "old_words", "platform", "sweep"},
    "cli": {
        "goodput",
        "launch",
        "layouts",
        "migrate",
        "old_words",
        "sizes",
        "option_fields",
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
        "kernels",
        "kept_runs",
        "errors",
        "explain",
        "files",
        "first_bytes",
        "model",
        "nccl",
        "network",
        "plan",
        "platform",
        "report",
        "result",
        "schema",
        "serve",
        "sweep",
        "traffic",
        "wiring",
        "uncertainty",
        "workload",
        "units",
    },
    "": {
        "goodput",
        "_core",
        "_late",
        "_moved",
        "api",
        "capture",
        "design",
        "errors",
        "network",
        "plan",
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
    "polars": {"result", "api", "design", "explain", "sweep", "report", "traffic"},
    "vl_convert": {"report"},
    "yaml": {"documents"},
    "numpy": {"calibrate", "design", "estimate", "explain", "goodput", "model", "plan"},
    "scipy": set(),
    "msgspec": {"calibrate", "capture", "kept_runs", "report", "workload", "sweep"},
    "torch": {"capture"},
    "transformers": {"capture"},
    "triton": set(),
}
"""Library -> rooms that may import it."""


ARMILLARY = House(ROOT / "python/armillary", ALLOWED, LIBRARIES, frozenset())


def test_arrows() -> None:
    ARMILLARY.check_arrows()


def test_libraries() -> None:
    ARMILLARY.check_libraries()


def test_arrows_have_no_cycle() -> None:
    ARMILLARY.check_rooms()


def sources() -> list[Path]:
    folders = ("python", "tests/python", "train", "lab", "examples", "tools", "fuzz/python")
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
    ARMILLARY.check_files()


def test_a_circle_of_files_would_be_found() -> None:
    graph = ARMILLARY.files()
    graph["armillary.errors"].add("armillary.cli.app")
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(graph).prepare()


HEAVY = {
    "msgspec",
    "rich",
    "polars",
    "numpy",
    "scipy",
    "pandas",
    "asyncio",
    "yaml",
    "vl_convert",
    "torch",
}


def loaded(*arguments: str) -> set[str]:
    """The modules that a start of Python with these arguments loads."""
    run = subprocess.run(
        [sys.executable, "-X", "importtime", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    found = {line.split("|")[-1].strip() for line in run.stderr.splitlines() if "|" in line}
    assert "armillary" in found
    return found | {name.partition(".")[0] for name in found}


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
    assert not loaded(*arguments) & {*HEAVY, "typer"}


LOADED = """
import sys
from armillary.cli import main
sys.exit(main() or print(*sys.modules, file=sys.stderr))
"""
VERBS = (
    *("run", "collective", "serve", "traffic", "network", "sweep", "explain", "compare", "report"),
    *("design", "plan", "import", "convert", "platform", "calibrate", "check"),
)


WORKING = (
    *("api", "calibrate", "explain", "model", "result", "uncertainty", "wiring", "workload"),
    *(
        "design.search",
        "network.network",
        "report.page",
        "serve.run",
        "sweep.results",
        "traffic.curves",
    ),
)
"""Rooms and files that do the work of verbs."""


@pytest.mark.parametrize("verb", VERBS)
def test_help_loads_no_room_that_works(verb: str) -> None:
    """A verb's help, and its refusal of wrong arguments, need the verb's own file alone: no
    generator of workloads, no explanation, no page, no library that computes."""
    run = subprocess.run(
        [sys.executable, "-c", LOADED, verb, "--help"], capture_output=True, text=True, check=True
    )
    found = set(run.stderr.split())
    assert f"armillary.cli.{verb.replace('import', 'import_')}" in found
    assert not found & {*HEAVY, *(f"armillary.{room}" for room in WORKING)}


def test_the_general_help_of_workloads_loads_no_generator() -> None:
    """It lists presets, and needs the reader of no model."""
    run = subprocess.run(
        [sys.executable, "-c", LOADED, "workload", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert not set(run.stderr.split()) & {*HEAVY, "armillary.workload", "armillary.plan.costs"}


def test_the_list_of_verbs_loads_none() -> None:
    """`armillary --help` takes as long as the help of one verb, not of all."""
    run = subprocess.run(
        [sys.executable, "-c", LOADED, "--help"], capture_output=True, text=True, check=True
    )
    loaded = set(run.stderr.split())
    assert not loaded & {*HEAVY, *(f"armillary.{room}" for room in WORKING)}
    cli = {name.rpartition(".")[2] for name in loaded if name.startswith("armillary.cli.")}
    assert cli == {"app", "groups", "houses", "output"}


TEXT = """DATA
1
layer -1 1000 ALLREDUCE 1024 1000 ALLREDUCE 1024 1000 ALLREDUCE 1024 100
"""
PLATFORM = """topology: Ring(4)
links:
  - {bandwidth: 100 GB/s, latency: 500 ns}
"""
GENERATORS = {
    f"armillary.workload.{name}"
    for name in (
        "cnn",
        "dlrm",
        "families",
        "layerwise",
        "moe",
        "parallelism",
        "plan",
        "transformer",
    )
}
"""What makes workloads of models."""
ADVICE = {f"armillary.explain.{name}" for name in ("compare", "whatif", "workload_changes", "why")}
PAGES = {f"armillary.report.{name}" for name in ("chart", "markup", "page", "run_page")}
COMPUTING = HEAVY - {"msgspec", "rich"}
"""Libraries that a run of files does not need: `msgspec` reads summaries, `rich` prints."""


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["run", "TEXT", "-p", "PLATFORM"], GENERATORS | ADVICE | PAGES),
        (["check", "TEXT", "-p", "PLATFORM"], GENERATORS | ADVICE | PAGES | {"rich"}),
        (["convert", "TEXT", "-p", "PLATFORM", "-o", "OUT"], GENERATORS | ADVICE | PAGES),
        (["collective", "all_reduce", "-p", "PLATFORM"], GENERATORS | ADVICE | PAGES),
        (["platform", "list"], {"armillary.api", "armillary.workload"} | PAGES),
        (["platform", "show", "PLATFORM"], {"armillary.api", "armillary.workload", "rich"} | PAGES),
        (["network", "-p", "PLATFORM"], {"armillary.api", "armillary.workload", "rich"} | PAGES),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_verb_loads_what_its_work_needs(
    arguments: list[str], absent: set[str], tmp_path: Path
) -> None:
    """A workload of a file needs no generator, a result in a terminal no page, a run without its
    explanation no advice."""
    (tmp_path / "layers.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "ring.yml").write_text(PLATFORM, encoding="utf-8")
    places = {"TEXT": "layers.txt", "PLATFORM": "ring.yml", "OUT": "made"}
    run = subprocess.run(
        [sys.executable, "-c", LOADED, *(places.get(each, each) for each in arguments)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
    )
    found = set(run.stderr.split())
    assert f"armillary.cli.{arguments[0]}" in found
    assert not found & (absent | COMPUTING)


def test_measurements_are_read_without_numpy() -> None:
    """`armillary calibrate` refuses a file before it loads what fits."""
    code = "import sys, armillary.calibrate as c; c.read, c.read_kernels; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(run.stdout.split()) & {"numpy", "armillary.calibrate.fit"}
