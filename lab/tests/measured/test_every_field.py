"""Every field of a measured row is read, or known to change nothing, or the reason that the row is
left out. Places, rows and values are drawn."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from test_measured_kernels import PRODUCT
from test_measurements import BRIDGE, STEP, SUBMISSION, SWEEP
from test_stated_fields import PROXY

from armillary.kernels.tables import Left
from armillary_lab.measured.published import reading, steps, vision
from armillary_lab.measured.published.machines import of_sweep
from armillary_lab.predict import collectives, kernels

Row = dict[str, Any]
SUBMITTED: Row = SUBMISSION | {"accelerators_per_node": 8, "max_sequence_length": 8192}
NODES: Row = SWEEP | {
    "hardware": SWEEP["hardware"] | {
        "gpus": 16, "nodes": 2, "nics_per_node": 8, "nic_Gbps": 400, "fabric": "InfiniBand",
        "nvlink_unidir_GBps_per_gpu": 450,
    },
    "busbw_factor": 1.875, "size_convention": "nccl-tests: size column in bytes",
}  # fmt: skip
EXAMPLE: Row = {
    "id": "dle_dlrm_TensorFlow2_NVIDIADGX216xV10032GB_n8_large_FP32", "group": "nvidia_dle_dlrm",
    "model": {"name": "dlrm", "size": "large"}, "metric": {"samples_per_s": 3790000.0},
    "hardware": {"gpu": "V100 32GB", "gpus": 8, "nodes": 1,
                 "system": "NVIDIA DGX-2 (16x V100 32GB)"},
    "parallel": {"hybrid": "model-parallel embeddings + data-parallel MLP"},
    "batch": {"per_gpu_batch": "8k"}, "precision": "FP32", "source": {"line": 3},
}  # fmt: skip
CASES: tuple[tuple[str, Row, Callable[[Row], object]], ...] = (
    ("training", PROXY, steps.training),
    ("training", BRIDGE, steps.training),
    ("training", STEP, steps.training),
    ("mlperf", SUBMITTED, steps.submission),
    ("collectives", NODES, collectives.predict),
    ("compute", PRODUCT, kernels.predict),
    ("training", EXAMPLE, vision.run),
)


def parts(row: Row, place: str = "") -> Iterator[tuple[str, Row]]:
    """Parts of a row that hold fields, with their places."""
    yield place, row
    for key, value in row.items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                yield from parts(each, f"{place}{key}{'[]' * isinstance(value, list)}.")


def counts(kind: str, place: str) -> bool:
    """Whether a field counts, by the list of those that don't."""
    steps_to = place.split(".")
    above = {".".join(steps_to[: end + 1]) for end in range(len(steps_to))}
    return not above & reading.IRRELEVANT[kind].keys()


@pytest.mark.parametrize(("kind", "row", "predict"), CASES)
def test_a_field_that_nobody_reads_leaves_the_row_out(
    kind: str, row: Row, predict: Callable[[Row], object]
) -> None:
    assert not isinstance(predict(row), Left)
    draw = random.Random(f"{kind} {row.get('id')}")
    for _ in range(12):
        changed = copy.deepcopy(row)
        places = [each for each in parts(changed) if counts(kind, f"{each[0]}x")]
        place, part = draw.choice(places)
        key = "".join(draw.choices("abcdefghijklmnopqrstuvwxyz_", k=9))
        part[key] = draw.choice([3, 0.25, "many", True])
        left = predict(changed)
        assert isinstance(left, Left)
        assert left.reason == f"{place}{key} is not read"
        part[key] = draw.choice([None, "", "n/a"])
        assert not isinstance(predict(changed), Left)


@pytest.mark.parametrize(("kind", "row", "predict"), CASES)
def test_a_field_that_counts_changes_the_prediction(
    kind: str, row: Row, predict: Callable[[Row], object]
) -> None:
    """Numbers times three: another run, another machine, or left out. Of a sweep, the machine and
    the points are compared."""
    made = predict(row)
    for place, part in parts(copy.deepcopy(row)):
        for key, value in list(part.items()):
            number = str(value).isdigit() and int(value) > 0
            if not number or not counts(kind, f"{place}{key}"):
                continue
            part[key] = str(3 * int(value)) if isinstance(value, str) else 3 * value
            root = changed(row, place, part)
            assert predict(root) != made, f"{place}{key}"
            part[key] = value


