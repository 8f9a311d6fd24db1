"""Times that an engine's host adds to its kernels, from measured runs.

`python -m armillary_lab.fit.serving ENGINE [--every N] [--unseen]` prints the keys of
`engines/ENGINE.yml` in `KEYS`, fitted to every N-th measured run with that engine on one pool. What
is fitted are logarithms of TPOT and, with a third of their weight, of TTFT; far ones count by their
size and not its square. A step of the fit is a least-squares one from differences. Each key is
drawn towards `START` as if `PULL` runs had measured it, with an error of `SPREAD`.

`--unseen` repeats the fit without each model and without each GPU, and prints the errors of what
was left out. Where nothing is left to fit to, `START` holds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from armillary.errors import InputError
from armillary.serve import Engines, serve
from armillary.serve.iteration import Iteration, overheads

from .. import command
from ..measured.serving import Run, runs
from ..predict.serving import MODELS, engines, load

KEYS = ("layer", "eager", "eager_experts", "experts_launch", "request", "front", "front_token")
"""Keys of an engine's file that are fitted, in its units."""
START = {
    "layer": 2.0, "eager": 500.0, "eager_experts": 500.0, "request": 4.0, "front": 10.0,
    "front_token": 4.0, "experts_launch": 0.5,
}  # fmt: skip
SPREAD = {
    "layer": 3.0, "eager": 300.0, "eager_experts": 300.0, "request": 4.0, "front": 10.0,
    "front_token": 4.0, "experts_launch": 0.3,
}  # fmt: skip
MOST = {"experts_launch": 1.0}
"""Largest values, where there are any; no value is below 0."""
PULL = 2.0
TTFT = 1 / 3
"""Weight of a TTFT, that of a TPOT is 1."""
NEAR = 0.05
"""Errors up to this count by their square."""
ROUNDS = 3

Values = Mapping[str, float]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Errors:
    """Relative errors of runs: TPOT, TTFT."""

    runs: tuple[Run, ...]
    tpot: Array
    ttft: Array

    def said(self, name: str) -> str:
        """A line of a table."""
        tpot, ttft = (np.abs(each) for each in (self.tpot, self.ttft))
        numbers = [
            100 * float(np.quantile(each, part)) for each in (tpot, ttft) for part in (0.5, 0.9)
        ]
        texts = " ".join(f"{number:7.1f}" for number in numbers)
        return f"  {name:<24} {len(self.runs):>5} {texts}"


HEAD = f"  {'errors in %':<24} {'runs':>5} {'TPOT':>7} {'90 %':>7} {'TTFT':>7} {'90 %':>7}"


def known(engine: str, every: int = 1) -> list[Run]:
    """Every N-th run of an engine that can be predicted, on one pool."""
    found = []
    for run in runs():
        if run.engine == engine and run.model in MODELS and len(run.pools) == 1:
            try:
                engines(run, run.pools[0])
            except InputError:
                continue
            found.append(run)
    return found[::every]


