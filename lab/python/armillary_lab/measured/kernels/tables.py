"""Every kind of table of measured kernels."""

from __future__ import annotations

from . import gemm
from .attention import ATTENTION, MLA
from .rows import Table

TABLES: tuple[Table, ...] = (ATTENTION, gemm.TABLE, MLA)
