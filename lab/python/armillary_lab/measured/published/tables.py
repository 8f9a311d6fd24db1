"""Published tables of served requests and of layouts that were tried: CSV with known columns.

A table is known by its columns. Every row is checked and counted. Here: reading, and the reasons
why rows are not predicted. Not here: what rows of layouts say (`tried.py`), single kernels
(`measured/kernels`), and Aleph Alpha's layouts (`measured/layouts.py`)."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
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

    counts: tuple[str, ...]
    """Columns of whole numbers from 1; a table is known by these and by `amounts`."""
    amounts: tuple[str, ...]
    """Columns of positive numbers, or empty."""
    words: tuple[str, ...]
    """Other columns that are known."""
    reason: str
    """Why its rows are not predicted; empty for layouts, which are."""
    optional_counts: tuple[str, ...] = ()
    """Columns of whole numbers from 1, or empty."""

    @property
    def columns(self) -> frozenset[str]:
        """Every column that is known."""
        return frozenset((*self.counts, *self.amounts, *self.words, *self.optional_counts))


_NO_SERVING = "batches of a fixed size: serving has no prediction"
_POOL = ("tp", "pp", "adp", "moe_tp", "ep")

SERVING: tuple[Table, ...] = (
    # ai-dynamo/aiconfigurator, silicon_sample.csv
    Table(
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
        ("tp", "max_num_seqs", "max_num_batched_tokens", "input_tokens", "output_tokens"),
        ("ttft_s", "e2e_s"),
        ("run", "gpu", "model", "i", "arrival_s", "queue_s"),
        _NO_SERVING,
    ),
    # argonne-lcf/LLM-Inference-Bench
    Table(
        ("n", "in_out_len", "batch"),
        ("latency_s", "throughput_tok_s"),
        ("hardware", "framework", "model", "parallelism"),
        _NO_SERVING,
    ),
)

LAYOUTS: tuple[Table, ...] = (
    # Oneflow-Inc/DLPerf
    Table(
        (
            *("nodes", "gpus", "dp", "tp", "pp", "micro_batch", "accumulation", "global_batch"),
            *("hidden", "heads", "layers", "seq_len", "vocab"),
        ),
        ("oneflow_seq_s", "oneflow_ms", "oneflow_mem_MiB", "megatron_seq_s"),
        ("id", "case", "gpu"),
        "",
    ),
    # Fugaku-LLM/DeepSpeedFugaku
    Table(
        ("layers", "hidden", "heads", "nodes", "dp", "tp", "pp", "micro_batch", "global_batch"),
        ("mem_MiB", "sec_per_iter", "tflops_per_node"),
        ("id", "model", "activation_checkpointing", "freq_GHz", "status", "notes"),
        "",
        ("seq_len",),
    ),
)


def read(path: str) -> list[Left]:
    """Why each row of a table of served requests is not predicted. Raises `InputError` as `rows`
    does."""
    table, found = rows(path, SERVING)
    return [Left(unread(found[0], table) or table.reason)] * len(found)


def rows(path: str, known: Sequence[Table]) -> tuple[Table, list[dict[str, str]]]:
    """The table that a file is, and its rows. Raises `InputError` if the table is not known, or if
    a row has a value that it can't have."""
    lines = csv.DictReader(StringIO(documents.read_text(path, _ALLOWED)), strict=True)
    try:
        found = list(lines)
    except csv.Error as error:
        raise InputError([Problem(path, "", str(error), _ALLOWED)]) from None
    table = _of(frozenset(lines.fieldnames or ()), known)
    if table is None:
        raise InputError([Problem(path, "line 1", "is no table that we know", _ALLOWED)])
    problems = [each for at, row in enumerate(found) for each in _wrong(path, at + 2, row, table)]
    if not found:
        problems.append(Problem(path, "", "has no rows", "a row for each measurement"))
    if problems:
        raise InputError(problems[:_MOST])
    return table, found


def unread(row: Mapping[str, str], table: Table) -> str:
    """Says which column of a table is not read; empty if all are."""
    others = sorted(row.keys() - table.columns)
    return f"{others[0]} is not read" if others else ""


def holds(path: str, known: Sequence[Table]) -> bool:
    """Whether the first line of a file has the columns of such a table."""
    head = documents.read_text(path, _ALLOWED).partition("\n")[0]
    return _of(frozenset(head.rstrip("\r").split(",")), known) is not None


def _of(columns: frozenset[str], known: Sequence[Table]) -> Table | None:
    named = (each for each in known if columns.issuperset((*each.counts, *each.amounts)))
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
    for key in table.optional_counts:
        if row.get(key) and not _is_count(str(row[key])):
            yield Problem(
                path, place, f"{key} is {row[key]!r}", "a whole number from 1, or nothing"
            )
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