def with_values(found: Engines, values: Values) -> Engines:
    """The same engines with other host times. Versions that hide no launches keep to that."""
    changes: dict[str, Any] = dict(values)
    if found.engine.file.experts_launch == 1.0:
        changes["experts_launch"] = 1.0
    file = replace(found.engine.file, **changes)
    fitted = ("layers", "requests", "host", "experts")
    kernels = [term for term in found.terms if term.name not in fitted]
    layers = -(-found.model.layers // found.layout.pp)
    engine = replace(found.engine, file=file)
    if found.model.experts:
        iteration = Iteration(
            found.model, found.layout, found.precision, engine, found.platform,
            tokens=found.tokens, sequences=found.sequences, longest=found.longest,
        )  # fmt: skip
        kernels.append(iteration.experts())
    return replace(found, engine=engine, terms=(*kernels, *overheads(file, layers)))


def times(chosen: Sequence[Run], values: Values) -> Array:
    """Seconds by run: TPOT and TTFT."""
    rows = []
    for run in chosen:
        served = serve(with_values(engines(run, run.pools[0]), values), load(run))
        rows.append((served.tpot.mean, served.ttft.mean))
    return np.array(rows)


def measured(chosen: Sequence[Run]) -> Array:
    """The same as measured."""
    return np.array([(run.tpot, run.ttft) for run in chosen])


def errors(chosen: Sequence[Run], values: Values) -> Errors:
    """Relative errors of runs."""
    found = times(chosen, values) / measured(chosen) - 1
    return Errors(tuple(chosen), found[:, 0], found[:, 1])


@dataclass(frozen=True)
class Slope:
    """Logarithms of times around some values, and how they change with each key."""

    chosen: tuple[Run, ...]
    values: Array
    logs: Array
    """Predicted less measured, by run: TPOT, TTFT."""
    change: Array
    """For each key, run, and TPOT or TTFT."""


def slope(chosen: Sequence[Run], values: Array) -> Slope:
    """By differences of a quarter of `SPREAD`."""
    base = times(chosen, _named(values))
    changes = []
    for at, key in enumerate(KEYS):
        step = SPREAD[key] / 4
        moved = values.copy()
        moved[at] += step
        changes.append(np.log(times(chosen, _named(moved)) / base) / step)
    return Slope(tuple(chosen), values, np.log(base / measured(chosen)), np.array(changes))


def solved(found: Slope, kept: Callable[[Run], bool]) -> Array:
    """The best values from the runs that are kept, as far as times change evenly."""
    rows = [at for at, run in enumerate(found.chosen) if kept(run)]
    weights = np.array([1.0, TTFT])
    matrix = (found.change[:, rows, :] * weights).reshape(len(KEYS), -1).T
    wanted = -(found.logs[rows] * weights).reshape(-1) + matrix @ found.values
    spread = np.array([SPREAD[key] for key in KEYS])
    start = np.array([START[key] for key in KEYS])
    pull = np.diag(PULL**0.5 * NEAR / spread)
    values = found.values.copy()
    for _ in range(30):
        far = np.abs(wanted - matrix @ values)
        near = np.sqrt(NEAR / np.maximum(far, NEAR))
        top = matrix * near[:, None]
        values, *_ = np.linalg.lstsq(
            np.concatenate([top, pull]), np.concatenate([wanted * near, pull @ start]), rcond=None
        )
        values = np.clip(values, 0.0, [MOST.get(key, np.inf) for key in KEYS])
    return values


def fitted(chosen: Sequence[Run]) -> tuple[Array, Slope]:
    """The best values for some runs, and the slope that they were found from."""
    values = np.array([START[key] for key in KEYS])
    for _ in range(ROUNDS):
        found = slope(chosen, values)
        values = solved(found, lambda _: True)
    return values, found


def unseen(chosen: Sequence[Run], found: Slope) -> list[tuple[str, Errors]]:
    """Errors of each model and each GPU, from fits without it."""
    result = []
    for kind in ("model", "gpu"):
        for name in sorted({getattr(run, kind) for run in chosen}):
            others = [run for run in chosen if getattr(run, kind) != name]

            def kept(run: Run, kind: str = kind, name: str = name) -> bool:
                return bool(getattr(run, kind) != name)

            values = solved(found, kept) if others else np.array([START[key] for key in KEYS])
            left = [run for run in chosen if getattr(run, kind) == name]
            result.append((f"{kind} {name}", errors(left, _named(values))))
    return result


def _named(values: Array) -> dict[str, float]:
    return dict(zip(KEYS, map(float, values), strict=True))


def main(arguments: Sequence[str]) -> int:
    """Prints values, and errors."""
    parser = argparse.ArgumentParser(
        prog="python -m armillary_lab.fit.serving",
        description="Fits what an engine's host adds to its kernels.",
    )
    parser.add_argument("engine", help="vllm, sglang or trtllm")
    parser.add_argument("--every", type=int, default=3, metavar="N", help="every N-th run")
    parser.add_argument("--unseen", action="store_true", help="fits without models and GPUs")
    given = parser.parse_args(arguments)
    chosen = known(given.engine, given.every)
    values, found = fitted(chosen)
    rounded = {key: float(f"{value:.3g}") for key, value in _named(values).items()}
    lines = [f"{key}: {value:g}" for key, value in rounded.items()]
    lines += [HEAD, errors(chosen, _named(values)).said("all, as fitted")]
    if given.unseen:
        left = unseen(chosen, found)
        lines += [each.said(f"without {name}") for name, each in left]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(command.run(main))
