"""Costs: the paper's example to the dollar, LIBRA's counting, tables of users."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from armillary.design import cost_file
from armillary.errors import InputError
from armillary.estimate.topology import parse


def bill(table: str, text: str, *gigabytes: float) -> dict[tuple[int, str], float]:
    topology = parse(text)
    assert topology is not None
    found = cost_file.load(table)
    items = found.bill(topology, found.stack(len(topology)), [each * 1e9 for each in gigabytes])
    return {(each.dimension, each.part): each.dollars for each in items}


def test_figure_12_to_the_dollar() -> None:
    """3 NPUs at 10 GB/s on one switch: links $60, NICs $1,440, switch $720, in all $2,220."""
    items = bill("multidim", "SW(3)", 10)
    assert items == {(0, "link"): 60.0, (0, "nic"): 1440.0, (0, "switch"): 720.0}
    assert sum(items.values()) == 2220.0


def test_blocks_in_pairs() -> None:
    """A ring of 4 has 4 links; two NPUs have one; FullyConnected(4) at 30 GB/s has 6 links of 10
    GB/s."""
    assert bill("multidim", "R(4)", 10) == {(0, "link"): 4 * 10 * 2}
    assert bill("multidim", "R(2)", 10) == {(0, "link"): 10 * 2}
    assert bill("multidim", "FC(4)", 30) == {(0, "link"): 6 * 10 * 2}
    assert bill("multidim", "R(4)_R(4)", 10, 20) == {
        (0, "link"): 16 * 10 * 2,
        (1, "link"): 16 * 20 * 2,
    }


def test_libra_counts_directions() -> None:
    """Its program: 2 n links of bw / 2 a ring, n (n - 1) of bw / (n - 1) a FullyConnected, one
    switch of all ports."""
    items = bill("libra", "R(4)_FC(8)_R(4)_SW(32)", 100, 100, 100, 100)
    npus = 4096
    assert items[0, "link"] == pytest.approx(npus * 100 * 2)
    assert items[1, "link"] == pytest.approx(npus * 100 * 4)
    assert items[3, "link"] == pytest.approx(npus * 100 * 7.8)
    assert items[3, "nic"] == pytest.approx(npus * 100 * 31.6)
    assert items[3, "switch"] == pytest.approx(npus * 100 * 18)


def test_price_is_the_bill_of_a_byte_a_second() -> None:
    topology = parse("FC(8)_R(4)_SW(16)")
    assert topology is not None
    table = cost_file.load("libra")
    stack = table.stack(3)
    assert stack == ("inter_package", "inter_node", "inter_pod")
    given = [2e9, 3e9, 4e9]
    whole = sum(a * b for a, b in zip(table.price(topology, stack), given, strict=True))
    assert math.isclose(whole, sum(item.dollars for item in table.bill(topology, stack, given)))


def test_a_users_table_with_watts(tmp_path: Path) -> None:
    path = tmp_path / "mine.yml"
    path.write_text("links: directions\ntechnologies:\n  copper: {link: 3, watts: {link: 0.5}}\n")
    topology = parse("R(4)")
    assert topology is not None
    (item,) = cost_file.load(path).bill(topology, ("copper",), [1e10])
    assert (item.dollars, item.watts) == (4 * 10 * 3, 4 * 10 * 0.5)
    assert bill("multidim", "R(4)", 10)
    assert cost_file.load("multidim").bill(topology, ("any",), [1e10])[0].watts is None


def test_stack_repeats_the_innermost_and_drops_it_first() -> None:
    table = cost_file.load("libra")
    assert table.stack(2) == ("inter_node", "inter_pod")
    assert table.stack(5) == (
        "inter_chiplet",
        "inter_chiplet",
        "inter_package",
        "inter_node",
        "inter_pod",
    )
    assert table.stack(2, ("inter_package",)) == ("inter_package",) * 2


def test_every_problem_of_a_table(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yml"
    path.write_text("links: twice\ntechnologies:\n  a: {lnk: 3, nic: -1}\n  b: 7\nprice: 3\n")
    with pytest.raises(InputError) as caught:
        cost_file.load(path)
    text = str(caught.value)
    for part in ("links", "lnk", "nic", "b: 7 is not a mapping", "price"):
        assert part in text
    with pytest.raises(InputError, match=r"no such table of costs \(allowed: multidim"):
        cost_file.load("multi")
