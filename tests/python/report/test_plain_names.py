"""Operations in plain words: every name that the generators give, and no guess for other names."""

from __future__ import annotations

from typing import Any

import pytest

import armillary as arm
from armillary.report import words as terminal
from armillary.report.page import Page, Section, Table, body
from armillary.report.plain_names import Named, words
from armillary.workload import Workload, build

WORKLOADS: dict[str, dict[str, Any]] = {
    "llama-3-8b": {"tp": 2, "pp": 2, "dp": 2, "zero": 1, "sp": True, "recompute": "selective"},
    "mixtral-8x7b": {"tp": 1, "ep": 2, "pp": 2, "dp": 4, "recompute": "full"},
    "gpt3-175b": {"tp": 2, "dp": 2, "pp": 2, "attention": "unfused"},
    "resnet-50": {"dp": 8},
    "dlrm-mlperf": {"dp": 8},
}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("*.layer*.up.dgrad", "the input gradient of the up-projection in all layers"),
        ("3.layer17.up.wgrad", "the weight gradient of the up-projection in layer 17"),
        ("*.layer*.again.attention.core.*", "the recomputation of attention in all layers"),
        ("*.send_grad.*", "gradients sent to the stage before"),
        ("*.layer*.experts.dispatch", "the dispatch of tokens to experts in all layers"),
        ("layer1.0.conv2.forward", "the forward pass of convolutions"),
        (
            "top.*.weight_gradient.all_reduce",
            "the all-reduce for the weight gradient of the top MLP",
        ),
        ("my_own_kernel", "my_own_kernel"),
        ("*.layer*.unheard.of", "*.layer*.unheard.of"),
    ],
)
def test_words(name: str, said: str) -> None:
    assert words(name) == said


def names(workload: Workload, npus: int) -> set[str]:
    settings = {"npu.peak": "100 TFLOPS", "npu.memory.bandwidth": "2 TB/s"}
    platform = arm.Platform(f"SW({npus})", bandwidth="100 GB/s", latency="1 us", settings=settings)
    report = arm.simulate(workload, platform).report
    return {row["name"] for row in report["operations"]}


@pytest.mark.parametrize("model", WORKLOADS)
def test_every_generated_operation_has_words(model: str) -> None:
    options = WORKLOADS[model]
    npus = 1
    for degree in ("tp", "pp", "dp"):
        npus *= int(options.get(degree, 1))
    found = names(build(model, **options), npus)
    assert len(found) > 5
    assert {name for name in found if words(name) == name} == set()


def test_pages_show_words_and_the_name_terminals_the_name() -> None:
    """The name is what `armillary explain RESULT NODE` takes."""
    rows = [(Named("*.layer*.up.dgrad"), "1"), (Named("my own kernel"), "2")]
    page = Page("title", [Section("section", [Table("caption", ("Operation", "Count"), rows)])])
    html = body(page)
    assert "input gradient of the up-projection in all layers<small>*.layer*.up.dgrad</sm" in html
    assert ">my own kernel</th>" in html
    text = terminal.text(page)
    assert "*.layer*.up.dgrad" in text and "up-projection" not in text
