"""External simulators: what the exchange costs, and ns-3 next to `packet`.

    python lab/bench/python/external.py exchange        C example against the link-queue backend
    python lab/bench/python/external.py ns3             20 workloads without losses, 4 with
    python lab/bench/python/external.py speed           packet hops per CPU second of both
    python lab/bench/python/external.py recorded MTU    recorded runs of ns-3.44 with this MTU
    python lab/bench/python/external.py dlrm 2 32       the HOTI paper's DLRM: iterations, chunks

All but `exchange` need ns-3 (`apt-get install libns3-dev`). All times are CPU times. Results:
lab/results/2026-11-25-external.md."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import armillary as arm
from armillary import api

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests/python"))

from ns3 import HOSTS, LOSSES, TCP, Drawn, backend, drawn, recorded_runs, star  # noqa: E402

SEED = 20261125


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def exchange() -> None:
    """Time for each transfer of the C example, less that of the same model inside: wall time, which
    needs a calm machine, and CPU time of both processes. One waits while the other works."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "queues"
        source = ROOT / "adapters/c/queues.c"
        subprocess.run(["cc", "-O2", "-o", str(program), str(source)], check=True)
        print("| collective | NPUs | transfers | inside | outside | us | CPU us |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for topology, kind, algorithm, chunks in (
            ("Switch(128)", "all_reduce", "direct", 4),
            ("Switch(128)", "all_to_all", "direct", 4),
            ("Ring(128)", "all_reduce", "ring", 4),
            ("Ring(8)_Switch(16)", "all_reduce", "ring", 8),
            ("Ring(2)", "all_reduce", "ring", 20_000),
        ):
            settings: dict[str, object] = {
                f"collectives.{kind}": algorithm,
                "scheduler.chunks": chunks,
                "network.link.switching": "store_and_forward",
            }
            dims = topology.count("(")
            platform = arm.Platform(
                topology,
                bandwidth=["12.5 GB/s"] * dims,
                latency=["500 ns"] * dims,
                per=["link"] * dims,
                settings=settings,
            )
            best: dict[str, tuple[float, float]] = {}
            transfers = 0
            for name in ("link", f"external:{program}"):
                key = name.partition(":")[0]
                for _ in range(3):
                    clock, cpu = time.perf_counter(), time.process_time() + _children()
                    outcome = arm._core.collective(
                        kind, 8_000_000, platform._core, name, False, 0, None
                    )
                    took = time.perf_counter() - clock, time.process_time() + _children() - cpu
                    known = best.get(key, took)
                    best[key] = min(known[0], took[0]), min(known[1], took[1])
                transfers = json.loads(outcome.report())["counts"]["transfers"]
            (inside, inside_cpu), (outside, outside_cpu) = best["link"], best["external"]
            each = (outside - inside) / transfers * 1e6
            each_cpu = (outside_cpu - inside_cpu) / transfers * 1e6
            print(
                f"| {kind} {algorithm}, {topology} | {platform.npus} | {transfers:,} "
                f"| {inside * 1e3:.0f} ms | {outside * 1e3:.0f} ms | {each:.2f} | {each_cpu:.2f} |"
            )


def ns3() -> None:
    """`packet` next to live ns-3."""
    name = backend()
    print("| workload | packet, us | ns-3, us | difference |")
    print("| --- | --- | --- | --- |")
    for each in drawn(SEED, 20):
        ours, theirs = each.run("packet"), each.run(name)
        off = ours["us"] / theirs["us"] - 1
        print(f"| {_words(each)} | {ours['us']:,.3f} | {theirs['us']:,.3f} | {off:+.3%} |")
    print("\n| workload, buffer | network | time, us | drops | sent again | timeouts |")
    print("| --- | --- | --- | --- | --- | --- |")
    for each in drawn(SEED, 4, lossy=True):
        for label, network in (("packet", "packet"), ("ns-3", name)):
            run = each.run(network)
            counts = " | ".join(str(run[key]) for key in LOSSES)
            print(f"| {_words(each)}, {each.buffer} B | {label} | {run['us']:,.3f} | {counts} |")


def _words(each: Drawn) -> str:
    return (
        f"{each.topology} {each.kind} {each.algorithm}, {each.size:,} B, {each.bandwidth}, "
        f"{each.latency}, MTU {each.mtu}, {each.chunks} chunks"
    )


def speed() -> None:
    """Both on one workload in one run: a direct all-reduce of 32 hosts at one switch."""
    platform = star(32, 9000, 500_000)
    print("| network | hops | CPU s | hops / CPU s |")
    print("| --- | --- | --- | --- |")
    for label, network in (("packet", "packet"), ("ns-3", backend())):
        begin, children = time.process_time(), _children()
        report = api.collective_result("all_reduce", 4_000_000, platform, backend=network).report
        used = time.process_time() - begin + _children() - children
        packets = report["packets"]
        hops = packets["hops"] if packets else 0
        print(f"| {label} | {hops:,} | {used:.2f} | {hops / used:,.0f} |")


def recorded(mtu: str) -> None:
    """Recorded runs without losses, through the whole stack on live ns-3. Fails beyond 1 %."""
    for run in recorded_runs():
        if run.mtu != int(mtu):
            continue
        begin = _children()
        ours = run.again(backend())
        off = ours / run.us - 1
        print(
            f"| {run} | {run.us:,.3f} | {ours:,.3f} | {off:+.4%} | {_children() - begin:.0f} |",
            flush=True,
        )
        assert abs(off) <= 0.01, run


def dlrm(iterations: str, chunks: str) -> None:
    """The HOTI paper's DLRM on its flat system with 128 NPUs, on `packet` and on ns-3."""
    from armillary_lab.studies.hoti import PACKETS, SYSTEMS

    buffer = {"network.packet.buffer": "7812500 B", "scheduler.chunks": int(chunks)}
    platform = arm.Platform.load(SYSTEMS["flat100"], settings={**TCP, **PACKETS, **buffer})
    workload = arm.workload.build("dlrm-hoti", dp=HOSTS, passes=int(iterations))
    print("| network | step, ms | transfers | hops | drops | CPU s of it | of Armillary |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for label, network in (("packet", "packet"), ("ns-3", backend())):
        begin, children = time.process_time(), _children()
        report = arm.simulate(workload, platform, backend=network).report
        packets = report["packets"]
        assert packets is not None
        print(
            f"| {label} | {report['step_time_ns'] / 1e6:.4f} "
            f"| {report['counts']['transfers']:,} | {packets['hops']:,} | {packets['drops']} "
            f"| {_children() - children:.0f} | {time.process_time() - begin:.0f} |",
            flush=True,
        )


PARTS: dict[str, Callable[..., None]] = {
    part.__name__: part for part in (exchange, ns3, speed, recorded, dlrm)
}

if __name__ == "__main__":
    PARTS[sys.argv[1]](*sys.argv[2:])
