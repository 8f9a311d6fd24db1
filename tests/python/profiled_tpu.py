"""Drawn runs of a program on TPUs, and the profiles of XLA that they would give.

A run knows when each operation begins and ends from its own lengths, gaps and collectives. So it
also knows how long a step would take without communication."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xspace_writer import XPlane, space

US = 10**6
MODULE, PROGRAM = "jit_train_step", 77
KINDS = {
    "all-reduce": "all_reduce", "all-gather": "all_gather", "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
}  # fmt: skip


@dataclass
class Op:
    """An operation of all ranks: `compute`, `collective`, `start`, `done`, or a `loop` of its
    `inner` ones. A done ends the start of number `pair`."""

    what: str
    number: int
    opcode: str = "fusion"
    groups: list[list[int]] = field(default_factory=list)
    elements: int = 0
    pair: int = 0
    inner: list[Op] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.opcode}.{self.number}"

    def members(self, rank: int) -> list[int]:
        return next(group for group in self.groups if rank in group)


class Job:
    """A drawn run. `said` is where the instructions are: `text` in the events, or `module` in a
    file."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = random.Random(seed)
        self.world = draw.choice([1, 2, 3, 4, 6, 8])
        self.hosts = draw.choice([each for each in (1, 2) if self.world % each == 0])
        self.said = draw.choice(["text", "module"])
        self.steps = draw.randint(1, 3)
        self.first = draw.randint(0, 40)
        self.marks = draw.random() < 0.7 or self.steps == 1
        self.count = 0
        self.ops = self._ops(draw.randint(1, 8), deep=True)
        self.lengths: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.spans: list[list[int]] = []

    def _number(self) -> int:
        self.count += 1
        return self.count

    def _ops(self, count: int, deep: bool) -> list[Op]:
        draw = self.draw
        found = [Op("compute", self._number())]
        for _ in range(count):
            what = draw.choice(["compute", "collective", "async", "loop" if deep else "compute"])
            if what == "async" and self.world > 1:
                start = self._collective("start")
                middle = self._ops(draw.randint(0, 2), deep=False)
                done = Op("done", self._number(), start.opcode.replace("start", "done"))
                done.pair = start.number
                found += [start, *middle, done]
            elif what == "collective" and self.world > 1:
                found.append(self._collective("collective"))
            elif what == "loop":
                loop = Op("loop", self._number(), "while")
                loop.inner = self._ops(draw.randint(0, 3), deep=False)
                found.append(loop)
            else:
                found.append(Op("compute", self._number()))
        return found

    def _collective(self, what: str) -> Op:
        draw = self.draw
        base = draw.choice([*KINDS])
        halves = self.world in (4, 6, 8) and draw.random() < 0.5
        half = self.world // 2
        groups = [[*range(self.world)]]
        if halves:
            groups = [[*range(half)], [*range(half, self.world)]]
        opcode = f"{base}-start" if what == "start" else base
        return Op(what, self._number(), opcode, groups, self.world * draw.randint(1, 10**5))

    def _drawn(self, step: int, op: Op, rank: int) -> tuple[int, int]:
        """Gap before an operation, and its length."""
        key = (step, op.number, rank)
        if key not in self.lengths:
            gap = self.draw.choice([0, self.draw.randint(1, 40 * US)])
            self.lengths[key] = (gap, self.draw.randint(20 * US, 900 * US))
        return self.lengths[key]

    def step(
        self, number: int, begin: Sequence[int], planes: list[XPlane] | None = None
    ) -> list[int]:
        """When each rank ends a step; without planes, communication is free."""
        now = [*begin]
        started: dict[int, list[int]] = {}
        self._run(number, self.ops, now, started, planes)
        tails = [1 + self._drawn(number, Op("tail", 0), rank)[0] for rank in range(self.world)]
        return [end + tail for end, tail in zip(now, tails, strict=True)]

    def _run(
        self,
        number: int,
        ops: list[Op],
        now: list[int],
        started: dict[int, list[int]],
        planes: list[XPlane] | None,
    ) -> None:
        ranks = range(self.world)
        for op in ops:
            drawn = [self._drawn(number, op, rank) for rank in ranks]
            starts = [now[rank] + drawn[rank][0] for rank in ranks]
            if op.what == "loop":
                now[:] = starts
                self._run(number, op.inner, now, started, planes)
                ends = [now[rank] + drawn[rank][0] for rank in ranks]
            elif op.what == "collective":
                ends = self._met(number, op, starts, free=planes is None)
            elif op.what == "start":
                ends = [starts[rank] + drawn[rank][1] // 50 for rank in ranks]
                started[op.number] = self._met(number, op, ends, free=planes is None)
            elif op.what == "done":
                ends = [max(starts[rank], started[op.pair][rank]) for rank in ranks]
            else:
                ends = [starts[rank] + drawn[rank][1] for rank in ranks]
            if planes is not None:
                for rank in ranks:
                    self._record(planes[rank], op, starts[rank], ends[rank])
            now[:] = ends

    def _met(self, number: int, op: Op, starts: list[int], free: bool) -> list[int]:
        """When a collective ends on each rank: its length after the last member began."""
        found = []
        for rank in range(self.world):
            members = op.members(rank)
            length = 0 if free else self._drawn(number, op, members[0])[1]
            found.append(max(starts[other] for other in members) + length)
        return found

    def _record(self, plane: XPlane, op: Op, start: int, end: int) -> None:
        line = next(line for line in plane.lines if line.name == "XLA Ops")
        name = op.name
        if self.said == "text":
            name = self.text(op)
            plane.shown[name] = op.name
        if op.what == "compute":
            plane.shared[name] = {
                "hlo_category": "loop fusion",
                "flops": 1000,
                "program_id": PROGRAM,
            }
        line.add(name, start, end)

    def text(self, op: Op) -> str:
        """An instruction as XLA writes it."""
        shape = f"f32[{op.elements}]{{0:T(1024)}}"
        if op.what == "done":
            start = f"{op.opcode.replace('done', 'start')}.{op.pair}"
            return f"%{op.name} = f32[8]{{0}} {op.opcode}(%{start})"
        if op.what in ("collective", "start"):
            listed = ",".join("{" + ",".join(map(str, group)) + "}" for group in op.groups)
            ids = "" if "to-all" in op.opcode else ", use_global_device_ids=true"
            return (
                f"%{op.name} = {shape} {op.opcode}({shape} %data.{op.elements}), channel_id=1, "
                f"replica_groups={{{listed}}}{ids}, "
                'metadata={op_name="jit(train_step)/layer_1/psum"}'
            )
        if op.what == "loop":
            return f"%{op.name} = f32[8]{{0}} while(f32[8] %a), condition=%c, body=%b"
        return f"%{op.name} = f32[8]{{0}} fusion(f32[8] %a), kind=kLoop, calls=%f"

    def flat(self, ops: list[Op] | None = None) -> list[Op]:
        """All operations, those of loops too."""
        found = []
        for op in self.ops if ops is None else ops:
            found += self.flat(op.inner) if op.what == "loop" else [op]
        return found

    def module(self) -> str:
        """The module that ran."""
        lines = [f"HloModule {MODULE}, is_scheduled=true, num_partitions={self.world}", ""]
        lines += ["ENTRY %main (a: f32[8]) -> f32[8] {", "  %a = f32[8]{0} parameter(0)"]
        for op in self.flat():
            if op.elements:
                data = f"  %data.{op.elements} = f32[{op.elements}]{{0}} constant({{...}})"
                if data not in lines:
                    lines.append(data)
            text = self.text(op)
            lines.append(
                "  " + text if op.what != "compute" else f"  %{op.name} = f32[8]{{0}} add(%a, %a)"
            )
        last = self.ops[0].name
        lines += [f"  ROOT %copy.{self.count + 1} = f32[8]{{0}} copy(%{last})", "}"]
        return "\n".join(lines)

    def write(self, folder: Path) -> list[Path]:
        """A profile for each host, and the module if events do not have its text."""
        share = self.world // self.hosts
        planes = [XPlane(f"/device:TPU:{rank % share}") for rank in range(self.world)]
        for plane in planes:
            names = ["Steps", "XLA Modules", "XLA Ops", "Async XLA Ops", "XLA TraceMe"]
            for name in names:
                plane.line(name, base_ns=100)
        now = [US * 1000 + self.draw.randint(0, 100 * US) for _ in planes]
        for number in range(self.steps):
            ends = self.step(number, now, planes)
            for plane, begin, end in zip(planes, now, ends, strict=True):
                if self.marks:
                    plane.lines[0].add(str(self.first + number), begin, end)
                last = plane.lines[2].events[-1]
                module_end = end if self.marks else last.start + last.length
                plane.lines[1].add(f"{MODULE}({PROGRAM})", begin, module_end)
                plane.lines[3].add("all-gather-start.1", begin, end)
                plane.lines[4].add("something", begin, end)
            self.spans.append([end - begin for begin, end in zip(now, ends, strict=True)])
            now = ends
        return self._files(folder, planes, share)

    def _files(self, folder: Path, planes: list[XPlane], share: int) -> list[Path]:
        paths = []
        self.planes = planes
        for host in range(self.hosts):
            threads = XPlane("/host:CPU")
            threads.line("python").add("$script.py:1 train", 0, US)
            path = folder / f"worker-{host}.xplane.pb"
            own = planes[host * share : (host + 1) * share]
            path.write_bytes(space([threads, *own], f"worker-{host}"))
            paths.append(path)
        if self.said == "module":
            paths.append(folder / "module_0001.jit_train_step.txt")
            paths[-1].write_text(self.module())
        return paths

    def volumes(self, rank: int) -> Counter[tuple[int, str]]:
        """Bytes of each kind in groups of each size."""
        found = Counter[tuple[int, str]]()
        for op in self.flat():
            if op.elements:
                kind = KINDS[op.opcode.removesuffix("-start")]
                found[len(op.members(rank)), kind] += 4 * op.elements
        return found


def small() -> bytes:
    """A profile of two TPUs with a collective next to other operations, and its module's text in
    the events."""
    job = Job(0)
    job.world, job.hosts, job.said, job.steps, job.marks = 2, 1, "text", 2, True
    groups = [[0, 1]]
    job.ops = [
        Op("compute", 1),
        Op("start", 2, "all-gather-start", groups, 4096),
        Op("compute", 3),
        Op("done", 4, "all-gather-done", pair=2),
        Op("collective", 5, "all-reduce", groups, 1024),
        Op("loop", 6, "while", inner=[Op("compute", 7)]),
    ]
    planes = [XPlane(f"/device:TPU:{rank}") for rank in range(2)]
    for plane in planes:
        for name in ("Steps", "XLA Modules", "XLA Ops"):
            plane.line(name, base_ns=100)
    now = [1000 * US, 1000 * US]
    for number in range(job.steps):
        ends = job.step(number, now, planes)
        for plane, begin, end in zip(planes, now, ends, strict=True):
            plane.lines[0].add(str(number), begin, end)
            plane.lines[1].add(f"{MODULE}({PROGRAM})", begin, end)
        now = ends
    return space(planes, "host")
