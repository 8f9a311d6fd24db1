"""The flows of every point as a table: CSV, or Parquet."""

from __future__ import annotations

import csv
import io

from .. import files, polars_extra
from .curves import Traffic

_HEAD = (
    *("pattern", "backend", "sizes", "congestion_control", "load", "source", "destination"),
    *("bytes", "start_ns", "time_ns", "arrived", "alone_ns", "slowdown"),
)


def rows(found: Traffic) -> list[tuple[object, ...]]:
    """A row for each flow after the warm-up, in the order in which flows start."""
    return [
        (
            *(curve.pattern, curve.backend, curve.sizes, curve.congestion_control, point.load),
            *sent,
            sent.slowdown,
        )
        for curve in found.curves
        for point in curve.points
        for sent in point.messages_sent
    ]


def write_flows(found: Traffic, path: str) -> None:
    """Writes the flows to a file `.csv` or `.parquet`. Raises `InputError` for Parquet without
    polars."""
    if path.endswith(".parquet"):
        polars_extra.require()
        import polars as pl

        table = pl.DataFrame(
            rows(found), schema=list(_HEAD), orient="row", infer_schema_length=None
        )
        data = io.BytesIO()
        table.write_parquet(data)
        files.write_bytes(path, data.getvalue())
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_HEAD)
    writer.writerows(rows(found))
    files.write_text(path, text.getvalue())
