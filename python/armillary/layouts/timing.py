"""Times of the parts of a step, each alone on its platform.

Here: scripts of units, collectives of data parallelism, messages between stages, the optimizer. The
simulator itself takes the time: a rank does one part after the other, and the ends of the parts
are read off. Not here: how a step is composed of them (crate `layouts`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from .. import _core
from ..platform import Platform
from ..workload.mesh import spread
from ..workload.parallelism import Parallelism
from ..workload.program import Program
from ..workload.script import Gemm, KernelStep, KernelStream, Ring, Script
from ..workload.stage import around, rings

Call = tuple[str, int, str]
"""Kind, bytes and group of a collective."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Takes times on a platform, in ps."""

    platform: Platform
    backend: str | None = None

    def scripts(self, par: Parallelism, wanted: Sequence[Script]) -> list[int]:
        """Time of each script on a rank that plays them in turn, its groups those of `par`. The
        stages of a pipeline are alike, so `par` has one. Each multiplication has its width."""
        program = Program()
        stream = KernelStream(program, 0, rings(par)[0])
        marks = []
        for number, script in enumerate(wanted):
            stream.play(f"{number}.", script)
            marks.append(list(stream.after))
        programs = around(program, par)
        ends_of = self._ends(par, programs, [place * par.tp for place in range(len(programs))])
        return _spans(
            max((times[node] for times in ends_of for node in nodes), default=0) for nodes in marks
        )

    def collectives(self, par: Parallelism, wanted: Sequence[Call]) -> list[int]:
        """Time of each collective."""
        program = Program()
        after: list[int] = []
        marks = []
        for number, (kind, size, group) in enumerate(wanted):
            after = [program.collective(str(number), after, kind, size, group)]
            marks += after
        alone = replace(par, cp_comm_type="all_gather")
        (ends,) = self._ends(alone, [program] * par.pp, [0])
        return _spans(ends[node] for node in marks)

    def messages(self, par: Parallelism, sizes: Sequence[int]) -> list[list[int]]:
        """Time of a message of each size from each stage to the next, the last one's to the
        first."""
        place = par.tp * par.data
        programs, marks = [], []
        for stage in range(par.pp):
            program, received = Program(), []
            after: list[int] = []
            for tag, size in enumerate(sizes):
                ahead = place if stage + 1 < par.pp else -place * (par.pp - 1)
                behind = -place if stage else place * (par.pp - 1)
                if stage:
                    after = [program.recv(f"{tag}.receive", after, behind, size, tag)]
                    received += after
                program.send(f"{tag}.send", after, ahead, size, tag)
                if not stage:
                    after = [program.recv(f"{tag}.receive", after, behind, size, tag)]
                    received += after
            programs.append(program)
            marks.append(received)
        alone = replace(par, cp_comm_type="all_gather", schedule="1f1b")
        ends = self._ends(alone, programs, [stage * place for stage in range(par.pp)])
        arrived = [[ends[stage][node] for node in nodes] for stage, nodes in enumerate(marks)]
        found = []
        before = 0
        for i in range(len(sizes)):
            times = [before, *(arrived[stage][i] for stage in range(1, par.pp)), arrived[0][i]]
            found.append([later - sooner for sooner, later in pairwise(times)])
            before = times[-1]
        return found

    def kernels(self, wanted: Sequence[Script]) -> list[int]:
        """Time of the kernels of each script without communication."""
        program = Program()
        stream = KernelStream(program, 0, Ring(0, 0))
        ends = []
        for script in wanted:
            kernels = tuple(step for step in script if isinstance(step, Gemm | KernelStep))
            stream.play("", kernels)
            ends.append(len(program))
        times = [time for _, time in self.platform.times(program)]
        return [sum(times[start:end]) for start, end in pairwise([0, *ends])]

    def _ends(
        self, par: Parallelism, programs: Sequence[Program], ranks: Sequence[int]
    ) -> list[list[int]]:
        workload = spread("parts", par, programs, None, ())
        return _core.ends(workload._core, self.platform._core, self.backend, ranks)


class NoClock(Clock):
    """Takes no times: everything takes none. Sizes need no more."""

    def scripts(self, par: Parallelism, wanted: Sequence[Script]) -> list[int]:
        """No time for each."""
        return [0] * len(wanted)

    def collectives(self, par: Parallelism, wanted: Sequence[Call]) -> list[int]:
        """No time for each."""
        return [0] * len(wanted)

    def messages(self, par: Parallelism, sizes: Sequence[int]) -> list[list[int]]:
        """No time for each size, between any stages."""
        return [[0] * par.pp for _ in sizes]

    def kernels(self, wanted: Sequence[Script]) -> list[int]:
        """No time for each."""
        return [0] * len(wanted)


def _spans(ends: Iterable[int]) -> list[int]:
    """Times between ends, the first from 0 on. A part that adds nothing takes no time."""
    found, before = [], 0
    for end in ends:
        found.append(max(end - before, 0))
        before = max(before, end)
    return found
