"""Ingestion: the samples of the logs, whatever the format, threads and files; and what goes
wrong."""

from __future__ import annotations

import gzip
import json
import os
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command_copies import Copies
from conftest import Armillary
from hypothesis import given, settings
from hypothesis import strategies as st
from test_criteo import ROWS, line, plainly, written
from thorough import usually

from armillary.errors import InputError
from armillary_train.data.columns import Columns, join
from armillary_train.data.criteo import open_files
from armillary_train.data.dataset import open_file, read_manifest
from armillary_train.data.ingest import find_sources, ingest
from armillary_train.data.ingested import Ingested, open_dataset
from armillary_train.data.recipe import (
    CategoryColumn,
    DenseColumn,
    HeldOut,
    Recipe,
    Shuffle,
    criteo,
)
from armillary_train.data.recipe_file import read_recipe
from armillary_train.data.samples import START, Position, Samples, share

CRITEO = criteo().with_rows(ROWS, "")


@pytest.fixture
def command(armillary: Armillary) -> Armillary:
    """Runs `armillary ingest`."""
    return partial(armillary, "ingest")


def made(paths: list[Path], folder: Path, recipe: Recipe = CRITEO, threads: int = 2) -> Ingested:
    ingest(paths, folder, recipe, threads=threads)
    return open_dataset(folder, ROWS, 13)[0]


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def same(one: Samples, other: Samples) -> None:
    for name in ("dense", "lengths", "indices", "labels"):
        first, second = getattr(one, name), getattr(other, name)
        assert first.dtype == second.dtype and np.array_equal(first, second), name


def test_batches_are_those_of_the_text(tmp_path: Path) -> None:
    """For any number of ranks and files, bit for bit, with rows of the model or whole values."""
    path = written(tmp_path / "train.txt", range(70))
    text, text_held_out = open_files(path, ROWS, 2)
    for at, start in enumerate((CRITEO, criteo())):
        held_out = HeldOut(days=2)
        recipe = replace(start, held_out=held_out, samples_per_file=9)
        ingest([path], tmp_path / f"data-{at}", recipe, threads=2)
        for mine, theirs in zip(
            open_dataset(tmp_path / f"data-{at}", ROWS, 13), (text, text_held_out), strict=True
        ):
            assert mine.size == theirs.size
            for batch, ranks in ((16, 1), (7, 3), (100, 2)):
                for rank in range(ranks):
                    pairs = zip(
                        mine.parts(batch, rank, ranks, Position(2, 5)),
                        theirs.parts(batch, rank, ranks, Position(2, 5)),
                        strict=True,
                    )
                    for one, other in pairs:
                        assert (one.first, one.whole, one.after) == (
                            other.first,
                            other.whole,
                            other.after,
                        )
                        same(one.samples, other.samples)


def test_threads_and_compression_change_no_byte(tmp_path: Path) -> None:
    plain = [written(tmp_path / f"day_{day}", range(day * 40, day * 40 + 40)) for day in (2, 10)]
    packed = [tmp_path / "gz" / each.name for each in plain]
    packed[0].parent.mkdir()
    for one, other in zip(plain, packed, strict=True):
        other.write_bytes(gzip.compress(one.read_bytes()))
    recipe = replace(CRITEO, samples_per_file=16)
    ingest(find_sources([str(packed[0].parent)]), tmp_path / "a", recipe, threads=3)
    ingest(plain, tmp_path / "b", recipe, threads=1)
    first, second = content(tmp_path / "a"), content(tmp_path / "b")
    manifests = [json.loads(each.pop("manifest.json")) for each in (first, second)]
    assert first == second and len(first) == 6
    for each in manifests:  # Sizes of sources differ.
        del each["sources"], each["checksum"]
    assert manifests[0] == manifests[1]


