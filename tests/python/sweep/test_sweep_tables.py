"""Tables of sweeps as files: what other readers of Parquet find, and what we read back."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from armillary.errors import InputError
from armillary.sweep import load, parquet
from armillary.sweep.frame import Column, Frame
from armillary.sweep.table import read
from armillary.sweep.thrift import Reader, Wide, varint, written

VALUES: dict[Any, list[Any]] = {
    "flag": [True, None, False, True, True, False, True, True, True, None],
    "whole": [0, 1, -(2**63), 2**63 - 1, None, 5, 6, 7, 8, 9],
    "size": [10**38 - 1, -1, 0, None, 1 - 10**38, 2**64, 6, 7, 8, 9],
    "number": [0.1, -0.0, 1e300, 5e-324, None, None, 1.5, 2.5, 3.5, 4.5],
    "text": ["", None, "a,b", 'say "x"', "two\nlines", "ü", "=1+1", "x" * 300, "8", "9"],
}
FRAME = Frame({kind: Column(kind, values) for kind, values in VALUES.items()})


def test_another_reader_finds_the_same_table() -> None:
    """polars reads types, values and what is unknown."""
    data = parquet.content(FRAME, {"about": "größer"})
    found = pl.read_parquet(io.BytesIO(data))
    assert found.to_dict(as_series=False) == VALUES
    assert dict(found.schema) == dict(FRAME.to_polars().schema)
    assert found.schema["size"] == pl.Decimal(38, 0)
    assert pl.read_parquet_metadata(io.BytesIO(data))["about"] == "größer"


def test_we_read_what_we_write() -> None:
    wide = Frame({f"c{at}": Column("number", [float(at), None]) for at in range(200)})
    empty = Frame({name: Column(each.kind, []) for name, each in FRAME.data.items()})
    unknown = Frame({"x": Column("text", [None] * 3)})
    for frame in (FRAME, wide, empty, unknown, FRAME.take([1] * 1000)):
        found, about = parquet.read(parquet.content(frame, {"a": "b"}))
        assert (found, about) == (frame, {"a": "b"})


def test_csv_has_every_value() -> None:
    """Texts with commas, quotes and lines are one cell, and the unknown is an empty one."""
    found = pl.read_csv(io.StringIO(FRAME.to_csv()), schema_overrides={"size": pl.String})
    assert found["size"].to_list() == [
        None if each is None else str(each) for each in FRAME["size"]
    ]
    assert found["number"].to_list() == FRAME["number"]
    assert found["flag"].to_list() == FRAME["flag"]
    assert [each or None for each in found["text"]] == [each or None for each in FRAME["text"]]


def test_damage_is_refused(tmp_path: Path) -> None:
    """Any byte that is another, and any end that is missing: the table or an `InputError`."""
    data = parquet.content(FRAME, {"armillary.sweep": "{}"})
    drawn, path = random.Random(1), tmp_path / "table.parquet"
    for _ in range(300):
        changed = bytearray(data[: drawn.randrange(len(data))] if drawn.random() < 0.2 else data)
        if changed:
            changed[drawn.randrange(len(changed))] = drawn.randrange(256)
        path.write_bytes(changed)
        with pytest.raises(InputError):  # `FRAME` is no table of a sweep either
            read(path)


def test_tables_of_other_programs_are_refused_with_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "table.parquet"
    FRAME.to_polars().write_parquet(path, compression="zstd", metadata={"armillary.sweep": "{}"})
    with pytest.raises(InputError, match="armillary sweep --resume"):
        load(tmp_path)


def test_a_page_that_grows_beyond_its_size_is_not_unpacked() -> None:
    """A few bytes of gzip can stand for gigabytes."""
    data = parquet.content(Frame({"x": Column("text", ["a" * 10**6])}), {})
    head = Reader(data, 4).struct()
    small = written({1: 0, 2: 100, 3: head[3], 5: head[5]})
    whole = written({1: 0, 2: head[2], 3: head[3], 5: head[5]})
    assert data[4 : 4 + len(whole)] == whole
    shorter = data[:4] + small + data[4 + len(whole) :]
    with pytest.raises(ValueError, match="damaged"):
        parquet.read(shorter)


def test_numbers_of_thrift_are_as_its_document_says() -> None:
    """Field 1 with 50399 of 32 bits: zigzag 100798, in groups of seven bits."""
    assert varint(50399) == bytes([0xDF, 0x89, 0x03])
    assert written({1: 1, 3: Wide(-1)}) == bytes([0x15, 0x02, 0x26, 0x01, 0x00])
    assert Reader(bytes([0x15, 0x02, 0x08, 40, 1, 120, 0])).struct() == {1: 1, 20: b"x"}
