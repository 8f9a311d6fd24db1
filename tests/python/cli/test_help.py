"""`armillary --help`: every verb once, by group, each on one line."""

from __future__ import annotations

from collections import Counter

from conftest import Armillary

from armillary.cli.app import app
from armillary.cli.groups import GROUPS


def test_every_verb_is_in_one_group() -> None:
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