def samples_of(source: Ingested) -> list[bytes]:
    """Each sample, as bytes."""
    count = len(source.manifest.categories)
    found = []
    for part in source.parts(5, 0, 1):
        samples = part.samples
        places = np.concatenate([[0], np.cumsum(samples.lengths)])
        size = len(samples)
        for at in range(size):
            rows = [
                samples.indices[places[each * size + at] : places[each * size + at + 1]].tolist()
                for each in range(count)
            ]
            found.append(repr((samples.labels[at], samples.dense[at].tolist(), rows)).encode())
    return found


def test_a_shuffle_has_every_sample_once_whatever_the_memory(tmp_path: Path) -> None:
    path = written(tmp_path / "log", range(400))
    plain = samples_of(made([path], tmp_path / "plain"))
    shuffled = {}
    for memory in (2**30, 20_000):
        recipe = replace(CRITEO, shuffle=Shuffle(7, memory), samples_per_file=50)
        shuffled[memory] = samples_of(made([path], tmp_path / str(memory), recipe))
    assert shuffled[2**30] == shuffled[20_000]
    assert sorted(shuffled[2**30]) == sorted(plain) != shuffled[2**30]
    other = replace(CRITEO, shuffle=Shuffle(8))
    assert samples_of(made([path], tmp_path / "other", other)) != shuffled[2**30]
    # Neighbours end up anywhere: the mean distance of two places is a third of the samples.
    places = [shuffled[2**30].index(each) for each in plain]
    assert abs(np.abs(np.diff(places)).mean() / len(plain) - 1 / 3) < 0.06
    assert not list(tmp_path.glob("*/shuffle-*"))


def test_a_share_is_held_out(tmp_path: Path) -> None:
    path = written(tmp_path / "log", range(400))
    recipe = replace(CRITEO, held_out=HeldOut(None, 0.25, 3))
    train = made([path], tmp_path / "data", recipe)
    held_out = replace(train, split="held-out")
    # Four standard deviations of a binomial distribution.
    assert abs(held_out.size - 100) < 4 * np.sqrt(400 * 0.25 * 0.75)
    whole = samples_of(made([path], tmp_path / "whole", replace(CRITEO, held_out=HeldOut(0))))
    assert sorted(samples_of(train) + samples_of(held_out)) == sorted(whole)


def shop() -> Recipe:
    return Recipe(
        None,
        "bought",
        (DenseColumn("price", "decimal", missing=1.0, log=1.0),),
        (
            CategoryColumn("city", "text", rows=50),
            CategoryColumn("tags", "whole", missing=None, separator=",", rows=7),
        ),
        separator="|",
        held_out=HeldOut(0),
        samples_per_file=3,
    )


def test_parquet_is_read_as_text_is(tmp_path: Path) -> None:
    """Numbers, text, lists, and missing values of each."""
    frame = pl.DataFrame(
        {
            "city": ["Bonn", None, "Köln", "Bonn", ""],
            "unused": [1, 2, 3, 4, 5],
            "bought": [True, False, False, True, True],
            "price": [1.5, None, 1e-3, 2e7, 0.0],
            "tags": [[1, 9], [], None, [-1], [3]],
        }
    )
    (tmp_path / "log.txt").write_text(
        "unused|price|bought|tags|city\n1|1.5|1|1,9|Bonn\n2||0||\n3|0.001|0||Köln\n"
        "4|2e7|1|-1|Bonn\n5|0|1|3|\n",
        encoding="utf-8",
    )
    frame.write_parquet(tmp_path / "log.parquet")
    found = []
    for name in ("log.txt", "log.parquet"):
        ingest([tmp_path / name], tmp_path / f"data-{name}", shop(), threads=2)
        manifest = read_manifest(tmp_path / f"data-{name}")
        files, wide = manifest.splits["train"], len(manifest.dense)
        found.append(join([open_file(tmp_path / f"data-{name}", each, 2, wide) for each in files]))
    text, parquet = found
    assert text.lengths is not None and parquet.lengths is not None
    assert text.lengths.tolist() == [[1] * 5, [2, 0, 0, 1, 1]] == parquet.lengths.tolist()
    assert np.array_equal(text.indices, parquet.indices)
    assert text.indices[5:].tolist() == [1, 2, 6, 3]  # Values modulo 7, also of -1.
    assert text.indices[0] == text.indices[3]
    prices = np.log(np.array([1.5, 1, 1e-3, 2e7, 0]) + 1).astype(np.float32)
    assert np.array_equal(text.dense[:, 0], prices) and np.array_equal(parquet.dense, text.dense)
    assert text.labels.tolist() == [1, 0, 0, 1, 1] == parquet.labels.tolist()


