"""`armillary serve`: deployments, loads, results, and what is refused."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
import re
from pathlib import Path

import pytest
from conftest import Armillary

from armillary import kernels
from armillary.errors import InputError
from armillary.kernels import Allreduce, Attention, Experts, Gemm, Mla, Stream
from armillary.model.decoder import Decoder
from armillary.model.decoder_reader import decoder
from armillary.model.files import load_model
from armillary.model.weights import layer_weights
from armillary.platform import Platform
from armillary.serve import (
    Choices,
    Engines,
    Layout,
    Lengths,
    Load,
    Precision,
    Request,
    deploy,
    drawn,
    load_engine,
    rooflines,
    serve,
)
from armillary.serve.document import as_dict
from armillary.serve.hits import hits
from armillary.serve.limits import Limits
from armillary.serve.steady import steady
from armillary.serve.transfer import transfer
from armillary.serve.what_if import what_if


def model(name: str = "llama-3-8b") -> Decoder:
    return decoder(load_model(name))


def engines(load: Load, **given: object) -> Engines:
    """One H100 with Llama 3 8B on vLLM, or what is given instead."""
    words: dict[str, object] = {
        "model": model(),
        "platform": Platform.load("dgx-h100"),
        "engine": load_engine("vllm"),
        "layout": Layout(),
        "precision": Precision(),
        "longest": load.longest,
        **given,
    }
    return deploy(**words)  # type: ignore[arg-type]


def test_tokens_are_conserved_and_times_are_in_order() -> None:
    """Drawn loads on drawn deployments: everything that goes in comes out, in order."""
    draw = random.Random(53)
    for _ in range(12):
        closed = draw.random() < 0.5
        load = drawn(
            draw.randint(1, 60),
            Lengths(draw.randint(1, 2000), deviation=draw.random()),
            Lengths(draw.randint(1, 200), 0.5, 1.5),
            rate=None if closed else draw.uniform(0.5, 200),
            concurrency=draw.randint(1, 40) if closed else None,
            prefix=draw.choice((0, 100)),
            prefixes=draw.randint(1, 3),
            seed=draw.randrange(1000),
        )
        choices = Choices(
            sequences=draw.choice((None, 4)),
            caching=draw.random() < 0.5,
            asynchronous=draw.random() < 0.5,
            blocks=draw.choice((None, -(-load.longest // 16) + 50)),
        )
        kind = engines(load, count=draw.choice((1, 2)), choices=choices)
        found = serve(kind, load, routing=draw.choice(("round_robin", "least_loaded", "prefix")))
        assert [(each.prompt, each.output) for each in found.answers] == [
            (each.tokens, each.output) for each in load.requests
        ]
        for each in found.answers:
            assert each.arrival <= each.admitted < each.first <= each.end
            assert 0 <= each.cached < each.prompt
        # Little's law: the mean number of requests is their rate times their mean time.
        there = sum(each.latency for each in found.answers) / found.span
        rate = len(found.answers) / found.span
        assert there == pytest.approx(rate * found.latency.mean)
        most = kind.blocks * kind.count
        assert all(0 <= used <= most for *_, used in found.samples)


def test_the_same_load_gives_the_same_bytes(armillary: Armillary, tmp_path: Path) -> None:
    words = ("serve", "llama-3-8b", "-p", "dgx-h100", "--rate", "30", "--num-requests", "50")
    for name in ("a", "b"):
        run = armillary(*words, "--json", name, "--csv", f"{name}.csv", cwd=tmp_path)
        assert run.returncode == 0, run.stderr
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    found = json.loads((tmp_path / "a").read_text())
    assert found["schema"] == "armillary.serve/1"
    assert found["result"]["requests"] == 50
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 51


def test_a_lone_request_takes_its_prompt_and_its_tokens() -> None:
    """Without other requests a token takes at least the reading of all weights."""
    load = Load((Request(((1, 512),), 64),), (0,))
    kind = engines(load)
    found = serve(kind, load)
    weights = kind.held.weights / 3350e9
    assert found.tpot.mean > weights
    assert found.tpot.mean < 2.5 * weights
    operations = 2 * 512 * 8e9 / 989e12
    assert operations < found.ttft.mean < 10 * operations


def test_more_requests_at_a_time_give_more_tokens_and_slower_ones() -> None:
    results = []
    for concurrency in (1, 8, 64):
        load = drawn(4 * concurrency, Lengths(256), Lengths(64), concurrency=concurrency)
        results.append(serve(engines(load), load))
    for one, other in itertools.pairwise(results):
        assert other.output_rate > one.output_rate
        assert other.tpot.mean > one.tpot.mean


def test_a_shared_prefix_is_computed_once() -> None:
    load = drawn(40, Lengths(1000), Lengths(8), rate=5, prefix=800, prefixes=1)
    cold = serve(engines(load, choices=Choices(caching=False)), load)
    warm = serve(engines(load), load)
    assert sum(each.cached for each in cold.answers) == 0
    assert all(each.cached == 800 for each in warm.answers[1:])
    # The way to the scheduler, and the launch of kernels by the host, stay as long.
    assert warm.ttft.mean < 0.7 * cold.ttft.mean


def test_priorities_and_preemption() -> None:
    """A cache for one long request and a half: some lose their blocks, all end."""
    load = drawn(12, Lengths(300), Lengths(300), concurrency=12)
    found = serve(engines(load, choices=Choices(blocks=60, caching=False)), load)
    assert sum(each.preemptions for each in found.answers) > 0
    assert all(each.end > 0 for each in found.answers)


def test_prompts_apart_take_the_way_over_the_network() -> None:
    platform = Platform.load("dgx-h100-16n")
    load = drawn(30, Lengths(2000), Lengths(50), rate=10)
    first = engines(load, platform=platform, count=2)
    main = engines(load, platform=platform, count=1)
    way = transfer(first, main)
    found = serve(first, load, decode=main, transfer=way)
    whole = serve(main, load)
    assert [at for at, _ in way] == sorted(at for at, _ in way)
    for each, request in zip(found.answers, load.requests, strict=True):
        bytes_ = request.tokens * first.held.token
        assert each.transfer > bytes_ / 450e9
        assert each.ttft > each.transfer
    # Tokens are not held up by the prompts of others.
    assert found.itl.most < whole.itl.most


def test_memory_holds_what_the_model_has() -> None:
    load = drawn(1, Lengths(100), Lengths(10), concurrency=1)
    for tp in (1, 2, 8):
        held = engines(load, layout=Layout(tp=tp)).held
        shape = model()
        layers = sum(layer_weights(shape, layer, tp).total for layer in range(shape.layers))
        ends = 2 * shape.hidden * -(-shape.vocabulary // tp)
        assert held.weights == pytest.approx(2 * (layers + ends), rel=1e-3)
        assert held.token == 2 * 2 * shape.layers * max(1, 8 // tp) * 128


def test_goodput_counts_requests_that_keep_both_limits() -> None:
    load = drawn(60, Lengths(500), Lengths(50), rate=60)
    found = serve(engines(load), load)
    ttft, tpot = found.ttft.p50, found.tpot.p50
    kept = sum(each.ttft <= ttft and (each.tpot or 0) <= tpot for each in found.answers)
    assert found.goodput(ttft, tpot) == pytest.approx(kept / found.span)
    assert found.goodput(None, None) == pytest.approx(60 / found.span)
    assert not Limits().given


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rate", "-1"), "invalid rate"),
        (("--rate", "4", "--concurrency", "4"), "both are given"),
        ((), "none is given"),
        (("--rate", "4", "--tp", "3"), "can't be shared by 3"),
        (("--rate", "4", "--tp", "8", "--replicas", "2"), "has 8"),
        (("--rate", "4", "--ep", "2"), "no experts"),
        (("--rate", "4", "--weights", "fp7"), "unknown number format"),
        (("--rate", "4", "--blocks", "4"), "needs"),
        (("--rate", "4", "--gpu-memory", "0.1"), "are left"),
        (("--rate", "4", "--slo", "ttft=fast"), "invalid promise"),
        (("--rate", "4", "--engine", "llm"), "unknown engine"),
        (("--rate", "4", "--input-tokens", "0"), "invalid lengths"),
        (("--rate", "4", "--input-tokens", "a-b"), "invalid lengths"),
        (("--rate", "4", "--arrival", "never"), "unknown arrivals"),
        (("--rate", "4", "--draft-tokens", "2"), "not known"),
        (("--rate", "4", "--acceptance", "0.5"), "no tokens are drafted"),
        (("--rate", "4", "--prefill", "tp=zero"), "invalid layout"),
        (("--rate", "4", "--prefill", "tp=8"), "the engines have 9 GPUs"),
        (("--rate", "4", "--max-model-len", "100"), "more than 100"),
        (("--rate", "4", "--routing", "magic"), "routing"),
        (("--rate", "4", "--prefix", "2000"), "may have fewer"),
        (("--rate", "4", "--prefixes", "3"), "no common start"),
        (("--rate", "4", "--arrival", "even:7"), "unknown arrivals"),
        (("--concurrency", "4", "--arrival", "gamma:2"), "when others end"),
        (("--rate", "4", "--backend", "flow"), "nothing goes from engine to engine"),
        (("--rate", "0.000001", "--num-requests", "100"), "arrives after"),
        (("--rate", "4", "--price", "nan"), "invalid number"),
    ],
)
def test_bad_input_is_named(armillary: Armillary, words: tuple[str, ...], said: str) -> None:
    run = armillary("serve", "llama-3-8b", "-p", "dgx-h100", *words)
    assert run.returncode == 2, run.stderr
    assert said in run.stderr
    assert "Traceback" not in run.stderr


def test_platforms_without_measured_kernels_have_rooflines() -> None:
    """The bounds of a data sheet: no token is faster than the reading of the weights. Launches of
    a small model's kernels take longer than that."""
    load = Load((Request(((1, 512),), 64),), (0,))
    kind = engines(load, platform=Platform.load("mi300x-8"), layout=Layout(tp=2))
    assert any("rooflines" in each for each in kind.warnings)
    found = serve(kind, load)
    weights = kind.held.weights / 5300e9
    assert weights < found.tpot.mean < 4 * weights
    assert found.ttft.mean > 2 * 512 * 4e9 / 1300e12


