"""The output of iblinkinfo: drawn fabrics as in the form of ibnetdiscover, and bad input."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT, Armillary
from thorough import usually

from armillary import wiring
from armillary.errors import InputError

DATA = ROOT / "tests/python/wiring/data"
SPEEDS = {
    "SDR": "2.5 Gbps",
    "DDR": "5.0 Gbps",
    "QDR": "10.0 Gbps",
    "FDR10": "10.0 Gbps (FDR10)",
    "FDR": "14.0625 Gbps",
    "EDR": "25.78125 Gbps",
    "HDR": "53.125 Gbps",
    "NDR": "106.25 Gbps",
    "XDR": "212.5 Gbps",
}


def imported(text: str, folder: Path) -> wiring.Imported:
    path = folder / "fabric.txt"
    path.write_text(text)
    return wiring.import_file(path, name="c", assumed=wiring.Assumed())


def graph(found: wiring.Imported) -> dict[str, Any]:
    """The graph of a platform file, whose links have the order of their names."""
    made: dict[str, Any] = yaml.safe_load(found.text)["graph"]
    links = made.pop("links") or []
    made["links"] = sorted((sorted(each.pop("between")), each) for each in links)
    return made


def test_the_example_is_that_of_ibnetdiscover() -> None:
    one, other = (
        wiring.import_file(DATA / name, name="c", assumed=wiring.Assumed())
        for name in ("iblinkinfo.txt", "ibnetdiscover.txt")
    )
    assert (one.format, one.npus) == ("iblinkinfo", 4)
    assert graph(one) == graph(other)
    assert any("Left out: 2 routers and adapters" in remark for remark in one.remarks)


@dataclass
class Fabric:
    """Devices by number with name and kind, and cables: two devices with their ports."""

    kinds: list[str] = field(default_factory=list)
    cables: list[tuple[int, int, int, int, int, str]] = field(default_factory=list)

    def name(self, at: int) -> str:
        return f"{'leaf' if self.kinds[at] == 'Switch' else 'node'}{at}"

    def lid(self, at: int, port: int) -> int:
        """A switch has one, an adapter one for each port."""
        return 100 * (at + 1) + (port if self.kinds[at] == "CA" else 0)

    def discovered(self) -> str:
        """As ibnetdiscover writes it."""
        lines = []
        for at, kind in enumerate(self.kinds):
            letter = "S" if kind == "Switch" else "H"
            lines.append(f'{kind.capitalize()}\t40 "{letter}-{at:016x}"\t# "{self.name(at)}" lid 1')
            for one, port, other, far, lanes, speed in self.ends():
                if one == at:
                    peer = "S" if self.kinds[other] == "Switch" else "H"
                    said = f'# "{self.name(other)}" lid 3 {lanes}x{speed}'
                    lines.append(f'[{port}]\t"{peer}-{other:016x}"[{far}]\t{said}')
        return "\n".join(lines)

    def ends(self) -> list[tuple[int, int, int, int, int, str]]:
        turned = [(c, d, a, b, lanes, speed) for a, b, c, d, lanes, speed in self.cables]
        return sorted(self.cables + turned)

    def info(self, draw: random.Random) -> str:
        """As iblinkinfo writes it, with ports that are down."""
        blocks = []
        for at, kind in enumerate(self.kinds):
            guid = f" 0x{at:016x}" if kind == "Switch" else ""
            lines = [f"{kind}:{guid} {self.name(at)}:"]
            for one, port, other, far, lanes, speed in self.ends():
                if one != at:
                    continue
                before = f"      0x{at:016x} " if kind == "CA" else "      "
                state = f"({lanes:2d}X {SPEEDS[speed]:>18} Active/  LinkUp)"
                state += draw.choice(("", " (HOQ:15 VL_Stall:7)"))
                could = draw.choice((" ", "Could be 12X "))
                lines.append(
                    f"{before}{self.lid(at, port):6d} {port:4d}[  ] =={state}==>  "
                    f'{self.lid(other, far):6d} {far:4d}[  ] "{self.name(other)}" ({could})'
                )
            if draw.random() < 0.5:
                lines.append(
                    f"      {self.lid(at, 0):6d} {39:4d}[  ] ==({'':14}  Down/ Polling)==>"
                    '             [  ] "" ( )'
                )
            blocks.append("\n".join(lines))
        draw.shuffle(blocks)
        return "\n".join(blocks) + "\n"


def drawn(draw: random.Random) -> Fabric:
    """Leaves with adapters of one or two ports under spines."""
    made, ports = Fabric(), dict[int, int]()
    leaves, spines = draw.randint(1, 4), draw.randint(1, 3)
    made.kinds += ["Switch"] * (leaves + spines)

    def cable(one: int, other: int) -> None:
        ends = []
        for each in (one, other):
            ports[each] = ports.get(each, 0) + 1
            ends += [each, ports[each]]
        a, b, c, d = ends
        made.cables.append((a, b, c, d, draw.choice((1, 4, 8, 12)), draw.choice([*SPEEDS])))

    for leaf in range(leaves):
        for spine in range(spines):
            for _ in range(draw.randint(1, 2)):
                cable(leaf, leaves + spine)
        for _ in range(draw.randint(1, 3)):
            made.kinds.append("CA")
            for _ in range(draw.randint(1, 2)):
                cable(leaf, len(made.kinds) - 1)
    return made


@pytest.mark.parametrize("seed", range(usually(15, 300)))
def test_drawn_fabrics_are_those_of_ibnetdiscover(seed: int, tmp_path: Path) -> None:
    """The other reader has its own test against what was drawn."""
    draw = random.Random(seed)
    fabric = drawn(draw)
    text = fabric.info(draw)
    found = imported(text, tmp_path)
    assert graph(found) == graph(imported(fabric.discovered(), tmp_path))
    assert found.npus == fabric.kinds.count("CA")
    slow = text.count("Could be")
    said = f"Ports that are slower than both ends allow: {slow}."
    assert (said in found.remarks) == bool(slow)


FAR = "==( 4X           53.125 Gbps Active/  LinkUp)==>"
GOOD = f"""\
CA: a mlx5_0:
      0x0000000000000001      3    1[  ] {FAR}       1    1[  ] "sw" ( )
