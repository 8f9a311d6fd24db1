"""SQLite exports of Nsight Systems to the traces of ranks.

Here: which table has which events, and which rank a device of a process is. Not here: how
databases are read (`database.py`), NCCL's calls (`nsys_nccl.py`), all that follows from a trace
(`timeline.py`, `waits.py`, `steps.py`). The result is what a Kineto trace gives, so all that
follows is shared.

- A rank is a device of a process that ran kernels. Its number is its rank in the largest NCCL
  communicator that all ranks are in; else the number in the file's name; else the order of devices
  within the one file.
- NVTX ranges are annotations. One whose name numbers a step (`step 3`, `iteration 3`) is that step;
  if the name has no number (`step`), its place in time is. Ranges of operators (`aten::mm`) and of
  libraries are not read: they say nothing that the timeline needs.

Sources: "SQLite Export Schema Reference" of the Nsight Systems documentation (tables, columns, the
serialized process and thread identifiers) and the schema that an export itself has in its comments
(version 3.25.0)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ... import machine
from ...errors import InputError, Problem
from ...units import counted
from . import collectives, kineto, nsys_nccl
from .database import Column, Database
from .kineto import DeviceOp, HostOp, RuntimeCall, SyncRecord, Thread, Trace
from .nsys_nccl import Carried, Communicators, Key, Launch, Range, Schemas
from .reading import Event, NsysDocument, Recording
from .steps import PREFIX

STEP = "NVTX range that numbers a step, such as 'step 3' or 'iteration 3'"
_KERNELS, _COPIES, _FILLS, _GRAPHS = (
    f"CUPTI_ACTIVITY_KIND_{name}" for name in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")
)
_CALLS, _SYNCS = "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
_EVENTS, _RANGES = "CUPTI_ACTIVITY_KIND_CUDA_EVENT", "NVTX_EVENTS"
_PUSH_POP, _START_END, _DOMAIN = 59, 60, 75
_THREADS = 2**24
_DAY = 86_400 * 10**9
_LATEST = 2**62
_BYTES = 1_000
"""Bytes that each kept event takes at most."""
_SPAN = (Column("start"), Column("end"))
_PLACE = (Column("deviceId"), Column("streamId"), Column("correlationId", int, False))
_PROCESS = Column("globalPid", int, False)
_ROOMS = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD"}
_ROOMS |= {9: "HtoH", 10: "PtoP", 11: "HtoD", 12: "DtoH", 13: "DtoD"}
_MEMORY = {0: "Pageable", 1: "Pinned", 2: "Device", 3: "Array", 4: "Managed", 5: "Device"}
_MEMORY |= {6: "Managed"}
_SYNC = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}
_KEPT = re.compile(r"StreamWaitEvent|EventRecord|Synchronize|Launch")
"""Calls that matter without device work of their own."""
_VERSION = re.compile(r"(_pt[sd][sz])?(_v\d+)$|_pt[sd][sz]$")
_STEP = re.compile(
    r"(?:ProfilerStep|(?:train(?:ing)?|eval)?[ _-]*(?:step|iteration|iter|batch))[ _#:=\[(-]*"
    r"(\d{1,18})?[\])]?",
    re.IGNORECASE,
)
_OPERATOR = re.compile(r"[a-z_][a-z0-9_]*::|record_param_comms$")
_NUMBERED = re.compile(r", (?:op_id|seq) = \d+.*$", re.DOTALL)
"""Numbers that PyTorch's `emit_nvtx` writes behind a name."""
_LIBRARIES = frozenset({"NCCL", "cuBLAS", "cuBLASLt", "cuDNN", "cuFFT", "cuSOLVER", "cuSPARSE"})
_LIBRARIES |= {"cuSPARSELt", "CCCL", "UCX", "MPI", "NVSHMEM", "RCCL"}
_NOTHING = Event()


