"""SIGTERM and Ctrl-C end what takes long, whatever it is doing. No test measures how fast: a bound
only ends one that hangs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from thorough import some

RUN = "import sys, armillary_command as a; sys.exit(a.main())"
MESH = "topology: Mesh(32)_Mesh(32)\nlinks: {bandwidth: 50 GB/s, latency: 500 ns, per: link}\n"
MILLION = (
    "topology: R(100)_R(100)_R(100)\nlinks: {bandwidth: 50 GB/s, latency: 500 ns, per: link}\n"
)
MODEL = "run llama-3-70b --tp 8 --pp 4 --dp 16 --zero 1 --global-batch 256 -p dgx-h100-superpod"
ENDS = [(signal.SIGTERM, 143), (signal.SIGINT, 130)]
"""Signals, each with its exit code."""
LONG = {
    "packets of a model": f"{MODEL} --backend packet --no-what-if",
    "flits of a mesh": "collective all_to_all -b 256M -e 256M -p mesh.yml --backend flit",
    "packets of a mesh": "collective all_to_all -b 256M -e 256M -p mesh.yml --backend packet",
    "a million NPUs": "collective all_reduce -b 1G -e 1G -p million.yml --no-fold",
    "traffic": "traffic -p mesh.yml --backend packet --saturation",
}


def wait_until_it_simulates(run: subprocess.Popen[str]) -> None:
    """Waits until the process has worked for longer than it takes to start and to read its files,
    however slow the machine is. Where no `/proc` counts that, some seconds pass."""
    times, tick = Path(f"/proc/{run.pid}/stat"), os.sysconf("SC_CLK_TCK")
    if not times.is_file():
        time.sleep(4)
    while times.is_file() and run.poll() is None:
        user, system = times.read_text().rpartition(")")[2].split()[11:13]
        if (int(user) + int(system)) / tick > 1:
            break
        time.sleep(0.02)
    assert run.poll() is None, "the run is too short to be stopped"


@pytest.mark.parametrize(
    ("what", "sent", "code"),
    some((what, *signal_) for signal_ in ENDS for what in LONG),
)
def test_a_signal_ends_it(what: str, sent: signal.Signals, code: int, tmp_path: Path) -> None:
    (tmp_path / "mesh.yml").write_text(MESH, encoding="utf-8")
    (tmp_path / "million.yml").write_text(MILLION, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "-c", RUN, *LONG[what].split()],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        wait_until_it_simulates(run)
        run.send_signal(sent)
        try:
            _, said = run.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            run.kill()
            raise
    assert run.returncode == code
    assert "interrupted" in said.splitlines()[-1]


@pytest.mark.parametrize(("sent", "code"), ENDS)
def test_sizes_that_are_finished_are_written(
    sent: signal.Signals, code: int, tmp_path: Path
) -> None:
    (tmp_path / "mesh.yml").write_text(MESH, encoding="utf-8")
    sizes = "collective all_reduce -b 4 -e 1G -f 268435456 -p mesh.yml --backend packet"
    with subprocess.Popen(
        [sys.executable, "-c", RUN, *sizes.split(), "--json", "c.json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        assert any(line.split()[:1] == ["4"] for line in run.stdout)
        run.send_signal(sent)
        _, said = run.communicate(timeout=60)
    assert run.returncode == code
    assert said.endswith("\ninterrupted; 1 size finished and written\n")
    found = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    assert [row["size"] for row in found["rows"]] == [4]
    assert found["warnings"][-1] == "interrupted: 1 size finished"


CODE_OF_OTHERS = """\
import signal, sys
from armillary.cli import output
output.LAST_S = 0.1
output.prepare()
signal.signal(signal.SIGTERM, lambda *_: None)  # as code that does not return to Python
print("ready", flush=True)
while True:
    pass
"""


def test_a_watch_ends_what_minds_no_signal() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CODE_OF_OTHERS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        run.send_signal(signal.SIGTERM)
        _, said = run.communicate(timeout=60)
    assert (run.returncode, said) == (143, "\ninterrupted\n")
