"""Lines of a device in a profile of XLA to its operations.

Here: which lines have operations and which repeat them, loops around operations, collectives that
run next to others. Not here: which device is which rank, calls of hosts, steps (`xprof.py`).

    GPU    lines `Stream #...`; others are derived from them
    TPU    the line `XLA Ops`; `Async XLA Ops` and others are derived from it
    CPU    events of threads that have `hlo_op` and `device_ordinal`: each thread is a stream

- An event with others inside it (a loop, a call) is not an operation; what is inside is.
- `all-gather-start` and `all-gather-done` become a collective from the end of the one to the end of
  the other. The start is an operation that takes its time; the done is a wait, and takes none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from .. import xla
from ..xla import NamedOp
from .collectives import KERNEL, CommunicationCall
from .kineto import DeviceOp, LeftOut, RuntimeCall, Thread
from .reading import Event
from .xprof_hlo import Key, Programs, split_name
from .xspace import Line, Plane, Space, Span, TraceLine

STREAM = re.compile(r"Stream #(\d{1,20})")
OPS, MODULES, STEPS = "XLA Ops", "XLA Modules", "Steps"
_COPY = re.compile(r"(?:Memcpy|memcpy)(H2D|D2H|D2D|P2P|H2H)")
_NOTHING = Event()
_CATEGORIES = {
    "convolution": "gemm", "convolution fusion": "gemm", "custom fusion": "",
    "loop fusion": "elementwise", "input fusion": "elementwise", "output fusion": "gemm",
    "non-fusion elementwise": "elementwise", "data formatting": "elementwise",
    "copy": "elementwise", "reduce": "elementwise", "broadcast": "elementwise",
}  # fmt: skip
"""Kinds of kernels by `hlo_category`. TPUs multiply matrices as convolutions."""

Keep = Callable[[], None]


@dataclass
class Work:
    """The work of a device. `around` are events that others are inside of, `waits` those that wait
    for a collective."""

    ops: list[DeviceOp] = field(default_factory=list)
    around: int = 0
    waits: int = 0
    wait_time: int = 0
    untimed: int = 0
    unsized: Counter[str] = field(default_factory=Counter)
    operations: float = 0
    bytes: float = 0
    stated: int = 0
    """Operations for which the profile says how much they compute."""


@dataclass
class Runs:
    """The runs of modules on a device, by start."""

    spans: list[tuple[int, int, str, int]] = field(default_factory=list)
    """Start, end, name of the module, number of the program."""


def module_runs(lines: Iterable[Line | TraceLine]) -> Runs:
    """The line of modules."""
    found = []
    for line in lines:
        for span in line.events():
            name, number = split_name(span.name)
            own = span.number("program_id")
            found.append((span.start, span.end, name, own if own >= 0 else number))
    return Runs(sorted(found))


def keyed(spans: Sequence[Span], runs: Runs) -> Iterator[tuple[Span, Key]]:
    """Events by start, each with its module: the one it names, else the one that ran then."""
    at = 0
    for span in spans:
        while at + 1 < len(runs.spans) and runs.spans[at + 1][0] <= span.start:
            at += 1
        name, number = span.word("hlo_module"), span.number("program_id")
        if not name and runs.spans and runs.spans[at][0] <= span.start <= runs.spans[at][1]:
            _, _, name, ran = runs.spans[at]
            number = number if number >= 0 else ran
        yield span, (name, number)


def gpu_lines(plane: Plane) -> list[Line | TraceLine]:
    """Streams of a GPU; where a profile has none, the line of its operations."""
    streams = [line for line in plane.lines if STREAM.match(line.name)]
    return streams or [line for line in plane.lines if line.name == OPS]


def of_gpu(number: str, spans: dict[str, list[Span]], programs: Programs, rank: int) -> Work:
    """Kernels and copies of a GPU, by stream."""
    work = Work()
    library = {
        span.word("hlo_op")
        for line in spans.values()
        for span in line
        if KERNEL.search(span.name)
    } - {""}  # fmt: skip
    for stream, line in spans.items():
        parts: list[DeviceOp] = []
        last = ""
        for span, key in keyed(line, Runs()):
            name = span.word("hlo_op")
            known = programs.find(span, key) if name else None
            programs.joined += known is not None
            programs.unknown += known is None and bool(name)
            kind = _kind(span)
            op = DeviceOp(
                _shown(span.name),
                kind,
                stream,
                span.start,
                span.end,
                max(0, span.number("correlation_id")),
                _NOTHING,
                number,
            )
            op.layer = known.layer if known is not None else _layer(span)
            is_library = KERNEL.search(span.name) is not None
            talks = kind == "kernel" and (is_library or name not in library)
            if known is not None and talks and known.part != "done":
                op.calls = programs.calls(known, key, rank)
            if op.calls and parts and last == name and op.name not in {p.name for p in parts}:
                parts.append(op)
            else:
                _share(parts)
                parts, last = ([op], name) if op.calls else ([], "")
            if known is not None and not op.calls and not is_library:
                op.work = _work_of(span.name, known.kernel)
            _state(work, span)
            work.ops.append(op)
        _share(parts)
    return work


def _share(parts: list[DeviceOp]) -> None:
    """Kernels of one collective have its bytes together."""
    if len(parts) < 2:
        return
    for place, op in enumerate(parts):
        op.calls = tuple(_part(call, place, len(parts)) for call in op.calls)


def _part(call: CommunicationCall, place: int, count: int) -> CommunicationCall:
    if call.bytes < 0:
        return call
    return replace(call, bytes=call.bytes // count + (place < call.bytes % count))


def _work_of(name: str, kernel: str) -> str:
    """The kind of a GPU's kernel. Libraries name theirs; fusions are named by what they do."""
    return kernel if kernel in ("gemm", "convolution", "embedding") or "fusion" in name else ""


