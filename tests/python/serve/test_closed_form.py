"""Deployments under a constant load: the closed form against the simulation, and the search."""

from __future__ import annotations

import json
import random
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from conftest import Armillary
from thorough import usually

from armillary.errors import InputError
from armillary.model.decoder_reader import decoder
from armillary.model.files import load_model
from armillary.platform import Platform
from armillary.serve import Choices, Layout, Lengths, Precision, deploy, drawn, load_engine, serve
from armillary.serve import search as search_file
from armillary.serve.closed_form import Means, balances
from armillary.serve.limits import Limits
from armillary.serve.search import Choice, Job, frontier, kept, plateau, search

MODELS = ("llama-3-8b", "llama-3-70b", "gpt-oss-120b", "qwen3-30b-a3b")


def errors(count: int, seed: int, engine: str, rounds: int) -> list[tuple[float, float]]:
    """Errors of the time for each token and of the throughput on drawn deployments in a closed
    loop, in the middle of long runs."""
    draw = random.Random(seed)
    models = {name: decoder(load_model(name)) for name in MODELS}
    platforms = [Platform.load(name) for name in ("dgx-h100", "hgx-h200", "dgx-b200")]
    found: list[tuple[float, float]] = []
    while len(found) < count:
        name = draw.choice(MODELS)
        there, prompt = round(2 ** draw.uniform(0, 7)), round(2 ** draw.uniform(5, 12))
        output, width = round(2 ** draw.uniform(4, 9)), draw.uniform(0.05, 0.5)
        load = drawn(
            max(rounds * there, 6 * rounds),
            Lengths(prompt, 1 - width, 1 + width),
            Lengths(output, 1 - width, 1 + width),
            concurrency=there,
            seed=draw.randrange(10**6),
        )
        form = "fp8" if "llama" in name else "bf16"
        precision = Precision(form, "mxfp4" if "oss" in name else form)
        layout, asynchronous = Layout(tp=draw.choice((1, 2, 4, 8))), draw.random() < 0.5
        try:
            engines = deploy(
                models[name],
                draw.choice(platforms),
                load_engine(engine),
                layout,
                precision,
                longest=load.longest,
                choices=Choices(asynchronous=asynchronous),
            )
        except InputError:
            continue  # too large for the memory
        served = serve(engines, load)
        (at,) = balances(engines, Means.of(load), [there])
        middle = served.answers[3 * there : -2 * there] or served.answers
        tokens = [each for each in middle if each.output > 1]
        each_token = sum(each.end - each.first for each in tokens)
        tpot = each_token / sum(each.output - 1 for each in tokens)
        found.append((abs(at.tpot / tpot - 1), abs(at.rate / plateau(served, there) - 1)))
    return found


@pytest.mark.parametrize(("engine", "rounds"), [("vllm", 20), ("sglang", 20), ("trtllm", 20)])
def test_the_closed_form_is_close_to_the_simulation(engine: str, rounds: int) -> None:
    """The acceptance: 3 % at the median and 10 % at the 95th percentile. Requests that start
    together end together for a while, so runs have 20 rounds of requests."""
    found = errors(usually(30, 1000), 53, engine, rounds)
    limits = (0.01 if engine == "vllm" else 0.02, 0.02)
    for values, middle in zip(zip(*found, strict=True), limits, strict=True):
        ordered = sorted(values)
        assert median(ordered) < middle
        assert ordered[int(0.95 * (len(ordered) - 1))] < 0.10


def test_many_prompts_in_a_step_do_not_beat_the_simulation() -> None:
    """Short prompts and outputs: dozens of new prompts in each step, up to the budget of tokens."""
    shape, platform = decoder(load_model("llama-3-8b")), Platform.load("dgx-h100")
    for prompt, output, there in ((32, 2, 256), (32, 2, 1024), (16, 1, 1024), (1024, 1, 64)):
        load = drawn(12 * there, Lengths(prompt), Lengths(output), concurrency=there)
        engines = deploy(
            shape, platform, load_engine("vllm"), Layout(), Precision("fp8"), longest=load.longest
        )
        served = serve(engines, load)
        (at,) = balances(engines, Means.of(load), [there])
        assert at.rate == pytest.approx(plateau(served, there), rel=0.2)
        # Little's law.
        assert at.ttft + (output - 1) * at.tpot == pytest.approx(there / at.rate, rel=0.2)


