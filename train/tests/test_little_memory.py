"""Runs with less address space than PyTorch needs: an explanation, and no internal error."""

from __future__ import annotations

import subprocess
import sys

import pytest

from armillary import machine
from armillary.errors import InputError, out_of_memory
from armillary_train import torch_check

pytest.importorskip("torch")

SMALL = ["train", "dlrm-small", "--samples", "2048", "--eval-samples", "500"]


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
@pytest.mark.parametrize(
    "command",
    [SMALL, [*SMALL, "--ranks", "2"], ["bench"], ["checkpoint", "show", "none"]],
    ids=["one", "two", "bench", "checkpoint"],
)
def test_too_little_memory_for_pytorch(command: list[str]) -> None:
    limited = ["bash", "-c", 'ulimit -v 2000000; exec "$@"', "bash"]
    run = [*limited, sys.executable, "-m", "armillary.cli", *command]
    found = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    assert found.returncode == 2, found.stderr
    assert found.stderr.startswith("error: needs more memory than is available: ")
    assert "allowed: more memory" in found.stderr


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "loading PyTorch ended with exit code -11"),
        ("raise ImportError('libtorch.so: failed to map segment')", "failed to map segment"),
    ],
)
def test_loading_that_ends_is_explained(
    script: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once libraries have taken all address space, the stack cannot grow: a signal, and no error.
    monkeypatch.setattr(torch_check, "_LOAD", f"import os, signal; {script}")
    monkeypatch.setattr(machine, "addresses", lambda: 1)
    with pytest.raises(InputError, match=f"needs more memory than is available: .*{said}"):
        torch_check.require("armillary train", "training needs")


@pytest.mark.parametrize(
    ("error", "short"),
    [
        (MemoryError(), True),
        (ImportError("libtorch_cpu.so: failed to map segment from shared object"), True),
        (OSError(12, "Cannot allocate memory"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("can't start new thread"), True),
        (ImportError("No module named 'torch'"), False),
        (OSError(28, "No space left on device"), False),
        (InputError([]), False),
    ],
)
def test_errors_for_want_of_memory(error: Exception, short: bool) -> None:
    assert (out_of_memory(error) is not None) is short
