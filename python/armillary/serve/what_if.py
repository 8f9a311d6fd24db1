"""Changes of a deployment that would help, each simulated with the same load."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ..errors import InputError
from .deployment import Engines, deploy, fit
from .layout import Layout, Precision
from .limits import Limits
from .run import Served, serve
from .transfer import transfer

MOST_REQUESTS = 5000
"""Requests of a load up to which changes are simulated without being asked for."""


@dataclass(frozen=True, slots=True)
class Change:
    """A changed deployment and its result."""

    said: str
    served: Served
    before: float
    """Requests a second within the service level without the change; all of them without one."""
    goodput: float
    """The same with the change."""
    ttft: float
    """Mean time to the first token over that before."""
    tpot: float
    """Mean time of each later token over that before."""


def what_if(
    found: Served, limits: Limits, routing: str, backend: str | None = None
) -> list[Change]:
    """The changes, those that help most first: more engines, other layouts, narrower caches.

    Changes that the memory, the model or the platform does not allow are left out."""
    return ordered(changes(found, limits, routing, backend))


def ordered(found: Iterable[Change]) -> list[Change]:
    """Changes, those that help most first."""
    return sorted(found, key=lambda each: (-round(each.goodput, 9), each.ttft, each.said))


def changes(
    found: Served, limits: Limits, routing: str, backend: str | None = None
) -> Iterator[Change]:
    """The changes of `what_if`, one after another."""
    before = found.goodput(limits.ttft, limits.tpot)
    for said, engines, decode in _changed(found):
        if not fit(engines, decode):
            continue
        way = transfer(engines, decode, backend) if decode else ()
        served = serve(engines, found.load, decode=decode, transfer=way, routing=routing)
        after = served.goodput(limits.ttft, limits.tpot)
        yield Change(
            said,
            served,
            before,
            after,
            served.ttft.mean / found.ttft.mean,
            served.tpot.mean / found.tpot.mean if found.tpot.mean else 1.0,
        )


def _changed(found: Served) -> Iterator[tuple[str, Engines, Engines | None]]:
    """Changed engines (with those for tokens, where they are apart), in words."""
    first, later = found.engines, found.decode
    if later is not None:
        yield _more(first, "for prompts"), replace(first, count=first.count + 1), later
        yield _more(later, "for tokens"), first, replace(later, count=later.count + 1)
        return
    yield _more(first, ""), replace(first, count=first.count + 1), None
    layout, precision = first.layout, first.precision
    tp = layout.tp * 2
    other = replace(layout, tp=tp, ep=layout.ep * 2 if layout.ep > 1 else layout.ep)
    yield from _made(f"tp={tp} instead of {layout.tp}", first, other, precision)
    if layout.tp > 1 and layout.dp == 1:
        half = replace(layout, tp=layout.tp // 2, ep=1)
        for engines in _made("", first, half, precision):
            both = replace(engines[1], count=2 * first.count)
            yield f"two engines with tp={half.tp} instead of each", both, None
    if precision.cache == "bf16":
        narrow = replace(precision, cache="fp8")
        yield from _made("keys and values in fp8", first, layout, narrow)


def _more(engines: Engines, what: str) -> str:
    gpus = engines.layout.gpus
    return f"one more engine{' ' + what if what else ''} ({gpus} GPU{'s' * (gpus > 1)})"


def _made(
    said: str, like: Engines, layout: Layout, precision: Precision
) -> Iterator[tuple[str, Engines, None]]:
    """Engines as `like` in another layout or format, where that is possible."""
    try:
        made = deploy(
            like.model, like.platform, like.engine, layout, precision, count=1,
            longest=like.longest, choices=like.choices, network=like.network,
        )  # fmt: skip
    except InputError:
        return
    yield said, replace(made, count=like.count), None
