"""What ends the command early: faults, full and closed streams, signals, names that would drive a
terminal."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import toy
from conftest import Armillary

COMMAND = shlex.join(
    [sys.executable, "-c", "import sys, armillary_command; sys.exit(armillary_command.main())"]
)


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs `script`, in which `$A` is the command."""
    return subprocess.run(
        ["bash", "-c", f'A={shlex.quote(COMMAND)}; run() {{ eval "$A $*"; }}; {script}'],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=60,
        check=False,
    )


def broken(fault: str, *, folder: Path, setting: str = "") -> subprocess.CompletedProcess[str]:
    """`armillary platform list` with `fault` where it lists the platforms."""
    code = (
        "import sys, armillary_command\n"
        "from armillary.cli import platform\n"
        f"def presets(**chosen): {fault}\n"
        "platform.presets = presets\n"
        "sys.argv = ['armillary', 'platform', 'list']\n"
        "sys.exit(armillary_command.main())"
    )
    return shell(f"{setting} {shlex.quote(sys.executable)} -c {shlex.quote(code)}", folder)


def test_a_fault_of_ours_is_one_line_and_70(tmp_path: Path) -> None:
    run = broken("return 1 // 0", folder=tmp_path)
    assert run.returncode == 70
    assert run.stderr.count("\n") == 1
    assert run.stderr.startswith("error: internal error: ZeroDivisionError: ")


def test_its_traceback_on_request(tmp_path: Path) -> None:
    run = broken("return 1 // 0", folder=tmp_path, setting="ARMILLARY_TRACEBACK=1")
    assert run.returncode == 70
    assert "Traceback" in run.stderr
    assert "internal error" in run.stderr


@pytest.mark.parametrize(
    ("fault", "said"),
    [("raise MemoryError", "too large"), ("return presets()", "nested too deeply")],
)
def test_what_no_machine_holds_is_wrong_input(fault: str, said: str, tmp_path: Path) -> None:
    run = broken(fault, folder=tmp_path)
    assert (run.returncode, run.stderr.count("\n")) == (2, 1), run.stderr
    assert said in run.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        "--help",
        "run --help",
        "--version",
        "platform list",
        "workload",
        "workload gpt3-175b",
    ],
)
def test_a_full_standard_output(arguments: str, tmp_path: Path) -> None:
    run = shell(f"run {arguments} > /dev/full", tmp_path)
    assert run.returncode == 2
    assert run.stderr == "error: No space left on device\n  in: standard output\n"


@pytest.mark.parametrize(
    "arguments", ["--help", "platform list", "run traces -p toy.yml --json x.json"]
)
def test_a_closed_standard_output(arguments: str, tmp_path: Path) -> None:
    """Refused before the work, and no file is opened as descriptor 1 in its place."""
    toy.platform(tmp_path), toy.traces(tmp_path)
    run = shell(f"run {arguments} >&-", tmp_path)
    assert run.returncode == 2
    assert run.stderr.startswith("error: is closed\n  in: standard output\n")
    assert not (tmp_path / "x.json").exists()


@pytest.mark.parametrize("stream", ["2>&-", "2>/dev/full", "0<&-"])
def test_nobody_listens_to_messages(stream: str, tmp_path: Path) -> None:
    """The work is done, and its exit code is its own."""
    toy.platform(tmp_path), toy.traces(tmp_path)
    done = shell(f"run run traces -p toy.yml --json x.json {stream}", tmp_path)
    assert done.returncode == 0
    assert "Step time" in done.stdout
    assert json.loads((tmp_path / "x.json").read_text())["ranks"] == 8
    assert shell(f"run run absent -p toy.yml {stream}", tmp_path).returncode == 2


def test_a_reader_that_leaves(tmp_path: Path) -> None:
    run = shell("set -o pipefail; run workload | head -n 1 | true", tmp_path)
    assert run.returncode in (0, 141)
    assert run.stderr == ""


