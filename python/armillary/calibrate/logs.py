"""Output of nccl-tests, rccl-tests and MPI benchmarks, as users have it: any version's columns,
several tables in a file, broken lines.

A line counts when `size / time` is its `algbw`. The in-place time is taken where there is one.
Which collective it is stands in the log (`# Collective test starting: all_reduce_perf`), in the
file's name, follows from `busbw / algbw`, or is that of the command above it. Here: what to read a
file as. What is printed is read in `printed`, JSON and CSV in `records`, other benchmarks in
`mpi_benchmarks`, `ucc_perftest` and `param_comms`. Source: NVIDIA/nccl-tests, doc/PERFORMANCE.md,
and what its versions print."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .. import documents, nccl
from ..errors import InputError, Problem
from ..units import counted
from . import (
    mpi_benchmarks,
    param_comms,
    printed,
    records,
    ucc_perftest,
    unfinished_tables,
)
from .unfinished_tables import MeasuredTable

__all__ = ["Log", "MeasuredTable", "read"]

_ALLOWED = (
    "output of nccl-tests or rccl-tests, their JSON or CSV, dumps of NCCL's inspector, or output "
    "of OSU Micro-Benchmarks, Intel MPI Benchmarks, ucc_perftest or PARAM's comms.py"
)


@dataclass(frozen=True, slots=True)
class Log:
    """Content of a file; `skipped` lines look like a table's but don't agree with themselves, or
    are of a test that is not a collective, or of one rank."""

    file: str
    tables: tuple[MeasuredTable, ...]
    skipped: int


def read(path: str, collective: str | None = None) -> Log:
    """The tables of a file. Raises `InputError` when it has none, or one whose collective or ranks
    are unknown."""
    text = documents.read_bytes(path, _ALLOWED).decode("utf-8-sig", "replace")
    name = (
        nccl.operation(collective)
        if collective is not None
        else unfinished_tables.named(Path(path).name)
    )
    opened, skipped = (
        mpi_benchmarks.read(text)
        or ucc_perftest.read(text, path)
        or param_comms.read(text)
        or records.read(text, name)
        or printed.read(text, name)
    )
    if several := [each for each in opened if not each.alone]:
        skipped += sum(len(each.lines) for each in opened if each.alone)
        opened = several
    problems: list[Problem] = []
    tables = [table for each in opened if (table := each.table(path, problems))]
    if not opened:
        problems.append(
            Problem(path, "", f"holds no table ({counted(skipped, 'line')} skipped)", _ALLOWED)
        )
    if problems:
        raise InputError(problems)
    return Log(path, tuple(tables), skipped)
