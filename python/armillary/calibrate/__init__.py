"""Parameters of a communication library and of an NPU's kernels from measurements of one's own
machine.

Not here: the models (`crates/lowering/src/library`, `crates/device/src/compute`), tables and plot
(`report/calibration_page.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _late

if TYPE_CHECKING:
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

_HOMES = {
    **dict.fromkeys(("BenchFile", "read_bench"), "bench_file"),
    "Case": "case",
    "Correction": "corrections",
    **dict.fromkeys(("Curve", "curves"), "effect"),
    **dict.fromkeys(("Fit", "FittedParameter", "Residual", "calibrate", "fit"), "fit"),
    **dict.fromkeys(("Kernel", "KernelTable", "read_kernels"), "kernel_tables"),
    **dict.fromkeys(("KernelFit", "KernelResidual", "calibrate_kernels"), "kernels"),
    **dict.fromkeys(("LinkFit", "calibrate_links"), "links"),
    **dict.fromkeys(("Log", "MeasuredTable", "read"), "logs"),
}

__getattr__ = _late.attributes(__name__, _HOMES)
