"""Goodput of a training job whose nodes fail: what of its time trains and is kept.

Here: the job (`job.py`), a simulation of many runs (`simulate.py`), closed forms for exponential
failures (`formulas.py`), and the answer (`run.py`). Not here: how long a step takes, which `run`
simulates without failures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _late
from .run import goodput

if TYPE_CHECKING:
    from .job import Job
    from .run import Goodput

__all__ = ["Goodput", "Job", "goodput"]

__getattr__ = _late.attributes(__name__, {"Goodput": "run", "Job": "job"})
