"""A small allocator that works as PyTorch's does and writes the same snapshots.

It counts its bytes forwards, as they are taken and given back. Source of the form:
torch/csrc/cuda/memory_snapshot.cpp; of the rules: c10/cuda/CUDACachingAllocator.cpp (512 bytes,
2 MiB for small tensors, 20 MiB for middle ones, whole 2 MiB above 10 MiB)."""

from __future__ import annotations

import gzip
import json
import pickle
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KIB, MIB = 2**10, 2**20


@dataclass
class Block:
    """A part of a segment; `requested` is 0 unless it is in use."""

    address: int
    size: int
    requested: int = 0
    frames: list[dict[str, Any]] = field(default_factory=list)
    pending: bool = False


@dataclass
class Allocator:
    """One device. `states` has the requested and reserved bytes after each event."""

    device: int
    chance: random.Random
    segments: list[list[Block]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    states: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    requested: int = 0
    reserved: int = 0
    top: int = 2**40

    def note(self, action: str, address: int, size: int, frames: list[dict[str, Any]]) -> None:
        """An event, and the bytes after it."""
        key = "device_free" if action == "oom" else "addr"
        event = {"action": action, key: address, "size": size, "stream": 0, "frames": frames}
        self.events.append(event | {"time_us": 10**15 + len(self.events)})
        self.states.append((self.requested, self.reserved))

    def alloc(self, size: int, frames: list[dict[str, Any]]) -> Block:
        """The smallest free block that is large enough, else a new segment."""
        rounded = -(-size // 512) * 512
        free = [
            (block.size, block.address, segment, at)
            for segment in self.segments
            for at, block in enumerate(segment)
            if not block.requested and not block.pending and block.size >= rounded
        ]
        if not free:
            whole = 2 * MIB if rounded <= MIB else 20 * MIB if rounded < 10 * MIB else 0
            whole = whole or -(-rounded // (2 * MIB)) * 2 * MIB
            self.top += whole + 2 * MIB
            self.segments.append([Block(self.top, whole)])
            self.reserved += whole
            self.note("segment_alloc", self.top, whole, frames)
            free = [(whole, self.top, self.segments[-1], 0)]
        _, _, segment, at = min(free, key=lambda each: each[:2])
        block = segment[at]
        if block.size - rounded >= 512:
            segment.insert(at + 1, Block(block.address + rounded, block.size - rounded))
            block.size = rounded
        block.requested, block.frames = size, frames
        self.requested += size
        self.note("alloc", block.address, size, frames)
        return block

    def free(self, block: Block, later: bool) -> None:
        """Gives a block back; `later` if another stream still uses it."""
        size, block.requested = block.requested, 0
        self.requested -= size
        self.note("free_requested", block.address, size, [])
        block.pending = later
        if not later:
            self.note("free_completed", block.address, size, [])
            self.merge()

    def merge(self) -> None:
        """Free neighbours become one block."""
        for segment in self.segments:
            at = 0
            while at + 1 < len(segment):
                one, other = segment[at : at + 2]
                if one.requested or other.requested or one.pending or other.pending:
                    at += 1
                else:
                    one.size += other.size
                    del segment[at + 1]

    def empty_cache(self) -> None:
        """Gives free segments back to the driver."""
        for segment in [each for each in self.segments if len(each) == 1]:
            if not segment[0].requested and not segment[0].pending:
                self.segments.remove(segment)
                self.reserved -= segment[0].size
                self.note("segment_free", segment[0].address, segment[0].size, [])

    def as_segments(self) -> list[dict[str, Any]]:
        """The state at the end, as a snapshot has it."""
        return [
            {
                "device": self.device,
                "address": segment[0].address,
                "total_size": sum(each.size for each in segment),
                "allocated_size": sum(each.size for each in segment if each.requested),
                "active_size": sum(each.size for each in segment if each.requested or each.pending),
                "requested_size": sum(each.requested for each in segment),
                "stream": 0,
                "segment_type": "large",
                "segment_pool_id": (0, 0),
                "is_expandable": False,
                "frames": [],
                "blocks": [
                    {
                        "address": each.address,
                        "size": each.size,
                        "requested_size": each.requested,
                        "state": "active_allocated"
                        if each.requested
                        else ("active_pending_free" if each.pending else "inactive"),
                        "frames": each.frames,
                    }
                    for each in segment
                ],
            }
            for segment in self.segments
        ]


_PLACES = (("forward", "model", 12), ("step", "optimizer", 7), ("loss", "loss", 3))
FRAMES = [
    [
        {"name": "gather_with_cpp", "filename": "??", "line": 0},
        {"name": "forward", "filename": "/site-packages/torch/nn/modules/linear.py", "line": 9},
        {"name": name, "filename": f"/home/me/{file}.py", "line": line},
        {"name": "<module>", "filename": "/home/me/train.py", "line": 1},
    ]
    for name, file, line in (
        ("forward", "model", 12),
        ("step", "optimizer", 7),
        ("loss", "loss", 3),
    )
]
LINES = ["model.py:12 forward", "optimizer.py:7 step", "loss.py:3 loss"]


def drawn(chance: random.Random, device: int, steps: int) -> Allocator:
    """Allocations and frees in a random order."""
    made = Allocator(device, chance)
    live: list[Block] = []
    for _ in range(steps):
        word = chance.random()
        if live and word < 0.4:
            made.free(live.pop(chance.randrange(len(live))), chance.random() < 0.1)
        elif word < 0.45:
            made.empty_cache()
        elif word < 0.48:
            made.note("oom", 17, 2**30, [])
        else:
            size = chance.choice((chance.randint(1, 4 * KIB), chance.randint(1, 40 * MIB)))
            live.append(made.alloc(size, chance.choice(FRAMES)))
    made.note("snapshot", 0, 0, [])
    return made


def snapshot(allocators: list[Allocator], kept: list[int]) -> dict[str, Any]:
    """A snapshot that has only the last `kept` events of each device."""
    return {
        "segments": [each for one in allocators for each in one.as_segments()],
        "device_traces": [
            one.events[len(one.events) - count :]
            for one, count in zip(allocators, kept, strict=True)
        ],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "roundup_power2_divisions": {"1": 0}},
        "external_annotations": [],
    }


def pickled(value: object, protocol: int = 4) -> bytes:
    """As PyTorch pickles it."""
    return pickle.dumps(value, protocol)


def write(path: Path, value: object, chance: random.Random) -> Path:
    """As PyTorch pickles it, or as JSON; packed or not."""
    if chance.random() < 0.3:
        data = json.dumps(value).encode()
    else:
        data = pickled(value, chance.choice((2, 3, 4, 5)))
    path.write_bytes(gzip.compress(data, 1) if chance.random() < 0.2 else data)
    return path
