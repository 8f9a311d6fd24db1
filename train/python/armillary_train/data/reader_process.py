"""A process that reads batches for a trainer, which `readers.py` describes."""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
from dataclasses import asdict
from typing import Any

import numpy as np

from armillary.errors import InputError
from armillary.model import load_model
from armillary.model.dlrm import parse

from ..settings import Settings
from . import open_data
from .readers import ARRAYS
from .samples import Part, Position


def main() -> None:
    """Reads what the trainer asks for on standard input, until it is read or the trainer ends."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)  # A trainer that is asked to end finishes its step.
    job = json.loads(sys.stdin.readline())
    try:
        _read(job)
        _say({})
    except InputError as error:
        _say({"problems": [asdict(each) for each in error.problems]})
    except _TrainerEndedError:
        return
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        _say({"fault": said})
        raise
    sys.stdin.read()  # The trainer ends this process when it has read all.


class _TrainerEndedError(Exception):
    """The trainer that asked for batches is gone."""


def _read(job: dict[str, Any]) -> None:
    settings = Settings(**job["settings"])
    source, _ = open_data(settings, parse(load_model(settings.model)))
    first, every = job["turn"]
    start = Position.from_dict(job["start"])
    parts = source.parts(job["batch"], job["rank"], job["ranks"], start, (first, every))
    for part in parts:
        slot = sys.stdin.readline()
        if not slot:
            raise _TrainerEndedError
        _say(_put(part, int(slot), job["slots"][int(slot)]))


def _put(part: Part, slot: int, descriptor: int) -> dict[str, Any]:
    """Writes a part into a slot, and returns what the trainer needs to read it."""
    arrays = [np.ascontiguousarray(getattr(part.samples, name)) for name in ARRAYS]
    size = max(1, sum(each.nbytes for each in arrays))
    if os.fstat(descriptor).st_size < size:
        os.truncate(descriptor, size)
    place = 0
    with mmap.mmap(descriptor, size) as memory:
        for each in arrays:
            memory[place : place + each.nbytes] = each.tobytes()
            place += each.nbytes
    return {
        "slot": slot,
        "first": part.first,
        "whole": part.whole,
        "after": part.after.as_dict(),
        "arrays": [(each.dtype.str, each.shape) for each in arrays],
    }


def _say(what: dict[str, Any]) -> None:
    try:
        os.write(1, json.dumps(what).encode() + b"\n")
    except BrokenPipeError:
        raise _TrainerEndedError from None
