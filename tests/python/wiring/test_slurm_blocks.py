"""Slurm's blocks of hosts: drawn blocks read back by arithmetic, and bad input."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, Armillary
from test_slurm import GIVEN, imported, refused
from thorough import usually

import armillary as arm

EXAMPLE = ROOT / "tests/python/wiring/data/blocks.conf"


def test_the_example(tmp_path: Path) -> None:
    """Eight hosts at two blocks, which one switch joins."""
    found = imported(EXAMPLE.read_text(), tmp_path)
    assert (found.npus, found.links, found.format) == (8, 10, "slurm-blocks")
    graph = yaml.safe_load(found.text)["graph"]
    tiers = {each["name"]: each["tier"] for each in graph["switches"]}
    assert tiers == {"block1": 1, "block2": 1, "blocks": 2}
    assert any("no switches" in warning for warning in found.warnings)


@pytest.mark.parametrize("seed", range(usually(8, 100)))
def test_drawn_blocks(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    lines, links, hosts = [], set(), 0
    count = draw.randint(1, 6)
    for block in range(count):
        many = draw.randint(1, 9)
        lines.append(f"BlockName=b{block} Nodes=n[{hosts:03}-{hosts + many - 1:03}]")
        links |= {(f"n{host:03}", f"b{block}") for host in range(hosts, hosts + many)}
        links |= {(f"b{block}", "blocks")} if count > 1 else set()
        hosts += many
    lines += ["BlockSizes=1,4"] * draw.randint(0, 1)
    draw.shuffle(lines)
    given = {key: value for key, value in GIVEN.items() if count > 1 or key != "uplink"}
    found = imported("\n".join(lines), tmp_path, **given)
    graph = yaml.safe_load(found.text)["graph"]
    assert {tuple(each["between"]) for each in graph["links"]} == links
    assert graph["npus"] == [f"n{host:03}" for host in range(hosts)]
    assert arm.Platform.parse(found.text).npus == hosts


BLOCKS = "BlockName=a Nodes=n[0-1]\nBlockName=b Nodes=n[2-3]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("BlockSizes=4", "has no block"),
        ("BlockName=a", "'BlockName=a' is not a block"),
        ("BlockName=a Nodes=", "is not a block"),
        ("BlockName=a Nodes=n0 Colour=red", "is not a block"),
        (BLOCKS + "SwitchName=s Nodes=n9", "'SwitchName=s Nodes=n9' is not a block"),
        (BLOCKS + "BlockName=a Nodes=n9", "block 'a' appears twice"),
        ("BlockName=a[0-1] Nodes=n0", "is not a name"),
        ("BlockName=blocks Nodes=n0", "is not a name that a block may have here"),
        ("BlockName=a Nodes=n[0-", "is not a list"),
        (BLOCKS + "BlockName=c Nodes=n0", "n0 is also in a"),
        ("BlockName=a Nodes=n0,n0", "n0 is also in a"),
        (BLOCKS + "BlockName=c Nodes=a", "a is a host and a block"),
        (BLOCKS + "BlockSizes=four", "are not sizes of blocks"),
        ("BlockName=a Nodes=n[0-99999]\nBlockName=b Nodes=m[0-99999]", "too many hosts"),
    ],
)
def test_bad_input(text: str, said: str, tmp_path: Path) -> None:
    assert said in refused(text, tmp_path)


def test_speeds_are_asked_for(tmp_path: Path) -> None:
    assert "how fast a host's network card is" in refused(BLOCKS, tmp_path, uplink="1 GB/s")
    assert "links between its blocks are" in refused(BLOCKS, tmp_path, card="1 GB/s")


def test_on_the_command_line(armillary: Armillary) -> None:
    ran = armillary(
        "platform", "import", EXAMPLE, "-o", "c.yml", "--gpu", "H100", "--assume", "uplink=400 GB/s"
    )
    assert ran.returncode == 0, ran.stderr
    assert "no switches" in ran.stderr + ran.stdout
