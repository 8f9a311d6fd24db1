"""Measures one GPU in less than 8 minutes, and writes one JSON file.

    python lab/bench/python/measure_gpu.py measured.json
    python lab/bench/python/measure_gpu.py measured.json --device cpu --small

Needs PyTorch alone, no network and nothing of Armillary, so these four files may be copied to
another machine: measure_gpu.py, gpu_timing.py, gpu_single.py, gpu_steps.py. The file is written
again after each part. Ctrl-C ends early and keeps all that is finished. A part that does not fit
into the time is left out, and the file says so. `python -m armillary_lab.score.gpu measured.json`
compares the file with predictions. docs/guides/calibrate.md has a table of the parts."""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType

import torch
from gpu_single import (
    Case,
    Row,
    Unsupported,
    attentions,
    copies,
    experts,
    hot,
    launches,
    products,
    streams,
)
from gpu_steps import DLRM, LLAMA, SMALL_DLRM, SMALL_LLAMA, step_row
from gpu_timing import Device, Readings

SCHEMA = "armillary.gpu/1"
_SECONDS = 440.0
"""Seconds of all parts together, by default; the start of PyTorch comes on top."""
_LEAST_S = 5.0
"""Seconds that must be left to begin a measurement of a GPU."""
_MOST_REASON = 200


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the file: its most seconds, and its cases."""

    name: str
    seconds: float
    cases: Callable[[], Iterator[Case]]


@dataclass
class Measurement:
    """All that is measured so far."""

    device: Device
    path: Path
    small: bool
    budget_s: float
    begun: float = field(default_factory=time.monotonic)
    parts: list[Row] = field(default_factory=list)
    rows: dict[str, list[Row]] = field(default_factory=lambda: {"kernels": [], "steps": []})
    complete: bool = False

    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.budget_s - (time.monotonic() - self.begun)

    def write(self) -> None:
        """Writes the file: first next to its place, so that a file is never cut off."""
        found = {
            "schema": SCHEMA,
            "date": datetime.now(UTC).strftime("%Y-%m-%d"),
            "small": self.small,
            "complete": self.complete,
            "budget_s": self.budget_s,
            "spent_s": round(time.monotonic() - self.begun, 1),
            "machine": _machine(self.device),
            "parts": self.parts,
            **self.rows,
        }
        beside = self.path.with_name(f"{self.path.name}.tmp")
        beside.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        beside.replace(self.path)


def parts(device: Device, small: bool, readings: Readings, traces: Path | None) -> list[Part]:
    """The parts in their order. The most important come first."""

    def steps(shape: Row) -> Iterator[Case]:
        yield Case(
            {"kind": shape["kind"], "name": shape["name"]},
            lambda: [step_row(shape, device, readings, traces)],
        )

    return [
        Part("launches", 10, partial(launches, device, small)),
        Part("products", 90, partial(products, device, small)),
        Part("attention", 70, partial(attentions, device, small)),
        Part("llama", 60, partial(steps, SMALL_LLAMA if small else LLAMA)),
        Part("dlrm", 45, partial(steps, SMALL_DLRM if small else DLRM)),
        Part("experts", 50, partial(experts, device, small)),
        Part("streams", 30, partial(streams, device, small)),
        Part("copies", 40, partial(copies, device, small)),
        Part("hot", 15, partial(hot, device, small, readings)),
    ]


def measure(found: Measurement, given: Iterable[Part], readings: Readings) -> None:
    """Measures the parts, and writes the file after each, also after one that is interrupted."""
    try:
        for part in given:
            _measure(found, part, readings)
        found.complete = True
    finally:
        found.write()


def _measure(found: Measurement, part: Part, readings: Readings) -> None:
    begin = time.monotonic()
    row: Row = {"name": part.name, "measured": 0, "no_time": 0, "failed": []}
    found.parts.append(row)
    least = _LEAST_S if found.device.on_gpu else 0.0
    try:
        for case in part.cases():
            spent = time.monotonic() - begin
            if spent >= part.seconds or found.left() <= least:
                row["no_time"] += 1
                continue
            try:
                rows = case.measured()
            except (Unsupported, RuntimeError, NotImplementedError) as error:
                reason = str(error).partition("\n")[0][:_MOST_REASON] or type(error).__name__
                row["failed"].append({"case": _named(case.row), "reason": reason})
                continue
            finally:
                _free(found.device)
            row["measured"] += len(rows)
            for each in rows:
                found.rows["steps" if "step_us" in each else "kernels"].append(each)
    finally:
        end = time.monotonic()
        row["seconds"] = round(end - begin, 1)
        row["state"] = readings.between(begin, end)
        found.write()
    said = f"{part.name:<10} {row['measured']:>4} measured, {len(row['failed'])} failed"
    print(f"{said}, {row['no_time']} without time, {row['seconds']:.1f} s", flush=True)


def _named(row: Row) -> str:
    return " ".join(f"{key}={value}" for key, value in row.items())[:_MOST_REASON]


def _free(device: Device) -> None:
    if device.on_gpu:
        gc.collect()
        torch.cuda.empty_cache()


def _machine(device: Device) -> Row:
    return {
        "device": device.name,
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "driver": _driver() if device.on_gpu else None,
        "python": platform.python_version(),
        "cores": os.cpu_count() or 1,
        "multiprocessors": device.multiprocessors,
        "l2_bytes": device.l2_bytes,
        "memory_bytes": device.memory_bytes,
    }


def _driver() -> str | None:
    command = ["nvidia-smi", "-i", "0", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()[:40] or None


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    """Measures what the command line asks for. Returns 0, 130 where it was interrupted, and 2 for
    what this machine can't do."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="JSON file to write")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="small shapes, for tests")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="seconds, at most")
    parser.add_argument("--only", action="append", help="a part; may be given again")
    parser.add_argument("--traces", type=Path, help="folder for the profiler's traces of the steps")
    given = parser.parse_args(arguments)
    if given.device == "cuda" and not torch.cuda.is_available():
        sys.stderr.write("error: PyTorch sees no GPU\n  allowed: --device cpu --small\n")
        return 2
    if given.traces is not None:
        given.traces.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    device = Device(given.device)
    readings = Readings(device.on_gpu)
    chosen = parts(device, given.small, readings, given.traces)
    unknown = set(given.only or ()) - {part.name for part in chosen}
    if unknown:
        names = ", ".join(part.name for part in chosen)
        sys.stderr.write(f"error: unknown part {min(unknown)}\n  allowed: {names}\n")
        return 2
    chosen = [part for part in chosen if not given.only or part.name in given.only]
    found = Measurement(device, given.file, given.small, given.seconds)
    try:
        measure(found, chosen, readings)
    except KeyboardInterrupt:
        sys.stderr.write(f"interrupted: {given.file} has all that is finished\n")
        return 130
    finally:
        readings.stop()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(main(sys.argv[1:]))
