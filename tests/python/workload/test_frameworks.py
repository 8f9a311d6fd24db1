"""Training frameworks as data: what they decide, what the user decides, and wrong files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Armillary

import armillary as arm
from armillary.errors import InputError
from armillary.model.decoder_reader import decoder
from armillary.model.files import load_model
from armillary.workload.frameworks import frameworks, load_framework
from armillary.workload.parallelism import Parallelism
from armillary.workload.parallelism_reader import parallelism

LLAMA = decoder(load_model("llama-3-8b"))


def options(**given: object) -> Parallelism:
    return parallelism(LLAMA, "llama-3-8b", given)


@pytest.mark.parametrize("name", frameworks())
def test_every_value_has_a_source(name: str) -> None:
    found = load_framework(name)
    assert found.summary
    assert found.source
    assert found.validated
    assert all(each.source for each in (*found.choices, *found.platform))


@pytest.mark.parametrize("name", frameworks())
def test_every_description_makes_a_workload(name: str) -> None:
    made = arm.workload.build("llama-3-8b", framework=name, tp=2, dp=2, pp=2)
    assert made.summary is not None
    assert any(note.startswith(f"framework {name}: ") for note in made.summary.notes)


def test_options_that_are_given_win() -> None:
    assert options(framework="torchtitan", dp=8).zero == 3
    assert options(framework="torchtitan", dp=8, zero=1).zero == 1
    assert options(framework="torchtitan", dp=8, merged=True).merged


def test_conditions_are_about_the_job() -> None:
    """nanotron: DDP's buckets without ZeRO, one list of gradients with it."""
    assert options(framework="nanotron", dp=8).bucket_mb == 52.4
    sharded = options(framework="nanotron", dp=8, zero=1)
    assert (sharded.bucket_mb, sharded.overlap_grad_reduce) == (None, False)
    assert options(framework="megatron-lm-2021", pp=2, tp=2, sp=False).scatter_gather
    assert not options(framework="megatron-lm-2021", pp=2).scatter_gather
    assert not options(framework="megatron-lm-2021", pp=2, tp=2, sp=True).scatter_gather


def test_a_named_platform_takes_the_launches_of_the_framework() -> None:
    """With 140 us for each kernel a step of short samples waits for its host."""
    quick = arm.simulate("llama-3-8b", "dgx-h100", dp=8, seq=128)
    slow = arm.simulate("llama-3-8b", "dgx-h100", dp=8, seq=128, framework="nanotron")
    assert slow.step_time_ns > 2 * quick.step_time_ns
    model = slow.report["config"]["workload"]["model"]
    assert model is not None
    assert model["options"]["framework"] == "nanotron"


def test_an_unknown_framework_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"unknown framework 'xyzzy' \(allowed: deepspeed, fsdp"):
        options(framework="xyzzy")
    with pytest.raises(InputError, match=r"unknown framework 'torchtitans' \(allowed: torchtitan,"):
        options(framework="torchtitans")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "[] is not a mapping (allowed: keys: summary, source"),
        ("option: []", "line 1: option: unknown key (allowed: options"),
        ("options: 5", "options: 5 is not a list"),
        ("source: a\nsource: b", "line 1: source: is given twice, in line 2 again"),
        ("options: [{name: zer, value: 1, source: x}]", "unknown option 'zer' (allowed: zero"),
        ("options: [{name: zero, value: 1}]", "options[0].source: is missing"),
        ("options: [{name: zero, value: 1, source: x, when: 1}]", "when: 1 is not a mapping"),
        ("options: [{name: zero, value: 1, source: x, when: {q: 1}}]", "unknown option 'q'"),
    ],
)
def test_errors_say_where(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.yml"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        load_framework(path)
    assert said in str(refused.value)


def test_the_command_line_takes_a_framework_and_a_file(
    armillary: Armillary, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yml"
    path.write_text("summary: mine\noptions: [{name: zero, value: 2, source: me}]\n")
    given = ("run", "llama-3-8b", "--dp", "8", "-p", "dgx-h100", "--json", "-")
    ran = armillary(*given, "--framework", str(path))
    assert ran.returncode == 0, ran.stderr
    model = json.loads(ran.stdout)["config"]["workload"]["model"]
    assert model["options"] == {"dp": 8, "framework": str(path)}
    refused = armillary(*given, "--framework", "pax")
    assert refused.returncode == 2
    assert "unknown framework 'pax'" in refused.stderr
