"""`network.flit.routing` and `network.flit.router`: every routing delivers on both routers, and
wrong settings are named errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Armillary

RING = """topology: Ring(8)
links: {bandwidth: 64 GB/s, latency: 20 ns}
collectives: {all_to_all: direct}
network:
  model: flit
  flit: {flit: 64 B, packet: 512 B, virtual_channels: 2, buffer: 8}
"""

LINE = """graph:
  npus: 3
  switches: 2
  links:
    - {between: [npu0, switch0], bandwidth: 64 GB/s, latency: 20 ns}
    - {between: [npu1, switch0], bandwidth: 64 GB/s, latency: 20 ns}
    - {between: [switch0, switch1], count: 2, bandwidth: 64 GB/s, latency: 20 ns}
    - {between: [npu2, switch1], bandwidth: 64 GB/s, latency: 20 ns}
network:
  model: flit
  flit: {flit: 64 B, packet: 512 B, routing: {table: routes.yml}}
"""

TABLE = """routes:
  npu0: {default: switch0}
  npu1: {default: switch0}
  npu2: {default: switch1}
  switch0: {npu0: npu0, npu1: npu1, default: switch1}
  switch1: {npu2: npu2, default: switch0}
"""


def args(path: Path, *settings: str) -> list[str]:
    """A small all-to-all."""
    sets = [word for setting in settings for word in ("--set", f"network.flit.{setting}")]
    return ["collective", "all_to_all", "-p", str(path), "-b", "32K", "-e", "32K", *sets]


PIPELINE = "pipeline={route_computation: 0, speculation: true, allocator: age}"


@pytest.mark.parametrize(
    "settings",
    [
        ["routing=topology"],
        ["routing=dimension_order"],
        ["routing=up_down"],
        ["routing=valiant"],
        ["routing=valiant(7)"],
        ["routing=adaptive"],
        ["router=input_queued"],
        ["router=input_queued", "routing=up_down", PIPELINE],
        ["router=input_queued", "routing=valiant", "switching=cut_through"],
        ["router=input_queued", "ordered=true", "virtual_channels=1"],
    ],
)
def test_every_routing_delivers(armillary: Armillary, tmp_path: Path, settings: list[str]) -> None:
    """The same twice, too."""
    (tmp_path / "ring.yml").write_text(RING)
    run = args(tmp_path / "ring.yml", *settings)
    first = armillary(*run)
    assert first.returncode == 0, first.stderr
    assert armillary(*run).stdout == first.stdout


@pytest.mark.parametrize(
    ("settings", "what", "allowed"),
    [
        (["classes=1"], "wait for each other in a cycle: npu0 -> npu1", "network.flit.classes"),
        (["classes=1", "routing=adaptive"], "in a cycle: npu0 -> npu1", "network.flit.classes"),
        (["classes=1", "routing=valiant"], "in a cycle: npu0 -> npu1", "network.flit.classes"),
        (["classes=0"], "0 is not allowed", "1 to 16"),
        (
            ["routing=minimal"],
            'unknown routing of flits "minimal"',
            "topology, dimension_order, up_down",
        ),
        (["routing={}"], '"table" is missing', "path"),
        (["packet=100 B"], "not a whole number of flits of 64 B", "a multiple of 64 B"),
        (["flit=16 B"], "the fastest link carries 64 B in a cycle", "64 B to"),
        (["virtual_channels=0"], "0 is not allowed", "a whole number from 1"),
        (["buffer=0"], "0 is not allowed", "a whole number from 1"),
        (["buffer=4", "switching=cut_through"], "does not hold a packet of 8", "at least 8"),
        (["ordered=true", "routing=adaptive"], "adaptive sends packets on several ways", "false"),
        (["deadlock=perhaps"], "perhaps", "refuse, allow"),
        (["router=clos"], "clos", "garnet, input_queued"),
        (["router=input_queued", "routing=adaptive"], "routing is adaptive", "router: garnet"),
        (["router=input_queued", "threads=2"], "threads is 2", "1 with router: input_queued"),
        (
            ["router=input_queued", "virtual_channels=33"],
            "virtual_channels is 33 of 2 classes",
            "at most 64 of all classes",
        ),
        (["router=input_queued", "ordered=true"], "virtual_channels is 2", "1 with ordered: true"),
        (
            ["router=input_queued", "pipeline.switch_allocation=0"],
            "0 is not allowed",
            "a whole number from 1 to 1024",
        ),
    ],
)
def test_wrong_settings_are_named(
    armillary: Armillary, tmp_path: Path, settings: list[str], what: str, allowed: str
) -> None:
    """Value, place and what is allowed; exit code 2."""
    (tmp_path / "ring.yml").write_text(RING)
    done = armillary(*args(tmp_path / "ring.yml", *settings))
    assert done.returncode == 2
    assert what in done.stderr
    assert "network.flit." in done.stderr
    assert allowed in done.stderr
    assert "Traceback" not in done.stderr


def test_a_deeper_pipeline_takes_longer(armillary: Armillary, tmp_path: Path) -> None:
    """Each stage adds its cycles to both routers on the way of a message of one flit."""
    (tmp_path / "ring.yml").write_text(RING.replace("Ring(8)", "Ring(3)"))
    times = []
    for stages in ("", "channel_allocation=1001", "route_computation=501"):
        run = args(
            tmp_path / "ring.yml", "router=input_queued", *([f"pipeline.{stages}"] * bool(stages))
        )
        done = armillary(*run, "-b", "48", "-e", "48")
        assert done.returncode == 0, done.stderr
        row = next(line for line in done.stdout.splitlines() if line.split()[:1] == ["48"])
        times.append(round(float(row.split()[5]), 2))
    assert [round(time - times[0], 2) for time in times] == [0, 2, 1]


def test_keys_of_the_other_router_have_no_effect(armillary: Armillary, tmp_path: Path) -> None:
    """They are named."""
    (tmp_path / "ring.yml").write_text(RING)
    done = armillary(*args(tmp_path / "ring.yml", "pipeline.speculation=true"))
    assert done.returncode == 0
    assert "network.flit.pipeline has no effect with router: garnet" in done.stderr
    done = armillary(*args(tmp_path / "ring.yml", "router=input_queued", "router_latency=2"))
    assert "network.flit.router_latency has no effect with router: input_queued" in done.stderr


def test_links_side_by_side_carry_as_much_as_one_of_their_sum(
    armillary: Armillary, tmp_path: Path
) -> None:
    """Four links of 16 GB/s against one of 64 GB/s: large messages take as long, within 2 %."""
    times = []
    for links in (
        "{bandwidth: 64 GB/s, latency: 20 ns}",
        "{bandwidth: 16 GB/s, count: 4, latency: 20 ns}",
    ):
        (tmp_path / "ring.yml").write_text(f"topology: Ring(4)\nlinks: {links}\n")
        done = armillary(
            *("collective", "all_reduce", "-p", "ring.yml", "-b", "4M", "-e", "4M"),
            *("--backend", "flit"),
        )
        assert done.returncode == 0, done.stderr
        row = next(line for line in done.stdout.splitlines() if line.split()[:1] == ["4194304"])
        times.append(float(row.split()[5]))
    assert abs(times[1] / times[0] - 1) < 0.02
    (tmp_path / "ring.yml").write_text(
        "topology: Ring(4)\nlinks: {bandwidth: 1 GB/s, count: 65, latency: 20 ns}\n"
    )
    done = armillary("collective", "all_reduce", "-p", "ring.yml", "--backend", "flit")
    assert done.returncode == 2
    assert "65 links side by side" in done.stderr
    assert "at most 64 each way" in done.stderr


def test_an_unsafe_ring_locks_up_and_is_reported(armillary: Armillary, tmp_path: Path) -> None:
    """One class, one channel, two flits of room: messages of half the ring wait in a circle."""
    (tmp_path / "ring.yml").write_text(RING)
    tight = ["virtual_channels=1", "buffer=2", "classes=1", "deadlock=allow"]
    done = armillary(*args(tmp_path / "ring.yml", *tight))
    assert done.returncode == 1, done.stdout
    assert "npu0 -> npu1 channel 0" in done.stderr, done.stderr
    assert "deadlock: allow: the network may lock up" in done.stderr, done.stderr


def test_an_explicit_graph_has_no_order_of_dimensions(armillary: Armillary, tmp_path: Path) -> None:
    """A generated one has."""
    (tmp_path / "line.yml").write_text(LINE)
    done = armillary(*args(tmp_path / "line.yml", "routing=dimension_order"))
    assert done.returncode == 2
    assert "a graph has no order of dimensions" in done.stderr
    (tmp_path / "mesh.yml").write_text(
        "topology: {generator: concentrated_mesh, npus_per_router: 2, sizes: [3, 3]}\n"
        "links: {bandwidth: 64 GB/s, latency: 20 ns}\nnetwork: {model: flit}\n"
    )
    assert armillary(*args(tmp_path / "mesh.yml", "routing=dimension_order")).returncode == 0


def test_a_table_delivers(armillary: Armillary, tmp_path: Path) -> None:
    """It takes as long as the routes of the topology, which are the same."""
    (tmp_path / "line.yml").write_text(LINE)
    (tmp_path / "routes.yml").write_text(TABLE)
    by_table = armillary(*args(tmp_path / "line.yml"))
    assert by_table.returncode == 0, by_table.stderr
    assert armillary(*args(tmp_path / "line.yml", "routing=topology")).stdout == by_table.stdout


@pytest.mark.parametrize(
    ("old", "new", "what", "place"),
    [
        (
            "switch1: {npu2: npu2, default: switch0}",
            "",
            "no route from switch1 to",
            "routes.switch1",
        ),
        ("npu0: {default", "npu9: {default", 'unknown node "npu9"', "line 2, routes.npu9"),
        ("npu2: npu2,", "npu7: npu2,", 'unknown NPU "npu7"', "line 6, routes.switch1.npu7"),
        ("default: switch1}\n  switch1", "default: npu2}\n  switch1", "no link leads", "line 5"),
        ("npu2: npu2,", "npu2: switch0,", "go round and never arrive", "routes.switch0"),
        ("routes:", "table:", 'unknown key "table"', "line 1, table"),
    ],
)
def test_wrong_tables_are_named(
    armillary: Armillary, tmp_path: Path, old: str, new: str, what: str, place: str
) -> None:
    """The file of the table, and the place in it."""
    (tmp_path / "line.yml").write_text(LINE)
    assert old in TABLE
    (tmp_path / "routes.yml").write_text(TABLE.replace(old, new))
    done = armillary(*args(tmp_path / "line.yml"))
    assert done.returncode == 2
    assert what in done.stderr, done.stderr
    assert "routes.yml" in done.stderr
    assert place in done.stderr, done.stderr


def test_one_way_links_have_no_way_up_and_down(armillary: Armillary, tmp_path: Path) -> None:
    """In a ring of one-way links some way goes down, then up."""
    links = "".join(
        f"    - {{from: npu{at}, to: npu{(at + 1) % 3}, bandwidth: 64 GB/s, latency: 20 ns}}\n"
        for at in range(3)
    )
    (tmp_path / "ring.yml").write_text(
        f"graph:\n  npus: 3\n  links:\n{links}network: {{model: flit}}\n"
    )
    for routing in ("up_down", "adaptive"):
        done = armillary(*args(tmp_path / "ring.yml", f"routing={routing}"))
        assert done.returncode == 2
        assert "no way up and then down from npu" in done.stderr
        assert "links both ways" in done.stderr
    assert armillary(*args(tmp_path / "ring.yml")).returncode == 0


def test_a_table_that_is_not_there_is_named(armillary: Armillary, tmp_path: Path) -> None:
    """Its path, seen from the platform's file, and what names it."""
    (tmp_path / "line.yml").write_text(LINE)
    done = armillary(*args(tmp_path / "line.yml"))
    assert done.returncode == 2
    assert "there is no such file; network.flit.routing of line names this file" in done.stderr
    assert str(tmp_path / "routes.yml") in done.stderr


def test_a_table_that_could_lock_up_is_refused(armillary: Armillary, tmp_path: Path) -> None:
    """All messages go the same way round."""
    (tmp_path / "ring.yml").write_text(RING)
    rows = [f"  npu{npu}: {{default: npu{(npu + 1) % 8}}}\n" for npu in range(8)]
    (tmp_path / "routes.yml").write_text("routes:\n" + "".join(rows))
    done = armillary(*args(tmp_path / "ring.yml", f"routing={{table: {tmp_path}/routes.yml}}"))
    assert done.returncode == 2
    assert "cycle: npu0 -> npu1, npu1 -> npu2" in done.stderr
    assert "routes.yml" in done.stderr
