"""Kineto traces made by hand: a host that launches and waits, streams that work. All times in
microseconds."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import armillary as arm
from armillary.workload.importer import Imported

Event = dict[str, Any]


class Recording:
    """A trace under construction, one process, one device."""

    def __init__(self, rank: int = 0, world: int = 1, pid: int = 100) -> None:
        self.events: list[Event] = []
        self.distributed: Event = {"backend": "nccl", "rank": rank, "world_size": world}
        self.pid, self._correlation = pid, 0

    def _add(self, cat: str, name: str, tid: object, ts: float, dur: float, **args: object) -> None:
        self.events.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": self.pid,
                "tid": tid,
                "ts": ts,
                "dur": dur,
                "args": args,
            }
        )

    def step(self, number: int, start: float, end: float) -> None:
        """A `ProfilerStep`."""
        self._add("user_annotation", f"ProfilerStep#{number}", 1, start, end - start)

    def annotation(self, name: str, start: float, end: float, tid: int = 1) -> None:
        """What `record_function` leaves."""
        self._add("user_annotation", name, tid, start, end - start)

    def op(self, name: str, start: float, end: float, tid: int = 1, **args: object) -> None:
        """A host operator."""
        self._add("cpu_op", name, tid, start, end - start, **args)

    def call(self, name: str, start: float, end: float, tid: int = 1) -> int:
        """A runtime call; its correlation id."""
        self._correlation += 1
        self._add("cuda_runtime", name, tid, start, end - start, correlation=self._correlation)
        return self._correlation

    def device(
        self, correlation: int, name: str, start: float, end: float, stream: int = 7, **args: object
    ) -> None:
        """A kernel, or a copy if it is called `Memcpy ...`."""
        cat = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
        self._add(
            cat,
            name,
            stream,
            start,
            end - start,
            stream=stream,
            device=0,
            correlation=correlation,
            **args,
        )

    def kernel(
        self,
        name: str,
        launch: float,
        start: float,
        end: float,
        stream: int = 7,
        tid: int = 1,
        **args: object,
    ) -> None:
        """A launch of 5 us at `launch` and its kernel."""
        self.device(
            self.call("cudaLaunchKernel", launch, launch + 5, tid), name, start, end, stream, **args
        )

    def sync_record(self, kind: str, correlation: int, **args: object) -> None:
        """What Kineto says about a synchronisation."""
        self._add("cuda_sync", kind, -1, 0, 0, cuda_sync_kind=kind, correlation=correlation, **args)

    def write(self, path: Path) -> Path:
        """The trace as JSON, gzip if the name says so."""
        text = json.dumps(
            {"schemaVersion": 1, "distributedInfo": self.distributed, "traceEvents": self.events}
        ).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        return path


def nccl(name: str, elements: int, group: list[int], dtype: str = "Float", **args: object) -> Event:
    """NCCL metadata as Kineto puts it on kernels."""
    return {
        "Collective name": name,
        "In msg nelems": elements,
        "Out msg nelems": elements,
        "dtype": dtype,
        "Group size": len(group),
        "Process Group Name": "0",
        "Process Group Ranks": str(group),
        **args,
    }


def step_us(imported: Imported, replay: bool = True, **settings: object) -> float:
    """The step time on a switch of 100 GB/s, recorded durations or simulated communication."""
    chosen: dict[str, object] = {"scheduler.replay_only": replay, **settings}
    ranks = imported.workload.ranks
    platform = arm.Platform(
        f"Switch({ranks})", bandwidth="100 GB/s", latency="1 us", settings=chosen
    )
    return arm.simulate(imported.workload, platform).step_time_ns / 1e3
