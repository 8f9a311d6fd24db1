"""Every kind of table of measured kernels."""

from __future__ import annotations

from .attention import ATTENTION, MLA
from .rows import Table

TABLES: tuple[Table, ...] = (ATTENTION, MLA)
