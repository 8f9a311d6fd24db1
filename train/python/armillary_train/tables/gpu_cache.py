"""Embedding tables in the memory of the host or on a disk, behind a cache in the memory of a GPU.

Here: rows on their way between the two, and which batch has its rows on the GPU. Not here: which
rows are in which slots, and the slower tier (`train/crates/embedding/src/cache`); lookups and
updates (`gpu.py`).

    slots   lookups of rows become those of slots                  host
    out     changed rows that leave go to the slower tier          GPU -> host
    into    missing rows come from there, or are initial values    host -> GPU
    passes  on slots, as on the rows of a table                    GPU

The directory of slots is the one of caches in memory, so hits, evictions and the rounding of rows
that leave are the same. Rows of the next batch move in another thread, and on a GPU in a stream of
their own, while the passes work on the current batch: they share no slot."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from armillary.errors import InputError, Problem

from .. import _train
from .batch import SparseBatch
from .caching import Caching
from .embedding import BatchParts, EmbeddingCollection, batch_parts
from .gpu import CHUNK, GpuEmbeddingCollection
from .optimizers import Optimizer
from .table import DType, Feature, Table

Slots = NDArray[np.int64]
_Pair = tuple[bytes, bytes]
_NONE = b"", b""


class CachedBatch(NamedTuple):
    """A batch that has its rows on the GPU."""

    now: int
    """Number of the batch."""
    samples: int
    lengths: NDArray[Any]
    indices: NDArray[Any]
    """Indices from the batch, unchanged."""
    slots: Slots
    """Slots of the lookups."""
    touched: list[Slots]
    """Slots in each cache, each once."""

    def is_of(self, samples: int, lengths: NDArray[Any], indices: NDArray[Any]) -> bool:
        """Whether it has these lookups."""
        same = samples == self.samples and np.array_equal(lengths, self.lengths)
        return same and np.array_equal(indices, self.indices)


@dataclass(slots=True)
class _Counts:
    """Counts of the caches so far."""

    lookups: int = 0
    misses: int = 0
    evictions: int = 0
    overflow_rows: int = 0
    rows_read: int = 0
    rows_written: int = 0
    batches: int = 0
    prefetched_batches: int = 0
    stall_seconds: float = 0.0

    def add(self, other: _Counts) -> None:
        """Adds those of another time."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


_Fetched = tuple[CachedBatch | None, _Counts]
"""A batch, unless its rows don't fit, and what the caches did for it."""


class _Stream:
    """The stream of a GPU in which rows move, next to the passes. Nothing of it on a processor."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._own: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self._own = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._earlier: torch.cuda.Event | None = None

    def mark(self) -> None:
        """Rows that move wait for what the passes have been given to do until now."""
        if self._own is not None:
            self._earlier = torch.cuda.current_stream(self._device).record_event()

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Rows move here."""
        if self._own is None:
            yield
            return
        with torch.cuda.stream(self._own):
            if self._earlier is not None:
                self._own.wait_event(self._earlier)
            yield

    def join(self) -> None:
        """Passes to come wait for the rows that moved."""
        if self._own is not None:
            torch.cuda.current_stream(self._device).wait_stream(self._own)


