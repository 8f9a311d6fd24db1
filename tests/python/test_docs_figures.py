"""The README's table of errors repeats figures of the details of accuracy, which `make numbers`
compares with a rerun."""

from __future__ import annotations

import re

from conftest import ROOT

ACCURACY = "".join(
    (ROOT / f"lab/accuracy/{name}.md").read_text(encoding="utf-8")
    for name in ("collectives", "steps")
)
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


def test_collectives_that_were_left_out() -> None:
    said = row("all-reduces of sources")
    assert f"{three('all_reduce', 'source left out: ')} % on average" in said
    assert f"half within {halves('all_reduce')} %" in said


def test_steps() -> None:
    median, high = (named("sources left out", what) for what in ("median error", "90th percentile"))
    wanted = f"{median:.0f} % at the median, {high:.0f} % at the 90th percentile"
    assert wanted in row("training steps of")


def test_runs_of_astra_sim() -> None:
    """The page of comparisons, whose figures its own tests hold."""
    compare = " ".join((ROOT / "COMPARE.md").read_text(encoding="utf-8").split())
    (equal, runs) = re.findall(r"in (\d+) of (\d+) recorded runs", row("ASTRA-sim's finish"))[0]
    assert f"{equal} of {runs}" in compare or f"{equal} of the {runs}" in compare
