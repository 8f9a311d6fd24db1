"""Sentences and rows of documents whose numbers a command computes.

A template has names in place of numbers, as in `"| A | {rate:.2f} M |"`. `says` fills them in and
looks for the result in the page. With `WRITE_DOCS=1` it writes the numbers into the page."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from unittest import mock

from armillary_lab.studies import StudyRow, neo_quality, study

Facts = Mapping[str, float]
_NAME = re.compile(r"\{[^{}]*\}")
_NUMBER = r"[+-]?[\d,]+(?:\.\d+)?"
_RESULT = re.compile(r"\d[\d,]*\.\d+|\d+ %|\d+x\b")
"""What reads like a result: decimals, percentages, factors."""


def study_rows(name: str, backend: str = "analytical") -> list[StudyRow]:
    """The rows of a study on one network, computed once for all tests of a process."""
    return _study_rows(study(name).name, backend)


@cache
def _study_rows(name: str, backend: str) -> list[StudyRow]:
    return list(study(name).rows((backend,)))


@cache
def quality_rows() -> list[StudyRow]:
    """Those of `neo-quality` on few of its 16 M samples, which take minutes, and with evaluations
    on a tenth of the usual ones."""
    with mock.patch("armillary_train.data.EVALUATION_SAMPLES", 10_000):
        return neo_quality.rows((), samples=20_000)


def rows(name: str, backend: str = "analytical") -> dict[str, StudyRow]:
    """The rows of a study by their setup, on one network."""
    return {row.setup: row for row in study_rows(name, backend)}


def ours(name: str, setup: str, backend: str = "analytical") -> float:
    """Our number in a row of a study."""
    return rows(name, backend)[setup].ours


def plain(text: str) -> str:
    """The text with single spaces, as if it were one line."""
    return " ".join(text.split())


def says(path: Path, templates: Sequence[str], facts: Facts) -> list[str]:
    """The filled-in templates that the page lacks; none of them after `WRITE_DOCS=1`."""
    page = path.read_text(encoding="utf-8")
    if os.environ.get("WRITE_DOCS"):
        for template in templates:
            page = _written(page, template, facts)
        path.write_text(page, encoding="utf-8")
    wanted = [plain(template).format(**facts) for template in templates]
    return [sentence for sentence in wanted if sentence not in plain(page)]


def unchecked(path: Path, title: str, templates: Sequence[str], given: Sequence[str]) -> list[str]:
    """What reads like a result in a section of a page, and is in no template and not given: as
    given count numbers of papers, of setups, and of runs that no test repeats."""
    text = path.read_text(encoding="utf-8").partition(f"\n## {title}: ")[2].partition("\n## ")[0]
    assert text, title
    text = plain(re.sub(r"```.*?```", "", text, flags=re.S))
    texts = [text, *map(plain, templates)]
    for words in given:
        texts = [each.replace(words, "") for each in texts]
    text, *templates = texts
    for template in templates:
        text = re.sub(_pattern(template), "", text)
    return _RESULT.findall(text)


def _pattern(template: str) -> str:
    """A regular expression for the words of a template, with a group for each part."""
    fixed = [re.escape(part).replace(r"\ ", r"\s+") for part in _NAME.split(plain(template))]
    return f"({_NUMBER})".join(f"({part})" for part in fixed)


def _written(page: str, template: str, facts: Facts) -> str:
    """The page with a template's numbers in the one place that has its words."""
    numbers = [part.format(**facts) for part in _NAME.findall(plain(template))]
    found = list(re.finditer(_pattern(template), page))
    assert len(found) == 1, f"{len(found)} places have the words of {plain(template)!r}"
    groups = list(found[0].groups())
    groups[1::2] = numbers
    return page[: found[0].start()] + "".join(groups) + page[found[0].end() :]
