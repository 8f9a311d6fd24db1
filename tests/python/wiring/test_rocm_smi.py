"""Tables of `rocm-smi --showtopo`: drawn nodes read back by arithmetic, and bad input."""

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

EXAMPLE = ROOT / "tests/python/wiring/data/rocm.txt"
GIVEN = {
    "xgmi": "50 GB/s", "pcie": "40 GB/s", "cpu": "60 GB/s",
    "xgmi_latency": "1 us", "pcie_latency": "2 us", "cpu_latency": "3 us",
}  # fmt: skip
Cells = list[list[str]]


def imported(text: str, folder: Path, **given: str) -> wiring.Imported:
    path = folder / "topo.txt"
    path.write_text(text)
    return wiring.import_file(path, name="c", assumed=wiring.Assumed(given or GIVEN))


def refused(text: str, folder: Path, **given: str) -> str:
    with pytest.raises(InputError) as caught:
        imported(text, folder, **given)
    assert all(problem.help for problem in caught.value.problems)
    return "; ".join(map(str, caught.value.problems))


def table(title: str, cells: Cells) -> str:
    """As `rocm_smi.py` prints it."""
    heads = "       " + "".join(f"GPU{each:<10}" for each in range(len(cells)))
    rows = (f"GPU{at:<4}" + "".join(f"{cell:<13}" for cell in row) for at, row in enumerate(cells))
    return "\n".join([f" {title} ".center(90, "="), heads, *rows, "", ""])


def printed(types: Cells, hops: Cells, nodes: list[int], old: bool = False) -> str:
    place = "GPU {}          : " if old else "GPU[{}]\t\t: "
    lines = [
        place.format(at) + f"(Topology) Numa {word}: {node}"
        for at, node in enumerate(nodes)
        for word in ("Node", "Affinity")
    ]
    return "\n".join(
        [
            " ROCm System Management Interface ".center(90, "="),
            "WARNING: AMD GPU device(s) is/are in a low-power state.",
            table("Weight between two GPUs", hops),
            table("Hops between two GPUs", hops),
            table("Link Type between two GPUs", types),
            " Numa Nodes ".center(90, "="),
            *lines,
            " End of ROCm SMI Log ".center(90, "="),
        ]
    )


def square(count: int, cell: str) -> Cells:
    return [["0" if one == other else cell for other in range(count)] for one in range(count)]


def test_two_islands(tmp_path: Path) -> None:
    """Each GPU has one xGMI link, and PCIe to the CPU of its NUMA node."""
    found = imported(EXAMPLE.read_text(), tmp_path)
    assert (found.npus, found.links, found.format) == (4, 2 + 4 + 1, "rocm-smi")
    graph = yaml.safe_load(found.text)["graph"]
    links = {tuple(each["between"]): each["bandwidth"] for each in graph["links"]}
    assert links[("GPU0", "GPU1")] == "50 GB/s"
    assert links[("GPU3", "cpu1")] == "40 GB/s"
    assert links[("cpu0", "cpu1")] == "60 GB/s"


@pytest.mark.parametrize("seed", range(usually(8, 200)))
def test_drawn_nodes(seed: int, tmp_path: Path) -> None:
    """Links are those over one hop of xGMI, and those to CPUs if a pair has no xGMI."""
    draw = random.Random(seed)
    count = draw.randint(2, 12)
    types, hops = square(count, ""), square(count, "")
    direct = set()
    full = draw.random() < 0.5
    for one in range(count):
        for other in range(one + 1, count):
            kind = "XGMI" if full or (one + other > 1 and draw.random() < 0.6) else "PCIE"
            far = str(1 if full else draw.randint(1, 3)) if kind == "XGMI" else "2"
            types[one][other] = types[other][one] = kind
            hops[one][other] = hops[other][one] = far
            if (kind, far) == ("XGMI", "1"):
                direct.add((f"GPU{one}", f"GPU{other}"))
    nodes = [draw.randint(0, 3) for _ in range(count)]
    wanted, names = set(direct), {f"xgmi{end}" for end in ("", "_latency") if direct}
    if any("PCIE" in row for row in types):
        wanted |= {(f"GPU{at}", f"cpu{node}") for at, node in enumerate(nodes)}
        cpus = sorted(set(nodes))
        wanted |= {(f"cpu{a}", f"cpu{b}") for a in cpus for b in cpus if a < b}
        names |= {"pcie", "pcie_latency"} | ({"cpu", "cpu_latency"} if len(cpus) > 1 else set())
    text = printed(types, hops, nodes, draw.random() < 0.5)
    found = imported(text, tmp_path, **{key: GIVEN[key] for key in names})
    links = {tuple(each["between"]) for each in yaml.safe_load(found.text)["graph"]["links"]}
    assert (
        links == wanted
    )  # a CPU has two links or more: its GPUs', and another CPU's if it has one
    assert arm.Platform.parse(found.text).npus == count


