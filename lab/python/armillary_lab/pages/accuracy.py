"""Writes docs/reference/accuracy.md and its details in lab/accuracy anew: the tables, one study or
table of intervals each, between the marks that bear their names, then the summary and the plot.

`python -m armillary_lab.pages.accuracy` runs the studies (some ten minutes); with the names of
marks, such as `v1` or `intervals-steps`, only these. With `--summary` the tables
stay, and only what is drawn from them is written. With `--check` nothing is written; it ends with 1
if a table or the summary differs."""

from __future__ import annotations

import difflib
import re
import sys
import textwrap
from collections.abc import Iterator

from armillary.backends import MESSAGES
from armillary.report.chart import Chart
from armillary.uncertainty import write

from ..clone import ROOT, demand
from ..fit import steps_of_unseen_sources, steps_on_unseen_hardware
from ..studies import StudyRow, study
from . import intervals

RESIDUALS = ROOT / "python/armillary/uncertainty/data"
PAGE = ROOT / "docs/reference/accuracy.md"
DETAILS = tuple(ROOT / f"lab/accuracy/{name}.md" for name in ("collectives", "steps", "memory"))
PLOT = ROOT / "docs/images/accuracy.svg"
MARKS = re.compile(r"(<!-- ([\w-]+) -->\n)(.*?)(<!-- \2 end -->)", re.DOTALL)
GOALS = {"<": "below ", ">": "above ", "=": ""}
SIZES = ("up to 64 KiB", "to 16 MiB", "16 MiB and above")
UNSEEN = "source left out"
LARGE = f"all_reduce, {SIZES[2]}"
STEPS, OURS, SHARDED = (
    "all but nanotron's on several nodes",
    "nanotron, tp 1",
    "nanotron, tp 2 to 32",
)
LEFT_OUT = "sources left out"


def main() -> int:
    """Replaces the text between the marks. With `--intervals`, writes the residuals of steps first,
    which takes some more minutes."""
    for page in (PAGE, *DETAILS):
        demand(page)
    if "--intervals" in sys.argv[1:]:
        write(steps_of_unseen_sources.intervals(), RESIDUALS / "steps.json")
        write(steps_on_unseen_hardware.intervals(), RESIDUALS / "hardware.json")
    before = {path: path.read_text(encoding="utf-8") for path in (PAGE, *DETAILS)}
    after = dict(before)
    if "--summary" not in sys.argv[1:]:
        for path, text in before.items():
            after[path] = MARKS.sub(lambda found: found[1] + _part(found) + found[4], text)
    values = _values("".join(after[path] for path in DETAILS))
    start, _, rest = after[PAGE].partition("<!-- summary -->\n")
    end = rest.partition("<!-- summary end -->")[2]
    lines = (textwrap.fill(line, 100, subsequent_indent="  ") for line in _summary(values))
    summary = "\n".join(lines)
    after[PAGE] = f"{start}<!-- summary -->\n{summary}\n<!-- summary end -->{end}"
    if "--check" in sys.argv[1:]:
        for path, text in before.items():
            different = difflib.unified_diff(
                text.splitlines(), after[path].splitlines(), lineterm=""
            )
            sys.stdout.writelines(f"{line}\n" for line in different)
        return int(after != before)
    PLOT.write_text(_chart(values).svg(), encoding="utf-8")
    for path, text in after.items():
        path.write_text(text, encoding="utf-8")
    return 0


