"""Collectives of sources that took no part in the fit, and how many of them lie in their intervals.

Every source (a repository or page that published sweeps) is left out once, all libraries are fitted
to the others level by level, and its sweeps are predicted (`fit.libraries`). The residuals ship
with the package (`uncertainty/data/collectives.json`), because intervals are made of them; these
rows are read off them. Next to them: how well a sweep is predicted by the times that other sources
measured on the same machine, or its own source with other settings, without a model
(`without_a_model`). An error is the mean `|ln(ours / measured)|` of a sweep in a size band, as
everywhere. A coverage is the part of the measured points within intervals that the other sources
give."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from armillary.uncertainty import Residual, of
from armillary.units import counted

from ..measured.sweeps import BANDS, SEND, Error, percent, sweeps
from ..study import StudyRow, limit
from . import coverage, without_a_model

REDUCED = (25.0, 20.0, 8.0)
"""Allowed errors of an all-reduce of a source that was left out, in each band, percent."""
OTHERS = (40.0, 30.0, 12.0)
"""The same of other collectives."""
_NODES = {
    "1": "one node",
    "2": "two nodes",
    "to 16": "3 to 16 nodes",
    "to 128": "17 to 128 nodes",
    "more": "more than 128 nodes",
}


def rows() -> list[StudyRow]:
    """Errors by collective and band, with and without Slingshot, by source and by GPU, then
    coverages. Most sweeps over Slingshot are of one source, in several setups."""
    found = of("collectives").residuals
    others = [each for each in found if each.labels["network"] != "Slingshot"]
    return [
        *_by_band(found, "source left out"),
        *_by_band(others, "source left out, all but Slingshot"),
        *_floors(),
        *_by(found, "source"),
        *_by(found, "GPU"),
        *_coverages(),
    ]


def _by_band(found: Sequence[Residual], words: str) -> Iterator[StudyRow]:
    kinds = ((True, "all_reduce", REDUCED), (False, "other collectives", OTHERS))
    for reduced, kind, most in kinds:
        for at, size in enumerate(BANDS):
            chosen = [
                each
                for each in found
                if each.labels["size"] == size
                and (each.labels["operation"] == "all_reduce") is reduced
            ]
            yield from _row(f"{words}: {kind}, {size}", chosen, most[at])


def _floors() -> Iterator[StudyRow]:
    """The same where another source measured the same machine, predicted from its measurements, and
    where the same source measured it with other settings."""
    fair = [each for each in sweeps() if each.fair and each.collective != SEND]
    for words, found in (
        ("from other sources' times on the same machine", without_a_model.other_sources(fair)),
        ("from times with other settings on the same machine", without_a_model.other_setups(fair)),
    ):
        yield from _floor(words, found)


def _floor(words: str, found: Sequence[Error]) -> Iterator[StudyRow]:
    for reduced, kind in ((True, "all_reduce"), (False, "other collectives")):
        for at, size in enumerate(BANDS):
            chosen = [
                each
                for each in found
                if each.band == at and (each.sweep.collective == "all_reduce") is reduced
            ]
            if chosen:
                mean = percent(sum(each.log for each in chosen) / len(chosen))
                ordered = sorted(each.log for each in chosen)
                count = len({each.sweep.repository for each in chosen})
                said = f"{count} sources" if count > 1 else chosen[0].sweep.repository
                yield StudyRow(
                    f"{words}: {kind}, {size} ({len(chosen)})",
                    "analytical",
                    limit(None, "<"),
                    mean,
                    "%",
                    f"no model; {said}; half of them up to "
                    f"{percent(ordered[(len(ordered) - 1) // 2]):.0f} %",
                )


def _by(found: Sequence[Residual], what: str) -> Iterator[StudyRow]:
    def name(each: Residual) -> str:
        return each.source if what == "source" else each.labels[what]

    for value in sorted(dict.fromkeys(map(name, found))):
        for size in BANDS:
            chosen = [each for each in found if name(each) == value and each.labels["size"] == size]
            yield from _row(f"source left out, {value}, {size}", chosen, None)


def _row(setup: str, chosen: Sequence[Residual], most: float | None) -> Iterator[StudyRow]:
    if not chosen:
        return
    errors = {id(each): sum(map(abs, each.logs)) / len(each.logs) for each in chosen}
    ordered = sorted(errors.values())
    worst = max(chosen, key=lambda each: errors[id(each)])
    why = (
        f"half of them up to {percent(ordered[(len(ordered) - 1) // 2]):.0f} %; "
        f"worst: {worst.name}, {percent(errors[id(worst)]):.0f} %"
    )
    parts: dict[str, float] = {}
    for each in chosen:
        parts[each.source] = parts.get(each.source, 0.0) + errors[id(each)]
    if len(parts) > 1:
        source, part = max(parts.items(), key=lambda item: item[1])
        count = sum(each.source == source for each in chosen)
        those = f"{counted(count, 'sweep')} of {source}"
        why += f"; {100 * part / sum(ordered):.0f} % of the error is in {those}"
    mean = percent(sum(ordered) / len(ordered))
    yield StudyRow(f"{setup} ({len(chosen)})", "analytical", limit(most, "<"), mean, "%", why)


def _coverages() -> Iterator[StudyRow]:
    keys: tuple[Callable[[Residual], str], ...] = (
        lambda each: each.labels["operation"],
        lambda each: each.labels["GPU"],
        lambda each: each.labels["size"],
        lambda each: each.labels["network"],
        lambda each: _NODES[each.labels["nodes"]],
    )
    return coverage.rows(of("collectives"), "", keys)
