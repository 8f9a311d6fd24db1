"""The time that memory needs for an update of embedding tables, by a plain loop in C: each row of a
batch is read, changed and written once, in the order of rows, with a number of its state, and each
lookup's gradient is read. Lookups are sorted beforehand, and no optimizer computes anything."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


@cache
def _library() -> Any:  # noqa: ANN401 - functions of a library have no types
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "row_updates.so"
        source = Path(__file__).with_name("row_updates.c")
        flags = ["-O3", "-march=native", "-shared", "-fPIC"]
        subprocess.run(["cc", *flags, str(source), "-o", str(path)], check=True)
        return ctypes.CDLL(str(path))


class _Lookups(ctypes.Structure):
    _fields_ = (
        ("rows", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("bags", ctypes.c_void_p),
        ("count", ctypes.c_ssize_t),
    )


def milliseconds(tables: list[torch.Tensor], batch: NDArray[np.int64], pooling: int) -> float:
    """CPU time for the lookups of `batch`, which has the indices of each table in turn, `pooling`
    for each sample. Gradients that are read once lie where automatic differentiation leaves them:
    those of a sample side by side. Others lie table by table, as a copy would. No row changes its
    value. Raises `OSError` without a C compiler, and `ValueError` for rows of other sizes."""
    library = _library()
    columns = tables[0].shape[1]
    samples = len(batch) // len(tables) // pooling
    states = np.full((len(tables), len(tables[0])), 0.0, np.float32)
    side_by_side = pooling == 1
    shape = (samples, len(tables)) if side_by_side else (len(tables), samples)
    grads = torch.zeros(*shape, columns)
    parts = grads.unbind(1 if side_by_side else 0)
    sorted_, kept = [], []
    for part in np.split(batch, len(tables)):
        order = np.argsort(part, kind="stable")
        rows, counts = np.unique(part, return_counts=True)
        kept.append((rows, np.cumsum(counts), order // pooling))
        sorted_.append(_Lookups(*(each.ctypes.data for each in kept[-1]), len(rows)))
    sizes = [
        ctypes.c_ssize_t(size) for size in (parts[0].stride(0), columns, tables[0].element_size())
    ]
    begin = time.process_time()
    for table, state, lookups, grad in zip(tables, states, sorted_, parts, strict=True):
        where = ctypes.c_void_p(table.data_ptr()), ctypes.c_void_p(state.ctypes.data)
        given = ctypes.byref(lookups), ctypes.c_void_p(grad.data_ptr())
        if library.change_rows(*where, *given, *sizes):
            raise ValueError(f"row_updates.c has no loop for rows of {columns} columns")
    return (time.process_time() - begin) * 1e3
