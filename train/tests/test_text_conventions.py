"""How programs end lines, mark encodings and quote fields: the same rows, or a refusal."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_criteo import ROWS, check, line
from thorough import usually

from armillary.errors import InputError
from armillary_train.data.criteo import open_files
from armillary_train.data.ingest import ingest
from armillary_train.data.ingested import open_dataset
from armillary_train.data.recipe import CategoryColumn, DenseColumn, HeldOut, Recipe
from armillary_train.data.text import count_lines, read_blocks

SHOP = Recipe(
    columns=None,
    label="lab",
    dense=(DenseColumn("a"),),
    categories=(CategoryColumn("c", rows=1_000_000),),
    separator=",",
    held_out=HeldOut(days=0),
)
PLAIN = b"lab,a,c\n1,1.5,\n0,2,x\n1,,y z\n"


def rows(tmp_path: Path, text: bytes, recipe: Recipe = SHOP) -> list[list[float]]:
    """Labels, numbers and rows of an ingested text."""
    tmp_path.mkdir(exist_ok=True)
    path, folder = tmp_path / "shop.csv", tmp_path / f"data-{len(list(tmp_path.iterdir()))}"
    path.write_bytes(text)
    ingest([path], folder, recipe, threads=2)
    train, _ = open_dataset(folder, (1_000_000,), 1)
    parts = [part.samples for part in train.parts(100, 0, 1)]
    named = ("labels", "dense", "indices")
    return [np.concatenate([getattr(each, name) for each in parts]).tolist() for name in named]


VARIANTS = {
    "crlf": PLAIN.replace(b"\n", b"\r\n"),
    "mixed": PLAIN.replace(b"x\n", b"x\r\n"),
    "mark": codecs.BOM_UTF8 + PLAIN,
    "crlf with mark": codecs.BOM_UTF8 + PLAIN.replace(b"\n", b"\r\n"),
    "no end": PLAIN[:-1],
    "crlf without end": PLAIN.replace(b"\n", b"\r\n")[:-2],
    "empty line": PLAIN + b"\n",
    "empty lines": PLAIN + b"\n\r\n\n\r\n",
    "gz": gzip.compress(PLAIN.replace(b"\n", b"\r\n")),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_a_recipe_reads_the_same_rows(name: str, tmp_path: Path) -> None:
    """Row 0 is that of a missing value."""
    wanted = rows(tmp_path / "plain", PLAIN)
    assert wanted[2][0] == 0
    assert rows(tmp_path / "other", VARIANTS[name]) == wanted


def test_what_python_writes_as_csv(tmp_path: Path) -> None:
    """Python's `csv` ends lines with CRLF, as RFC 4180."""
    stream = io.StringIO(newline="")
    csv.writer(stream).writerows(
        [["lab", "a", "c"], ["1", "1.5", ""], ["0", "2", "x"], ["1", "", "y z"]]
    )
    text = stream.getvalue().encode()
    assert b"\r\n" in text
    assert rows(tmp_path / "csv", text) == rows(tmp_path / "plain", PLAIN)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("begin", "between", "end"),
    [(b"", b"\r\n", b"\r\n"), (codecs.BOM_UTF8, b"\n", b"\n\n"), (b"", b"\r\n", b"\r\n\r\n")],
)
def test_criteo_reads_the_same_samples(
    begin: bytes, between: bytes, end: bytes, packed: bool, tmp_path: Path
) -> None:
    text = begin + between.join(line(number).encode() for number in range(70)) + end
    path = tmp_path / "train.txt"
    path.write_bytes(gzip.compress(text) if packed else text)
    assert count_lines(path) == 70
    train, held_out = open_files(path, ROWS, 1)
    check(list(train.parts(16, 0, 1)), range(60))
    check(list(held_out.parts(16, 0, 1)), range(60, 70))