def changed(row: Row, place: str, part: Row) -> Row:
    """The row with a part in its place; of several, as the first."""
    whole = copy.deepcopy(row)
    inner: Any = whole
    for step in [each for each in place.split(".") if each]:
        inner = inner[step.removesuffix("[]")]
        inner = inner[0] if isinstance(inner, list) else inner
    inner.clear()
    inner.update(part)
    return whole


@pytest.mark.parametrize(
    ("change", "caller"),
    [
        ({"id": "h100x8_jax_allreduce"}, "JAX"),
        ({"software": {"tests": "lax.psum in a loop", "nccl": "not stated"}}, "JAX"),
        ({"software": {"tests": "torch.distributed, backend gloo"}}, "Gloo"),
        ({"software": {"tests": "osu_allreduce -d cuda"}}, "MPI"),
        ({"notes": "MPI_Allreduce on device buffers"}, "MPI"),
        ({"source": {"repo": "meta-pytorch/torchcomms"}}, "torchcomms"),
        ({"software": {"library": "MSCCL++ (not NCCL)"}}, "other than NCCL"),
    ],
)
def test_calls_that_are_not_those_of_nccl_are_left_out(
    change: Mapping[str, Any], caller: str
) -> None:
    left = of_sweep({**SWEEP, **change})
    assert isinstance(left, Left)
    assert caller in left.reason


@pytest.mark.parametrize(
    "software",
    [
        {"tests": "mpirun -np 8 all_reduce_perf -b 8 -e 16G", "nccl": "2.27.3"},
        {"library": "RCCL 2.22"},
        {"nccl": "torch + NCCL (version not printed)"},
    ],
)
def test_calls_of_nccl_are_kept_whoever_starts_them(software: Row) -> None:
    assert not isinstance(of_sweep({**SWEEP, "software": software}), Left)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"busbw_factor": 0.9375}, "busbw_factor"),
        ({"size_convention": "elements"}, "size_convention"),
        ({"op": "all_gather", "busbw_factor": 0.9375, "size_convention": "bytes per rank"},
         "size_convention"),
        ({"hardware": NODES["hardware"] | {"nvlink_unidir_GBps_per_gpu": 200}}, "nvlink"),
    ],
)  # fmt: skip
def test_what_a_sweep_states_of_sizes_and_links_is_followed(change: Row, field: str) -> None:
    left = collectives.predict(NODES | change)
    assert isinstance(left, Left)
    assert field in left.reason


@pytest.mark.parametrize(
    ("batch", "precision", "samples"),
    [("8k", "TF32", 8192), ("256", "TF32", 256), ("128 (FP32) / 256 (AMP)", "FP32 + XLA", 128),
     ("128 (FP32) / 256 (AMP)", "mixed precision + XLA", 256), ("0", "FP32", None),
     (None, "FP32", None), ("8k of 16k", "FP32", None)],
)  # fmt: skip
def test_batches_of_examples_have_three_spellings(
    batch: str | None, precision: str, samples: int | None
) -> None:
    run = vision.run(EXAMPLE | {"batch": {"per_gpu_batch": batch}, "precision": precision})
    assert isinstance(run, Left) if samples is None else run.batch == samples  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"model": {"name": "ncf"}}, "no model for ncf"),
        ({"id": "dle_dlrm_JAX_n8"}, "no framework"),
        ({"precision": "INT8"}, "precision"),
        ({"hardware": {"gpu": "V100 32GB", "gpus": 16, "nodes": 2}}, "a layout"),
        ({"metric": {}}, "no rate"),
    ],
)
def test_what_an_example_lacks_is_the_reason(change: Row, reason: str) -> None:
    left = vision.run(EXAMPLE | change)
    assert isinstance(left, Left)
    assert reason in left.reason
