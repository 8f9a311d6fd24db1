"""NCCL within one node on what a fit has not seen: a version of NCCL, or a GPU.

`python -m armillary_lab.fit.one_node` leaves out each version of a GPU that was measured with two
or more, and each GPU with one; sweeps of others on that GPU take no part then. The fit is that of
the presets (`libraries`), as far as it concerns one node. Prints half and nine of ten of the errors
by size band, percent. Next to them: a table of the other versions' times, which no model can beat
by much. Takes some three minutes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from statistics import median

from ..measured import one_node
from ..measured.one_node import Measured, measured, versions
from ..measured.sweeps import BANDS, band, quantile
from . import libraries
from .hierarchy import Levels

Errors = dict[Measured, float]
"""`ln(ours / measured)`."""


_TABLE = "  a table of the other versions"
_GROUPS: tuple[Callable[[Measured], str], ...] = (
    lambda each: each.collective,
    lambda each: each.gpu,
    lambda _: "all",
)
"""Names by which errors are gathered."""


def main() -> int:
    """Prints the errors."""
    pooled: dict[Measured, float] = {}
    tables: dict[Measured, float] = {}
    sys.stdout.write(f"{'left out':<34}" + "".join(f"{size:>22}" for size in BANDS) + "\n")
    for gpu in one_node.PRESETS:
        known = versions(gpu)
        if len(known) == 1:
            _write(gpu, without(gpu))
            continue
        for nccl in known:
            found = without(gpu, nccl)
            table = others(gpu, nccl)
            pooled, tables = pooled | found, tables | table
            _write(f"{gpu}, {nccl}", found)
            _write(_TABLE, table)
    for of in _GROUPS:
        for value in dict.fromkeys(map(of, pooled)):
            for words, found in ((f"each version left out: {value}", pooled), (_TABLE, tables)):
                _write(words, {each: log for each, log in found.items() if of(each) == value})
    return 0


def _write(words: str, found: Errors) -> None:
    sys.stdout.write(f"{words:<34}" + "".join(f"{said:>22}" for said in by_band(found)) + "\n")
    sys.stdout.flush()


def by_band(found: Errors) -> Iterator[str]:
    """Half and nine of ten of the errors in each band, and the number of points."""
    for at in range(len(BANDS)):
        logs = [log for each, log in found.items() if band(each.size) == at]
        halves = f"{quantile(logs, 0.5):.1f} {quantile(logs, 0.9):.1f}" if logs else ""
        yield f"{halves} ({len(logs)})"


def without(gpu: str, nccl: str = "") -> Errors:
    """The errors of a GPU, or of one version of NCCL on it, by the fit to everything else."""

    def left(each: Measured) -> bool:
        return each.gpu == gpu and nccl in ("", each.nccl)

    kept = one_node.one_node_sweeps(lambda each: not left(each))
    fit = libraries.within_nodes(kept, "" if nccl else gpu)
    return errors(fit, filter(left, measured()))


def errors(levels: Levels, of: Iterable[Measured]) -> Errors:
    """The errors of a fit."""
    found: Errors = {}
    for sweep, group in one_node.groups(of):
        logs = levels.logs(libraries.observed(sweep))
        found |= dict(zip(group, (-log for log in logs), strict=True))
    return found


def others(gpu: str, nccl: str) -> Errors:
    """The errors of a table without a model: medians of the other versions on the same GPU."""
    times: dict[tuple[object, ...], list[float]] = {}
    for each in measured():
        if each.gpu == gpu and each.nccl != nccl:
            times.setdefault(_setup(each), []).append(each.us)
    return {
        each: math.log(median(times[_setup(each)]) / each.us)
        for each in measured()
        if (each.gpu, each.nccl) == (gpu, nccl) and _setup(each) in times
    }


def _setup(each: Measured) -> tuple[object, ...]:
    return each.collective, each.dtype, each.gpus, each.size


if __name__ == "__main__":
    sys.exit(main())
