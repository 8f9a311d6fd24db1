"""Engines with the way between them: all that a load meets."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .deployment import Engines
from .iteration import Term
from .load import Load
from .run import Served, serve

if TYPE_CHECKING:
    from .scaling import Rule


@dataclass(frozen=True, slots=True)
class Fleet:
    """A deployment. `decode` and `transfer` as in `serve`."""

    engines: Engines
    decode: Engines | None = None
    transfer: tuple[tuple[float, float], ...] = ()
    routing: str = "round_robin"

    def serve(
        self,
        load: Load,
        progress: Callable[[float, float], None] | None = None,
        timeline: str | os.PathLike[str] | None = None,
        scaling: Rule | None = None,
    ) -> Served:
        """Runs a load. `timeline` as in `serve`, `scaling` is a rule by which engines start and
        stop.

        Raises:
            InputError: as `serve`.
        """
        return serve(
            self.engines, load, decode=self.decode, transfer=self.transfer, routing=self.routing,
            progress=progress, timeline=timeline, scaling=scaling.row() if scaling else None,
        )  # fmt: skip

    def stretched(self, factor: float) -> Fleet:
        """The same with all times `factor` times as long."""
        return replace(
            self,
            engines=_stretched(self.engines, factor),
            decode=None if self.decode is None else _stretched(self.decode, factor),
            transfer=tuple((tokens, factor * time) for tokens, time in self.transfer),
        )


def _stretched(engines: Engines, factor: float) -> Engines:
    file = engines.engine.file
    host = {
        name: factor * getattr(file, name)
        for name in ("eager", "eager_experts", "front", "front_token")
    }
    engine = replace(engines.engine, file=replace(file, **host))
    terms = tuple(_longer(term, factor) for term in engines.terms)
    return replace(engines, engine=engine, terms=terms)


def _longer(term: Term, factor: float) -> Term:
    return replace(term, seconds=tuple(factor * each for each in term.seconds))
