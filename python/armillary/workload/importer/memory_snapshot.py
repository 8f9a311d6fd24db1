"""Snapshots of PyTorch's memory: what each device holds, and the most that it held.

Here: what a snapshot says, checked. Not here: how its file is read (`reading.py`), and a prediction
next to it (`explain/measured_memory.py`).

Reserved bytes are those of all segments, allocated ones those of blocks in use, and requested ones
those of tensors: the allocator rounds up. A snapshot has the blocks at its end and, where
`_record_memory_history` ran, the allocator's events. Their sizes are the requested ones. Model:
requested(t) = requested(end) - allocations after t + frees after t, also where the first events are
no longer kept. Events that do not lead to the blocks give no peak. Source:
torch/csrc/cuda/memory_snapshot.cpp, c10/core/CachingDeviceAllocator.h (`TraceEntry`) and
torch/cuda/memory.py (`_snapshot`) of PyTorch 2.14."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import InputError, Problem
from ...units import GB
from .reading import SNAPSHOT, Recording, SnapshotDocument, shown

_MOST_DEVICES = 4096
_MOST_BYTES = 2**60
_LATEST = 2**63
_USED = "active_allocated"
_PENDING = ("active_pending_free", "active_awaiting_free")
_STATES = (_USED, *_PENDING, "inactive")
_GROWS = ("segment_alloc", "segment_map")
_SHRINKS = ("segment_free", "segment_unmap")
_OTHERS = ("free_completed", "snapshot", "oom", "annotate")
_HISTORY = "torch.cuda.memory._record_memory_history() before the steps records the peak"

Entry = Mapping[Any, Any]


@dataclass(frozen=True, slots=True)
class Holder:
    """Blocks that one line of a program allocated."""

    frame: str
    """`file.py:12 name`; empty where stacks were not recorded."""
    blocks: int
    bytes: int
    """As requested."""


@dataclass(frozen=True, slots=True)
class Peak:
    """The most that the events of a device say."""

    requested: int
    """Bytes of tensors."""
    reserved: int
    """Bytes of segments, maybe at another time."""
    before: int
    """Requested bytes when the first event began."""


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Memory of a device, in bytes, at the snapshot and at its peak."""

    device: int
    segments: int
    reserved: int
    allocated: int
    pending: int
    """Freed, but still in use by another stream."""
    requested: int
    events: int
    failures: int
    """Allocations that found no memory."""
    peak: Peak | None
    holders: tuple[Holder, ...]
    """At the peak of the requested bytes, or at the snapshot where that is unknown; the largest
    first."""


@dataclass(frozen=True)
class MemorySnapshot:
    """A snapshot: the devices that hold something, and what to know about it."""

    file: str
    devices: tuple[DeviceMemory, ...]
    notes: tuple[str, ...]

    def said(self) -> str:
        """The content in a line."""
        parts = []
        for each in self.devices:
            peak = f", at most {each.peak.requested / GB:.2f} GB of tensors" if each.peak else ""
            parts.append(f"device {each.device} has {each.reserved / GB:.2f} GB reserved{peak}")
        more = f"; {len(parts) - 4} more devices" if len(parts) > 4 else ""
        return "; ".join(parts[:4]) + more


def all_of(recordings: Sequence[Recording]) -> list[MemorySnapshot]:
    """The snapshots in a file, one unless it is an archive. Raises `InputError` for another
    recording, and for what is not as PyTorch writes it."""
    found = []
    for each in recordings:
        if not isinstance(each.document, SnapshotDocument):
            raise InputError([Problem(each.file, "", f"is a {each.kind.value}", SNAPSHOT)])
        found.append(snapshot(each))
    return found


def snapshot(recording: Recording) -> MemorySnapshot:
    """The content of a snapshot. Raises `InputError`."""
    assert isinstance(recording.document, SnapshotDocument)
    return _Reader(recording.file).snapshot(recording.document.value)


@dataclass
class _Held:
    """Sums of a device's segments, and its blocks in use by address."""

    segments: int = 0
    reserved: int = 0
    allocated: int = 0
    pending: int = 0
    requested: int = 0
    live: dict[int, tuple[int, Entry]] = field(default_factory=dict)


