"""`armillary study`."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import Armillary

from armillary.cli import app


def test_lists(armillary: Armillary) -> None:
    run = armillary("study")
    assert run.returncode == 0
    assert "resnet50-scaling" in run.stdout
    assert "ResNet-50" in run.stdout
    listed = json.loads(armillary("study", "--json", "-").stdout)
    assert listed["schema"] == "armillary.study/1"
    assert {"resnet50-scaling", "resnet50-compute-power"} <= {
        each["name"] for each in listed["studies"]
    }


def test_runs_one(armillary: Armillary) -> None:
    run = armillary("study", "d7", "--backend", "analytical")
    assert run.returncode == 0
    assert "< 1 %" in run.stdout
    assert "holds" in run.stdout


def test_json_has_every_row(armillary: Armillary) -> None:
    found = json.loads(armillary("study", "D7", "--json", "-", "--backend", "link").stdout)
    assert found["study"] == "resnet50-compute-power"
    assert len(found["rows"]) == 8
    first = found["rows"][0]
    assert set(first) >= {"setup", "backend", "reference", "ours", "ratio", "verdict", "why"}
    assert first["source"] == {"kind": "paper", "where": "section V-F"}


def test_the_table_says_where_references_come_from(armillary: Armillary) -> None:
    """A column with the kind, and below it each source in words."""
    printed = armillary("study", "a6").stdout
    head = next(line for line in printed.splitlines() if line.startswith("  Setup"))
    assert "Reference" in head and "Source" in head and "Paper" not in head
    assert "\n  a  paper: section IV-D\n" in printed
    assert (
        "\n  b  equation: the equations of section IV-D, with bandwidths that we chose" in printed
    )


def test_the_digits_under_test_are_shown(armillary: Armillary) -> None:
    """0.999 against 0.9985 is not 1.00."""
    printed = armillary("study", "a5").stdout
    line = next(each for each in printed.splitlines() if "ZeRO-Infinity over HierMem" in each)
    assert "1.00 of the step" not in line


def test_an_unknown_one_is_refused(armillary: Armillary) -> None:
    run = armillary("study", "z9")
    assert run.returncode == 2
    assert "unknown study 'z9'" in run.stderr


def test_an_unknown_name_and_a_file_for_two_outputs(armillary: Armillary) -> None:
    for arguments, said in (
        (["\udcff"], "unknown study"),
        (["d6", "--report", "y", "--json", "y"], "is also the file of --report"),
    ):
        run = armillary("study", *arguments)
        assert run.returncode == 2
        assert run.stderr.startswith("error: ")
        assert said in run.stderr


def test_a_study_without_the_trainer_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "armillary_train", None)
    for name in [name for name in sys.modules if name.startswith("armillary_train.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(SystemExit, match="2"):
        app.main(["study", "neo-quality"])
    assert "the study needs the package armillary-train" in capsys.readouterr().err


def test_an_old_name_of_an_option_warns(armillary: Armillary) -> None:
    run = armillary("study", "multidim-cost", "--html", "no/such/page.html")
    assert run.returncode == 2
    assert run.stderr.startswith("warning: --html is now called --report; the old")


@pytest.mark.parametrize("kind", ["bash", "zsh"])
def test_names_are_completed(armillary: Armillary, kind: str) -> None:
    asked = {
        "COMP_WORDS": "armillary study val",
        "COMP_CWORD": "2",
        "_TYPER_COMPLETE_ARGS": "armillary study val",
        "_ARMILLARY_COMPLETE": f"complete_{kind}",
    }
    assert "validate-collectives" in armillary(**asked).stdout


@pytest.mark.parametrize("seconds", [0.05, 0.15, 0.3])
def test_ctrl_c_while_it_starts(seconds: float, tmp_path: Path) -> None:
    """Before Python reads the first line of ours, the signal is Python's; from then on it is one
    line."""
    code = (
        "import signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job ignores it\n"
        "import armillary_command, sys\n"
        "print('ready', flush=True)\n"
        "sys.argv = ['armillary', 'study', 'v1']\n"
        "sys.exit(armillary_command.main())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        time.sleep(seconds)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
    assert run.returncode == 130
    assert said == "\ninterrupted; no file was written\n"


def test_the_list_loads_no_study() -> None:
    """Titles and sources are in the list itself, so that it takes no longer than a help."""
    main = "from armillary.cli import app; app.main(['study'])"
    code = f"import sys; {main}; print(*sys.modules, file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = set(run.stderr.split())
    assert "armillary_lab.studies" in found
    assert not any(name.startswith("armillary_lab.studies.") for name in found)
    assert not found & {"numpy", "torch", "yaml", "armillary.api", "armillary.workload"}
