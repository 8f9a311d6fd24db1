"""Pipelines: the way of activations between stages, and what a pass takes, against hand
calculations."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from armillary.model.decoder_reader import decoder
from armillary.model.files import load_model
from armillary.platform import Platform
from armillary.serve import Layout, Lengths, Precision, deploy, drawn, load_engine, serve
from armillary.serve.iteration import Term
from armillary.serve.stages import between

HIDDEN = 1000


def network(folder: Path, bandwidth: float, latency: float, per: str = "link") -> Platform:
    """Eight NPUs, each linked with each other."""
    path = folder / "p.yml"
    path.write_text(
        "topology: FullyConnected(8)\n"
        f"links: [{{bandwidth: {bandwidth:g}GB/s, latency: {latency:g}us, per: {per}}}]\n",
        encoding="utf-8",
    )
    return Platform.load(str(path))


def test_a_rank_sends_two_tensors_and_gathers_the_rest(tmp_path: Path) -> None:
    """4 bytes for each token and hidden value. With tensor parallelism a rank sends its part, and
    then each rank has a link to each of the others, over which their parts come at once."""
    draw = random.Random(53)
    for tp, pp in ((1, 2), (1, 5), (1, 8), (2, 2), (2, 4), (4, 2)):
        bandwidth, latency = draw.choice([50, 100, 400]), draw.choice([0.5, 1.0, 3.0])
        tokens = draw.randint(1000, 9000)
        platform = network(tmp_path, bandwidth, latency)
        (found,) = between(platform, Layout(tp, pp), HIDDEN, [tokens])
        part = 4 * tokens * HIDDEN / tp / (bandwidth * 1e9)
        hops = 1 if tp == 1 else 2
        assert found == pytest.approx(hops * (part + latency / 1e6), rel=0.02), (tp, pp)


def test_the_way_grows_with_tokens_on_a_real_network() -> None:
    """Between nodes it takes longer than inside of one."""
    tokens = (1, 64, 1024, 8192)
    within = between(Platform.load("dgx-h100"), Layout(4, 2), HIDDEN, tokens)
    apart = between(Platform.load("dgx-h100-16n"), Layout(8, 2), HIDDEN, tokens)
    for times in (within, apart):
        assert all(one < other for one, other in pairwise(times))
    assert apart[-1] > within[-1]
    # Two passes of a DGX H100's 450 GB/s at most.
    assert within[-1] >= 4 * 8192 * HIDDEN / 4 / 450e9


def value(term: Term, rows: int, context: int) -> float:
    """Seconds of a part of a step of one request, at a sample."""
    if term.kind == "prefill":
        return 0.0
    at = 1 if term.kind in ("sampled", "sequences", "decode") else rows
    place = term.at.index(float(at))
    if term.kind != "decode":
        return term.seconds[place]
    return term.seconds[place * len(term.columns) + term.columns.index(float(context))]


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_a_token_takes_a_pass(stages: int) -> None:
    """Layers on each stage, head and host once, and the way between the stages."""
    load = drawn(1, Lengths(127), Lengths(2), concurrency=1)
    kind = deploy(
        decoder(load_model("llama-3-8b")), Platform.load("dgx-h100"), load_engine("vllm"),
        Layout(pp=stages), Precision(), longest=load.longest,
    )  # fmt: skip
    assert not any("stages" in each for each in kind.warnings)
    assert {"activations"} & {term.name for term in kind.terms} == (
        {"activations"} if stages > 1 else set()
    )
    times = {"stages": stages, "once": 1, "between": stages - 1}
    device = [term for term in kind.terms if not term.host]
    wanted = sum(times[term.place] * value(term, 1, 128) for term in device)
    # The host works while a step runs, on one stage as on the first of several.
    assert serve(kind, load).tpot.mean == pytest.approx(wanted, rel=1e-6)


def test_a_pipeline_halves_the_time_of_prompts_and_not_that_of_tokens() -> None:
    """Two stages work on the prompts of different requests. Tokens of all requests at once read the
    weights once, and in two groups each group reads them."""
    spans = {}
    for prompt, output in ((2048, 2), (16, 128)):
        load = drawn(32, Lengths(prompt), Lengths(output), concurrency=16)
        for stages in (1, 2):
            kind = deploy(
                decoder(load_model("llama-3-70b")), Platform.load("dgx-h100"),
                load_engine("vllm"), Layout(tp=4, pp=stages), Precision("fp8"),
                longest=load.longest,
            )  # fmt: skip
            spans[prompt, stages] = serve(kind, load).span
    assert 1.3 < spans[2048, 1] / spans[2048, 2] < 2.0
    assert 0.9 < spans[16, 1] / spans[16, 2] < 1.1