BIG = (
    "topology: R(8)_R(8)\nlinks: {bandwidth: 50 GB/s, latency: 500 ns}\nscheduler: {chunks: 4096}\n"
)


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_leaves_no_part_of_a_file(sent: signal.Signals, code: int, tmp_path: Path) -> None:
    """Batch systems send SIGTERM, a closed terminal SIGHUP."""
    (tmp_path / "big.yml").write_text(BIG)
    made = subprocess.run(
        [
            sys.executable,
            "-m",
            "armillary.cli",
            "workload",
            "gpt3-175b",
            "--tp",
            "8",
            "--dp",
            "8",
            "-o",
            "made",
        ],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    assert made.returncode == 0
    script = (
        "import sys, armillary_command; sys.argv = 'armillary run made -p big.yml --backend link "
        "--no-fold --timeline t.pftrace'.split(); sys.exit(armillary_command.main())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as run:
        while run.poll() is None and not any(path.suffix == ".part" for path in tmp_path.iterdir()):
            time.sleep(0.05)
        assert run.poll() is None, "the run is too short to be stopped"
        run.send_signal(sent)
        _, said = run.communicate(timeout=60)
    assert (run.returncode, said.splitlines()[-1]) == (code, "interrupted; no file was written")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["big.yml", "made"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "traces", "-p", "toy.yml", "--json", "x", "--report", "x"],
        ["run", "traces", "-p", "toy.yml", "--json", "x", "--timeline", "./x"],
        ["run", "traces", "-p", "toy.yml", "--json", "toy.yml"],
        ["check", "-p", "toy.yml", "--json", "toy.yml"],
        ["collective", "all_reduce", "-p", "toy.yml", "--json", "toy.yml"],
        ["compare", "x", "y", "--json", "x"],
        ["explain", "x", "--json", "x"],
        ["report", "x", "-o", "x"],
        ["design", "x", "--json", "y", "--csv", "y"],
        ["sweep", "x", "-o", "d", "--json", "y", "--csv", "y"],
        ["calibrate", "x", "-p", "toy.yml", "--json", "y", "-o", "y"],
        ["convert", "traces", "-o", "d", "--json", "toy.yml", "-p", "toy.yml"],
        ["import", "x", "-o", "d", "--json", "x"],
        ["platform", "show", "toy.yml", "--json", "toy.yml"],
        ["platform", "import-gemm", "x", "-o", "y", "--json", "y"],
        ["workload", "m.yml", "--json", "m.yml"],
    ],
    ids=" ".join,
)
def test_one_file_for_two_things(
    arguments: list[str], armillary: Armillary, tmp_path: Path
) -> None:
    toy.platform(tmp_path), toy.traces(tmp_path)
    for name in ("x", "m.yml"):
        (tmp_path / name).write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    run = armillary(*arguments)
    assert run.returncode == 2
    assert "is also the file of" in run.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["workload", "gpt3-175b", "-o", "/"], "is not empty"),
        (["run", "traces", "-p", "toy.yml", "--json", ""], "can't be written"),
        (["run", "traces", "-p", "toy.yml", "--json", "/"], "can't be written"),
        (["run", "traces", "-p", "toy.yml", "--json", "toy.yml/x"], "can't be written"),
        (["run", "traces", "-p", "toy.yml", "--json", "x" * 300], "can't be written"),
        (
            ["run", "traces", "-p", "toy.yml", "--timeline", "t", "--ranks", "\u0663"],
            "invalid ranks",
        ),
        (
            ["run", "traces", "-p", "toy.yml", "--timeline", "t", "--ranks", "0-7:0"],
            "invalid ranks",
        ),
    ],
    ids=lambda value: " ".join(value[-2:])[:20] if isinstance(value, list) else "",
)
def test_odd_paths_and_ranks(
    arguments: list[str], said: str, armillary: Armillary, tmp_path: Path
) -> None:
    toy.platform(tmp_path), toy.traces(tmp_path)
    run = armillary(*arguments)
    assert (run.returncode, said in run.stderr) == (2, True), run.stderr


def test_names_cannot_drive_a_terminal(armillary: Armillary, tmp_path: Path) -> None:
    """An escape in a name, and the mark that turns a line around, are shown and not sent."""
    evil = "a\x1b]0;title\u202eb"
    toy.platform(tmp_path)
    run = armillary("run", evil, "-p", "toy.yml")
    assert run.returncode == 2
    assert "\\x1b]0;title\\u202eb" in run.stderr
    toy.traces(tmp_path)
    (tmp_path / "traces").rename(tmp_path / evil)
    shown = armillary("run", evil, "-p", "toy.yml")
    assert shown.returncode == 0, shown.stderr
    assert "\\x1b]0;title\\u202eb" in shown.stdout
    assert not {"\x1b", "\u202e"} & set(shown.stdout + shown.stderr + run.stderr)
