"""Every figure and table of the five papers has a row in docs/reference/studies.md."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT

from armillary_lab.studies import study

PAGE = (ROOT / "docs/reference/studies.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("\n## Every figure and table")[2].partition("\n## ")[0]
ROMAN = ("I", "II", "III", "IV", "V")
PAPERS = {
    "HOTI 2020": (16, ROMAN[:5]),
    "ISPASS 2020": (18, ROMAN[:4]),
    "Neo": (18, ("1", "2", "3")),
    "multi-dimensional": (16, ROMAN[:4]),
    "ASTRA-sim 2.0": (11, ROMAN[:5]),
}
"""Figures and tables that each paper has."""


def listed(words: str, kind: str) -> list[str]:
    """The numbers that a text names: `Figs. 1, 4 to 8`, `Tables II and III`."""
    one = r"[IVX]+|\d+"
    found: list[str] = []
    for text in re.findall(
        rf"\b{kind}s?\.? ((?:{one})[a-z]?(?:(?:, | and | to )(?:{one})\b)*)", words
    ):
        for part in re.split(r", | and ", text):
            ends = re.findall(one, part)
            found += _between(*ends) if len(ends) == 2 else ends
    return found


def _between(first: str, last: str) -> list[str]:
    if first in ROMAN:
        return list(ROMAN[ROMAN.index(first) : ROMAN.index(last) + 1])
    return [str(i) for i in range(int(first), int(last) + 1)]


ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TABLE.splitlines()
    if line.startswith("| ") and not line.startswith(("| paper", "| ---"))
]


@pytest.mark.parametrize("paper", PAPERS)
def test_every_figure_and_table_has_one_row(paper: str) -> None:
    figures, tables = PAPERS[paper]
    own = [row[1] for row in ROWS if row[0] == paper]
    assert sorted(int(each) for row in own for each in listed(row, "Fig")) == [
        *range(1, figures + 1)
    ]
    assert sorted(each for row in own for each in listed(row, "Table")) == sorted(tables)


def test_rows_say_what_reruns_them_or_why_nothing_does() -> None:
    assert {row[0] for row in ROWS} == set(PAPERS)
    for paper, what, state, how in ROWS:
        assert state in ("rerun", "in part", "not rerun", "shown"), what
        codes = re.findall(r"\b[A-E]\d\b", how)
        assert how and (state != "rerun" or codes), (paper, what)
        if state != "rerun":
            continue
        sources = " ".join(study(code).source for code in codes)
        for kind in ("Fig", "Table"):
            assert set(listed(what, kind)) <= set(listed(sources, kind)), (paper, what, sources)
