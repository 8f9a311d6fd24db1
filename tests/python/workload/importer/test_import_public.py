"""Recordings that others published: each imports or is refused with its reason; replays against
recorded step times.

They are not part of the repository; without them these tests are skipped.
"""

from __future__ import annotations

import pytest
from conftest import ROOT
from thorough import some

import armillary as arm
from armillary.errors import InputError
from armillary.workload.importer import Imported, import_traces

TRACES = ROOT.parent / "shared/traces"
PARAM = "facebookresearch+param/et_replay/tests/inputs/"
HTA = "facebookresearch+HolisticTraceAnalysis/tests/data/"
LENS = "AMD-AGI+TraceLens/tests/traces/"
TRIO = "sarchlab+triosim/"
NPKIT = "spcl+atlahs/goal_gen/ai/nccl_goal_generator/npkit_benchmark_results/"

pytestmark = pytest.mark.skipif(
    not TRACES.is_dir(), reason="the public traces are not at hand (../shared/traces)"
)

REPLAYED = [
    LENS + "b200/eager_trace.json.gz",
    LENS + "h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    LENS + "h100/facebook_timesformer-base-finetuned-k400__1016002.json.gz",
    LENS + "h100/gaunernst_bert-small-uncased__1016001.json.gz",
    LENS + "mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    LENS + "mi300/facebook_timesformer-base-finetuned-k400__1016002.json.gz",
    LENS + "mi300/gaunernst_bert-small-uncased__1016001.json.gz",
    LENS + "mi300/resnet_act_checkpoint.json.gz",
    "deepseek-ai+profile-data/train.json",
    HTA + "amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
    HTA + "call_stack/backward_thread.json",
    HTA + "critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz",
    HTA + "critical_path/cuda_event_sync/event_sync_trace.json.gz",
    HTA + "critical_path/cuda_event_sync_multi_stream/event_sync_trace.json.gz",
    HTA + "critical_path/end_to_end/simple_add/input/trace.json.gz",
    HTA + "cupti_profiler/benchmark_result_924719_1679055439_trace.json.gz",
    HTA + "distributed_info_unavailable/distributed_info_not_found.json.gz",
    HTA + "nccl_parser_config/nccl_data.json.gz",
    HTA + "negative_queue_length_values_check/rank0.json.gz",
    HTA + "ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz",
    HTA + "rank_non_gpu/rank_non_gpu.json.gz",
    HTA + "timeline_analysis/sampled_rank-0.json.gz",
    HTA + "trace_diff/control/control.json.gz",
    HTA + "trace_diff/test/test.json.gz",
    HTA + "trace_filter/sampled_rank-1.json.gz",
    PARAM + "resnet_kineto.json.gz",
    TRIO + "tracer/data/profiler/profiler_vgg13-iter41.json",
]
WITHOUT_DURATIONS = {
    PARAM + "1.0.3-chakra.0.0.4/resnet_1gpu_et.json.gz": 1,
    PARAM + "1.1.0-chakra.0.0.4/resnet_2gpu_et.json.gz": 2,
    PARAM + "linear_et.json.gz": 1,
    PARAM + "pt2_et.json.tar.gz": 1,
    PARAM + "resnet_1gpu_et.json.tar.gz": 1,
    PARAM + "dlrm_pytorch_et.tar.gz": 8,
    "mlcommons+chakra/tests/data/1.0.2-chakra.0.0.4.tgz": 2,
    "astra-sim+tutorials/hoti2024/demo3/pytorch_traces": 2,
    TRIO + "tracer/data/graph/graph_vgg13-iter41.json": 1,
}
REFUSED = {
    HTA + "memory_analysis/memory_timeline.raw.gz": "memory timeline",
    "mlcommons+chakra/tests/data/feeder_tests_trace.tar.gz": "Chakra trace",
    "mlcommons+chakra/tests/data/json_trace.tar.gz": "Chakra trace",
    TRIO + "sample_trace/trace2-h100-bs128/resnet50/trace.csv": "comma-separated",
    NPKIT + "play/npkit_data_summary_LL.json": "NPKit",
    HTA + "trace_filter": "all_to_all on rank 0 and all_reduce on rank 1",
}


