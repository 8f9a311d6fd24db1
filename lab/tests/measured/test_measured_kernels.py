"""Single kernels of `python -m armillary_lab.score`."""

from __future__ import annotations

from typing import Any

import pytest

from armillary.kernels.tables import Left
from armillary_lab.predict import kernels

PRODUCT: dict[str, Any] = {
    "kind": "gemm", "gpu": "A100 SXM4", "dtype": "bf16", "m": 8192, "n": 8192, "k": 8192,
    "tflops": 200.0, "source": {"repo": "here"},
}  # fmt: skip


def test_a_multiplication_takes_what_its_preset_says() -> None:
    """Our rate is above half of an A100's 312 TFLOP/s, and below its peak."""
    found = kernels.predict(PRODUCT)
    assert isinstance(found, kernels.KernelTime)
    assert found.measured == pytest.approx(2 * 8192**3 / 200e6)
    assert 2 * 8192**3 / 312e6 < found.ours < 2 * 8192**3 / 156e6
    same = kernels.predict(
        {**PRODUCT, "kind": "max_achievable_matmul", "shape": "8192x8192x8192", "m": None}
    )
    assert isinstance(same, kernels.KernelTime)
    assert same.ours == found.ours
    narrow = kernels.predict({**PRODUCT, "gpu": "H100 SXM5", "dtype": "fp8"})
    wide = kernels.predict({**PRODUCT, "gpu": "H100 SXM5"})
    assert isinstance(narrow, kernels.KernelTime)
    assert isinstance(wide, kernels.KernelTime)
    assert 1.5 < wide.ours / narrow.ours < 2.5


@pytest.mark.parametrize(
    ("gpu", "peak"),
    [("RTX PRO 6000", 500), ("L40S", 362), ("B300 SXM6", 2250), ("H800 SXM", 989),
     ("TPU v6e", 918), ("TPU v5p", 459)],
)  # fmt: skip
def test_single_kernels_need_no_preset_of_links(gpu: str, peak: float) -> None:
    """Rates of data sheets in 16 bits, TFLOP/s: ours lies between half of them and all."""
    found = kernels.predict(PRODUCT | {"gpu": gpu})
    assert isinstance(found, kernels.KernelTime)
    assert peak / 2 < 2 * 8192**3 / found.ours / 1e6 < 1.01 * peak


def test_a_stream_takes_what_the_memory_of_its_preset_says() -> None:
    """A GB at 1.6 TB/s takes 671 us. Ours can't be faster than 2 TB/s."""
    stream = {"kind": "hbm_stream", "gpu": "A100", "op": "Copy", "TBps": 1.6}
    found = kernels.predict(stream)
    assert isinstance(found, kernels.KernelTime)
    assert found.measured == pytest.approx(2**30 / 1.6e6)
    assert 2**30 / 2.04e6 < found.ours < 2**30 / 1e6


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kind": "attention"}, "heads and widths are not stated"),
        ({"kind": "fft"}, "no model for kernels of the kind 'fft'"),
        ({"gpu": "TPU v7x (Ironwood)"}, "no preset for TPU v7x"),
        ({"gpu": None}, "the GPU is not stated"),
        ({"dtype": "fp64"}, "numbers of the type fp64"),
        ({"dtype": None}, "dtype is not stated"),
        ({"m": 0}, "m is not stated"),
        ({"tflops": "fast"}, "tflops is not stated"),
        ({"tflops": 0}, "tflops is not stated"),
    ],
)
def test_what_a_kernel_lacks_is_the_reason(change: dict[str, Any], reason: str) -> None:
    left = kernels.predict(PRODUCT | change)
    assert isinstance(left, Left)
    assert reason in left.reason
