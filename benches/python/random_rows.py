"""The time that memory needs for an update of embedding tables: the rows of a batch are read,
changed and written, each once and in random order, by a plain loop in C."""

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
        path = Path(folder) / "random_rows.so"
        source = Path(__file__).with_name("random_rows.c")
        flags = ["-O3", "-march=native", "-shared", "-fPIC"]
        subprocess.run(["cc", *flags, str(source), "-o", str(path)], check=True)
        return ctypes.CDLL(str(path))


def milliseconds(tables: list[torch.Tensor], batch: NDArray[np.int64]) -> float:
    """CPU time for the rows of `batch`, which has the indices of each table in turn. No row
    changes its value. Raises `OSError` without a C compiler."""
    library, random = _library(), np.random.default_rng(0)
    rows = [random.permutation(np.unique(part)) for part in np.split(batch, len(tables))]
    begin = time.process_time()
    for table, at in zip(tables, rows, strict=True):
        words = table.shape[1] * table.element_size() // 8
        pointers = ctypes.c_void_p(table.data_ptr()), ctypes.c_void_p(at.ctypes.data)
        sizes = ctypes.c_ssize_t(len(at)), ctypes.c_ssize_t(words)
        library.change_rows(*pointers, *sizes, ctypes.c_uint64(0))
    return (time.process_time() - begin) * 1e3
