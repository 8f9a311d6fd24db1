"""Embedding tables in the memory of a GPU: `EmbeddingCollection` with kernels in Triton.

Here: memory, checks, sorting, launches. Not here: the kernels and their order of sums
(`gpu_kernels.py`), what torch sees (`embedding.py`).

A backward pass, without atomics and without a gradient of a table's size:

    keys      each lookup's table and row as one number
    sort      stable, so that lookups of one row keep the order of the batch
    add up    gradients of a row's lookups, in their order
    change    the row and its state, once, by one program"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from armillary.errors import InputError, Problem

from .. import _train
from .embedding import TYPES, BatchParts, EmbeddingCollection
from .gpu_lookups import Flag, Lookups, Sorted, versions
from .gpu_numbers import constants, mixed, named, signed
from .optimizers import Lamb, Optimizer
from .table import Feature, Table

kernels: Any
try:
    from . import gpu_kernels
except ModuleNotFoundError as error:
    if error.name != "triton":
        raise
    kernels = None
else:
    kernels = gpu_kernels

CHUNK = 1024
"""Gradients of a row that one program adds up in the order of the batch."""
_BLOCK = 1024
"""Most columns of a row that one program looks up."""
_LOOKUPS = 1024
"""Elements of rows that one program looks up at a time."""
_TILE = 512
"""Elements of rows that one program changes at a time."""
_PROGRAMS = 8192
"""Most programs that share out the rows with many lookups."""
_CHECKED = 1024
"""Lookups that one program checks at a time."""
_SORTED = 128
"""Sorted lookups of a block, which one program prepares."""
_FILL = 4096
"""Initial weights that one program draws, or gradients that it checks."""
_KINDS = {"float32": 0, "float16": 1, "bfloat16": 2, "int8": 3}
_LONG = _SORTED // int(kernels.SHORT) if kernels is not None else 0
"""Most rows with many lookups that begin in a block."""
_EXACT: dict[str, Any] = {"enable_fp_fusion": False}
"""Options of a launch: multiplies and adds are rounded each."""


class Group(NamedTuple):
    """Tables for which a kernel is compiled and launched together."""

    dtype: str
    width: int
    """Columns, rounded up to a power of two."""
    by_chance: bool
    """Whether updates are rounded by chance."""


class GpuEmbeddingCollection(EmbeddingCollection):
    """`EmbeddingCollection` on a GPU. Batches may be there or on the host; results are there.

    Tables start and change with the bits of `EmbeddingCollection`, except for rows that a batch
    looks up more than `chunk` times. Two runs have the same bits always.
    """

    def __init__(
        self,
        tables: Sequence[Table],
        features: Sequence[Feature],
        optimizer: Optimizer,
        *,
        seed: int = 0,
        refuse_not_finite: bool = True,
        device: torch.device | str = "cuda",
        chunk: int = CHUNK,
        named: bool = False,
    ) -> None:
        """As `EmbeddingCollection`. With Triton's interpreter (`TRITON_INTERPRET=1`), `device` is
        `cpu`. `named`: the tables are the slots of caches, whose rows are in `names`.

        Raises:
            InputError: as `EmbeddingCollection`; no Triton, no such GPU, or no room on it.
        """
        device = torch.device(device)
        _require(device)
        self._room = device
        self._number: int | None = None
        if device.type == "cuda":
            self._number = torch.cuda.current_device() if device.index is None else device.index
        super().__init__(
            tables, features, optimizer, seed=seed, refuse_not_finite=refuse_not_finite
        )
        self.device = device
        self._chunk = chunk
        self._seed = seed
        places = {table.name: place for place, table in enumerate(self.tables)}
        self._places = [places[each.table] for each in self.features]
        self._align = math.gcd(16, *(table.dim for table in self.tables))
        self._groups = list(dict.fromkeys(map(_group, self.tables)))
        self.first_rows = [table.rows for table in self.tables]
        """Rows of the tables before any `resize`."""
        self._last: tuple[Any, Lookups] | None = None
        """The batch that was checked last, and what is known of it."""
        self._wrong, self._not_finite = Flag(device), Flag(device)
        self._side = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._sums: Tensor | None = None
        """Sums of the rows of the next backward pass, float32 [lookups, 3], by sorted lookup."""
        self._names = {
            each.name: torch.zeros(each.rows, dtype=torch.int64, device=device)
            for each in (self.tables if named else ())
        }
        self._lay_out()
        columns = accumulate([self.tables[place].dim for place in self._places], initial=0)
        self._feature_facts = self._put(
            [
                [place, 0 if self._unpooled else column, feature.pooling == "mean"]
                for place, column, feature in zip(
                    self._places, columns, self.features, strict=False
                )
            ]
        )
        self._fill()

    # Memory.

    def _lay_out(self) -> None:
        """Notes where the tables are and how many rows they have."""
        self._first_keys = [0, *accumulate(table.rows for table in self.tables)]
        self._facts = self._put([self._facts_of(place) for place in range(len(self.tables))])

    def resize(self, rows: Sequence[int]) -> None:
        """Gives the tables other numbers of rows. New rows have any values.

        Raises:
            InputError: no room on the GPU.
        """
        if list(rows) == [table.rows for table in self.tables]:
            return
        for table, count in zip(self.tables, rows, strict=True):
            name = table.name
            try:
                self._weights[name] = _resized(self._weights[name], count)
                for part, values in self._state[name].items():
                    self._state[name][part] = _resized(values, count)
                if name in self._names:
                    self._names[name] = _resized(self._names[name], count)
            except RuntimeError:
                said = f"no memory for {count:,} rows on {self._room}"
                raise InputError([Problem("", f'table "{name}"', said)]) from None
        self.tables = tuple(
            replace(table, rows=count) for table, count in zip(self.tables, rows, strict=True)
        )
        self._lay_out()

    def names(self, table: str) -> Tensor:
        """The row of each slot, int64 [slots], to be filled in."""
        return self._names[table]

    def _settings(self, table: Table) -> dict[str, Any]:
        # One row of each table is on the host, for the checks of settings.
        return {**super()._settings(table), "rows": min(table.rows, 1)}

    def _view(self, place: int, table: Table) -> None:
        wide = table.dim + 8 if table.dtype == "int8" else table.dim
        dtype = torch.uint8 if table.dtype == "int8" else TYPES[table.dtype]
        names = () if table.dtype == "int8" else self.optimizer.state
        shape = (table.rows,) if self.optimizer.by_row else (table.rows, table.dim)
        try:
            weights = torch.empty(table.rows, wide, dtype=dtype, device=self._room)
            state = {name: torch.zeros(shape, device=self._room) for name in names}
        except RuntimeError:
            size = table.rows * wide * dtype.itemsize / 2**30
            said = f"no memory for {size:.1f} GiB on {self._room}"
            raise InputError([Problem("", f'table "{table.name}"', said)]) from None
        self._weights[table.name], self._state[table.name] = weights, state

    def _put(self, numbers: Sequence[Any]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64, device=self.device)

    def _facts_of(self, place: int) -> list[int]:
        table = self.tables[place]
        state = [part.data_ptr() for part in self._state[table.name].values()]
        return [
            self._weights[table.name].data_ptr(),
            table.dim,
            self._groups.index(_group(table)),
            *[*state, 0, 0][:2],
            self._first_keys[place],
            table.whole.first_row,
            table.whole.first_column,
            0,
            self._names[table.name].data_ptr() if self._names else 0,
            0,
            table.rows,
        ]

    def _fill(self) -> None:
        """Initial weights, as in `train/crates/embedding/src/fill.rs`."""
        keys = self._put([signed(named(self._seed, table.whole.table)) for table in self.tables])
        for place, table in enumerate(self.tables):
            bound = np.float32(1 / math.sqrt(table.whole.rows))
            grid = (-(-table.rows * table.dim // _FILL),)
            self._launch(
                kernels.initial_weights, grid,
                self._facts, keys, place, table.rows, float(bound),
                BLOCK=_FILL, KIND=_KINDS[table.dtype],
            )  # fmt: skip
            if table.dtype == "int8":
                scale = bound / np.float32(127)
                ends = torch.tensor([scale, scale * np.float32(-128)]).view(torch.uint8)
                self._weights[table.name][:, table.dim :] = ends.to(self.device)

    def _launch(self, kernel: Any, grid: tuple[int, ...], *given: Any, **options: Any) -> None:  # noqa: ANN401
        """Runs a kernel on the collection's GPU."""
        elsewhere = self._number is not None and self._number != torch.cuda.current_device()
        with torch.cuda.device(self._number) if elsewhere else nullcontext():
            kernel[grid](*given, **options, **_EXACT)

    # A batch.

    def _arrays(self, parts: BatchParts) -> Any:  # noqa: ANN401 - tensors instead of arrays
        return tuple(
            None if part is None else part.to(self.device, non_blocking=True) for part in parts
        )

    def _check(self, samples: int, parts: BatchParts) -> Lookups:
        """A batch, ready to be looked up. The GPU knows whether it is right, and the host learns it
        by `_require_right`."""
        known = self._known(samples, parts)
        if known is not None:
            return known
        lengths, indices, weights = parts
        lengths = lengths.reshape(-1)
        bags, count = len(lengths), len(indices)
        summed = all(each.pooling == "sum" for each in self.features)
        fits = bags == samples * len(self.features) and (bags > 0 or count == 0)
        if not fits or not (weights is None or (summed and len(weights) == count)):
            self._refuse(samples, parts)
        ends = torch.cumsum(lengths, 0, dtype=torch.int64)
        narrow = self._first_keys[-1] < 2**31
        keys_type = torch.int32 if narrow else torch.int64
        keys = torch.empty(count, dtype=keys_type, device=self.device)
        bags_of = torch.empty(count, dtype=torch.int32, device=self.device)
        if bags:
            lookups = min(1 << (count // bags).bit_length(), 32)
            at_once = _CHECKED // lookups
            self._launch(
                kernels.check_bags, (-(-bags // at_once),),
                self._facts, self._feature_facts, lengths, ends, indices, weights, keys, bags_of,
                self._wrong.on_gpu, samples, bags, count,
                BAGS=at_once, LOOKUPS=lookups, WEIGHTED=weights is not None,
            )  # fmt: skip
        self._wrong.send()
        found = Lookups(lengths, ends, indices, weights, keys, bags_of)
        self._last = (samples, parts, versions(parts), self._first_keys), found
        return found

    def _require_right(self, samples: int, parts: BatchParts) -> None:
        """Raises `InputError` as the native engine does."""
        if self._wrong.found():
            self._last = None
            self._refuse(samples, parts)

    def _known(self, samples: int, parts: BatchParts) -> Lookups | None:
        """The batch, if it is the last one that was checked and has not changed."""
        if self._last is None:
            return None
        (before, tensors, counted, first_keys), found = self._last
        same = before == samples and all(map(operator.is_, tensors, parts))
        same = same and counted is not None and counted == versions(parts)
        same = same and first_keys is self._first_keys
        return found if same else None

    def _refuse(self, samples: int, parts: BatchParts) -> None:
        lengths, indices, weights = (None if part is None else part.cpu() for part in parts)
        assert lengths is not None
        assert indices is not None
        arrays = (lengths.numpy(), indices.numpy(), None if weights is None else weights.numpy())
        expected = [
            (each.name, each.table, self.tables[place].rows, each.pooling == "sum")
            for each, place in zip(self.features, self._places, strict=True)
        ]
        _train.check_batch(samples, arrays, expected)
        raise AssertionError("a batch that is right was refused")

    def _run_forward(
        self,
        samples: int,
        arrays: Any,  # noqa: ANN401
        into: Tensor | None = None,
    ) -> Tensor:
        found = self._check(samples, arrays)
        bags, count = len(found.lengths), len(found.indices)
        rows = count if self._unpooled else samples
        out = torch.empty(rows, self._width, device=self.device) if into is None else into
        for number, group in enumerate(self._groups if bags else ()):
            block = min(group.width, _BLOCK)
            at_once = max(_LOOKUPS // block, 1)
            unroll = min(1 << (count // bags).bit_length(), 4, at_once)
            lanes = at_once // unroll
            self._launch(
                kernels.look_up, (-(-bags // lanes), group.width // block),
                self._facts, self._feature_facts, found.lengths, found.ends, found.indices,
                found.weights, out, samples, bags, count, self._width, number,
                BAGS=lanes, UNROLL=unroll, BLOCK=block, KIND=_KINDS[group.dtype],
                POOLED=not self._unpooled, WEIGHTED=found.weights is not None, ALIGN=self._align,
                num_warps=_warps(lanes * block * unroll // 2),
            )  # fmt: skip
        # The GPU is at work meanwhile.
        self._require_right(samples, arrays)
        return out

    def _run_backward(
        self,
        samples: int,
        arrays: Any,  # noqa: ANN401
        grad: Tensor,
        weights: Tensor | None,
        *,
        update: bool = True,
    ) -> None:
        grad = grad.detach().to(self.device, torch.float32).contiguous()
        found = self._check(samples, arrays)
        self._require_right(samples, arrays)
        if not update:
            if weights is not None and len(found.indices):
                self._weight_gradients(samples, found, grad, weights)
            return
        self._require_trainable()
        self._find_not_finite(grad)
        if self.watch is not None:
            self.watch(arrays)
        self._engine.step += 1
        sums, self._sums = self._sums, None
        if len(found.indices):
            if weights is not None:
                self._weight_gradients(samples, found, grad, weights)
            use = int(kernels.NO_SUMS if sums is None else kernels.GIVEN_SUMS)
            self._change(samples, found, grad, use, sums)
            if sums is not None:
                self._facts[:, int(kernels.WHOLE)] = 0
        if self._not_finite.found():
            self._engine.step -= 1
            self._refuse_gradient(grad)

    # Tables that have some columns of whole rows.

    def row_sums(
        self,
        samples: int,
        arrays: Any,  # noqa: ANN401
        grad: Tensor,
        round_of_table: tuple[int, int],
    ) -> tuple[Any, Tensor]:
        """As `EmbeddingCollection.row_sums`."""
        place, number = round_of_table
        clips = self.optimizer.clip_norm < np.inf
        clip = clips and number == 0
        grad = grad.detach().to(self.device, torch.float32).contiguous()
        found = self._check(samples, arrays)
        self._require_right(samples, arrays)
        given, count = self._by_row(samples, found), len(found.keys)
        if self._sums is None:
            self._sums = torch.zeros(count, int(kernels.SUMS), device=self.device)
        # Those over whole rows, which an earlier round may have given, stay as they are.
        taken = self._sums.clone()
        if count:
            use = int(kernels.TAKE_CLIP if clip else kernels.TAKE_RULE)
            self._change(samples, found, grad, use, taken)
        mine = given.tables == place
        mine[1:] &= given.keys[1:] != given.keys[:-1]
        rows = mine.nonzero().view(-1)
        if self._names:
            names = self._names[self.tables[place].name]
            slots = given.keys[rows].to(torch.int64) - self._first_keys[place]
            rows = rows[names[slots].argsort()]
        columns = [0] if clip else [1, 2] if isinstance(self.optimizer, Lamb) else [1]
        return (rows, columns), taken[rows][:, columns].reshape(-1)

    def set_row_sums(self, table: int, columns: int, rows: Any, total: Tensor) -> None:  # noqa: ANN401
        """As `EmbeddingCollection.set_row_sums`."""
        places, parts = rows
        assert self._sums is not None
        for at, part in enumerate(parts):
            self._sums[places, part] = total.view(len(places), -1)[:, at]
        self._facts[table, int(kernels.WHOLE)] = columns

    def _require_trainable(self) -> None:
        for table in self.tables:
            if table.dtype == "int8":
                said, allowed = "rows of 8 bits are read only", "float32, float16 or bfloat16"
                place = f'table "{table.name}"'
                raise InputError([Problem("", place, said, f"{allowed} for training")])

    def _find_not_finite(self, grad: Tensor) -> None:
        """Whether a gradient has numbers that are refused. The GPU knows it before it changes
        rows, and the host learns it later."""
        if self._engine.refuse_not_finite and grad.numel():
            grid = (-(-grad.numel() // _FILL),)
            flag = self._not_finite.on_gpu
            self._launch(kernels.find_not_finite, grid, grad, grad.numel(), flag, BLOCK=_FILL)
        self._not_finite.send()

    def _refuse_gradient(self, grad: Tensor) -> None:
        row, column = (~grad.isfinite()).nonzero()[0].tolist()
        place = f"lookup {row}"
        if not self._unpooled:
            firsts = self._feature_facts[:, 1].tolist()
            feature = max(at for at, first in enumerate(firsts) if first <= column)
            place = f'feature "{self.features[feature].name}": sample {row}'
        said = f"{grad[row, column].item()} in the gradient"
        raise InputError([Problem("", f"gradient: {place}", said, "finite numbers")])

    def _factors(self, found: Lookups) -> int:
        """Factors of the gradients of lookups."""
        if found.weights is not None:
            return int(kernels.WEIGHTS)
        means = any(each.pooling == "mean" for each in self.features)
        return int(kernels.MEANS if means else kernels.NO_FACTORS)

    def _by_row(self, samples: int, found: Lookups) -> Sorted:
        """The lookups of a batch by row."""
        if found.by_row is not None:
            return found.by_row
        count = len(found.keys)
        keys, order = torch.sort(found.keys, stable=True)
        sources = torch.empty(count, dtype=torch.int64, device=self.device)
        tables = torch.empty(count, dtype=torch.int32, device=self.device)
        blocks = -(-count // _SORTED)
        whole = torch.empty(blocks, _SORTED + _LONG + 2, dtype=torch.int32, device=self.device)
        parts = torch.split(whole.view(-1), [blocks * each for each in (_SORTED, _LONG, 1, 1)])
        rows, long_rows = (parts[0], parts[2]), (parts[1], parts[3])
        kind = self._factors(found)
        factors = (
            None if kind == int(kernels.NO_FACTORS) else torch.empty(count, device=self.device)
        )
        self._launch(
            kernels.prepare, (blocks,),
            self._feature_facts, found.lengths, found.weights, keys, order, found.bags, sources,
            tables, factors, *rows, *long_rows, samples, count, self._width,
            BLOCK=_SORTED, FACTORS=kind, POOLED=not self._unpooled,
        )  # fmt: skip
        found.by_row = Sorted(keys, tables, sources, factors, rows, long_rows)
        return found.by_row

    def _change(
        self,
        samples: int,
        found: Lookups,
        grad: Tensor,
        use: int,
        sums: Tensor | None,
    ) -> None:
        """Changes the rows of a batch with `sums`, or takes these (`kernels.TAKE_RULE`)."""
        keys, tables, sources, factors, rows, long_rows = self._by_row(samples, found)
        facts, chunk, count = self._facts, self._chunk, len(keys)
        if any(group.by_chance for group in self._groups):
            facts = facts.clone()
            facts[:, int(kernels.CHANCE)] = self._put([signed(key) for key in self._chances()])
        wrong = self._not_finite.on_gpu
        given = facts, keys, tables, sources, factors, grad, wrong
        slots, blocks = -(-count // chunk) if count > chunk else 0, len(rows[1])
        width = max(group.width for group in self._groups)
        partial = torch.empty(slots, width, device=self.device)
        taking = use in (int(kernels.TAKE_CLIP), int(kernels.TAKE_RULE))
        step = self._engine.step + taking
        numbers, choices = constants(self.optimizer, self._engine.learning_rate, step)
        for number, group in enumerate(self._groups):
            columns = max(group.width, 64)
            shape = {
                "VECTORS": columns // 64,
                "FACTORS": self._factors(found),
                "ALIGN": self._align,
            }
            choices |= {
                "USE": use,
                "KIND": _KINDS[group.dtype],
                "BY_CHANCE": group.by_chance,
                "NAMED": bool(self._names),
            }
            every = (*given, wrong if sums is None else sums, count, number, *numbers)
            with self._aside():
                if slots:
                    self._launch(
                        kernels.add_up_chunks, (slots,),
                        *given, partial, count, width, number,
                        CHUNK=chunk, num_warps=_warps(columns), **shape,
                    )  # fmt: skip
                if count > int(kernels.SHORT):
                    self._launch(
                        kernels.change_long_rows, (min(blocks, _PROGRAMS),),
                        *every, *long_rows, partial, width,
                        BLOCK=_SORTED, CHUNK=chunk, num_warps=_warps(columns), **shape, **choices,
                    )  # fmt: skip
            lanes = max(_TILE // columns, 1)
            self._launch(
                kernels.change_rows, (blocks,),
                *every, *rows,
                BLOCK=_SORTED, LANES=lanes, num_warps=_warps(lanes * columns), **shape, **choices,
            )  # fmt: skip
        self._join()

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """Launches next to what follows, until `_join`: few programs that take long."""
        if self._side is None:
            yield
            return
        self._side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._side):
            yield

    def _join(self) -> None:
        """Makes the GPU wait for what is `_aside`."""
        if self._side is not None:
            torch.cuda.current_stream(self.device).wait_stream(self._side)

    def _weight_gradients(self, samples: int, found: Lookups, grad: Tensor, out: Tensor) -> None:
        features = self._feature_facts[found.bags // samples]
        tables, columns = features[:, 0].contiguous(), features[:, 1]
        if self._unpooled:
            sources = torch.arange(len(found.indices), device=self.device) * self._width
        else:
            sources = found.bags % samples * self._width + columns
        for number, group in enumerate(self._groups):
            self._launch(
                kernels.weight_gradients, (len(out),),
                self._facts, tables, found.indices, sources, grad, out, number,
                VECTORS=group.width // 16, KIND=_KINDS[group.dtype], ALIGN=self._align,
                num_warps=_warps(group.width),
            )  # fmt: skip

    def _chances(self) -> list[int]:
        """The keys of rounding by chance in this step, as in `backward.rs` of the engine."""
        step = mixed(self._engine.step)
        return [mixed(named(self._seed, table.whole.table) ^ step) for table in self.tables]


def available() -> bool:
    """Whether Triton is installed, with a GPU or with its interpreter."""
    return kernels is not None and (kernels.INTERPRETED or torch.cuda.is_available())


def _require(device: torch.device) -> None:
    """Raises `InputError` unless kernels run on a device."""
    if kernels is None:
        said = "tables on a GPU need Triton, which is not installed"
        raise InputError([Problem("", "--device", said, "cpu; Triton comes with PyTorch on Linux")])
    if device.type == "cpu" and not kernels.INTERPRETED:
        said = "the kernels of tables on a GPU do not run on a processor"
        raise InputError([Problem("", "--device", said, "cuda, or cpu with TRITON_INTERPRET=1")])
    if device.type != "cpu" and not torch.cuda.is_available():
        said = f"{device}: this machine has no GPU that PyTorch can use"
        raise InputError([Problem("", "--device", said, "cpu")])


def _resized(part: Tensor, rows: int) -> Tensor:
    """The first rows, in memory of their own, and new ones behind them."""
    found = part.new_empty(rows, *part.shape[1:])
    kept = min(rows, len(part))
    found[:kept] = part[:kept]
    return found


def _group(table: Table) -> Group:
    width = max(16, 1 << (table.dim - 1).bit_length())
    by_chance = table.stochastic_rounding and table.dtype in ("float16", "bfloat16")
    return Group(table.dtype, width, by_chance)


def _warps(columns: int) -> int:
    return min(max(columns // 256, 1), 16)
