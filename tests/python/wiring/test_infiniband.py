"""The output of ibnetdiscover: drawn fabrics read back, the form of the manual, bad input."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
import yaml
from conftest import ROOT, Armillary
from thorough import usually

import armillary as arm
from armillary import wiring
from armillary.errors import InputError

EXAMPLE = ROOT / "tests/python/wiring/data/ibnetdiscover.txt"
LANES = {"SDR": 2.0, "QDR": 8.0, "EDR": 25.0, "HDR": 50.0, "NDR": 100.0}
"""Gb/s of a lane without coding."""


def imported(text: str, folder: Path) -> wiring.Imported:
    path = folder / "fabric.txt"
    path.write_text(text)
    return wiring.import_file(path, name="c", assumed=wiring.Assumed())


def refused(text: str, folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        imported(text, folder)
    assert all(problem.help for problem in caught.value.problems)
    return "; ".join(map(str, caught.value.problems))


def links(found: wiring.Imported) -> dict[frozenset[str], float]:
    """Gb/s between each two devices."""
    rows = yaml.safe_load(found.text)["graph"]["links"]
    assert all(row["bandwidth"].endswith(" Gb/s") for row in rows)
    made = {frozenset(row["between"]): float(row["bandwidth"].split()[0]) for row in rows}
    assert len(made) == len(rows)
    return made


def test_the_example(tmp_path: Path) -> None:
    """Four adapters of 4xHDR, two cables from each leaf to each spine, SHARP left out."""
    found = imported(EXAMPLE.read_text(), tmp_path)
    assert (found.npus, found.format) == (4, "infiniband")
    expected = {frozenset((f"node{n}_mlx5_0", f"leaf{n // 2}")): 200.0 for n in range(4)}
    expected |= {frozenset((f"leaf{i}", f"spine{j}")): 400.0 for i in range(2) for j in range(2)}
    assert links(found) == expected
    assert any("Left out: 2 routers and adapters" in remark for remark in found.remarks)


def device(kind: str, name: str, said: str, rows: list[str]) -> str:
    return "\n".join([f'{kind}\t40 "{name}"\t# "{said}" enhanced port 0 lid 1 lmc 0', *rows, ""])


@pytest.mark.parametrize("seed", range(usually(8, 100)))
def test_drawn_fabrics(seed: int, tmp_path: Path) -> None:
    """Leaves with adapters under spines, several cables each. Both ends may list a cable."""
    draw = random.Random(seed)
    leaves, spines, below = draw.randint(2, 4), draw.randint(1, 3), draw.randint(1, 4)
    rows: dict[str, list[str]] = {}
    said: dict[str, str] = {}
    expected: Counter[frozenset[str]] = Counter()
    ports: Counter[str] = Counter()

    def cable(one: str, other: str, speed: str, lanes: int) -> None:
        ports.update([one, other])
        ends = ((one, other), (other, one))
        for own, peer in ends if draw.random() < 0.7 else ends[:1]:
            row = f'[{ports[own]}]\t"{peer}"[{ports[peer]}]\t# "{said[peer]}" lid 3 {lanes}x{speed}'
            rows.setdefault(own, []).append(row)
        expected[frozenset((said[one], said[other]))] += round(lanes * LANES[speed])

    for leaf in range(leaves):
        said[f"S-{leaf:016x}"] = f"leaf{leaf}"
        for host in range(below):
            said[f"H-{leaf * 100 + host:016x}"] = f"h{leaf}-{host}"
    said |= {f"S-{spine + 1000:016x}": f"spine{spine}" for spine in range(spines)}
    for leaf in range(leaves):
        own = f"S-{leaf:016x}"
        for host in range(below):
            cable(own, f"H-{leaf * 100 + host:016x}", draw.choice([*LANES]), draw.choice([1, 4]))
        for spine in range(spines):
            speed = draw.choice([*LANES])
            for _ in range(draw.randint(1, 3)):
                cable(own, f"S-{spine + 1000:016x}", speed, 4)
    order = [*said]
    draw.shuffle(order)
    kinds = {"S": "Switch", "H": "Ca"}
    text = "\n".join(device(kinds[name[0]], name, said[name], rows.get(name, [])) for name in order)
    found = imported(text, tmp_path)
    assert links(found) == expected
    assert found.npus == leaves * below
    switches = yaml.safe_load(found.text)["graph"]["switches"]
    assert {each["name"]: each["tier"] for each in switches} == {
        said[name]: 1 if said[name].startswith("leaf") else 2 for name in said if name[0] == "S"
    }
    assert arm.Platform.parse(found.text).npus == leaves * below


def test_devices_of_one_name_go_by_their_numbers(tmp_path: Path) -> None:
    rows = [f'[{n}]\t"H-{n:x}"[1]\t# "MT4123" lid 2 4xEDR' for n in (1, 2)]
    found = imported(device("Switch", "S-9", "sw", rows), tmp_path)
    assert links(found) == {frozenset(("sw", f"H-{n}")): 100.0 for n in (1, 2)}


SWITCH = device("Switch", "S-9", "sw", ['[1]\t"H-1"[1]\t# "a" lid 2 4xEDR'])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SWITCH.replace("4xEDR", ""), "which is not a width and a speed"),
        (SWITCH.replace("4xEDR", "4xZDR"), "which is not a width and a speed"),
        (SWITCH + "what is this", "'what is this' is not known"),
        (SWITCH + device("Ca", "H-1", "a", ['[1]\t"S-9"[1]\t# lid 2 lmc 0 "sw" lid 1 4xHDR']),
         "the other end of this link has another speed"),
        (SWITCH + '[2]\t"S-8"[1]\t# "b" lid 2 4xEDR', "switch S-8 is not in the file"),
        (SWITCH + device("Switch", "S-7", "far", ['[1]\t"H-3"[1]\t# "c" lid 2 4xEDR']),
         "nothing joins"),
        (device("Switch", "S-9", "sw", []), "has no adapter at a switch"),
        (SWITCH.replace('"H-1"', '"R-1"'), "has no adapter at a switch"),
    ],
)  # fmt: skip
def test_bad_input(text: str, said: str, tmp_path: Path) -> None:
    assert said in refused(text, tmp_path)


def test_on_the_command_line(armillary: Armillary) -> None:
    ran = armillary("platform", "import", EXAMPLE, "-o", "c.yml")
    assert ran.returncode == 0, ran.stderr
    ran = armillary("collective", "all_reduce", "-b", "1M", "-e", "1M", "-p", "c.yml")
    assert ran.returncode == 0, ran.stderr
    ran = armillary("platform", "import", EXAMPLE, "-o", "d.yml", "--nodes", "2")
    assert ran.returncode == 2
    assert "the file has all nodes" in ran.stderr
