"""Every kind of table of measured kernels."""

from __future__ import annotations

from .rows import Table

TABLES: tuple[Table, ...] = ()
