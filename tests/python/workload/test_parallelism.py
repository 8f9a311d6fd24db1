"""A parallelisation that doesn't fit is refused with its numbers and the nearest values that
work."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

import armillary as arm
from armillary.errors import InputError
from armillary.workload import build, moe, transformer
from armillary.workload.framework_set import nested
from armillary.workload.parallelism import EXPERT_OPTIONS, FRAMEWORK_KEYS, Parallelism

BAD = [
    ("gpt3-175b", {"tp": 10}, "tp: 96 heads are not divisible by 10 (allowed: 8 or 12)"),
    ("llama-3-8b", {"tp": 7}, "tp: 32 heads are not divisible by 7 (allowed: 4 or 8)"),
    ("llama-2-13b", {"tp": 3}, "tp: 40 heads are not divisible by 3 (allowed: 2 or 4)"),
    (
        "gpt3-175b",
        {"pp": 97},
        "pp: 96 layers for 97 = pp 97 x virtual_stages 1 parts (allowed: up to 96)",
    ),
    (
        "gpt3-175b",
        {"pp": 8, "virtual_stages": 13},
        "virtual_stages: 96 layers for 104 = pp 8 x virtual_stages 13 parts (allowed: up to 12)",
    ),
    (
        "gpt3-175b",
        {"dp": 4, "global_batch": 30},
        "global_batch: 30 samples are not a multiple of micro_batch 1 x dp 4 = 4 (allowed: 28 or "
        "32)",
    ),
    (
        "gpt3-175b",
        {"pp": 8, "micro_batch": 3, "global_batch": 8},
        "global_batch: 8 samples are not a multiple of micro_batch 3 x dp 1 = 3 (allowed: 24)",
    ),
    (
        "gpt3-175b",
        {"pp": 4, "virtual_stages": 2, "dp": 2, "global_batch": 21},
        "global_batch: 21 samples are not a multiple of micro_batch 1 x dp 2 = 2 (allowed: 16 or "
        "24)",
    ),
    (
        "gpt3-175b",
        {"pp": 4, "virtual_stages": 2, "global_batch": 6},
        "global_batch: 6 micro-batches are not a multiple of the pipeline's 4 stages, as "
        "interleaving needs (allowed: 4 or 8)",
    ),
    (
        "llama-3-8b",
        {"pp": 34, "partition": "cost", "global_batch": 64},
        "pp: 32 layers for 34 = pp 34 x virtual_stages 1 parts (allowed: up to 33, the last with "
        "the head alone)",
    ),
    ("llama-3-8b", {"cp": 3}, "cp: 8192 tokens are not divisible by 2 x cp = 6"),
    (
        "llama-3-8b",
        {"tp": 8, "sp": True, "seq": 100},
        "sp: 100 tokens of a context-parallel rank are not divisible by tp 8",
    ),
    (
        "gpt3-175b",
        {"seq": 4096},
        "seq: 4096 tokens, but 2048 learned positions (allowed: 1 to 2048)",
    ),
    ("mixtral-8x7b", {"dp": 6, "ep": 6}, "ep: 8 experts are not divisible by 6 (allowed: 2)"),
    (
        "mixtral-8x7b",
        {"dp": 2, "ep": 4},
        "ep: expert parallelism of 4 lies inside data parallelism of 2",
    ),
    ("mixtral-8x7b", {"tp": 2, "sp": False}, "sp: off, with experts and tp 2"),
    (
        "gpt3-175b",
        {"tp": 8, "dp": 4, "ranks": 64},
        "ranks: 64 ranks, but tp 8 x cp 1 x dp 4 x pp 1 = 32 (allowed: dp 8)",
    ),
    (
        "gpt3-175b",
        {"tp": 8, "ranks": 63},
        "ranks: 63 ranks, but tp 8 x cp 1 x dp 1 x pp 1 = 8 (allowed: ranks 56 or 64",
    ),
    ("gpt3-175b", {"tp": 0}, "tp: invalid count: 0"),
    ("gpt3-175b", {"dp": 2**24 + 1}, "dp: invalid count: 16777217"),
    ("gpt3-175b", {"dp": 2**24, "tp": 2}, "= 33554432 ranks (allowed: up to 16,777,216)"),
    ("gpt3-175b", {"zero": 4}, "zero: invalid count: 4 (allowed: 0, 1, 2, 3)"),
    (
        "gpt3-175b",
        {"schedule": "zb-v"},
        "schedule: unknown schedule 'zb-v' (allowed: gpipe, 1f1b, interleaved, zb-h1, dualpipe)",
    ),
    (
        "gpt3-175b",
        {"schedule": "gpipe", "pp": 4, "virtual_stages": 2},
        "virtual_stages: 2 chunks per stage under gpipe",
    ),
    (
        "gpt3-175b",
        {"schedule": "interleaved", "pp": 4},
        "virtual_stages: an interleaved schedule of 1 chunk per stage",
    ),
    ("gpt3-175b", {"virtual_stages": 2}, "virtual_stages: 2 chunks of a single stage"),
    ("gpt3-175b", {"sp": "yes"}, "sp: 'yes' is neither true nor false (allowed: true, false)"),
    (
        "gpt3-175b",
        {"global_batch": 2**24},
        "global_batch: 16777216 micro-batches of 96 layers are more than is generated",
    ),
    (
        "llama-3-8b",
        {"micro_batch": 2**24, "seq": 2**24},
        "micro_batch: 281474976710656 tokens of a rank at once",
    ),
    (
        "llama-3-8b",
        {"seq": 2**24, "tp": 8},
        "operations of a rank in a step (allowed: up to 9.2e+18)",
    ),
    ("mixtral-8x7b", {"imbalance": 0.5}, "imbalance: 0.5 is out of range"),
    ("mixtral-8x7b", {"capacity_factor": 0}, "capacity_factor: 0 is out of range"),
]


@pytest.mark.parametrize(("model", "options", "said"), BAD)
def test_refused(model: str, options: dict[str, object], said: str) -> None:
    with pytest.raises(InputError) as caught:
        build(model, **nested(options))
    assert any(said in str(problem) for problem in caught.value.problems), str(caught.value)


def test_every_switch_is_on_or_off() -> None:
    switches = [
        field.name for field in dataclasses.fields(Parallelism) if isinstance(field.default, bool)
    ]
    with pytest.raises(InputError) as caught:
        build("llama-3-8b", **nested(dict.fromkeys(switches, "off")))
    places = [each.place.removeprefix("framework_set.") for each in caught.value.problems]
    assert sorted(places) == sorted(switches)


def test_every_problem_is_listed() -> None:
    with pytest.raises(InputError) as caught:
        build("llama-3-405b", tp=24, pp=130, dp=3, global_batch=7, ranks=50)
    assert [problem.place for problem in caught.value.problems] == [
        "tp",
        "tp",
        "pp",
        "global_batch",
        "ranks",
    ]


@pytest.mark.parametrize("value", ["tp", "pp"])
def test_what_is_allowed_works(value: str) -> None:
    """The values offered are accepted."""
    for wrong in (5, 7, 9, 11, 13):
        try:
            build("llama-3-8b", global_batch=32, **{value: wrong})
        except InputError as error:
            offered = error.problems[0].help.split(" (")[0].split(" or ")
            for good in offered:
                build("llama-3-8b", global_batch=32, **{value: int(good)})


def test_unknown_options() -> None:
    with pytest.raises(InputError, match=r"micro_batches: unknown option.*micro_batch"):
        transformer("gpt3-175b", micro_batches=4)


def test_the_wrong_family() -> None:
    with pytest.raises(InputError, match="family 'moe'"):
        transformer("mixtral-8x7b")
    with pytest.raises(InputError, match="family 'transformer'"):
        moe("gpt3-175b")


def test_signatures_say_the_options() -> None:
    """What `inspect`, and so the command line, sees are the fields."""
    fields = {field.name: field.default for field in dataclasses.fields(Parallelism)}
    for function, missing in (
        (moe, FRAMEWORK_KEYS),
        (transformer, (*EXPERT_OPTIONS, *FRAMEWORK_KEYS)),
    ):
        parameters = list(inspect.signature(function).parameters.values())[1:]
        assert {p.name: p.default for p in parameters} == {
            k: v for k, v in fields.items() if k not in missing
        }


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zb-h1"])
def test_fewer_micro_batches_than_stages_leave_stages_idle(schedule: str) -> None:
    """Megatron-LM runs them (VIA-Research/vTrain has measured some); (p - 1) / m is then more than
    the work itself."""
    workload = build("gpt3-175b", pp=8, dp=2, global_batch=8, schedule=schedule)
    summary = workload.summary
    assert summary is not None
    assert "4 micro-batches can't keep the pipeline's 8 stages busy at once" in summary.notes
    platform = arm.Platform(
        "SW(16)", bandwidth="100 GB/s", latency="1 us", settings={"npu.peak": "100 TFLOPS"}
    )
    assert arm.simulate(workload, platform).step_time_ns > 0


def test_layers_that_need_embedding_and_head_counted() -> None:
    """Llama 3 405B: 126 layers on 16 stages, 7 on the first and last (Grattafiori et al. 2024,
    section 3.3.2)."""
    summary = build("llama-3-405b", tp=8, pp=16, global_batch=16).summary
    assert summary is not None
    assert any("126 layers over 16 parts" in note for note in summary.notes)
    weights = [entry.memory.weights for entry in summary.classes]
    assert len(set(weights[1:-1])) == 1


def test_nothing_overflows_below_the_limits() -> None:
    found = build("llama-3-405b", seq=2**20, tp=8, sp=True).summary
    assert found is not None
    assert 2**60 < found.classes[0].operations < 2**63
