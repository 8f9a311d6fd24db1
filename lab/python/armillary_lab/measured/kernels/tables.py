"""Every kind of table of measured kernels."""

from __future__ import annotations

from . import gemm
from .allreduce import ALLREDUCE
from .attention import ATTENTION, MLA
from .experts import EXPERTS
from .rows import Table

TABLES: tuple[Table, ...] = (ALLREDUCE, ATTENTION, EXPERTS, gemm.TABLE, MLA)
