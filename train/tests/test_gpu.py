"""Tables on a GPU. Triton's interpreter stands in for the GPU, in processes of their own."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton", reason="Triton comes with PyTorch on Linux only")

import torch
from command_copies import Copies
from conftest import Armillary
from ranks import ranks
from test_shards import Spec, check, mixed
from thorough import some, usually

from armillary.errors import InputError
from armillary_train.tables.gpu import GpuEmbeddingCollection
from armillary_train.tables.optimizers import Sgd
from armillary_train.tables.table import Feature, Table

HERE = Path(__file__).parent


GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
"""The interpreter runs the same tests everywhere; a GPU shows what it can't, such as streams."""


LEAST = {"test_embedding.py": 12, "test_embedding_module.py": 30, "gpu_cases.py": 20}
"""Tests that pass in each file, at least."""


DEVICES = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])


def on(device: str) -> dict[str, str]:
    """The environment of a process that runs the kernels there. On a processor, they are in
    Triton's interpreter."""
    interpreter = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}
    return {**os.environ, "KERNELS_ON": device, **(interpreter if device == "cpu" else {})}


@DEVICES
def test_kernels(device: str, trainings: Copies) -> None:
    """The tests of the engine on processors, and those that compare the two."""
    given = ["-v", "-p", "no:cacheprovider", *(str(HERE / name) for name in LEAST)]
    program = f"import pytest, sys; sys.path[:0] = {sys.path!r}; sys.exit(pytest.main({given!r}))"
    running = trainings.start(["-c", program], HERE, on(device))
    printed, said = running.communicate(1800)
    assert running.returncode == 0, printed[-3000:] + said[-1000:]
    passed = Counter(re.findall(r"(\w+\.py)::.* PASSED", printed))
    assert all(passed[name] >= least for name, least in LEAST.items()), passed


def of_schemes(optimizer: str, *schemes: str) -> Spec:
    """Tables on two ranks' GPUs, sharded by these schemes, and the features that look into them."""
    spec = mixed(optimizer, 2)
    tables = [each for each in spec["tables"] if each["scheme"] in schemes]
    names = [each["name"] for each in tables]
    features = [each for each in spec["features"] if each[1] in names]
    return {**spec, "tables": tables, "features": features, "gpu": True, "samples": 8}


