"""Tables of served requests: every row is checked, counted, and has a reason. Tables of layouts are
checked alike (`test_plans.py` reads them)."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from conftest import ROOT

from armillary.errors import InputError
from armillary_lab.measured.published import tables
from armillary_lab.measured.published.tables import LAYOUTS, SERVING, Table
from armillary_lab.score.__main__ import main

SHARED = ROOT / "../shared/truth"
COUNTS = {
    "serving/aic_silicon_2026.csv": 2598,
    "serving/argonne_llm_inference_bench.csv": 2736,
    "serving/infmax_2025_10_web.csv": 1772,
    "serving/llmservingsim_requests.csv": 300,
}
"""Rows, as the page of the collection counts them."""


def text(table: Table, rows: int, **changed: str) -> str:
    """A table with drawn values; `changed` in the last row."""
    draw = random.Random(str(table.counts))
    columns = draw.sample(sorted(table.columns), len(table.columns))
    lines = [",".join(columns)]
    for row in range(rows):
        values = {
            key: str(draw.randrange(1, 5000))
            if key in (*table.counts, *table.optional_counts)
            else f"{draw.uniform(0.1, 9e3):.3f}"
            for key in columns
        }
        values |= changed if row == rows - 1 else {}
        lines.append(",".join(values[key] for key in columns))
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("table", SERVING[:3])
def test_every_row_is_predicted_or_has_a_reason(
    table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The drawn words name no GPU, model or engine."""
    path = tmp_path / "t.csv"
    path.write_text(text(table, 7, **{table.amounts[0]: ""}))
    assert main([str(path)]) == 0
    assert "serving: 0 predicted, 7 left out" in capsys.readouterr().out


@pytest.mark.parametrize("table", SERVING[3:])
def test_rows_are_counted_with_the_reason(
    table: Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text(table, 7, **{table.amounts[0]: ""}))
    assert len(tables.read(str(path))) == 7
    assert main([str(path)]) == 0
    assert f"7 left out: {table.reason}" in capsys.readouterr().out


@pytest.mark.parametrize("table", SERVING)
def test_a_column_that_is_not_read_is_the_reason(table: Table, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    lines = text(table, 3).splitlines()
    path.write_text("\n".join([lines[0] + ",retries", *(line + ",1" for line in lines[1:])]))
    assert {each.reason for each in tables.read(str(path))} == {"retries is not read"}


@pytest.mark.parametrize("table", (*SERVING, *LAYOUTS))
@pytest.mark.parametrize("value", ["0", "-3", "2.5", "1e999", "many", "9" * 30, "\u0664"])
def test_a_count_that_is_none_is_refused(table: Table, value: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for key in (table.counts[-1], *table.optional_counts):
        path.write_text(text(table, 2, **{key: value}), encoding="utf-8")
        with pytest.raises(InputError) as caught:
            tables.rows(str(path), (*SERVING, *LAYOUTS))
        assert caught.value.problems[0].place == "line 3"
        assert key in caught.value.problems[0].message
        assert main([str(path)]) == 2


@pytest.mark.parametrize(
    "content", ["", "a,b\n1,2\n", text(SERVING[0], 0), text(SERVING[0], 1) + "1"]
)
def test_what_is_no_such_table_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(InputError):
        tables.read(str(path))


@pytest.mark.skipif(not SHARED.is_dir(), reason="the tables are not at hand (../shared/truth)")
@pytest.mark.parametrize("name", COUNTS)
def test_published_tables_are_read_whole(name: str) -> None:
    assert len(tables.read(str(SHARED / name))) == COUNTS[name]