def _kind(span: Span) -> str:
    if span.get("memcpy_details") is not None or _COPY.search(span.name):
        return "copy"
    if span.get("memset_details") is not None or span.name.lower().startswith("memset"):
        return "set"
    return "kernel"


def _shown(name: str) -> str:
    """The name of an operation, copies as Kineto has them."""
    found = _COPY.search(name)
    return f"Memcpy {found[1].replace('2', 'to')}" if found else name


def _layer(span: Span) -> str:
    """Where in the model an operation is, by the name that the framework gave it."""
    said = span.word("tf_op") or span.word("name")
    return _scope(said) if said else ""


@lru_cache(maxsize=16384)
def _scope(said: str) -> str:
    parts = said.rpartition(":")[0].split("/") if ":" in said else said.split("/")
    return "/".join(parts[1:-1])[:200]


def _state(work: Work, span: Span) -> None:
    """Adds the operations and bytes that the profile itself says of an event."""
    flops, size = span.get("flops"), span.get("bytes_accessed")
    flops = span.get("model_flops") if flops is None else flops
    found = [float(each) for each in (flops, size) if isinstance(each, int | float)]
    if isinstance(flops, int | float) and 0 <= flops < 2**60:
        work.operations += float(flops)
    if isinstance(size, int | float) and 0 <= size < 2**60:
        work.bytes += float(size)
    work.stated += bool(found)


def in_order(
    device: str, lines: dict[str, list[Span]], runs: Runs, programs: Programs, rank: int
) -> Work:
    """Operations of lines on which one follows the other: a TPU's, or threads of a CPU."""
    work = Work()
    for stream, spans in lines.items():
        leaves = list(_leaves(spans, work))
        _Sequence(device, stream, work, programs, rank).run(keyed(leaves, runs))
    work.ops.sort(key=lambda op: (op.start, op.end))
    return work


def _leaves(spans: list[Span], work: Work) -> Iterator[Span]:
    """Events without others in them, by start."""
    spans.sort(key=lambda span: (span.start, span.end > span.start, -span.end))
    inside: list[Span | None] = []
    after: Span | None = None
    for span in reversed(spans):
        inside.append(after)
        after = span if span.end > span.start else after
    for span, other in zip(spans, reversed(inside), strict=True):
        if other is not None and other.start < span.end and other.end <= span.end:
            work.around += 1
        else:
            yield span


