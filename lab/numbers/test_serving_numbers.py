"""Numbers about serving in the documents."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from documented import plain

from armillary.serve.measured_points import read_points
from armillary_lab.score.aiconfigurator import pairs, table

PAGE = ROOT / "lab/accuracy/serving.md"
RECORD = str(ROOT / "tests/golden/peers/aiconfigurator.json")


def test_errors_next_to_aiconfigurator() -> None:
    found, ours, theirs = pairs(RECORD)
    page = PAGE.read_text(encoding="utf-8")
    check(PAGE, table(found))
    said = f"Both know {len(found)} of 98 runs. The peer alone knows {theirs}, and we alone know "
    assert f"{said}{ours}." in plain(page)


FLEET = "deepseek-r1-gb200.csv"
FRONTIERS = ROOT / "docs/guides/measured-frontiers.md"
LENGTHS = ("--input-tokens", "820-1024", "--output-tokens", "820-1024", "--kv-cache", "fp8")
PLANS = {
    "llama-3.3-70b-h100.csv": (
        "llama-3.3-70b", "-p", "dgx-h100", "--weights", "fp8", "--engine", "vllm",
    ),
    "gpt-oss-120b-b200.csv": ("gpt-oss-120b", "-p", "dgx-b200", "--engine", "trtllm"),
}  # fmt: skip
"""Words of `armillary plan --serve` by the file of measured points."""
FLEETS = {
    "SGLang TP 4 + 2 x TP 4 at 8": "sglang tp=4 --tp 4 --replicas 2",
    "TensorRT-LLM TP 4 EP 4 + 4 x TP 8 EP 8 at 64": "trtllm tp=4,ep=4 --tp 8 --ep 8 --replicas 4",
    "TensorRT-LLM TP 4 EP 4 + 4 x TP 8 EP 8 at 564": "trtllm tp=4,ep=4 --tp 8 --ep 8 --replicas 4",
    "SGLang 4 x DP 4 EP 4 + DP 32 EP 32 at 2048": "sglang dp=4,ep=4,replicas=4 --dp 32 --ep 32",
}
"""Measured deployments of DeepSeek-R1, and words for them: engine, prompts, tokens."""


def answered(*words: str) -> dict[str, Any]:
    """JSON output of a command of Armillary."""
    command = [sys.executable, "-m", "armillary.cli", *words, "--json", "-"]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return dict(json.loads(run.stdout))


def against(ours: float | None, measured: float) -> str:
    return "none" if ours is None else f"{ours:,.4g} ({ours / measured - 1:+.0%})"


@pytest.mark.parametrize("name", PLANS)
def test_measured_frontiers(name: str) -> None:
    """Rows of the page are those that the command shows."""
    found = answered(
        "plan", *PLANS[name], "--serve", "--slo", "tpot=50ms", *LENGTHS,
        "--measured", f"examples/measured/{name}",
    )  # fmt: skip
    ours = [
        (each["tokens_per_s_per_user"], each["output_tokens_per_s_per_gpu"])
        for each in found["frontier"]
    ]
    best, rows = 0.0, []
    for each in sorted(
        found["measured"],
        key=lambda each: (-each["tokens_per_s_per_user"], -each["output_tokens_per_s_per_gpu"]),
    ):
        user, gpu = each["tokens_per_s_per_user"], each["output_tokens_per_s_per_gpu"]
        if gpu > best:
            best = gpu
            most = max((one for fast, one in ours if fast >= user), default=None)
            fast = max((one for one, many in ours if many >= gpu), default=None)
            cells = (each["name"], f"{user:,.4g}", f"{gpu:,.4g}")
            rows.append(" | ".join((*cells, against(most, gpu), against(fast, user))))
    check(FRONTIERS, [f"| {row} |" for row in rows])


def test_measured_fleets() -> None:
    """DeepSeek-R1 on GB200, prompts and tokens apart: the measured deployments themselves."""
    rows = []
    measured = {each.name: each for each in read_points(ROOT / "examples/measured" / FLEET)}
    for name, words in FLEETS.items():
        engine, prefill, *rest = words.split()
        busy = int(name.rpartition(" ")[2])
        found = answered(
            "serve", "deepseek-r1", "-p", "gb200-nvl72", "--engine", engine, "--prefill", prefill,
            *rest, *LENGTHS, "--weights", "nvfp4", "--routing", "least_loaded", "--no-what-if",
            "--no-prefix-caching", "--concurrency", str(busy), "--num-requests", str(10 * busy),
        )["result"]  # fmt: skip
        each = measured[name]
        user, gpu = 1e3 / found["tpot_ms"]["mean"], found["output_tokens_per_s_per_gpu"]
        cells = (name, f"{each.user:,.4g}", f"{each.gpu:,.4g}", against(gpu, each.gpu))
        rows.append("| " + " | ".join((*cells, against(user, each.user))) + " |")
    check(FRONTIERS, rows)


def check(page: Path, lines: list[str]) -> None:
    """Fails with the lines that a page lacks."""
    text = page.read_text(encoding="utf-8")
    missing = [line for line in lines if line not in text]
    if missing:
        pytest.fail("the page lacks:\n" + "\n".join(missing))
