"""Dumps of PyTorch's flight recorder: what is read, which ranks are missing, what is refused.

The files in `data/flight_recorder` are real: PyTorch 2.14.1 with Gloo on four processes, November
30, 2026. In `hang_*`, rank 2 does not call the tenth collective, an all-reduce. In `groups_*`, the
ranks are also in the groups 1 and 2, of two ranks each."""

from __future__ import annotations

import json
import pickle
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Armillary
from thorough import usually

from armillary.errors import InputError
from armillary.workload.importer import Imported, import_traces

DATA = ROOT / "tests/python/data/flight_recorder"
GROUPS = {"1": [0, 1], "2": [2, 3]}
Dump = dict[str, Any]
Group = tuple[int, ...]


def real(kind: str) -> list[Path]:
    return [DATA / f"{kind}_rank_{rank}" for rank in range(4)]


def test_a_hang_is_named() -> None:
    imported = import_traces(real("hang"))
    [missing] = imported.missing
    assert (missing.ranks, missing.waiting, missing.first) == ((2,), (0, 1, 3), True)
    assert imported.notes[0] == (
        "all_reduce 10 of group '0' (default_pg), 1,048,576 bytes: rank 2 has not called it, ranks "
        "0, 1 and 3 wait; its last call is broadcast 9 of group '0' (default_pg)"
    )
    assert imported.total is not None
    assert imported.total.collectives == 4 * 9


def test_all_calls_and_sizes_are_those_of_the_script() -> None:
    """Three times: 1,000 numbers for all, 500 in the own half, an all-gather, a barrier."""
    imported = import_traces(real("groups"), groups=GROUPS)
    assert imported.missing == ()
    summary = imported.workload.summary
    assert summary is not None
    assert len(summary.classes) == 4
    for each in summary.classes:
        volumes = {(part.kind, part.count, part.bytes) for part in each.volumes}
        whole = {("all_reduce", 3, 12_000), ("all_gather", 3, 12_000), ("barrier", 3, 0)}
        assert volumes == whole | {("all_reduce", 3, 6000)}


def test_json_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "rank_0.json").write_bytes((DATA / "groups_rank_0.json").read_bytes())
    files = [tmp_path / "rank_0.json", *real("groups")[1:]]
    text, pickled = (import_traces(paths, groups=GROUPS) for paths in (files, real("groups")))
    assert text.notes == pickled.notes
    assert text.workload.operations == pickled.workload.operations


def test_on_the_command_line(armillary: Armillary, tmp_path: Path) -> None:
    ran = armillary("import", *real("hang"), "-o", "job", "--json", "said.json")
    assert ran.returncode == 0, ran.stderr
    assert "rank 2 has not called it" in " ".join(ran.stdout.split())
    said = json.loads((tmp_path / "said.json").read_text(encoding="utf-8"))
    assert said["missing"][0]["ranks"] == [2]
    ran = armillary("run", "job", "-p", "dgx-h100", "--npus", "4")
    assert ran.returncode == 0, ran.stderr


