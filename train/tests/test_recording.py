"""`armillary train --trace`, from the recording to its replay."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import pytest
from command_copies import Copies

import armillary as arm
from armillary.plan.roofline import roofline
from armillary.report.quantity import time
from armillary.workload.importer import import_traces

pytest.importorskip("torch")

SAMPLES, STEPS = 256, 12


def test_a_recorded_run_is_imported_part_by_part(trainings: Copies, tmp_path: Path) -> None:
    """Two ranks share 8 tables of 16 columns. Of each exchange of pooled rows a rank hands in those
    of its tables for all samples: 4 x 16 numbers of 4 bytes for each."""
    trace, result = tmp_path / "trace", tmp_path / "result.json"
    command = ["train", "dlrm-small", "--ranks", "2"]
    command += ["--global-batch", str(SAMPLES), "--steps", str(STEPS), "--eval-samples", "256"]
    command += ["--trace", str(trace), "--trace-steps", "3:8", "--json", str(result)]
    command += ["--platform", "dgx-a100"]
    ran = trainings.run(command, tmp_path, os.environ)
    assert ran.returncode == 0, ran.stderr
    written = json.loads(result.read_text())
    said, bound = written["trace"], written["roofline"]
    step = roofline("dlrm-small", "dgx-a100", dp=2, global_batch=SAMPLES, precision="fp32")
    assert bound["step_ns"] == pytest.approx(1e9 * step.total)
    share = written["samples_per_second"] / bound["samples_per_second"]
    assert bound["reached"] == pytest.approx(share)
    assert f"dgx-a100: roofline {time(bound['step_ns'])}" in ran.stdout
    assert (said["first"], said["last"]) == (3, 8)
    assert said["step_seconds"] > 0 and said["recorded_step_seconds"] > 0
    found = import_traces([trace], step=5)
    assert found.workload.ranks == 2
    assert [(row.collectives, row.sized) for row in found.ranks] == [(9, 9)] * 2
    platform = arm.Platform(
        "Switch(2)", bandwidth="1 GB/s", latency="1 us", settings={"scheduler.replay_only": True}
    )
    report = arm.simulate(found.workload, platform, detail=True).report
    rows = {row["name"]: row for row in report["operations"]}
    expected = ["data", "inputs.distribute", "embedding.forward", "embedding.collect"]
    expected += ["bottom.*.forward", "interaction.forward", "top.*.forward", "loss.forward"]
    expected += ["top.*.weight_gradient", "top.*.input_gradient", "interaction.input_gradient"]
    expected += ["bottom.*.weight_gradient", "embedding.weight_gradient", "optimizer"]
    assert set(expected) <= set(rows)
    pooled = rows["embedding.forward.all_to_all"]
    # Rows of the step before arrive in this one, and those of the next are sent.
    assert pooled["bytes"] == 2 * 2 * SAMPLES * 64 * 4
    assert rows["embedding.input_gradient.all_to_all"]["count"] == 2 * 2


@pytest.mark.parametrize(
    ("kibibytes", "file"), [(24, "kineto-rank0.json"), (300, "execution-rank0.json")]
)
def test_a_trace_that_is_cut_off_is_refused(
    tmp_path: Path, kibibytes: int, file: str, trainings: Copies
) -> None:
    """A limit on the size of files stops PyTorch as a full disk does, and it says nothing. The
    files of this run have about 150 and 700 KB."""
    trace = tmp_path / "trace"
    train = ["train", "dlrm-small", "--global-batch", "64", "--trace-steps", "2:3"]
    train += ["--steps", "8", "--eval-samples", "256", "--trace", str(trace)]
    ran = trainings.run(
        train, tmp_path, os.environ, limits={resource.RLIMIT_FSIZE: kibibytes << 10}
    )
    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert ran.stderr.startswith("error: the profile can't be written: PyTorch wrote ")
    assert f"in: {trace / file}: --trace" in ran.stderr
    assert not (trace / file).exists()
