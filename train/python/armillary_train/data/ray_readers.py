"""Batches made by Ray Data, on any machine of a cluster: the one that `ray` finds (`RAY_ADDRESS`),
or a local one that it starts.

Here: a source whose batches are rows of a `ray.data.Dataset`, in order. Ray Data shares them out
over actors, restarts those that die, and stops reading while its object store is full. Not here:
readers on one machine (`readers.py`).

Files that the settings name must be at the same place on every machine of the cluster."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from armillary.errors import ArmillaryError, InputError, LostContactError, Problem
from armillary.model import load_model
from armillary.model.dlrm import parse

from ..settings import Settings
from .samples import ALL, START, Part, Position, Source, Turn
from .wrapped_source import Wrapped

_PREFETCHED = 2
"""Batches that are on their way to the trainer, at most."""


_CORES = 0.5
"""Cores of an actor. On a small machine, some must be left for Ray Data itself."""


class RayReaders(Wrapped):
    """A source whose batches are made by Ray Data."""

    def __init__(self, source: Source, settings: Settings) -> None:
        """The samples of `source`, which is the one that `settings` name. Raises `InputError`: Ray
        Data is not installed, or the source doesn't know how many samples it has."""
        if source.size is None:
            said = "Ray Data needs to know how many samples there are"
            help_ = "data that `armillary ingest` wrote"
            raise InputError([Problem(settings.data, "--readers-on", said, help_)])
        super().__init__(source, settings)
        self._ray, self._data = _modules()

    def parts(
        self, batch: int, rank: int, ranks: int, start: Position = START, turn: Turn = ALL
    ) -> Iterator[Part]:
        """As `Source.parts`. Raises what the source raises, and `LostContactError` if the cluster
        fails."""
        left = -(-((self._source.size or 0) - start.sample) // batch)
        count = len(range(turn[0], left, turn[1]))
        if count <= 0:
            return
        job = (asdict(self._settings), batch, rank, ranks, start, turn)
        try:
            for row in self._rows(count, job):
                found = pickle.loads(row)
                if isinstance(found, ArmillaryError):
                    raise found
                yield found
        except self._ray.exceptions.RayError as error:
            said = " ".join(str(error).split())[:300]
            raise LostContactError([Problem("", "Ray Data", said)]) from None

    def _rows(self, count: int, job: tuple[Any, ...]) -> Iterator[bytes]:
        ray, data = self._ray, self._data
        if not ray.is_initialized():
            ray.init(log_to_driver=False, include_dashboard=False, logging_level="ERROR")
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        context.execution_options.preserve_order = True
        made = data.range(count, override_num_blocks=count).map_batches(
            Maker,
            fn_constructor_args=job,
            batch_size=1,
            concurrency=self._settings.readers or 1,
            num_cpus=_CORES,
        )
        for each in made.iter_batches(batch_size=1, prefetch_batches=_PREFETCHED):
            yield each["part"][0]


class Maker:
    """Actor on a worker of the cluster, which makes batches."""

    def __init__(
        self,
        settings: dict[str, Any],
        batch: int,
        rank: int,
        ranks: int,
        start: Position,
        turn: Turn,
    ) -> None:
        self._settings = Settings(**settings)
        self._of = batch, rank, ranks
        self._start, self._turn = start, turn
        self._source: Source | None = None

    def __call__(self, rows: dict[str, Any]) -> dict[str, Any]:
        """The batch of a number, pickled; or the error in its place."""
        number = int(rows["id"][0])
        try:
            found: Part | ArmillaryError = self._part(number)
        except ArmillaryError as error:
            found = error
        return {"part": np.array([pickle.dumps(found)], object)}

    def _part(self, number: int) -> Part:
        from . import open_data

        if self._source is None:
            facts = parse(load_model(self._settings.model))
            self._source, _ = open_data(self._settings, facts)
        batch, rank, ranks = self._of
        before = (self._turn[0] + number * self._turn[1]) * batch
        start = Position(self._start.epoch, self._start.sample + before)
        return next(iter(self._source.parts(batch, rank, ranks, start)))


def _modules() -> tuple[Any, Any]:
    try:
        return importlib.import_module("ray"), importlib.import_module("ray.data")
    except ImportError:
        said = "Ray Data is not installed"
        help_ = "pip install 'armillary-train[ray-data]', or --readers-on local"
        raise InputError([Problem("", "--readers-on ray", said, help_)]) from None
