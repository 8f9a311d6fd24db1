"""`python -m armillary_lab.fit.after_steps`: how much of what predictions of
a job's layouts miss is shared by all of them.

Writes the three constants of `armillary.uncertainty.after_steps`, and how many steps lie within
their intervals before and after one to three others of the same job were measured. Layouts are
those that sources tried for one job (`measured/tried.py`), nanotron's on up to two nodes. Their
source is left out of the rates and of the intervals. `SHARED` and `FREEDOM` minimize the interval
score of T. Gneiting and A. E. Raftery (JASA 102, 2007), width plus ten times the distance outside;
`STRETCH` puts 80 % within. Sources count alike."""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from armillary.kernels.tables import Left
from armillary.uncertainty import LEVEL, Factors, Intervals, of
from armillary.uncertainty.after_steps import plain
from armillary.uncertainty.steps import labels

from .. import command
from ..measured.training import Training
from ..measured.tried import SOURCES, Tried, ours
from ..predict.plans import predict

EACH, JOBS = {"vTrain": 4, "nanotron": 8}, {"vTrain": 45}
"""Most layouts of a job, and most jobs, of large sources."""
SHAREDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
FREEDOMS = (1.0, 2.0, 4.0, 8.0)
_DRAWS = 6
_OUTSIDE = 10.0


@dataclass(frozen=True, slots=True)
class Missed:
    """A measured step: ln(measured / predicted), and its interval before."""

    log: float
    before: Factors


@dataclass(frozen=True, slots=True)
class Case:
    """Measured steps of a job, and another layout of it."""

    known: tuple[Missed, ...]
    other: Missed

    def off(self, shared: float, freedom: float) -> tuple[float, float]:
        """How far the other layout is from the middle, and the half width without a stretch."""
        logs = [each.log for each in self.known]
        middle, half = plain(self.other.before, logs, shared, freedom)
        return abs(self.other.log - middle), half


Cases = Mapping[str, Sequence[Case]]


def drawn(rows: Sequence[Tried]) -> Iterator[Tried]:
    """Layouts of jobs with several, at most `EACH` of a job and `JOBS` of a source."""
    jobs: dict[tuple[str, str], dict[str, Tried]] = defaultdict(dict)
    for row in rows:
        far = row.source == "nanotron" and isinstance(row.run, Training) and row.run.nodes > 2
        if row.ran and row.step_s and not far:
            jobs[row.source, row.job].setdefault(row.layout, row)
    chance = random.Random(51)
    for source in dict.fromkeys(SOURCES.values()):
        names = sorted(job for of, job in jobs if of == source and len(jobs[of, job]) > 1)
        for job in chance.sample(names, min(JOBS.get(source, len(names)), len(names))):
            found = jobs[source, job]
            names_ = sorted(found)
            count = min(EACH.get(source, len(names_)), len(names_))
            yield from (found[name] for name in chance.sample(names_, count))


def cases(rows: Sequence[tuple[Tried, float]]) -> Cases:
    """Cases by source, of layouts and ln(measured / predicted)."""
    others = {source: _without(source) for source in SOURCES.values()}
    jobs: dict[tuple[str, str], list[Missed]] = defaultdict(list)
    for row, log in rows:
        run = row.run
        assert isinstance(run, Training)
        wanted = labels(run.gpu, run.precision, run.model.family, run.gpus)
        before = others[row.source].interval(wanted).factors
        jobs[row.source, row.job].append(Missed(log, before))
    found: dict[str, list[Case]] = defaultdict(list)
    chance = random.Random(1)
    for (source, _), missed in jobs.items():
        for count in (1, 2, 3):
            chosen = list(combinations(range(len(missed)), count)) if len(missed) > count else []
            for known in chance.sample(chosen, min(_DRAWS, len(chosen))):
                steps = tuple(missed[at] for at in known)
                rest = (each for at, each in enumerate(missed) if at not in known)
                found[source] += [Case(steps, each) for each in rest]
    return found


def _without(source: str) -> Intervals:
    table = of("steps")
    for group, name in SOURCES.items():
        table = table.without(group) if name == source else table
    return table


def stretch(found: Cases, shared: float, freedom: float) -> float:
    """The stretch with which `LEVEL` of the steps lie within, sources alike."""
    needs = []
    for some in found.values():
        offs = [each.off(shared, freedom) for each in some]
        needs += [(off / half, 1 / len(some)) for off, half in offs]
    inside = 0.0
    for need, weight in sorted(needs):
        inside += weight
        if inside >= LEVEL * len(found):
            return need
    return max(needs)[0]


def score(found: Cases, shared: float, freedom: float, factor: float) -> float:
    """The mean interval score, sources alike."""
    total = 0.0
    for some in found.values():
        for each in some:
            off, half = each.off(shared, freedom)
            half *= factor
            total += (2 * half + _OUTSIDE * max(0.0, off - half)) / len(some)
    return total / len(found)


def best(found: Cases) -> tuple[float, float, float]:
    """Shared part, freedom and stretch with the lowest score."""
    tried = ((*each, stretch(found, *each)) for each in product(SHAREDS, FREEDOMS))
    return min(tried, key=lambda each: score(found, *each))


def report(found: Cases) -> Iterator[str]:
    """The constants, and what lies within for each source that is left out of them."""
    shared, freedom, factor = best(found)
    yield f"SHARED {shared}, FREEDOM {freedom:g}, STRETCH {factor:.3f}"
    yield "| source left out | measured | cases | within before | within after | width | score |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for source, some in found.items():
        constants = best({name: each for name, each in found.items() if name != source})
        for count in (1, 2, 3):
            mine = [each for each in some if len(each.known) == count]
            if mine:
                yield _row(source, count, mine, constants)


def _row(
    source: str, count: int, some: Sequence[Case], constants: tuple[float, float, float]
) -> str:
    shared, freedom, factor = constants

    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    ends = [(*map(math.log, each.other.before), each.other.log) for each in some]
    within = mean([float(low <= log <= high) for low, high, log in ends])
    wide = mean([high - low for low, high, _ in ends])
    was = mean([_scored(log - (low + high) / 2, (high - low) / 2) for low, high, log in ends])
    offs = [each.off(shared, freedom) for each in some]
    inside = mean([float(off <= half * factor) for off, half in offs])
    wider = mean([2 * half * factor for _, half in offs])
    now = mean([_scored(off, half * factor) for off, half in offs])
    return (
        f"| {source} | {count} | {len(some)} | {within:.0%} | {inside:.0%} | {wide:.2f}, "
        f"{wider:.2f} | {was:.2f}, {now:.2f} |"
    )


def _scored(off: float, half: float) -> float:
    return 2 * half + _OUTSIDE * max(0.0, abs(off) - half)


def main(arguments: Sequence[str]) -> int:
    """Prints the constants and the table."""
    parser = argparse.ArgumentParser(prog="python -m armillary_lab.fit.after_steps")
    parser.parse_args(arguments)
    rows = []
    for row in drawn(list(ours())):
        found = predict(row)
        if not isinstance(found, Left) and found.timed:
            rows.append((row, -found.log))
    sys.stdout.write("\n".join(report(cases(rows))) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main))