@DEVICES
def test_tables_on_the_gpus_of_ranks_are_those_of_one_process(
    device: str, trainings: Copies
) -> None:
    """Arrays are exchanged by PyTorch, as they are between GPUs: by NCCL, where there is one."""
    weighted = of_schemes("clipped_adagrad", "table", "column", "row", "table_row", "data")
    summed = [[*each[:2], "sum"] for each in weighted["features"]]
    weighted |= {"features": summed, "weighted": True, "gradients": True}
    by_columns = of_schemes("clipped_lamb", "table", "column")
    unpooled = of_schemes("adam", "table", "column", "row", "data")
    for table in unpooled["tables"]:
        table["columns"] = 16
    unpooled["features"] = [[*each[:2], "none"] for each in unpooled["features"]]
    cached = of_schemes("row_wise_adagrad", "table", "column", "row", "data")
    cached["cache"] = 20_000
    for table in cached["tables"]:
        table["tier"] = "host"
    with ranks(trainings, 2, on(device)) as group:
        for spec in (weighted, by_columns, unpooled, cached):
            check(group.run("sockets", size=2, spec=spec, steps=2), spec)
        cached["tables"][0]["tier"] = "device"
        cached["tables"][0]["ranks"] = cached["tables"][1]["ranks"][:1]
        for kind, said in group.run("compare", size=2, spec=cached, steps=1):
            assert kind == "InputError"
            assert "one tier for all tables of a rank" in said


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize(("device", "said"), [("cuda", "has no GPU"), ("cpu", "on a processor")])
def test_without_a_gpu(device: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        GpuEmbeddingCollection([Table("t", 3, 4)], [Feature("f", "t")], Sgd(), device=device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_run_without_a_gpu(armillary: Armillary) -> None:
    call = armillary("train", "dlrm-small", "--samples", "512", "--device", "cuda")
    assert call.returncode == 2
    assert "this machine has no GPU" in call.stderr


TYPES = {
    "i64": "tables features lengths ends order sources indices",
    "i32": "rows row_counts long_rows long_counts keys bags_of wrong table_of samples bags count "
    "width group partial_width",
    "fp32": "rate decay keep clip_value clip_norm eps mean_kept mean_new square_kept square_new "
    "correction root_correction weights out factors grad partial sums numbers",
}
NUMBERS = "samples bags count width group partial_width rate decay keep clip_value clip_norm eps "
NUMBERS += "mean_kept mean_new square_kept square_new correction root_correction"

FLAGS = ["CLIP_VALUE", "CLIP_NORM", "DECAY", "KEEP", "BY_CHANCE", "NAMED"]
SUM = {"VECTORS": 2, "FACTORS": 0}
OF = {"change_rows": {"BLOCK": 128, "LANES": 4}, "change_long_rows": {"BLOCK": 128, "CHUNK": 1024}}
_SUMS = [(2, 1), (2, 2), (2, 3), (4, 1), (4, 3)]
CHANGES = {
    "change_rows": usually(
        [(0, 0), (1, 0), (3, 0), (2, 1), (2, 2), (2, 3), (4, 3)],
        [*((rule, 0) for rule in range(5)), *_SUMS],
    ),
    "change_long_rows": usually([(4, 0)], [(2, 0), (3, 0), (4, 0)]),
}
"""Rules, each with its use of sums over rows, where tables have some of their columns: none, given,
and taken. What long rows share with others is compiled for each rule there."""
COMPILED: list[tuple[str, dict[str, Any]]] = [
    *(
        (
            "look_up",
            {
                "BAGS": 4,
                "UNROLL": 4,
                "BLOCK": 128,
                "KIND": kind,
                "POOLED": kind > 0,
                "WEIGHTED": kind == 1,
            },
        )
        for kind in range(4)
    ),
    ("check_bags", {"BAGS": 32, "LOOKUPS": 32, "WEIGHTED": True}),
    ("find_not_finite", {"BLOCK": 4096}),
    *(("prepare", {"BLOCK": 128, "FACTORS": kind, "POOLED": kind > 0}) for kind in range(3)),
    ("add_up_chunks", {**SUM, "CHUNK": 1024}),
    *(
        (
            name,
            {
                **SUM,
                "KIND": rule % 3,
                "RULE": rule,
                "USE": use,
                **{flag: (rule + place) % 2 == 0 for place, flag in enumerate(FLAGS)},
                "FACTORS": rule % 3,
                **OF[name],
            },
        )
        for name, pairs in CHANGES.items()
        for rule, use in pairs
    ),
    ("weight_gradients", {"VECTORS": 8, "KIND": 0}),
]


@pytest.mark.parametrize(("name", "constants"), some(COMPILED))
def test_kernels_compile_for_a_gpu(
    name: str, constants: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To PTX for compute capability 9.0, without a GPU: no fused multiply-adds, approximate roots
    or quotients, or atomics, on which the same bits depend."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.compiler import ASTSource

    from armillary_train.tables import gpu_kernels

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    # PTX is all that is asked for. What the assembler makes of it takes a fifth of the time.
    monkeypatch.setattr(CUDABackend, "make_cubin", lambda *_: b"")
    kernel = getattr(gpu_kernels, name)
    aligned = {"ALIGN": 16} if "ALIGN" in kernel.arg_names else {}
    constants = {**constants, **aligned}
    of = {each: kind for kind, names in TYPES.items() for each in names.split()}
    numbers = set(NUMBERS.split())
    signature = {
        each: "constexpr"
        if each in constants
        else ("" if each in numbers else "*") + of.get(each, "i64")
        for each in kernel.arg_names
    }
    values = {(kernel.arg_names.index(each),): value for each, value in constants.items()}
    options = {"enable_fp_fusion": False, "num_warps": 1}
    made = triton.compile(
        ASTSource(kernel, signature, values), target=GPUTarget("cuda", 90, 32), options=options
    )
    code = made.asm["ptx"]
    assert "ld.global" in code
    assert re.findall(r"\bfma\.\S+|\.approx|\.ftz|\batom\.|\bred\.", code) == []
