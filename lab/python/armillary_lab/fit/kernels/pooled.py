"""Parameters that all generations of GPUs share, and the few that a generation has of its own.

A value is `shared * own`, where `own` is 1 unless the generation has one. `fit` lowers the sum over
rows of a robust loss of `ln(ours / measured)` over the logarithms of both. A penalty draws each
`own` towards 1, as a prior of a hierarchy does. `choose` starts with a value of its own for every
key and generation, and takes those away that matter least. It stops where the loss of whole shapes
that were left out grows by more than `TOLERANCE` (`unseen.part_of`), by the linearized model."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from armillary.kernels.shapes import encoded
from armillary.kernels.tables import SYSTEMS, Measured
from armillary.platform import Platform

from .search import SCALE, settings
from .unseen import PARTS, generation, part_of

TOLERANCE = 0.02
"""Loss that values may cost that are taken away, as a part."""
_WIDTH, _OWN = 3.0, 0.35
"""Spread of the prior of shared values around their start, and of own values around 1, in
logarithms."""
_AT_MOST_ONE = ("rate", "memory", "compute", "efficiency", "kept", "decode_kept")
_AT_LEAST_ONE = ("misaligned",)
_STEP = 0.01
Own = tuple[str, str]
"""A key, and the generation that has a value of its own."""


class Pool:
    """Rows of several generations, the keys that a fit moves, and what stays."""

    def __init__(
        self,
        rows: Sequence[Measured],
        keys: Sequence[str],
        stays: Mapping[str, Mapping[str, float]],
        own: Sequence[Own] = (),
    ) -> None:
        by: dict[str, list[Measured]] = {}
        for row in rows:
            by.setdefault(row.system, []).append(row)
        self.rows = [row for mine in by.values() for row in mine]
        """The rows, GPU by GPU."""
        self.keys, self.own, self.stays = list(keys), list(own), stays
        self.generation = np.array([generation(row) for row in self.rows])
        self.part = np.array([part_of(row) for row in self.rows])
        self._by = {
            system: (encoded(row.shape for row in mine), np.log([row.us for row in mine]))
            for system, mine in by.items()
        }

    def values(self, point: np.ndarray, name: str) -> dict[str, float]:
        """The parameters of a generation."""
        logs = dict(zip(self.keys, point[: len(self.keys)].tolist(), strict=True))
        for (key, mine), log in zip(self.own, point[len(self.keys) :].tolist(), strict=True):
            if mine == name:
                logs[key] += log
        return {key: _bounded(key, math.exp(log)) for key, log in logs.items()} | dict(
            self.stays.get(name, {})
        )

    def logs(self, point: np.ndarray, names: Collection[str] | None = None) -> np.ndarray:
        """ln(ours / measured) of every row, by default; 0 for other generations."""
        found = []
        for system, (shapes, us) in self._by.items():
            name = SYSTEMS[system].generation
            if names is not None and name not in names:
                found.append(np.zeros(len(us)))
                continue
            given = settings(self.values(point, name))
            times = Platform.load(SYSTEMS[system].preset, given)._core.kernel_times(shapes)
            found.append(np.log(np.array(times) * 1e6) - us)
        return np.concatenate(found)

    def slopes(self, point: np.ndarray, logs: np.ndarray, names: Collection[str]) -> np.ndarray:
        """Derivatives of `logs`, a column for each number of the point."""
        found = np.zeros((len(logs), len(point)))
        for at in range(len(point)):
            mine = names if at < len(self.keys) else {self.own[at - len(self.keys)][1]}
            mine = set(mine) & set(names)
            if mine:
                moved = point.copy()
                moved[at] += _STEP
                rows = np.isin(self.generation, list(mine))
                found[rows, at] = (self.logs(moved, mine) - logs)[rows] / _STEP
        return found

    def prior(self) -> np.ndarray:
        """Weights of the penalty."""
        widths = [_WIDTH] * len(self.keys) + [_OWN] * len(self.own)
        return (SCALE / np.array(widths)) ** 2

    def fit(self, start: np.ndarray, seen: np.ndarray | None = None, most: int = 10) -> np.ndarray:
        """The point that lowers the loss of the rows that are `seen`, from `start`."""
        seen = np.ones(len(self.rows), bool) if seen is None else seen
        names = set(self.generation[seen].tolist())
        center = np.r_[start[: len(self.keys)], np.zeros(len(self.own))]
        weight, point, damping = self.prior(), start.copy(), 1e-2
        logs = self.logs(point, names)

        def loss(logs: np.ndarray, point: np.ndarray) -> float:
            return _robust(logs[seen]) + float(weight @ (point - center) ** 2)

        best = loss(logs, point)
        for _ in range(most):
            slopes = self.slopes(point, logs, names)[seen]
            each = slopes * _weights(logs[seen])[:, None]
            curve = slopes.T @ each + np.diag(weight)
            slope = each.T @ logs[seen] + weight * (point - center)
            for _ in range(7):
                damped = curve + damping * np.diag(np.diag(curve))
                tried = point - np.clip(np.linalg.solve(damped, slope), -1, 1)
                found = self.logs(tried, names)
                if (now := loss(found, tried)) < best:
                    break
                damping *= 6
            else:
                return point
            gain, best, point, logs = 1 - now / best, now, tried, found
            damping = max(damping / 6, 1e-5)
            if gain < 2e-3:
                break
        return point


def choose(pool: Pool, point: np.ndarray) -> list[Own]:
    """Values of a generation that shapes left out do not do without."""
    names = set(pool.generation.tolist())
    logs = pool.logs(point)
    slopes = pool.slopes(point, logs, names)
    each = slopes * _weights(logs)[:, None]
    parts = [pool.part == part for part in range(PARTS)]
    curves = [slopes[rows].T @ each[rows] for rows in parts]
    sides = [each[rows].T @ logs[rows] for rows in parts]
    base = sum(float(_weights(logs[rows]) @ logs[rows] ** 2) for rows in parts)
    curve, side, weight = sum(curves), sum(sides), pool.prior()
    center = np.r_[point[: len(pool.keys)], np.zeros(len(pool.own))]

    def solved(kept: list[int], a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        step = -point.copy()
        step[kept] = 0.0
        step[: len(pool.keys)] = 0.0
        left = a[np.ix_(kept, kept)] + np.diag(weight[kept])
        right = (b + a @ step)[kept] + weight[kept] * (point - center)[kept]
        step[kept] = -np.linalg.solve(left, right)
        return step, left

    def unseen(kept: list[int]) -> float:
        total = base
        for a, b in zip(curves, sides, strict=True):
            step, _ = solved(kept, curve - a, side - b)
            total += float(2 * b @ step + step @ (a @ step))
        return total

    kept = list(range(len(point)))
    found = [(unseen(kept), list(kept))]
    while len(kept) > len(pool.keys):
        step, left = solved(kept, curve, side)
        spread = np.diag(np.linalg.inv(left))
        weighs = sorted(
            ((point + step)[at] ** 2 / spread[place], at)
            for place, at in enumerate(kept)
            if at >= len(pool.keys)
        )
        gone = {at for _, at in weighs[: max(1, len(weighs) // 10)]}
        kept = [at for at in kept if at not in gone]
        found.append((unseen(kept), list(kept)))
    bound = min(loss for loss, _ in found) * (1 + TOLERANCE)
    smallest = [kept for loss, kept in found if loss <= bound][-1]
    return [pool.own[at - len(pool.keys)] for at in smallest if at >= len(pool.keys)]


def generations_out(pool: Pool, start: np.ndarray) -> Iterator[tuple[Measured, float]]:
    """Rows of each generation, predicted by values that the others share: a fit to their rows, from
    the mean of their logarithms."""
    names = sorted(set(pool.generation.tolist()))
    for name in names:
        rows = pool.generation == name
        each = [pool.values(start, other) for other in names if other != name]
        mean = np.array([np.mean([np.log(one[key]) for one in each]) for key in pool.keys])
        shared = Pool(pool.rows, pool.keys, pool.stays)
        found = shared.logs(shared.fit(mean, ~rows, 8), {name})[rows].tolist()
        mine = [row for row, out in zip(pool.rows, rows.tolist(), strict=True) if out]
        yield from zip(mine, found, strict=True)


def shapes_out(pool: Pool, start: np.ndarray) -> Iterator[tuple[Measured, float]]:
    """Rows of each part of the shapes, predicted by a fit to the others."""
    for part in range(PARTS):
        rows = pool.part == part
        found = pool.logs(pool.fit(start, ~rows, 4))[rows].tolist()
        mine = [row for row, out in zip(pool.rows, rows.tolist(), strict=True) if out]
        yield from zip(mine, found, strict=True)


def _bounded(key: str, value: float) -> float:
    name = key.rpartition(".")[2]
    if name in _AT_MOST_ONE:
        return min(value, 1.0)
    if name in _AT_LEAST_ONE or (name == "cached" and key.startswith("experts.")):
        return max(value, 1.0)
    return value


def _weights(logs: np.ndarray) -> np.ndarray:
    weights: np.ndarray = 1 / np.sqrt(1 + (logs / SCALE) ** 2)
    return weights


def _robust(logs: np.ndarray) -> float:
    return float(np.sum(2 * SCALE**2 * (np.sqrt(1 + (logs / SCALE) ** 2) - 1)))
