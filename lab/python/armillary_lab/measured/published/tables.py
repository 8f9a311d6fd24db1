"""Published tables of served requests and of layouts that were tried: CSV with known columns.

A table is known by its columns. Every row is checked and counted. Here: reading, and the reasons
why rows are not predicted. Not here: single kernels (`measured/kernels`), Aleph Alpha's layouts
(`measured/layouts.py`), and what we predict (`predict/layouts.py`)."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO

from armillary import documents
from armillary.errors import InputError, Problem
from armillary.kernels.tables import Left

_ALLOWED = "CSV with the columns of a known table"
_LARGEST = 1e15
_MOST = 20
"""Problems of a file that are listed."""


@dataclass(frozen=True, slots=True)
class Table:
    """A kind of table."""

    kind: str
    """`serving` or `plans`."""
    counts: tuple[str, ...]
    """Columns of whole numbers from 1; a table is known by these and by `amounts`."""
    amounts: tuple[str, ...]
    """Columns of positive numbers, or empty."""
    words: tuple[str, ...]
    """Other columns that are known."""
    reason: str
    """Why its rows are not predicted."""

    @property
    def columns(self) -> frozenset[str]:
        """Every column that is known."""
        return frozenset((*self.counts, *self.amounts, *self.words))


_NO_SERVING = "requests to a server: serving has no prediction"
_POOL = ("tp", "pp", "adp", "moe_tp", "ep")

TABLES: tuple[Table, ...] = (
    # ai-dynamo/aiconfigurator, silicon_sample.csv
    Table(
        "serving",
        ("isl", "osl", "conc"),
        ("ttft_ms", "tpot_ms"),
        (
            *("id", "src", "measured", "system", "model", "backend", "backend_version", "image"),
            *("precision", "gemm_q", "moe_q", "mode", "batch_size", "cfg", *_POOL),
            *(f"{pool}_{key}" for pool in "pd" for key in ("workers", *_POOL, "bs")),
        ),
        _NO_SERVING,
    ),
    # InferenceMAX, as scraped by leoshan/inference-max-automated-pipeline
    Table(
        "serving",
        ("conc", "tp"),
        ("tput_per_gpu", "median_interactivity_tok_s_user", "median_e2e_s"),
        (
            *("scraped", "model", "hw", "precision", "isl_osl", "tput_per_mw"),
            *(f"usd_per_mtok_{who}" for who in ("hyperscaler", "neocloud", "rental")),
        ),
        _NO_SERVING,
    ),
    # casys-kaist/LLMServingSim, bench/examples
    Table(
        "serving",
        ("tp", "max_num_seqs", "max_num_batched_tokens", "input_tokens", "output_tokens"),
        ("ttft_s", "e2e_s"),
        ("run", "gpu", "model", "i", "arrival_s", "queue_s"),
        _NO_SERVING,
    ),
    # argonne-lcf/LLM-Inference-Bench
    Table(
        "serving",
        ("n", "in_out_len", "batch"),
        ("latency_s", "throughput_tok_s"),
        ("hardware", "framework", "model", "parallelism"),
        _NO_SERVING,
    ),
    # Oneflow-Inc/DLPerf
    Table(
        "plans",
        (
            *("nodes", "gpus", "dp", "tp", "pp", "micro_batch", "accumulation", "global_batch"),
            *("hidden", "heads", "layers", "seq_len", "vocab"),
        ),
        ("oneflow_seq_s", "oneflow_ms", "oneflow_mem_MiB", "megatron_seq_s"),
        ("id", "case", "gpu"),
        "the number format and what is recomputed are not in the table",
    ),
    # Fugaku-LLM/DeepSpeedFugaku
    Table(
        "plans",
        ("layers", "hidden", "heads", "nodes", "dp", "tp", "pp", "micro_batch", "global_batch"),
        ("mem_MiB", "sec_per_iter", "tflops_per_node"),
        ("id", "model", "seq_len", "activation_checkpointing", "freq_GHz", "status", "notes"),
        "A64FX: no platform and no framework for training on CPUs",
    ),
)


def read(path: str) -> tuple[str, list[Left]]:
    """The kind of a table, and why each of its rows is not predicted. Raises `InputError` if the
    table is not known, or if a row has a field that it can't have."""
    lines = csv.DictReader(StringIO(documents.read_text(path, _ALLOWED)), strict=True)
    try:
        rows = list(lines)
    except csv.Error as error:
        raise InputError([Problem(path, "", str(error), _ALLOWED)]) from None
    columns = frozenset(lines.fieldnames or ())
    table = _of(columns)
    if table is None:
        raise InputError([Problem(path, "line 1", "is no table that we know", _ALLOWED)])
    problems = [each for at, row in enumerate(rows) for each in _wrong(path, at + 2, row, table)]
    if not rows:
        problems.append(Problem(path, "", "has no rows", "a row for each measurement"))
    if problems:
        raise InputError(problems[:_MOST])
    unread = sorted(columns - table.columns)
    return table.kind, [Left(f"{unread[0]} is not read" if unread else table.reason)] * len(rows)


def holds(path: str) -> bool:
    """Whether the first line of a file has the columns of such a table."""
    head = documents.read_text(path, _ALLOWED).partition("\n")[0]
    return _of(frozenset(head.rstrip("\r").split(","))) is not None


def _of(columns: frozenset[str]) -> Table | None:
    named = (each for each in TABLES if columns.issuperset((*each.counts, *each.amounts)))
    return next(named, None)


def _wrong(path: str, line: int, row: Mapping[str, str | None], table: Table) -> Iterator[Problem]:
    """Problems of a row."""
    place = f"line {line}"
    if None in row or None in row.values():
        said = "has another number of columns than line 1"
        yield Problem(path, place, said, "a value for each column")
        return
    for key in table.counts:
        if not _is_count(str(row[key])):
            yield Problem(path, place, f"{key} is {row[key]!r}", "a whole number from 1")
    for key in table.amounts:
        if row[key] and not _is_amount(str(row[key])):
            yield Problem(path, place, f"{key} is {row[key]!r}", "a positive number, or nothing")


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < len(text) <= 15 and int(text) > 0


def _is_amount(text: str) -> bool:
    try:
        value = float(text)
    except ValueError:
        return False
    return math.isfinite(value) and 0 <= value <= _LARGEST
