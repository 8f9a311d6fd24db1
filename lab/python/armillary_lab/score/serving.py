"""Errors of predicted runs of inference engines.

`python -m armillary_lab.score.serving [--every N] [--page FILE]` prints tables of Markdown: errors
of runs by GPU, engine and model; of single requests before and after a calibration; and how good
the deployments are that it chooses. FILE is a scrape of InferenceMAX's page, in no fit."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from armillary.errors import InputError
from armillary.kernels.tables import Left
from armillary.serve import Choices, Served, calibrated, serve

from .. import command
from ..measured.published import tables
from ..measured.serving import Run, Unused, measured, of_table, requests_of
from ..predict.serving import Prediction, predict, replay, single_requests
from .published import Score

CALIBRATION = 30
"""Requests that single requests are calibrated from."""
LEAST = 5
"""Deployments of a group that one is chosen from."""
GOOD = 0.95
"""Part of the best throughput that a choice should reach."""
MISS = 0.1
"""Part of its speed by which a choice may miss as measured. One that misses by more counts as 0."""
MARGINS = (0.0, 0.05)
"""Parts of the speed by which predictions may miss it."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Relative errors of a quantity: how many, median and 90th percentile of their sizes, and the
    median with its sign."""

    count: int
    median: float
    ninth: float
    bias: float


def spread(errors: Iterable[float]) -> Spread | None:
    """`None` of no errors."""
    found = sorted(errors)
    if not found:
        return None
    sizes = sorted(map(abs, found))
    return Spread(len(found), at(sizes, 0.5), at(sizes, 0.9), at(found, 0.5))


def at(ordered: Sequence[float], part: float) -> float:
    """The value that a part of them does not exceed."""
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def tpot(found: Prediction) -> float | None:
    """Relative error of the time of a token."""
    return found.tpot / found.run.tpot - 1 if found.run.tpot else None


def ttft(found: Prediction) -> float | None:
    """Relative error of the time to the first token."""
    return found.ttft / found.run.ttft - 1 if found.run.ttft else None


def rate(found: Prediction) -> float | None:
    """Relative error of the throughput of a GPU."""
    return found.rate / found.run.rate - 1 if found.run.rate else None


def speed(found: Prediction) -> float | None:
    """Relative error of a request's tokens a second."""
    return found.speed / found.run.speed - 1 if found.run.speed else None


Error = Callable[[Prediction], float | None]


def errors(found: Iterable[Prediction], error: Error) -> Spread | None:
    """Errors of those predictions that have a measurement."""
    return spread(each for each in map(error, found) if each is not None)


@dataclass(frozen=True, slots=True)
class Choice:
    """The deployment that is chosen for a speed that its group reaches."""

    group: tuple[object, ...]
    least: float
    """Tokens a second of a request, at least."""
    reached: float
    """Measured throughput of the choice over the best one; 0 of a choice that is too slow."""


def choices(found: Sequence[Prediction], margin: float = 0.0, miss: float = MISS) -> list[Choice]:
    """For each group with at least 5 deployments, and each speed on its measured frontier: the
    deployment with the most predicted throughput among those that are predicted to be as fast, but
    for `margin` of the speed.

    A group is a source, a model, a GPU and a pair of lengths; engines, formats and layouts
    compete. Throughputs of choices that miss the speed as measured, by more than `miss` of it,
    count as 0."""
    groups: dict[tuple[object, ...], list[Prediction]] = {}
    for each in found:
        run = each.run
        if len(run.pools) == 1:
            key: tuple[object, ...] = (run.rate is None, run.model, run.gpu, run.prompt, run.output)
            groups.setdefault(key, []).append(each)
    result = []
    for key, members in groups.items():
        if len(members) >= LEAST:
            result += [_choice(key, members, each, margin, miss) for each in frontier(members)]
    return result


def frontier(members: Iterable[Prediction]) -> list[float]:
    """Measured speeds of deployments that no other one beats in speed and throughput."""
    points = sorted(((_speed(each.run), _rate(each.run)) for each in members), reverse=True)
    best, found = 0.0, []
    for fast, much in points:
        if much > best:
            best = much
            found.append(fast)
    return found


def _choice(
    key: tuple[object, ...],
    members: Sequence[Prediction],
    least: float,
    margin: float,
    miss: float,
) -> Choice:
    best = max(_rate(each.run) for each in members if _speed(each.run) >= least)
    fast = [each for each in members if each.speed >= least * (1 - margin)]
    # Where nothing is predicted to be fast enough, the fastest is taken.
    chosen = (
        max(fast, key=lambda each: each.rate) if fast else max(members, key=lambda each: each.speed)
    )
    reached = _rate(chosen.run) / best if _speed(chosen.run) >= least * (1 - miss) else 0.0
    return Choice(key, least, min(reached, 1.0))


