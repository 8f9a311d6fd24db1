"""Dumps of NCCL's inspector from several ranks: the calls and ranks that were drawn come back."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_inspector as made
import pytest
from conftest import Armillary
from thorough import usually

from armillary.errors import InputError
from armillary.explain import contents
from armillary.explain.inspector_ranks import said
from armillary.workload.importer import import_traces

KINDS = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast")


def written(folder: Path, rank: int, records: list[made.Record]) -> None:
    folder.mkdir(exist_ok=True)
    text = "".join(json.dumps(each) + "\n" for each in records)
    (folder / f"host-pid{rank}.log").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("seed", range(usually(20, 500)))
def test_drawn_runs_come_back(seed: int, tmp_path: Path) -> None:
    """Ranks of several communicators stop after a number of calls; some wrote no dump."""
    chance = random.Random(seed)
    progress: dict[tuple[str, str], dict[int, int]] = {}
    files: dict[int, list[made.Record]] = {}
    sizes = {f"0x{at}": chance.randint(2, 6) for at in range(chance.randint(1, 3))}
    for name, size in sizes.items():
        present = sorted(chance.sample(range(size), chance.randint(1, size)))
        for kind in chance.sample(KINDS, chance.randint(1, 3)):
            least = chance.randint(0, 5)
            ends = {rank: least + chance.choice((0, 0, 0, 1, 3)) for rank in present}
            if max(ends.values()):
                progress[name, kind] = ends
            for rank, count in ends.items():
                files.setdefault(rank, []).extend(
                    made.call(name, rank, size, kind, number, 4096 * (number + 1))
                    for number in range(count)
                )
    files = {rank: records for rank, records in files.items() if records}
    if not files:
        return
    for rank, records in files.items():
        form = list(made.newest(records)) if chance.random() < 0.5 else records
        written(tmp_path / "dumps", rank, form)
    found = contents(tmp_path / "dumps")
    assert found is not None
    rows = {row["id"]: row for row in found.data["communicators"]}
    for name, row in rows.items():
        kinds = {kind: ends for (one, kind), ends in progress.items() if one == name}
        # A rank without a call of a communicator has no record of it.
        dumps = sorted({rank for ends in kinds.values() for rank in ends if ends[rank]})
        assert row["dumps"] == dumps
        assert row["absent_ranks"] == sizes[name] - len(dumps)
        for each in row["calls"]:
            ends = {rank: kinds[each["kind"]].get(rank, 0) for rank in dumps}
            assert each["complete"] == min(ends.values())
            assert each["complete"] + each["incomplete"] == max(ends.values())
        wanted = {
            (kind, rank): (max(ends.values()) - 1, ends[rank] - 1 if ends[rank] else None)
            for kind, ends in kinds.items()
            for rank in dumps
            if ends.get(rank, 0) < max(ends.values())
        }
        behind = {
            (each["kind"], rank): (each["newest"], each["last"])
            for each in row["behind"]
            for rank in each["ranks"]
        }
        assert behind == wanted
        assert all(each["bytes"] == 4096 * (each["newest"] + 1) for each in row["behind"])
    assert {name for name, _ in progress} == {*rows}


def test_a_rank_that_is_behind_is_named(armillary: Armillary, tmp_path: Path) -> None:
    """As the flight recorder's verdict, with what the inspector cannot know."""
    for rank in range(4):
        count = 6 if rank == 2 else 8
        calls = [
            made.call("0x7f", rank, 4, "Broadcast", at, 1 << 20, 10**15 - 2500 * (rank == 2))
            for at in range(count)
        ]
        written(tmp_path / "dumps", rank, list(made.newest(calls, dropped=3)))
    found = contents(tmp_path / "dumps")
    assert found is not None
    [row] = found.data["communicators"][0]["behind"]
    assert said(row) == (
        "Broadcast 7 of communicator 0x7f, 1,048,576 bytes: rank 2 has not ended it (the last one "
        "is number 5), ranks 0, 1, 3 have; the dump was written 0.003 s earlier"
    )
    warnings = " ".join(found.data["warnings"])
    assert "12 calls lost" in warnings
    assert "writes only calls that have ended" in warnings
    ran = armillary("check", "dumps", "--json", "d.json")
    assert ran.returncode == 0, ran.stderr
    assert "rank 2 has not ended it" in " ".join(ran.stdout.split())
    data = json.loads((tmp_path / "d.json").read_text(encoding="utf-8"))
    assert data["schema"] == "armillary.inspector-ranks/1"
    with pytest.raises(InputError, match="is a dump of NCCL's inspector") as error:
        import_traces([tmp_path / "dumps"])
    assert "armillary check" in str(error.value)


