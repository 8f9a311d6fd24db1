"""Profiles of XLA to planes, lines and events: XSpace, and Chrome JSON that is made of it.

    space     one host's profile
    plane     a device, the host's threads, or the modules that ran
    line      a stream, a thread, or a line that is derived from others
    event     a name, a start, an end, and named values

Here: these parts. Not here: which file is a profile (`reading.py`), what it means (`xprof.py`).
Events are read when they are asked for, so that lines that are not used cost nothing. Times are
integer picoseconds on the file's own clock.

Format: tsl/profiler/protobuf/xplane.proto of openxla/xla. Names of values: xplane_schema.cc
there."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from ..xla.module import DamagedError
from ..xla.wire import Message, Value, fields, varint
from .reading import LONGEST_NAME, Event, KinetoDocument

Wanted = Callable[[str], bool]
Stat = int | float | str
_NONE: Mapping[str, Stat] = {}

KEPT = frozenset({
    "hlo_op", "hlo_module", "program_id", "run_id", "device_ordinal", "correlation_id",
    "memcpy_details", "memset_details", "hlo_category", "tf_op", "name", "long_name", "flops",
    "model_flops", "bytes_accessed", "step_num", "group_id", "step_name", "device_vendor",
    "device_type_string", "gpu_device_name", "profile_start_time",
})  # fmt: skip
"""Values that are read."""
METADATA, HOST, ENVIRONMENT = "/host:metadata", "/host:CPU", "Task Environment"
_TIMES = frozenset((0x08, 0x10, 0x18, 0x28))
"""First bytes of an event's fields that are numbers."""
_WHOLE = frozenset((0x18, 0x20, 0x38))
"""First bytes of a value that is a whole number, or the number of a text."""
_LATEST = 2**62
_DAY = 86_400 * 10**12
_MOST_IN_TRACE = 999_000
"""JAX writes a million events into a document of Chrome's format."""
_MOST_LINES = 100_000
"""Lines of a plane: threads that ran. Clusters have thousands."""


@dataclass(slots=True)
class Span:
    """An event. `text` is its long name where it has one, `own` and `shared` are its values and
    those of all events of its name."""

    name: str
    text: str
    start: int
    end: int
    own: Mapping[str, Stat]
    shared: Mapping[str, Stat]

    def get(self, key: str) -> Stat | None:
        """A value; none where there is none."""
        value = self.own.get(key)
        return self.shared.get(key) if value is None else value

    def number(self, key: str) -> int:
        """A whole number, -1 where there is none."""
        value = self.get(key)
        try:
            return -1 if value is None else int(value)
        except (ValueError, OverflowError):
            return -1

    def word(self, key: str) -> str:
        """A text, empty where there is none."""
        value = self.get(key)
        return value if isinstance(value, str) else ""


class Line:
    """A line of XSpace. `untimed` counts events without a usable time, once they were read."""

    def __init__(self, view: memoryview, names: _Names) -> None:
        self.number, self.name, self.untimed = 0, "", 0
        self._view, self._names, self._base = view, names, 0
        shown = ""
        for key, value in fields(view):
            if isinstance(value, int):
                if key == 1:
                    self.number = _signed(value)
                elif key == 3:
                    self._base = _signed(value) * 1000
            elif key == 2:
                self.name = _text(value)
            elif key == 11:
                shown = _text(value)
        self.name = self.name or shown

    def events(self, wanted: Wanted | None = None) -> Iterator[Span]:
        """Events in the order of the file; only those whose name is wanted. Raises
        `DamagedError`."""
        names, base = self._names, self._base
        keep: dict[int, bool] = {}
        for number, view in fields(self._view):
            if number != 4 or isinstance(view, int):
                continue
            place = names.of(view)
            if wanted is not None:
                if place not in keep:
                    keep[place] = wanted(names.name(place)[0])
                if not keep[place]:
                    continue
            found = names.event(view, place, base)
            if found is None:
                self.untimed += 1
            else:
                yield found


class TraceLine:
    """A thread of a document in Chrome's format."""

    def __init__(self, number: int, name: str) -> None:
        self.number, self.name, self.untimed = number, name, 0
        self.kept: list[Event] = []

    def events(self, wanted: Wanted | None = None) -> Iterator[Span]:
        """Events in the order of the file; only those whose name is wanted."""
        for each in self.kept:
            if wanted is not None and not wanted(each.name):
                continue
            if each.ts is None or not each.ts.is_finite() or not abs(each.ts) < _LATEST // 10**6:
                self.untimed += 1
                continue
            length = each.dur if each.dur is not None and each.dur.is_finite() else -1
            if not 0 <= length <= _DAY // 10**6:
                self.untimed += 1
                continue
            start = _rounded(each.ts)
            values = {
                key: value
                for key, value in each.arguments().items()
                if key in KEPT and isinstance(value, int | float | str)
            }
            long = values.get("long_name")
            text = long if isinstance(long, str) else ""
            name = each.name[:LONGEST_NAME]
            # XLA writes the shortest time in place of none.
            end = start + _rounded(length) if _rounded(length) > 1 else start
            yield Span(name, text, start, end, values, _NONE)