def job(**given: object) -> Job:
    words: dict[str, object] = {
        "model": decoder(load_model("llama-3-8b")),
        "precision": Precision(),
        "prompt": Lengths(512),
        "output": Lengths(128),
        "limits": Limits(0.5, 0.02),
        **given,
    }
    return Job(**words)  # type: ignore[arg-type]


def test_what_is_chosen_keeps_the_service_level() -> None:
    """Each choice is simulated again, with other requests of the same lengths."""
    found = search(job(), [Platform.load("dgx-h100")], [load_engine("vllm")], simulations=3)
    assert found.choices
    rates = [each.tokens_per_gpu for each in found.choices]
    assert rates == sorted(rates, reverse=True)
    for each in found.choices:
        assert each.share >= 0.9
        assert each.gpus <= 8
        assert kept(each.served, found.job.limits, each.served.load.concurrency) == each.share
    users = [point.user for point in found.frontier]
    assert users == sorted(users)
    for point in found.frontier:
        assert not any(
            other.user > point.user and other.gpu > point.gpu for other in found.frontier
        )
    assert frontier(found.frontier) == found.frontier


def test_a_stop_keeps_what_was_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C during the third simulation leaves two deployments; during the first it ends all."""
    plain = search_file._simulated
    left = 2

    def stopped(*given: Any) -> Choice | None:  # noqa: ANN401
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return plain(*given)

    monkeypatch.setattr(search_file, "_simulated", stopped)
    given = ([Platform.load("dgx-h100")], [load_engine("vllm")])
    found = search(job(), *given, simulations=4)
    assert isinstance(found.stop, KeyboardInterrupt)
    assert len(found.choices) == 2
    assert found.alike is not None
    with pytest.raises(KeyboardInterrupt):
        search(job(), *given, simulations=4)


def test_a_rate_takes_as_many_gpus_as_it_needs() -> None:
    """More requests a second never take fewer GPUs, and a tighter promise neither."""
    platforms, engines = [Platform.load("dgx-h100")], [load_engine("vllm")]
    gpus = [
        search(job(rate=rate), platforms, engines, simulations=4, apart=False).choices[0].gpus
        for rate in (5.0, 60.0, 200.0)
    ]
    assert gpus == sorted(gpus)
    assert gpus[0] == 1
    with pytest.raises(InputError, match="no deployment keeps the service level"):
        search(job(limits=Limits(0.5, 0.0005)), platforms, engines)


def test_prices_choose_the_cheapest_platform() -> None:
    platforms = [Platform.load("dgx-h100"), Platform.load("dgx-b200")]
    for cheap, dear in (("dgx-h100", "dgx-b200"), ("dgx-b200", "dgx-h100")):
        prices = {cheap: 1.0, dear: 100.0}
        found = search(
            job(), platforms, [load_engine("vllm")], prices=prices, apart=False, simulations=3
        )
        assert found.choices[0].platform == cheap
        assert found.choices[0].dollars is not None


def test_the_verb_plans_deployments(armillary: Armillary, tmp_path: Path) -> None:
    words = ("plan", "llama-3-8b", "-p", "dgx-h100", "--serve", "--simulations", "2")
    run = armillary(
        *words, "--slo", "ttft=1s,tpot=20ms", "--json", "p.json", "--report", "p.html", cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    assert "The best is" in run.stdout
    found = json.loads((tmp_path / "p.json").read_text())
    assert found["schema"] == "armillary.serve-plan/1"
    assert found["deployments"][0]["share_within_slo"] >= 0.9
    assert "Frontier" in (tmp_path / "p.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--serve", "--seq", "4096"), "means nothing with --serve"),
        (("--slo", "tpot=20ms"), "needs --serve"),
        (("--serve", "--rate", "0"), "invalid rate"),
        (("--serve", "--price", "a100=2"), "no platform of this plan: a100"),
        (("--serve", "--slo", "tpot=1us"), "no deployment keeps the service level"),
        (("--serve", "--rate", "100000"), "no deployment keeps the service level"),
        (("--serve", "--engine", "vllm,llm"), "unknown engine"),
        (("--serve", "--input-tokens", "-3"), "invalid lengths"),
    ],
)
def test_bad_plans_are_named(armillary: Armillary, words: tuple[str, ...], said: str) -> None:
    run = armillary("plan", "llama-3-8b", "-p", "dgx-h100", *words)
    assert run.returncode == 2, run.stderr
    assert said in run.stderr
