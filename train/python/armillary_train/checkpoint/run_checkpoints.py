"""The checkpoints of a run, as its loop sees them.

Here: when a run goes on from one, and when it makes one. Not here: writing (`saver.py`), reading
(`restore.py`)."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Protocol, cast

from armillary.errors import InputError, Problem

from ..data import Position
from ..ranks.sharded import ShardedEmbeddingCollection
from ..tables.tensor_train import SplitEmbeddings
from .content import Content
from .folder import Folder
from .manifest import Evaluation, Reached, Scores
from .restore import (
    Trainee,
    dense_tensors,
    rank_tensors,
    require_fit,
    restore,
    together,
)
from .saver import Report, Saver
from .shards import shards_of, steps_of, stored_tables


class Progress(Protocol):
    """How far a run is, as `loop.Outcome`."""

    steps: int
    samples: int
    seconds: float
    evaluations: list[dict[str, Any]]
    bound: dict[str, Any] | None
    position: Position
    data: str


class Checkpoints:
    """The checkpoints of a run. Without `--checkpoint`, it does nothing."""

    def __init__(self, trainee: Trainee, saver: Saver | None) -> None:
        self._trainee, self._saver = trainee, saver
        self._last: int | None = None

    def after(self, progress: Progress, *, end: bool = False) -> None:
        """Called after each step, and once at the `end`: begins a checkpoint if it is due. Raises
        `InputError` on all ranks if one could not be written."""
        saver = self._saver
        if saver is None:
            return
        saver.raise_if_alone()
        every = self._trainee.settings.checkpoint_every
        if progress.steps != self._last and (end or progress.steps % every == 0):
            self._last = progress.steps
            extra = rank_tensors(self._trainee)
            if self._trainee.world.rank == 0:
                extra |= dense_tensors(self._trainee)
            saver.save(progress.steps, extra, self._facts(progress))

    def settle(self) -> None:
        """Waits until the last checkpoint is there. Raises as `after`."""
        if self._saver is not None:
            self._saver.settle()

    def report(self) -> dict[str, Any] | None:
        """Cost of checkpoints: sums over ranks, and the longest stall."""
        if self._saver is None:
            return None
        found = self._trainee.world.gather(self._saver.report, Report)
        return {
            "count": found[0].count,
            "whole": found[0].whole,
            "bytes": sum(each.bytes for each in found),
            "stall_seconds": max(each.stall_seconds for each in found),
            "write_seconds": sum(each.write_seconds for each in found),
            "resumed": found[0].resumed,
        }

    def _facts(self, progress: Progress) -> Reached:
        return {
            "steps": progress.steps,
            "samples": progress.samples,
            "seconds": progress.seconds,
            # A copy: the list grows while this is written.
            "evaluations": cast("list[Evaluation]", list(progress.evaluations)),
            "bound": cast("Scores | None", progress.bound),
            "updates": steps_of(self._trainee.embeddings),
            "position": {
                "epoch": progress.position.epoch,
                "sample": progress.position.sample,
            },
            "data": progress.data,
            "interaction": self._trainee.model.parts.kind,
        }


@contextmanager
def checkpoints(trainee: Trainee, progress: Progress) -> Iterator[Checkpoints]:
    """The checkpoints of a run. With `--resume`, model and `progress` become those of the folder's
    last one, if it has one.

    Raises `InputError` on all ranks: the folder is in use or can't be written; it has checkpoints,
    but the run does not resume; the checkpoint is damaged, or does not fit the run."""
    settings, world = trainee.settings, trainee.world
    if settings.checkpoint is None:
        yield Checkpoints(trainee, None)
        return
    folder = Folder(settings.checkpoint)
    together(world, lambda: _claim(folder, settings.resume) if world.rank == 0 else None)
    try:
        run = world.gather(secrets.token_hex(4), str)[0]
        shards = shards_of(trainee.embeddings, world.rank, world.size)
        tables = stored_tables(trainee.embeddings)
        saver = Saver(
            folder,
            world,
            shards,
            tables,
            keep=settings.keep,
            precision=settings.checkpoint_precision,
            run=run,
            settings=asdict(settings),
            failed=_teller(trainee),
        )
        steps = together(world, folder.steps)
        made = Checkpoints(trainee, saver)
        if steps:
            content = together(world, lambda: Content(folder, steps[-1]))
            together(world, lambda: require_fit(content, asdict(settings), tables))
            together(world, lambda: _require_data(content, progress))
            together(world, lambda: content.check(world.rank, world.size))
            together(world, lambda: restore(content, trainee, shards))
            _go_on(progress, content.last.progress)
            saver.report.resumed = content.last.step
            # Imported tables have no state: the next checkpoint is a whole one.
            saver.base = content.last.step if content.last.settings is not None else None
            first, *others = (manifest.bytes for manifest in content.chain)
            saver.sizes = first, sum(others)
            made._last = content.last.step
    except BaseException:
        folder.unlock()
        raise
    try:
        yield made
    finally:
        saver.close()


def _go_on(progress: Progress, reached: Reached) -> None:
    """Makes `progress` that of a checkpoint."""
    progress.steps, progress.samples = reached["steps"], reached["samples"]
    progress.seconds = reached["seconds"]
    progress.evaluations = cast("list[dict[str, Any]]", reached["evaluations"])
    progress.bound = cast("dict[str, Any] | None", reached["bound"])
    progress.position = Position(reached["position"]["epoch"], reached["position"]["sample"])
    progress.data = reached.get("data") or progress.data


def _require_data(content: Content, progress: Progress) -> None:
    known = content.last.progress.get("data")
    imported = content.last.settings is None
    if progress.data and known != progress.data and not imported:
        said = f"was made with other data: {known}, and this is {progress.data}"
        help_ = "the same samples in the same order"
        raise InputError(
            [Problem(str(content.folder.of(content.last.step)), "--data", said, help_)]
        )


def _claim(folder: Folder, resume: bool) -> None:
    folder.lock()
    folder.clean()
    steps = folder.steps()
    if steps and not resume:
        folder.unlock()
        said = f"has a checkpoint of step {steps[-1]}"
        help_ = "--resume to go on from it, or another folder"
        raise InputError([Problem(str(folder.path), "--checkpoint", said, help_)])


def _teller(trainee: Trainee) -> Any:  # noqa: ANN401 - a function, or none
    """Function by which all ranks hear of an error in their next step, if there are several."""
    embeddings = trainee.embeddings
    plain = embeddings.plain if isinstance(embeddings, SplitEmbeddings) else embeddings
    if isinstance(plain, ShardedEmbeddingCollection) and trainee.world.size > 1:
        return plain.exchange.fail
    return None
