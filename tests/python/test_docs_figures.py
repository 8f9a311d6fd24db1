"""The README's table of errors repeats figures of the accuracy page and of the studies, which
`make numbers` compares with a rerun."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT

ACCURACY = (ROOT / "docs/reference/accuracy.md").read_text(encoding="utf-8")
STUDIES = (ROOT / "docs/reference/studies.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
SIZES = ("up to 64 KiB", "to 16 MiB", "16 MiB and above")


def row(begins: str) -> str:
    """The only row of the README's table that begins so."""
    (found,) = (line for line in README.splitlines() if line.startswith(f"| {begins}"))
    return found


def figure(name: str) -> tuple[float, str]:
    """The percentage of a row of the accuracy page, and the row's details."""
    pattern = rf"^\| {re.escape(name)} \(\d+\)(?:: [^|]+?)? \|[^|]*\| ([\d.]+) % \|(.*)\|$"
    ((percent, details),) = re.findall(pattern, ACCURACY, re.M)
    return float(percent), details


def named(begins: str, what: str) -> float:
    """The percentage of the row `BEGINS (COUNT): WHAT`."""
    pattern = rf"^\| {re.escape(begins)} \(\d+\): {re.escape(what)} \|[^|]*\| ([\d.]+) % "
    (found,) = re.findall(pattern, ACCURACY, re.M)
    return float(found)


def three(kind: str, left_out: str) -> str:
    """Mean errors by size, as the README writes them."""
    return " / ".join(f"{figure(f'{left_out}{kind}, {size}')[0]:.0f}" for size in SIZES)


def halves(kind: str) -> str:
    """Median errors by size of sources that were left out."""
    details = [figure(f"source left out: {kind}, {size}")[1] for size in SIZES]
    return " / ".join(re.findall(r"half of them up to (\d+) %", " ".join(details)))


@pytest.mark.parametrize(
    ("begins", "kind"),
    [("all-reduces of sources", "all_reduce"), ("other collectives", "other collectives")],
)
def test_collectives_that_were_left_out(begins: str, kind: str) -> None:
    assert f"{three(kind, 'source left out: ')} % on average" in row(begins)
    assert f"half within {halves(kind)} %" in row(begins)
    fast = three(kind, "source left out, all but Slingshot: ")
    assert f"{fast} % without Slingshot" in row(begins)


def test_fitted_all_reduces() -> None:
    assert f"{three('all_reduce', '')} % on average" in row("all-reduces, all sources")


def test_steps() -> None:
    steps = "all but nanotron's on several nodes"
    for begins, name in (("training steps of", "sources left out"), ("1,666 training", steps)):
        median, high = (named(name, what) for what in ("median error", "90th percentile"))
        wanted = f"{median:.0f} % at the median, {high:.0f} % at the 90th percentile"
        assert wanted in row(begins)


def test_frontier_runs() -> None:
    """Rows of the studies `deepseek-v3` and `llama-405b`."""
    (hours,) = re.findall(r"^\| GPU hours .* \| ([\d.]+) K \|$", STUDIES, re.M)
    assert f"| {float(hours):.0f} K |" in row("DeepSeek-V3")
    short = re.findall(r"^\| [\d,]+ H100, 8,192 tokens \| \d+ \| ([\d.]+) \|$", STUDIES, re.M)
    assert f"| {' and '.join(f'{float(each):.0f}' for each in short)} |" in row("Llama 3 405B")
