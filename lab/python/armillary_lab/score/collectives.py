"""Predicted times of collectives against measured ones, by hardware, collective and size.

An error is `exp(mean |ln(ours / measured)|) - 1` over the points of a sweep and size band: the
geometric mean of how many times too long or too short; of several sweeps the mean of theirs. Here:
the shipped presets, on the measurements of `sweeps`; nothing is fitted and no sweep has parameters
of its own. What happens to measurements that a fit has not seen is in `unseen_collectives`, whose
rows follow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from armillary.platform import Platform

from ..measured.sweeps import BANDS, SEND, Error, MeasuredSweep, band, by_band, percent, sweeps
from ..predict.collectives import predicted_us
from ..study import Reference, Study, StudyRow, analytical, limit, printed
from . import unseen_collectives, unseen_sources

REDUCED = (25.0, 20.0, 8.0)
"""Allowed errors of an all-reduce in each band, percent; other collectives 1.5 times that."""
SINGLE = {"V100": 5.0, "A100": 5.0, "H100": 5.0, "H200": 5.0, "B200": 5.0}
"""Large all-reduces within one node."""
PUBLISHED = {
    ("H100", 2): 20.63,
    ("H100", 4): 12.01,
    ("H100", 8): 9.69,
    ("V100", 4): 7.9,
    ("V100", 8): 2.8,
}
"""ASTRA-sim's own errors, all-reduce by number of GPUs, percent (astra-sim-docs,
validation/hardware)."""

__all__ = [
    "BANDS",
    "STUDY",
    "Error",
    "MeasuredSweep",
    "band",
    "errors",
    "preset_rows",
    "rows",
    "sweeps",
]


def errors(
    sweep: MeasuredSweep, backend: str = "analytical", platform: Platform | None = None
) -> list[Error]:
    """The errors of a sweep, band by band, simulated on its preset or on `platform`."""
    target = platform or sweep.platform
    logs = (
        (size, abs(math.log(predicted_us(sweep.collective, size, target, backend) / us)))
        for size, us in sweep.points
    )
    return by_band(sweep, logs)


def rows(backends: Sequence[str]) -> list[StudyRow]:
    """Errors of sources that were left out, those of the presets, then those of fits to single
    machines on what they have not seen."""
    return unseen_sources.rows() + preset_rows(backends) + unseen_collectives.rows()


def preset_rows(backends: Sequence[str]) -> list[StudyRow]:
    """Errors by collective and band, on single nodes, next to ASTRA-sim's own, and hardware by
    hardware."""
    return [row for backend in analytical(backends) for row in _rows(backend)]


def _rows(backend: str) -> Iterator[StudyRow]:
    found = [error for sweep in sweeps() for error in errors(sweep, backend)]
    fair = [error for error in found if error.sweep.fair]
    for kind in dict.fromkeys(sweep.collective for sweep in sweeps()):
        for at, words in enumerate(BANDS):
            yield from _row(
                f"{kind}, {words}",
                backend,
                [e for e in fair if (e.sweep.collective, e.band) == (kind, at)],
                _most(None if kind == SEND else REDUCED[at] * (1 if kind == "all_reduce" else 1.5)),
            )
    for gpu, most in SINGLE.items():
        chosen = _single(gpu)
        yield from _row(
            f"all_reduce, one node of {gpu}, {BANDS[2]}",
            backend,
            [e for e in fair if chosen(e)],
            _most(most),
        )
    for (gpu, gpus), theirs in PUBLISHED.items():
        same = _single(gpu, gpus)
        words = f"all_reduce, {gpus} {gpu}, {BANDS[2]}, against ASTRA-sim's error"
        reference = printed(theirs, "astra-sim-docs, page validation/hardware", "<")
        yield from _row(words, backend, [e for e in found if same(e)], reference)
    for gpu in dict.fromkeys(sweep.gpu for sweep in sweeps()):
        for at, words in enumerate(BANDS):
            yield from _row(
                f"{gpu}, {words}",
                backend,
                [e for e in fair if (e.sweep.gpu, e.band) == (gpu, at)],
                _most(None),
            )


def _single(gpu: str, gpus: int | None = None) -> Callable[[Error], bool]:
    def chosen(error: Error) -> bool:
        sweep = error.sweep
        return (sweep.gpu, sweep.nodes, sweep.collective, error.band) == (
            gpu,
            1,
            "all_reduce",
            2,
        ) and gpus in (
            None,
            sweep.gpus,
        )

    return chosen


def _most(percents: float | None) -> Reference:
    return limit(percents, "<")


def _row(setup: str, backend: str, found: list[Error], most: Reference) -> Iterator[StudyRow]:
    if found:
        mean = percent(sum(error.log for error in found) / len(found))
        worst = max(found, key=lambda error: error.log)
        why = f"worst: {worst.sweep.name}, {worst.percent:.0f} %; {worst.sweep.preset}"
        yield StudyRow(f"{setup} ({len(found)})", backend, most, mean, "%", why)


STUDY = Study(
    "Error of the predicted time on the shipped presets; in parentheses the number of sweeps. "
    "Reference: a limit that we chose, or ASTRA-sim's own error. Platforms are presets resized to "
    "the GPUs that were used; "
    "network rates and forced algorithms are a sweep's own; presets were fitted to these sweeps. "
    "'Held out' are sizes, collectives, sweeps, sources and scales that a fit has not seen; these "
    "fits began at round values, not at a preset's (lab/accuracy/collectives.md). Sweeps over TCP "
    "by mistake, over PCIe and with SHARP in the network are left out: there is no model of them.",
    rows,
)