def _speed(run: Run) -> float:
    return run.speed if run.speed else 1 / (run.tpot or math.inf)


def _rate(run: Run) -> float:
    """Tokens a second and GPU. Where the source has none: those of requests that follow each other
    without a break."""
    return run.rate or throughput(run)


def throughput(run: Run, ttft: float | None = None, tpot: float | None = None) -> float:
    """Tokens a second and GPU of requests that follow each other without a break, with the times of
    the run or with others."""
    output, prompt = 0.9 * run.output, 0.9 * run.prompt
    first, each = ttft or run.ttft or 0.0, tpot or run.tpot or math.inf
    seconds = first + each * (output - 1)
    return run.concurrency * (output + prompt) / seconds / run.gpus


@dataclass(frozen=True, slots=True)
class Requests:
    """Mean relative errors of single requests."""

    count: int
    latency: float
    ttft: float


def of_requests(served: Served, skipped: int = 0) -> Requests:
    """Errors of a load's requests after the first ones."""
    pairs = list(zip(served.answers, served.load.measured, strict=True))[skipped:]
    count = len(pairs)
    latency = sum(abs(ours.latency / end - 1) for ours, (_, end) in pairs) / count
    first = sum(abs(ours.ttft / first - 1) for ours, (first, _) in pairs) / count
    return Requests(count, latency, first)


def predictions(rows: Iterable[Run | Unused]) -> tuple[list[Prediction], dict[str, int]]:
    """Predictions, and how many rows have none by reason."""
    found, left = [], dict[str, int]()
    for row in rows:
        result = predict(row) if isinstance(row, Run) else row
        if isinstance(result, Unused):
            reason = result.reason.split(":")[0]
            left[reason] = left.get(reason, 0) + 1
        else:
            found.append(result)
    return found, left


def _percent(number: float) -> str:
    return f"{100 * number:.1f} %"


def _columns(found: Spread | None) -> list[str]:
    if found is None:
        return ["", "", ""]
    return [_percent(found.median), _percent(found.ninth), f"{100 * found.bias:+.1f} %"]


def table(found: Sequence[Prediction], named: Sequence[tuple[str, Error]]) -> list[str]:
    """Errors of all, by engine, GPU and model, and by all three."""
    heads = [f"{name}{part}" for name, _ in named for part in (", median", ", 90 %", ", bias")]
    lines = [f"| runs | count | {' | '.join(heads)} |", "|" + " --- |" * (2 + len(heads))]
    kinds: list[Callable[[Run], str]] = [
        lambda run: "all",
        lambda run: run.engine,
        lambda run: run.gpu,
        lambda run: run.model,
        lambda run: f"{run.model}, {run.precision}, {run.gpu}, {run.engine}",
    ]
    for kind in kinds:
        groups: dict[str, list[Prediction]] = {}
        for each in found:
            groups.setdefault(kind(each.run), []).append(each)
        for name, group in sorted(groups.items()):
            cells = [cell for _, error in named for cell in _columns(errors(group, error))]
            lines.append(f"| {name} | {len(group)} | {' | '.join(cells)} |")
    return lines


