"""Least squares for the parameters of a kind of kernel.

The sum over rows of a robust loss (`soft_l1`) of `ln(ours / measured) / SCALE` is lowered by
SciPy's trust-region search over the logarithms of the parameters, from those of the presets. The
parameters of a generation are those of `systems/parts/kernels/<generation>.yml`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from scipy.optimize import least_squares

from armillary import _core
from armillary.kernels.shapes import encoded
from armillary.kernels.tables import SYSTEMS, Measured
from armillary.platform import Platform

SCALE = 0.1
"""Error, as a logarithm, beyond which a row counts by its error and not by its square."""
_STEPS = (1.3, 0.7)
"""Changes of a parameter by which it shows whether rows depend on it."""
_UNITS = {"time": "us", "size": "B", "bandwidth": "B/s"}
"""Units of the values of parameters by the kind of their key."""
Values = Mapping[str, float]
"""Parameters by their keys below `npu.kernels`, in `_UNITS`."""


@cache
def kinds() -> dict[str, str]:
    """The kind of value of each key below `npu.kernels`."""
    found = {key: kind for key, kind, _, _, section in _core.platform_keys() if not section}
    return {
        key.removeprefix("npu.kernels."): kind
        for key, kind in found.items()
        if key.startswith("npu.kernels.")
    }


def settings(values: Values) -> dict[str, object]:
    """The parameters as a platform takes them."""
    return {f"npu.kernels.{key}": written(key, value) for key, value in values.items()}


def written(key: str, value: float) -> str | float | int:
    """A parameter as a platform file writes it, with four digits."""
    kind = kinds()[key]
    if kind == "count":
        return max(1, round(value))
    if kind in _UNITS:
        return f"{float(f'{value:.4g}'):.12g} {_UNITS[kind]}"
    return float(f"{value:.4g}")


class Problem:
    """Rows, and the parameters that a fit moves."""

    def __init__(self, rows: Sequence[Measured], keys: Sequence[str]) -> None:
        self.keys = list(keys)
        by: dict[str, list[Measured]] = {}
        for row in rows:
            by.setdefault(row.system, []).append(row)
        self.rows = [row for mine in by.values() for row in mine]
        """The rows, GPU by GPU."""
        self._by = {
            system: (encoded(row.shape for row in mine), np.array([row.us for row in mine]))
            for system, mine in by.items()
        }

    def logs(self, values: Values) -> np.ndarray:
        """ln(ours / measured) of every one of `rows`."""
        found = []
        for system, (shapes, us) in self._by.items():
            platform = Platform.load(SYSTEMS[system].preset, settings(values))
            found.append(np.log(np.array(platform._core.kernel_times(shapes)) * 1e6 / us))
        return np.concatenate(found)

    def moving(self, start: Values) -> list[str]:
        """The parameters that the rows depend on; others stay as they are."""
        before = self.logs(start)
        return [
            key
            for key in self.keys
            if any(
                not np.array_equal(before, self.logs({**start, key: start[key] * step}))
                for step in _STEPS
            )
        ]

    def fit(self, start: Values) -> dict[str, float]:
        """The parameters that lower the loss, from `start`; those that are not moved stay."""
        begin = np.log([start[key] for key in self.keys])

        def residuals(point: np.ndarray) -> np.ndarray:
            return self.logs({**start, **self._values(point)})

        found = least_squares(
            residuals,
            begin,
            bounds=(begin - math.log(10), begin + math.log(10)),
            loss="soft_l1",
            f_scale=SCALE,
            diff_step=0.01,
            max_nfev=20,
        )
        return {**start, **self._values(found.x)}

    def _values(self, point: np.ndarray) -> dict[str, float]:
        return dict(zip(self.keys, np.exp(point).tolist(), strict=True))