@dataclass
class _File:
    """Events of one export, times in picoseconds."""

    name: str
    clock: int
    names: dict[int, str] = field(default_factory=dict)
    """Device -> name of the GPU."""
    ops: dict[Key, list[DeviceOp]] = field(default_factory=dict)
    calls: dict[Key, list[RuntimeCall]] = field(default_factory=dict)
    syncs: dict[Key, list[SyncRecord]] = field(default_factory=dict)
    ranges: dict[int, list[HostOp]] = field(default_factory=dict)
    """Process -> annotations."""
    nccl: dict[Thread, list[Range]] = field(default_factory=dict)
    untimed: dict[int, int] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    @property
    def keys(self) -> list[Key]:
        """The devices, by number and then process."""
        return sorted(self.ops, key=lambda key: (key[2], key[1]))

    def annotations(self, key: Key) -> list[HostOp]:
        """Ranges of a process, by start, but for those on threads that launch for its other devices
        alone."""
        threads = {
            each: {call.thread for call in calls}
            for each, calls in self.calls.items()
            if each[1] == key[1]
        }
        others = {thread for each, found in threads.items() if each != key for thread in found}
        others -= threads.get(key, set())
        found = (op for op in self.ranges.get(key[1], ()) if op.thread not in others)
        return sorted(found, key=lambda op: (op.start, -op.end))

    def title(self, key: Key) -> str:
        """The name of the file, and of the device where it has several."""
        if len(self.ops) == 1:
            return self.name
        alone = sum(other[2] == key[2] for other in self.ops) == 1
        process = "" if alone else f" of process {key[1] // _THREADS % _THREADS}"
        return f"{self.name} (GPU {key[2]}{process})"


def traces(
    recordings: Sequence[Recording], rank_in_name: Callable[[str], int | None]
) -> tuple[list[Trace], list[str]]:
    """A trace for each rank of the exports of one run, and notes. Raises `InputError` where they
    can't be read, or where a rank can't be known."""
    made = Communicators()
    files = [_Reader(number, each, made).run() for number, each in enumerate(recordings)]
    carried = [each for file in files for each in _carried(file, made)]
    ranks, world, notes = _numbered(files, made, rank_in_name)
    for each in carried:
        each.launch.op.calls = nsys_nccl.calls(each, made, ranks)
    alone = len(ranks) == 1 and world is None
    result = []
    for file in files:
        notes += file.notes
        for key in file.keys:
            result.append(_trace(file, key, None if alone else ranks[key], world))
    if made.guessed:
        notes.append(
            f"the making of {counted(len(made.guessed), 'NCCL communicator')} was not recorded: "
            "the members are taken to be the recorded ranks that use it, in ascending order"
        )
    return result, notes


def _trace(file: _File, key: Key, rank: int | None, world: int | None) -> Trace:
    _, process, device = key
    distributed: dict[str, Any] = {} if rank is None else {"rank": rank}
    if world is not None:
        distributed["world_size"] = world
    named = file.names.get(device, "")
    devices = [{"id": device, "name": named}] if named else []
    trace = Trace(file.title(key), distributed, devices, file.clock)
    trace.step_mark = STEP
    trace.ops = _steps(file.annotations(key))
    trace.calls = sorted(file.calls.get(key, []), key=lambda call: (call.start, call.end))
    trace.device = sorted(file.ops[key], key=lambda op: (op.start, op.end))
    trace.syncs = file.syncs.get(key, [])
    trace.pids[str(process)] += 1
    trace.untimed = file.untimed[process]
    kineto.require_one_run(trace)
    return trace


def _carried(file: _File, made: Communicators) -> list[Carried]:
    """NCCL's kernels of a file with their calls; notes on those that have none."""
    launches: dict[Thread, list[Launch]] = {}
    total = 0
    for key, ops in file.ops.items():
        by_number = {call.correlation: call for call in file.calls.get(key, ()) if call.correlation}
        for op in ops:
            if op.kind != "kernel" or not collectives.KERNEL.search(op.name):
                continue
            total += 1
            if (call := by_number.get(op.correlation)) is not None:
                launches.setdefault(call.thread, []).append(Launch(call, op, key))
    found = []
    for thread, launched in launches.items():
        found += nsys_nccl.pair(file.nccl.get(thread, ()), launched)
    for each in found:
        for used in each.ranges:
            if used.communicator:
                made.users.setdefault(used.communicator, set()).add(each.launch.key)
    sized = sum(all(each.bytes >= 0 for each in found.ranges) for found in found)
    ranges = [each for ranges in file.nccl.values() for each in ranges if each.kind]
    if total > sized and not any(each.readable for each in ranges):
        file.notes.append(
            f"{file.name}: the payloads of NCCL's ranges are not in the file; nsys profile "
            "--trace=cuda,nvtx records them, and nsys export --type sqlite --include-blobs=true "
            "writes them"
        )
    elif total > sized:
        file.notes.append(
            f"{file.name}: {total - sized} of {total} NCCL kernels have no call with a payload: "
            "those of CUDA graphs, and of groups whose kernels are alike"
        )
    return found


