"""Kineto events to host calls, device operations and annotations of one rank.

Here: what each category of event is and its exact times. Not here: who caused what (`linking.py`),
which collective a kernel is (`collectives.py`). All times are integer picoseconds on the trace's
own clock. Source: the categories that libkineto writes (`cpu_op`, `cuda_runtime`, `kernel`, ...),
ROCm's and CUDA's alike."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from ...errors import InputError, Problem
from . import foreign
from .collectives import KERNEL, CommunicationCall
from .reading import LONGEST_NAME, Event, KinetoDocument, Recording

Thread = tuple[str, str]
Args = dict[str, Any]

_CALLS = frozenset(
    {"cuda_runtime", "cuda_driver", "runtime", "hip_runtime", "xpu_runtime", "privateuse1_runtime"}
)
_DEVICE = {"kernel": "kernel", "Kernel": "kernel", "gpu_memcpy": "copy", "Memcpy": "copy"}
_DEVICE |= {"gpu_memset": "set", "Memset": "set"}
_HOST = frozenset({"cpu_op", "Operator"})
_LONGEST = 86_400_000_000
"""Microseconds (a day) beyond which a duration is taken for damage."""
_LATEST = 10**17
"""Microseconds (3,000 years) beyond which a time is."""
_APART = 100 * 86_400 * 10**12
"""Picoseconds (100 days) between events of one run at most; the simulator's times end at 213
days."""
_UNUSED_PHASES = frozenset({"M", "i", "I", "C"})


@dataclass(slots=True)
class HostOp:
    """An operator or annotation on a host thread. `number` counts them in the order of their start
    on the thread."""

    name: str
    thread: Thread
    start: int
    end: int
    event: Event
    annotation: bool
    detail: Args = field(default_factory=dict)


@dataclass(slots=True)
class RuntimeCall:
    """A call into the CUDA or HIP runtime or driver."""

    name: str
    thread: Thread
    start: int
    end: int
    correlation: int


@dataclass(slots=True)
class DeviceOp:
    """A kernel, copy or fill on a stream."""

    name: str
    kind: str
    stream: str
    start: int
    end: int
    correlation: int
    event: Event
    device: str
    calls: tuple[CommunicationCall, ...] = ()
    """The communication that it is, where its reader knows that; else it is looked for."""
    after: tuple[DeviceOp, ...] = ()
    """Operations of other streams that it waited for, where its reader knows them."""
    layer: str = ""
    """Where in the model it is, where its reader knows that; else annotations say it."""
    work: str = ""
    """The kind of its kernel, where its reader knows that; else its name says it."""

    @property
    def communicates(self) -> bool:
        """Whether it moves bytes between ranks."""
        return bool(self.calls) or KERNEL.search(self.name) is not None


@dataclass(slots=True)
class SyncRecord:
    """Events that a synchronisation waited for, as Kineto records them; streams are "" and
    correlations 0 where it does not record them."""

    kind: str
    correlation: int
    stream: str
    waits_for: str
    record: int


@dataclass
class Contradictions:
    """Counts, and the time that was cut off, picoseconds."""

    cut: Counter[str] = field(default_factory=Counter)
    """Device operations that were cut, by what they ran into."""
    time: int = 0
    longest: str = ""
    """Name of the operation that lost most."""
    early: int = 0
    """Device operations that begin before the call that launched them."""
    crossing: int = 0
    """Host operators that begin within another one of their thread and end after it."""
    _most: int = 0

    def shorten(self, op: DeviceOp, end: int, why: str) -> None:
        """Cuts an operation at `end`."""
        lost = op.end - end
        self.cut[why] += 1
        self.time += lost
        if lost > self._most:
            self._most, self.longest = lost, op.name
        op.end = end


@dataclass(frozen=True)
class LeftOut:
    """Events that a reader left out, their time in picoseconds, and the reason."""

    what: str
    count: int
    time: int
    why: str


@dataclass
class Trace:
    """One rank's Kineto trace, every list by start."""

    file: str
    distributed: Args
    devices: list[Args]
    clock: int | None
    ops: list[HostOp] = field(default_factory=list)
    calls: list[RuntimeCall] = field(default_factory=list)
    device: list[DeviceOp] = field(default_factory=list)
    syncs: list[SyncRecord] = field(default_factory=list)
    pids: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    """Events of categories without a meaning here, by category."""
    untimed: int = 0
    """Operations and calls without a usable time, or with one beyond a day."""
    contradictions: Contradictions = field(default_factory=Contradictions)
    step_mark: str = "ProfilerStep annotation"
    """The mark of a step in a trace of this kind."""
    has_launches: bool = True
    """Whether calls of the host are recorded that launch what a device does."""
    left_out: list[LeftOut] = field(default_factory=list)
    """Events that its reader left out."""

    @property
    def epoch(self) -> int:
        """Picoseconds to add to this trace's times so that they can be compared with those of other
        traces."""
        return (self.clock or 0) * 1000

    @property
    def device_name(self) -> str:
        """Name of the accelerator in the trace, empty if it has none."""
        used = {op.device for op in self.device}
        named = [
            str(d.get("name", "")) for d in self.devices if not used or str(d.get("id")) in used
        ]
        return (named or [str(d.get("name", "")) for d in self.devices] or [""])[0]


