"""Reference pages name everything there is: fields, verbs, options, names of the package, platform
keys."""

from __future__ import annotations

import re
from typing import get_type_hints, is_typeddict

import pytest
from conftest import ROOT, Armillary

import armillary as arm
from armillary import schema
from armillary.cli.groups import GROUPS
from armillary.nccl import OPERATIONS

ROWS = [row for row in vars(schema).values() if is_typeddict(row)]


def page(name: str) -> str:
    found = list((ROOT / "docs").glob(f"**/{name}"))
    assert len(found) == 1, f"{name} is in docs {len(found)} times"
    return found[0].read_text(encoding="utf-8")


def help_of(armillary: Armillary, *verb: str) -> str:
    run = armillary(*verb, "--help")
    assert run.returncode == 0
    return run.stdout


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_every_field_of_the_report(row: type) -> None:
    missing = [name for name in get_type_hints(row) if f"`{name}`" not in page("report.md")]
    assert not missing


def test_every_verb_and_option(armillary: Armillary) -> None:
    text = page("cli.md")
    verbs = [verb for group in GROUPS.values() for verb in group]
    assert len(verbs) >= 5
    for verb in verbs:
        assert f"## {verb}\n" in text
    for verb in ("run", "collective", "check", "design", "sweep"):
        options = set(
            re.findall(r"^ +(?:-\w, )?(--[a-z-]+|-\w)", help_of(armillary, verb), re.M)
        ) - {
            "-h",
            "--help",
        }
        short = dict(re.findall(r"^ +(-\w), (--[a-z-]+)", help_of(armillary, verb), re.M))
        names = {
            option: [option, *(key for key, long in short.items() if long == option)]
            for option in options
        }
        assert len(options) >= 4
        missing = [
            option for option, either in names.items() if not any(name in text for name in either)
        ]
        assert not missing, f"{verb}: {missing}"


def test_every_flag_of_astra_sim(armillary: Armillary) -> None:
    flags = set(re.findall(r"--[a-z-]+", help_of(armillary, "astra-sim")))
    assert len(flags) > 10
    assert not [flag for flag in flags if flag not in page("astra-sim.md")]


def test_every_name_of_the_package() -> None:
    text = page("python.md")
    documented = [
        name
        for name in arm.__all__
        if name not in {"__version__", "platform", "workload", "Problem"}
    ]
    assert not [name for name in documented if name not in text]


def test_every_collective_of_a_platform_file() -> None:
    """That every declared key is in a table is tested with the declarations."""
    text = page("platform-files.md")
    kinds = (*OPERATIONS, "barrier")
    assert not [kind for kind in kinds if f"`collectives.{kind}`" not in text]


def test_every_model_of_compute(armillary: Armillary) -> None:
    source = (ROOT / "crates/platform/src/config/native/compute.rs").read_text(encoding="utf-8")
    models = re.search(r"words!\(\s*Model:(.*?)\);", source, re.S)
    assert models
    text = page("compute.md")
    assert not [word for word in re.findall(r'"(\w+)"', models[1]) if f"| `{word}` |" not in text]
    options = set(re.findall(r"--[a-z]+", help_of(armillary, "platform", "import-gemm"))) - {
        "--help",
        "--output",
        "--json",
    }
    assert len(options) == 3
    assert not [option for option in options if option not in page("cli.md")]