class _Sequence:
    """One line of a device, event by event."""

    def __init__(self, device: str, stream: str, work: Work, programs: Programs, rank: int) -> None:
        self.device, self.stream, self.work = device, stream, work
        self.programs, self.rank = programs, rank
        self.started: dict[str, tuple[str, DeviceOp, tuple[CommunicationCall, ...]]] = {}
        """Instruction -> opcode, the operation that started it, calls."""
        self.lanes: list[int] = []
        """Until when each stream of collectives next to others is in use."""
        self.ended: tuple[DeviceOp, ...] = ()
        """Collectives that were waited for since the last operation."""

    def run(self, events: Iterable[tuple[Span, Key]]) -> None:
        for span, key in events:
            self._take(span, key)

    def _take(self, span: Span, key: Key) -> None:
        programs, work = self.programs, self.work
        known = programs.find(span, key)
        programs.joined += known is not None
        programs.unknown += known is None
        name = span.word("hlo_op") or span.name
        name = name.removeprefix("%")[:512]
        if known is None:
            known = _by_name(span, name)
        if known.part == "done" and self._done(span, known.started, known.opcode):
            return
        calls = programs.calls(known, key, self.rank)
        if known.kind and not calls:
            work.unsized[known.opcode] += 1
        op = DeviceOp(name, "kernel", self.stream, span.start, span.end, 0, _NOTHING, self.device)
        op.layer = known.layer or _layer(span)
        op.after, self.ended = self.ended, ()
        if known.part == "start" and calls:
            self.started[name] = (known.opcode, op, calls)
        elif known.part != "done":
            op.calls = calls
        if not op.calls:
            op.work = known.kernel or _CATEGORIES.get(span.word("hlo_category").lower(), "")
        _state(work, span)
        work.ops.append(op)

    def _done(self, span: Span, name: str, opcode: str) -> bool:
        """Ends a collective, if its start was recorded."""
        if name not in self.started:
            same = [each for each, (base, _, _) in self.started.items() if base == opcode]
            if name or not same:
                return False
            name = same[0]
        _, start, calls = self.started.pop(name)
        lane = next((at for at, until in enumerate(self.lanes) if until <= start.end), -1)
        if lane < 0:
            lane = len(self.lanes)
            self.lanes.append(0)
        self.lanes[lane] = span.end
        op = DeviceOp(
            name.replace("-start", ""),
            "kernel",
            f"{self.stream} async {lane}",
            start.end,
            span.end,
            0,
            _NOTHING,
            self.device,
            calls,
            (start,),
            start.layer,
        )
        # Time before the wait stays when the wait becomes shorter.
        wait = DeviceOp(
            name, "kernel", self.stream, span.start, span.start, 0, _NOTHING, self.device
        )
        wait.after, self.ended = self.ended, ()
        self.work.ops.append(wait)
        self.work.waits += 1
        self.work.wait_time += span.end - span.start
        self.work.ops.append(op)
        self.ended = (*self.ended, op)
        return True


def _by_name(span: Span, name: str) -> NamedOp:
    """An operation that no module has: what its category and its name say."""
    return _said(span.word("hlo_category"), name)


@lru_cache(maxsize=16384)
def _said(category: str, name: str) -> NamedOp:
    for said in (category.replace(" ", "-").lower(), name):
        opcode, part = xla.split(said)
        if opcode:
            return NamedOp(opcode, xla.kind_of(opcode), part)
    return NamedOp("")


@dataclass
class Device:
    """A device of a host: its kind, its number, and its plane."""

    host: int
    kind: str
    number: int
    plane: Plane
    lines: dict[str, list[Span]] = field(default_factory=dict)
    runs: Runs = field(default_factory=Runs)
    left: list[LeftOut] = field(default_factory=list)

    @property
    def title(self) -> str:
        """As the profile calls it."""
        return f"{self.kind} {self.number}"

    def spans(self) -> list[Span]:
        """All of its operations."""
        return [span for line in self.lines.values() for span in line]


@dataclass
class Host:
    """The threads of a host."""

    file: str
    space: Space
    calls: list[RuntimeCall] = field(default_factory=list)
    steps: list[tuple[str, int, Thread, int, int]] = field(default_factory=list)
    """Name, number, thread, start and end of an annotated step."""
    cpu: dict[int, dict[str, list[Span]]] = field(default_factory=dict)
    """Number of a CPU device -> thread -> its operations."""
    events: int = 0
    untimed: int = 0