def test_a_packed_file_that_is_cut_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.txt.gz"
    path.write_bytes(gzip.compress(line(0).encode() * 70)[:-9])
    with pytest.raises(InputError) as caught:
        count_lines(path)
    [problem] = caught.value.problems
    assert (problem.file, problem.place, problem.help) == (str(path), "", "a whole file")
    assert problem.message.startswith("can't be read to its end: ")


REFUSED = {
    b"lab,a,c\r1,1.5,x\r0,2,y\r": "the name 'lab\\rc' has a carriage return or quotes",
    b"lab,a,c\n1,1.5,x\ry\n": "line 2: has a carriage return within the line",
    b"lab,a,c\n1,1.5,x\n0,2,y\r\r\n": "line 3: has a carriage return within the line",
    b'lab,a,c\n1,1.5,"x"\n': "line 2: c: '\"x\"' is in quotes, which are not read",
    b'lab,a,c\n1,"1.5",x\n': "line 2: a: '\"1.5\"' is in quotes, which are not read",
    b'lab,a,c\n"1",1.5,x\n': "line 2: label: '\"1\"' is in quotes, which are not read",
    b'lab,a,c\n1,1.5,"x,y"\n': "line 2: has 4 fields",
    b'lab,a,c\n1,1.5,"x\ny"\n': "line 2: c: '\"x' is in quotes, which are not read",
    b'"lab","a","c"\n1,1.5,x\n': "has a carriage return or quotes",
    b"lab,a,c\n1,1.5,x\n\n0,2,y\n": "line 3: has 1 field",
    PLAIN.decode().encode("utf-16"): "is UTF-16 or UTF-32",
    PLAIN.decode().encode("utf-32"): "is UTF-16 or UTF-32",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_unclear_is_refused(text: bytes, tmp_path: Path) -> None:
    with pytest.raises(InputError) as found:
        rows(tmp_path, text)
    said = REFUSED[text].replace("'lab\\rc'", "'c\\r1'")
    assert said in str(found.value)


def test_a_count_that_is_too_long_is_shown(tmp_path: Path) -> None:
    path, fields = tmp_path / "train.txt", line(0).split("\t")
    fields[3] = "2316460000"
    path.write_text("\n".join([*map(line, range(20)), "\t".join(fields)]) + "\n")
    train, held_out = open_files(path, ROWS, 1)
    with pytest.raises(InputError, match=r"line 21: count 3: '2316460000' is not a count"):
        list(held_out.parts(16, 0, 1))
    assert train.size


def test_quotes_and_returns_of_parquet_are_part_of_the_text(tmp_path: Path) -> None:
    """No program writes them around values there."""
    texts = ["x", '"x"', "x\r", "", "x"]
    frame = pl.DataFrame({"lab": [1, 0, 1, 0, 1], "a": [1.0] * 5, "c": texts})
    frame.write_parquet(tmp_path / "shop.parquet")
    ingest([tmp_path / "shop.parquet"], tmp_path / "data", SHOP, threads=1)
    train, _ = open_dataset(tmp_path / "data", (1_000_000,), 1)
    (part,) = train.parts(100, 0, 1)
    found = part.samples.indices.tolist()
    assert len(set(found)) == 4 and found[0] == found[4] and found[3] == 0


@settings(max_examples=usually(30, 600), deadline=None)
@given(
    st.lists(st.sampled_from([b"a\n", b"\n", b"\r\n", b"bb\r\n"]), max_size=12),
    st.integers(3, 9),
)
def test_blocks_have_all_lines_before_the_empty_ones_at_the_end(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], size: int
) -> None:
    path = tmp_path_factory.mktemp("blocks") / "text"
    path.write_bytes(b"".join(pieces))
    while pieces and not pieces[-1].strip():
        pieces.pop()
    blocks = [block for block, _ in read_blocks(path, size)]
    assert b"".join(blocks) == b"".join(pieces)
    assert all(block.endswith(b"\n") for block in blocks)
