"""Layouts of training steps, and whether each ran or ran out of memory.

Here: the format of Aleph Alpha's table (Hagemann et al. 2023, arXiv:2311.05610), a row a layout.
Not here: the table, whose licence (CC BY-NC-SA 4.0) does not allow that we ship it, and what we
predict (`predict/layouts.py`).

The models are those of Touvron et al. 2023 (arXiv:2302.13971, table 2) with a vocabulary of
128,000. A step has 2,048 sequences of 2,048 tokens, or 512 of 8,192."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO

from armillary import documents
from armillary.errors import InputError, Problem
from armillary.model.files import Model

from .training import KINDS

SOURCE = "Aleph-Alpha/NeurIPS-WANT-submission-efficient-parallelization-layouts, arXiv:2311.05610"
VOCABULARY = 128_000
TOKENS = 2048 * 2048
"""Tokens of a step."""
SHAPES: Mapping[str, tuple[int, int, int, int]] = {
    "7b": (32, 4096, 32, 11008),
    "13b": (40, 5120, 40, 13824),
    "30b": (60, 6656, 52, 17920),
    "65b": (80, 8192, 64, 22016),
}
"""Layers, hidden width, heads and inner width of the models of Llama."""
RECOMPUTED = {"disabled": "none", "every_layer": "full"}
ANSWERS = ("ok", "oom")
"""Words of the table for a layout that ran, and for one that ran out of memory."""
_COUNTS = ("seq_len", "gpus", "micro_batch", "tp", "pp")
_MOST = 20
"""Problems of a file that are listed."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout that was tried on A100-80GB."""

    name: str
    group: str
    """A model on a number of GPUs with a length of its sequences."""
    model: Model
    seq: int
    gpus: int
    micro_batch: int
    tp: int
    pp: int
    sp: bool
    recompute: str
    """Our word for it; the source's where we have none."""
    kernel: str
    """Words of the source for the kernels of attention and of norms."""
    ran: bool
    step_s: float | None
    """Seconds of a step, where it is known."""

    @property
    def fused_norm(self) -> bool:
        """Whether a norm is one kernel."""
        return "RMS" in self.kernel

    @property
    def flash(self) -> bool:
        """Whether attention writes no matrix of scores."""
        return "flash" in self.kernel


def holds(path: str) -> bool:
    """Whether the first line of a file has the columns of such a table."""
    head = documents.read_text(path, "a CSV file").partition("\n")[0]
    return {"activation_checkpointing", "kernel", "status", *_COUNTS}.issubset(
        head.rstrip("\r").split(",")
    )


def read(path: str | os.PathLike[str]) -> list[Layout]:
    """The layouts of a file that ran or ran out of memory. Raises `InputError` naming rows that
    can't be used."""
    name = os.fspath(path)
    reader = csv.DictReader(StringIO(documents.read_text(name, "a CSV file")))
    try:
        rows = list(reader)
    except csv.Error as error:
        raise InputError([Problem(name, "", str(error), "CSV with a header")]) from None
    found: list[Layout] = []
    problems: list[Problem] = []
    for number, row in enumerate(rows, 2):
        if row.get("status") not in (*ANSWERS, "error"):
            said = f"status {row.get('status')!r}"
            problems.append(Problem(name, f"line {number}", said, "ok, oom, error"))
        elif row["status"] != "error":
            try:
                found.append(_layout(row))
            except (KeyError, ValueError) as error:
                said = f"can't be read: {error}"
                allowed = "the columns of Aleph Alpha's table"
                problems.append(Problem(name, f"line {number}", said, allowed))
    if not rows:
        problems.append(Problem(name, "", "has no rows", "a row for each layout"))
    if problems:
        raise InputError(problems[:_MOST])
    return found


def _layout(row: Mapping[str, str]) -> Layout:
    counts = {key: int(row[key]) for key in _COUNTS}
    if min(counts.values()) < 1 or max(counts.values()) > TOKENS:
        raise ValueError(f"a count of {min(counts.values())} to {max(counts.values())}")
    time = row.get("step_time_s")
    return Layout(
        row.get("id", ""),
        row["group"],
        _model(row["model"]),
        counts["seq_len"],
        counts["gpus"],
        counts["micro_batch"],
        counts["tp"],
        counts["pp"],
        row["sequence_parallel"] == "True",
        RECOMPUTED.get(row["activation_checkpointing"], row["activation_checkpointing"]),
        row["kernel"],
        row["status"] == "ok",
        float(time) if time else None,
    )


def _model(name: str) -> Model:
    layers, hidden, heads, ffn = SHAPES[name.lower().removeprefix("llama-").removeprefix("llama")]
    sizes = {"layers": layers, "hidden": hidden, "heads": heads, "ffn": ffn}
    more = {"vocabulary": VOCABULARY, "sequence": 2048, "tied": False}
    return Model(name, "transformer", {**sizes, **more, **KINDS["llama"]}, SOURCE)
