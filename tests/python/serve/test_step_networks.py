"""Collectives of an engine's steps on simulated networks: bounds, lines, words, what is refused."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from conftest import Armillary

from armillary.kernels.shapes import Allreduce
from armillary.model.decoder_reader import decoder
from armillary.model.files import load_model
from armillary.platform import Platform
from armillary.serve import Engines, Layout, Precision, deploy, load_engine, rooflines
from armillary.serve.iteration import SIMULATED, Term

MODEL = decoder(load_model("llama-3-70b"))
BYTES = 2 * MODEL.hidden


def engines(network: str | None, tp: int, bandwidth: int = 450) -> Engines:
    settings = {"links[0].bandwidth": f"{bandwidth} GB/s"}
    return deploy(
        MODEL, Platform.load("dgx-h100", settings), load_engine("vllm"), Layout(tp=tp),
        Precision("fp8"), longest=2048, network=network,
    )  # fmt: skip


def term(made: Engines) -> Term:
    (found,) = (each for each in made.terms if each.name == "all-reduce")
    return found


@pytest.mark.parametrize("network", ["analytical", "flow", "packet"])
def test_large_sums_take_their_bytes_over_the_links(network: str) -> None:
    """A rank receives at least (n - 1) / n of the bytes, twice that without switches that sum."""
    for tp, bandwidth in ((2, 50), (8, 25)):
        found = term(engines(network, tp, bandwidth))
        assert found.at[:3] == tuple(map(float, SIMULATED[:3]))
        bound = 2 * MODEL.layers * (tp - 1) / tp * found.at[-1] * BYTES / (bandwidth * 1e9)
        assert bound < found.seconds[-1] < 3.4 * bound
        assert list(found.seconds) == sorted(found.seconds)
    slow, fast = (term(engines(network, 4, each)).seconds[-1] for each in (20, 40))
    assert slow == pytest.approx(2 * fast, rel=0.15)


def test_lines_are_near_simulations_in_between() -> None:
    made = engines("flow", 4)
    found = term(made)
    draw = random.Random(4)
    tokens = sorted(draw.sample(range(2, round(found.at[-1])), 12))
    shapes = [Allreduce(bytes=m * BYTES, members=4, library="vllm") for m in tokens]
    for rows, time in zip(
        tokens, rooflines.all_reduces(shapes, made.platform, "flow"), strict=True
    ):
        place = next(at for at, value in enumerate(found.at) if value >= rows)
        (low, high), (one, other) = (
            found.at[place - 1 : place + 1],
            found.seconds[place - 1 : place + 1],
        )
        line = one + (rows - low) / (high - low) * (other - one)
        assert line == pytest.approx(2 * MODEL.layers * time, rel=0.1)


def test_measured_collectives_stay_the_default() -> None:
    plain, simulated = engines(None, 4), engines("flow", 4)
    assert len(term(plain).at) > len(term(simulated).at)
    others = [
        [each for each in made.terms if each.name != "all-reduce"] for made in (plain, simulated)
    ]
    assert others[0] == others[1]
    assert any("communication library" in each for each in simulated.warnings)
    assert not any("communication library" in each for each in plain.warnings)


def test_exchanges_of_measured_kernels_are_named() -> None:
    shape = decoder(load_model("deepseek-v3"))
    made = deploy(
        shape, Platform.load("hgx-h200"), load_engine("vllm"), Layout(dp=8, ep=8),
        Precision("fp8_block", "fp8_block"), longest=2048, network="flow",
    )  # fmt: skip
    assert any("exchanges of tokens" in each for each in made.warnings)


def test_the_verb_says_the_network(armillary: Armillary, tmp_path: Path) -> None:
    words = ("serve", "llama-3-8b", "-p", "dgx-h100", "--tp", "2", "--rate", "4")
    run = armillary(
        *words, "--num-requests", "20", "--network", "flow", "--json", "s.json", cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr
    found = json.loads((tmp_path / "s.json").read_text())
    assert found["deployment"]["network"] == "flow"
    assert "collectives simulated" in found["result"]["intervals"]["extrapolated"]
    assert any("communication library" in each for each in found["warnings"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tp", "2", "--network", "nope"), "unknown backend"),
        (("--tp", "2", "--network", ""), "unknown backend"),
        (("--tp", "2", "--network", "Flow"), "unknown backend"),
        (("--tp", "2", "--network", "flow,packet"), "unknown backend"),
        (("--tp", "2", "--network", "flow "), "unknown backend"),
        (("--tp", "2", "--network", "-1"), "unknown backend"),
        (("--tp", "2", "--network", "external:"), "error:"),
        (("--tp", "2", "--network", "external:/nowhere"), "error:"),
        (("--network", "flow"), "no collectives"),
        (("--pp", "2", "--network", "flow"), "no collectives"),
        (("--prefill", "tp=1", "--network", "flow"), "no collectives"),
        (("--tp", "2", "--network"), "--network"),
    ],
)
def test_bad_networks_are_named(armillary: Armillary, words: tuple[str, ...], said: str) -> None:
    run = armillary("serve", "llama-3-8b", "-p", "dgx-h100", "--rate", "4", "--no-what-if", *words)
    assert run.returncode == 2, run.stderr
    assert said in run.stderr
    assert "Traceback" not in run.stderr
