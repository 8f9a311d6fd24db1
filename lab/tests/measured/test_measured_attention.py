"""Attention and latent attention: the parameters of the presets against measured kernels."""

from __future__ import annotations

import math
import statistics

import pytest

from armillary.kernels import Attention, Mla
from armillary.kernels.tables import ATTENTION, MLA, Left, Table
from armillary.kernels.tables.attention import attention
from armillary_lab.measured.kernels import shipped
from armillary_lab.predict.measured_kernels import Predicted, predict

ROW = {
    "system": "h100",
    "backend": "vllm",
    "kernel_source": "vllm_flash_attn_fa3",
    "batch_size": "4",
    "isl": "8192",
    "num_heads": "32",
    "num_key_value_heads": "8",
    "head_dim": "128",
    "attn_dtype": "bfloat16",
    "kv_cache_dtype": "bfloat16",
    "step": "0",
    "latency_us": "3600",
}


@pytest.mark.parametrize(
    ("table", "bounds"),
    [
        (ATTENTION, {"prefill": (10.5, 40.0), "decode": (11.0, 43.0)}),
        (MLA, {"prefill": (7.5, 27.0), "decode": (13.0, 55.0)}),
    ],
)
def test_presets_reach_the_stated_errors(
    table: Table, bounds: dict[str, tuple[float, float]]
) -> None:
    """Rows whose window is known (`window_derived`). They are those of docs/models/kernels.md."""
    rows = [row for row in shipped(table)[::5] if isinstance(row.shape, Attention | Mla)]
    found = [each for each in predict(rows) if isinstance(each, Predicted)]
    assert len(found) == len(rows) > 2000
    for phase, (median, ninth) in bounds.items():
        errors = sorted(
            100 * math.expm1(abs(each.log))
            for each in found
            if getattr(each.row.shape, "phase", "") == phase
        )
        assert statistics.median(errors) < median
        assert errors[int(0.9 * len(errors))] < ninth


def _shape(**changes: str) -> Attention:
    shape = attention({**ROW, **changes})
    assert isinstance(shape, Attention)
    return shape


def test_a_row_is_the_shape_that_ran() -> None:
    shape = _shape()
    assert (shape.phase, shape.length, shape.source, shape.format) == (
        "prefill",
        8192,
        "flash3",
        "bf16",
    )
    decode = _shape(step="8191", isl="1", latency_us="60", kv_cache_dtype="fp8")
    assert (decode.phase, decode.length, decode.cache) == ("decode", 8192, "fp8")
    # TensorRT-LLM multiplies in the format of the cache, from Hopper on.
    trtllm = {"backend": "trtllm", "kernel_source": "torch_flow", "kv_cache_dtype": "fp8"}
    assert _shape(**trtllm).format == "fp8"
    assert _shape(**trtllm, system="a100", latency_us="9000").format == "bf16"
    assert _shape(window_derived="1024", latency_us="400").window == 1024
    # The laboratory's table has no value where more than one window is possible.
    assert isinstance(attention({**ROW, "window_derived": ""}), Left)


def test_a_row_that_beats_the_data_sheet_has_a_window() -> None:
    # 4 x 32 heads of 128 and 8,192 tokens: 2.2 TFLOP, 2.2 ms at the peak of an H100.
    assert isinstance(attention({**ROW, "latency_us": "2300"}), Attention)
    assert isinstance(attention({**ROW, "latency_us": "2100"}), Left)
    # 512 sequences of 65,536 tokens and 8 heads of 128: 137 GB, 41 ms of an H100's memory.
    decode = {**ROW, "step": "65535", "isl": "1", "batch_size": "512"}
    assert isinstance(attention({**decode, "latency_us": "42000"}), Attention)
    assert isinstance(attention({**decode, "latency_us": "40000"}), Left)


@pytest.mark.parametrize(
    "changes", [{"kernel_source": "new"}, {"backend": "new"}, {"attn_dtype": "int4"}]
)
def test_unknown_words_are_a_reason(changes: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"new|int4"):
        attention({**ROW, **changes})
