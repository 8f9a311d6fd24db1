"""Rows of tables of layouts that a source tried: DLPerf's and Fugaku's.

A row is one run of each framework in it. Here: what a row says of the machine, the framework and
the layout, with what the scripts of its source say. Not here: the columns and their checks
(`tables.py`), Aleph Alpha's table (`measured/layouts.py`), and what we predict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from armillary.kernels.tables import Left
from armillary.model.files import Model

from . import tables
from .rules import gpt
from .run import Missing

VOCABULARY = 51200
"""Words of GPT-2, padded; Fugaku's table states none."""


@dataclass(frozen=True, slots=True)
class TableRun:
    """A layout of a table, run with one framework."""

    name: str
    source: str
    framework: str
    """Word of the source."""
    model: Model
    machine: str
    seq: int
    gpus: int
    nodes: int
    dp: int
    tp: int
    pp: int
    micro_batch: int
    global_batch: int
    recompute: str
    precision: str
    ran: bool
    step_s: float | None


def read(path: str) -> tuple[list[TableRun], list[Left]]:
    """The runs of a table, and why other rows are none. Raises `InputError` for a file that
    is not a table of layouts, and for rows with values that they can't have."""
    table, rows = tables.rows(path, tables.LAYOUTS)
    found: list[TableRun] = []
    left: list[Left] = []
    make = _dlperf if "oneflow_ms" in table.amounts else _fugaku
    for row in rows:
        try:
            if other := tables.unread(row, table):
                raise Missing(other)
            found += make(row)
        except Missing as missing:
            left.append(Left(str(missing)))
    return found, left


def _dlperf(row: Mapping[str, str]) -> Iterator[TableRun]:
    """Oneflow-Inc/DLPerf: both frameworks train with 16 bits and recompute every layer
    (`--fp16 --checkpoint-activations` in its scripts)."""
    counts = {key: int(row[key]) for key in ("gpus", "nodes", "dp", "tp", "pp", "micro_batch")}
    _check(counts, counts["gpus"])
    batch = int(row["global_batch"])
    if batch != counts["micro_batch"] * counts["dp"] * int(row["accumulation"]):
        raise Missing("the batch is not what its micro-batches add up to")
    sizes = (int(row[key]) for key in ("layers", "hidden", "heads", "seq_len", "vocab"))
    model = gpt(*sizes)
    rates = {"OneFlow": row["oneflow_seq_s"], "Megatron-LM": row["megatron_seq_s"]}
    for framework, rate in rates.items():
        if rate and float(rate) > 0:
            yield TableRun(
                name=f"{row.get('id', '')} {framework}".strip(),
                source="DLPerf",
                framework=framework,
                model=model,
                machine=row.get("gpu", ""),
                seq=int(row["seq_len"]),
                global_batch=batch,
                recompute="full",
                precision="fp16",
                ran=True,
                step_s=batch / float(rate),
                **counts,
            )


def _fugaku(row: Mapping[str, str]) -> Iterator[TableRun]:
    """Fugaku-LLM/DeepSpeedFugaku: one process a node, 32 bits."""
    for key in ("seq_len", "activation_checkpointing", "freq_GHz"):
        if not row.get(key):
            raise Missing(f"{key} is not stated")
    keys = ("dp", "tp", "pp", "micro_batch")
    counts = {key: int(row[key]) for key in keys}
    nodes, seq = int(row["nodes"]), int(row["seq_len"])
    _check(counts, nodes)
    seconds, status = row["sec_per_iter"], row.get("status", "")
    if status != "ok" and not status.startswith("oom"):
        raise Missing(f"status {status!r}")
    yield TableRun(
        name=row.get("id", ""),
        source="Fugaku",
        framework="Megatron-DeepSpeed",
        model=gpt(int(row["layers"]), int(row["hidden"]), int(row["heads"]), seq, VOCABULARY),
        machine=f"A64FX {row['freq_GHz']} GHz",
        seq=seq,
        gpus=nodes,
        nodes=nodes,
        global_batch=int(row["global_batch"]),
        recompute="full" if row["activation_checkpointing"] == "yes" else "none",
        precision="fp32",
        ran=status == "ok",
        step_s=float(seconds) if seconds else None,
        **counts,
    )


def _check(counts: Mapping[str, int], chips: int) -> None:
    if counts["dp"] * counts["tp"] * counts["pp"] != chips:
        raise Missing("the layout does not use all GPUs")
