"""How far a run goes, and its batches up to there.

A run has a number of steps, a number of samples, or one pass over its data. With a number of
samples, the last batch is cut off behind the last of them. So a smaller batch in between, at the
end of a pass or of a run that is continued, changes no number of samples.

Not here: what is done with the batches (`loop.py`), where they come from (`data/`)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from armillary.errors import InputError, Problem

from ..data import Part, Position, Source
from ..ranks.world import World
from ..settings import SYNTHETIC, Settings


class RunProgress(Protocol):
    """Steps and samples of the training so far, and where the data is behind it."""

    steps: int
    samples: int
    position: Position


@dataclass(frozen=True, slots=True)
class Length:
    """How far a run goes: one of `steps` and `samples`; neither where only reading the data shows
    it."""

    batch: int
    steps: int | None
    samples: int | None

    @classmethod
    def of(cls, settings: Settings, source: Source) -> Length:
        """That of a run with these settings on this data."""
        samples = settings.samples or source.size if settings.steps is None else None
        return cls(settings.global_batch, settings.steps, samples)

    @property
    def whole(self) -> int | None:
        """Steps of the run if every batch but the last one is full."""
        return self.steps if self.samples is None else -(-self.samples // self.batch)

    def done(self, progress: RunProgress) -> float:
        """The part of `whole` that is done: steps, or samples in batches."""
        return progress.steps if self.steps is not None else progress.samples / self.batch

    def share(self, progress: RunProgress) -> float:
        """The share of the run that is done, 0 to 1; 0 where its length is not known."""
        if self.steps is not None:
            return progress.steps / self.steps
        return progress.samples / self.samples if self.samples else 0.0

    def is_reached(self, steps: int, samples: int) -> bool:
        """Whether a run with these steps and samples has ended."""
        if self.steps is not None:
            return steps >= self.steps
        return self.samples is not None and samples >= self.samples

    def check(self, progress: RunProgress, place: str) -> None:
        """Raises `InputError` if a checkpoint in `place` is behind the end."""
        for option, unit, done, end in (
            ("--steps", "step", progress.steps, self.steps),
            ("--samples", "sample", progress.samples, self.samples),
        ):
            if end is not None and done > end:
                said = f"the checkpoint is of {unit} {done:,}, behind the end at {unit} {end:,}"
                raise InputError([Problem(place, option, said, f"{done:,} or more")])


def batches(
    source: Source, settings: Settings, world: World, length: Length, progress: RunProgress
) -> Iterator[Part]:
    """This rank's part of each batch that is left: one pass over the data, or passes up to the end.
    Raises `InputError` if there is a checkpoint behind the end."""
    length.check(progress, settings.checkpoint or "")
    steps, samples, start = progress.steps, progress.samples, progress.position
    shared = settings.data != SYNTHETIC
    while not length.is_reached(steps, samples):
        before = -1 if start.sample else samples
        for part in source.parts(settings.global_batch, world.rank, world.size, start):
            if shared:
                world.same_batch(part.whole)
            left = part.whole if length.samples is None else length.samples - samples
            yield part.cut(left, world.rank, world.size)
            steps, samples = steps + 1, samples + min(left, part.whole)
            if length.is_reached(steps, samples):
                return
        if shared:
            world.same_batch(0)
        if length.whole is None or samples == before:
            return
        start = Position(start.epoch + 1)