def test_graphs_hide_a_part_of_the_launches_of_experts() -> None:
    """Drawn parts: the experts of every layer take that much less, whatever the tokens."""
    draw = random.Random(11)
    load = drawn(4, Lengths(64), Lengths(8))
    engine = load_engine("vllm")
    words = {"model": model("qwen3-30b-a3b"), "layout": Layout(tp=2), "longest": load.longest}
    layers = 48

    def experts(part: float) -> tuple[float, ...]:
        file = dataclasses.replace(engine.file, experts_launch=part)
        found = engines(load, engine=dataclasses.replace(engine, file=file), **words)
        return next(term.seconds for term in found.terms if term.name == "experts")

    shape = Experts(
        tokens=1, hidden=2048, inner=768, experts=128, top_k=8, tp=2, format="bf16",
        kernels="triton", library="vllm", routing="power_law_1.2",
    )  # fmt: skip
    launch = kernels.one(shape, Platform.load("dgx-h100")).parts["launch"]
    whole = experts(1.0)
    for _ in range(3):
        part = draw.random()
        less = [all_ - rest for all_, rest in zip(whole, experts(part), strict=True)]
        assert less[0] == pytest.approx((1 - part) * layers * launch, rel=1e-6)
        assert min(experts(part)) > 0


def test_rooflines_are_near_fitted_kernels() -> None:
    """On a platform that has both, every kind within a factor of 2.5 of the fitted time."""
    platform = Platform.load("dgx-h100")
    shapes = [
        Gemm(m=8, n=8192, k=8192),
        Gemm(m=4096, n=8192, k=8192, format="fp8"),
        Attention(batch=64, length=4096, heads=8, kv_heads=1, head_dim=128, phase="decode"),
        Attention(batch=1, length=8192, heads=8, kv_heads=1, head_dim=128),
        Mla(batch=64, length=8192, heads=16, phase="decode"),
        Experts(tokens=64, hidden=4096, inner=1536, experts=128, top_k=8),
        Stream(bytes=10**8),
        Allreduce(bytes=1 << 24, members=8),
    ]
    ours = rooflines.seconds(shapes, platform)
    fitted = kernels.seconds(shapes, platform)
    for shape, one, other in zip(shapes, ours, fitted, strict=True):
        assert 1 / 2.5 < one / other < 2.5, (shape, one, other)


