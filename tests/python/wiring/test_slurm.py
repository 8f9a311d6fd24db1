"""Slurm's topology.conf: drawn trees read back by arithmetic, hostlists, bad input."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, Armillary
from thorough import usually

import armillary as arm
from armillary import wiring
from armillary.errors import InputError
from armillary.wiring import slurm

EXAMPLE = ROOT / "tests/python/wiring/data/topology.conf"
GIVEN = {"card": "50 GB/s", "uplink": "400 GB/s", "cable_latency": "1 us"}


def imported(text: str, folder: Path, **given: str) -> wiring.Imported:
    path = folder / "topology.conf"
    path.write_text(text)
    return wiring.import_file(path, name="c", assumed=wiring.Assumed(given or GIVEN))


def refused(text: str, folder: Path, **given: str) -> str:
    with pytest.raises(InputError) as caught:
        imported(text, folder, **given)
    assert all(problem.help for problem in caught.value.problems)
    return "; ".join(map(str, caught.value.problems))


def test_the_example(tmp_path: Path) -> None:
    """18 hosts of 50 GB/s on three leaves, and a link of 400 GB/s from each leaf to the spine."""
    found = imported(EXAMPLE.read_text(), tmp_path)
    assert (found.npus, found.links, found.format) == (18, 21, "slurm")
    graph = yaml.safe_load(found.text)["graph"]
    assert graph["npus"] == [f"tux{number}" for number in range(18)]
    assert [(each["name"], each["tier"]) for each in graph["switches"]] == [
        ("s0", 1), ("s1", 1), ("s2", 1), ("s3", 2)
    ]  # fmt: skip
    assert {each["bandwidth"] for each in graph["links"] if "s3" in each["between"]} == {"400 GB/s"}
    assert any("LinkSpeed is not used" in remark for remark in found.remarks)


@pytest.mark.parametrize("seed", range(usually(8, 100)))
def test_drawn_trees(seed: int, tmp_path: Path) -> None:
    """Switches over switches over hosts: each link is there once, and tiers count from hosts."""
    draw = random.Random(seed)
    lines, links, level = [], set(), []
    hosts = 0
    for leaf in range(draw.randint(1, 6)):
        count = draw.randint(1, 8)
        lines.append(f"SwitchName=leaf{leaf} Nodes=n[{hosts:03}-{hosts + count - 1:03}]")
        links |= {(f"n{host:03}", f"leaf{leaf}") for host in range(hosts, hosts + count)}
        level.append(f"leaf{leaf}")
        hosts += count
    number, depth = 0, dict.fromkeys(level, 1)
    while len(level) > 1:
        taken = level[: draw.randint(2, 3)]
        level = level[len(taken) :]
        lines.append(f"SwitchName=top{number} Switches={','.join(taken)}")
        links |= {(child, f"top{number}") for child in taken}
        depth[f"top{number}"] = 1 + max(depth[child] for child in taken)
        level.append(f"top{number}")
        number += 1
    draw.shuffle(lines)
    text = "\n".join(line.replace("Name", draw.choice(["Name", "NAME"])) for line in lines)
    given = {key: value for key, value in GIVEN.items() if number or key != "uplink"}
    found = imported(text, tmp_path, **given)
    graph = yaml.safe_load(found.text)["graph"]
    assert graph["npus"] == [f"n{host:03}" for host in range(hosts)]
    assert {tuple(each["between"]) for each in graph["links"]} == links
    assert len(graph["links"]) == len(links)
    assert {each["name"]: each["tier"] for each in graph["switches"]} == depth
    assert arm.Platform.parse(found.text).npus == hosts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ["a"]),
        ("a,b", ["a", "b"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-10,12]", ["n08", "n09", "n10", "n12"]),
        ("r[0-1]n[0-1].x", ["r0n0.x", "r0n1.x", "r1n0.x", "r1n1.x"]),
        ("a[1,2],b[3]", ["a1", "a2", "b3"]),
        ("", []),
        ("n[3-1]", None),
        ("n[", None),
        ("n]", None),
        ("n[a-b]", None),
        ("n[0-999999999]", None),
        ("n[0-9999]m[0-9999]", None),
        ("n[1-2", None),
        ("a b", None),
    ],
)
def test_hostlists(text: str, names: list[str] | None) -> None:
    assert slurm.expand(text) == names


LEAVES = "SwitchName=a Nodes=n[0-1]\nSwitchName=b Nodes=n[2-3]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SwitchName=a Nodes=n0 Colour=red", "'Colour=red' is not a key with a value"),
        ("SwitchName=a Nodes", "'Nodes' is not a key with a value"),
        ("SwitchName=a Nodes=n0\nSwitchName=a Nodes=n1", "switch 'a' appears twice"),
        ("SwitchName=a[0-1] Nodes=n0", "switch 'a[0-1]' is not a name"),
        ("SwitchName=a", "nothing is below a"),
        ("SwitchName=a Nodes=n[0-", "is not a list"),
        ("SwitchName=a Nodes=n0,n0", "has n0 twice"),
        (LEAVES, "nothing joins b to the rest"),
        (LEAVES + "SwitchName=c Switches=a,b,d", "switch d has no line of its own"),
        (LEAVES + "SwitchName=c Switches=a,b Nodes=a", "a is a host and a switch"),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a", "has no host"),
        ("SwitchName=a Switches=b Nodes=n\nSwitchName=b Switches=a", "in a circle"),
    ],
)
def test_bad_input(text: str, said: str, tmp_path: Path) -> None:
    assert said in refused(text, tmp_path)


def test_speeds_are_asked_for(tmp_path: Path) -> None:
    text = LEAVES + "SwitchName=c Switches=a,b"
    assert "how fast a host's network card is" in refused(text, tmp_path, uplink="1 GB/s")
    assert "how fast the links between its switches are" in refused(text, tmp_path, card="1 GB/s")
    with pytest.raises(InputError, match="the file has all nodes"):
        wiring.import_file(EXAMPLE, name="c", assumed=wiring.Assumed(GIVEN), nodes=2)


def test_on_the_command_line(armillary: Armillary) -> None:
    ran = armillary(
        "platform", "import", EXAMPLE, "-o", "c.yml", "--gpu", "H100", "--assume", "uplink=400 GB/s"
    )
    assert ran.returncode == 0, ran.stderr
    ran = armillary("collective", "all_reduce", "-b", "1M", "-e", "1M", "-p", "c.yml")
    assert ran.returncode == 0, ran.stderr