def test_criteo_as_parquet(tmp_path: Path) -> None:
    """Counts as numbers with a point, as other programs write columns with missing values."""
    names = CRITEO.columns or ()
    path = written(tmp_path / "log.txt", range(70))
    frame = pl.read_csv(
        path, separator="\t", has_header=False, new_columns=names, infer_schema=False
    )
    counts = [pl.col(f"count {at}").cast(pl.Float64) for at in range(1, 14)]
    frame.with_columns(pl.col("label").cast(pl.Int8), *counts).write_parquet(tmp_path / "log.pq")
    one = made([path], tmp_path / "text")
    other = made([tmp_path / "log.pq"], tmp_path / "parquet")
    assert samples_of(one) == samples_of(other)
    frame = frame.with_columns(pl.lit(1.5).alias("count 2"))
    frame.write_parquet(tmp_path / "wrong.pq")
    with pytest.raises(InputError, match=r"wrong.pq: line 1: count 2: '1.5' is not a count"):
        ingest([tmp_path / "wrong.pq"], tmp_path / "c", CRITEO, threads=1)
    frame.drop("category 3").write_parquet(tmp_path / "none.pq")
    with pytest.raises(InputError, match="has no column 'category 3'"):
        ingest([tmp_path / "none.pq"], tmp_path / "d", CRITEO, threads=1)
    for byte in "\t\n\x1f":
        words = pl.Series("category 3", ["ab"] * 4 + [f"a{byte}b"] + ["ab"] * 65)
        frame.with_columns(words).write_parquet(tmp_path / "tab.pq")
        with pytest.raises(InputError, match="row 5: category 3: has a tab"):
            ingest([tmp_path / "tab.pq"], tmp_path / "e", CRITEO, threads=1)


@given(st.data(), st.integers(1, 12), st.integers(1, 3))
@settings(max_examples=usually(30, 600), deadline=None)
def test_columns_are_cut_joined_and_reordered(
    data: st.DataObject, count: int, categories: int
) -> None:
    bags = st.lists(st.integers(0, 99), max_size=3)
    if data.draw(st.booleans()):
        bags = st.lists(st.integers(0, 99), min_size=1, max_size=1)
    values = [[data.draw(bags) for _ in range(count)] for _ in range(categories)]
    lengths = np.array([[len(bag) for bag in row] for row in values], np.int32)
    flat = np.array([value for row in values for bag in row for value in bag], np.int32)
    one = (lengths == 1).all() and data.draw(st.booleans())
    labels = np.arange(count, dtype=np.uint8) % 2
    dense = np.arange(count, dtype=np.float32)[:, None]
    columns = Columns(labels, dense, None if one else lengths, flat, categories)
    order = np.array(data.draw(st.permutations(range(count))), np.int64)
    place = data.draw(st.integers(0, count))
    taken = columns.take(order)
    found = join([taken.cut(0, place), taken.cut(place, count)])
    expected = [value for row in values for at in order for value in row[at]]
    assert found.indices.tolist() == expected
    assert found.dense[:, 0].tolist() == order.tolist()
    assert found.lengths is None or found.lengths.tolist() == lengths[:, order].tolist()