class Job:
    """A drawn job: groups along two axes, calls in one order, each rank's times and durations."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        inner, outer = self.draw.choice([(2, 2), (2, 4), (4, 2), (3, 3)])
        self.world = inner * outer
        rows = [tuple(range(at, at + inner)) for at in range(0, self.world, inner)]
        columns = [tuple(range(at, self.world, inner)) for at in range(inner)]
        self.groups: list[Group] = [tuple(range(self.world)), *rows, *columns]
        self.calls = [self._call() for _ in range(self.draw.randint(20, 60))]
        self.joined: set[int] = set()
        """Calls that are made together with the one before, under one number."""
        for at in range(1, len(self.calls)):
            if self.draw.random() < 0.2:
                self.calls[at] = (self.calls[at - 1][0], *self.calls[at][1:])
                self.joined.add(at)
        self.made = dict.fromkeys(range(self.world), len(self.calls))
        self.first = dict.fromkeys(range(self.world), 0)

    def _call(self) -> tuple[Group, str, int]:
        kind = self.draw.choice(["all_reduce", "_reduce_scatter_base", "_all_gather_base"])
        return self.draw.choice(self.groups), kind, self.draw.randint(1, 4096)

    @property
    def numbers(self) -> list[int]:
        """The number of each call in its group."""
        found = []
        counts: dict[Group, int] = {}
        for at, (group, _, _) in enumerate(self.calls):
            counts[group] = counts.get(group, 0) + (at not in self.joined)
            found.append(counts[group])
        return found

    def dump(self, rank: int) -> Dump:
        names = {group: str(at) for at, group in enumerate(self.groups)}
        numbers = self.numbers
        own = [
            (at, call) for at, call in enumerate(self.calls[: self.made[rank]]) if rank in call[0]
        ]
        now, entries = 10**18 + self.draw.randint(0, 10**6), []
        for record, (at, (group, kind, count)) in enumerate(own):
            now += self.draw.randint(1000, 10**6)
            entries.append(
                {
                    "record_id": record, "process_group": (names[group], "mesh"),
                    "collective_seq_id": numbers[at], "p2p_seq_id": 0, "op_id": record,
                    "profiling_name": f"nccl:{kind}", "time_created_ns": now,
                    "input_sizes": [[count, 2]], "input_dtypes": ["BFloat16"], "is_p2p": False,
                    "state": "completed", "retired": True,
                    "duration_ms": self.draw.randint(1, 10**6) / 10**5,
                }
            )  # fmt: skip
        config = {
            name: {"name": name, "desc": "mesh", "ranks": str([*group])}
            for group, name in names.items()
            if rank in group
        }
        return {"version": "2.10", "pg_config": config, "entries": entries[self.first[rank] :]}

    def write(self, folder: Path) -> list[Path]:
        paths = []
        for rank in range(self.world):
            path = folder / f"nccl_trace_rank_{rank}"
            data = pickle.dumps(self.dump(rank), protocol=self.draw.choice([2, 4]))
            path.write_bytes(data)
            paths.append(path)
        return paths


@pytest.mark.parametrize("seed", range(usually(10, 200)))
def test_the_rank_that_stops_is_found(seed: int, tmp_path: Path) -> None:
    """All others go on and wait later: every group of the lost rank misses it alone."""
    job = Job(seed)
    lost, stop = job.draw.randrange(job.world), job.draw.randint(10, len(job.calls))
    job.made[lost] = stop
    expected = dict[Group, int]()
    for at, (group, _, _) in enumerate(job.calls):
        if at >= stop and lost in group:
            expected.setdefault(group, job.numbers[at])
    imported = import_traces(job.write(tmp_path))
    found = {tuple(sorted({*each.ranks, *each.waiting})): each for each in imported.missing}
    assert found.keys() == expected.keys()
    for group, each in found.items():
        assert each.ranks == (lost,)
        assert f" {expected[group]} of group '{job.groups.index(group)}' (mesh)" in each.call


@pytest.mark.parametrize("seed", range(usually(5, 100)))
def test_a_chain_of_waits_begins_at_its_cause(seed: int, tmp_path: Path) -> None:
    """Every rank waits for each call before it makes the next one."""
    job = Job(seed)
    lost = job.draw.randrange(job.world)
    stuck = {lost: job.draw.randint(10, len(job.calls) - 1)}
    for at, (group, _, _) in enumerate(job.calls):
        if any(stuck.get(rank, at + 1) <= at for rank in group):
            for rank in group:
                # It has made this call, and waits in it.
                stuck.setdefault(rank, at + 1)
    job.made |= stuck
    imported = import_traces(job.write(tmp_path))
    assert all(each.first == (lost in each.ranks) for each in imported.missing)
    firsts = [each.first for each in imported.missing]
    assert firsts == sorted(firsts, reverse=True)


@pytest.mark.parametrize("seed", range(usually(5, 100)))
def test_replayed_it_takes_the_longest_path(seed: int, tmp_path: Path) -> None:
    """Calls lost at the beginning of some buffers are left out on all members."""
    job = Job(seed)
    job.first |= {rank: job.draw.randint(0, 5) for rank in range(job.world)}
    dumps = [job.dump(rank) for rank in range(job.world)]
    paths = [tmp_path / f"dump{rank}" for rank in range(job.world)]
    for path, dump in zip(paths, dumps, strict=True):
        path.write_bytes(pickle.dumps(dump, protocol=2))
    imported = import_traces(paths)
    seen = [Counter(key(each) for each in dump["entries"]) for dump in dumps]
    for entry, dump in zip(imported.ranks, dumps, strict=True):
        first, now, ends = None, 0.0, dict[str, float]()
        for each in dump["entries"]:
            name, number = key(each)
            if len({seen[rank][name, number] for rank in job.groups[int(name)]}) == 1:
                first = each["time_created_ns"] if first is None else first
                now = each["time_created_ns"] - first
                ends[name] = max(now, ends.get(name, 0.0)) + each["duration_ms"] * 1e6
        assert entry.replayed_ps == pytest.approx(1000 * max([now, *ends.values()]), abs=100)


def key(entry: Dump) -> tuple[str, int]:
    return entry["process_group"][0], entry["collective_seq_id"]


def changed(change: Callable[[Dump], object]) -> Callable[[Dump], bytes]:
    def write(dump: Dump) -> bytes:
        change(dump)
        return pickle.dumps(dump, protocol=2)

    return write


def first(**values: object) -> Callable[[Dump], bytes]:
    return changed(lambda dump: dump["entries"][0].update(values))


def doubled(depth: int) -> list[Any]:
    """A list of a few bytes that would be 2**depth long if it were written out."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value, value]
    return value