class CachedGpuEmbeddingCollection(EmbeddingCollection):
    """`EmbeddingCollection` whose caches are on a GPU; results are there. Batches may be there or
    on the host, where their slots are looked up.

    Rows have the bits of `EmbeddingCollection`, with the exception of `GpuEmbeddingCollection`.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        features: Sequence[Feature],
        optimizer: Optimizer,
        *,
        caching: Caching,
        seed: int = 0,
        threads: int = 1,
        refuse_not_finite: bool = True,
        device: torch.device | str = "cuda",
        chunk: int = CHUNK,
    ) -> None:
        """Tables behind caches of `caching.memory` bytes on the GPU. `threads` read and write rows.

        Raises:
            InputError: as `EmbeddingCollection` and `GpuEmbeddingCollection`; a table whose tier is
                `device`.
        """
        for table in tables:
            if table.tier == "device":
                said = "has no slower tier behind its cache"
                raise InputError([Problem("", f"table {table.name!r}", said, "host or disk")])
        super().__init__(
            tables,
            features,
            optimizer,
            seed=seed,
            threads=threads,
            caching=replace(caching, staged=True),
        )
        self.device = torch.device(device)
        self._staged = [self._engine.cache(place) for place in range(len(self.tables))]
        slots = [
            replace(
                table,
                rows=cache.size()[0],
                dtype=cast("DType", caching.dtype(table)),
                stochastic_rounding=table.stochastic_rounding
                and caching.dtype(table) == table.dtype,
                part=table.whole,
                tier="device",
            )
            for table, cache in zip(self.tables, self._staged, strict=True)
        ]
        gpu = GpuEmbeddingCollection(
            slots,
            features,
            optimizer,
            seed=seed,
            refuse_not_finite=refuse_not_finite,
            device=device,
            chunk=chunk,
            named=True,
        )
        # In a tuple, so that torch does not see a module whose state is this one's.
        self._gpus = (gpu,)
        self._looking = [
            [at for at, each in enumerate(self.features) if each.table == table.name]
            for table in self.tables
        ]
        self._expected = [
            (
                each.name,
                each.table,
                self.tables[self._index[each.table]].rows,
                each.pooling == "sum",
            )
            for each in self.features
        ]
        self._now = 0
        self._counts = _Counts()
        self._current: CachedBatch | None = None
        self._slots = self._put(np.zeros(0, np.int64))
        self._fetched: CachedBatch | None = None
        self._broken: InputError | None = None
        self._stream = _Stream(self.device)
        self._stream.mark()
        self._worker = ThreadPoolExecutor(1, "armillary-cache")
        self._pending: Future[_Fetched] | None = None

    # Rows on their way.

    def _parts_of(self, place: int) -> list[Tensor]:
        """Weights and state of a table's slots, in the order of the native engine."""
        (gpu,), name = self._gpus, self.tables[place].name
        return [gpu.weight(name), *gpu.state(name).values()]

    def _move(self, place: int, out: _Pair, into: _Pair, now: int) -> int:
        """Rows that leave go to the slower tier, as of batch `now`; then others come from there.
        Returns how many of these it had."""
        (leaving, out_rows), (coming, in_rows) = map(_numbers, out), map(_numbers, into)
        if not len(leaving) and not len(coming):
            return 0
        parts = self._parts_of(place)
        away = [_bytes(part[self._put(leaving)].cpu()) for part in parts]
        home = [np.empty((len(coming), _row_bytes(part)), np.uint8) for part in parts]
        found = self._staged[place].exchange(
            (out_rows, away), (in_rows, home), now, self._engine.threads
        )
        if not len(coming):
            return found
        slots = self._put(coming)
        for part, values in zip(parts, home, strict=True):
            rows = torch.from_numpy(values).view(part.dtype).view(len(coming), *part.shape[1:])
            part[slots] = rows.to(self.device)
        self._gpus[0].names(self.tables[place].name)[slots] = self._put(in_rows)
        return found

    def _send_home(self, place: int, *, guests: bool) -> None:
        """Changed rows go to the slower tier; with `guests`, only those behind the slots."""
        out = self._staged[place].changed(guests)
        try:
            self._move(place, out, _NONE, self._now)
        except InputError as error:
            self._broken = error
            raise
        self._counts.rows_written += len(out[0]) // 8

    def _put(self, numbers: Slots) -> Tensor:
        return torch.from_numpy(numbers).to(self.device)

    def _fit(self) -> None:
        """Gives the GPU's tables a row for each slot, also for those behind the cache."""
        self._gpus[0].resize([cache.size()[0] for cache in self._staged])

    # Batches.

    def _next(self) -> int:
        self._now += 1
        return self._now

    def _fetch(
        self,
        samples: int,
        arrays: Any,  # noqa: ANN401
        batch: tuple[int, int],
        *,
        guests: bool,
    ) -> _Fetched:
        """Brings the rows of a batch to the GPU, while slots of batches from the second number of
        `batch` on keep theirs. With `guests`, they fit in any case."""
        lengths, indices, _ = arrays
        slots = indices.astype(np.int64)
        ends = lengths.reshape(len(self.features), samples).sum(1, dtype=np.int64).cumsum()
        parts = np.split(slots, ends[:-1])
        counts, touched, moves, fits = _Counts(), list[Slots](), list[tuple[_Pair, _Pair]](), True
        for cache, looking in zip(self._staged, self._looking, strict=True):
            lookups = [parts[feature] for feature in looking]
            found, fits, out, into, evicted, more = cache.stage(lookups, batch, guests)
            counts.lookups += sum(map(len, lookups))
            counts.misses += len(into[0]) // 8
            counts.rows_written += len(out[0]) // 8
            counts.evictions += evicted
            counts.overflow_rows += more
            touched.append(_numbers(found))
            moves.append((out, into))
            if not fits:
                break
        if guests:
            self._fit()
        for place, (out, into) in enumerate(moves):
            counts.rows_read += self._move(place, out, into, batch[0])
        held = CachedBatch(batch[0], samples, lengths, indices, slots, touched) if fits else None
        return held, counts

    def _fetch_ahead(
        self,
        samples: int,
        arrays: Any,  # noqa: ANN401
        batch: tuple[int, int],
    ) -> _Fetched:
        """As `_fetch`, next to the passes."""
        with self._stream.moving():
            return self._fetch(samples, arrays, batch, guests=False)

    def _hold(self, samples: int, arrays: Any) -> CachedBatch:  # noqa: ANN401
        """The batch, with its rows on the GPU. Raises `InputError` as `forward`."""
        _train.check_batch(samples, arrays, self._expected)
        given = samples, *arrays[:2]
        if self._broken is None and self._current is not None and self._current.is_of(*given):
            return self._current
        begin = time.perf_counter()
        self.settle()
        self._counts.batches += 1
        if self._fetched is not None and self._fetched.is_of(*given):
            held, self._fetched = self._fetched, None
            self._counts.prefetched_batches += 1
        else:
            self._current = self._fetched = None
            now = self._next()
            self._dismiss()
            try:
                found, counts = self._fetch(samples, arrays, (now, now), guests=True)
            except InputError as error:
                self._broken = error
                raise
            assert found is not None
            held = found
            self._counts.add(counts)
        self._current = held
        self._slots = self._put(held.slots)
        self._stream.mark()
        self._counts.stall_seconds += time.perf_counter() - begin
        return held

    def _dismiss(self) -> None:
        """Sends the rows behind the slots home."""
        if not self._has_guests():
            return
        for place, cache in enumerate(self._staged):
            self._send_home(place, guests=True)
            cache.forget(guests=True)
        self._fit()

    def _has_guests(self) -> bool:
        rows = [table.rows for table in self._gpus[0].tables]
        return rows != self._gpus[0].first_rows

    def prefetch(self, sparse: SparseBatch) -> None:
        """Begins to bring the rows of the next batch to the GPU, while it works on the current one.
        It changes no result, unless caches round. Raises `InputError` as `forward`."""
        arrays = self._arrays(batch_parts(sparse))
        _train.check_batch(sparse.samples, arrays, self._expected)
        self.settle()
        self._fetched = None
        if self._has_guests():
            return
        now = self._next()
        pinned = now if self._current is None else self._current.now
        self._pending = self._worker.submit(
            self._fetch_ahead, sparse.samples, arrays, (now, pinned)
        )

    def _arrays(self, parts: BatchParts) -> Any:  # noqa: ANN401
        lengths, indices, weights = parts
        host = None if weights is None else weights.cpu()
        return super()._arrays((lengths.cpu(), indices.cpu(), host))

    def _on_gpu(self, arrays: Any) -> tuple[Tensor, Tensor, Tensor | None]:  # noqa: ANN401
        """A batch as the GPU's tables read it."""
        lengths, _, weights = arrays
        given = None if weights is None else torch.from_numpy(weights).to(self.device)
        return torch.from_numpy(lengths).to(self.device), self._slots, given

    def _run_forward(
        self,
        samples: int,
        arrays: Any,  # noqa: ANN401
        into: Tensor | None = None,
    ) -> Tensor:
        self._hold(samples, arrays)
        return self._gpus[0]._run_forward(samples, self._on_gpu(arrays), into)

    def _run_backward(
        self,
        samples: int,
        arrays: Any,  # noqa: ANN401
        grad: Tensor,
        weights: Tensor | None,
        *,
        update: bool = True,
    ) -> None:
        held, (gpu,) = self._hold(samples, arrays), self._gpus
        if not update:
            gpu._run_backward(samples, self._on_gpu(arrays), grad, weights, update=False)
            return
        if self.watch is not None:
            self.watch(arrays)
        gpu._engine.step = self._engine.step
        gpu._run_backward(samples, self._on_gpu(arrays), grad, weights)
        self._engine.step = gpu._engine.step
        for cache, slots in zip(self._staged, held.touched, strict=True):
            cache.mark(slots)

    def row_sums(
        self,
        samples: int,
        arrays: Any,  # noqa: ANN401
        grad: Tensor,
        round_of_table: tuple[int, int],
    ) -> tuple[Any, Tensor]:
        """As `EmbeddingCollection.row_sums`."""
        self._hold(samples, arrays)
        gpu = self._gpus[0]
        gpu._engine.step = self._engine.step
        return gpu.row_sums(samples, self._on_gpu(arrays), grad, round_of_table)

    def set_row_sums(self, table: int, columns: int, rows: Any, total: Tensor) -> None:  # noqa: ANN401
        """As `EmbeddingCollection.set_row_sums`."""
        self._gpus[0].set_row_sums(table, columns, rows, total)

    # The slower tier.

    def settle(self) -> None:
        """Waits until no rows move. Raises `InputError` if a disk failed, now or before."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            try:
                self._fetched, counts = pending.result()
            except InputError as error:
                self._broken = error
            else:
                self._counts.add(counts)
            self._stream.join()
        if self._broken is not None:
            raise self._broken

    def _flush(self, place: int) -> None:
        """Writes all changed rows of a table to the slower tier."""
        self.settle()
        self._next()
        self._send_home(place, guests=False)
        self._staged[place].clean()

    def checkpoint(self) -> None:
        """As `EmbeddingCollection.checkpoint`."""
        for place in range(len(self.tables)):
            self._flush(place)
        super().checkpoint()

    def read_rows(self, table: str, rows: range) -> dict[str, Tensor]:
        """Copies of rows, on the host, as they are in the slower tier."""
        self._flush(self._index[table])
        return super().read_rows(table, rows)

    def write_rows(self, table: str, first: int, parts: Mapping[str, Tensor]) -> None:
        """As `EmbeddingCollection.write_rows`."""
        place = self._index[table]
        self._flush(place)
        self._staged[place].forget(guests=False)
        self._current = self._fetched = None
        self._fit()
        super().write_rows(table, first, {name: part.cpu() for name, part in parts.items()})

    def set_learning_rate(self, rate: float) -> None:
        """As `EmbeddingCollection.set_learning_rate`."""
        super().set_learning_rate(rate)
        self._gpus[0].set_learning_rate(rate)

    def cache_report(self) -> dict[str, int | float]:
        """Counts of the caches so far, bytes and seconds."""
        mine = {name: getattr(self._counts, name) for name in _Counts.__dataclass_fields__}
        return {**super().cache_report(), **mine}


def _numbers(words: bytes) -> Slots:
    """Numbers from bytes of int64."""
    return np.frombuffer(words, np.int64).copy()


def _bytes(rows: Tensor) -> NDArray[np.uint8]:
    found: NDArray[np.uint8] = rows.contiguous().view(torch.uint8).numpy()
    return found


def _row_bytes(part: Tensor) -> int:
    """Bytes of a row of a part."""
    return part.element_size() * (part.shape[1] if part.dim() == 2 else 1)
