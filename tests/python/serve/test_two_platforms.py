"""Prompts on one platform and tokens on another: the way between them, what is planned, what is
refused."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path

import pytest
from conftest import Armillary

from armillary.errors import InputError
from armillary.model.decoder_reader import decoder
from armillary.model.files import load_model
from armillary.platform import Platform
from armillary.serve import Engines, Layout, Precision, deploy, load_engine
from armillary.serve.candidates import across, tried
from armillary.serve.closed_form import Means
from armillary.serve.deployment import fit
from armillary.serve.limits import Limits
from armillary.serve.load import Lengths
from armillary.serve.search import Job, search
from armillary.serve.transfer import TOKENS, transfer

MODEL = decoder(load_model("llama-3-8b"))


def fleet(name: str, bandwidth: int = 0, nodes: int = 4) -> Platform:
    """A few nodes of 8 GPUs, with GB/s between them if they are given."""
    settings: dict[str, object] = {"topology": f"Switch(8)_Switch({nodes})"}
    if bandwidth:
        settings["links[1].bandwidth"] = f"{bandwidth} GB/s"
    return Platform.load(name, settings)


def engines(platform: Platform, layout: Layout, count: int = 1) -> Engines:
    return deploy(
        MODEL, platform, load_engine("vllm"), layout, Precision(), count=count, longest=4096
    )


def test_the_slower_network_counts() -> None:
    """Each GPU of the prompts' engine sends its part to one GPU. Large prompts take their bytes
    over the bandwidth of the slower platform, and as long as if both were as slow."""
    draw = random.Random(11)
    for _ in range(4):
        rates = draw.sample([5, 10, 20, 40], 2)
        layout = Layout(tp=draw.choice([1, 2, 4]))
        first = engines(fleet("dgx-h100-16n", rates[0]), layout)
        later = engines(fleet("hgx-h200-16n", rates[1]), Layout(tp=8))
        way = transfer(first, later)[-1][1]
        slow = [fleet(name, min(rates)) for name in ("dgx-h100-16n", "hgx-h200-16n")]
        both = transfer(engines(slow[0], layout), engines(slow[1], Layout(tp=8)))[-1][1]
        assert way == pytest.approx(both, rel=1e-3)
        least = TOKENS[-1] * first.held.token / (min(rates) * 1e9)
        assert least < way < 1.3 * least


def test_one_platform_stays_one_network() -> None:
    """In a node keys and values take its fast links; between platforms they leave the nodes."""
    one, other = fleet("dgx-h100-16n"), fleet("hgx-h200-16n")
    within = transfer(engines(one, Layout()), engines(one, Layout()))
    between = transfer(engines(one, Layout()), engines(other, Layout()))
    assert between[-1][1] > 4 * within[-1][1]


def test_platforms_of_one_name_are_two() -> None:
    """The way and the GPUs are those of platforms with names of their own."""
    slow = fleet("dgx-h100-16n", 5, nodes=2)
    later = engines(fleet("dgx-h100-16n", 40, nodes=2), Layout())
    first = engines(slow, Layout(), 5)
    named = Platform.parse(slow.to_yaml().replace("dgx-h100-16n", "other"), "other.yml")
    assert (named.name, slow.name) == ("other", later.platform.name)
    assert transfer(first, later) == transfer(engines(named, Layout(), 5), later)
    assert fit(first, engines(later.platform, Layout(), 12))
    # The same platform, read twice, is one.
    again = engines(fleet("dgx-h100-16n", 5, nodes=2), Layout(), 12)
    assert not fit(first, again)
    one, other = engines(slow, Layout()), engines(again.platform, Layout())
    assert transfer(one, other) == transfer(one, one)


def test_nothing_competes_with_itself(armillary: Armillary) -> None:
    words_ = ("plan", "llama-3-8b", "--serve", "--slo", "tpot=50ms", "-p")
    for more, what in (
        (("dgx-h100,dgx-h100",), "platform"),
        (("dgx-h100", "--engine", "vllm,vllm"), "engine"),
    ):
        run = armillary(*words_, *more)
        assert run.returncode == 2, run.stderr
        assert f"in: {what}\n  allowed: each {what} once" in run.stderr


def test_nodes_without_a_network_are_refused() -> None:
    for names in (("dgx-h100", "hgx-h200-16n"), ("dgx-h100-16n", "hgx-h200")):
        first, later = (engines(Platform.load(name), Layout()) for name in names)
        with pytest.raises(InputError, match="it has no others"):
            transfer(first, later)


def test_pairs_across_platforms_fit_both() -> None:
    means = Means(1024, 1024, 128, 128**2)
    platforms = [fleet("dgx-h100-16n", nodes=2), fleet("hgx-h200-16n", nodes=2)]
    every = [
        tried(
            MODEL, platform, load_engine("vllm"), Precision(), means, Limits(None, 0.03), 2048,
            apart=True,
        )
        for platform in platforms
    ]  # fmt: skip
    found = list(across(every))
    assert found
    assert {each.platform for each in found} == {
        "dgx-h100-16n and hgx-h200-16n", "hgx-h200-16n and dgx-h100-16n"
    }  # fmt: skip
    prices = {"dgx-h100-16n": 2.0, "hgx-h200-16n": 3.0}
    for each in found:
        assert each.fits
        assert each.prompts is not None
        hour = sum(
            prices[pool.platform.name] * count * pool.layout.gpus for pool, count in each.pools
        )
        assert each.hour(prices) == hour
        assert each.gpus == each.hour(None)


def test_a_cheap_platform_computes_the_prompts() -> None:
    """Long prompts, short answers: GPUs that cost half as much are taken, alone or for prompts."""
    job = Job(MODEL, Precision(), Lengths(2048), Lengths(32), Limits(None, 0.03), rate=60.0)
    platforms = [fleet("dgx-h100-16n", nodes=2), fleet("hgx-h200-16n", nodes=2)]
    prices = {"dgx-h100-16n": 1.0, "hgx-h200-16n": 2.0}
    found = search(job, platforms, [load_engine("vllm")], prices=prices, simulations=4)
    assert found.choices[0].candidate.engines.platform.name == "dgx-h100-16n"
    mixed = [each for each in found.choices if " and " in each.platform]
    assert mixed
    for each in mixed:
        assert each.within is not None
        assert any(name.startswith("prompts on") for name in each.within[0].outside)


@cache
def words() -> tuple[str, ...]:
    return ("serve", "llama-3-8b", "-p", "hgx-h200-16n", "--rate", "20", "--no-what-if")


def test_the_verb_has_two_platforms_and_two_prices(armillary: Armillary, tmp_path: Path) -> None:
    more = ("--prefill", "tp=1", "--prefill-platform", "dgx-h100-16n")
    prices = ("--price", "4", "--prefill-price", "2")
    run = armillary(*words(), *more, *prices, "--json", "s.json", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "dgx-h100-16n for prompts and hgx-h200-16n for tokens" in run.stdout
    (tmp_path / "p.yml").write_text("name: hgx-h200-16n\nextends: [dgx-h100-16n]\n", "utf-8")
    run = armillary(*words(), *more[:3], "p.yml", "--num-requests", "9", cwd=tmp_path)
    assert "hgx-h200-16n for prompts and another hgx-h200-16n for tokens" in run.stdout
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["deployment"]["platform"] == "dgx-h100-16n"
    assert found["decode"]["platform"] == "hgx-h200-16n"
    result = found["result"]
    dollars = 6 / 3600 / result["output_tokens_per_s"] * 1e6
    assert result["dollars_per_million_output_tokens"] == pytest.approx(dollars)
    assert "prompts on H100" in result["intervals"]["extrapolated"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--prefill-platform", "dgx-h100-16n"), "nothing goes from engine to engine"),
        (("--prefill-price", "2"), "nothing goes from engine to engine"),
        (("--prefill", "tp=1", "--prefill-price", "2"), "no price"),
        (("--prefill", "tp=1", "--price", "2", "--prefill-price", "nan"), "invalid number"),
        (("--prefill", "tp=1", "--price", "2", "--prefill-price", "-1"), "--prefill-price"),
        (("--prefill", "tp=1", "--price", "2", "--prefill-price", "x"), "--prefill-price"),
        (("--prefill", "tp=1", "--prefill-platform", "dgx-h100"), "it has no others"),
        (("--prefill", "tp=1", "--prefill-platform", "nowhere"), "there is no preset"),
        (("--prefill", "tp=1", "--prefill-platform", ""), "error:"),
        (("--prefill", "tp=3", "--prefill-platform", "dgx-h100-16n"), "can't be shared"),
        (
            ("--prefill", "tp=1,replicas=999", "--prefill-platform", "dgx-h100-16n"),
            "GPUs, and dgx-h100-16n 128",
        ),
        (("--prefill", "tp=1,replicas=128", "--prefill-platform", "dgx-h100-16n"), "no others"),
        (
            ("--npus", "256", "--prefill", "tp=1,replicas=200", "--prefill-platform", "dgx-h100"),
            "--npus and --set change that of -p alone",
        ),
        (("--prefill", "replicas=0", "--prefill-platform", "dgx-h100-16n"), "invalid count"),
    ],
)
def test_bad_input_is_named(armillary: Armillary, more: tuple[str, ...], said: str) -> None:
    run = armillary(*words(), *more)
    assert run.returncode == 2, run.stderr
    assert said in run.stderr
    assert "Traceback" not in run.stderr