def _part(found: re.Match[str]) -> str:
    wanted = [each for each in sys.argv[1:] if not each.startswith("--")]
    if found[2] == "summary" or (wanted and found[2] not in wanted):
        return found[3]
    name, _, kind = found[2].partition("-")
    if name == "intervals":
        return "\n".join([*intervals.table(kind), ""])
    lines = [_line(row) for row in study(found[2]).rows(MESSAGES)]
    head = ["| what | should be | is | details |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *lines, ""])


def _line(row: StudyRow) -> str:
    value = row.reference.value
    goal = "" if value is None else f"{GOALS[row.reference.relation]}{value:g} {row.unit}"
    ours = f"{row.ours:.1f} {row.unit}" if row.unit else f"{row.ours:.2f}"
    return f"| {row.setup} | {goal} | {ours} | {row.why} |"


def _values(text: str) -> dict[str, tuple[int, float]]:
    """The percentages of the tables by what they are of, each with the number of cases."""
    rows = re.findall(r"^\| ([^|]+?) \((\d+)\)(: [^|]+?)? \|[^|]*\| ([\d.]+) % ", text, re.M)
    return {name + rest: (int(count), float(percent)) for name, count, rest, percent in rows}


def _summary(values: dict[str, tuple[int, float]]) -> Iterator[str]:
    """Seven lines, errors of what was left out first."""
    large, small = values[LARGE], [values[f"all_reduce, {size}"][1] for size in SIZES[:2]]
    for kind, words in (("all_reduce", "All-reduces"), ("other collectives", "Other collectives")):
        every, known = (
            " / ".join(f"{values[f'{name}: {kind}, {size}'][1]:.0f}" for size in SIZES)
            for name in (UNSEEN, f"{UNSEEN}, all but Slingshot")
        )
        yield (
            f"- {words} of sources that no fit has seen, up to 64 KiB / to 16 MiB / above: "
            f"{every} % on average, {known} % without Slingshot, mostly one source."
        )
    steps, most = values[f"{STEPS}: median error"], values[f"{STEPS}: 90th percentile"]
    memory = [values[f"{what}: median error"][1] for what in ("Megatron-LM", OURS, SHARDED)]
    left = [values[f"{LEFT_OUT}: {what}"][1] for what in ("median error", "90th percentile")]
    yield (
        f"- Training steps of sources that no fit has seen: {left[0]:.0f} % at the median, the "
        f"worst tenth {left[1]:.0f} % or more."
    )
    yield f"- All-reduces that were fitted: {small[0]:.0f} / {small[1]:.0f} / {large[1]:.0f} %."
    yield (
        f"- {steps[0]:,} published steps, all but one cluster's: {steps[1]:.0f} % at the median, "
        f"the worst tenth {most[1]:.0f} % or more."
    )
    yield (
        f"- Peak memory: {memory[0]:.0f} % (Megatron-LM), {memory[1]:.0f} % (PyTorch) and "
        f"{memory[2]:.0f} % (PyTorch, tensor parallel) at the median."
    )


def _chart(values: dict[str, tuple[int, float]]) -> Chart:
    rows = []
    for words, names in (
        ("sources left out", (f"{UNSEEN}: all_reduce", f"{UNSEEN}: other collectives")),
        ("fitted", ("all_reduce", "all_gather", "all_to_all")),
    ):
        for name in names:
            for size in SIZES:
                what = f"{name.rpartition(': ')[2]}, {size}, {words}"
                error = values[f"{name}, {size}"][1]
                rows.append({"what": what, "of": "collectives, mean", "error": error})
    for name, what in ((LEFT_OUT, "sources left out"), (STEPS, "all but one cluster")):
        error = values[f"{name}: median error"][1]
        rows.append({"what": f"training steps, {what}", "of": "steps, median", "error": error})
    for name, what in (
        (OURS, "plain PyTorch, tp 1"),
        (SHARDED, "plain PyTorch, tp 2 to 32"),
        ("Megatron-LM", "Megatron-LM"),
    ):
        error = values[f"{name}: median error"][1]
        rows.append({"what": f"peak memory, {what}", "of": "memory, median", "error": error})
    spec = {
        "mark": "bar",
        "encoding": {
            "x": {"field": "error", "type": "quantitative", "title": "error, %"},
            "y": {"field": "what", "type": "nominal", "sort": None, "title": None},
            "color": {"field": "of", "type": "nominal", "title": None},
        },
    }
    return Chart("accuracy", "Error of predictions", rows, spec)


if __name__ == "__main__":
    sys.exit(main())
