"""Drawn runs of a program on GPUs, launched by a thread for each, and the profiles of XLA that they
would give.

A run knows when each kernel begins and ends from its own lengths, gaps and collectives. So it also
knows how long a step would take without communication."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xspace_writer import Value, XLine, XPlane, space

US = 10**6
LAUNCH = 5 * US
COMPUTE, COMMUNICATION = 7, 20
KERNELS = {
    "all-reduce": ("all_reduce", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(args)"),
    "all-gather": ("all_gather", "ncclDevKernel_AllGather_RING_LL(args)"),
    "reduce-scatter": ("reduce_scatter", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(args)"),
    "collective-permute": ("send", "ncclDevKernel_SendRecv(args)"),
}


@dataclass
class Op:
    opcode: str
    number: int
    groups: list[list[int]] = field(default_factory=list)
    elements: int = 0
    awaited: bool = False

    @property
    def name(self) -> str:
        return f"{self.opcode}.{self.number}"

    @property
    def stream(self) -> int:
        return COMPUTE if self.opcode == "fusion" else COMMUNICATION


class Job:
    """A drawn run on one host; ranks are its GPUs."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = random.Random(seed)
        self.world = draw.choice([1, 2, 4, 8])
        self.platform = draw.choice(["cuda", "hip"])
        self.ops = [Op("fusion", 0), *(self._op(place + 1) for place in range(draw.randint(0, 8)))]
        self.steps = draw.randint(1, 3)
        self.first = draw.randint(0, 50)
        self.correlation = 100
        self.drawn: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.spans: list[list[int]] = []
        self.gpus = [XPlane(f"/device:GPU:{rank}") for rank in range(self.world)]
        self.host = XPlane("/host:CPU")
        self.threads = [self.host.line(f"py_xla_execute/{rank}") for rank in range(self.world)]

    def _op(self, number: int) -> Op:
        draw = self.draw
        if self.world == 1 or draw.random() < 0.5:
            return Op("fusion", number)
        half = self.world // 2
        groups = [[*range(self.world)]]
        if self.world >= 4 and draw.random() < 0.5:
            groups = [[*range(half)], [*range(half, self.world)]]
        opcode = draw.choice([*KERNELS])
        if opcode == "collective-permute":
            groups = [[*range(self.world)]]
        size = self.world * draw.randint(1, 10**5)
        return Op(opcode, number, groups, size, draw.random() < 0.5)

    def _of(self, step: int, place: int, rank: int) -> tuple[int, int]:
        """The host's work before a launch, and the kernel's length."""
        key = (step, place, rank)
        if key not in self.drawn:
            draw = self.draw
            self.drawn[key] = (draw.randint(10 * US, 60 * US), draw.randint(1500 * US, 4000 * US))
        return self.drawn[key]

    def step(self, number: int, begin: Sequence[int], is_free: bool = False) -> list[int]:
        """When each rank ends a step; with free communication nothing is recorded."""
        now = [*begin]
        free = [Counter[int]() for _ in range(self.world)]
        last = [COMPUTE] * self.world
        for place, op in enumerate(self.ops):
            starts = []
            for rank in range(self.world):
                now[rank] += self._of(number, place, rank)[0]
                if op.stream != last[rank]:
                    self._wait(rank, now, free, last[rank], op.stream, is_free)
                last[rank] = COMPUTE
                starts.append(max(now[rank] + LAUNCH, free[rank][op.stream]))
                now[rank] += LAUNCH
            for rank in range(self.world):
                end = starts[rank] + self._of(number, place, rank)[1]
                if op.groups:
                    members = next(group for group in op.groups if rank in group)
                    if op.opcode == "collective-permute":
                        # Each waits for the one that sends to it.
                        members = [rank, (rank - 1) % self.world]
                    length = 0 if is_free else self._of(number, place, members[0])[1]
                    end = max(starts[other] for other in members) + length
                free[rank][op.stream] = end
                if not is_free:
                    self._record(op, rank, now[rank], (starts[rank], end))
            for rank in range(self.world):
                if op.awaited:
                    self._wait(rank, now, free, COMMUNICATION, COMPUTE, is_free)
        # The main thread waits for all of them, and goes on.
        tail = self._of(number, len(self.ops), 0)[0]
        return [max(now[rank], *free[rank].values()) + tail for rank in range(self.world)]

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
            name = "cuStreamWaitEvent" if self.platform == "cuda" else "hipStreamWaitEvent"
            self.correlation += 1
            line = self.threads[rank]
            line.add(name, now[rank], now[rank] + US, correlation_id=self.correlation)
        now[rank] += 2 * US

    def _record(self, op: Op, rank: int, returned: int, ran: tuple[int, int]) -> None:
        self.correlation += 1
        launch = "cuLaunchKernelEx" if self.platform == "cuda" else "hipModuleLaunchKernel"
        line = self.threads[rank]
        line.add(launch, returned - LAUNCH, returned, correlation_id=self.correlation)
        kernel = KERNELS[op.opcode][1] if op.groups else f"loop_add_fusion_{op.number}"
        stream = self._stream(rank, op.stream)
        stats: dict[str, Value] = {
            "correlation_id": self.correlation, "hlo_op": op.name, "hlo_module": "jit_train_step",
            "name": "jit(train_step)/layer_1/add",
        }  # fmt: skip
        stream.add(kernel, *ran, **stats)
        for name in ("XLA Ops", "XLA Modules", "Framework Name Scope", "Source code"):
            self._line(rank, name).add(op.name, *ran, **stats)

    def _stream(self, rank: int, stream: int) -> XLine:
        return self._line(
            rank, f"Stream #{stream}({'Compute' if self.platform == 'cuda' else 'Kernel'})"
        )

    def _line(self, rank: int, name: str) -> XLine:
        plane = self.gpus[rank]
        found = [line for line in plane.lines if line.name == name]
        return found[0] if found else plane.line(name)

    def module(self) -> str:
        """The module that ran."""
        lines = [f"HloModule jit_train_step, is_scheduled=true, num_partitions={self.world}", ""]
        lines += ["ENTRY %main (a: f32[8]) -> f32[8] {", "  %a = f32[8]{0} parameter(0)"]
        for op in self.ops:
            if not op.groups:
                lines.append(f"  %{op.name} = f32[8]{{0}} add(%a, %a)")
                continue
            data = f"%data.{op.number}"
            shape = f"f32[{op.elements}]{{0}}"
            lines.append(f"  {data} = {shape} constant({{...}})")
            if op.opcode == "collective-permute":
                pairs = ",".join(
                    f"{{{rank},{(rank + 1) % self.world}}}" for rank in range(self.world)
                )
                where = f"source_target_pairs={{{pairs}}}"
            else:
                listed = ",".join("{" + ",".join(map(str, each)) + "}" for each in op.groups)
                where = f"replica_groups={{{listed}}}, use_global_device_ids=true"
            lines.append(f"  %{op.name} = {shape} {op.opcode}({data}), channel_id=1, {where}")
        return "\n".join([*lines, "  ROOT %copy.99 = f32[8]{0} copy(%a)", "}"])

    def write(self, folder: Path) -> list[Path]:
        """The profile, and the module."""
        python = self.host.line("python")
        now = [1000 * US] * self.world
        for number in range(self.steps):
            ends = self.step(number, now)
            python.add("train", now[0], max(ends), step_num=self.first + number, _r=1)
            self.spans.append([end - begin for begin, end in zip(now, ends, strict=True)])
            now = [max(ends) + 20 * US] * self.world
        paths = [folder / "host.xplane.pb", folder / "module.txt"]
        paths[0].write_bytes(space([*self.gpus, self.host], "host"))
        self.planes = [*self.gpus, self.host]
        paths[1].write_text(self.module())
        return paths

    def volumes(self, rank: int) -> Counter[tuple[int, str]]:
        """Bytes of each kind in groups of each size."""
        found = Counter[tuple[int, str]]()
        for op in self.ops:
            if op.groups:
                members = next(group for group in op.groups if rank in group)
                found[len(members), KERNELS[op.opcode][0]] += 4 * op.elements
        return found
