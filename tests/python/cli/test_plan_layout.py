"""`armillary plan` of a decoder."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Armillary

from armillary.cli import output
from armillary.cli.app import main

_JOB = ("plan", "llama-3-8b", "-p", "dgx-h100-16n", "--ranks", "16", "--global-batch", "32")
_SMALL = ("schedule=1f1b", "virtual_stages=1", "recompute_layers=none", "layers_per_stage=none")
_VALUES = (
    *(
        word
        for values in ("tp=1,2", "pp=1,2", "zero=1,3", *_SMALL)
        for word in ("--layout", values)
    ),
    "--seq",
    "4096",
)
_FEW = (*_VALUES, "--framework", "megatron-lm")


def test_the_best_layout_in_words_as_json_and_as_a_page(
    armillary: Armillary, tmp_path: Path
) -> None:
    """The best layout runs, and every form says the same."""
    words = armillary(*_JOB, *_FEW)
    assert words.returncode == 0, words.stderr
    assert "No other of the" in " ".join(words.stdout.split())
    asked = armillary(*_JOB, *_FEW, "--json", "-", "--report", "p.html", cwd=tmp_path)
    found = json.loads(asked.stdout)
    assert found["schema"] == "armillary.layout-plan/1"
    assert found["ranks"] == 16 and found["seq"] == 4096
    best = found["best"][0]
    assert best["bound_ns"] <= best["step_ns"] <= best["high_ns"]
    assert 0 <= found["gap"] <= 0.01
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in best["options"].items()]
    run = armillary("run", "llama-3-8b", "-p", "dgx-h100-16n", "--json", "-", *flags)
    assert json.loads(run.stdout)["step_time_ns"] == best["step_ns"]
    assert "Searched values" in (tmp_path / "p.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--layout", "tp"), "has no values"),
        (("--layout", "tpp=1"), "is unknown"),
        (("--schemes", "row"), "is for embedding tables"),
        (("--output", "plan.yml"), "is for embedding tables"),
        (("--framework", "unheard-of"), "unheard-of"),
        (("--framework", "internevo"), "no bound knows what it changes"),
        (("--framework-set", "overlap_p2p=false"), "no bound knows what it changes"),
        (("--framework-set", "regather=needed"), "no bound knows what it changes"),
        (("--framework-set", "savd=fused"), "unknown key"),
        (("--framework-set", "saved"), "has no '='"),
        (("--backend", "carrier-pigeon"), "carrier-pigeon"),
        (("--ranks", "12"), "12"),
        (("--ranks", "16..8"), "invalid number"),
        (("--objective", "speed"), "unknown objective"),
        (("--objective", "cost"), "has no price"),
        (("--price", "dgx-h100-16n"), "is not a price"),
        (("--price", "dgx-h200=2"), "is not a platform of this plan"),
        (("--tokens", "many"), "invalid number"),
        (("--days", "3"), "says nothing without --tokens"),
        (("--global-batch", "0"), "0"),
        (("--set", "npu.launch.kernel=80 us"), "no bound knows"),
        (("--layout", "tp=3"), "no layout of these values"),
        (("--measured", "nothing.yml"), "nothing.yml"),
        (("--export", "carrier-pigeon", "run.sh"), "unknown framework 'carrier-pigeon'"),
    ],
)
def test_bad_input_is_refused(
    armillary: Armillary, given: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    """Exit code 2, and a message that names the value."""
    run = armillary(*_JOB, *given, cwd=tmp_path)
    assert run.returncode == 2, run.stdout
    assert said in run.stderr and "Traceback" not in run.stderr


def test_behaviour_of_the_framework_is_that_of_run(armillary: Armillary, tmp_path: Path) -> None:
    """The step of the best layout is that of `run` with the same behaviour."""
    flags = ("--framework-set", "saved=fused", "--framework-set", "loss=fused")
    given = ("--layout", "tp=1", "--layout", "pp=1", "--layout", "cp=1", "--layout", "zero=1")
    found = json.loads(armillary(*_JOB, *given, "--seq", "4096", *flags, "--json", "-").stdout)
    best = found["best"][0]
    options = {k: v for k, v in best["options"].items() if k != "framework_set"}
    assert best["options"]["framework_set"] == {"saved": "fused", "loss": "fused"}
    named = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    run = armillary("run", "llama-3-8b", "-p", "dgx-h100-16n", "--json", "-", *named, *flags)
    assert json.loads(run.stdout)["step_time_ns"] == best["step_ns"]


def test_launch_flags_of_the_best_layout_give_it_again(
    armillary: Armillary, tmp_path: Path
) -> None:
    """The written flags read back as a job with the same simulated step."""
    run = armillary(*_JOB, *_FEW, "--export", "megatron", "run.sh", "--json", "p.json")
    assert run.returncode == 0, run.stderr
    assert "launch file written to run.sh" in run.stderr
    best = json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))["best"][0]
    back = armillary("workload", "--from", "auto", "run.sh", "--write-model", "m.yml")
    (line,) = [line for line in back.stderr.splitlines() if line.startswith("options: ")]
    words = line.removeprefix("options: ").split()
    again = armillary("run", "m.yml", "-p", "dgx-h100-16n", "--json", "-", *words)
    assert json.loads(again.stdout)["step_time_ns"] == best["step_ns"]


def test_a_layout_that_a_framework_has_no_form_of_is_refused(
    armillary: Armillary, tmp_path: Path
) -> None:
    """The list is written all the same, and the message names a layout that has a form."""
    pipes = ("--layout", "tp=1", "--layout", "pp=2", "--layout", "zero=1", "--layout", "cp=2")
    order = ("--layout", "schedule=1f1b,zb-h1", "--layout", "virtual_stages=1")
    same = ("--layout", "layers_per_stage=none", "--layout", "recompute_layers=none")
    run = armillary(
        *_JOB, *pipes, *order, *same, "--export", "megatron", "run.sh", "--json", "p.json"
    )
    assert run.returncode == 2, run.stdout
    best = json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))["best"]
    assert best[0]["options"]["schedule"] == "zb-h1"
    assert "zb-h1, which Megatron-LM has no setting for" in run.stderr
    assert "the next layout that has one is" in run.stderr
    assert not (tmp_path / "run.sh").exists()


@pytest.mark.parametrize(("share", "kept"), [(0.3, False), (0.605, True)])
def test_a_signal_keeps_what_was_found(
    share: float, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first simulation there is nothing to keep; later the list so far is written."""

    @contextlib.contextmanager
    def progress(*_: object, **__: object) -> Iterator[Callable[..., None]]:
        def interrupt(done: float, *_: object) -> None:
            if done >= share:
                raise output.Terminated(15)

        yield interrupt

    monkeypatch.setattr(output, "progress", progress)
    files = tmp_path / "p.json", tmp_path / "p.html", tmp_path / "run.sh"
    asked = ("--json", str(files[0]), "--report", str(files[1]), "--export", "nemo", str(files[2]))
    with pytest.raises(SystemExit) as ended:
        main([*_JOB, *_FEW, *asked])
    assert ended.value.code == 128 + 15
    assert [file.exists() for file in files] == [kept] * 3
    if kept:
        found = json.loads(files[0].read_text(encoding="utf-8"))
        assert found["stopped"] and len(found["best"]) == 1
        assert any(each.startswith("interrupted: 1 layout") for each in found["warnings"])
        assert "stopped early" in files[1].read_text(encoding="utf-8")


