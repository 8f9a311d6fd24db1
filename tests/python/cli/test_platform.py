"""`armillary platform`: what comes with Armillary, and what a file amounts to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import toy
from conftest import Armillary

from armillary import Platform
from armillary.platform import presets


def test_list(armillary: Armillary) -> None:
    run = armillary("platform", "list", "--all")
    assert run.returncode == 0, run.stderr
    assert [line.split()[0] for line in run.stdout.splitlines()[1:]] == presets()
    listed = json.loads(armillary("platform", "list", "--json", "-").stdout)
    assert listed["schema"] == "armillary.platforms/1"
    names = [item["name"] for item in listed["platforms"]]
    assert names == [name for name in presets() if not name.startswith("paper-")]


@pytest.mark.parametrize("name", presets())
def test_every_preset_loads_and_has_a_source(name: str) -> None:
    platform = Platform.load(name)
    assert platform.npus > 0
    assert platform.source


def test_show_reads_back(armillary: Armillary, tmp_path: Path) -> None:
    toy.platform(tmp_path)
    shown = armillary("platform", "show", "toy.yml")
    (tmp_path / "again.yml").write_text(shown.stdout)
    assert armillary("platform", "show", "again.yml").stdout == shown.stdout
    described = json.loads(armillary("platform", "show", "toy.yml", "--json", "-").stdout)
    assert described["npus"] == 8


FAT_TREE = """
topology: {generator: fat_tree, radix: 4}
links: {bandwidth: 50 GB/s, latency: 1 us}
"""


def test_show_measures_the_network(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "fabric.yml").write_text(FAT_TREE)
    shown = armillary("platform", "show", "fabric.yml").stdout
    # 4^3/4 NPUs, 5 * 4^2/4 switches, 3 * 4^3/4 cables, half of the NPUs' links.
    assert shown.startswith(
        "# 16 NPUs, 8 + 8 + 4 switches, 96 one-way links, at most 6 links between two NPUs\n"
        "# bisection, lower to upper ranks: 400 GB/s\n"
    )
    (tmp_path / "again.yml").write_text(shown)
    again = armillary("platform", "show", "again.yml").stdout
    assert again.replace('"again"', '"fabric"') == shown


def test_unknown_preset(armillary: Armillary) -> None:
    run = armillary("platform", "show", "dgx-h1000")
    assert run.returncode == 2
    assert "dgx-h1000" in run.stderr
