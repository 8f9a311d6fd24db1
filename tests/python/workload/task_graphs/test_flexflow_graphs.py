"""Task graphs of FlexFlow: totals of real files, the longest path of drawn ones, bad input."""

from __future__ import annotations

import gzip
import importlib
import random
import struct
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Armillary
from thorough import usually

import armillary as arm
from armillary.errors import InputError
from armillary.workload.importer import import_traces
from armillary.workload.task_graphs import flexflow

DATA = ROOT / "tests/python/data/flexflow"
SMALL = DATA / "flexnet_taskgraph_small.fbuf.gz"
SAMPLES = ROOT.parent / "shared/samples/flexflow"
FORWARD, BACKWARD, MESSAGE, ALL_REDUCE = 0, 1, 5, 6


def field_of(data: bytes, at: int, number: int) -> int:
    """Where a field of the table is, after the format's own description; 0 without it."""
    table = at - struct.unpack_from("<i", data, at)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", data, table)[0]:
        return 0
    offset: int = struct.unpack_from("<H", data, table + 4 + 2 * number)[0]
    return at + offset if offset else 0


def vector(data: bytes, at: int, number: int) -> Iterator[int]:
    """Places of the tables in a vector."""
    place = field_of(data, at, number)
    start = place + struct.unpack_from("<I", data, place)[0]
    for each in range(struct.unpack_from("<I", data, start)[0]):
        yield start + 4 + 4 * each + struct.unpack_from("<I", data, start + 4 + 4 * each)[0]


@dataclass
class Totals:
    """Of a file, by type of task."""

    nodes: int
    tasks: Counter[int] = field(default_factory=Counter)
    bytes: Counter[int] = field(default_factory=Counter)
    ms: Counter[int] = field(default_factory=Counter)
    reduced: list[tuple[int, int]] = field(default_factory=list)
    """Members and bytes of each all-reduce."""


def totals(data: bytes, monkeypatch: pytest.MonkeyPatch) -> Totals:
    """What the reader finds that `flatc` generates from the schema."""
    reason = "the reader that flatc generates needs flatbuffers (requirements/extras.txt)"
    pytest.importorskip("flatbuffers", reason=reason)
    monkeypatch.syspath_prepend(DATA)
    graph = importlib.import_module("FlatBufTaskGraph.TaskGraph").TaskGraph.GetRootAs(data)
    found = Totals(graph.Nnode())
    for at in range(graph.TasksLength()):
        task = graph.Tasks(at)
        kind = task.Type()
        found.tasks[kind] += 1
        found.bytes[kind] += task.Xfersize()
        found.ms[kind] += task.Runtime()
        if kind == ALL_REDUCE:
            found.reduced.append((task.NexttasksLength(), task.Xfersize()))
    return found


def graphs() -> list[Path]:
    """All graphs of the samples, and the one that is here; by itself where they are missing."""
    there = [each for each in sorted(SAMPLES.glob("*.fbuf*")) if each.name not in SMALL.name]
    return [SMALL, *there]


