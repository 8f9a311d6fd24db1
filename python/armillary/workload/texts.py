"""Options of text workloads, which their files do not state.

Not here: `passes`, which every reader of workloads takes; the loops (`crates/trace/src/text`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import InputError, Problem
from ..option_fields import read
from ..units import MB
from . import buckets

DESCRIPTION = "A text of ASTRA-sim 1.0: layers with recorded times, and a training loop."


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the layers of a text run."""

    overlap: bool = True
    """Computation goes on while collectives are under way, as far as the loop allows."""
    bucket_mb: float | None = None
    """Weight gradients are exchanged in buckets of at most this many MB, which layers share.
    Default: each layer's on their own."""

    @property
    def bucket_bytes(self) -> int | None:
        """Size of a bucket."""
        return None if self.bucket_mb is None else round(self.bucket_mb * MB)


def chosen(name: str, given: Mapping[str, object]) -> Options:
    """The options `given` for the text `name`. Raises `InputError` listing every problem."""
    options = read(Options, name, given)
    problems = buckets.check(options.bucket_mb)
    if not isinstance(options.overlap, bool):
        message = f"{options.overlap!r} is neither on nor off"
        problems.append(Problem("", "overlap", message, "true or false"))
    if problems:
        raise InputError([Problem(name, each.place, each.message, each.help) for each in problems])
    return options
