"""Products of matrices: rows of the tables, and errors of the shipped parameters."""

from __future__ import annotations

import math
import random

import pytest

from armillary.errors import ArmillaryError
from armillary.kernels import Gemm, one, seconds
from armillary.kernels.tables import GEMM, Left
from armillary.platform import Platform
from armillary_lab.measured.kernels import shipped
from armillary_lab.predict.measured_kernels import Predicted, predict
from armillary_lab.score.kernels import score

ROW = {"backend_": "trtllm", "gemm_dtype": "bfloat16", "m": "8", "n": "16", "k": "32"}


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ({}, Gemm(m=8, n=16, k=32, copies=5)),
        ({"backend_": "vllm"}, Gemm(m=8, n=16, k=32, library="vllm", copies=6)),
        ({"gemm_dtype": "int4_wo"}, Gemm(m=8, n=16, k=32, weights="int4", copies=5)),
        ({"gemm_dtype": "sq"}, Gemm(m=8, n=16, k=32, format="int8", copies=5)),
        (
            {"backend_": "vllm", "gemm_dtype": "fp8_block"},
            Gemm(m=8, n=16, k=32, format="fp8_block", library="vllm", launch="eager", copies=1),
        ),
        (
            {"backend_": "sglang", "gemm_dtype": "fp8_block"},
            Gemm(m=8, n=16, k=32, format="fp8_block", copies=5),
        ),
        ({"gemm_dtype": "fp6"}, Left("products in fp6 have no parameters")),
        ({"backend_": "other"}, Left("kernels of other have no parameters")),
    ],
)
def test_a_row_is_a_product(given: dict[str, str], shape: Gemm | Left) -> None:
    assert GEMM.shape_of({**ROW, **given}) == shape


def test_a_row_without_counts_is_left_out() -> None:
    with pytest.raises(ValueError, match=r"^m is 'many'$"):
        GEMM.shape_of({**ROW, "m": "many"})


def test_errors_of_the_shipped_parameters() -> None:
    """Those that docs/models/kernels.md states, on rows drawn once."""
    rows = random.Random(0).sample(shipped(GEMM), 2000)
    found = [each for each in predict(rows) if isinstance(each, Predicted)]
    errors = score("all", "gemm", [each.log for each in found])
    assert len(found) == len(rows)
    assert errors.median < 8
    assert errors.ninth < 30
    assert abs(math.log(errors.ratio)) < 0.05


@pytest.mark.parametrize("preset", ["dgx-a100-80gb", "dgx-h100", "dgx-b200", "l40s-8"])
def test_no_product_beats_the_data_sheet(preset: str) -> None:
    """Drawn products take longer than their operations at the peak of 16 bits, and than their
    weights at the bandwidth of memory."""
    platform = Platform.load(preset)
    draw = random.Random(1)
    sheet = {
        "dgx-a100-80gb": (312e12, 2.039e12),
        "dgx-h100": (989.4e12, 3.35e12),
        "dgx-b200": (2250e12, 8e12),
        "l40s-8": (362e12, 0.864e12),
    }[preset]
    counts = [[int(2 ** draw.uniform(0, 16)) for _ in range(3)] for _ in range(100)]
    shapes = [Gemm(m=m, n=n, k=k, copies=10**9) for m, n, k in counts]
    for shape, time in zip(shapes, seconds(shapes, platform), strict=True):
        m, n, k = shape.m, shape.n, shape.k
        assert time > max(2 * m * n * k / sheet[0], 2 * n * k / sheet[1]), shape


def test_parts_of_an_fp8_product() -> None:
    """A converted product starts later, and a format without parameters is refused."""
    found = one(Gemm(m=4096, n=4096, k=4096, format="fp8"), Platform.load("dgx-h100"))
    assert set(found.parts) == {"launch", "before", "compute", "memory"}
    assert found.parts["before"] > 0
    with pytest.raises(ArmillaryError, match=r"no peak rate|no parameters"):
        one(Gemm(m=1, n=1, k=1, format="fp8"), Platform.load("dgx-a100-80gb"))
