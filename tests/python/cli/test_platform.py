"""`armillary platform`: what comes with Armillary, and what a file amounts to."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

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
    again = armillary("platform", "show", "again.yml").stdout
    assert _values(again) == _values(shown.stdout)
    described = json.loads(armillary("platform", "show", "toy.yml", "--json", "-").stdout)
    assert described["npus"] == 8


def _values(shown: str) -> str:
    """What `platform show` prints, without where it comes from."""
    lines = [line.split("  # ")[0].rstrip() for line in shown.splitlines()]
    return "".join(lines)


def test_show_says_where_values_come_from(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "base.yml").write_text(
        "topology: R(4)\nlinks: {bandwidth: 1 GB/s, latency: 1 us}\nnpu: {name: X}\n"
    )
    (tmp_path / "own.yml").write_text("extends: ./base.yml\nscheduler: {policy: lifo}\n")
    shown = armillary("platform", "show", "own.yml", "--set", "scheduler.chunks=4").stdout
    origins = dict(re.findall(r"^ *(\w+): .*?  # (.*)$", shown, re.MULTILINE))
    assert origins["topology"] == "base.yml:1"
    assert origins["policy"] == "own.yml:2"
    assert origins["chunks"] == "--set"
    assert origins["endpoint_delay"] == "default"


def test_the_network_model_is_the_default_of_backend(armillary: Armillary, tmp_path: Path) -> None:
    text = "topology: R(4)\nlinks: {bandwidth: 1 GB/s, latency: 1 us}\n"
    (tmp_path / "link.yml").write_text(text + "network: {model: link, analytical: {}}\n")
    (tmp_path / "other.yml").write_text(text + "network: {modl: link}\n")
    arguments = ("collective", "all_reduce", "-b", "1M", "-e", "1M", "-p", "link.yml")
    own = armillary(*arguments, "--json", "-")
    assert json.loads(own.stdout)["config"]["backend"] == "link"
    over = armillary(*arguments, "--backend", "analytical", "--json", "-")
    assert json.loads(over.stdout)["config"]["backend"] == "analytical"
    refused = armillary("platform", "show", "other.yml")
    assert refused.returncode == 2
    assert 'unknown key "modl"; did you mean "model"?' in refused.stderr


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
    assert _values(again).replace('"again"', '"fabric"') == _values(shown)


def test_unknown_preset(armillary: Armillary) -> None:
    run = armillary("platform", "show", "dgx-h1000")
    assert run.returncode == 2
    assert "dgx-h1000" in run.stderr


def test_show_draws(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "fabric.yml").write_text(FAT_TREE)
    run = armillary("platform", "show", "fabric.yml", "--svg", "fabric.svg", "--dot", "-")
    assert run.returncode == 0, run.stderr
    ElementTree.parse(tmp_path / "fabric.svg")
    edges = [line for line in run.stdout.splitlines() if " -- " in line]
    assert len(edges) == 48
    assert '  "npu0" -- "leaf0" [label="50 GB/s", tooltip="1.000 us, npu", penwidth=3.00];' in edges
    assert run.stdout.count("rank=same") == 4
    same = armillary("platform", "show", "fabric.yml", "--svg", "x", "--dot", "x")
    assert same.returncode == 2


def test_dot_quotes_any_name(armillary: Armillary, tmp_path: Path) -> None:
    graph = {
        "npus": ['a"b', "c\\d"],
        "switches": ["-- x;"],
        "links": [
            {"between": ['a"b', "-- x;"], "bandwidth": "1 GB/s", "latency": "1 us", "count": 4},
            {"from": "c\\d", "to": "-- x;", "bandwidth": "1 GB/s", "latency": "1 us"},
            {"from": "-- x;", "to": "c\\d", "bandwidth": "2 GB/s", "latency": "1 us"},
        ],
    }
    (tmp_path / "odd.yml").write_text(json.dumps({"graph": graph}))
    run = armillary("platform", "show", "odd.yml", "--dot", "-")
    assert r'"a\"b" -- "-- x;" [label="4 x 1 GB/s"' in run.stdout
    assert r'"c\\d" -- "-- x;" [label="1 GB/s"' in run.stdout
    assert run.stdout.count("dir=forward") == run.stdout.count("dir=back") == 1


def test_a_network_too_large_for_graphviz_is_refused(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "large.yml").write_text(
        "topology: R(200000)\nlinks: {bandwidth: 1 GB/s, latency: 1 us}\n"
    )
    run = armillary("platform", "show", "large.yml", "--dot", "large.dot")
    assert run.returncode == 2
    assert "too large" in run.stderr
    assert not (tmp_path / "large.dot").exists()


def test_import_writes_a_platform(armillary: Armillary, tmp_path: Path) -> None:
    matrix = "\tGPU0\tGPU1\nGPU0\t X \tNV12\nGPU1\tNV12\t X \n"
    (tmp_path / "topo.txt").write_text(matrix)
    arguments = ("platform", "import", "topo.txt", "-o", "own.yml", "--json", "own.json")
    refused = armillary(*arguments)
    assert refused.returncode == 2
    assert "--gpu" in refused.stderr
    assert not (tmp_path / "own.yml").exists()
    run = armillary(*arguments, "--gpu", "a100", "--assume", "nvlink=25 GB/s")
    assert run.returncode == 0, run.stderr
    found = json.loads((tmp_path / "own.json").read_text())
    assert (found["format"], found["npus"]) == ("nvidia-smi", 2)
    assert "nvlink" not in {each["name"] for each in found["assumed"]}
    shown = armillary("platform", "show", "own.yml").stdout
    assert "bandwidth: 300 GB/s" in shown
    assert 'name: "own"' in shown