@dataclass
class Plane:
    """A plane, and the modules in it: name, number of the program, message."""

    name: str
    stats: Mapping[str, Stat] = field(default_factory=dict)
    lines: list[Line | TraceLine] = field(default_factory=list)
    modules: list[tuple[str, int, bytes]] = field(default_factory=list)


@dataclass
class Space:
    """A profile of one host. `started` is when it began, nanoseconds since 1970, 0 where that is
    not known or its times have it already."""

    planes: list[Plane]
    host: str = ""
    started: int = 0
    said: list[str] = field(default_factory=list)
    """Faults that the profiler names."""
    cut: bool = False
    """Whether it has the most events that JAX writes into a document of Chrome's format."""


def read(data: bytes) -> Space:
    """The profile in a file. Raises `DamagedError`."""
    whole = Message(memoryview(data))
    space = Space([_plane(Message(view)) for view in whole.views(1)])
    space.host = whole.text(4)
    space.said = [bytes(view).decode("utf-8", "replace")[:200] for view in whole.views(2)[:8]]
    for plane in space.planes:
        started = plane.stats.get("profile_start_time") if plane.name == ENVIRONMENT else None
        if isinstance(started, int) and 0 < started < _LATEST:
            space.started = started
    return space


def _plane(message: Message) -> Plane:
    name = message.text(2)[:LONGEST_NAME]
    names = _Names(message)
    plane = Plane(name, names.stats([*message.views(6)]))
    views = message.views(3)
    if len(views) > _MOST_LINES:
        raise DamagedError(name[:80], f"has {len(views):,} lines", f"at most {_MOST_LINES:,}")
    for view in views:
        plane.lines.append(Line(view, names))
    if name == METADATA:
        plane.modules = names.modules()
    return plane


class _Names:
    """Names and values that events of a plane share."""

    def __init__(self, plane: Message) -> None:
        self._stats: dict[int, str] = {}
        for view in plane.views(5):
            number, inner = _entry(view)
            self._stats[number] = Message(inner).text(2)[:LONGEST_NAME] if inner else ""
        self._kept = {number: name for number, name in self._stats.items() if name in KEPT}
        self._views: dict[int, memoryview] = {}
        for view in plane.views(4):
            number, inner = _entry(view)
            if inner is not None:
                self._views[number] = inner
        self._known: dict[int, tuple[str, str, Mapping[str, Stat]]] = {}

    def of(self, view: memoryview) -> int:
        """The number of an event's name, which writers put first."""
        if len(view) > 1 and view[0] == 8:
            return varint(view, 1)[0]
        return next(
            (value for key, value in fields(view) if key == 1 and isinstance(value, int)), 0
        )

    def name(self, number: int) -> tuple[str, str, Mapping[str, Stat]]:
        """Name, long name and shared values."""
        if number not in self._known:
            view = self._views.get(number)
            if view is None:
                self._known[number] = ("", "", _NONE)
            else:
                message = Message(view)
                name, shown = message.text(2)[:LONGEST_NAME], message.text(4)[:LONGEST_NAME]
                stats = self.stats(message.views(5))
                self._known[number] = (shown or name, name if shown else "", stats)
        return self._known[number]

    def event(self, view: memoryview, place: int, base: int) -> Span | None:
        """An event; none for one without a usable time, such as a sum of several."""
        data = bytes(view)
        at, end, offset, duration = 0, len(data), 0, 0
        own: dict[str, Stat] | None = None
        try:
            while at < end:
                key = data[at]
                if key == 0x22:
                    length, at = _number(data, at + 1)
                    if length > end - at:
                        raise DamagedError("the file", f"ends inside a field of {length:,} bytes")
                    own = self._take(data, view, at, at + length, own)
                    at += length
                elif key in _TIMES:
                    value, at = _number(data, at + 1)
                    if key == 0x10:
                        offset = value
                    elif key == 0x18:
                        duration = value
                    elif key == 0x28:
                        return None
                else:
                    return self._slow(view, place, base)
        except IndexError:
            raise DamagedError("the file", "ends inside a number") from None
        return self._timed(place, base + _signed(offset), _signed(duration), own)

    def _take(
        self, data: bytes, view: memoryview, at: int, end: int, own: dict[str, Stat] | None
    ) -> dict[str, Stat] | None:
        """Adds a value of an event: here those of the usual form, a short number and a value that
        is a number."""
        if end - at < 4 or data[at] != 8 or data[at + 1] > 127:
            return self._add(view[at:end], own)
        name = self._kept.get(data[at + 1])
        if name is None:
            return own
        key = data[at + 2]
        if key not in _WHOLE:
            return self._add(view[at:end], own)
        value, at = _number(data, at + 3)
        if at != end:
            raise DamagedError("the file", "has a value that ends elsewhere than its field")
        own = {} if own is None else own
        if key == 0x38:
            own[name] = self._stats.get(value, "")
        else:
            own[name] = _signed(value) if key == 0x20 else value
        return own

    def _slow(self, view: memoryview, place: int, base: int) -> Span | None:
        """The same for events with fields of other kinds, which no version has yet."""
        offset = duration = 0
        own: dict[str, Stat] | None = None
        for key, value in fields(view):
            if key == 4 and not isinstance(value, int):
                own = self._add(value, own)
            elif key == 5:
                return None
            elif key in (2, 3) and isinstance(value, int):
                offset, duration = (value, duration) if key == 2 else (offset, value)
        return self._timed(place, base + _signed(offset), _signed(duration), own)

    def _timed(
        self, place: int, start: int, duration: int, own: Mapping[str, Stat] | None
    ) -> Span | None:
        if not (abs(start) <= _LATEST * 1000 and 0 <= duration <= _DAY):
            return None
        name, text, shared = self.name(place)
        return Span(name, text, start, start + duration, own or _NONE, shared)

    def _add(self, view: memoryview, own: dict[str, Stat] | None) -> dict[str, Stat] | None:
        if len(view) > 1 and view[0] == 8 and view[1] < 128 and view[1] not in self._kept:
            return own
        found = self._stat(view)
        if found is None:
            return own
        own = {} if own is None else own
        own[found[0]] = found[1]
        return own

    def _stat(self, view: memoryview) -> tuple[str, Stat] | None:
        name, kept = "", None
        for key, value in fields(view):
            if key == 1 and isinstance(value, int):
                name = self._kept.get(value, "")
                if not name:
                    return None
            else:
                kept = self._value(key, value)
        return (name, kept if kept is not None else 0) if name else None

    def _value(self, key: int, value: Value) -> Stat | None:
        if isinstance(value, int):
            if key == 2:
                return float(struct.unpack("<d", struct.pack("<Q", value & (2**64 - 1)))[0])
            if key == 7:
                return self._stats.get(value, "")
            return _signed(value) if key == 4 else value
        if key == 5:
            return _text(value)
        if key == 8:
            return _unpacked(value)
        return None

    def stats(self, views: list[memoryview]) -> Mapping[str, Stat]:
        """The values in some messages."""
        found: dict[str, Stat] = {}
        for view in views:
            self._add(view, found)
        return found or _NONE

    def modules(self) -> list[tuple[str, int, bytes]]:
        """Modules that names have as a value: name, number of the program, message."""
        found = []
        for number, view in self._views.items():
            message = Message(view)
            held = [bytes(each) for each in message.views(3)]
            for stat in message.messages(5):
                if self._stats.get(stat.integer(1)) in ("Hlo Proto", "hlo_proto"):
                    held += [bytes(each) for each in stat.views(6)]
            found += [(message.text(2)[:LONGEST_NAME], number, each) for each in held if each]
        return found