def test_cut_files_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    """A process that was killed while it wrote."""
    calls = [made.call("0x1", 0, 1, "AllReduce", at, 8192) for at in range(5)]
    written(tmp_path, 0, list(made.newest(calls))[:4])
    found = contents(tmp_path)
    assert found is not None
    assert "a folder with all dumps shows who is behind" in str(found)
    assert "ends before its last dump is whole" in found.data["warnings"][0]
    [path] = tmp_path.iterdir()
    path.write_text(path.read_text(encoding="utf-8")[:-9], encoding="utf-8")
    found = contents(path)
    assert found is not None
    assert found.data["communicators"][0]["calls"][0]["complete"] == 2
    assert any("its last record is cut off" in each for each in found.data["warnings"])


def test_other_folders_are_not_dumps(tmp_path: Path) -> None:
    written(tmp_path, 0, [made.call("0x1", 0, 1, "AllReduce", 0, 8192)])
    (tmp_path / "train.log").write_text("hello", encoding="utf-8")
    assert contents(tmp_path) is None
    (tmp_path / "empty").mkdir()
    assert contents(tmp_path / "empty") is None


Change = Callable[[list[Any]], object]


@pytest.mark.parametrize(
    ("change", "said_"),
    [
        (lambda rows: rows[0].update(header=3), "record 1.header is not a mapping"),
        (lambda rows: rows[0]["header"].update(id=""), "id is not the name of a communicator"),
        (lambda rows: rows[0]["header"].update(rank=2), "rank invalid number: 2"),
        (lambda rows: rows[0]["header"].update(rank=True), "rank invalid number: True"),
        (lambda rows: rows[0]["header"].pop("n_ranks"), "n_ranks invalid number: None"),
        (lambda rows: rows.append(made.call("0x1", 1, 3, "AllReduce", 0, 9)), "3 differs from"),
        (lambda rows: rows[0]["dump_stats"].update(coll_records=-1), "coll_records invalid"),
        (lambda rows: rows[0]["dump_stats"].update(coll_records=1), "header is missing"),
        (lambda rows: rows.insert(1, rows[0]), "begins before the last dump is whole"),
        (lambda rows: rows[0]["metadata"].update(dump_timestamp_us=-1), "timestamp_us invalid"),
        (lambda rows: rows[1].update(coll_perf=7), "coll_perf is not a mapping"),
        (lambda rows: rows[1]["coll_perf"].update(coll=None), "is not the name of a collective"),
        (lambda rows: rows[1]["coll_perf"].update(coll_sn="3"), "coll_sn invalid number: 3"),
        (lambda rows: rows[1]["coll_perf"].update(coll_msg_size_bytes=-5), "size_bytes invalid"),
        (lambda rows: rows.insert(1, {"other": 1}), "record 2 is of an unknown kind"),
        (lambda rows: rows.insert(1, "text"), "between records"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(change: Change, said_: str, tmp_path: Path) -> None:
    """With the record, and a way out."""
    calls = [made.call("0x1", 0, 2, "AllReduce", at, 8192) for at in range(3)]
    rows = json.loads(json.dumps(list(made.newest(calls))))
    change(rows)
    path = tmp_path / "dump.log"
    path.write_text("".join(json.dumps(each) + "\n" for each in rows), encoding="utf-8")
    with pytest.raises(InputError) as error:
        contents(path)
    [problem] = error.value.problems
    assert said_ in f"{problem.place} {problem.message}", str(error.value)
    assert problem.help


@pytest.mark.parametrize(
    ("text", "said_"),
    [
        ('{"dump_stats": {]}\n{"coll_perf": {}}', "is not JSON"),
        ('{"coll_perf": ' + "[" * 100_000 + "\n", "is nested too deeply"),
        ('{"coll_perf": {}}\n', "header is missing"),
        (
            '[{"dump_stats": {}, "header": {"id": "0x1", "rank": 0, "n_ranks": 1}}, x]',
            "'x' between",
        ),
    ],
)
def test_damaged_files_are_refused(text: str, said_: str, tmp_path: Path) -> None:
    (tmp_path / "dump.log").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        contents(tmp_path / "dump.log")
    assert said_ in " ".join(f"{each.place} {each.message}" for each in error.value.problems)
