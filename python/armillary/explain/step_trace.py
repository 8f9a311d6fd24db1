"""Recorded steps by operation: a row for each operation of each rank and step.

The format is that of the published analysis of stragglers in production traces (Lin et al.,
"Understanding Stragglers in Large Model Training Using What-if Analysis", OSDI 2025;
ByteDance-Seed/StragglerAnalysis). Here: reading and checking. Not here: what waits for what
(`straggler_order.py`), and what stragglers cost (`stragglers.py`)."""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .. import documents, polars_extra
from ..errors import InputError, Problem
from .parquet_columns import NoColumnsError, columns

COMPUTE = ("forward-compute", "backward-compute")
"""Passes of a micro-batch through a part of the model."""
MESSAGES = ("forward-send", "forward-recv", "backward-send", "backward-recv")
"""Messages between stages. A send and a receive are one transfer."""
SHARDED = ("params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce")
"""Collectives of the ranks of one stage."""
ENDS = ("embedding-grads-all-reduce",)
"""Collectives of the first and the last stage of a pipeline."""
ALL = ("optimizer-clip-main-grad",)
"""Collectives of all ranks."""
ALONE = ("layernorm-grads-all-reduce", "gc", "optimizer")
"""Operations that wait for no other rank of a trace."""
KINDS = (*COMPUTE, *MESSAGES, *SHARDED, *ENDS, *ALL, *ALONE)
"""Kinds of operations."""
_WHOLE = ("dp_rank", "stage", "step", "seq_id", "mc")
_COLUMNS = (*_WHOLE, "optype", "start_ts", "duration")
_ALLOWED = f"Parquet with the columns {', '.join(_COLUMNS)}, a row for each operation"
_MOST = 5_000_000
"""Operations of a trace."""
_MOST_BYTES = 2**30
_LONGEST_S = 1e6


class Operation(NamedTuple):
    """An operation of a rank. Times are seconds from the start of its step."""

    dp: int
    """Data-parallel rank."""
    stage: int
    kind: str
    start: float
    end: float
    number: int
    """Number among the operations of its kind, rank and step."""
    chunk: int
    """Part of the model on its stage; -1 of operations that have none."""


@dataclass(frozen=True)
class StepTrace:
    """Steps of one job."""

    file: str
    dp: int
    """Data-parallel ranks."""
    stages: int
    chunks: int
    """Parts of the model on each stage."""
    steps: Mapping[int, Sequence[Operation]]
    """Operations of each step, by data-parallel rank, stage and start."""

    @property
    def operations(self) -> int:
        """All operations."""
        return sum(map(len, self.steps.values()))


def read(path: str | os.PathLike[str]) -> StepTrace:
    """The steps in a file. Raises `InputError` for a file that is not such a trace, and without
    polars."""
    polars_extra.require()
    file = os.fspath(path)
    return of_columns(_columns(Path(path), file), file)


def of_columns(known: Mapping[str, Sequence[Any]], file: str) -> StepTrace:
    """The steps that columns hold, by the names of the format. Raises `InputError` naming the rows,
    ranks and steps that are wrong."""
    problems = list(_wrong(known, file))
    if problems:
        raise InputError(problems[:20])
    steps: dict[int, list[Operation]] = defaultdict(list)
    rows = zip(*(known[name] for name in (*_WHOLE, "optype", "start_ts", "duration")), strict=True)
    for dp, stage, step, number, chunk, kind, start, duration in rows:
        steps[step].append(Operation(dp, stage, kind, start, start + duration, number, chunk))
    for step in steps.values():
        step.sort(
            key=lambda each: (each.dp, each.stage, each.start, each.end, each.kind, each.number)
        )
    found = StepTrace(
        file,
        max(known["dp_rank"]) + 1,
        max(known["stage"]) + 1,
        max(0, *known["mc"]) + 1,
        dict(sorted(steps.items())),
    )
    problems = list(_incomplete(found))
    if problems:
        raise InputError(problems[:20])
    return found