def content(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


COARSE: dict[str, dict[str, object]] = {
    "packet": {"network.packet.mtu": 9000},
    "flit": {
        "network.flit.cycle": "5 us",
        "network.flit.flit": "250 kB",
        "network.flit.packet": "1 MB",
    },
}
"""Fewer packets and flits than of real networks, which would take minutes."""


@pytest.mark.parametrize("path", graphs(), ids=lambda path: path.name)
def test_all_graphs_run_on_every_network_with_the_totals_of_their_files(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks, bytes and run times, of the graph as it is read and of the run."""
    data = content(path)
    file = totals(data, monkeypatch)
    graph = flexflow.read(path.name, data)
    assert Counter(int(task.kind) for task in graph.tasks) == file.tasks
    assert {*file.tasks} <= {FORWARD, BACKWARD, MESSAGE, ALL_REDUCE}
    for kind in file.tasks:
        assert sum(task.bytes for task in graph.tasks if task.kind == kind) == file.bytes[kind]
    workload, _ = flexflow.import_graph(path.name, data)
    assert workload.ranks == file.nodes
    reduced = [(members, size) for members, size in file.reduced if members > 1]
    count = file.tasks[FORWARD] + file.tasks[BACKWARD] + 2 * file.tasks[MESSAGE]
    assert workload.operations == count + sum(members for members, _ in reduced)
    computed_ns = 1e6 * (file.ms[FORWARD] + file.ms[BACKWARD])
    for backend in ("analytical", "link", "flow", "packet", "flit"):
        settings: dict[str, object] = {"network.model": backend, **COARSE.get(backend, {})}
        topology = f"Switch({workload.ranks})"
        platform = arm.Platform(topology, bandwidth="50 GB/s", latency="1 us", settings=settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a run of some seconds
            report = arm.simulate(workload, platform).report
        rows = report["classes"]
        computes = sum(row["compute_ns"] * row["count"] for row in rows)
        assert computes == pytest.approx(computed_ns, rel=1e-6)
        sent, joined = Counter[str](), Counter[str]()
        for row in report["operations"]:
            sent[row["kind"]] += row["bytes"]
            joined[row["kind"]] += row["count"]
        assert sent["send"] == file.bytes[MESSAGE]
        assert joined["send"] == joined["recv"] == file.tasks[MESSAGE]
        assert sent["all_reduce"] == sum(members * size for members, size in reduced)
        assert report["step_time_ns"] >= max(row["compute_ns"] for row in rows)


def test_on_the_command_line(armillary: Armillary) -> None:
    ran = armillary("import", SMALL, "-o", "job")
    assert ran.returncode == 0, ran.stderr
    assert "searched with links of 6.25 GB/s" in " ".join(ran.stdout.split())
    ran = armillary("run", "job", "-p", "dgx-h100", "--npus", "12")
    assert ran.returncode == 0, ran.stderr
    ran = armillary("import", SMALL, "-o", "job", "--step", "3")
    assert ran.returncode == 2
    assert "has no effect on a task graph" in ran.stderr


@dataclass
class Drawn:
    """A graph with these fields, as a file."""

    nodes: int = 4
    switches: int = 1
    gpus: int = 1
    tasks: list[dict[str, Any]] = field(default_factory=list)
    devices: list[tuple[int, int, int]] = field(default_factory=list)

    def task(self, kind: int, device: int, time: float = 0, size: int = 0, *after: int) -> int:
        number = 1000 + len(self.tasks)
        self.tasks.append(
            {"kind": kind, "id": number, "device": device, "time": time, "size": size}
            | {"next": [*after]}
        )
        return number

    def data(self) -> bytes:
        """Tables before what they point to, as the format wants it."""
        out = bytearray(4)
        tasks = [
            {
                0: ("h", each["kind"]), 1: ("Q", each["id"]), 2: ("Q", each["device"]),
                3: ("f", each["time"]), 4: ("Q", each["size"]), 5: ("Qs", each["next"]),
            }
            for each in self.tasks
        ]  # fmt: skip
        devices = [{0: ("h", a), 1: ("Q", b), 3: ("Q", c)} for a, b, c in self.devices]
        root = {
            0: ("I", self.gpus), 1: ("I", self.nodes), 2: ("I", self.switches),
            5: ("f", 1e6), 8: ("tables", tasks), 9: ("tables", devices),
        }  # fmt: skip
        struct.pack_into("<I", out, 0, self._table(out, root))
        return bytes(out)

    def _table(self, out: bytearray, fields: dict[int, tuple[str, Any]]) -> int:
        offsets, body, later = [0] * 10, bytearray(4), []
        for number, (form, value) in fields.items():
            offsets[number] = len(body)
            if form in ("Qs", "tables"):
                later.append((len(body), form, value))
                body += bytes(4)
            else:
                body += struct.pack(f"<{form}", value)
        table = len(out)
        out += struct.pack("<12H", 24, len(body), *offsets)
        struct.pack_into("<i", body, 0, len(out) - table)
        at = len(out)
        out += body
        for place, form, value in later:
            struct.pack_into("<I", out, at + place, len(out) - at - place)
            start = len(out) + 4
            out += struct.pack("<I", len(value))
            if form == "Qs":
                out += struct.pack(f"<{len(value)}Q", *value)
                continue
            out += bytes(4 * len(value))
            for each, inner in enumerate(value):
                where = start + 4 * each
                struct.pack_into("<I", out, where, self._table(out, inner) - where)
        return at


def gpus_and_paths(drawn: Drawn) -> Drawn:
    """A GPU for each node, numbered as the node, and a path between any two."""
    width = drawn.nodes + drawn.switches
    drawn.devices = [(0, node, node) for node in range(drawn.nodes)]
    drawn.devices += [
        (14, 100 + width * a + b, width * a + b)
        for a in range(drawn.nodes)
        for b in range(drawn.nodes)
        if a != b
    ]
    return drawn


def chains(seed: int) -> tuple[Drawn, float]:
    """A chain of tasks on each node, messages between chains, and the longest path in ms where
    messages take no time."""
    draw = random.Random(seed)
    drawn = gpus_and_paths(Drawn(nodes=draw.randint(2, 6), switches=draw.randint(0, 2)))
    width = drawn.nodes + drawn.switches
    steps = [
        (draw.randrange(drawn.nodes), round(draw.uniform(0.01, 2), 3))
        for _ in range(draw.randint(5, 40))
    ]
    ends: list[float] = []
    last: dict[int, int] = {}
    after: list[list[int]] = [[] for _ in steps]
    messages: list[tuple[int, int]] = []
    for at, (node, time) in enumerate(steps):
        begin = 0.0
        if node in last:
            after[last[node]].append(at)
            begin = ends[last[node]]
        source = draw.randrange(at) if at else 0
        if at and steps[source][0] != node and draw.random() < 0.5:
            messages.append((source, at))
            begin = max(begin, ends[source])
        ends.append(begin + time)
        last[node] = at
    for at, (node, time) in enumerate(steps):
        own = [1000 + each for each in after[at]]
        own += [1000 + len(steps) + k for k, (source, _) in enumerate(messages) if source == at]
        drawn.task(draw.choice([FORWARD, BACKWARD]), node, time, 0, *own)
    for source, target in messages:
        device = 100 + width * steps[source][0] + steps[target][0]
        drawn.task(MESSAGE, device, 1, 64, 1000 + target)
    return drawn, max(ends)


@pytest.mark.parametrize("seed", range(usually(10, 300)))
def test_without_a_network_the_step_is_the_longest_path(seed: int) -> None:
    drawn, longest = chains(seed)
    workload, _ = flexflow.import_graph("graph", drawn.data())
    fast = arm.Platform(f"Switch({drawn.nodes})", bandwidth="1000000 GB/s", latency="0 ns")
    step = arm.simulate(workload, fast).step_time_ns / 1e6
    assert step == pytest.approx(longest, rel=1e-5)


def one(change: Callable[[Drawn], object]) -> Callable[[], bytes]:
    """A small sound graph, changed."""

    def write() -> bytes:
        drawn = gpus_and_paths(Drawn())
        last = drawn.task(BACKWARD, 1, 2.0)
        message = drawn.task(MESSAGE, 101, 1.0, 64, last)
        drawn.task(FORWARD, 0, 1.0, 0, message)
        drawn.task(ALL_REDUCE, 0, 0, 4096, 0, 1)
        change(drawn)
        return drawn.data()

    return write


def of_task(place: int, **values: object) -> Callable[[], bytes]:
    return one(lambda drawn: drawn.tasks[place].update(values))


BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "cut": (lambda: one(lambda _: None)()[:-200], "is damaged"),
    "several GPUs": (one(lambda drawn: setattr(drawn, "gpus", 2)), "2 GPUs in a node"),
    "type": (of_task(0, kind=9), "unknown type of a task: 9"),
    "barrier": (of_task(0, kind=4), "is a barrier"),
    "device": (of_task(0, device=77), "has a device that is not there"),
    "wrong device": (of_task(0, device=101), "has a device of type 14"),
    "next": (of_task(0, next=[5]), "names a task that is not there: 5"),
    "circle": (of_task(0, next=[1002]), "in a circle"),
    "other rank": (of_task(2, next=[1000]), "waits for tasks[2], which ends on rank 0"),
    "time": (of_task(0, time=float("nan")), "invalid time: nan ms"),
    "negative": (of_task(0, time=-1.0), "invalid time: -1.0 ms"),
    "size": (of_task(1, size=2**61), "invalid size"),
    "twice": (of_task(0, id=1001), "several have one taskid"),
    "node": (of_task(3, next=[0, 9]), "is on node 9"),
    "members": (of_task(3, next=[0, 0]), "is not a list of nodes"),
    "nodes": (one(lambda drawn: setattr(drawn, "nodes", 2**17)), "is binary data"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_graphs_are_named_errors(kind: str, tmp_path: Path) -> None:
    write, said = BAD[kind]
    (tmp_path / "graph.fbuf").write_bytes(write())
    with pytest.raises(InputError) as caught:
        import_traces([tmp_path / "graph.fbuf"])
    assert said in str(caught.value)
    assert all(problem.help for problem in caught.value.problems)


def test_a_sound_one_is_taken(tmp_path: Path) -> None:
    (tmp_path / "graph.fbuf").write_bytes(one(lambda _: None)())
    assert import_traces([tmp_path / "graph.fbuf"]).workload.ranks == 4
    (tmp_path / "other.fbuf").write_bytes(one(lambda _: None)())
    with pytest.raises(InputError, match="next to other files"):
        import_traces([tmp_path])


def test_tables_that_share_a_vector_do_not_read_it_again_and_again() -> None:
    """A file of 160 kB, which would be 400 MB if it were written out."""
    drawn = Drawn(nodes=5000)
    for _ in range(2000):
        drawn.task(ALL_REDUCE, 0, 0, 1)
    shared = drawn.task(ALL_REDUCE, 0, 0, 1, *range(5000))
    data = bytearray(drawn.data())
    places = [*vector(bytes(data), struct.unpack_from("<I", data)[0], 8)]
    target = field_of(bytes(data), places[-1], 5)
    target += struct.unpack_from("<I", data, target)[0]
    for place in places[:-1]:
        own = field_of(bytes(data), place, 5)
        struct.pack_into("<I", data, own, target - own)
    assert shared == 3000  # the number of the last task
    with pytest.raises(InputError, match="vectors longer than the file"):
        flexflow.read("graph", bytes(data))