@dataclass
class _Reader:
    """Checks every value that it takes."""

    name: str
    where: str = ""
    notes: list[str] = field(default_factory=list)
    frames: dict[int, str] = field(default_factory=dict)
    """Frames of stacks by the identity of the list, which events share."""

    def snapshot(self, value: Entry) -> MemorySnapshot:
        held = self._segments(value)
        traces = value.get("device_traces", [])
        if not isinstance(traces, list | tuple) or len(traces) > _MOST_DEVICES:
            raise self._refused("device_traces", f"is not a list of at most {_MOST_DEVICES:,}")
        for device, events in enumerate(traces):
            self.where = f"device_traces[{device}]"
            if not isinstance(events, list | tuple):
                raise self._refused("", "is not a list of events")
            if events:
                held[device].segments += 0
        devices = tuple(
            self._device(device, each, traces[device] if device < len(traces) else ())
            for device, each in sorted(held.items())
        )
        if not devices:
            self.where = ""
            raise self._refused("", "holds no segment and no event: nothing was allocated")
        return MemorySnapshot(self.name, devices, tuple(dict.fromkeys(self.notes)))

    def _segments(self, value: Entry) -> defaultdict[int, _Held]:
        found: defaultdict[int, _Held] = defaultdict(_Held)
        segments = value.get("segments")
        if not isinstance(segments, list | tuple):
            raise self._refused("segments", "is not a list")
        for number, segment in enumerate(segments):
            self.where = f"segments[{number}]"
            if not isinstance(segment, dict):
                raise self._refused("", "is not a mapping")
            device = self._count(segment, "device", _MOST_DEVICES)
            self._segment(segment, found[device])
        return found

    def _segment(self, segment: Entry, held: _Held) -> None:
        total = self._count(segment, "total_size", _MOST_BYTES)
        address = self._count(segment, "address", _LATEST * 2)
        blocks = segment.get("blocks")
        if not isinstance(blocks, list | tuple):
            raise self._refused("blocks", "is not a list")
        whole, start, sums = self.where, address, dict.fromkeys(_STATES, 0)
        for number, block in enumerate(blocks):
            self.where = f"{whole}.blocks[{number}]"
            if not isinstance(block, dict):
                raise self._refused("", "is not a mapping")
            size = self._count(block, "size", _MOST_BYTES)
            state = block.get("state")
            if state not in _STATES:
                raise self._refused("state", f"is unknown: {shown(state)}")
            if "address" in block and block["address"] != address:
                raise self._refused("address", "is not where the block before it ends")
            if state == _USED:
                wanted = self._count(block, "requested_size", _MOST_BYTES)
                if wanted > size or address in held.live:
                    said = "is more than the block has" if wanted > size else "lies in two blocks"
                    raise self._refused("requested_size" if wanted > size else "address", said)
                held.live[address] = (wanted, block)
                held.requested += wanted
            sums[state] += size
            address += size
        self.where = whole
        if address - start != total:
            said = f"says {total:,} bytes, its blocks have {address - start:,}"
            raise self._refused("total_size", said)
        for key, states in (("allocated_size", (_USED,)), ("active_size", (_USED, *_PENDING))):
            is_said = self._count(segment, key, _MOST_BYTES) if key in segment else None
            if is_said not in (None, has := sum(sums[state] for state in states)):
                raise self._refused(key, f"says {is_said:,} bytes, its blocks have {has:,}")
        held.segments += 1
        held.reserved += total
        held.allocated += sums[_USED]
        held.pending += sum(sums[state] for state in _PENDING)

    def _device(self, device: int, held: _Held, events: Any) -> DeviceMemory:  # noqa: ANN401
        self.where = f"device_traces[{device}]"
        changes = [self._event(number, event) for number, event in enumerate(events)]
        peak, live = self._peak(device, held, changes)
        failures = sum(action == "oom" for action, _, _, _ in changes)
        if not _allocates(changes):
            said = "no events of allocations"
            self.notes.append(f"device {device}: {said}, so no peak; {_HISTORY}")
        elif peak and peak.before:
            self.notes.append(
                f"device {device}: events begin when {peak.before / GB:.2f} GB were allocated; a "
                "peak before that is not known"
            )
        return DeviceMemory(
            device,
            held.segments,
            held.reserved,
            held.allocated,
            held.pending,
            held.requested,
            len(changes),
            failures,
            peak,
            self._holders(live),
        )

    def _event(self, number: int, event: object) -> tuple[str, int, int, Entry]:
        """Action, address, bytes and the event itself."""
        device = self.where
        self.where = f"{device}[{number}]"
        if not isinstance(event, dict):
            raise self._refused("", "is not a mapping")
        action = event.get("action")
        if not isinstance(action, str):
            raise self._refused("action", f"invalid text: {shown(action)}")
        if action in ("alloc", "free_requested", *_GROWS, *_SHRINKS):
            address = self._count(event, "addr", _LATEST * 2)
            size = self._count(event, "size", _MOST_BYTES)
        elif action in _OTHERS:
            address = size = 0
        else:
            raise self._refused("action", f"is unknown: {action[:60]!r}")
        self.where = device
        return action, address, size, event

    def _peak(
        self, device: int, held: _Held, changes: list[tuple[str, int, int, Entry]]
    ) -> tuple[Peak | None, Mapping[int, tuple[int, Entry]]]:
        """The peaks, and what was live at that of the requested bytes. Without a peak, what is live
        at the end."""
        live = dict(held.live)
        requested = most_requested = held.requested
        reserved = most_reserved = held.reserved
        at = len(changes)
        for number in range(len(changes) - 1, -1, -1):
            action, address, size, event = changes[number]
            fits = True
            if action == "alloc":
                fits = live.pop(address, (-1, None))[0] == size
                requested -= size
            elif action == "free_requested":
                fits = address not in live
                live[address] = (size, event)
                requested += size
            elif action in _GROWS:
                reserved -= size
            elif action in _SHRINKS:
                reserved += size
            if not fits or requested > reserved or reserved > _MOST_BYTES:
                self.notes.append(
                    f"device {device}: events do not lead to the blocks, so no peak; the first "
                    f"contradiction from the end is device_traces[{device}][{number}]"
                )
                return None, held.live
            if requested > most_requested:
                most_requested, at = requested, number
            most_reserved = max(most_reserved, reserved)
        if not _allocates(changes):
            return None, held.live
        for action, address, size, event in changes[:at]:
            if action == "alloc":
                live[address] = (size, event)
            elif action == "free_requested":
                del live[address]
        return Peak(most_requested, most_reserved, requested), live

    def _holders(self, live: Mapping[int, tuple[int, Entry]]) -> tuple[Holder, ...]:
        sums: dict[str, list[int]] = {}
        for size, entry in live.values():
            row = sums.setdefault(self._frame(entry.get("frames")), [0, 0])
            row[0] += 1
            row[1] += size
        rows = [Holder(frame, count, size) for frame, (count, size) in sums.items()]
        return tuple(sorted(rows, key=lambda row: (-row.bytes, row.frame)))

    def _frame(self, frames: object) -> str:
        """The innermost line of Python outside of PyTorch, else the innermost of all."""
        if not isinstance(frames, list | tuple) or not frames:
            return ""
        if (known := self.frames.get(id(frames))) is None:
            said = list(_frames(frames))
            ours = [
                text
                for file, text in said
                if file.endswith(".py") and "/torch/" not in file.replace("\\", "/")
            ]
            known = self.frames[id(frames)] = (ours or [text for _, text in said] or [""])[0]
        return known

    def _count(self, entry: Entry, key: str, limit: int) -> int:
        found = entry.get(key)
        if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < limit:
            what = "is missing" if key not in entry else f"invalid number: {shown(found)}"
            raise self._refused(key, what)
        return found

    def _refused(self, key: str, said: str) -> InputError:
        where = ".".join(part for part in (self.where, key) if part)
        return InputError([Problem(self.name, where, said, SNAPSHOT)])


def _allocates(changes: Sequence[tuple[str, int, int, Entry]]) -> bool:
    """Whether events say what was allocated. Without a history there is none of these."""
    return any(action in ("alloc", "free_requested") for action, _, _, _ in changes)


def _frames(frames: list[Any] | tuple[Any, ...]) -> Iterator[tuple[str, str]]:
    """File and text of each frame, innermost first; others are left out."""
    for frame in frames[:200]:
        if isinstance(frame, dict):
            file, name = frame.get("filename"), frame.get("name")
            line = frame.get("line")
            if isinstance(file, str) and isinstance(name, str) and isinstance(line, int):
                short = re.split(r"[/\\]", file)[-1]
                yield file, f"{short[-60:]}:{line:d} {name[:60]}"


def refusal(found: MemorySnapshot) -> Problem:
    """Why a snapshot makes no workload, with what it holds and where to take it."""
    said = f"is a snapshot of PyTorch's memory, not a run: {found.said()}"
    way = f"armillary check {found.file}, or armillary compare PREDICTED.json {found.file}"
    return Problem(found.file, "", said, way)
