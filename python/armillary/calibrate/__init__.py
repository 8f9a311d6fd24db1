"""Parameters of a communication library and of an NPU's kernels from measurements of one's own
machine.

Not here: the models (`crates/lowering/src/library`, `crates/device/src/compute`), tables and plot
(`report/calibration_page.py`)."""

from __future__ import annotations

from .bench_file import BenchFile, read_bench
from .case import Case
from .corrections import Correction
from .effect import Curve, curves
from .fit import Fit, FittedParameter, Residual, calibrate, fit
from .kernel_tables import Kernel, KernelTable, read_kernels
from .kernels import KernelFit, KernelResidual, calibrate_kernels
from .links import LinkFit, calibrate_links
from .logs import Log, MeasuredTable, read

__all__ = [
    "BenchFile",
    "Case",
    "Correction",
    "Curve",
    "Fit",
    "FittedParameter",
    "Kernel",
    "KernelFit",
    "KernelResidual",
    "KernelTable",
    "LinkFit",
    "Log",
    "MeasuredTable",
    "Residual",
    "calibrate",
    "calibrate_kernels",
    "calibrate_links",
    "curves",
    "fit",
    "read",
    "read_bench",
    "read_kernels",
]
