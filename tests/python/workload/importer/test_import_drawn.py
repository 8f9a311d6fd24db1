"""Kineto traces of drawn jobs: replayed as recorded, and without communication as long as the
longest path. The jobs are those of `test_nsys.py`, which know that path from their own gaps and
lengths."""

from __future__ import annotations

from pathlib import Path

import pytest
import test_nsys
from recorded import Recording, nccl
from test_nsys import COMMUNICATION, LAUNCH, NAMES, US, Op, step_ns
from thorough import usually

from armillary.workload.importer import import_traces

KINDS = {
    "all_reduce": "allreduce",
    "all_gather": "_allgather_base",
    "reduce_scatter": "_reduce_scatter_base",
    "all_to_all": "all_to_all",
}


class Host:
    """A rank's trace, with the calls that a job makes; its times are ns."""

    def __init__(self, rank: int, world: int) -> None:
        self.trace = Recording(rank, world)

    def call(self, name: str, _thread: int, begin: int, end: int) -> int:
        return self.trace.call(name.removesuffix("_v3020"), begin / US, end / US)

    def wait(self, thread: int, now: int, awaited: int, waiting: int, _device: int) -> None:
        """A stream waits for what another has to do so far."""
        record = self.call("cudaEventRecord", thread, now + 100, now + 500)
        wait = self.call("cudaStreamWaitEvent", thread, now + 1000, now + 1500)
        self.trace.sync_record(
            "Stream Wait Event",
            wait,
            stream=waiting,
            wait_on_stream=awaited,
            wait_on_cuda_event_record_corr_id=record,
        )


class Job(test_nsys.Job):
    """The same job, recorded by Kineto, a file for each rank."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.hosts = [Host(rank, self.world) for rank in range(self.world)]

    def place(self, rank: int) -> tuple[Host, int, int]:  # type: ignore[override]
        return self.hosts[rank], 1, 0

    def _record(self, op: Op, rank: int, returned: int, ran: tuple[int, int]) -> None:
        host = self.hosts[rank]
        number = host.call("cudaLaunchKernel", 1, returned - LAUNCH, returned)
        begin, end = (each / US for each in ran)
        if op.kind == "compute":
            host.trace.device(number, "ampere_sgemm_128x64_nn", begin, end, op.stream)
            return
        members = self.members(op, rank)
        group = f"half {members[0]}" if op.halves else "0"
        said = nccl(KINDS[op.kind], op.bytes, members, **{"Process Group Name": group})
        host.trace.device(number, NAMES[op.kind][1], begin, end, COMMUNICATION, **said)

    def write(self, folder: Path) -> list[Path]:
        now = [1000 * US + begin for begin in self.begin]
        for number in range(self.steps):
            ends = self.step(number, now)
            for host, begin, end in zip(self.hosts, now, ends, strict=True):
                host.trace.step(self.first + number, begin / US, end / US)
            self.spans.append([end - begin for begin, end in zip(now, ends, strict=True)])
            now = [end + 20 * US for end in ends]
        return [
            host.trace.write(folder / f"rank{rank}.json") for rank, host in enumerate(self.hosts)
        ]


@pytest.mark.parametrize("seed", range(usually(16, 400)))
def test_drawn_jobs(seed: int, tmp_path: Path) -> None:
    job = Job(seed)
    found = import_traces(job.write(tmp_path))
    assert found.workload.ranks == job.world
    number = found.ranks[0].step - job.first
    for row in found.ranks:
        assert row.recorded_ps == 1000 * job.spans[number][row.rank]
        assert row.replayed_ps == pytest.approx(row.recorded_ps, rel=0.01)
    free = max(job.step(number, [0] * job.world, is_free=True))
    assert step_ns(found) == pytest.approx(free, rel=0.01)
