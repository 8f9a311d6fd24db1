"""Tables of measured kernels: one kernel in each row, as ai-dynamo/aiconfigurator publishes them.

Here: reading a table (`rows.py`), and the shape that a row states, in one file for each kind of
table. Not here: the file of a platform's measured kernels (`measured_file.py`)."""

from __future__ import annotations

from .allreduce import ALLREDUCE
from .attention import ATTENTION, MLA
from .experts import EXPERTS
from .gemm import GEMM
from .rows import (
    SYSTEMS,
    Left,
    Measured,
    Row,
    System,
    Table,
    count,
    engine,
    known,
    parse,
    plain,
    read,
)

TABLES: tuple[Table, ...] = (ALLREDUCE, ATTENTION, EXPERTS, GEMM, MLA)

__all__ = [
    "ALLREDUCE",
    "ATTENTION",
    "EXPERTS",
    "GEMM",
    "MLA",
    "SYSTEMS",
    "TABLES",
    "Left",
    "Measured",
    "Row",
    "System",
    "Table",
    "count",
    "engine",
    "known",
    "parse",
    "plain",
    "read",
]
