"""Layers of experts and all-reduces of engines: the shipped parameters on shipped measurements."""

from __future__ import annotations

from importlib import resources
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from armillary.kernels import Allreduce, Experts
from armillary.kernels.tables import ALLREDUCE, EXPERTS, Left, Measured, Table, read
from armillary_lab.measured import kernels as package
from armillary_lab.predict.measured_kernels import Predicted, predict

ROWS = 400


def drawn(table: Table) -> list[Measured]:
    """The first rows, which stand in a random order."""
    file = Path(str(resources.files(package) / "data" / f"{table.name}.csv.gz"))
    return [row for row in islice(read(file, (table,)), ROWS) if isinstance(row, Measured)]


@pytest.mark.parametrize(
    ("table", "median", "ninth"),
    [(EXPERTS, 0.13, 0.45), (ALLREDUCE, 0.12, 1.0)],
    ids=["experts", "allreduce"],
)
def test_shipped_parameters_reach_the_stated_errors(
    table: Table, median: float, ninth: float
) -> None:
    rows = drawn(table)
    assert len(rows) > 0.95 * ROWS
    times = [each for each in predict(rows) if isinstance(each, Predicted)]
    assert len(times) == len(rows)
    found = np.quantile(np.expm1(np.abs([each.log for each in times])), [0.5, 0.9])
    assert found[0] < median and found[1] < ninth, found


def layer(**changes: str) -> dict[str, str]:
    return {
        "system": "h100",
        "backend": "vllm",
        "ver": "0.24.0",
        "kernel_source": "vllm_unquantizedfusedmoe_triton_tritonexperts",
        "moe_dtype": "bfloat16",
        "num_tokens": "64",
        "hidden_size": "2688",
        "inter_size": "1856",
        "topk": "6",
        "num_experts": "128",
        "moe_tp_size": "2",
        "moe_ep_size": "1",
        "distribution": "power_law_1.2",
        **changes,
    }


def test_a_row_states_a_layer_of_experts() -> None:
    found = EXPERTS.shape_of(layer())
    assert found == Experts(
        tokens=64,
        hidden=2688,
        inner=1856,
        experts=128,
        top_k=6,
        tp=2,
        matrices=2,
        routing="power_law_1.2",
    )
    old = EXPERTS.shape_of(layer(backend="sglang", ver="0.5.10", kernel_source="sglang_marlin_moe"))
    assert isinstance(old, Experts)
    assert (old.matrices, old.kernels, old.choices) == (3, "marlin", "all")
    for changes in ({"moe_dtype": "fp2"}, {"backend": "ours"}, {"kernel_source": "vllm_xpu_moe"}):
        assert isinstance(EXPERTS.shape_of(layer(**changes)), Left)
    with pytest.raises(ValueError, match="num_tokens"):
        EXPERTS.shape_of(layer(num_tokens="many"))


@pytest.mark.parametrize(
    ("source", "system", "dtype", "kernels"),
    [
        ("vllm_gptossmxfp4moe_triton_oaitritonmxfp4expertsmonolithic", "h100", "w4a16_mxfp4",
         "triton_kernels"),
        ("moe_torch_flow", "h100", "w4a16_mxfp4", "triton_kernels"),
        ("moe_torch_flow", "b200", "w4a8_mxfp4_mxfp8", "generated"),
        ("moe_torch_flow", "a100", "bfloat16", "cutlass"),
        ("vllm_modeloptfp8moe_flashinfer_cutlass_flashinferexperts", "h100", "fp8", "flashinfer"),
        ("vllm_fp8moe_flashinfer_cutlass_flashinferexperts", "h100", "fp8_block", "cutlass"),
        ("sglang_fused_moe_triton", "l40s", "w4a16_mxfp4", "widened"),
    ],
)  # fmt: skip
def test_a_source_names_a_library(source: str, system: str, dtype: str, kernels: str) -> None:
    row = layer(kernel_source=source, system=system, moe_dtype=dtype)
    found = EXPERTS.shape_of(row)
    assert isinstance(found, Experts) and found.kernels == kernels


def test_a_row_states_an_allreduce() -> None:
    row = {
        "system": "h100",
        "backend_": "sglang",
        "ver": "0.5.14",
        "kernel_source": "SGLang_CustomAllReduce_eager",
        "allreduce_dtype": "bfloat16",
        "num_gpus": "8",
        "message_size": "1024",
    }
    found = ALLREDUCE.shape_of(row)
    assert found == Allreduce(bytes=2048, members=8, library="sglang_jit", launch="eager")
    graph = ALLREDUCE.shape_of({**row, "kernel_source": "TRTLLM", "ver": "0.5.6.post2"})
    assert graph == Allreduce(bytes=2048, members=8, library="trtllm")
    for changes in ({"allreduce_dtype": "int3"}, {"backend_": "ours"}):
        assert isinstance(ALLREDUCE.shape_of({**row, **changes}), Left)