Switch: 0x0000000000000009 sw:
           1    1[  ] {FAR}       3    1[  ] "a mlx5_0" ( )
           1    2[  ] {FAR.replace("Active", "  Init")}       7    1[  ] "b" ( )
           1    3[  ] ==(                Down/ Polling)==>             [  ] "" ( )
"""
OTHER = "".join(
    f"{line}\n".replace("  3    1[", " 30    1[").replace("           1  ", "          10  ")
    for line in GOOD.replace("       1    1[", "      10    1[").splitlines()
)


def test_ports_that_are_not_active_are_counted(tmp_path: Path) -> None:
    found = imported(GOOD, tmp_path)
    assert found.npus == 1
    assert "Ports that are not active: 1." in found.remarks


def turned(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)


LINE = (
    f'0x0c42a10300c00000 "{"a mlx5_0":>30}"      3    1[  ] {FAR}  0x0c42a1      1    1[  ] "s" ( )'
)
HERE = "LinkUp)==>       1    1[  ]"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LINE, "iblinkinfo --line, which does not say which devices are switches"),
        (turned("Switch: 0x0000000000000009 sw:", "what is this"), "'what is this' is not known"),
        (turned("53.125 Gbps", "54 Gbps"), "unknown speed: 54"),
        (turned(" 4X           53.125 Gbps Active/", "Active/"), "unknown speed: None"),
        (turned(FAR, "==(what)==>"), "is not a width, a speed"),
        (turned(HERE, "LinkUp)==>       5    1[  ]"), "with LID 5 is not in"),
        (turned(HERE, "LinkUp)==>       1    4[  ]"), "does not lead back here"),
        (turned(" 4X           53.125", "12X           53.125"), "of this link has another speed"),
        (turned(f'{HERE} "sw" ( )', "LinkUp)==> nothing"), "does not say the other end"),
        (turned("      3    1[", "      1    1["), "LID 1 is of two devices"),
        (turned("      3    1[", "      0    1["), "has no LID"),
        ("CA: a mlx5_0:\nSwitch: 0x9 sw:\n", "is in no format"),
        (GOOD + OTHER, "nothing joins"),
    ],
)
def test_bad_input(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        imported(text, tmp_path)
    assert said in "; ".join(map(str, caught.value.problems))
    assert all(problem.help for problem in caught.value.problems)


def test_on_the_command_line(armillary: Armillary) -> None:
    ran = armillary("platform", "import", DATA / "iblinkinfo.txt", "-o", "c.yml")
    assert ran.returncode == 0, ran.stderr
    ran = armillary("platform", "import", DATA / "iblinkinfo.txt", "-o", "d.yml", "--nodes", "2")
    assert ran.returncode == 2
    assert "the file has all nodes" in ran.stderr
