"""Exports of Nsight Systems that are damaged, hostile, or say too little."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from nsys_export import (
    COMMUNICATOR,
    MESSAGE,
    PEER,
    SCHEMAS,
    Export,
    payload,
    refused,
    small,
    thread_of,
)

from armillary.workload.importer import import_traces

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
BAD: list[tuple[str, Callable[[Export], object], list[str], str]] = [
    ("text for a time", lambda _: 0, [f"UPDATE {KERNEL} SET start = 'soon'"], "start is text"),
    ("a fraction for a time", lambda _: 0, [f"UPDATE {KERNEL} SET end = 1.5"], "is a fraction"),
    ("bytes for a name", lambda _: 0, ["UPDATE NVTX_EVENTS SET globalTid = x'00'"], "is bytes"),
    ("a missing column", lambda _: 0, [f"ALTER TABLE {KERNEL} RENAME COLUMN start TO begin"],
     "the table has no column start"),
    ("a view for a table", lambda _: 0,
     [f"ALTER TABLE {KERNEL} RENAME TO k", f"CREATE VIEW {KERNEL} AS SELECT * FROM k"],
     "has no kernel"),
    ("a computed column", lambda _: 0,
     [f"ALTER TABLE {KERNEL} RENAME COLUMN start TO begin",
      f"ALTER TABLE {KERNEL} ADD COLUMN start INTEGER AS (begin + 1)"],
     "the table has no column start"),
    ("a virtual table", lambda _: 0,
     [f"DROP TABLE {KERNEL}", f"CREATE VIRTUAL TABLE {KERNEL} USING fts5(start)"],
     "has no kernel"),
    ("no kernels", lambda each: each.rows[KERNEL].clear(), [], "has no kernel"),
    ("damaged times", lambda _: 0, [f"UPDATE {KERNEL} SET end = start - 1"], "has no kernel"),
    ("times years apart", lambda each: each.kernel("k", thread_of(1), (10**16, 10**16 + 5),
     (10**16 + 9, 10**16 + 20)), [], "days before"),
    ("a rank beyond its communicator", lambda each: each.range("ncclCommInitRank", thread_of(1),
     1, 2, payload(COMMUNICATOR, "<QiiiI", 99, 2, 2, 0, 0)), [], "rank 2 of 2 ranks"),
    ("two devices of one rank", lambda each: each.range("ncclCommInitRank", thread_of(1), 1, 2,
     payload(COMMUNICATOR, "<QiiiI", 99, 2, 1, 0, 0)), [], "two devices are its rank 1"),
    ("other calls on another rank", lambda each: each.rows[KERNEL].pop(), [], "calls it 1 times"),
    ("no CUDA", lambda _: 0, [f"DROP TABLE {name}" for name in (
        KERNEL, "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "NVTX_EVENTS",
        "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
        "CUPTI_ACTIVITY_KIND_CUDA_EVENT")], "an export of Nsight Systems without CUDA"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "after", "said"), [row[1:] for row in BAD], ids=[row[0] for row in BAD]
)
def test_bad_input(
    change: Callable[[Export], object], after: list[str], said: str, tmp_path: Path
) -> None:
    export = small()
    change(export)
    assert said in refused([export.write(tmp_path / "a.sqlite", *after)])[0]


@pytest.mark.parametrize("at", [16, 100, 1000, 5000, 9000, 20_000])
def test_cut_databases(at: int, tmp_path: Path) -> None:
    path = small().write(tmp_path / "a.sqlite")
    path.write_bytes(path.read_bytes()[:at])
    assert refused([path])


def test_a_schema_that_never_ends_is_bounded(tmp_path: Path) -> None:
    """A table of texts without a key makes each look-up a walk: work grows with the square."""
    export = small(1)
    for number in range(1500):
        export.string(f"name {number}")
        export.range(f"{number}", thread_of(1), number, number + 1)
    export.rows["NVTX_EVENTS"] = [
        (*row[:3], None, row[4], 1 + place % 1500, 0, None)
        for place, row in enumerate(export.rows["NVTX_EVENTS"] * 8)
    ]
    after = ("ALTER TABLE StringIds RENAME TO old", "CREATE TABLE StringIds (id INT, value TEXT)",
             "INSERT INTO StringIds SELECT 1, printf('%d', a.id) FROM old a, old b LIMIT 20000",
             "INSERT INTO StringIds SELECT id, value FROM old")  # fmt: skip
    path = export.write(tmp_path / "a.sqlite", *after)
    assert "takes more work than a database of its size can need" in refused([path])[0]


def test_a_value_may_not_be_huge(tmp_path: Path) -> None:
    export = small(1)
    export.range("x" * (2**24 + 10), thread_of(1), 0, 5)
    assert "too big" in refused([export.write(tmp_path / "a.sqlite")])[0]


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = small().write(tmp_path / "a.sqlite")
    monkeypatch.setenv("ARMILLARY_MEMORY", "10 KB")
    assert "more events than this machine's memory can hold" in refused([path])[0]


def test_nothing_is_written_or_run(tmp_path: Path) -> None:
    """A trigger is never run, and a file next to the database is never looked at."""
    path = small().write(tmp_path / "a.sqlite", f"CREATE TRIGGER t AFTER INSERT ON {KERNEL} BEGIN "
                         "SELECT raise(ABORT, 'run'); END")  # fmt: skip
    before = path.read_bytes()
    journal = tmp_path / "a.sqlite-journal"
    journal.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\0" * 504)
    import_traces([path])
    assert path.read_bytes() == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.sqlite", "a.sqlite-journal"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", 0), (b"\0" * 31, 0), (payload(MESSAGE, "<QQ", 99, 4096)[:-1], 0),
        (payload(MESSAGE, "<Q", 99), 0), (payload(777, "<QQ", 99, 4096), 0),
        (payload(MESSAGE, "<QQQ", 99, 4096, 5), 1),
    ],
)  # fmt: skip
def test_payloads_that_their_schema_does_not_fit(data: bytes, said: int, tmp_path: Path) -> None:
    export = small(1)
    export.range(
        "ncclCommInitRank", thread_of(1), 0, 9, payload(COMMUNICATOR, "<QiiiI", 7, 2, 0, 0, 0)
    )
    events = export.rows["NVTX_EVENTS"]
    changed = [
        (*row[:7], data) if row[5] == export.string("ncclAllReduce") else row for row in events
    ]
    export.rows["NVTX_EVENTS"] = [
        row for row in changed if row[7] != payload(COMMUNICATOR, "<QiiiI", 99, 1, 0, 0, 0)
    ]
    [row] = import_traces([export.write(tmp_path / "a.sqlite")]).ranks
    assert row.sized == said


def test_schemas_that_contradict_each_other_are_not_used(tmp_path: Path) -> None:
    export = small(2)
    export.add("NVTX_PAYLOAD_SCHEMA_ENTRIES", 1, MESSAGE, 1, 22, "Bytes", None, 16)
    assert len(SCHEMAS[PEER]) == 3
    imported = import_traces([export.write(tmp_path / "a.sqlite")])
    assert [row.sized for row in imported.ranks] == [0, 0]


def test_files_of_one_run_need_their_ranks(tmp_path: Path) -> None:
    paths = []
    for number in range(2):
        export = small(1)
        export.rows["NVTX_EVENTS"] = [row for row in export.rows["NVTX_EVENTS"] if row[3]]
        paths.append(export.write(tmp_path / f"run{number}.sqlite"))
    assert "neither NCCL's communicators nor the file's name" in refused(paths)[0]
    named = [path.rename(tmp_path / f"run_rank{3 - n}.sqlite") for n, path in enumerate(paths)]
    assert [row.rank for row in import_traces(named).ranks] == [2, 3]


def test_a_peer_that_its_group_does_not_have(tmp_path: Path) -> None:
    export = small()
    thread = thread_of(1)
    export.range("ncclSend", thread, 61_000, 65_000, payload(PEER, "<QQiI", 99, 64, 2, 0))
    export.kernel("ncclDevKernel_SendRecv(a)", thread, (62_000, 63_000), (64_000, 70_000), 20)
    said = refused([export.write(tmp_path / "a.sqlite")])[0]
    assert "a send of group '0x63' names rank 2 of 2" in said


def test_exports_stand_alone(tmp_path: Path) -> None:
    path = small().write(tmp_path / "a.sqlite")
    other = tmp_path / "b.json"
    other.write_text('{"traceEvents": []}')
    assert any("next to other recordings" in each for each in refused([path, other]))


@pytest.mark.parametrize(
    ("calls", "kernels", "sized"),
    [
        (["ncclAllReduce", "ncclAllReduce"], ["AllReduce"], 2),
        (["ncclAllReduce", "ncclAllGather"], ["AllReduce", "AllGather"], 2),
        (["ncclAllReduce", "ncclAllReduce"], ["AllReduce", "AllReduce"], 2),
        (["ncclAllReduce"] * 3, ["AllReduce"] * 2, 0),
        (["ncclAllGather"], ["AllReduce"], 0),
        ([], ["AllReduce"], 0),
    ],
)
def test_groups_of_calls(calls: list[str], kernels: list[str], sized: int, tmp_path: Path) -> None:
    """A kernel has the calls of its group where that is clear; the others have no size, and say
    so."""
    export, thread = small(1), thread_of(1)
    export.range("ncclCommInitRank", thread, 0, 9, payload(COMMUNICATOR, "<QiiiI", 7, 2, 0, 0, 0))
    export.range("ncclGroupStart", thread, 10_000, 10_001)
    for place, name in enumerate(calls):
        data = payload(MESSAGE, "<QQ", 7, 100 + place)
        export.range(name, thread, 10_010 + 10 * place, 10_015 + 10 * place, data)
    export.range("ncclGroupEnd", thread, 11_000, 30_000)
    for place, name in enumerate(kernels):
        at = 12_000 + 3000 * place
        export.kernel(
            f"ncclDevKernel_{name}(a)", thread, (at, at + 2000), (at + 2500, at + 2900), 21
        )
    export.rows["CUPTI_ACTIVITY_KIND_RUNTIME"] = [
        row for row in export.rows["CUPTI_ACTIVITY_KIND_RUNTIME"] if row[1] < 50_000
    ]
    path = export.write(tmp_path / "a.sqlite")
    imported = import_traces([path], groups={"0x7": [0, 1]}, ranks=None)
    [row] = imported.ranks
    assert row.sized == sized
    assert (sized == 0) == any("have no call with a payload" in note for note in imported.notes)


def test_bytes_that_cannot_be(tmp_path: Path) -> None:
    export = small()
    events = export.rows["NVTX_EVENTS"]
    huge = payload(MESSAGE, "<QQ", 99, 2**64 - 1)
    export.rows["NVTX_EVENTS"] = [
        (*row[:7], huge) if row[5] == export.string("ncclAllReduce") else row for row in events
    ]
    assert (
        "has 18,446,744,073,709,551,615 bytes" in refused([export.write(tmp_path / "a.sqlite")])[0]
    )


def test_a_call_without_a_kernel_is_not_that_of_the_next_group(tmp_path: Path) -> None:
    """A call that a CUDA graph captures launches nothing."""
    export, thread = small(), thread_of(1)
    lost = payload(MESSAGE, "<QQ", 99, 777)
    export.range("ncclAllReduce", thread, 61_000, 61_500, lost)
    for rank in range(2):
        own = thread_of(1 + rank)
        export.range("ncclGroupStart", own, 62_000, 62_001)
        export.range("ncclAllReduce", own, 62_010, 62_020, payload(MESSAGE, "<QQ", 99, 1000))
        export.range("ncclGroupEnd", own, 63_000, 66_000)
        export.kernel("ncclDevKernel_AllReduce(a)", own, (64_000, 65_000), (66_000, 70_000), 20)
    [first, *_] = import_traces([export.write(tmp_path / "a.sqlite")]).workload.summary.classes  # type: ignore[union-attr]
    assert [(each.kind, each.bytes) for each in first.volumes] == [("all_reduce", 4096 + 1000)]
