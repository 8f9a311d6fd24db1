"""Settings of engines, from a command line or from `--engine-set` through to the scheduler."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from conftest import Armillary

from armillary.errors import InputError
from armillary.model.decoder_reader import decoder
from armillary.model.files import load_model
from armillary.platform import Platform
from armillary.serve import Choices, Engines, Layout, Precision, deploy, load_engine
from armillary.serve.command import read_command
from armillary.serve.engines import ENGINES, changed


def deployed(engine: str, layout: Layout | None = None, **given: Any) -> Engines:  # noqa: ANN401 - fields of `Choices`
    """An engine on H100s."""
    name = "qwen3-30b-a3b" if layout and layout.dp > 1 else "llama-3-8b"
    return deploy(
        decoder(load_model(name)), Platform.load("dgx-h100"), load_engine(engine),
        layout or Layout(), Precision(), longest=2048, choices=Choices(**given),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_each_engine_counts_its_part_of_the_memory_in_its_own_way(seed: int) -> None:
    part = random.Random(seed).uniform(0.5, 0.95)
    capacity = Platform.load("dgx-h100").describe()["npu"]["memory_capacity_bytes"]
    for engine in ("vllm", "sglang", "trtllm"):
        found = deployed(engine, memory=part)
        held = found.held
        whole = held.weights + held.activations + held.context
        room = {
            "vllm": capacity * part - whole,
            "sglang": (capacity - held.context) * part - held.weights,
            "trtllm": (capacity - whole) * part,
        }[engine]
        block = held.token * found.block
        assert room - 2 * block < found.blocks * block <= room + 1, engine


def test_settings_of_a_command_reach_the_scheduler() -> None:
    text = (
        "python -m sglang.launch_server --model-path m --max-prefill-tokens 5000 "
        "--schedule-conservativeness 0.5 --enable-mixed-chunk --schedule-policy lpm"
    )
    choices = read_command(text).choices
    row = deployed("sglang", prefill_tokens=choices.prefill_tokens,
                   conservativeness=choices.conservativeness, mixed_chunks=choices.mixed_chunks,
                   longest_prefix=choices.longest_prefix).row(2048)  # fmt: skip
    assert (row["prefill_tokens"], row["conservativeness"]) == (5000, 0.5)
    assert row["mixed"] is True
    assert row["longest_prefix"] is True
    # SGLang turns mixed steps off with drafts, and multiplies by 0.3 where ranks have attention.
    assert deployed("sglang", mixed_chunks=True, drafts=2).row(2048)["mixed"] is False
    ranks = deployed("sglang", Layout(dp=2, ep=2), conservativeness=0.5)
    assert ranks.row(2048)["conservativeness"] == pytest.approx(0.15)
    for name, value in (("prefill_tokens", 10), ("conservativeness", 1.0), ("mixed_chunks", True)):
        with pytest.raises(InputError, match="has no such setting"):
            deployed("vllm", None, **{name: value})


@pytest.mark.parametrize(
    ("drafter", "again", "ahead"),
    [("eagle", True, 3), ("mtp", True, 3), ("draft_model", False, 3), ("ngram", False, 0)],
)
def test_drafts_from_hidden_states_compute_the_last_block_again(
    drafter: str, again: bool, ahead: int
) -> None:
    row = deployed("vllm", drafts=3, drafter=drafter).row(2048)
    assert (row["recomputes_last"], row["lookahead"]) == (again, ahead)
    assert deployed("vllm", drafter=drafter).row(2048)["recomputes_last"] is False
    with pytest.raises(InputError, match="unknown: 'lookahead'"):
        deployed("vllm", drafts=3, drafter="lookahead")


def test_an_engine_set_is_its_command(armillary: Armillary, tmp_path: Path) -> None:
    """A full cache, where the settings of SGLang change what happens."""
    load = ("--concurrency", "64", "--num-requests", "200", "--input-tokens", "100-900",
            "--output-tokens", "100-500", "--no-what-if")  # fmt: skip
    plain = "python -m sglang.launch_server --model-path m --max-total-tokens 20000"
    own = " --schedule-conservativeness 0.1 --enable-mixed-chunk --max-prefill-tokens 2000"
    pairs = ("conservativeness=0.1", "mixed_chunks=true", "prefill_tokens=2000")
    sets = [word for pair in pairs for word in ("--engine-set", pair)]
    found = []
    for number, words in enumerate((["--from", plain], ["--from", plain + own],
                                    ["--from", plain, *sets])):  # fmt: skip
        path = tmp_path / f"{number}.json"
        run = armillary("serve", "llama-3-8b", "-p", "dgx-h100", *words, *load, "--json", str(path))
        assert run.returncode == 0, run.stderr
        found.append(json.loads(path.read_text(encoding="utf-8"))["result"])
    assert found[1] == found[2]
    assert found[0] != found[1]


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        ("conservative=1", "unknown key"),
        ("kernels=1", "unknown key"),
        ("conservativeness=-1", "conservativeness"),
        ("mixed_chunks=perhaps", "mixed_chunks"),
        ("prefill_tokens=0", "prefill_tokens"),
        ("memory=1.5", "memory"),
        ("conservativeness", "--engine-set"),
    ],
)
def test_bad_values_are_named(armillary: Armillary, pair: str, said: str) -> None:
    run = armillary("serve", "llama-3-8b", "-p", "dgx-h100", "--rate", "1", "--engine", "sglang",
                    "--engine-set", pair)  # fmt: skip
    assert run.returncode == 2, run.stderr
    assert said in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--engine-set", "conservativeness=0.3"), "in: --engine-set: conservativeness"),
        (("--engine-set", "prefill_tokens=7"), "(vllm) have no such setting"),
        (("--engine-set", "pauses=true"), "scheduler: trtllm, or without pauses"),
        (("--engine", "trtllm", "--engine-set", "mixed_chunks=true"), "scheduler: sglang"),
        (("--engine", "own.yml"), "longest_prefix"),
        (("--draft-method", "ngram"), "with --draft-tokens"),
        (("--experts", "mxfp4"), "the model has no experts"),
    ],
)
def test_what_would_change_nothing_is_refused(
    armillary: Armillary, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    text = (ENGINES / "vllm.yml").read_text(encoding="utf-8")
    (tmp_path / "own.yml").write_text(f"{text}\nlongest_prefix: true\n", encoding="utf-8")
    run = armillary("serve", "llama-3-8b", "-p", "dgx-h100", "--rate", "1", *words, cwd=tmp_path)
    assert run.returncode == 2, run.stderr
    assert said in run.stderr
    assert "Traceback" not in run.stderr


def test_settings_of_a_scheduler_follow_it(armillary: Armillary) -> None:
    pairs = {"scheduler": "sglang", "longest_prefix": True}
    assert changed(load_engine("vllm"), pairs, "--engine-set").file.longest_prefix
    run = armillary("plan", "llama-3-8b", "-p", "dgx-h100", "--serve", "--slo", "tpot=50ms",
                    "--experts", "fp8")  # fmt: skip
    assert run.returncode == 2
    assert "in: --experts" in run.stderr


def test_nothing_changed_is_the_same_engine() -> None:
    engine = load_engine("sglang")
    assert changed(engine, {}, "--engine-set") is engine
    assert changed(engine, {"memory": 0.5}, "--engine-set").file.memory == 0.5
