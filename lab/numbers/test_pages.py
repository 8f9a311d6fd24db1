"""Tables of the pages about models that take more than a moment to compute."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from documented import ours, rows, says

import armillary as arm
from armillary.platform import Platform
from armillary_lab.studies import neo

ROOT = Path(__file__).resolve().parents[2]
GIB = 2**30
TPUS = {
    "`tpu-v4-pod`, 16 x 16 x 16": ("tpu-v4-pod", "R(16)_R(16)_R(16)"),
    "`tpu-v5p-pod`, 16 x 20 x 28": ("tpu-v5p-pod", "R(16)_R(20)_R(28)"),
    "`tpu-v5e-pod`, 16 x 16": ("tpu-v5e-pod", "R(16)_R(16)"),
    "`tpu-v4-pod`, 4 x 4 x 16": ("tpu-v4-pod", "R(4)_R(4)_R(16)"),
}
PAPERS = ("paper-w-2d", "paper-conv-3d", "paper-conv-4d")


def _over_bound(kind: str, platform: Platform) -> float:
    """Time of 1 GiB over the bound that the page states."""
    row = arm.collective(kind, GIB, platform).row(0, named=True)
    return float(row["time_us"]) / float(row["lower_bound_us"])


@pytest.mark.parametrize("words", TPUS)
def test_collectives_on_tori(words: str) -> None:
    name, topology = TPUS[words]
    platform = Platform.load(name, settings={"topology": topology})
    facts = {kind: _over_bound(kind, platform) for kind in ("all_reduce", "all_gather")}
    row = f"| {words} | {{all_reduce:.3f}} | {{all_gather:.3f}} |"
    assert says(ROOT / "docs/models/scheduling.md", [row], facts) == []


@pytest.mark.parametrize("name", PAPERS)
def test_themis(name: str) -> None:
    """1 GB, smallest chunk first, with and without Themis."""
    facts = {}
    for key, order in (("baseline", "baseline"), ("themis", "themis")):
        settings = {"scheduler.policy": "smallest_first", "scheduler.dimension_order": order}
        platform = Platform.load(name, settings=settings)
        row = arm.collective("all_reduce", 10**9, platform).row(0, named=True)
        facts["bound"] = row["network_bound_us"]
        facts[key] = 100 * row["network_bound_us"] / row["time_us"]
    wanted = f"| `{name}` | {{bound:,.0f}} us | {{baseline:.1f}} % | {{themis:.1f}} % |"
    assert says(ROOT / "docs/models/scheduling.md", [wanted], facts) == []


def test_table_4() -> None:
    """The two native columns of COMPARE.md; ASTRA-sim's are recorded (`crates/sim/tests`)."""
    sizes = [setup for setup in rows("astra2-table4") if re.fullmatch(r"\d+(_\d+){3}", setup)]
    assert len(sizes) == 7
    for size in sizes:
        facts = {
            "fitted": ours("astra2-table4", f"{size}, fitted"),
            "bare": ours("astra2-table4", size),
        }
        text = (ROOT / "COMPARE.md").read_text(encoding="utf-8")
        start = next(line for line in text.splitlines() if line.startswith(f"| {size} |"))
        theirs = " | ".join(start.split(" | ")[:3])
        row = f"{theirs} | {{fitted:.2f}} | {{bare:.2f}} |"
        assert says(ROOT / "COMPARE.md", [row], facts) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("dlrm-mlperf", "Criteo Terabyte"),
        ("dlrm-dcnv2", "multi-hot"),
        ("dlrm-criteo-kaggle", "on Criteo's Kaggle set"),
        ("dlrm-criteo-multi-hot", "and its multi-hot map"),
        ("dlrm-small", ""),
    ],
)
def test_sizes_of_recommendation_models(name: str, words: str) -> None:
    """Parameters, and a forward pass of a sample: two operations for each weight, and the
    interaction."""
    parameters = neo.facts(name).parameters
    page = (ROOT / "docs/models/dlrm.md").read_text(encoding="utf-8")
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
    assert words in row
    assert f"| {parameters:,} |" in row


@pytest.mark.parametrize(
    ("gpu", "platform"),
    [
        ("V100", "dgx1-v100"),
        ("A100", "dgx-a100"),
        ("H100, H200", "dgx-h100"),
        ("B200", "dgx-b200"),
    ],
)
def test_sustained_rates(gpu: str, platform: str) -> None:
    """The page rounds what the presets have."""
    compute = Platform.load(platform).describe()["npu"]["compute_settings"]
    page = (ROOT / "docs/models/compute.md").read_text(encoding="utf-8")
    (row,) = (line for line in page.splitlines() if line.startswith(f"| {gpu} |"))
    *_, wide, narrow, sustained, _ = (cell.strip() for cell in row.split("|"))
    assert math.isclose(float(wide), compute["efficiency_ppm"]["gemm"] / 1e6, abs_tol=0.0051)
    assert float(sustained) == compute["sustained_ppm"] / 1e6
    narrowest = compute["efficiency_by_type_ppm"].get("fp8")
    assert (narrow != "") == bool(narrowest)
    assert not narrowest or math.isclose(float(narrow), narrowest / 1e6, abs_tol=0.0051)