def _columns(path: Path, file: str) -> dict[str, list[Any]]:
    """The columns of a Parquet file. Raises `InputError`."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InputError([Problem(file, "", "is too large", f"at most {_MOST_BYTES:,} bytes")])
        with documents.open_plain(path):
            pass
        numbers = {**dict.fromkeys(_WHOLE, True), "start_ts": False, "duration": False}
        return columns(str(path.resolve()), numbers, "optype", _MOST)
    except OSError as error:
        said = error.strerror or "can't be read"
        raise InputError([Problem(file, "", said, _ALLOWED)]) from None
    except NoColumnsError as error:
        said = f"is not a trace of steps: {error}"
        raise InputError([Problem(file, "", said, _ALLOWED)]) from None


def _wrong(found: Mapping[str, Sequence[Any]], file: str) -> Iterator[Problem]:
    """Values that no operation has."""
    if not found["step"]:
        yield Problem(file, "", "has no operations", _ALLOWED)
    for name in _COLUMNS:
        if None in found[name]:
            yield Problem(file, f"row {found[name].index(None) + 1}: {name}", "is empty", _ALLOWED)
            return
    limits = {"dp_rank": (0, 2**20), "stage": (0, 2**12), "seq_id": (0, 2**24), "mc": (-1, 2**10)}
    for name, (least, most) in limits.items():
        for row, value in enumerate(found[name], 1):
            if not least <= value < most:
                allowed = f"{least} to {most - 1}"
                yield Problem(file, f"row {row}: {name}", f"is {value}", allowed)
                break
    for row, kind in enumerate(found["optype"], 1):
        if kind not in KINDS:
            said = f"unknown kind of operation: {kind[:60]!r}"
            yield Problem(file, f"row {row}: optype", said, ", ".join(KINDS))
            break
    shortest = {"start_ts": -_LONGEST_S, "duration": 0.0}
    for name, earliest in shortest.items():
        for row, value in enumerate(found[name], 1):
            if not (math.isfinite(value) and earliest <= value <= _LONGEST_S):
                allowed = f"{earliest:g} to {_LONGEST_S:g} seconds"
                yield Problem(file, f"row {row}: {name}", f"is {value}", allowed)
                break


def _incomplete(trace: StepTrace) -> Iterator[Problem]:
    """Ranks that are missing from a step, operations that are there twice, and passes, messages and
    collectives whose other side is missing."""
    ranks = trace.dp * trace.stages
    for step, operations in trace.steps.items():
        place = f"step {step}"
        there = {(each.dp, each.stage) for each in operations}
        if len(there) < ranks:
            said = f"has operations of {len(there)} of {ranks} ranks"
            yield Problem(trace.file, place, said, "every stage of every data-parallel rank")
            continue
        counts = Counter((each.dp, each.stage, each.kind) for each in operations)
        names = Counter((each[:3], each.number, each.chunk) for each in operations)
        doubled = next((name for name, count in names.items() if count > 1), None)
        if doubled is not None:
            (dp, stage, kind), number, _ = doubled
            said = f"{kind} {number} of data-parallel rank {dp}, stage {stage}, is there twice"
            yield Problem(trace.file, place, said, "a row for each operation")
            continue
        yield from _unequal(trace, place, counts)


def _unequal(
    trace: StepTrace, place: str, counts: Mapping[tuple[int, int, str], int]
) -> Iterator[Problem]:
    """Numbers of operations of a step that do not fit together."""
    last = trace.stages - 1
    for dp in range(trace.dp):
        for stage in range(trace.stages):
            for kind in (*COMPUTE, *SHARDED, *ENDS, *ALL):
                if kind in COMPUTE:
                    wanted = counts.get((0, 0, COMPUTE[0]), 0)
                elif kind in SHARDED:
                    wanted = counts.get((0, stage, kind), 0)
                elif kind in ENDS:
                    wanted = counts.get((dp, 0, kind), 0) if stage in (0, last) else 0
                else:
                    wanted = counts.get((0, 0, kind), 0)
                count = counts.get((dp, stage, kind), 0)
                if count != wanted:
                    said = f"data-parallel rank {dp}, stage {stage}, has {count} of {kind}"
                    yield Problem(trace.file, place, said, str(wanted))
                    return
