"""Tables of measured kernels: one kernel in each row, as ai-dynamo/aiconfigurator publishes them.

Here: reading a table (`rows.py`), and the shape that a row states, in one file for each kind of
table. Not here: the file of a platform's measured kernels (`measured_file.py`)."""

from __future__ import annotations

from .allreduce import ALLREDUCE
from .attention import ATTENTION, MLA
from .exchange import COMBINE_LL, COMBINE_NORMAL, DISPATCH_LL, DISPATCH_NORMAL, TRTLLM_EXCHANGE
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

TABLES: tuple[Table, ...] = (
    ALLREDUCE,
    ATTENTION,
    COMBINE_LL,
    COMBINE_NORMAL,
    DISPATCH_LL,
    DISPATCH_NORMAL,
    EXPERTS,
    GEMM,
    MLA,
    TRTLLM_EXCHANGE,
)

__all__ = [
    "ALLREDUCE",
    "ATTENTION",
    "COMBINE_LL",
    "COMBINE_NORMAL",
    "DISPATCH_LL",
    "DISPATCH_NORMAL",
    "EXPERTS",
    "GEMM",
    "MLA",
    "SYSTEMS",
    "TABLES",
    "TRTLLM_EXCHANGE",
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