def _numbered(
    files: Sequence[_File], made: Communicators, rank_in_name: Callable[[str], int | None]
) -> tuple[dict[Key, int], int | None, list[str]]:
    """Rank of each device, the number of ranks if that is recorded, and notes."""
    keys = [key for file in files for key in file.keys]
    for communicator in sorted(made.sizes, key=lambda each: (-made.sizes[each], each)):
        places = {key: rank for rank, key in made.places[communicator].items()}
        if all(key in places for key in keys):
            return {key: places[key] for key in keys}, made.sizes[communicator], []
    if len(files) == 1:
        note = f"{files[0].name}: its {len(keys)} devices are ranks in the order of their numbers"
        notes = [note] if len(keys) > 1 else []
        return {key: rank for rank, key in enumerate(keys)}, None, notes
    found: dict[Key, int] = {}
    problems = []
    for file in files:
        rank = rank_in_name(file.name)
        if len(file.keys) == 1 and rank is not None and rank not in found.values():
            found[file.keys[0]] = rank
            continue
        said = "neither NCCL's communicators nor the file's name give the rank of its devices"
        way = "one device in each file, with names such as rank3.sqlite; or one file of all devices"
        problems.append(Problem(file.name, "rank", said, way))
    if problems:
        raise InputError(problems)
    return found, None, []