def test_several_machines_in_words_as_json_and_as_a_page(
    armillary: Armillary, tmp_path: Path
) -> None:
    """Every form has each machine; the best one's layout runs with the printed step."""
    job = ("plan", "llama-3-8b", "-p", "dgx-h100-16n,dgx-a100-16n", "--ranks", "8..16")
    prices = ("--price", "dgx-h100-16n=2.5", "--price", "dgx-a100-16n=1.25")
    given = (*job, *_VALUES, "--global-batch", "32", *prices, "--tokens", "300B", "--days", "60")
    words = armillary(*given)
    assert words.returncode == 0, words.stderr
    assert "on 4 machines trains within 60 days" in " ".join(words.stdout.split())
    asked = armillary(*given, "--json", "-", "--report", "p.html", cwd=tmp_path)
    found = json.loads(asked.stdout)
    assert found["schema"] == "armillary.machine-plan/1"
    assert [each["ranks"] for each in found["machines"]] == [8, 16, 8, 16]
    best = found["machines"][found["best"]]
    assert best["status"] == "best" and best["days"] <= 60 and found["objective"] == "cost"
    layout = best["plan"]["best"][0]
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in layout["options"].items()]
    run = armillary("run", "llama-3-8b", "-p", best["platform"], "--json", "-", *flags)
    assert json.loads(run.stdout)["step_time_ns"] == layout["step_ns"]
    days = found["steps"] * layout["step_ns"] / 8.64e13
    assert best["days"] == pytest.approx(days)
    assert best["dollars"] == pytest.approx(days * 24 * best["ranks"] * best["price"])
    assert "16 NPUs of dgx-a100-16n" in (tmp_path / "p.html").read_text(encoding="utf-8")


def test_options_for_decoders_are_refused_for_tables(armillary: Armillary) -> None:
    """A recommendation model has no such layout."""
    run = armillary("plan", "dlrm-small", "-p", "dgx-h100", "--layout", "tp=1")
    assert run.returncode == 2 and "is for decoders" in run.stderr
    run = armillary("plan", "dlrm-small", "-p", "dgx-h100", "--ranks", "4,8")
    assert run.returncode == 2 and "one number" in run.stderr


def test_measured_steps_in_words_and_as_json(armillary: Armillary, tmp_path: Path) -> None:
    """The expected step after a measured one; a step of another size is refused."""
    file = tmp_path / "steps.yml"
    file.write_text("steps: [{layout: {tp: 2, dp: 8, zero: 1}, step: 2.5 s}]\n", encoding="utf-8")
    run = armillary(*_JOB, *_FEW, "--measured", "steps.yml", "--json", "p.json", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "After the measured steps" in " ".join(run.stdout.split())
    found = json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))
    (measured,) = found["measured"]
    assert measured["measured_ns"] == pytest.approx(2.5e9)
    assert all(each["expected_ns"] > each["step_ns"] for each in found["best"])
    assert found["moved"] in (True, False)
    file.write_text("steps: [{layout: {tp: 2, dp: 4}, step: 2.5 s}]\n", encoding="utf-8")
    run = armillary(*_JOB, *_FEW, "--measured", "steps.yml", cwd=tmp_path)
    assert run.returncode == 2 and "8, but layouts are planned for 16" in run.stderr
