"""DataFrames as the tables of sweeps."""

from __future__ import annotations

import polars as pl

from armillary.sweep.frame import Column, Frame, Kind


def framed(frame: pl.DataFrame) -> Frame:
    """A DataFrame as a table of a sweep."""
    return Frame({each.name: Column(_kind(each.dtype), each.to_list()) for each in frame})


def _kind(dtype: pl.DataType) -> Kind:
    if dtype == pl.Boolean:
        return "flag"
    if dtype.is_integer():
        return "whole"
    return "number" if dtype.is_numeric() else "text"
