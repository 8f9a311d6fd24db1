"""Blocks, exit codes and the bar, apart from any verb."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from armillary import InputError, Problem, StalledError, _core
from armillary.cli import output


def raised(error: BaseException) -> int:
    with pytest.raises(SystemExit) as caught, output.guard():
        raise error
    assert isinstance(caught.value.code, int)
    return caught.value.code


def test_exit_codes() -> None:
    problem = [Problem("", "", "x")]
    assert raised(InputError(problem)) == 2
    assert raised(StalledError(problem)) == 1
    assert raised(KeyboardInterrupt()) == 130
    assert raised(_core.PanicException("x")) == 70
    assert raised(OSError(28, "No space left on device")) == 2


def test_one_block_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    raised(
        InputError(
            [
                Problem("net.yml", "line 3", "-5 is negative", "above zero"),
                Problem("", "", "nothing to run"),
            ]
        )
    )
    assert capsys.readouterr().err == (
        "error: -5 is negative\n  in: net.yml: line 3\n  allowed: above zero\nerror: nothing to "
        "run\n2 problems\n"
    )


def test_many_problems_are_cut_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_problems([Problem("", "", "x")] * 64)
    said = capsys.readouterr().err
    assert said.count("error: ") == 20
    assert said.endswith("64 problems, 20 of them shown\n")
    output.show_problems([Problem("", "", "x")] * 64, lists_all="armillary check")
    said = capsys.readouterr().err
    assert said.endswith("64 problems, 20 of them shown; armillary check lists all\n")
    output.show_problems([Problem("", "", "x")] * 64, limit=None)
    assert capsys.readouterr().err.count("error: ") == 64


def test_no_bar_outside_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress("simulating") as update:
        assert update is None
    assert capsys.readouterr().err == ""


class Terminal(io.StringIO):
    """A stream that calls itself a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("seconds", "shown"), [(0.5, False), (1.5, True)])
def test_a_bar_after_a_second(seconds: float, shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    clock = iter([0.0, seconds])
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(output, "monotonic", lambda: next(clock))
    with output.progress("simulating") as update:
        assert update is not None
        update(0.25, 1e6)
    assert ("simulating" in stream.getvalue()) == shown


def test_machine_output_on_stdout(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    output.write_json("-", "{}")
    output.write_json(None, "{}")
    output.write_json(str(tmp_path / "x.json"), "{}")
    assert capsys.readouterr().out == "{}\n"
    assert (tmp_path / "x.json").read_text() == "{}\n"


@pytest.mark.parametrize("target", ["/dev/full", "closed pipe"])
def test_a_stdout_that_takes_nothing(target: str) -> None:
    """No traceback, and an exit code other than 0."""
    code = (
        "import sys; from armillary.cli import output\nwith output.guard(): "
        "sys.stdout.write('x' * 10**6)"
    )
    command = f'{sys.executable} -c "{code}"'
    script = (
        f"{command} > /dev/full" if target == "/dev/full" else f"set -o pipefail; {command} | true"
    )
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert "Traceback" not in run.stderr


def test_a_stopped_process_writes_all_of_its_result() -> None:
    """A stop ends a write to a full pipe early. Unbuffered streams lose what is left."""
    program = (
        "import sys; from armillary.cli import output\noutput.prepare()\n"
        "print('begun', flush=True)\nwith output.guard(): sys.stdout.write('x' * 300_000)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"begun\n"
        time.sleep(0.3)  # Until the pipe is full.
        for each in (signal.SIGSTOP, signal.SIGCONT):
            run.send_signal(each)
            time.sleep(0.05)
        assert len(run.stdout.read()) == 300_000
    assert run.returncode == 0
