"""Parameters of a communication library and of an NPU's kernels from measurements of one's own
machine.

Not here: the models (`crates/lowering/src/library`, `crates/device/src/compute`), tables and plot
(`report/calibration.py`)."""

from __future__ import annotations

from .case import Case
from .corrections import Correction
from .effect import Curve, curves
from .fit import Fit, FittedParameter, Residual, calibrate, fit
from .kernel_tables import Kernel, KernelTable, read_kernels
from .kernels import KernelFit, KernelResidual, calibrate_kernels
from .logs import Log, MeasuredTable, read

__all__ = [
    "Case",
    "Correction",
    "Curve",
    "Fit",
    "FittedParameter",
    "Kernel",
    "KernelFit",
    "KernelResidual",
    "KernelTable",
    "Log",
    "MeasuredTable",
    "Residual",
    "calibrate",
    "calibrate_kernels",
    "curves",
    "fit",
    "read",
    "read_kernels",
]
