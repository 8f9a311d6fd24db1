"""Dumps of NCCL's inspector become the tables that were drawn."""

from __future__ import annotations

import json
import random
import statistics
from pathlib import Path
from typing import Any

import made_inspector
import pytest
from thorough import usually

from armillary import nccl
from armillary.calibrate import read
from armillary.errors import InputError

NAMES = {
    "all_gather": "AllGather",
    "all_reduce": "AllReduce",
    "broadcast": "Broadcast",
    "reduce_scatter": "ReduceScatter",
}


def call(name: str, ranks: int, size: int, us: float, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """As the inspector writes it: of a reduce-scatter and an all-gather the size is that of a
    rank's part, and the bandwidth that of all parts."""
    whole = size * (ranks if name in ("all_gather", "reduce_scatter") else 1)
    algbw = whole / us / 1e3
    perf = {
        "coll": NAMES[name],
        "coll_sn": more.get("number", 1),
        "coll_msg_size_bytes": size,
        "coll_exec_time_us": us,
        "coll_algobw_gbs": round(algbw, 6),
        "coll_busbw_gbs": round(algbw * nccl.bus_factor(name, ranks), 6),
    }
    if more.get("source"):
        perf["coll_timing_source"] = more["source"]
    header = {"id": more.get("group", "0x1"), "rank": 0, "n_ranks": ranks, "nnodes": 1}
    return {"header": header, "metadata": {"hostname": "a", "pid": 7}, "coll_perf": perf}


def written(calls: list[dict[str, Any]], path: Path, indent: int | None = None) -> str:
    path.write_text("\n".join(json.dumps(each, indent=indent) for each in calls), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("seed", range(usually(10, 500)))
def test_drawn_dumps_are_read(seed: int, tmp_path: Path) -> None:
    """Calls of several groups in any order, some of them by several ranks: of each size the median
    of its calls, each as long as on the rank that waits least."""
    chance = random.Random(seed)
    calls: list[dict[str, Any]] = []
    wanted: dict[tuple[str, int], dict[int, list[float]]] = {}
    for group in range(chance.randrange(1, 4)):
        name, ranks = chance.choice(list(NAMES)), 2 ** chance.randrange(1, 8)
        for size in chance.sample([1 << n for n in range(12, 30)], chance.randrange(1, 6)):
            times = []
            for number in range(chance.randrange(1, 8)):
                rows = [round(chance.uniform(20, 9000), 1) for _ in range(chance.randrange(1, 4))]
                times.append(min(rows))
                number_, group_ = f"{size}.{number}", f"0x{group}"
                calls += [call(name, ranks, size, us, number=number_, group=group_) for us in rows]
            whole = size * (ranks if name in ("all_gather", "reduce_scatter") else 1)
            wanted.setdefault((name, ranks), {}).setdefault(whole, []).extend(times)
    chance.shuffle(calls)
    form = list(made_inspector.newest(calls)) if chance.random() < 0.5 else calls
    found = read(written(form, tmp_path / "dump.json", chance.choice((None, 2))))
    assert {(table.collective, table.ranks): dict(table.points) for table in found.tables} == {
        key: {size: statistics.median_low(times) for size, times in sizes.items()}
        for key, sizes in wanted.items()
    }
    assert all(table.points == tuple(sorted(table.points)) for table in found.tables)
    assert found.skipped == 0


def test_times_of_the_gpu_come_first(tmp_path: Path) -> None:
    """Those of a host's clock count only where no other one was written."""
    slow = [call("all_reduce", 8, 1 << 20, 900.0, number=n) for n in range(5)]
    good = call("all_reduce", 8, 1 << 20, 50.0, number=9, source="kernel_gpu")
    assert read(written([*slow, good], tmp_path / "d.json")).tables[0].points == ((1 << 20, 50.0),)
    assert read(written(slow, tmp_path / "e.json")).tables[0].points == ((1 << 20, 900.0),)


def test_other_records_are_counted(tmp_path: Path) -> None:
    """Contradictions, sends, collectives without a name that we know, and calls of no time."""
    good = call("all_reduce", 8, 1 << 20, 50.0)
    others = [call("all_reduce", 8, 1 << 20, 50.0) for _ in range(7)]
    others[0]["coll_perf"]["coll_algobw_gbs"] = 1.0
    others[1]["coll_perf"]["coll"] = "SendRecv"
    others[2]["coll_perf"]["coll_exec_time_us"] = 0
    others[3]["coll_perf"]["coll_msg_size_bytes"] = -1
    others[4]["coll_perf"] = 7
    others[5]["header"] = None
    others[6] = {"p2p_perf": {"peer": 3}}
    found = read(written([*others, good], tmp_path / "d.json"))
    assert len(found.tables) == 1 and found.skipped == 7
    with pytest.raises(InputError, match=r"no table \(7 lines skipped\)"):
        read(written(others, tmp_path / "e.json"))
    alone = call("all_reduce", 1, 1 << 20, 50.0)
    with pytest.raises(InputError, match="is of one rank"):
        read(written([alone], tmp_path / "f.json"))


def test_a_record_beyond_its_dump_belongs_to_no_communicator(tmp_path: Path) -> None:
    """Version 4.3: the marker says how many records are its own."""
    calls = [call("all_reduce", 8, 1 << 20, us, number=n) for n, us in enumerate((50.0, 60.0))]
    marked = list(made_inspector.newest(calls))
    marked[0]["dump_stats"]["coll_records"] = 1
    found = read(written(marked, tmp_path / "d.json"))
    assert found.tables[0].points == ((1 << 20, 50.0),)
    assert found.skipped == 1