def damaged(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize(
    ("name", "harm", "said"),
    [
        ("train-00001.safetensors", damaged, "the checksum of 'labels' is wrong"),
        ("train-00001.safetensors", cut, "bytes instead of"),
        ("train-00001.safetensors", Path.unlink, "No such file"),
        ("manifest.json", damaged, "is wrong|can't be read"),
        ("manifest.json", cut, ""),
    ],
)
def test_damage_is_found(
    tmp_path: Path, name: str, harm: Callable[[Path], None], said: str
) -> None:
    path = written(tmp_path / "log", range(70))
    ingest([path], tmp_path / "data", replace(CRITEO, samples_per_file=20), threads=1)
    harm(tmp_path / "data" / name)
    if harm is cut and name == "manifest.json":  # Only the last line end is missing.
        open_dataset(tmp_path / "data", ROWS, 13)
        return
    with pytest.raises(InputError, match=said) as raised:
        list(open_dataset(tmp_path / "data", ROWS, 13)[0].parts(16, 0, 1))
    assert name in str(raised.value)


def test_a_dataset_must_fit_the_model(tmp_path: Path) -> None:
    ingest([written(tmp_path / "log", range(70))], tmp_path / "data", CRITEO, threads=1)
    with pytest.raises(InputError, match="13 dense columns"):
        open_dataset(tmp_path / "data", ROWS, 4)
    with pytest.raises(InputError, match="26 categories"):
        open_dataset(tmp_path / "data", ROWS[:3], 13)
    with pytest.raises(InputError, match="category 1: was ingested for a table of 3 rows"):
        open_dataset(tmp_path / "data", (4, *ROWS[1:]), 13)


def test_the_command(command: Armillary, tmp_path: Path) -> None:
    path = written(tmp_path / "train.txt", range(700))
    out = tmp_path / "data"
    run = command(str(path), "-o", str(out), "--model", "dlrm-criteo-kaggle", "--json", "-")
    assert run.returncode == 0, run.stderr
    body = json.loads(run.stdout)
    assert body["samples"] == {"train": 600, "held-out": 100} and body["files"] == 2
    assert body["source_bytes"] == path.stat().st_size == body["text_bytes"]
    assert sorted(content(out)) == [
        "held-out-00000.safetensors",
        "manifest.json",
        "train-00000.safetensors",
    ]
    before = content(out)
    again = command(str(path), "-o", str(out))
    assert again.returncode == 2 and "has data already" in again.stderr
    assert content(out) == before


def test_a_wrong_line_leaves_nothing_behind(command: Armillary, tmp_path: Path) -> None:
    lines = [line(number) for number in range(50)]
    lines[33] = lines[33].rpartition("\t")[0] + "\txyz"
    path = tmp_path / "train.txt"
    path.write_text("\n".join(lines))
    run = command(str(path), "-o", str(tmp_path / "data"))
    assert run.returncode == 2
    assert "'xyz' is not a category" in run.stderr
    assert f"{path}: line 34: category 26" in run.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["train.txt"]


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_disk_that_is_full(trainings: Copies, tmp_path: Path, shuffle: bool) -> None:
    """Writing beyond 20 KB fails, as on a full disk."""
    path = written(tmp_path / "train.txt", range(700))
    recipe = tmp_path / "recipe.yml"
    recipe.write_text("shuffle: {seed: 1, memory: 1 MiB}\n" if shuffle else "held_out: {days: 1}\n")
    out = tmp_path / "data"
    run = trainings.run(
        ["ingest", str(path), "-o", str(out), "--recipe", str(recipe)],
        tmp_path,
        os.environ,
        limits={resource.RLIMIT_FSIZE: 20_000},
    )
    assert run.returncode == 2, run.stderr
    assert "can't be written: File too large" in run.stderr
    assert not out.exists()


def test_a_killed_run_is_never_taken_for_data(
    command: Armillary, trainings: Copies, tmp_path: Path
) -> None:
    """What it left is removed by the next one, which has the bytes of a run that was not killed."""
    path = written(tmp_path / "train.txt", range(300))
    path.write_bytes(path.read_bytes() * 100)
    recipe = tmp_path / "recipe.yml"
    recipe.write_text("samples_per_file: 2000\n")
    out, whole = tmp_path / "data", tmp_path / "whole"
    arguments = [str(path), "--recipe", str(recipe), "--threads", "1", "-o"]
    run = trainings.start(["ingest", *arguments, str(out)], tmp_path, os.environ)
    while run.poll() is None and not list(out.glob("train-00002*")):
        time.sleep(0.002)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    left = content(out)
    assert left and "manifest.json" not in left
    with pytest.raises(InputError, match=r"manifest.json: can't be read"):
        open_dataset(out, ROWS, 13)
    assert command(*arguments, str(out)).returncode == 0
    assert command(*arguments, str(whole)).returncode == 0
    assert content(out) == content(whole)


def test_recipes_have_defaults_and_a_place_for_each_fault(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yml"
    path.write_text("shuffle: {seed: 3, memory: 2 MiB}\nheld_out: {share: 0.1}\n")
    usual = replace(criteo(), shuffle=Shuffle(3, 2**21), held_out=HeldOut(None, 0.1))
    assert read_recipe(str(path)) == usual
    path.write_text(
        "label: bought\nseparator: bar\ndense:\n"
        "  - {columns: [price], missing: 1, log: 1, clip: [null, 9], normalize: [0, 2]}\n"
        "categories:\n  - {columns: [city], hash: 7, rows: 50}\n"
        "  - {columns: [tags], kind: whole, missing: skip, separator: comma}\n"
    )
    found = read_recipe(str(path))
    assert (found.columns, found.label, found.separator) == (None, "bought", "|")
    assert found.dense == (DenseColumn("price", "decimal", 1.0, (None, 9.0), 1.0, (0.0, 2.0)),)
    assert found.categories == (
        CategoryColumn("city", hash=7, rows=50),
        CategoryColumn("tags", "whole", None, ","),
    )
    path.write_text("label: x\ncategories:\n  - {columns: [x]}\n")
    with pytest.raises(InputError, match="column 'x' is used twice"):
        read_recipe(str(path))
    path.write_text(
        "label: x\ncolour: red\nsamples_per_file: 0\nheld_out: {share: 2}\n"
        "shuffle: {memory: 3 apples}\nseparator: ab\ncolumns: [x, a]\n"
        "dense:\n  - {columns: [a], log: true}\n  - {columns: [c], clip: [2, 1]}\n"
        "  - {columns: [b], normalize: [0, 0]}\n"
        "categories:\n  - {columns: [x], kind: octal}\n  - {columns: y}\n"
    )
    with pytest.raises(InputError) as raised:
        read_recipe(str(path))
    said = str(raised.value)
    for place in (
        "line 2: colour: unknown key",
        "line 3: samples_per_file: invalid count: 0",
        "held_out.share: 2.0 is out of range",
        "shuffle.memory: '3 apples' is not an amount",
        "separator: 'ab' is not a separator",
        "dense[1].clip: 2.0 is above 1.0",
        "dense[2].normalize: the deviation is 0.0",
        "dense[0].log: True is not a number",
        "categories[0].kind: unknown kind 'octal'",
        "categories[1].columns: 'y' is not a list (allowed: [NAME, ...])",
    ):
        assert place in said, place


def test_sources_are_found_in_order(tmp_path: Path) -> None:
    for name in ("day_10.gz", "day_9", "day_1"):
        (tmp_path / name).touch()
    names = [path.name for path in find_sources([str(tmp_path)])]
    assert names == ["day_1", "day_9", "day_10.gz"]
    with pytest.raises(InputError, match="No such file"):
        find_sources([str(tmp_path / "none")])
    with pytest.raises(InputError, match="too few"):
        ingest([tmp_path / "day_1"], tmp_path / "data", CRITEO, threads=1)


def test_a_rank_reads_its_share(tmp_path: Path) -> None:
    data = made([written(tmp_path / "log", range(70))], tmp_path / "data")
    for rank in range(3):
        part = next(iter(data.parts(32, rank, 3, START)))
        mine = share(32, rank, 3)
        assert part.first == mine.start
        assert part.samples.labels.tolist() == [plainly(number)[0] for number in mine]