BAD: dict[str, tuple[Callable[[Dump], bytes], str]] = {
    "cut": (lambda dump: pickle.dumps(dump, protocol=2)[:-40], "is a pickle that is damaged"),
    "runs code": (lambda _: b"\x80\x02cos\nsystem\n(X\x04\x00\x00\x00trueR.", "'os.system'"),
    "old": (changed(lambda dump: dump.update(version="1.5")), "unknown version of the dump: '1.5'"),
    "empty": (changed(lambda dump: dump["entries"].clear()), "holds no call"),
    "no list": (changed(lambda dump: dump.update(entries=7)), "has no list of entries"),
    "text": (changed(lambda dump: dump["entries"].append("x")), "is not a mapping"),
    "twice": (changed(lambda dump: dump["entries"].append(dump["entries"][0])), "several entries"),
    "negative": (first(input_sizes=[[-1]]), "invalid length: -1"),
    "huge": (first(input_sizes=[[2**59, 2**59]]), "bytes"),
    "grows": (first(time_created_ns=doubled(200)), "invalid number: a list"),
    "grows, too": (first(input_dtypes=[doubled(200)]), "something else than names of types"),
    "grows in a version": (changed(lambda dump: dump.update(version=doubled(200))), "a list"),
    "time": (first(time_created_ns=None), "invalid number: None"),
    "duration": (first(duration_ms=float("nan")), "invalid time: nan"),
    "group": (first(process_group="0"), "is not a name and a description"),
    "types": (first(input_dtypes=["Float"] * 3), "1 shapes and 3 types"),
    "peer": (first(profiling_name="nccl:send"), "does not name the other rank"),
    "far": (first(profiling_name="nccl:send 0->9"), "names member 9 of a group of"),
    "other": (first(profiling_name="nccl:all_to_all"), "is all_to_all on rank 0"),
    "size": (first(input_sizes=[[7]]), "has 14 bytes on rank 0"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_dumps_are_named_errors(kind: str, tmp_path: Path) -> None:
    job = Job(1)
    job.calls[0] = (job.groups[0], "all_reduce", 100)
    paths = job.write(tmp_path)
    write, said = BAD[kind]
    paths[0].write_bytes(write(job.dump(0)))
    with pytest.raises(InputError) as caught:
        import_traces(paths)
    assert said in str(caught.value)
    assert all(problem.help for problem in caught.value.problems)


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    def said(paths: list[Path], step: int | None = None) -> str:
        with pytest.raises(InputError) as caught:
            import_traces(paths, step=step)
        return str(caught.value)

    unnamed = tmp_path / "dump"
    unnamed.write_bytes((DATA / "hang_rank_0").read_bytes())
    assert "does not give the rank" in said([unnamed])
    assert "is in several files" in said([DATA / "hang_rank_0", DATA / "groups_rank_0"])
    assert "marks no steps" in said(real("hang"), step=3)
    assert "group '1': has no list of its members" in said(real("groups"))


def messages(folder: Path, first_record: int, *names: list[str]) -> Imported:
    """Two ranks with these calls."""
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    for rank, own in enumerate(names):
        entries = [
            {
                "record_id": first_record + at, "process_group": ("0", "default_pg"),
                "collective_seq_id": 1, "profiling_name": f"nccl:{name}", "state": "completed",
                "time_created_ns": 10**18 + at, "input_sizes": [[8]], "input_dtypes": ["Float"],
            }
            for at, name in enumerate(own)
        ]  # fmt: skip
        dump = {"version": "2.9", "pg_config": config, "entries": entries}
        (folder / f"rank_{rank}").write_bytes(pickle.dumps(dump, protocol=2))
    return import_traces([folder])


def test_sends_meet_their_receives(tmp_path: Path) -> None:
    sends = ["all_reduce", "send 0->1", "send 0->1", "coalesced"]
    receives = ["all_reduce", "recv 1<-0"]
    imported = messages(tmp_path, 0, sends, receives)
    [missing] = imported.missing
    assert (missing.ranks, missing.waiting) == ((1,), (0,))
    assert imported.total is not None
    assert imported.total.messages == 2
    assert [each.count for each in imported.total.omissions] == [1, 1]  # a send, and "coalesced"
    with pytest.raises(InputError, match="messages can't be paired"):
        messages(tmp_path, 7, sends, receives)