def _chosen(found: Sequence[Prediction]) -> list[str]:
    """How many choices reach `GOOD`, and in how many groups all of them do on average."""
    lines = ["| margin | may miss by | choices | reach 95 % | groups | reach it on average |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for margin in MARGINS:
        for miss in (MISS, 0.0):
            made = choices(found, margin, miss)
            groups = dict[tuple[object, ...], list[float]]()
            for each in made:
                groups.setdefault(each.group, []).append(each.reached)
            whole = sum(sum(part) / len(part) >= GOOD for part in groups.values())
            good = sum(each.reached >= GOOD for each in made) / max(1, len(made))
            numbers = (f"{margin:.0%}", f"{miss:.0%}", len(made), f"{good:.0%}", len(groups), whole)
            lines.append(f"| {' | '.join(map(str, numbers))} |")
    return lines


def of_file(path: str) -> tuple[int, list[Left], list[Score]]:
    """The predicted rows of a file of runs or of single requests, why others are not, and errors.

    Raises:
        InputError: as `of_table`.
    """
    if tables.holds(path, tables.SERVING[2:3]):
        return _of_requests_file(path)
    found, left = [], list[Left]()
    for row in of_table(path):
        result = predict(row) if isinstance(row, Run) else row
        if isinstance(result, Unused):
            left.append(Left(result.reason))
        else:
            found.append(result)
    return len(found), left, _scores(found)


def _of_requests_file(path: str) -> tuple[int, list[Left], list[Score]]:
    groups, untimed = requests_of(path)
    predicted, scores = 0, list[Score]()
    left = [Left("a request of the run has no time")] * untimed
    for (gpu, model, tp, sequences, tokens), rows in groups.items():
        try:
            choices = Choices(sequences=sequences, tokens=tokens)
            engines, arrived = replay(rows, gpu, model, choices, tp)
            served = serve(engines, arrived)
        except InputError as error:
            left += [Left(f"not predicted: {error.problems[0].message}")] * len(rows)
            continue
        predicted += len(rows)
        pairs = list(zip(served.answers, arrived.measured, strict=True))
        latency = [ours.latency / end - 1 for ours, (_, end) in pairs]
        first = [ours.ttft / first - 1 for ours, (first, _) in pairs]
        name = f"{model}, {gpu}"
        scores.append(_score("latency", name, latency, ""))
        scores.append(_score("TTFT", name, first, ""))
    return predicted, left, scores


def _scores(found: Sequence[Prediction]) -> list[Score]:
    """Errors by quantity, of all and by engine, GPU, model and pools."""
    kinds: list[Callable[[Run], str]] = [
        lambda run: "all", lambda run: run.engine, lambda run: run.gpu, lambda run: run.model,
        lambda run: "disaggregated" if len(run.pools) > 1 else "aggregated",
    ]  # fmt: skip
    result = []
    for name, error in NAMED:
        groups = dict[str, list[tuple[float, Run]]]()
        for kind in kinds:
            for each in found:
                one = error(each)
                if one is not None:
                    groups.setdefault(kind(each.run), []).append((one, each.run))
        for group, errors in groups.items():
            worst = max(errors, key=lambda pair: abs(pair[0]))
            said = f"{worst[1].name}: {100 * worst[0]:+.0f} %"
            result.append(_score(name, group, [one for one, _ in errors], said))
    return result


def _score(kind: str, name: str, errors: Sequence[float], worst: str) -> Score:
    sizes = sorted(100 * abs(each) for each in errors)
    mean = sum(sizes) / len(sizes)
    ratio = math.exp(sum(math.log1p(each) for each in errors) / len(errors))
    return Score(kind, name, "", len(sizes), mean, at(sizes, 0.5), at(sizes, 0.9), ratio, worst)


NAMED: tuple[tuple[str, Error], ...] = (
    ("TPOT", tpot), ("TTFT", ttft), ("throughput", rate), ("tokens/s/user", speed),
)  # fmt: skip


def _report(title: str, found: Sequence[Prediction], left: dict[str, int]) -> list[str]:
    one = [each for each in found if len(each.run.pools) == 1]
    two = [each for each in found if len(each.run.pools) == 2]
    named: list[tuple[str, Error]] = (
        [("TPOT", tpot), ("TTFT", ttft)]
        if one and one[0].run.tpot
        else [("throughput", rate), ("tokens/s/user", speed)]
    )
    lines = [f"## {title}", "", *table(one, named), "", *_chosen(one), ""]
    if two:
        lines += ["disaggregated:", "", *table(two, named), ""]
    lines += [f"- {count} rows left out: {reason}" for reason, count in sorted(left.items())]
    return [*lines, ""]


def _requests() -> list[str]:
    engines, arrived = single_requests()
    rows = [("as it comes", of_requests(serve(engines, arrived)))]
    made = calibrated(engines, arrived, CALIBRATION)
    after = of_requests(serve(made.engines, arrived), CALIBRATION)
    rows.append((f"calibrated from the first {CALIBRATION}", after))
    lines = ["## Single requests", "", "| | requests | latency, mean | TTFT, mean |"]
    lines.append("| --- | --- | --- | --- |")
    for name, each in rows:
        lines.append(
            f"| {name} | {each.count} | {_percent(each.latency)} | {_percent(each.ttft)} |"
        )
    return [*lines, ""]


def main(arguments: Sequence[str]) -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m armillary_lab.score.serving",
        description="Predicts measured runs of inference engines, and prints errors.",
    )
    parser.add_argument("--every", type=int, default=1, metavar="N", help="every N-th row")
    parser.add_argument(
        "--aggregated", action="store_true", help="only runs whose engines do all of a request"
    )
    parser.add_argument("--page", metavar="FILE", help="rows of InferenceMAX's page")
    given = parser.parse_args(arguments)
    rows = [
        row
        for row in measured()
        if not (given.aggregated and isinstance(row, Run) and len(row.pools) > 1)
    ]
    lines = _report("Runs of InferenceX", *predictions(rows[:: given.every]))
    lines += _requests()
    if given.page:
        lines += _report("InferenceMAX's page", *predictions(of_table(given.page)[:: given.every]))
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main))
