"""Task graphs of FlexFlow's simulator (FlexNet, TopoOpt) as workloads.

    forward, backward, update   compute on the GPU that the graph names, for the time it states
    message between two nodes   a send and a receive of its bytes; the network decides its time
    all-reduce                  a collective of its nodes, each after its own tasks before it

Here: the graph, checked, and its programs. Not here: the format of the file (`flatbuffer.py`).

Schema: taskgraph.fbs of hipersys-team/FlexFlow. The device of a message has the number `source *
(nodes + switches) + target`. Run times are milliseconds, as its writer and its readers have them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from ...errors import InputError, Problem
from ...units import PS_PER_MS, counted
from ..program import Program
from ..summary import Memory, RankClass, Summary
from ..workload import Workload
from .flatbuffer import DamagedError, File, Table

ALLOWED = "a task graph of FlexFlow, as export_file_name writes it"
_MOST_NODES = 65_536
_MOST_BYTES = 2**60
_LONGEST_MS = 86_400_000.0
_SHOWN = 16


class _Kind(IntEnum):
    FORWARD = 0
    BACKWARD = 1
    COMM = 2
    UPDATE = 3
    BARRIER = 4
    NOMINAL_COMM = 5
    ALLREDUCE = 6


_COMPUTES = {_Kind.FORWARD: "forward", _Kind.BACKWARD: "backward", _Kind.UPDATE: "update"}
_MESSAGES = {_Kind.COMM, _Kind.NOMINAL_COMM}
_GPU, _LINKS = 0, (13, 14)
"""Types of devices: a GPU; what connects two nodes, a link or a path."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task. Its `ranks` are one GPU, both ends of a message, or the members of an all-reduce."""

    kind: _Kind
    ranks: tuple[int, ...]
    duration_ps: int
    bytes: int
    after: tuple[int, ...]
    """Places of the tasks that wait for it."""


@dataclass(frozen=True)
class TaskGraph:
    """A graph of tasks on `ranks` GPUs, in the order of the file."""

    ranks: int
    tasks: list[Task]
    bandwidth: float
    """Bytes per second of a link, as the search took it."""


def is_graph(data: bytes) -> bool:
    """Whether a file looks like such a graph: a root table of this schema, with nodes and tasks."""
    try:
        root = File(data).root()
        nodes, gpus = root.integer(1, "I"), root.integer(0, "I")
        return 0 < nodes <= _MOST_NODES and 0 < gpus <= 64 and bool(root.integer(8, "I"))
    except DamagedError:
        return False


def import_graph(name: str, data: bytes) -> tuple[Workload, tuple[str, ...]]:
    """The workload of a task graph, and notes on it. Raises `InputError`."""
    graph = read(name, data)
    programs, groups = _programs(name, graph)
    notes = _notes(graph)
    classes = tuple(
        RankClass(f"rank {rank}", 1, program.operations, program.volumes, Memory())
        for rank, program in enumerate(programs[:_SHOWN])
    )
    title = Path(name).name
    summary = Summary(title, "recorded", graph.ranks, 0, 0, 0, 0, 0, 0.0, classes, notes)
    ranks = range(graph.ranks)
    return Workload.listed(title, programs, [*ranks], groups, summary), notes


def read(name: str, data: bytes) -> TaskGraph:
    """The graph in a file. Raises `InputError`."""
    try:
        return _Reader(name, File(data).root()).graph()
    except DamagedError as error:
        raise InputError([Problem(name, "", f"is damaged: {error}", ALLOWED)]) from None