def test_too_small_platforms_are_refused() -> None:
    load = drawn(1, Lengths(10), Lengths(10), concurrency=1)
    with pytest.raises(InputError, match="are left"):
        engines(load, model=model("llama-3-70b"))
    with pytest.raises(InputError, match="are left"):
        engines(load, model=model("llama-3-70b"), choices=Choices(blocks=1000))
    many = engines(load, choices=Choices(blocks=100_000))
    assert any("more than" in each for each in many.warnings)


def test_steps_without_graphs_are_warned_of() -> None:
    load = drawn(1, Lengths(10), Lengths(10), concurrency=1)
    vllm = load_engine("vllm")
    unknown = dataclasses.replace(vllm, file=dataclasses.replace(vllm.file, eager=0.0))
    choices = Choices(graphs=False)
    kind = engines(load, engine=unknown, choices=choices)
    assert any("CUDA graphs" in each for each in kind.warnings)
    # vLLM's file says what launches take: without graphs they are the time of a token.
    found = engines(load, engine=vllm, choices=choices)
    assert found.warnings == ()
    assert serve(found, load).tpot.mean >= 32 * vllm.file.eager / 1e6


def test_a_change_of_nothing_is_no_loss() -> None:
    """No request keeps the level; a change that repairs it has no percentage."""
    load = drawn(64, Lengths(200), Lengths(20), concurrency=32)
    found = serve(engines(load), load)
    limits = Limits(None, 0.99 * min(each.tpot for each in found.answers if each.tpot))
    changes = what_if(found, limits, "round_robin")
    assert all(each.before == 0 for each in changes)
    assert any(each.goodput > 0 for each in changes)
    rows = as_dict(found, limits, None, [], changes)["what_if"]
    assert all(each["goodput"] is None for each in rows)