def imported(*names: str, **options: object) -> Imported:
    return import_traces([TRACES / name for name in names], **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", some(REPLAYED))
def test_replays_within_five_per_cent(name: str) -> None:
    result = imported(name)
    (row,) = result.ranks
    assert row.recorded_ps > 0
    assert abs(row.deviation) < 0.05, f"recorded {row.recorded_ps}, replayed {row.replayed_ps}"
    assert row.device_share > 0.99
    assert row.dropped == 0


@pytest.mark.parametrize("name", WITHOUT_DURATIONS)
def test_execution_traces_alone(name: str) -> None:
    result = imported(name)
    assert result.workload.ranks == WITHOUT_DURATIONS[name]
    assert any("no durations" in note for note in result.notes)
    assert result.workload.operations > 0


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_its_reason(name: str) -> None:
    with pytest.raises(InputError, match=REFUSED[name]):
        imported(name)


def test_a_replay_beyond_the_bound_says_so() -> None:
    """A step that began with 52 ms of lag and ended with none waited for the step before: the notes
    tell."""
    result = imported(HTA + "trace_diff/test/test.json.gz", step=1011)
    assert abs(result.ranks[0].deviation) > 0.05
    assert any("of the recorded" in note for note in result.notes)
    assert any("not a steady step" in note for note in result.notes)


@pytest.fixture(scope="module")
def dlrm() -> Imported:
    return imported(PARAM + "dlrm_kineto.tar.gz", PARAM + "dlrm_pytorch_et.tar.gz", skew=True)


SPANS = {0: 14.455, 1: 19.901, 2: 13.017, 3: 19.313, 4: 17.979, 5: 17.797, 6: 13.091, 7: 12.509}
"""Milliseconds of `ProfilerStep#10` on each rank."""


def test_dlrm_is_covered(dlrm: Imported) -> None:
    assert {row.rank: row.span_ps / 1e9 for row in dlrm.ranks} == SPANS
    whole = dlrm.total
    assert whole is not None
    assert (whole.collectives, whole.sized) == (64, 64)
    assert whole.matched_ops / whole.host_ops > 0.99
    assert whole.device_share > 0.999


def test_dlrm_collectives(dlrm: Imported) -> None:
    """Five all-to-alls and three all-reduces a rank; the largest all-reduce is of 394,241
    floats."""
    summary = dlrm.workload.summary
    assert summary is not None
    volumes = {volume.kind: volume for volume in summary.classes[0].volumes}
    assert volumes["all_to_all"].count == 5
    assert volumes["all_to_all"].bytes == 6144 * 4 * 2 + 24 * 8 + 384 * 4 + 3392 * 4
    assert (volumes["all_reduce"].count, volumes["all_reduce"].bytes) == (
        3,
        4 * (394_241 + 112 + 226_960),
    )


def test_dlrm_replays(dlrm: Imported) -> None:
    for row in dlrm.ranks:
        assert row.replayed_ps == pytest.approx(SPANS[row.rank] * 1e9, rel=0.05)


def test_dlrm_simulated_on_its_machine(dlrm: Imported) -> None:
    """Every collective simulated on a DGX-1: the waiting of up to 7.6 ms comes from when ranks
    arrive."""
    result = arm.simulate(dlrm.workload, arm.Platform.load("dgx1-v100"))
    finish = [ns * 1e3 for ns in result.ranks()["finish_ns"].to_list()]
    for row in dlrm.ranks:
        assert finish[row.rank] - row.skew_ps == pytest.approx(SPANS[row.rank] * 1e9, rel=0.05)


def test_dlrm_hardly_gains_from_a_faster_network() -> None:
    """It is launch-bound: a hundred times slower hurts, three times faster does not help."""
    workload = imported(PARAM + "dlrm_kineto.tar.gz").workload
    pod = ["FullyConnected(8)"]
    times = [
        arm.simulate(
            workload, arm.Platform(pod[0], bandwidth=width, latency="1 us", per="npu")
        ).step_time_ns
        for width in ("1 GB/s", "150 GB/s", "450 GB/s")
    ]
    assert times[0] > 1.1 * times[1]
    assert times[1] < 1.01 * times[2]


def test_dlrm_on_1024_ranks() -> None:
    result = imported(PARAM + "dlrm_kineto.tar.gz", ranks=1024, all_to_all="keep")
    assert (result.workload.ranks, result.workload.programs) == (1024, 8)
    assert any("128 copies" in note for note in result.notes)
    assert any("12.509 to 19.901 ms" in note for note in result.notes)
