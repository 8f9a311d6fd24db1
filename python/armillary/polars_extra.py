"""The extra `tables`: polars. Python gets tables as its DataFrames, and `armillary traffic --flows`
writes Parquet with it; no other verb needs it."""

from __future__ import annotations

import importlib.util

from .errors import InputError, Problem


def require() -> None:
    """Raises `InputError` with the way to install polars where it is not installed."""
    if importlib.util.find_spec("polars") is None:
        said = "a table is a DataFrame of polars, which is not installed"
        raise InputError([Problem("", "polars", said, "pip install 'armillary[tables]'")])
