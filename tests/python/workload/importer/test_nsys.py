"""Exports of Nsight Systems: drawn runs against a model of their own, a real one, bad input."""

from __future__ import annotations

import gzip
import random
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ROOT, Armillary
from nsys_export import (
    COMMUNICATOR,
    MESSAGE,
    PEER,
    Export,
    payload,
    process_of,
    refused,
    small,
    thread_of,
)
from thorough import usually

import armillary as arm
from armillary.workload.importer import Imported, import_traces

SAMPLE = ROOT.parent / "shared/samples/nsys/nsysai_h100_2gpu_1s.sqlite.gz"
US = 1000
COMPUTE, COMMUNICATION = (7, 13), 20
LAUNCH, RETURN = 5 * US, 3 * US
NAMES = {
    "all_reduce": ("ncclAllReduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(args)"),
    "all_gather": ("ncclAllGather", "ncclDevKernel_AllGather_RING_LL(args)"),
    "reduce_scatter": ("ncclReduceScatter", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(args)"),
    "all_to_all": ("", "ncclDevKernel_SendRecv(args)"),
}
LAYOUTS = ("processes", "isolated", "threads", "files")


@dataclass
class Op:
    """An operation of every rank's step."""

    kind: str
    stream: int = 0
    halves: bool = False
    bytes: int = 0
    awaited: bool = False


class Job:
    """A run of drawn steps. Kernels start when their launch has returned and their stream is free;
    a collective ends when its last member has begun, and its duration after that."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = random.Random(seed)
        self.world = draw.randint(1, 8)
        self.layout = draw.choice(LAYOUTS)
        self.says_communicators = draw.random() < 0.6
        self.order = [*range(self.world)]
        if self.says_communicators:
            draw.shuffle(self.order)
        self.ops = [Op("compute", COMPUTE[0]), *(self._op() for _ in range(draw.randint(0, 8)))]
        self.steps = draw.randint(1, 3)
        self.first = draw.randint(0, 50)
        shape = self.steps, len(self.ops), self.world
        self.gaps = self._drawn(shape, 10 * US, 60 * US)
        self.lengths = self._drawn(shape, 1500 * US, 4000 * US)
        self.begin = [draw.randint(0, 200 * US) for _ in range(self.world)]
        self.spans: list[list[int]] = []
        self.files = [Export() for _ in range(self.world if self.layout == "files" else 1)]

    def _drawn(self, shape: tuple[int, int, int], low: int, high: int) -> list[list[list[int]]]:
        steps, ops, ranks = shape
        return [
            [[self.draw.randint(low, high) for _ in range(ranks)] for _ in range(ops)]
            for _ in range(steps)
        ]

    def _op(self) -> Op:
        draw = self.draw
        if self.world == 1 or draw.random() < 0.5:
            return Op("compute", draw.choice(COMPUTE))
        halves = self.world >= 4 and self.world % 2 == 0 and draw.random() < 0.5
        size = self.world * draw.randint(1, 10**6)
        return Op(draw.choice([*NAMES]), COMMUNICATION, halves, size, draw.random() < 0.5)

    def members(self, op: Op, rank: int) -> list[int]:
        """A communicator's ranks in order: all, or a half."""
        if not op.halves:
            return [*range(self.world)]
        half = self.world // 2
        return [*range(half)] if rank < half else [*range(half, self.world)]

    def communicator(self, op: Op, rank: int) -> int:
        return 0xABC0000000000001 + (1 + (rank >= self.world // 2) if op.halves else 0)

    def place(self, rank: int) -> tuple[Export, int, int]:
        """A rank's file, thread and device."""
        slot = self.order[rank]
        file = self.files[rank if self.layout == "files" else 0]
        if self.layout == "threads":
            return file, thread_of(1, 1 + slot), slot
        return file, thread_of(1 + slot), slot if self.layout == "processes" else 0

    def step(self, number: int, begin: Sequence[int], is_free: bool = False) -> list[int]:
        """When each rank ends a step; with free communication nothing is recorded."""
        now = [*begin]
        free: list[Counter[int]] = [Counter() for _ in range(self.world)]
        last = [COMPUTE[0]] * self.world
        for place, op in enumerate(self.ops):
            starts = []
            for rank in range(self.world):
                now[rank] += self.gaps[number][place][rank]
                if op.stream != last[rank]:
                    self._wait(rank, now, free, last[rank], op.stream, is_free)
                if op.kind == "compute":
                    last[rank] = op.stream
                starts.append(max(now[rank] + LAUNCH, free[rank][op.stream]))
                now[rank] += LAUNCH
            for rank in range(self.world):
                length = self.lengths[number][place][rank]
                end = starts[rank] + length
                if op.kind != "compute":
                    members = self.members(op, rank)
                    length = 0 if is_free else self.lengths[number][place][members[0]]
                    end = max(starts[other] for other in members) + length
                free[rank][op.stream] = end
                if not is_free:
                    self._record(op, rank, now[rank], (starts[rank], end))
                if op.awaited:
                    self._wait(rank, now, free, COMMUNICATION, last[rank], is_free)
        ends = []
        for rank in range(self.world):
            end = max(now[rank], *free[rank].values()) + RETURN
            ends.append(end)
            if not is_free:
                file, thread, _ = self.place(rank)
                file.call("cudaDeviceSynchronize_v3020", thread, now[rank], end)
        return ends

    def _wait(
        self,
        rank: int,
        now: list[int],
        free: list[Counter[int]],
        awaited: int,
        waiting: int,
        is_free: bool,
    ) -> None:
        free[rank][waiting] = max(free[rank][waiting], free[rank][awaited])
        if not is_free:
            file, thread, device = self.place(rank)
            file.wait(thread, now[rank], awaited, waiting, device)
        now[rank] += 2 * US

    def _record(self, op: Op, rank: int, returned: int, ran: tuple[int, int]) -> None:
        file, thread, device = self.place(rank)
        launch = (returned - LAUNCH, returned)
        name = NAMES[op.kind][1] if op.kind in NAMES else "ampere_sgemm_128x64_nn"
        file.kernel(name, thread, launch, ran, op.stream, device)
        if op.kind == "compute":
            return
        members, number = self.members(op, rank), self.communicator(op, rank)
        if op.kind != "all_to_all":
            part = op.bytes // len(members) if op.kind == "reduce_scatter" else op.bytes
            data = payload(MESSAGE, "<QQ", number, part)
            file.range(NAMES[op.kind][0], thread, launch[0] - 500, launch[1] + 500, data)
            return
        at = launch[0] - 1 * US
        file.range("ncclGroupStart", thread, at, at + 1)
        for peer in range(len(members)):
            part = op.bytes // len(members)
            data = payload(PEER, "<QQiI", number, part, peer, 0)
            for name in ("ncclSend", "ncclRecv"):
                at += 2
                file.range(name, thread, at, at + 1, data)
        file.range("ncclGroupEnd", thread, launch[0], launch[1])

    def write(self, folder: Path) -> list[Path]:
        """All steps, as files."""
        if self.says_communicators:
            for rank in range(self.world):
                file, thread, device = self.place(rank)
                for op in (Op("all_reduce"), Op("all_reduce", halves=True)):
                    members = self.members(op, rank) if self.world > 1 else [0]
                    values = (len(members), members.index(rank), device, 0)
                    data = payload(COMMUNICATOR, "<QiiiI", self.communicator(op, rank), *values)
                    file.range("ncclCommInitRank", thread, 10, 20, data)
        now = [1000 * US + begin for begin in self.begin]
        for number in range(self.steps):
            ends = self.step(number, now)
            for rank, (begin, end) in enumerate(zip(now, ends, strict=True)):
                file, thread, _ = self.place(rank)
                file.range(f"iteration {self.first + number}", thread, begin, end)
                file.range("forward", thread, begin + 1, end - 1)
            self.spans.append([end - begin for begin, end in zip(now, ends, strict=True)])
            now = [end + 20 * US for end in ends]
        names = [f"rank{number}.sqlite" for number in range(len(self.files))]
        return [file.write(folder / name) for file, name in zip(self.files, names, strict=True)]

    def volumes(self, rank: int) -> Counter[tuple[int, str]]:
        """Bytes of each kind in groups of each size."""
        found = Counter[tuple[int, str]]()
        for op in self.ops:
            if op.kind != "compute":
                found[len(self.members(op, rank)), op.kind] += op.bytes
        return found


def step_ns(imported: Imported) -> float:
    """The step on a network without any time of its own."""
    ranks = imported.workload.ranks
    platform = arm.Platform(f"Switch({ranks})", bandwidth="1000000 TB/s", latency="0 ns")
    return arm.simulate(imported.workload, platform).step_time_ns


@pytest.mark.parametrize("seed", range(usually(24, 400)))
def test_drawn_runs(seed: int, tmp_path: Path) -> None:
    """The replay takes as long as the recorded step. Without communication the step takes the
    longest path, which the drawn run knows from its own gaps and lengths."""
    job = Job(seed)
    imported = import_traces(job.write(tmp_path))
    assert imported.workload.ranks == job.world
    assert [row.rank for row in imported.ranks] == [*range(job.world)]
    number = imported.ranks[0].step - job.first
    for row in imported.ranks:
        assert row.recorded_ps == 1000 * job.spans[number][row.rank]
        assert row.replayed_ps == pytest.approx(row.recorded_ps, rel=0.01)
        assert (row.dropped, row.launch_share, row.sized_share) == (0, 1, 1)
    assert step_ns(imported) == pytest.approx(
        max(job.step(number, [0] * job.world, is_free=True)), rel=0.01
    )
    summary = imported.workload.summary
    assert summary is not None
    for rank in range(job.world):
        found = Counter[tuple[int, str]]()
        for each in summary.classes[rank].volumes:
            size = job.world // (2 if each.group else 1)
            found[size, each.kind] += each.bytes
        assert found == job.volumes(rank)


@pytest.mark.parametrize("seed", range(3))
def test_an_import_is_the_same_each_time(seed: int, tmp_path: Path) -> None:
    paths = Job(seed).write(tmp_path)
    packed = [path.with_suffix(".sqlite.gz") for path in paths]
    for path, other in zip(paths, packed, strict=True):
        other.write_bytes(gzip.compress(path.read_bytes()))
    first, second, third = import_traces(paths), import_traces(paths), import_traces(packed)
    assert first.as_dict() == second.as_dict()
    assert first.workload.summary == second.workload.summary
    assert [row.step_ps for row in first.ranks] == [row.step_ps for row in third.ranks]


@pytest.mark.skipif(not SAMPLE.is_file(), reason="the sample is not at hand (../shared/samples)")
def test_a_real_export(tmp_path: Path) -> None:
    """Two H100 of FastVideo, one second of it: counts and spans as SQL finds them."""
    path = tmp_path / "sample.sqlite"
    path.write_bytes(gzip.decompress(SAMPLE.read_bytes()))
    imported = import_traces([SAMPLE])
    connection = sqlite3.connect(path)
    device, call = "CUPTI_ACTIVITY_KIND_", "CUPTI_ACTIVITY_KIND_RUNTIME"
    for row in imported.ranks:
        counts = [
            connection.execute(
                f"SELECT count(*), sum(end - start) FROM {device}{kind} WHERE deviceId = ?",
                (row.rank,),
            ).fetchone()
            for kind in ("KERNEL", "MEMCPY", "MEMSET")
        ]
        assert row.kernels == counts[0][0] == 1721
        assert row.step_ops == sum(count for count, _ in counts)
        assert row.step_ps == 1000 * sum(time for _, time in counts)
        process, last = connection.execute(
            f"SELECT globalPid, max(end) FROM {device}KERNEL WHERE deviceId = ?", (row.rank,)
        ).fetchone()
        first, end = connection.execute(
            f"SELECT min(start), max(end) FROM {call} WHERE globalTid / 16777216 = ?",
            (process // 2**24,),
        ).fetchone()
        marks = connection.execute(
            "SELECT min(start), max(end) FROM NVTX_EVENTS WHERE text LIKE 'FSDP%' AND "
            "globalTid / 16777216 = ?",
            (process // 2**24,),
        ).fetchone()
        span = max(end, last, marks[1]) - min(first, marks[0])
        assert row.recorded_ps == pytest.approx(1000 * span, rel=0.001)
        assert row.replayed_ps == pytest.approx(row.recorded_ps, rel=0.01)
        launched = connection.execute(
            f"SELECT count(*) FROM {device}KERNEL WHERE deviceId = ? AND correlationId IN (SELECT "
            f"correlationId FROM {call} WHERE globalTid / 16777216 = ?)",
            (row.rank, process // 2**24),
        ).fetchone()
        assert row.launched_ops >= launched[0] == 816
    connection.close()
    assert any("2 devices are ranks in the order" in note for note in imported.notes)
    assert step_ns(imported) == pytest.approx(
        max(row.recorded_ps for row in imported.ranks) / 1000, rel=0.01
    )


def test_what_becomes_of_a_small_export(tmp_path: Path) -> None:
    imported = import_traces([small().write(tmp_path / "a.sqlite")])
    assert [row.step for row in imported.ranks] == [4, 4]
    assert [row.recorded_ps for row in imported.ranks] == [99_000_000] * 2
    [first, *_] = imported.workload.summary.classes  # type: ignore[union-attr]
    assert [(each.kind, each.bytes) for each in first.volumes] == [("all_reduce", 4096)]
    assert import_traces([tmp_path / "a.sqlite"], step=4).ranks == imported.ranks
    assert "has 4" in refused([tmp_path / "a.sqlite"], step=5)[0]


@pytest.mark.parametrize(
    ("names", "steps"),
    [
        (["step 7", "step 8"], {7, 8}),
        (["iteration12", "Iteration_13"], {12, 13}),
        (["ProfilerStep#1", "ProfilerStep#2"], {1, 2}),
        (["train_step", "train_step"], {0, 1}),
        (["batch 3", "batch 3"], {0, 1}),
        (["training iteration [5]", "training iteration [6]"], {5, 6}),
        (["forward", "backward"], {-1}),
        (["stepwise 1", "my step 2"], {-1}),
    ],
)
def test_ranges_that_are_steps(names: list[str], steps: set[int], tmp_path: Path) -> None:
    found = set()
    for place, step in enumerate(sorted(steps)):
        export, thread = Export(), thread_of(1)
        for number, name in enumerate(names):
            start = 100_000 * number
            export.range(name, thread, start, start + 90_000)
            # A shorter kind of step within the step is not the step.
            export.range(f"batch {number + 50}", thread, start + 10, start + 50_000)
            if steps == {-1}:
                export.rows["NVTX_EVENTS"].pop()
            export.kernel(
                "gemm", thread, (start + 1000, start + 2000), (start + 3000, start + 9000)
            )
        path = export.write(tmp_path / f"{place}.sqlite")
        chosen = None if step < 0 else step
        found |= {row.step for row in import_traces([path], step=chosen).ranks}
    assert found == steps


def test_layers_are_ranges_of_the_program(tmp_path: Path) -> None:
    """Operators of PyTorch and ranges of libraries do not become layers."""
    export, thread = Export(), thread_of(1)
    export.add("NVTX_EVENTS", 0, None, 75, "cuBLAS", thread, None, 3, None)
    export.range("aten::mm, op_id = 5", thread, 900, 50_000)
    export.add("NVTX_EVENTS", 950, 40_000, 59, "gemm of cuBLAS", thread, None, 3, None)
    export.range("FSDP::forward (layer0), op_id = 6", thread, 1000, 30_000)
    export.kernel("gemm", thread, (2000, 5000), (6000, 20_000))
    imported = import_traces([export.write(tmp_path / "a.sqlite")])
    imported.workload.write(tmp_path / "job", format="chakra")
    [program] = (tmp_path / "job").glob("*.et")
    assert b"FSDP::forward (layer0)" in program.read_bytes()
    assert b"cuBLAS" not in program.read_bytes()


def test_one_thread_that_drives_several_devices(tmp_path: Path) -> None:
    """A group of one call for each device launches one kernel for each."""
    export, thread = Export(), thread_of(1)
    for device in range(4):
        data = payload(COMMUNICATOR, "<QiiiI", 5, 4, 3 - device, device, 0)
        export.range("ncclCommInitRank", thread, device, device + 1, data)
    export.range("step 0", thread, 1000, 300_000)
    for device in range(4):
        at = 2000 + 5000 * device
        export.kernel("gemm", thread, (at, at + 3000), (at + 4000, at + 20_000), 7, device)
    export.range("ncclGroupStart", thread, 30_000, 30_001)
    for device in range(4):
        data = payload(MESSAGE, "<QQ", 5, 1 << 20)
        export.range("ncclAllReduce", thread, 31_000 + device * 10, 31_005 + device * 10, data)
    export.range("ncclGroupEnd", thread, 32_000, 60_000)
    for device in range(4):
        at = 33_000 + 5000 * device
        export.kernel(
            "ncclDevKernel_AllReduce(a)", thread, (at, at + 3000), (50_000, 90_000), 20, device
        )
    export.call("cudaDeviceSynchronize_v3020", thread, 61_000, 95_000)
    imported = import_traces([export.write(tmp_path / "a.sqlite")])
    assert [row.rank for row in imported.ranks] == [0, 1, 2, 3]
    assert [row.sized for row in imported.ranks] == [1] * 4
    assert "GPU 3" in imported.ranks[0].file
    for row in imported.ranks:
        assert row.replayed_ps == pytest.approx(row.recorded_ps, rel=0.01)


def test_without_payloads_the_way_is_named(tmp_path: Path) -> None:
    export = small()
    export.rows["NVTX_EVENTS"] = [(*row[:7], None) for row in export.rows["NVTX_EVENTS"]]
    imported = import_traces([export.write(tmp_path / "a.sqlite")])
    assert [row.sized for row in imported.ranks] == [0, 0]
    assert any("--include-blobs=true" in note for note in imported.notes)
    assert any("become barriers that move nothing" in note for note in imported.notes)


def test_graphs_are_kernels(tmp_path: Path) -> None:
    export, thread = Export(), thread_of(1)
    export.range("step 1", thread, 0, 100_000)
    number = export.call("cudaGraphLaunch_v10000", thread, 1000, 4000)
    row = (5000, 80_000, 0, 7, number, process_of(thread), 12)
    export.add("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", *row)
    export.call("cudaStreamSynchronize_v3020", thread, 5000, 81_000)
    imported = import_traces([export.write(tmp_path / "a.sqlite")])
    [found] = imported.ranks
    assert (found.kernels, found.launched_ops) == (1, 1)
    assert found.replayed_ps == found.recorded_ps == 100_000_000
    assert any("--cuda-graph-trace=node" in note for note in imported.notes)


def test_on_the_command_line(armillary: Armillary, tmp_path: Path) -> None:
    path = small().write(tmp_path / "a.sqlite")
    ran = armillary("import", path, "-o", "job")
    assert ran.returncode == 0, ran.stderr
    assert "2 ranks" in ran.stdout
    ran = armillary("run", "job", "-p", "dgx-h100", "--npus", "2")
    assert ran.returncode == 0, ran.stderr
