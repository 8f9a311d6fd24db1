"""`armillary --help`: every verb once, by group, each on one line."""

from __future__ import annotations

import importlib
import inspect
import re
from collections import Counter
from pathlib import Path
from typing import get_args

import pytest
from conftest import Armillary
from typer import main

from armillary.cli.app import application
from armillary.cli.groups import GROUPS, GroupedVerbs
from armillary.cli.houses import HOMES
from armillary.errors import flag
from armillary.workload import families


def test_every_verb_is_in_one_group() -> None:
    app = application()
    verbs = [command.name for command in app.registered_commands]
    verbs += [group.name for group in app.registered_groups]
    listed = Counter(verb for group in GROUPS.values() for verb in group)
    assert listed == Counter(verbs)


def test_help_lists_groups_without_cutting_a_line(armillary: Armillary) -> None:
    shown = armillary("--help")
    assert shown.returncode == 0
    for group, verbs in GROUPS.items():
        _, _, rest = shown.stdout.partition(f"\n{group}:\n")
        lines = rest.partition("\n\n")[0].splitlines()
        assert [line.split()[0] for line in lines] == list(verbs)
        for line in lines:
            assert line.endswith("."), line
            assert not line.endswith("..."), line


def test_lines_of_the_list_are_the_first_sentences_of_the_verbs() -> None:
    """The list is shown without loading them. Verbs of absent packages name the package."""
    whole = main.get_command(application())
    assert isinstance(whole, GroupedVerbs)
    said = {name: command.get_short_help_str(64) for name, command in whole.commands.items()}
    listed = {verb: line for lines in GROUPS.values() for verb, line in lines.items()}
    absent = {verb: home.needed() for verb, home in HOMES.items() if not home.is_installed()}
    assert listed | absent == said


def test_help_of_a_model_lists_every_option_in_one_group(armillary: Armillary) -> None:
    shown = armillary("workload", "mixtral-8x7b", "--help").stdout
    titles = re.findall(r"^(\w.*):$", shown, re.M)
    assert titles == list(families.option_groups("moe"))
    assert len(titles) == 4
    listed = Counter(re.findall(r"^  (--[a-z0-9-]+)", shown, re.M))
    assert listed == Counter(flag(name) for name in families.options("moe"))


def test_help_of_a_dense_model_has_no_options_of_experts(armillary: Armillary) -> None:
    shown = armillary("workload", "llama-3-8b", "--help").stdout
    assert "--tp N" in shown and "--ep N" not in shown


def test_an_old_name_of_an_option_warns(armillary: Armillary, tmp_path: Path) -> None:
    """The option does what it did; the fault that follows is of its value."""
    for option in ("--html", "--html="):
        words = [option, "no/such/page.html"] if option == "--html" else [f"{option}no/such/p"]
        run = armillary("design", "none.yml", *words)
        assert run.returncode == 2
        assert run.stderr.startswith(
            "warning: --html is now called --report; the old name goes in 0.3\n"
        )
        assert "in: no/such/p" in run.stderr


@pytest.mark.parametrize("verb", ["plan", "traffic", "collective"])
def test_help_lists_the_options_that_matter_first(verb: str, armillary: Armillary) -> None:
    """Below headings, with at most ten options under the first one, each explained."""
    shown = armillary(verb, "--help").stdout
    titles = re.findall(r"^(\w.*):$", shown, re.M)
    options = [title for title in titles if title not in ("Arguments", "Options")]
    assert len(options) >= 2 and titles[-1] == "Options"
    first = shown.partition(f"\n{options[0]}:\n")[2].partition("\n\n")[0]
    assert 3 <= len(re.findall(r"^  -", first, re.M)) <= 10
    assert "--platform" in first and "--json" in first


@pytest.mark.parametrize("verb", ["plan", "traffic", "collective"])
def test_every_option_of_a_dataclass_is_explained(verb: str) -> None:
    function = importlib.import_module(f"armillary.cli.{verb}").__dict__[verb]
    for name, each in inspect.signature(function).parameters.items():
        (form,) = [of for of in get_args(each.annotation)[1:] if hasattr(of, "help")]
        assert form.help and not form.help.startswith(("Of ", "What ")), name
