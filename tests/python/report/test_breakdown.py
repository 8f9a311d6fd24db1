"""The breakdown, as drawn: our own snapshots, and what must hold for any report."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from armillary.report import breakdown
from armillary.schema import Report


def drawn(report: Report, width: int, terminal: bool = False, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="replace")
    console = Console(
        file=stream,
        width=width,
        force_terminal=terminal,
        highlight=False,
        markup=False,
        _environ={},
    )
    breakdown.show(report, "traces/gpt.%d.et on dgx, link", console)
    stream.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [80, 120])
def test_golden(report: Report, width: int, golden: Callable[[str, str], None]) -> None:
    golden(f"breakdown_{width}.txt", drawn(report, width))


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_tables_fit_the_width(report: Report, width: int) -> None:
    tables = [line for line in drawn(report, width).splitlines() if line.startswith("  ")]
    assert max(map(len, tables)) <= width


@pytest.mark.parametrize(
    ("width", "name"), [(80, "npu7 -> npu15 (dim 2)"), (100, "npu7 -> npu15 (dimension 2)")]
)
def test_a_link_takes_one_line_with_its_count(report: Report, width: int, name: str) -> None:
    [line] = [line for line in drawn(report, width).splitlines() if name in line]
    assert line.split(name)[1].split()[0] == "16"


def test_no_colour_codes_outside_a_terminal(report: Report) -> None:
    assert "\x1b" not in drawn(report, 80)
    assert "\x1b" in drawn(report, 80, terminal=True)


def test_plain_characters_where_nothing_else_can_be_shown(report: Report) -> None:
    text = drawn(report, 80, encoding="ascii")
    assert "#" in text and "~" in text


def test_the_result_stands_first_and_warnings_on_a_line_each(report: Report) -> None:
    lines = drawn(report, 60).splitlines()
    assert lines[0].startswith("Step time")
    at = lines.index(f"warning: {report['warnings'][0]}")
    assert at < lines.index("") + 3
    assert lines[at : at + len(report["warnings"])] == [
        f"warning: {warning}" for warning in report["warnings"]
    ]


def test_classes_that_print_the_same_take_one_line(report: Report) -> None:
    """Sixteen stages of a pipeline, of which fourteen do the same."""
    first = report["classes"][0]
    report["classes"] = [
        {
            **first,
            "label": f"stage {stage}",
            "ranks": f"{8 * stage}-{8 * stage + 7}",
            "count": 8,
            "idle_ns": idle,
        }
        for stage, idle in enumerate([1e6, *[2e6] * 14, 3e6])
    ]
    lines = drawn(report, 120).splitlines()
    assert sum("stage" in line for line in lines) == 6
    [row] = [line for line in lines if "stages 1-14 (8-119)" in line]
    assert row.split()[3] == "112"


def test_classes_of_one_name_and_single_ranks_are_joined(report: Report) -> None:
    first = report["classes"][0]
    report["classes"] = [
        {**first, "label": f"stage {stage}", "ranks": ranks, "count": 1}
        for stage, ranks in [(0, "0"), (0, "1-2"), (0, "3"), (2, "5")]
    ]
    assert "  stages 0, 2 (0-3,5)  " in drawn(report, 120)


def test_names_are_not_read_as_markup(report: Report) -> None:
    report["operations"][0]["name"] = "[red]x[/red] :smile:"
    assert "[red]x[/red] :smile:" in drawn(report, 120)


def test_an_empty_run(report: Report) -> None:
    empty = Report(
        **{**report, "classes": [], "dimensions": [], "phases": [], "operations": [], "links": []}
    )
    empty["step_time_ns"] = 0.0
    assert "Step time  0" in drawn(empty, 80)


def test_many_classes_are_cut_and_counted(report: Report) -> None:
    report["classes"] = report["classes"] * 10
    assert "and 28 more classes of ranks" in drawn(report, 80)


def test_what_sets_ranks_apart(report: Report) -> None:
    report["symmetry"] = {"classes": 64, "reason": "the network is a chain"}
    assert "64 ranks, each simulated by itself: the network is a chain" in drawn(report, 80)
    report["symmetry"] = {"classes": 1, "reason": ""}
    assert "64 ranks, all alike\n" in drawn(report, 80)