def _number(data: bytes, at: int) -> tuple[int, int]:
    """As `varint`, for bytes; raises `IndexError` at their end."""
    value = data[at]
    if value < 128:
        return value, at + 1
    value &= 127
    for shift in range(7, 70, 7):
        at += 1
        byte = data[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value & (2**64 - 1), at + 1
    raise DamagedError("the file", "has a number of more than 10 bytes")


def _entry(view: memoryview) -> tuple[int, memoryview | None]:
    """Key and value of an entry of a map."""
    number, inner = 0, None
    for key, value in fields(view):
        if key == 1 and isinstance(value, int):
            number = value
        elif key == 2 and not isinstance(value, int):
            inner = value
    return number, inner


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _text(view: memoryview) -> str:
    return bytes(view[: 4 * LONGEST_NAME]).decode("utf-8", "replace")[:LONGEST_NAME]


def _unpacked(view: memoryview) -> str:
    """A text that is packed, its first characters."""
    try:
        found = zlib.decompressobj(31).decompress(bytes(view), LONGEST_NAME)
    except zlib.error:
        return ""
    return found.decode("utf-8", "replace")


def _rounded(microseconds: Decimal | int) -> int:
    """Whole picoseconds. Such documents have binary fractions, so that 1.145 is 1.1449999."""
    return (
        int((microseconds * 1_000_000).to_integral_value())
        if isinstance(microseconds, Decimal)
        else microseconds * 1_000_000
    )


def _processes(document: KinetoDocument) -> dict[str, str]:
    return {
        str(each.pid): str(each.arguments().get("name", ""))
        for each in document.traceEvents
        if each.ph == "M" and each.name == "process_name"
    }


def from_trace(document: KinetoDocument) -> Space:
    """The profile that a document in Chrome's format was made of."""
    planes = {pid: Plane(name) for pid, name in _processes(document).items()}
    lines: dict[tuple[str, str], TraceLine] = {}
    for each in document.traceEvents:
        if each.ph == "M" and each.name == "thread_name":
            name = str(each.arguments().get("name", ""))
            lines[str(each.pid), str(each.tid)] = TraceLine(len(lines), name)
    for each in document.traceEvents:
        if each.ph == "X":
            key = (str(each.pid), str(each.tid))
            if key not in lines:
                lines[key] = TraceLine(len(lines), "")
            lines[key].kept.append(each)
    for (pid, _), line in lines.items():
        if pid in planes:
            planes[pid].lines.append(line)
    count = sum(len(line.kept) for line in lines.values())
    return Space(list(planes.values()), cut=count >= _MOST_IN_TRACE)
