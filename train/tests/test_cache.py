"""Tables behind caches give the bits of tables in memory, survive kills, and say when a disk is
full."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from command_copies import Copies
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import usually

from armillary.errors import InputError
from armillary.model.sharding_plan import Tier

torch = pytest.importorskip("torch")

from armillary_train.tables.batch import SparseBatch  # noqa: E402
from armillary_train.tables.caching import Caching  # noqa: E402
from armillary_train.tables.embedding import EmbeddingCollection  # noqa: E402
from armillary_train.tables.optimizers import Adam, Optimizer, RowWiseAdaGrad  # noqa: E402
from armillary_train.tables.table import DType, Feature, Table  # noqa: E402

ROWS = (4000, 90)
MEMORY = 2_400_000
"""Room for some of the rows: each file has a segment of 1 MiB in memory."""
WORKER = f"import sys; sys.path[:0] = {sys.path!r}; import test_cache; test_cache.worker('.')"
"""A program in Python."""


def tables(dtype: DType = "float32", tier: Tier = "device") -> list[Table]:
    return [Table("a", ROWS[0], 17, dtype, tier=tier), Table("b", ROWS[1], 8, dtype, tier=tier)]


FEATURES = [Feature("fa", "a"), Feature("fb", "b", "mean")]


def cached(
    folder: Path | None = None,
    *,
    dtype: DType = "float32",
    optimizer: Optimizer | None = None,
    memory: int = MEMORY,
    **options: object,
) -> EmbeddingCollection:
    caching = Caching(memory, None if folder is None else str(folder))
    return EmbeddingCollection(
        tables(dtype, "host" if folder is None else "disk"),
        FEATURES,
        optimizer or RowWiseAdaGrad(),
        seed=3,
        caching=replace(caching, **options),  # type: ignore[arg-type]
    )


def plain(dtype: DType = "float32", optimizer: Optimizer | None = None) -> EmbeddingCollection:
    return EmbeddingCollection(tables(dtype), FEATURES, optimizer or RowWiseAdaGrad(), seed=3)


def batch(step: int) -> SparseBatch:
    draw = torch.Generator().manual_seed(step)
    parts = [torch.randint(0, rows, (192,), generator=draw) for rows in ROWS]
    return SparseBatch(torch.full((2, 64), 3), torch.cat(parts))


def train(collection: EmbeddingCollection, steps: range, *, prefetch: bool = True) -> None:
    for step in steps:
        out = collection(batch(step))
        if prefetch:
            collection.prefetch(batch(step + 1))
        (out * out).sum().backward()


def assert_equal(one: EmbeddingCollection, other: EmbeddingCollection) -> None:
    first, second = one.state_dict(), other.state_dict()
    assert first.keys() == second.keys()
    assert [key for key in first if not torch.equal(first[key], second[key])] == []


@settings(max_examples=usually(8, 120), deadline=None)
@given(
    dtype=st.sampled_from(["float32", "float16", "bfloat16"]),
    adam=st.booleans(),
    policy=st.sampled_from(["lru", "lfu"]),
    prefetch=st.booleans(),
    memory=st.integers(60_000, 400_000),
)
def test_a_cache_changes_no_bit(
    dtype: DType, adam: bool, policy: str, prefetch: bool, memory: int
) -> None:
    optimizer = Adam() if adam else RowWiseAdaGrad()
    one, other = (
        plain(dtype, optimizer),
        cached(dtype=dtype, optimizer=optimizer, memory=memory, policy=policy),
    )
    for each in (one, other):
        train(each, range(12), prefetch=prefetch)
    assert_equal(one, other)
    report = other.cache_report()
    assert 0 < report["misses"] <= report["lookups"] == 13 * 384 - 384 * (not prefetch)
    assert report["memory_bytes"] <= memory


def test_state_moves_between_tables_with_and_without_caches(tmp_path: Path) -> None:
    one, other, third = plain(), cached(tmp_path / "a"), plain()
    train(one, range(5))
    other.load_state_dict(one.state_dict())
    for each in (one, other):
        train(each, range(5, 9))
    third.load_state_dict(other.state_dict())
    assert_equal(one, third)
    rows = other.read_rows("a", range(7, 11))
    assert torch.equal(rows["weight"], one.weight("a")[7:11])


@pytest.mark.parametrize("make", [plain, cached])
def test_rows_that_cannot_be_read_or_written_are_named(
    make: Callable[[], EmbeddingCollection],
) -> None:
    collection = make()
    for rows in (range(89, 91), range(-1, 2), range(0, 4, 2)):
        with pytest.raises(InputError, match=r"table 'b': no such rows: .*0 to 89"):
            collection.read_rows("b", rows)
    before = collection.read_rows("b", range(90))
    good = collection.read_rows("b", range(3))
    faulty = (
        (88, good, "no such rows"),
        (0, {"weight": good["weight"]}, "parts of the shapes"),
        (0, good | {"weight": torch.zeros(3, 9)}, "parts of the shapes"),
        (0, good | {"sum": torch.zeros(2)}, "parts of the shapes"),
        (0, {"sum": good["sum"]}, "parts of the shapes"),
    )
    for first, parts, message in faulty:
        with pytest.raises(InputError, match=f"table 'b': {message}"):
            collection.write_rows("b", first, parts)
    after = collection.read_rows("b", range(90))
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_state_that_memory_has_no_room_for_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collection = cached(tmp_path)
    monkeypatch.setenv("ARMILLARY_MEMORY", "100kB")
    with pytest.raises(InputError, match=r"checkpoint\(\) and read_rows\(\) need less"):
        collection.state_dict()


def test_a_run_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    one, other = plain(), cached(tmp_path)
    train(one, range(8))
    train(other, range(8))
    other.checkpoint()
    train(other, range(50, 60))
    del other
    with pytest.raises(InputError, match="has a checkpoint of step 8"):
        cached(tmp_path)
    again = cached(tmp_path, resume=True)
    assert_equal(one, again)
    with pytest.raises(InputError, match="another process uses"):
        cached(tmp_path, resume=True)


def test_what_caches_cannot_be_is_said(tmp_path: Path) -> None:
    for folder in (tmp_path, None):
        with pytest.raises(InputError, match=r"--cache: 1,000 bytes for.* 2 tables") as said:
            cached(folder, memory=1000)
        least = int(said.value.problems[0].help.split()[2].replace(",", ""))
        with pytest.raises(InputError, match=f"{least:,} bytes"):
            cached(folder, memory=least - 1)
        train(cached(folder, memory=least), range(1))
    with pytest.raises(InputError, match="--cache"):
        EmbeddingCollection(tables(tier="host"), FEATURES, RowWiseAdaGrad())
    with pytest.raises(InputError, match="--table-dir"):
        EmbeddingCollection(
            tables(tier="disk"), FEATURES, RowWiseAdaGrad(), caching=Caching(MEMORY)
        )
    with pytest.raises(InputError, match="is not on a disk"):
        cached().checkpoint()


def worker(folder: str) -> None:
    """Trains for ever, with a checkpoint every third step, whose number it prints."""
    collection = cached(Path(folder), resume=True)
    step = collection._engine.step
    while True:
        train(collection, range(step, step + 3))
        step += 3
        collection.checkpoint()
        print(step, flush=True)


def test_a_kill_at_any_moment_loses_nothing_of_the_last_checkpoint(
    trainings: Copies, tmp_path: Path
) -> None:
    reference, done = plain(), 0
    draw = random.Random(1)
    for _ in range(4):
        reading, writing = os.pipe()
        run = trainings.start(["-c", WORKER], tmp_path, os.environ, writing)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as printed:
            printed.readline()
            time.sleep(draw.random() * 0.05)
            run.send_signal(signal.SIGKILL)
            said = printed.read().split()
        run.communicate()
        found = cached(tmp_path, resume=True)
        step = found._engine.step
        assert step % 3 == 0 and step >= max([done + 3, *map(int, said)])
        train(reference, range(done, step), prefetch=False)
        done = step
        assert_equal(reference, found)
        del found


def test_a_full_disk_is_an_error_on_all_ranks(trainings: Copies, tmp_path: Path) -> None:
    """The files of one rank or both grow too large; every rank ends with the reason. A limit on the
    size of files is a full disk, as far as a program sees: no file may have more than a checkpoint
    needs."""
    options = ["--steps", "20", "--global-batch", "512", "--ranks", "2", "--eval-samples", "2000"]
    caches = ["--cache", "64MiB", "--table-dir", str(tmp_path)]
    run = trainings.run(
        ["train", "dlrm-small", *options, *caches],
        tmp_path,
        os.environ,
        limits={resource.RLIMIT_FSIZE: 2**19},
    )
    assert run.returncode == 2, run.stdout + run.stderr
    assert "File too large" in run.stderr
    assert "the last checkpoint is intact" in run.stderr
    assert "Traceback" not in run.stderr


def test_ranks_with_caches_learn_what_ranks_without_learn(
    trainings: Copies, tmp_path: Path
) -> None:
    """Shards by table, row and column, on disk, in slower memory and in memory."""
    ways = [("row", "disk"), ("column", "host"), ("table", "disk"), ("data", "disk"), ("table", "")]
    options = ["--steps", "12", "--global-batch", "256", "--ranks", "2", "--eval-samples", "1000"]
    found = []
    for caches in ([], ["--cache", "20MiB", "--table-dir", str(tmp_path / "tables")]):
        rows = (200, 100, 50, 40, 30, 20, 10, 10)
        plan = {"version": 1, "model": "dlrm-small", "ranks": 2, "ranks_per_node": 2, "tables": []}
        for place, count in enumerate(rows):
            scheme, tier = ways[place % len(ways)]
            table = {"name": f"c{place + 1}", "rows": count, "columns": 16, "scheme": scheme}
            table["ranks"] = str(place % 2) if scheme == "table" else "0-1"
            if tier and caches:
                table["tier"] = tier
            plan["tables"].append(table)  # type: ignore[attr-defined]
        path = tmp_path / f"plan{len(caches)}.yml"
        path.write_text(json.dumps(plan))
        result = tmp_path / f"result{len(caches)}.json"
        files = ["--plan", str(path), "--json", str(result)]
        run = trainings.run(
            ["train", "dlrm-small", *options, *caches, *files], tmp_path, os.environ
        )
        assert run.returncode == 0, run.stdout + run.stderr
        found.append(json.loads(result.read_text()))
    assert found[0]["evaluations"] == found[1]["evaluations"]
    assert found[0]["cache"] is None
    assert 0 < found[1]["cache"]["hit_rate"] < 1
    assert "of lookups hit" in run.stdout