class _Reader:
    """Reads one export."""

    def __init__(self, number: int, recording: Recording, made: Communicators) -> None:
        document = recording.document
        assert isinstance(document, NsysDocument)
        self.number, self.made, self.document = number, made, document
        self.file = _File(recording.file, 0)
        self.devices: dict[int, dict[int, int]] = {}
        """Process -> correlation -> device."""
        self.strings: dict[int, str] = {}
        free = machine.available()
        self.left = free // _BYTES if free is not None else None
        self.only: int | None = None

    def run(self) -> _File:
        """Everything that is used of it."""
        self.database = Database(self.file.name, self.document.source)
        try:
            self._machine()
            self._only_process()
            self._device()
            self._host()
            self._waits()
            self._ranges()
        finally:
            self.database.close()
        return self.file

    def _keep(self) -> None:
        """Counts an event that stays in memory."""
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            said = "has more events than this machine's memory can hold"
            way = f"nsys export --times for a part of it, or {machine.VARIABLE} set to the memory"
            raise InputError([Problem(self.file.name, "", said, f"{way} it may take")])

    def _string(self, number: int | None) -> str:
        """A text by its number, empty where there is none."""
        if number is None:
            return ""
        if number not in self.strings:
            rows = self.database.rows("StringIds", [Column("value", str)], Column("id"), number)
            self.strings[number] = next((value for (value,) in rows), "")
        return self.strings[number]

    def _machine(self) -> None:
        """The clock, and the names of GPUs."""
        clocks = [Column("utcEpochNs", int, False), Column("systemClockNs", int, False)]
        for epoch, system in self.database.rows("TARGET_INFO_SESSION_START_TIME", clocks):
            self.file.clock = (epoch or 0) - (system or 0)
        settings = [Column("name", str), Column("value", str, False)]
        for name, value in self.database.rows("META_DATA_EXPORT", settings):
            if name == "EXPORT_PARAM_TIME_NORMALIZE" and value == "true":
                self.file.clock = 0
        named = [Column("id", int, False), Column("name", str, False)]
        for device, name in self.database.rows("TARGET_INFO_GPU", named):
            if device is not None and name:
                self.file.names[device] = name

    def _only_process(self) -> None:
        """The process of device work in old exports, which do not say it."""
        stored = self.database.columns(_KERNELS)
        if not stored or "globalPid" in stored:
            return
        rows = self.database.rows(_CALLS, [Column("globalTid")])
        found = {thread // _THREADS * _THREADS for (thread,) in rows}
        if len(found) > 1:
            said = f"does not say which of {len(found)} processes ran a kernel"
            way = "an export by a newer nsys (nsys export --type sqlite)"
            raise InputError([Problem(self.file.name, _KERNELS, said, way)])
        self.only = next(iter(found), 0)

    def _timed(self, start: int, end: int, process: int) -> bool:
        """Whether times can be meant; others are counted."""
        is_sound = 0 <= start <= end <= _LATEST and end - start <= _DAY
        self.file.untimed[process] += not is_sound
        return is_sound

    def _device(self) -> None:
        """Kernels, copies, fills and graphs."""
        self._add(_KERNELS, "kernel", ("demangledName", "shortName"), self._kernel)
        kernels = sum(map(len, self.file.ops.values()))
        self._add(_GRAPHS, "kernel", ("graphId",), lambda graph: f"CUDA graph {graph}")
        graphs = sum(map(len, self.file.ops.values())) - kernels
        ran = {*self.file.ops}
        self._add(_COPIES, "copy", ("copyKind", "srcKind", "dstKind"), _copy)
        self._add(_FILLS, "set", ("memKind",), lambda kind: f"Memset ({_MEMORY.get(kind, '')})")
        if graphs:
            self.file.notes.append(
                f"{self.file.name}: each of {graphs:,} launches of CUDA graphs is one kernel; nsys "
                "profile --cuda-graph-trace=node records the kernels of a graph"
            )
        idle = [key for key in self.file.ops if key not in ran]
        dropped = sum(len(self.file.ops.pop(key)) for key in idle)
        if not self.file.ops:
            way = "nsys profile --trace=cuda,nvtx, then nsys export --type sqlite"
            raise InputError([Problem(self.file.name, _KERNELS, "has no kernel", way)])
        if dropped:
            self.file.notes.append(
                f"{self.file.name}: {counted(dropped, 'copy')} on devices without kernels are left "
                "out"
            )

    def _kernel(self, full: int | None, short: int | None) -> str:
        return self._string(full) or self._string(short) or "kernel"

    def _add(self, table: str, kind: str, named: Sequence[str], name: Callable[..., str]) -> None:
        columns = (*_SPAN, *_PLACE, _PROCESS, *(Column(each, int, False) for each in named))
        rows = self.database.rows(table, columns)
        for start, end, device, stream, number, said, *words in rows:
            process = said if said is not None else self.only or 0
            if not self._timed(start, end, process):
                continue
            self._keep()
            key = (self.number, process, device)
            op = DeviceOp(
                name(*words),
                kind,
                str(stream),
                start * 1000,
                end * 1000,
                max(0, number or 0),
                _NOTHING,
                str(device),
            )
            self.file.ops.setdefault(key, []).append(op)
            if number:
                self.devices.setdefault(process, {}).setdefault(number, device)

    def _host(self) -> None:
        """Calls that launched something or waited, and the first and the last one of a process."""
        columns = (*_SPAN, Column("globalTid"), Column("correlationId", int, False))
        found: dict[int, list[RuntimeCall]] = {}
        edges: dict[int, tuple[RuntimeCall, RuntimeCall]] = {}
        processes = {process for _, process, _ in self.file.ops}
        for start, end, thread, number, name in self.database.rows(
            _CALLS, (*columns, Column("nameId"))
        ):
            process = thread // _THREADS * _THREADS
            if process not in processes or not self._timed(start, end, process):
                continue
            word = _VERSION.sub("", self._string(name))
            call = RuntimeCall(word, _thread(thread), start * 1000, end * 1000, max(0, number or 0))
            first, last = edges.get(process, (call, call))
            first = min(first, call, key=lambda each: each.start)
            edges[process] = (first, max(last, call, key=lambda each: each.end))
            if number in self.devices.get(process, {}) or _KEPT.search(word):
                self._keep()
                found.setdefault(process, []).append(call)
        for process in processes:
            calls = found.get(process, [])
            kept = {id(each) for each in calls}
            ends = {id(each): each for each in edges.get(process, ())}
            calls += [each for number, each in ends.items() if number not in kept]
            self._share(process, calls)

    def _share(self, process: int, calls: list[RuntimeCall]) -> None:
        """Calls to the devices of their process: those of a launch to its own, others to that of
        the thread's last launch."""
        keys = [key for key in self.file.keys if key[1] == process]
        devices = self.devices.get(process, {})
        calls = sorted(calls, key=lambda each: (each.start, each.end))
        # Before its first launch a thread belongs to the device of that launch.
        current: dict[Thread, int] = {}
        for call in calls:
            if call.correlation in devices:
                current.setdefault(call.thread, devices[call.correlation])
        for call in calls:
            device = devices.get(call.correlation) if call.correlation else None
            if device is not None:
                current[call.thread] = device
            used = current.get(call.thread, keys[0][2])
            key = (self.number, process, used)
            self.file.calls.setdefault(key if key in keys else keys[0], []).append(call)

    def _waits(self) -> None:
        """Which event a wait was for, where that is recorded."""
        columns = [Column("eventSyncId", int, False), Column("streamId"), _PROCESS]
        columns += [Column("correlationId", int, False)]
        events: dict[tuple[int, int], tuple[str, int]] = {}
        for event, stream, process, number in self.database.rows(_EVENTS, columns):
            if event is not None:
                events[process or 0, event] = (str(stream), number or 0)
        columns = [Column("streamId"), Column("syncType"), Column("correlationId", int, False)]
        columns += [_PROCESS, Column("eventSyncId", int, False)]
        for stream, kind, number, process, event in self.database.rows(_SYNCS, columns):
            waits_for, record = events.get((process or 0, event or 0), ("", 0))
            own = "" if stream in (-1, 2**32 - 1) else str(stream)
            for key in self.file.ops:
                if number and key[1] == process:
                    self._keep()
                    self.file.syncs.setdefault(key, []).append(
                        SyncRecord(_SYNC.get(kind, ""), number, own, waits_for, record)
                    )

    def _ranges(self) -> None:
        """NVTX ranges: annotations, steps, and NCCL's calls."""
        schemas = Schemas(self.database)
        libraries = self._libraries()
        processes = {process for _, process, _ in self.file.ops}
        columns = [Column("start"), Column("end", int, False), Column("eventType")]
        columns += [Column("text", str, False), Column("textId", int, False)]
        columns += [Column("globalTid", int, False), Column("domainId", int, False)]
        columns += [Column("binaryData", bytes, False)]
        for start, end, kind, text, number, thread, domain, data in self.database.rows(
            _RANGES, columns
        ):
            process = (thread or 0) // _THREADS * _THREADS
            if kind not in (_PUSH_POP, _START_END) or process not in processes:
                continue
            name = text if text is not None else self._string(number)
            if end is None or not self._timed(start, end, process):
                continue
            if name.startswith("nccl") and not name.startswith("nccl:"):
                self._nccl(Range(name, start * 1000, end * 1000), thread, data, schemas)
                continue
            name = _NUMBERED.sub("", name)
            is_library = (process, domain) in libraries or name.startswith(("nccl:", "gloo:"))
            if name and not is_library and not _OPERATOR.match(name):
                self._keep()
                self.file.ranges.setdefault(process, []).append(
                    HostOp(name, _thread(thread), start * 1000, end * 1000, _NOTHING, True)
                )

    def _nccl(self, each: Range, thread: int, data: bytes | None, schemas: Schemas) -> None:
        """A range of NCCL, which may say who is in a communicator."""
        values = schemas.values(data) if data else None
        each.values, each.readable = values or {}, values is not None
        process = thread // _THREADS * _THREADS
        own = [key for key in self.file.keys if key[1] == process]
        if len(own) > 1:
            own = [key for key in own if key[2] == each.values.get("CUDA device")]
        if len(own) == 1:
            self.made.note(each, own[0], self.file.name)
        self._keep()
        self.file.nccl.setdefault(_thread(thread), []).append(each)

    def _libraries(self) -> set[tuple[int, int]]:
        """Process and number of the domains of libraries."""
        columns = [Column("eventType"), Column("text", str, False), Column("textId", int, False)]
        columns += [Column("globalTid", int, False), Column("domainId", int, False)]
        found = set()
        for kind, text, number, thread, domain in self.database.rows(_RANGES, columns):
            if kind == _DOMAIN and domain is not None:
                name = text if text is not None else self._string(number)
                if name in _LIBRARIES:
                    found.add(((thread or 0) // _THREADS * _THREADS, domain))
        return found


def _thread(serialized: int) -> Thread:
    return str(serialized // _THREADS * _THREADS), str(serialized % _THREADS)


def _copy(kind: int | None, source: int | None, target: int | None) -> str:
    """A copy's name as Kineto writes it."""
    ends = f"{_MEMORY.get(source or 0, 'Unknown')} -> {_MEMORY.get(target or 0, 'Unknown')}"
    return f"Memcpy {_ROOMS.get(kind or 0, 'Unknown')} ({ends})"


def _steps(ranges: list[HostOp]) -> list[HostOp]:
    """The same ranges; those that are steps have the name that PyTorch's profiler gives to steps.
    Of several kinds (steps and batches) the one that takes most time is the step. Numbers that
    repeat, or are missing, are places in time."""
    kinds: dict[tuple[Thread, str], list[tuple[HostOp, str | None]]] = {}
    for op in ranges:
        if found := _STEP.fullmatch(op.name):
            word = re.sub(r"[^a-z]", "", op.name.lower())
            kinds.setdefault((op.thread, word), []).append((op, found[1]))
    if not kinds:
        return ranges
    chosen = max(kinds.values(), key=lambda rows: sum(op.end - op.start for op, _ in rows))
    numbers = [number for _, number in chosen]
    is_clear = None not in numbers and len({*map(int, filter(None, numbers))}) == len(numbers)
    named = {
        id(op): replace(op, name=f"{PREFIX}{int(number) if is_clear and number else place}")
        for place, (op, number) in enumerate(chosen)
    }
    return [named.get(id(op), op) for op in ranges]
