"""Armillary predicts how long a distributed training step takes, where the time goes, and why.

import armillary as arm

platform = arm.Platform("R(4)_SW(16)", bandwidth=["300 GB/s", "50 GB/s"], latency=["500 ns", "1
us"]) workload = arm.load("traces/gpt.%d.et") result = arm.simulate(workload, platform)
result.breakdown()"""

from . import platform, workload
from ._core import version as _version
from .api import collective, compare, simulate
from .design import design
from .errors import ArmillaryError, InputError, Problem, StalledError
from .platform import Platform
from .result import Result
from .sweep import Sweep, sweep
from .workload import Workload, load

__version__ = _version()

__all__ = [
    "ArmillaryError",
    "InputError",
    "Platform",
    "Problem",
    "Result",
    "StalledError",
    "Sweep",
    "Workload",
    "__version__",
    "collective",
    "compare",
    "design",
    "load",
    "platform",
    "simulate",
    "sweep",
    "workload",
]