class _Reader:
    def __init__(self, name: str, root: Table) -> None:
        self.name, self.root = name, root
        self.nodes, self.switches = root.integer(1, "I"), root.integer(2, "I")

    def graph(self) -> TaskGraph:
        if (gpus := self.root.integer(0, "I")) != 1:
            said = f"{gpus} GPUs in a node, where messages do not say which of them they are for"
            raise self._refused("ngpupernode", said, "graphs with one GPU in each node")
        if not 0 < self.nodes <= _MOST_NODES or self.switches > _MOST_NODES:
            said = f"{self.nodes:,} nodes and {self.switches:,} switches"
            raise self._refused("nnode", said, f"1 to {_MOST_NODES:,}")
        devices = self._devices()
        tables = self.root.tables(8)
        numbers = [table.integer(1, "Q") for table in tables]
        places = {number: place for place, number in enumerate(numbers)}
        if len(places) < len(numbers):
            raise self._refused("tasks", "several have one taskid", ALLOWED)
        tasks = [self._task(place, table, devices, places) for place, table in enumerate(tables)]
        if not tasks:
            raise self._refused("tasks", "has none", ALLOWED)
        bandwidth = self.root.real(5) * 1000
        return TaskGraph(self.nodes, tasks, bandwidth if math.isfinite(bandwidth) else 0.0)

    def _devices(self) -> dict[int, tuple[int, int]]:
        """Type and property of each device, by its number."""
        found = {}
        for device in self.root.tables(9):
            found[device.integer(1, "Q")] = (device.integer(0, "h"), device.integer(3, "Q"))
        return found

    def _task(
        self,
        place: int,
        table: Table,
        devices: Mapping[int, tuple[int, int]],
        places: Mapping[int, int],
    ) -> Task:
        where = f"tasks[{place}]"
        number = table.integer(0, "h")
        if number not in set(_Kind):
            raise self._refused(f"{where}.type", f"unknown type of a task: {number}", ALLOWED)
        kind, following = _Kind(number), table.integers(5, "Q")
        time, size = table.real(3), table.integer(4, "Q")
        if not 0 <= time <= _LONGEST_MS:
            raise self._refused(f"{where}.runtime", f"invalid time: {time} ms", "0 ms to a day")
        if size > _MOST_BYTES:
            raise self._refused(f"{where}.xfersize", f"invalid size: {size:,} bytes", ALLOWED)
        if kind is _Kind.ALLREDUCE:
            # Such a task lists its nodes where others list the tasks after them.
            if not following or len({*following}) < len(following):
                raise self._refused(f"{where}.nexttasks", "is not a list of nodes", ALLOWED)
            return Task(kind, tuple(self._node(where, each) for each in following), 0, size, ())
        unknown = next((each for each in following if each not in places), None)
        if unknown is not None:
            said = f"names a task that is not there: {unknown}"
            raise self._refused(f"{where}.nexttasks", said, ALLOWED)
        after = tuple(dict.fromkeys(places[each] for each in following))
        if kind is _Kind.BARRIER:
            said = "is a barrier, which says nothing of its ranks"
            raise self._refused(f"{where}.type", said, "graphs without barriers")
        ranks = self._ranks(where, kind, devices.get(table.integer(2, "Q")))
        return Task(kind, ranks, round(time * PS_PER_MS), size, after)

    def _ranks(self, where: str, kind: _Kind, device: tuple[int, int] | None) -> tuple[int, ...]:
        """Where a task runs: on a GPU, or between two."""
        wanted = _LINKS if kind in _MESSAGES else (_GPU,)
        if device is None or device[0] not in wanted:
            said = (
                "has a device that is not there"
                if device is None
                else (f"has a device of type {device[0]}")
            )
            allowed = f"type {' or '.join(map(str, wanted))} for a task of type {int(kind)}"
            raise self._refused(f"{where}.deviceid", said, allowed)
        if kind not in _MESSAGES:
            return (self._node(where, device[1]),)
        source, target = divmod(device[1], self.nodes + self.switches)
        if source == target:
            raise self._refused(f"{where}.deviceid", "sends to its own node", ALLOWED)
        return (self._node(where, source), self._node(where, target))

    def _node(self, where: str, number: int) -> int:
        """The number of a node with a GPU."""
        if number < self.nodes:
            return number
        raise self._refused(where, f"is on node {number}", f"a node below {self.nodes}")

    def _refused(self, where: str, said: str, allowed: str) -> InputError:
        return InputError([Problem(self.name, where, said, allowed)])


