"""Checkpoints of a run, written while it goes on.

Here: what one rank writes, and when all of it is a checkpoint. Not here: copies of rows
(`snapshot.py`), files (`tensor_files.py`, `folder.py`), reading (`restore.py`).

One checkpoint, on every rank:

    meet      the last one must be written; all ranks agree on a whole one or changed rows
    mark      rows to be written, without a copy; dense parameters are copied     training waits
    write     rows, in another thread, with checksums                             training goes on
    share     a small file says what this rank wrote, once that is on the disk
    commit    rank 0 waits for all shares, writes the manifest, and removes old checkpoints

Files are the only way that ranks hear of shares: the threads of two ranks never use the process
group, which belongs to training."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from armillary import documents
from armillary.errors import InputError, Problem

from ..ranks.world import World
from ..settings import CheckpointPrecision
from ..tensor_files import Record, Spec, Writer
from .folder import Folder, write_durably
from .manifest import MANIFEST, Entry, Manifest, Reached, Share, Stored, share_of, share_text
from .precision import encode, parts_of
from .shards import Shard

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .snapshot import Parts, Snapshot

_POLL = 0.02
"""Seconds between two looks for the shares of other ranks."""

Extra = dict[str, tuple[str, "NDArray[Any]"]]
"""Tensors that are not rows of tables: type and elements by name."""


@dataclass(slots=True)
class Report:
    """Cost of the checkpoints of a run on this rank."""

    count: int = 0
    whole: int = 0
    """Those with all rows."""
    bytes: int = 0
    """Bytes of tensors that this rank wrote."""
    stall_seconds: float = 0.0
    """How long training waited."""
    write_seconds: float = 0.0
    """How long the other thread took."""
    resumed: int | None = None
    """The step of the checkpoint that the run went on from."""


@dataclass(slots=True)
class _Job:
    """A checkpoint that is being written."""

    step: int
    base: int | None
    progress: Reached
    writer: Writer
    entries: list[tuple[Shard, Snapshot, dict[str, Entry]]] = field(default_factory=list)
    all_entries: list[Entry] = field(default_factory=list)
    extra: Extra = field(default_factory=dict)


class Saver:
    """Writes checkpoints of one rank's shards into a folder."""

    def __init__(
        self,
        folder: Folder,
        world: World,
        shards: list[Shard],
        tables: list[Stored],
        *,
        keep: int = 2,
        precision: CheckpointPrecision | None = None,
        run: str = "",
        settings: dict[str, Any] | None = None,
        failed: Callable[[InputError], None] | None = None,
    ) -> None:
        """`failed` is called once, from any thread, when this rank can't write."""
        self.folder, self.world, self.report = folder, world, Report()
        self._shards = [shard for shard in shards if shard.mine]
        self._watched = shards
        self._tables, self._settings = tables, settings
        self._keep, self._precision, self._run = keep, precision, run or secrets.token_hex(4)
        self._failed = failed
        self._error: InputError | None = None
        self._thread: threading.Thread | None = None
        self._written = threading.Event()
        self._stop = threading.Event()
        self.base: int | None = None
        """The last checkpoint, which the next one may build on."""
        self.sizes: tuple[int, int] = (0, 0)
        """Bytes of the last checkpoint with all rows, and of those that build on it."""

    def save(self, step: int, extra: Extra, progress: Reached) -> None:
        """Begins a checkpoint of all ranks after `step`. `extra` are this rank's other tensors;
        `progress` says where the run is.

        Raises:
            InputError: the last checkpoint failed, on all ranks.
        """
        begin = time.monotonic()
        self.settle()
        base = self._base()
        try:
            job = self._begin(step, base, extra, progress)
        except OSError as error:
            self._fail(error)
        else:
            self._written.clear()
            self._thread = threading.Thread(target=self._work, args=(job,), daemon=True)
            self._thread.start()
        self.base = step
        self.report.count += 1
        self.report.whole += base is None
        self.report.stall_seconds += time.monotonic() - begin

    def settle(self) -> None:
        """Waits until the last checkpoint is there. Raises `InputError` on all ranks if it failed
        on one of them."""
        if self._thread is not None:
            self._written.wait()
        self._meet()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._meet()

    def raise_if_alone(self) -> None:
        """Raises what failed, where no other rank has to hear of it."""
        if self._error is not None and self.world.size == 1:
            raise self._error

    def close(self) -> None:
        """Ends the other thread, whatever it does."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.folder.unlock()

    def _meet(self) -> None:
        mine = [] if self._error is None else self._error.problems
        found = self.world.gather(mine, list[Problem])
        problems = [problem for each in found for problem in each]
        if problems:
            raise InputError(problems)

    def _base(self) -> int | None:
        """Step of the checkpoint that the next one builds on; `None` if it is to have all rows:
        there is none, or those that build on the last whole one would together be larger than
        that."""
        changed = sum(shard.watch.touched * (shard.record + 8) for shard in self._shards)
        total = sum(shard.table.rows * shard.record for shard in self._shards)
        found = self.world.gather((changed, total), tuple[int, int])
        changed, total = (sum(each) for each in zip(*found, strict=True))
        if self.base is None or self.sizes[1] + changed > min(total, self.sizes[0] or total):
            self.sizes = total, 0
            return None
        self.sizes = self.sizes[0], self.sizes[1] + changed
        return self.base

    def _begin(self, step: int, base: int | None, extra: Extra, progress: Reached) -> _Job:
        """Marks the rows to be written. Rows that are not in memory are written at once."""
        place = self.folder.of(step)
        place.mkdir(parents=True, exist_ok=True)
        wanted = {id(shard): shard.watch.take() for shard in self._watched}
        specs, entries = [], []
        name = f"{self._name}.safetensors"
        for shard in self._shards:
            rows = None if base is None else wanted[id(shard)]
            found, tensors = self._entries(shard, rows, name)
            entries.append((shard, rows, found))
            specs += tensors
        specs += [Spec(key, kind, values.shape) for key, (kind, values) in extra.items()]
        writer = Writer(place / name, specs, {"format": "pt"})
        job = _Job(step, base, progress, writer, extra=extra)
        job.all_entries = [entry for _, _, found in entries for entry in found.values()]
        try:
            for shard, rows, found in entries:
                if not found:
                    continue
                if shard.in_memory:
                    job.entries.append((shard, shard.snapshot(rows), found))
                    continue
                for piece in shard.pieces(rows):
                    self._put(writer, shard, found, *piece)
        except OSError:
            writer.abandon()
            raise
        return job

    def _entries(
        self, shard: Shard, rows: NDArray[np.bool_] | None, file: str
    ) -> tuple[dict[str, Entry], list[Spec]]:
        """The entries of a shard by part, and their tensors; none if no row changed."""
        changed = None if rows is None else int(np.count_nonzero(rows))
        if changed == 0:
            return {}, []
        count = shard.table.rows if changed is None else changed
        specs, entries = [], {}
        for part in ("weight", *shard.whole.state):
            width = shard.whole.width(part)
            stored: dict[str, tuple[str, tuple[int, ...]]]
            stored = {part: ("F32", () if width is None else (shard.table.dim,))}
            if part == "weight":
                stored = parts_of(shard.whole.dtype, shard.table.dim, self._precision)
            entry = Entry(
                shard.whole.name,
                part,
                (shard.rows.start, shard.rows.stop),
                (shard.columns.start, shard.columns.stop),
                file,
                changed,
                stored[part][0],
            )
            entries[part] = entry
            specs += [
                Spec(entry.named(name), kind, (count, *shape))
                for name, (kind, shape) in stored.items()
            ]
        if changed is not None:
            specs.append(Spec(entries["weight"].named("rows"), "I64", (count,)))
        return entries, specs

    def _put(
        self,
        writer: Writer,
        shard: Shard,
        entries: dict[str, Entry],
        rows: NDArray[np.int64],
        parts: Parts,
    ) -> None:
        """Writes a piece of a shard."""
        weight = entries["weight"]
        for name, values in encode(parts["weight"], shard.whole.dtype, self._precision).items():
            writer.write(weight.named(name), values)
        for name in shard.whole.state:
            writer.write(entries[name].key, parts[name])
        if weight.changed is not None:
            writer.write(weight.named("rows"), rows + shard.rows.start)

    def _work(self, job: _Job) -> None:
        """Writes a checkpoint; in another thread."""
        begin = time.thread_time()
        try:
            try:
                record = self._rows(job)
            finally:
                for shard, _, _ in job.entries:
                    shard.watch.snapshot = None
            if record is None:
                return
            self.report.bytes += record.bytes
            path = self.folder.of(job.step) / f"{self._name}.json"
            write_durably(path, share_text(Share(self._run, record, tuple(job.all_entries))))
            self.report.write_seconds += time.thread_time() - begin
            self._written.set()
            if self.world.rank == 0:
                self._commit(job)
        except OSError as error:
            self._fail(error)
        except Exception as error:  # Whatever it is, the run must hear of it.
            self._fail(OSError(None, f"{type(error).__name__}: {error}"))
        finally:
            self._written.set()

    def _rows(self, job: _Job) -> Record | None:
        """Writes all tensors. `None`: the run ends."""
        writer = job.writer
        try:
            for key, (_, values) in job.extra.items():
                writer.write(key, values)
            for shard, snapshot, entries in job.entries:
                for piece in snapshot.pieces():
                    if self._stop.is_set():
                        writer.abandon()
                        return None
                    self._put(writer, shard, entries, *piece)
                shard.watch.snapshot = None
            return writer.end()
        except OSError:
            writer.abandon()
            raise

    def _commit(self, job: _Job) -> None:
        """Makes what all ranks wrote a checkpoint; on rank 0."""
        place, size = self.folder.of(job.step), self.world.size
        shares: list[Share] = []
        while len(shares) < size:
            path = place / f"rank-{len(shares)}-of-{size}-{self._run}.json"
            if path.exists():
                shares.append(share_of(documents.content(path).decode()))
            elif self._stop.wait(_POLL):
                return
        manifest = Manifest(
            step=job.step,
            base=job.base,
            run=self._run,
            ranks=size,
            precision=self._precision,
            settings=self._settings,
            progress=job.progress,
            tables=tuple(self._tables),
            files=tuple(share.record for share in shares),
            entries=tuple(entry for share in shares for entry in share.entries),
        )
        self.folder.commit(manifest)
        for each in place.glob("rank-*.json"):
            each.unlink()
        self.folder.prune(self._keep)

    def _fail(self, error: OSError) -> None:
        path = os.fspath(error.filename or self.folder.path)
        said = f"the checkpoint can't be written: {error.strerror or error}"
        help_ = "room on the disk; " + (
            "the last checkpoint is intact: go on from it with --resume"
            if self.folder.steps()
            else "there is no checkpoint before it: begin anew"
        )
        self._error = InputError([Problem(path, "", said, help_)])
        for each in self.folder.path.glob(f"step-*/{self._name}.*"):
            if not (each.parent / MANIFEST).exists():
                each.unlink(missing_ok=True)
        if self._failed is not None:
            self._failed(self._error)

    @property
    def _name(self) -> str:
        return f"rank-{self.world.rank}-of-{self.world.size}-{self._run}"
