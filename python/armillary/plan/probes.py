"""Times that a platform takes, one by one: kernels, collectives of groups, accesses to memory.

Not here: what a step asks for (`costs.py`, `roofline.py`)."""

from __future__ import annotations

from ..api import simulate
from ..errors import InputError, Problem
from ..platform import Platform
from ..units import NS_PER_S, PS_PER_S
from ..workload import Workload
from ..workload.dlrm_flow import TableWork
from ..workload.program import Program


def memory_bandwidth(platform: Platform) -> float:
    """Bytes per second of an NPU's memory. Raises `InputError` for a platform that has none."""
    bandwidth: float | None = platform.describe()["npu"].get("memory_bandwidth")
    if not bandwidth:
        said, allowed = "is missing", "such as 1550 GB/s"
        raise InputError([Problem(platform.source, "npu.memory.bandwidth", said, allowed)])
    return bandwidth


def kernel_seconds(platform: Platform, lookup: TableWork, update: TableWork | None = None) -> float:
    """Seconds of a lookup, and of an update after it."""
    program = Program()
    for work, updates in ((lookup, False), (update, True)):
        if work is not None:
            done, moved, rows = work
            program.lookup("", [], operations=done, bytes=moved, rows=rows, update=updates)
    return sum(time_ps for _, time_ps in platform.times(program)) / PS_PER_S


def change_seconds(platform: Platform, operations: int, moved: int) -> float:
    """Seconds of an optimizer's kernel."""
    program = Program()
    program.compute("", [], operations=operations, bytes=moved, kernel="optimizer")
    ((_, time_ps),) = platform.times(program)
    return time_ps / PS_PER_S


def access_seconds(platform: Platform, size: int, reach: str) -> float:
    """Seconds of an access to `size` bytes in a slower memory that is idle otherwise."""
    program = Program()
    program.memory("probe", [], size, reach=reach)
    ((_, time_ps),) = platform.times(program)
    return time_ps / PS_PER_S


def group_seconds(platform: Platform, each: int, group: str, kind: str, size: int) -> float:
    """Seconds of a collective within nodes of `each` ranks (`node`), or among ranks with the same
    place in their nodes (`rail`). All such groups do it at once; `size` as workloads count it."""
    members = each if group == "node" else platform.npus // each
    if members == 1 or size < 1:
        return 0.0
    program = Program()
    program.collective("probe", [], kind, size, group)
    axes = [("local", each), ("node", platform.npus // each)]
    along = {"node": ["local"], "rail": ["node"]}
    workload = Workload.mesh("probe", axes, along, [], [program])
    return simulate(workload, platform).step_time_ns / NS_PER_S
