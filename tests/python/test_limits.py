"""What a run takes is known before it takes it."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from conftest import Armillary

import armillary as arm
from armillary import InputError, _core, machine

FULL = "topology: FullyConnected(65536)\nlinks: {bandwidth: 100 GB/s, latency: 1 us, per: npu}\n"


def test_a_network_that_memory_cannot_hold_is_refused(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "fc.yml").write_text(FULL)
    arguments = (
        "collective",
        "all_reduce",
        "-b",
        "1M",
        "-e",
        "1M",
        "-p",
        "fc.yml",
        "--backend",
        "link",
    )
    run = armillary(*arguments, ARMILLARY_MEMORY="8 GB")
    assert run.returncode == 2
    assert (
        "needs about 17.2 GB of memory, but only 8.0 GB are free; "
        "17.2 GB of it is for 4294901760 links" in run.stderr
    )
    assert "--backend analytical" in run.stderr


def ring(npus: int) -> arm.Platform:
    return arm.Platform(f"Ring({npus})", bandwidth="100 GB/s", latency="1 us")


def test_the_limit_is_what_the_user_says(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = arm.workload.build("resnet-50", dp=2)
    monkeypatch.setenv(machine.VARIABLE, "1 kB")
    with pytest.raises(InputError, match=r"needs about .* of memory, but only 1\.0 kB are free"):
        arm.simulate(workload, ring(2))
    monkeypatch.setenv(machine.VARIABLE, "unlimited")
    assert arm.simulate(workload, ring(2)).step_time_ns > 0
    monkeypatch.setenv(machine.VARIABLE, "a lot")
    with pytest.raises(InputError, match="invalid amount of memory"):
        arm.simulate(workload, ring(2))


def test_long_runs_are_foretold() -> None:
    """65,534 steps of 32,768 ranks: two thousand million events, of which none is handled here."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            UserWarning,
            match=r"32,768 ranks and handles at least 2,147,\d+,\d+ events, .* 12 minutes",
        ):
            _core.collective("all_reduce", 2**20, ring(32768)._core, "link", False, 0, None)


def test_long_runs_say_why_one_rank_does_not_do() -> None:
    """A pace of 3 million events a second: 900 million take five minutes."""
    with pytest.warns(
        UserWarning,
        match=r"100,000 ranks .* 5 minutes; one rank can't stand for all: ranks 0 and 1 differ;",
    ):
        machine.warn_of_long_run(100_000, 900_000_000, "ranks 0 and 1 differ")
