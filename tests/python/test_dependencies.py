"""What the simulator needs from others: the names in `pyproject.toml` and no more, and that verbs
work without its extras."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MODULES = {"pyyaml": "yaml", "vl-convert-python": "vl_convert"}
"""Distributions whose module has another name."""
HOUSES = {"armillary", "armillary_train", "armillary_lab"}


def modules(requirements: list[str]) -> set[str]:
    """The modules of some requirements."""
    names = [re.split(r"[\[<>=]", each)[0] for each in requirements]
    return {MODULES.get(name, name) for name in names}


def imported() -> set[str]:
    """Every module of others that a file of the simulator imports, late or not."""
    found: set[str] = set()
    for path in (ROOT / "python").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                found.add(node.module.partition(".")[0])
    return found - HOUSES - set(sys.stdlib_module_names)


def test_the_simulator_needs_what_it_imports_and_no_more() -> None:
    """polars, torch and transformers are extras, as are optuna and ray, which their files load by
    name."""
    extras = {"polars", "torch", "transformers", "optuna", "ray"}
    assert imported() == modules(PROJECT["dependencies"]) | extras - {"optuna", "ray"}
    assert not modules(PROJECT["dependencies"]) & extras
    optional = [each for some in PROJECT["optional-dependencies"].values() for each in some]
    assert extras <= modules(optional)


def test_pins_are_of_the_same_names() -> None:
    """A fresh environment has what users get, and what builds it."""
    pins = (ROOT / "requirements/run.txt").read_text(encoding="utf-8")
    first = pins.partition("# What those need.")[0]
    names = re.findall(r"^([A-Za-z-]+)==", first, re.M)
    assert modules([name.lower() for name in names]) == modules(
        [*PROJECT["dependencies"], "maturin"]
    )


STUDY = """
workload: {model: resnet-50, options: {dp: 8}}
platform: dgx-h100
parameters: {platform.scheduler.chunks: [1, 2, 4]}
"""
WITHOUT = """
import sys
for name in ("polars", "optuna", "ray", "scipy", "clarabel", "pandas", "pyarrow"):
    sys.modules[name] = None
import armillary as arm
from armillary.cli import main
run = ["sweep", sys.argv[1], "-o", sys.argv[2], "--csv", sys.argv[3]]
for arguments in (run, ["report", sys.argv[2]]):
    sys.argv[1:] = arguments
    assert main() == 0, arguments
try:
    arm.collective("all_reduce", 2**20, "dgx-h100")
except arm.InputError as error:
    print(error)
"""


def test_sweeps_and_pages_need_no_extra(tmp_path: Path) -> None:
    """A table, its CSV and its page come without polars; a DataFrame says how to get it."""
    study = tmp_path / "study.yml"
    study.write_text(STUDY)
    folder, csv = tmp_path / "r", tmp_path / "table.csv"
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(study), str(folder), str(csv)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "pip install 'armillary[tables]'" in run.stdout
    assert len(csv.read_text().splitlines()) > 2
    assert (folder / "table.parquet").read_bytes()[:4] == b"PAR1"
    assert "<svg" in (folder / "report.html").read_text()
