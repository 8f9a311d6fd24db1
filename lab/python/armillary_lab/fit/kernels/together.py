"""The fit of kinds whose parameters generations of GPUs share, for `python -m
armillary_lab.fit.kernels` (`pooled`, `files`)."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

from armillary.kernels.tables import Measured

from ...predict.measured_kernels import Predicted, predict
from . import files, intervals, pooled, unseen
from .pooled import Pool

KINDS = ("attention", "experts", "gemm", "mla")
"""Kinds whose parameters generations share."""


def unseen_errors(kind: str, rows: Sequence[Measured], fixed: Sequence[str], keep: bool) -> None:
    """Prints errors of the presets and of left-out generations; `keep` writes intervals."""
    _unseen(kind, *_start(kind, rows, fixed), keep)


def shape_errors(kind: str, rows: Sequence[Measured], fixed: Sequence[str]) -> None:
    """Prints errors of left-out shapes."""
    _grouped("shapes left out", list(pooled.shapes_out(*_start(kind, rows, fixed))))


def fit(kind: str, rows: Sequence[Measured], fixed: Sequence[str], keep: bool) -> None:
    """Prints a fit; `keep` writes it."""
    _fit(kind, *_start(kind, rows, fixed), keep)


def _start(kind: str, rows: Sequence[Measured], fixed: Sequence[str]) -> tuple[Pool, np.ndarray]:
    """The rows, and the point at which the files are."""
    shared = files.own(files.SHARED, kind)
    own = {name: files.own(name, kind) for name in files.GENERATIONS}
    every = dict.fromkeys([*shared, *(key for mine in own.values() for key in mine)])
    stays = [key for key in every if files.fact(key) or key.rpartition(".")[2] in fixed]
    moved = [key for key in every if key not in stays]
    base = {key: shared[key] if key in shared else _only(key, own) for key in moved}
    mine = [(key, name) for name in own for key in own[name] if key in shared and key in base]
    logs = [np.log(base[key]) for key in moved]
    logs += [np.log(own[name][key] / base[key]) for key, name in mine]
    kept = {name: {key: files.parameters(name, kind)[key] for key in stays
                   if key in files.parameters(name, kind) and not key.endswith(".host")}
            for name in own}  # fmt: skip
    return Pool(rows, moved, kept, mine), np.array(logs)


def _only(key: str, own: dict[str, dict[str, float]]) -> float:
    """The value of a key that one file has."""
    return next(mine[key] for mine in own.values() if key in mine)


def _fit(kind: str, pool: Pool, point: np.ndarray, keep: bool) -> None:
    """Prints the fit, and writes it."""
    names = sorted(set(pool.generation.tolist()))
    shared = files.own(files.SHARED, kind)
    every = [(key, name) for key in pool.keys if key in shared for name in names]
    now = dict(zip(pool.own, point[len(pool.keys) :].tolist(), strict=True))
    full = Pool(pool.rows, pool.keys, pool.stays, every)
    whole = full.fit(np.r_[point[: len(pool.keys)], [now.get(each, 0.0) for each in every]])
    chosen = pooled.choose(full, whole)
    found = Pool(pool.rows, pool.keys, pool.stays, chosen)
    logs = dict(zip(every, whole[len(pool.keys) :].tolist(), strict=True))
    last = found.fit(np.r_[whole[: len(pool.keys)], [logs[each] for each in chosen]])
    _grouped("fitted", list(zip(found.rows, found.logs(last).tolist(), strict=True)))
    sys.stdout.write(f"{len(pool.keys)} shared values, {len(chosen)} of single generations\n")
    moved = set(pool.keys)
    by = {
        name: {key: value for key, value in files.own(name, kind).items() if key not in moved}
        for name in (files.SHARED, *files.GENERATIONS)
    }
    for key, log in zip(pool.keys, last.tolist(), strict=False):
        place = files.SHARED if key in shared else _place(kind, key)
        by[place][key] = float(np.exp(log))
    for name in names:
        values = found.values(last, name)
        by[name] |= {key: values[key] for key, mine in chosen if mine == name}
    for name, values in by.items():
        for key, value in values.items():
            sys.stdout.write(f"  {name} {key}: {value:.4g}\n")
    if keep:
        files.write(kind, by)


def _place(kind: str, key: str) -> str:
    return next(name for name in files.GENERATIONS if key in files.own(name, kind))


def _unseen(kind: str, pool: Pool, point: np.ndarray, keep: bool) -> None:
    """Prints errors of the presets and of left-out generations, and writes intervals from them."""
    known = [found for found in predict(pool.rows) if isinstance(found, Predicted)]
    show("presets", [found.log for found in known])
    left = unseen.measured_elsewhere(pool.rows)
    out = [(row, log) for row, log in pooled.generations_out(pool, point) if left(row)]
    _grouped("generations left out", out)
    if keep:
        others = [Predicted(row, row.us * float(np.exp(log))) for row, log in out]
        found_ends, lines = intervals.of_kind(known, others)
        intervals.write(kind, found_ends, {row.system for row in pool.rows})
        sys.stdout.write("\n".join(lines) + "\n")


def _grouped(name: str, found: Sequence[tuple[Measured, float]]) -> None:
    """Prints errors of each generation and of all."""
    by: dict[str, list[float]] = {}
    for row, log in found:
        by.setdefault(unseen.generation(row), []).append(log)
    for each, logs in by.items():
        show(f"{each}, {name}", logs)
    show(name, [log for _, log in found])


def show(name: str, logs: Sequence[float]) -> None:
    """Prints the median and the 90th percentile of errors, from their logarithms."""
    errors = 100 * np.expm1(np.abs(logs))
    middle, ninth = np.quantile(errors, [0.5, 0.9])
    sys.stdout.write(f"{name}: {len(logs)} rows, median {middle:.1f} %, 90 % {ninth:.1f} %\n")
    sys.stdout.flush()
