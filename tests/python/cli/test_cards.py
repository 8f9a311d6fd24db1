"""NPUs with several network cards: messages use all of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from conftest import ROOT
from thorough import some

from armillary.cli.app import main
from armillary.platform import Platform

SPLITTING = ["analytical", "flow", "link", "packet", "flit"]
NPUS, LEAF = 8, 4


@dataclass
class Cards:
    """8 NPUs at two leaves for each card; a spine for each card, or one for all."""

    rates: Sequence[float] = (50,)
    latencies: Sequence[int] = ()
    shared: bool = False
    failed: list[str] = field(default_factory=list)

    def links(self) -> list[tuple[str, str, float, int]]:
        """Links as two ends, GB/s and nanoseconds."""
        found = []
        latencies = self.latencies or [500] * len(self.rates)
        for card, (rate, latency) in enumerate(zip(self.rates, latencies, strict=True)):
            leaf, spine = 2 * card, 2 * len(self.rates) + (0 if self.shared else card)
            ends = [(f"npu{npu}", f"switch{leaf + npu // LEAF}") for npu in range(NPUS)]
            found += [(a, b, rate, latency) for a, b in ends]
            found += [(f"switch{leaf + at}", f"switch{spine}", 2000.0, 500) for at in (0, 1)]
        return found

    def text(self) -> str:
        """The platform file."""
        switches = 2 * len(self.rates) + (1 if self.shared else len(self.rates))
        rows = [
            f"  - {{between: [{a}, {b}], bandwidth: {rate} GB/s, latency: {latency} ns}}"
            for a, b, rate, latency in self.links()
        ]
        lines = ["graph:", f"  npus: {NPUS}", f"  switches: {switches}", "  links:", *rows]
        lines += [f"failed: {{links: [{', '.join(self.failed)}]}}"] if self.failed else []
        return "\n".join(lines) + "\n"


def row(text: str, backend: str, folder: Path, *more: str, size: str = "8M") -> dict[str, object]:
    """The row of an all-reduce, or of the collective that `more` names first."""
    file, found = folder / "cards.yml", folder / "found.json"
    file.write_text(text, encoding="utf-8")
    kind, *options = more if more and not more[0].startswith("-") else ("all_reduce", *more)
    sizes = [kind, "-b", size, "-e", size, "-p", str(file), "--backend", backend]
    assert main(["collective", *sizes, *options, "--json", str(found)]) == 0
    [only] = json.loads(found.read_text(encoding="utf-8"))["rows"]
    assert isinstance(only, dict)
    return only


def bus_bandwidth(cards: Cards, backend: str, folder: Path, *more: str) -> float:
    size = {"packet": "32M", "flit": "16M"}.get(backend, "256M")
    return float(str(row(cards.text(), backend, folder, *more, size=size)["busbw"]))


def microseconds(cards: Cards, backend: str, folder: Path, size: str) -> float:
    return float(str(row(cards.text(), backend, folder, size=size)["time_us"]))


@pytest.mark.parametrize("kind", ["all_reduce", "all_to_all"])
@pytest.mark.parametrize("backend", SPLITTING)
def test_k_cards_carry_k_times_as_much(backend: str, kind: str, tmp_path: Path) -> None:
    one = bus_bandwidth(Cards(), backend, tmp_path, kind)
    for cards in (2, 3):
        found = bus_bandwidth(Cards([50] * cards), backend, tmp_path, kind)
        assert 0.95 * cards * one < found <= 1.02 * cards * one


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("backend", SPLITTING)
def test_cards_carry_in_proportion_to_their_bandwidth(
    backend: str, shared: bool, tmp_path: Path
) -> None:
    one = bus_bandwidth(Cards([50]), backend, tmp_path)
    found = bus_bandwidth(Cards([50, 25], shared=shared), backend, tmp_path)
    assert 1.5 * 0.94 * one < found <= 1.5 * 1.02 * one


def test_parallel_links_to_one_node_are_cards(tmp_path: Path) -> None:
    """Two cables to one switch, and two between two NPUs."""
    switch = "  - {between: [npu%d, switch0], bandwidth: 50 GB/s, latency: 500 ns}"
    ring = "  - {between: [npu%d, npu%d], bandwidth: 50 GB/s, latency: 500 ns}"
    star = [switch % npu for npu in range(NPUS)]
    round_ = [ring % (npu, (npu + 1) % NPUS) for npu in range(NPUS)]
    for rows, switches in [(star, 1), (round_, 0)]:
        for backend in SPLITTING:
            times = []
            for cables in (1, 2):
                head = ["graph:", f"  npus: {NPUS}", f"  switches: {switches}", "  links:"]
                text = "\n".join([*head, *rows * cables]) + "\n"
                times.append(float(str(row(text, backend, tmp_path)["time_us"])))
            assert times[1] < 0.56 * times[0], (switches, backend)


@pytest.mark.parametrize("backend", SPLITTING)
@pytest.mark.parametrize("seed", some([*range(6), 106, 116, 123]))
def test_two_cards_are_never_slower_than_one(backend: str, seed: int, tmp_path: Path) -> None:
    """Drawn bandwidths, latencies, spines and sizes, against either card alone."""
    draw = Random(seed)
    rates = [draw.choice([10, 25, 50, 100]) for _ in range(2)]
    latencies = [draw.choice([200, 500, 1500]) for _ in range(2)]
    size = draw.choice(["8", "64K", "4M"])
    both = Cards(rates, latencies, shared=draw.random() < 0.5)
    found = microseconds(both, backend, tmp_path, size)
    for card in (0, 1):
        alone = microseconds(Cards([rates[card]], [latencies[card]]), backend, tmp_path, size)
        assert found < 1.03 * alone, (both, size, card)


@pytest.mark.parametrize("backend", SPLITTING)
def test_an_npu_whose_card_failed_uses_the_others(backend: str, tmp_path: Path) -> None:
    """The ring is as fast as its slowest NPU."""
    one = bus_bandwidth(Cards([50]), backend, tmp_path)
    found = bus_bandwidth(Cards([50, 50], failed=["npu0-switch0"]), backend, tmp_path)
    assert 0.95 * one < found <= 50
    most = bus_bandwidth(Cards([50, 50, 50], failed=["npu0-switch0"]), backend, tmp_path)
    assert 0.95 * 2 * one < most <= 100


@pytest.mark.parametrize("routing", ["auto", "spray"])
def test_two_parallel_links_are_no_slower_than_one(routing: str, tmp_path: Path) -> None:
    """Two cards to one switch."""
    line = "  - {between: [npu%d, switch0], bandwidth: 50 GB/s, latency: 500 ns}"
    found = []
    for links in (1, 2):
        rows = [line % npu for npu in range(8) for _ in range(links)]
        text = "\n".join(["graph:", "  npus: 8", "  switches: 1", "  links:", *rows]) + "\n"
        option = f"network.routing={routing}"
        only = row(text, "analytical", tmp_path, "--set", option, size="256M")
        found.append(float(str(only["busbw"])))
    assert found[0] > 47
    assert found[1] > 1.95 * found[0]


def test_the_assumption_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cards.yml"
    file.write_text(Cards([50, 50]).text(), encoding="utf-8")
    [warning] = Platform.load(str(file)).warnings
    assert warning.startswith("NPUs have up to 2 links towards another one; a message spreads")
    found = tmp_path / "found.json"
    run = ["collective", "all_reduce", "-b", "1M", "-e", "1M", "-p", str(file)]
    assert main([*run, "--json", str(found)]) == 0
    assert f"warning: {warning}" in capsys.readouterr().err
    assert warning in json.loads(found.read_text(encoding="utf-8"))["warnings"]
    one = ["--set", "network.routing=d_mod_k"]
    assert main([*run, *one, "--json", str(found)]) == 0
    [other] = json.loads(found.read_text(encoding="utf-8"))["warnings"]
    assert other.startswith("assumed: small collectives")


def test_flits_with_a_routing_of_their_own_take_one_card(tmp_path: Path) -> None:
    text, up_down = Cards([50, 50]).text(), ("--set", "network.flit.routing=up_down")
    auto = row(text, "flit", tmp_path, *up_down, size="64K")
    one = row(text, "flit", tmp_path, *up_down, "--set", "network.routing=d_mod_k", size="64K")
    assert auto == one


def test_simulators_in_other_processes_use_all_cards(tmp_path: Path) -> None:
    """Whole messages queue for links there, so that only ratios count."""
    queues = f"external:{sys.executable} {ROOT / 'adapters/python/queues.py'}"
    one = microseconds(Cards([50]), queues, tmp_path, "256M")
    for shared in (False, True):
        two = microseconds(Cards([50, 50], shared=shared), queues, tmp_path, "256M")
        assert 0.5 * one <= two < 0.52 * one
    unequal = microseconds(Cards([50, 25]), queues, tmp_path, "256M")
    assert 0.66 * one < unequal < 0.69 * one
