"""Measured kernels that are left out, and predicted from the rest of their table."""

from __future__ import annotations

import statistics

import pytest

from armillary.kernels.tables import MLA
from armillary_lab.score.interpolated import left_out, main


def test_a_row_is_nearer_to_its_neighbours_than_to_the_formula() -> None:
    found = list(left_out(MLA, "row", 24))
    assert len(found) == 24
    formula = statistics.median(abs(each.formula) for each in found)
    between = statistics.median(abs(each.interpolated) for each in found)
    assert between < 0.75 * formula
    assert sum(each.within for each in found) >= 15


@pytest.mark.parametrize("arguments", [["mla", "conv"], ["mla", "--most", "0"]])
def test_wrong_arguments_are_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2
    assert "kinds: allreduce, attention" in capsys.readouterr().err


def test_the_command_has_a_line_for_each_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mla", "--most", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["mla", "row"], ["mla", "shape"], ["mla", "range"],
    ]  # fmt: skip