def _order(name: str, tasks: Sequence[Task]) -> list[int]:
    """Places of the tasks, each behind those it waits for, otherwise in the order of the file.
    Raises `InputError` for tasks that wait for each other."""
    waits = [0] * len(tasks)
    for task in tasks:
        for after in task.after:
            waits[after] += 1
    ready = [place for place, count in enumerate(waits) if not count]
    found = []
    while ready:
        place = heapq.heappop(ready)
        found.append(place)
        for after in tasks[place].after:
            waits[after] -= 1
            if not waits[after]:
                heapq.heappush(ready, after)
    if len(found) < len(tasks):
        stuck = next(place for place, count in enumerate(waits) if count)
        said = f"{counted(len(tasks) - len(found), 'task')} in a circle, such as tasks[{stuck}]"
        raise InputError([Problem(name, "tasks", said, "a graph without circles")])
    return found


def _programs(name: str, graph: TaskGraph) -> tuple[list[Program], dict[str, list[int]]]:
    """The program of each rank, and the members of each all-reduce."""
    programs = [Program() for _ in range(graph.ranks)]
    groups: dict[str, list[int]] = {}
    before: list[list[int]] = [[] for _ in graph.tasks]
    """Places of the tasks that each task waits for."""
    for place, task in enumerate(graph.tasks):
        for after in task.after:
            before[after].append(place)
    ends: dict[tuple[int, int], int] = {}
    """Rank and place of a task -> the node after which it is done there."""

    def deps(rank: int, place: int) -> list[int]:
        found = [ends.get((rank, each)) for each in before[place]]
        return sorted({each for each in found if each is not None})

    for place in _order(name, graph.tasks):
        task = graph.tasks[place]
        _check(name, graph, place, before[place])
        title = f"task {place}"
        if task.kind in _MESSAGES:
            source, target = task.ranks
            ahead = deps(source, place)
            programs[source].send(title, ahead, target - source, task.bytes, place)
            ends[target, place] = programs[target].recv(
                title, [], source - target, task.bytes, place
            )
        elif task.kind is _Kind.ALLREDUCE:
            if len(task.ranks) > 1:
                groups[title] = sorted(task.ranks)
            for rank in task.ranks if len(task.ranks) > 1 else ():
                ahead = deps(rank, place)
                programs[rank].collective(title, ahead, "all_reduce", task.bytes, title)
        else:
            [rank] = task.ranks
            node = programs[rank].compute(
                f"{_COMPUTES[task.kind]} {place}", deps(rank, place), duration_ps=task.duration_ps
            )
            ends[rank, place] = node
    for program in programs:
        if not len(program):
            program.compute("no task on this node", [], duration_ps=0)
    return programs, groups


def _check(name: str, graph: TaskGraph, place: int, before: Sequence[int]) -> None:
    """Raises `InputError` for a task that waits for one of another rank, without a message."""
    task = graph.tasks[place]
    starts = task.ranks[:1] if task.kind in _MESSAGES else task.ranks
    for each in before:
        other = graph.tasks[each]
        if other.ranks[-1] not in starts:
            said = f"waits for tasks[{each}], which ends on rank {other.ranks[-1]}"
            allowed = f"a message to rank {starts[0]} between them"
            raise InputError([Problem(name, f"tasks[{place}]", said, allowed)])


def _notes(graph: TaskGraph) -> tuple[str, ...]:
    found = [
        "run times of forward and backward tasks are those that FlexFlow measured or estimated; "
        "its times of messages and all-reduces are not used"
    ]
    if graph.bandwidth > 0:
        found.append(f"the graph was searched with links of {graph.bandwidth / 1e9:g} GB/s")
    return tuple(found)