def picoseconds(microseconds: Decimal | int) -> int:
    """Microseconds to the nearest picosecond. Programs that subtract doubles write durations of too
    many digits, such as 9646.118999999999."""
    return round(microseconds * 1_000_000)


def trace(recording: Recording) -> Trace:
    """Sorts a Kineto document. Raises `InputError` when there is nothing to replay in it."""
    document = recording.document
    assert isinstance(document, KinetoDocument)
    result = Trace(
        recording.file,
        document.distributedInfo or {},
        document.deviceProperties or [],
        document.baseTimeNanoseconds,
    )
    for event in document.traceEvents:
        _sort(result, event)
    if not result.ops and not result.device:
        raise InputError([_nothing(recording.file, document, result)])
    result.ops.sort(key=lambda op: (op.start, -op.end))
    result.calls.sort(key=lambda call: (call.start, call.end))
    result.device.sort(key=lambda op: (op.start, op.end))
    require_one_run(result)
    return result


def _nothing(file: str, document: KinetoDocument, found: Trace) -> Problem:
    """A trace without an operation: which program wrote it, if its processes say so."""
    named = [event.arguments().get("name") for event in document.traceEvents if event.ph == "M"]
    what, way = foreign.of_events([str(name) for name in named if name])
    categories = ", ".join(sorted(found.unread)) or "no event"
    return Problem(file, "traceEvents", f"{what}; its categories are: {categories}", way)


def require_one_run(found: Trace) -> None:
    """Raises `InputError` where a time is so far from the others that it is damage."""
    timed: list[HostOp | RuntimeCall | DeviceOp] = [
        *found.ops[:1],
        *found.ops[-1:],
        *found.calls[:1],
        *found.calls[-1:],
    ]
    timed += [*found.device[:1], *found.device[-1:]]
    first, last = min(timed, key=lambda each: each.start), max(timed, key=lambda each: each.start)
    if last.start - first.start > _APART:
        days = (last.start - first.start) / 86_400e12
        message = f"{first.name[:80]!r} begins {days:,.0f} days before {last.name[:80]!r}"
        raise InputError(
            [Problem(found.file, "traceEvents", message, f"at most {_APART / 86_400e12:.0f} days")]
        )


def _sort(into: Trace, event: Event) -> None:
    if event.ph != "X":
        return
    category = event.cat
    if not _is_timed(event):
        into.untimed += category in _DEVICE or category in _CALLS or category in _HOST
        return
    event.name = event.name[:LONGEST_NAME]
    if category in _HOST or category == "user_annotation":
        start = picoseconds(event.ts or 0)
        thread = (str(event.pid), str(event.tid))
        into.pids[thread[0]] += 1
        end = start + picoseconds(event.dur or 0)
        into.ops.append(
            HostOp(event.name, thread, start, end, event, category == "user_annotation")
        )
    elif category in _CALLS:
        into.calls.append(_call(event))
    elif category in _DEVICE:
        into.device.append(_device_op(event))
    elif category == "cuda_sync":
        into.syncs.append(_sync(event))
    elif category not in _UNUSED_PHASES:
        into.unread[category or "no category"] += 1


def _is_timed(event: Event) -> bool:
    """Whether an event has times, and such as can be meant."""
    start, length = event.ts, event.dur
    if start is None or length is None or not (start.is_finite() and length.is_finite()):
        return False
    return 0 <= length <= _LONGEST and abs(start) <= _LATEST


def _call(event: Event) -> RuntimeCall:
    start = picoseconds(event.ts or 0)
    correlation = _number(event.arguments().get("correlation"))
    end = start + picoseconds(event.dur or 0)
    return RuntimeCall(event.name, (str(event.pid), str(event.tid)), start, end, correlation)


def _device_op(event: Event) -> DeviceOp:
    arguments = event.arguments()
    start = picoseconds(event.ts or 0)
    stream = str(arguments.get("stream", event.tid))
    device = str(arguments.get("device", event.pid))
    correlation = _number(arguments.get("correlation"))
    end = start + picoseconds(event.dur or 0)
    return DeviceOp(event.name, _DEVICE[event.cat], stream, start, end, correlation, event, device)


def _sync(event: Event) -> SyncRecord:
    arguments = event.arguments()
    return SyncRecord(
        str(arguments.get("cuda_sync_kind", event.name)),
        _number(arguments.get("correlation")),
        _stream(arguments.get("stream")),
        _stream(arguments.get("wait_on_stream")),
        _number(arguments.get("wait_on_cuda_event_record_corr_id")),
    )


def _stream(value: object) -> str:
    """A stream's name; "" for the marks of no stream."""
    return "" if value in (None, -1, 4294967295, "-1", "4294967295") else str(value)


def _number(value: object) -> int:
    """A correlation id, 0 where it is missing or not one."""
    try:
        return max(0, int(str(value)))
    except ValueError:
        return 0