TITLES = ("Link Type between two GPUs", "XGMI"), ("Hops between two GPUs", "1")
GOOD = printed(square(3, "XGMI"), square(3, "1"), [0, 0, 0])
APART = [["0", "1", "2"], ["1", "0", "2"], ["2", "2", "0"]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            table("Link Type between two GPUs", square(2, "XGMI")),
            "no table 'Hops between two GPUs'",
        ),
        (GOOD.replace("XGMI", "IFOP"), "'IFOP' is not a kind of link"),
        (GOOD.replace("XGMI", "PCIE", 1), "differs from the other direction"),
        (GOOD.replace("GPU2   XGMI", "GPU2   XGMI XGMI"), "4 values for 3 GPUs"),
        (GOOD.replace("GPU2   XGMI", "GPU1   XGMI"), "'GPU1' is not a GPU of the table"),
        (GOOD.replace("GPU2   XGMI", "GPU7   XGMI"), "'GPU7' is not a GPU of the table"),
        (GOOD.replace("GPU2   XGMI         XGMI         0", ""), "has no row of GPU2"),
        (GOOD.replace("       GPU0 ", "       GPU1 "), "are not the GPUs from GPU0 on"),
        (printed(square(3, "XGMI"), square(2, "1"), [0] * 3), "has no row of GPU2"),
        (printed(square(2, "XGMI"), square(3, "1"), [0] * 2), "has another number of GPUs"),
        (printed(square(3, "XGMI"), square(3, "0"), [0] * 3), "'0' hops"),
        (printed(square(3, "XGMI"), square(3, "x"), [0] * 3), "'x' hops"),
        (printed(square(3, "XGMI"), APART, [0] * 3), "no xGMI link of one hop leads to GPU2"),
        (printed(square(3, "PCIE"), square(3, "2"), [0, 0]), "has no NUMA node of GPU2"),
        (printed(square(3, "PCIE"), square(3, "2"), [0, 0, -1]), "has no NUMA node of GPU2"),
        (table("Link Type between two GPUs", square(300, "XGMI")), "are not the GPUs from GPU0"),
    ],
)
def test_bad_input(text: str, said: str, tmp_path: Path) -> None:
    assert said in refused(text, tmp_path)


def test_all_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    """Values and NUMA nodes; and of tables that contradict themselves each contradiction."""
    text = EXAMPLE.read_text()
    path = tmp_path / "topo.txt"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        wiring.import_file(path, name="c", assumed=wiring.Assumed({}))
    helps = [problem.help for problem in caught.value.problems]
    assert helps == [
        f"--assume '{name}'" for name in ("xgmi=50 GB/s", "pcie=48 GB/s", "cpu=64 GB/s")
    ]

    alone = square(4, "PCIE")
    alone[0][1] = alone[1][0] = "XGMI"
    hops = square(4, "2")
    hops[0][1] = hops[1][0] = "1"
    said = refused(printed(alone, hops, [0, -1]), tmp_path, cpu="1 GB/s")
    assert [f"no NUMA node of GPU{at}" in said for at in range(4)] == [False, True, True, True]
    assert "over all their xGMI links" in said and "a GPU's PCIe" in said

    apart = [["0" if a == b else "1" if a + b == 1 else "2" for b in range(4)] for a in range(4)]
    said = refused(printed(square(4, "XGMI"), apart, [0] * 4), tmp_path, pcie="1 GB/s")
    assert "leads to GPU2, GPU3" in said and "over all their xGMI links" in said

    bad = table("Hops between two GPUs", square(3, "1")).replace("GPU1 ", "GPU4 ", 1)
    bad += table("Link Type between two GPUs", square(3, "XGMI")).replace(
        "GPU2   XG", "GPU2   X XG"
    )
    said = refused(bad, tmp_path)
    assert "are not the GPUs from GPU0 on" in said and "4 values for 3 GPUs" in said
    short = [table(title, square(4, cell)) for title, cell in TITLES]
    rows = [
        line for text in short for line in text.splitlines() if line[:4] not in ("GPU1", "GPU3")
    ]
    said = refused("\n".join(rows), tmp_path)
    assert said.count("has no row of GPU1, GPU3") == 2


def test_speeds_are_asked_for(tmp_path: Path) -> None:
    text = EXAMPLE.read_text()
    assert "over all their xGMI links" in refused(text, tmp_path, pcie="1 GB/s")
    assert "what a GPU's PCIe carries" in refused(text, tmp_path, xgmi="1 GB/s")
    assert "two CPUs" in refused(text, tmp_path, xgmi="1 GB/s", pcie="1 GB/s")
    with pytest.raises(InputError, match="no network card"):
        wiring.import_file(EXAMPLE, name="c", assumed=wiring.Assumed(GIVEN), nodes=2)


def test_on_the_command_line(armillary: Armillary) -> None:
    given = [
        word for key in ("xgmi", "pcie", "cpu") for word in ("--assume", f"{key}={GIVEN[key]}")
    ]
    ran = armillary("platform", "import", EXAMPLE, "-o", "c.yml", *given)
    assert ran.returncode == 0, ran.stderr
    ran = armillary("collective", "all_reduce", "-b", "1M", "-e", "1M", "-p", "c.yml")
    assert ran.returncode == 0, ran.stderr
