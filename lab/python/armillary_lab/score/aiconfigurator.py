"""Errors of AIConfigurator's recorded estimates next to ours, on the same measured runs.

`python -m armillary_lab.score.aiconfigurator RECORD` prints a table of Markdown. RECORD is
`tests/golden/peers/aiconfigurator.json`. Not here: the record (`lab/peers`), other scores of
serving (`serving.py`)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import command
from ..measured.serving import UNLIMITED, Run, measured
from ..predict.serving import LATER, MODELS, Prediction, predict
from .serving import Spread, spread, throughput

EVERY = 12
"""Distance of runs that are compared, in the order of their file."""


def chosen() -> list[Run]:
    """Runs whose engines do all of a request, spread over all. Rows whose number of requests is
    unknown have a place, so that the recorded runs stay the same."""
    rows = [
        each
        for each in measured()
        if (
            len(each.pools) == 1 and each.ttft and each.tpot
            if isinstance(each, Run)
            else each.reason == UNLIMITED
        )
    ]
    return [each for each in rows[::EVERY] if isinstance(each, Run)]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two predictions of a run. Times are seconds."""

    run: Run
    ours: Prediction
    ttft: float
    """AIConfigurator's."""
    tpot: float


def estimates(path: str) -> dict[str, tuple[float, float] | None]:
    """TTFT and TPOT of runs in seconds from a record, by name; `None` of one that has an error."""
    rows = json.loads(Path(path).read_text(encoding="utf-8"))["answers"]["runs"]
    return {
        row["run"]: None if "error" in row else (row["ttft_ms"] / 1e3, row["tpot_ms"] / 1e3)
        for row in rows
    }


def pairs(path: str, every: int = 1) -> tuple[list[Pair], int, int]:
    """Runs that both predict, how many only we do, and how many only the peer does."""
    known, found, ours, theirs = estimates(path), list[Pair](), 0, 0
    for run in chosen()[::every]:
        made, other = predict(run, models=MODELS | LATER), known.get(run.name)
        if isinstance(made, Prediction) and other:
            found.append(Pair(run, made, *other))
        ours += isinstance(made, Prediction) and not other
        theirs += not isinstance(made, Prediction) and bool(other)
    return found, ours, theirs


Error = Callable[[Pair], float]


def _relative(one: float, other: float | None) -> float:
    return one / (other or 1.0) - 1


ERRORS: tuple[tuple[str, Error, Error], ...] = (
    (
        "TPOT",
        lambda pair: _relative(pair.tpot, pair.run.tpot),
        lambda pair: _relative(pair.ours.tpot, pair.run.tpot),
    ),
    (
        "TTFT",
        lambda pair: _relative(pair.ttft, pair.run.ttft),
        lambda pair: _relative(pair.ours.ttft, pair.run.ttft),
    ),
    (
        "throughput",
        lambda pair: _relative(throughput(pair.run, pair.ttft, pair.tpot), throughput(pair.run)),
        lambda pair: _relative(
            throughput(pair.run, pair.ours.ttft, pair.ours.tpot), throughput(pair.run)
        ),
    ),
)
"""Quantities with the peer's errors and ours. Throughput is that of requests without a break."""


def table(found: Sequence[Pair]) -> list[str]:
    """Median and 90th percentile of both, for all runs, by engine and by model."""
    heads = [f"{name}, {who}" for name, *_ in ERRORS for who in ("peer", "ours")]
    lines = [f"| runs | count | {' | '.join(heads)} |", "| --- " + "| ---: " * 7 + "|"]
    kinds: list[Callable[[Run], str]] = [
        lambda run: "all",
        lambda run: {"sglang": "SGLang", "trtllm": "TensorRT-LLM", "vllm": "vLLM"}[run.engine],
        lambda run: run.model,
    ]
    for kind in kinds:
        for name in sorted({kind(pair.run) for pair in found}):
            group = [pair for pair in found if kind(pair.run) == name]
            cells = [
                _said(spread(error(pair) for pair in group))
                for _, *both in ERRORS
                for error in both
            ]
            lines.append(f"| {name} | {len(group)} | {' | '.join(cells)} |")
    return lines


def _said(found: Spread | None) -> str:
    return f"{100 * found.median:.0f} / {100 * found.ninth:.0f} %" if found else ""


def main(arguments: Iterable[str]) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        prog="python -m armillary_lab.score.aiconfigurator",
        description="Compares errors of AIConfigurator's recorded estimates with ours.",
    )
    parser.add_argument("record", metavar="RECORD", help="tests/golden/peers/aiconfigurator.json")
    found, ours, theirs = pairs(parser.parse_args(list(arguments)).record)
    lines = [*table(found), "", f"only ours: {ours}; only the peer's: {theirs}"]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main))
