"""Profiles of XLA made by hand: XSpace with the fields of xplane.proto. All times in
picoseconds."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, field


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def number(key: int, value: int) -> bytes:
    return varint(key << 3) + varint(value)


def chunk(key: int, data: bytes | str) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return varint(key << 3 | 2) + varint(len(data)) + data


Value = int | float | str | bytes


@dataclass
class XEvent:
    name: str
    start: int
    length: int
    stats: dict[str, Value] = field(default_factory=dict)


@dataclass
class XLine:
    name: str
    number: int = 0
    base_ns: int = 0
    events: list[XEvent] = field(default_factory=list)

    def add(self, name: str, start: int, end: int, /, **stats: Value) -> None:
        self.events.append(XEvent(name, start, end - start, stats))


@dataclass
class XPlane:
    name: str
    lines: list[XLine] = field(default_factory=list)
    stats: dict[str, Value] = field(default_factory=dict)
    shared: dict[str, dict[str, Value]] = field(default_factory=dict)
    """Values of all events of a name."""
    shown: dict[str, str] = field(default_factory=dict)
    """Short names; the others are then long ones."""

    def line(self, name: str, number: int | None = None, base_ns: int = 0) -> XLine:
        self.lines.append(XLine(name, len(self.lines) if number is None else number, base_ns))
        return self.lines[-1]

    def encoded(self, place: int) -> bytes:
        names: dict[str, int] = {}
        stats: dict[str, int] = {}

        def stat(key: str, value: Value) -> bytes:
            said = number(1, stats.setdefault(key, len(stats) + 1))
            if isinstance(value, bytes):
                return said + chunk(6, value)
            if isinstance(value, str):
                # Texts are kept as the names of other values, as XLA does.
                return said + number(7, stats.setdefault(value, len(stats) + 1))
            if isinstance(value, float):
                return said + varint(2 << 3 | 1) + struct.pack("<d", value)
            return said + number(4, value)

        out = number(1, place) + chunk(2, self.name)
        for line in self.lines:
            body = bytearray(number(1, line.number) + chunk(2, line.name))
            body += number(3, line.base_ns)
            for event in line.events:
                one = number(1, names.setdefault(event.name, len(names) + 1))
                one += number(2, event.start - line.base_ns * 1000) + number(3, event.length)
                for key, value in event.stats.items():
                    one += chunk(4, stat(key, value))
                body += chunk(4, one)
            out += chunk(3, bytes(body))
        for name in self.shared:
            names.setdefault(name, len(names) + 1)
        for name, at in names.items():
            known = number(1, at) + chunk(2, name)
            if name in self.shown:
                known += chunk(4, self.shown[name])
            for title, value in self.shared.get(name, {}).items():
                known += chunk(5, stat(title, value))
            out += chunk(4, number(1, at) + chunk(2, known))
        for title, value in self.stats.items():
            out += chunk(6, stat(title, value))
        for name, at in stats.items():
            out += chunk(5, number(1, at) + chunk(2, number(1, at) + chunk(2, name)))
        return out


def space(planes: list[XPlane], host: str = "") -> bytes:
    data = b"".join(chunk(1, plane.encoded(place)) for place, plane in enumerate(planes))
    return data + (chunk(4, host) if host else b"")


def with_module(name: str, program: int, module: bytes) -> XPlane:
    """The plane of modules."""
    title = f"{name}({program})"
    return XPlane("/host:metadata", shared={title: {"Hlo Proto": module}})


def as_trace(planes: list[XPlane]) -> bytes:
    """The document in Chrome's format that XLA makes of a profile: all values are texts, times
    are microseconds."""
    events: list[dict[str, object]] = []
    for pid, plane in enumerate(planes):
        named = {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": plane.name}}
        events.append(named)
        for tid, line in enumerate(plane.lines):
            title = {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name"}
            events.append({**title, "args": {"name": line.name}})
            for each in line.events:
                said = {**plane.shared.get(each.name, {}), **each.stats}
                if each.name in plane.shown:
                    said["long_name"] = each.name
                events.append({
                    "ph": "X", "pid": pid, "tid": tid, "ts": each.start / 1e6,
                    "dur": max(each.length, 1) / 1e6,
                    "name": plane.shown.get(each.name, each.name),
                    "args": {key: str(value) for key, value in said.items()},
                })  # fmt: skip
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": [*events, {}]}).encode()