def test_page_in_words_and_html(armillary: Armillary, tmp_path: Path) -> None:
    run = armillary(
        *("serve", "gpt-oss-120b", "-p", "dgx-h100", "--tp", "2", "--weights", "bf16"),
        *("--experts", "mxfp4", "--concurrency", "16", "--num-requests", "32"),
        *("--price", "2", "--slo", "tpot=50ms", "--report", "page.html"),
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert "Goodput" in run.stdout
    assert "experts" in run.stdout
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Requests in the engines" in text


def test_small_results_have_digits_and_single_things_no_plural(armillary: Armillary) -> None:
    """One token after 20 s of thinking: rates far below 1."""
    load = ("--concurrency", "1", "--num-requests", "3", "--turns", "3", "--think", "20")
    words = ("serve", "llama-3-8b", "-p", "dgx-h100", "--no-what-if", "--output-tokens", "1")
    run = armillary(*words, *load, "--price", "0.001")
    assert run.returncode == 0, run.stderr
    rate = re.search(r"Output: (\S+) tokens/s \((\S+) for each GPU\)", run.stdout)
    assert rate is not None
    assert [float(each) for each in rate.groups()] == [pytest.approx(3 / 40, rel=0.02)] * 2
    ends = re.search(r"Output tokens/s +(\S+) +(\S+) +(\S+)", run.stdout)
    assert ends is not None
    assert all(0.07 < float(each) < 0.08 for each in ends.groups())
    cost = re.search(r"Cost: \$(\S+)", run.stdout)
    assert cost is not None
    assert float(cost[1]) == pytest.approx(1e6 * 0.001 / 3600 / float(rate[1]), rel=0.01)
    run = armillary(*words, "--rate", "1", "--num-requests", "1", "--autoscale", "max=1,queue=1")
    assert run.returncode == 0, run.stderr
    for said in ("1 request, 1 a second", "1 to 1 engine, 1 waiting request for each"):
        assert said in " ".join(run.stdout.split())
    run = armillary(*words, "--rate", "1", "--replicas", "9")
    assert "9 engines of 1 GPU, but dgx-h100 has 8" in run.stderr


def test_what_if_simulates_changes_with_the_same_requests() -> None:
    load = drawn(120, Lengths(500), Lengths(60), rate=60)
    found = serve(engines(load), load)
    limits = Limits(0.5, 0.02)
    changes = what_if(found, limits, "round_robin")
    said = [each.said for each in changes]
    assert "one more engine (1 GPU)" in said
    assert "tp=2 instead of 1" in said
    assert "keys and values in fp8" in said
    goodputs = [round(each.goodput, 3) for each in changes]
    assert goodputs == sorted(goodputs, reverse=True)
    (more,) = (each for each in changes if each.said == "one more engine (1 GPU)")
    two = serve(engines(load, count=2), load)
    assert more.served.answers == two.answers
    assert (more.before, more.goodput) == (found.goodput(0.5, 0.02), two.goodput(0.5, 0.02))


def test_steady_means_have_their_error() -> None:
    """Noise around 1 after a start at 11: the start is cut off, and 95 % of intervals hold 1."""
    draw = random.Random(3)
    held = 0
    for _ in range(200):
        values = [1 + draw.gauss(0, 0.5) + 10 * math.exp(-at / 10) for at in range(600)]
        found = steady(values)
        assert found is not None
        assert 10 <= found.warm_up <= 300
        held += abs(found.mean - 1) <= found.half
    assert 0.88 <= held / 200 <= 0.99
    assert steady([1.0] * 99) is None


def test_recorded_requests_and_their_measured_times(armillary: Armillary, tmp_path: Path) -> None:
    rows = [f"{at / 10},{100 + at},{5 + at % 7},0.05,0.5" for at in range(120)]
    text = "arrival_s,input_tokens,output_tokens,ttft_s,e2e_s\n" + "\n".join(rows)
    (tmp_path / "r.csv").write_text(text)
    words = ("serve", "llama-3-8b", "-p", "dgx-h100", "--requests", "r.csv")
    run = armillary(*words, "--json", "r.json", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    found = json.loads((tmp_path / "r.json").read_text())["result"]
    assert found["measured"]["ttft"]["mean_ms"] == pytest.approx(50)
    error = found["ttft_ms"]["mean"] / 50 - 1
    assert found["measured"]["ttft"]["error"] == pytest.approx(error)
    low, high = found["steady"]["tpot"]["interval_95_ms"]
    assert low < found["steady"]["tpot"]["mean_ms"] < high
    run = armillary(*words, "--input-tokens", "100", cwd=tmp_path)
    assert run.returncode == 2
    assert "recorded ones" in run.stderr


def test_a_command_line_is_the_same_deployment(armillary: Armillary, tmp_path: Path) -> None:
    words = ("serve", "llama-3-8b", "-p", "dgx-h100", "--rate", "20", "--no-what-if", "--json", "-")
    options = ("--tp", "2", "--weights", "fp8", "--max-num-seqs", "8", "--max-model-len", "4096")
    command = (
        "vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2 --quantization fp8 "
        "--max-num-seqs 8 --max-model-len 4096 --port 8000"
    )
    (tmp_path / "start.sh").write_text(f"#!/bin/sh\n{command}\n")
    results = []
    for given in (options, ("--from", command), ("--from", "start.sh")):
        run = armillary(*words, *given, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        found = json.loads(run.stdout)
        results.append((found["deployment"], found["result"]))
    assert results[0] == results[1] == results[2]
    run = armillary(*words, "--from", command, "--tp", "4")
    assert run.returncode == 2
    assert "the command line of --from decides it" in run.stderr
    run = armillary(*words, "--from", command.replace("4096", "100"))
    assert run.returncode == 2
    assert "more than 100" in run.stderr


def test_check_counts_the_hits_of_an_unbounded_cache(armillary: Armillary, tmp_path: Path) -> None:
    """Drawn prompts, counted again token by token."""
    draw = random.Random(11)
    requests = []
    for number in range(60):
        pieces = [(draw.randrange(3), draw.randint(1, 40)), (100 + number % 40, draw.randint(1, 9))]
        requests.append(Request(tuple(pieces[draw.randrange(2) :]), 1))
    load = Load(tuple(requests), tuple(range(60)))
    for block in (1, 3, 16):
        seen: set[tuple[tuple[int, int], ...]] = set()
        blocks = found = 0
        for request in requests:
            tokens = [(content, at) for content, length in request.prompt for at in range(length)]
            ends = [tuple(tokens[:end]) for end in range(block, len(tokens) + 1, block)]
            blocks += len(ends)
            found += sum(end in seen for end in ends)
            seen.update(ends)
        counted = hits(load, block)
        assert (counted.blocks, counted.hit_blocks) == (blocks, found)
    rows = "arrival_s,input_tokens,output_tokens,prefix,prefix_tokens\n0,100,5,a,64\n1,90,5,a,64\n"
    (tmp_path / "r.csv").write_text(rows)
    run = armillary("check", "r.csv", "--json", "-", cwd=tmp_path)
    data = json.loads(run.stdout)
    assert data["schema"] == "armillary.requests/1"
    assert [each["hit_blocks"] for each in data["unbounded_cache"]] == [4, 1, 0]
    assert armillary("check", "r.csv", "--tp", "2", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize("name", ["vllm", "sglang", "trtllm"])
def test_engines_follow_their_own_scheduler(name: str) -> None:
    """The row of each engine names its rules, and its load comes to an end."""
    load = drawn(20, Lengths(300), Lengths(20), rate=50.0, seed=3)
    kind = engines(load, engine=load_engine(name))
    assert kind.row(load.longest)["policy"] == name
    assert len(serve(kind, load).answers) == 20


def test_what_a_scheduler_does_not_have_is_refused() -> None:
    load = drawn(5, Lengths(300), Lengths(20), rate=50.0, seed=3)
    for name, choices, told in (
        ("sglang", Choices(long_prefill=64), "long_prefill"),
        ("trtllm", Choices(long_prefill=64), "long_prefill"),
        ("trtllm", Choices(priority=True), "priority"),
        ("sglang", Choices(block=16, tokens=1000), "tokens"),
        ("trtllm", Choices(chunked=True, tokens=16), "tokens"),
    ):
        with pytest.raises(InputError) as found:
            engines(load, engine=load_engine(name), choices=choices)
        assert [problem.place for problem in found.value.problems] == [told]
    engines(load, engine=load_engine("sglang"), choices=Choices(block=16, tokens=1024))


def test_sglang_needs_a_slot_more_than_the_longest_request() -> None:
    load = Load((Request(((1, 500),), 12),), (0,))
    for blocks, fits in ((512, False), (513, True)):
        given = {"engine": load_engine("sglang"), "choices": Choices(blocks=blocks)}
        if fits:
            assert engines(load, **given).blocks == blocks
        else:
            with pytest.raises(InputError):
                engines(load, **given)
