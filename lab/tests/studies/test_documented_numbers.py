"""Every number of ours in docs/reference/studies.md is one that its study prints today.

A sentence of the page stands here with names in place of numbers; the study fills them in, and the
page must have the result. Below are the numbers of a section that are not ours: of papers and of
setups. A section has no others. Sections that take minutes to compute are in
`lab/numbers/test_slow_studies.py`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from conftest import ROOT
from documented import Facts, ours, rows, says, study_rows, unchecked

PAGE = ROOT / "docs/reference/studies.md"


def table4() -> Facts:
    times = [row for row in rows("astra2-table4").values() if row.unit == "us"]
    off = {
        fitted: [100 * abs((row.ratio or 0) - 1) for row in times if ("fit" in row.setup) == fitted]
        for fitted in (True, False)
    }
    assert max(off[True]) < 0.1, "the page says: within 0.1 %"
    assert all((row.ratio or 0) < 1 for row in times if "fit" not in row.setup)
    return {"least": min(off[False]), "most": max(off[False])}


def nccl() -> Facts:
    bare, one = (row.ours for row in rows("astra2-nccl").values() if row.unit == "%")
    return {"bare": bare, "one": one}


def themis() -> Facts:
    found = {setup: row.ours for setup, row in rows("themis").items() if row.unit == "x"}
    best = [value for setup, value in found.items() if "W-1D-600 over Conv-4D" in setup]
    assert len(best) == 4
    level = [
        max(abs(value - 1) for setup, value in found.items() if setup.startswith(f"{name}: {over}"))
        for name in ("All-Reduce", "DLRM")
        for over in ("Conv-4D over W-1D-600",)
    ]
    kept = [
        value
        for setup, value in found.items()
        if setup.endswith("Themis") and setup.startswith(("GPT-3", "Transformer-1T"))
    ]
    drives = [found[f"{name}: Conv-4D over W-1D-350"] for name in WORKLOADS]
    lifts = {
        name: [found[f"{name}: Themis over baseline, {each}"] for each in STACKS]
        for name in WORKLOADS
    }
    return {
        "least": min(best),
        "most": max(best),
        **dict(zip(("drive_a", "drive_d", "drive_g", "drive_t"), drives, strict=True)),
        **dict(zip(("a2", "a3", "a4"), lifts["All-Reduce"], strict=True)),
        **dict(zip(("g2", "g3", "g4"), (100 * (1 - x) for x in lifts["GPT-3"]), strict=True)),
        "level_a": 100 * level[0],
        "level_d": 100 * level[1],
        "kept_least": 100 * (min(kept) - 1),
        "kept_most": 100 * (max(kept) - 1),
        "thin": ours("themis", "claims, 16 samples: below the margin"),
    }


WORKLOADS = ("All-Reduce", "DLRM", "GPT-3", "Transformer-1T")
STACKS = ("W-2D", "Conv-3D", "Conv-4D")


def zero_infinity() -> Facts:
    def case(tp: int, ep: int, seq: int, chunk: str) -> tuple[float, float]:
        label = f" (tp {tp}, ep {ep}, {seq} tokens, chunks of {chunk})"
        near = ours("zero-infinity", f"ZeRO-Infinity over HierMem{label}")
        return 100 * (1 / near - 1), ours("zero-infinity", f"HierMem over HierMem (opt){label}")

    def part(name: str) -> float:
        whole = sum(
            row.ours
            for setup, row in rows("zero-infinity").items()
            if setup.startswith("HierMem: ") and row.unit == "ms"
        )
        return 100 * ours("zero-infinity", f"HierMem: {name}") / whole

    near = ours("zero-infinity", "ZeRO-Infinity over HierMem")
    return {
        "near": near,
        "opt": ours("zero-infinity", "HierMem over HierMem (opt)"),
        "wait": ours("zero-infinity", "HierMem: waiting for data"),
        "wait_opt": ours("zero-infinity", "HierMem (opt): waiting for data"),
        "fabric": ours("zero-infinity", "best of the sweep: fabric in a node"),
        "memory": ours("zero-infinity", "best of the sweep: a memory group"),
        "tp4": case(4, 64, 2048, "64 kB")[1],
        "tp2": case(2, 128, 2048, "64 kB")[1],
        "short": case(8, 32, 512, "64 kB")[1],
        "large": case(8, 32, 2048, "1 MB")[0],
        "middle": 100 * (1 / near - 1),
        "small": case(8, 32, 2048, "4 kB")[0],
        "collectives": part("communication"),
        "pool": part("remote memory"),
    }


def memory_pool() -> Facts:
    names = (
        "a remote memory group",
        "a remote memory group to an out-node switch",
        "an out-node switch to a node",
        "in-switch: an out-node switch to a node",
        "in-switch: an in-node switch",
    )
    values = [ours("memory-pool", name) for name in names]
    return dict(zip(("group", "link", "node", "switch", "inner"), values, strict=True))


def wafer_scaling() -> Facts:
    found = {setup: row.ours for setup, row in rows("wafer-scaling").items() if row.unit == "x"}
    sizes = (1024, 2048, 4096)
    facts = {}
    for key, model in (("t", "Transformer-1T"), ("g", "GPT-3")):
        facts[f"{key}_out"] = 100 * (found[f"{model}: Conv-4096 over Base-512"] - 1)
        facts[f"{key}_back"] = 100 * (found[f"{model}: W-4096 over W-2048"] - 1)
        for n in sizes:
            facts[f"{key}{n}"] = found[f"{model}: W-{n} over Conv-{n}"]
            facts[f"{key}s{n}"] = found[f"{model}: W-{n} over Conv-{n}, Switch as dimension 2"]
    return facts


def pictures() -> Facts:
    names = {"a": "dimension 1 has too little", "b": "dimension 2 has too little", "c": "ideal"}
    facts = {}
    for key, words in names.items():
        facts[key] = ours("multidim-allocation", f"({key}) {words}")
        for dim in (1, 2, 3):
            facts[f"{key}{dim}"] = ours("multidim-allocation", f"({key}) busy, dimension {dim}")
    sizes = {
        "vgg": "VGG-16 (2014)",
        "small": "Transformer-17B (2020)",
        "gpt": "GPT-3 (2020)",
        "large": "Transformer-1T (2021)",
    }
    return facts | {key: ours("multidim-communication", each) for key, each in sizes.items()}


def multidim() -> Facts:
    def pair(name: str, setup: str) -> tuple[float, float]:
        return ours(name, f"{setup}, mean"), ours(name, f"{setup}, most")

    speed = [pair("multidim-speedup", f"{each} over EqualBW") for each in ("MessageBW", "SmartBW")]
    cost = [
        pair("multidim-performance-per-cost", f"cost of {each} over MessageBW")
        for each in ("EqualBW", "SmartBW")
    ]
    worth = [
        pair("multidim-performance-per-cost", f"performance per cost of {each} over EqualBW")
        for each in ("MessageBW", "SmartBW")
    ]
    pairs = {"speed_m": speed[0], "speed_s": speed[1], "cost_e": cost[0], "cost_s": cost[1]}
    pairs |= {"worth_m": worth[0], "worth_s": worth[1]}
    used = {
        each: ours("multidim-utilization", f"{each}, mean")
        for each in ("EqualBW", "MessageBW", "SmartBW")
    }
    odd = {
        f"odd_{each}": ours("multidim-utilization", f"{each}, GPT-3 on 3D")
        for each in ("MessageBW", "SmartBW")
    }
    assert ours("multidim-utilization", "MessageBW over SmartBW") < 1
    shapes = ("2D", "3D", "4D")
    return {
        **{name: value[0] for name, value in pairs.items()},
        **{f"{name}_most": value[1] for name, value in pairs.items()},
        **used,
        **odd,
        "rest": 100 * (ours("multidim-utilization", "the same without GPT-3 on 3D") - 1),
        "best": ours("multidim-speedup", "cases in which SmartBW is best"),
        **{
            f"used{each}": ours("multidim-equal-bandwidth", f"utilisation, {each}")
            for each in shapes
        },
        **{
            f"bound{each}": ours("multidim-equal-bandwidth", f"speed-up bound, {each}")
            for each in shapes
        },
        **{
            f"last{each}": ours(
                "multidim-last-dimension", f"Transformer-1T, {each}, last dimension"
            )
            for each in shapes
        },
        **{
            f"run{each}": ours(
                "multidim-speedup", f"SmartBW over EqualBW, Transformer-1T, 300 GB/s, {each}"
            )
            for each in shapes
        },
    }


def topologies() -> Facts:
    ends, verdicts = ("64 KiB", "64 MiB"), rows("ispass-dimensions")
    pairs = {"line": ("1x64x1", "1x8x8"), "flat": ("2x8x4", "1x8x8"), "cube": ("2x8x4", "4x4x4")}
    found = {
        f"{name}_{end}": verdicts[f"{slow} over {fast} at {size}"].ours
        for name, (slow, fast) in pairs.items()
        for end, size in zip(("small", "large"), ends, strict=True)
    }
    beats = "4x4x4 beats 1x8x8 up to"
    gaps = [
        row.ours
        for setup, row in rows("ispass-topology").items()
        if "ring over switches at" in setup and "hardware" not in setup
    ]
    faster = rows("ispass-hierarchy")
    return {
        **found,
        "square_small": verdicts["1x8x8 over 4x4x4 at 64 KiB"].ours,
        "square_large": 1 / verdicts["4x4x4 over 1x8x8 at 64 MiB"].ours,
        "even": verdicts[beats].ours,
        "slow": verdicts[f"endpoint delay 10 us: {beats}"].ours,
        "gap_small": max(gaps),
        "gap_large": min(gaps),
        "limit": ours("ispass-topology", "all-reduce, switches over ring at 64 MiB"),
        "asymmetric": faster["all-reduce, symmetric over asymmetric at 64 MiB"].ours,
        "enhanced": faster["all-reduce, baseline over enhanced at 64 MiB"].ours,
        "chunks": faster["all-reduce, 16 chunks, baseline over enhanced at 64 MiB"].ours,
    }


def waits() -> Facts:
    found = {setup: row.ours for setup, row in rows("ispass-breakdown").items()}
    times = [found[f"{shape}: time"] for shape in ("2x4x2", "2x4x4", "2x4x8")]
    return {
        "slow": 100 * (times[1] / times[0] - 1),
        "jump": 100 * (times[2] / times[1] - 1),
        "p2": found["2x4x4: queue P2"],
        "over": found["2x4x4: wait in queue P2 over the longest other"],
        "p3": found["2x4x2: queue P3"],
        "slow4": found["growth 2x4x2 to 2x4x4, 4 chunks, 16 MiB"],
        "jump4": found["growth 2x4x4 to 2x4x8, 4 chunks, 16 MiB"],
        "slow16": found["growth 2x4x2 to 2x4x4, 16 chunks, 16 MiB"],
        "jump16": found["growth 2x4x4 to 2x4x8, 16 chunks, 16 MiB"],
    }


def layers() -> Facts:
    found = rows("ispass-layers")
    assert found["ResNet-50: time, FIFO over LIFO"].ours == 1, "the page says: to the picosecond"
    every = found["ResNet-50, LIFO in every queue: time, FIFO over LIFO"].ours
    return {"every": 100 * (every - 1)}


def scaling() -> Facts:
    found = {setup: row.ours for setup, row in rows("resnet50-scaling").items()}
    shared = study_rows("resnet50-scaling", "flow")
    whole = "2x8x8 (128 NPUs), published"
    return {
        "least": found["2x2x2 (8 NPUs), published"],
        "whole": found[whole],
        "every": found["2x8x8, published, LIFO in every queue"],
        "one": found["2x8x8, published, 1 chunk"],
        "many": found["2x8x8, published, 64 chunks"],
        "flow": next(row.ours for row in shared if row.setup == whole),
        "half": next(
            row.ours
            for setup, row in rows("resnet50-compute-power").items()
            if setup.startswith("0.5x") and setup.endswith("published")
        ),
    }


SENTENCES: dict[str, tuple[Callable[[], Facts], list[str]]] = {
    "A1": (table4, ["ours are {least:.2f} to {most:.2f} % shorter than all seven times"]),
    "A2": (nccl, ["the error is {bare:.1f} %", "on 8 GPUs) it is {one:.1f} %"]),
    "A4": (
        themis,
        [
            "W-1D-600 takes {least:.2f} to {most:.2f} of the best other",
            "| {drive_a:.2f} (all-reduce, DLRM), {drive_g:.3f} (GPT-3), {drive_t:.2f} "
            "(Transformer-1T) |",
            "| all-reduce to {a2:.2f}, {a3:.2f}, {a4:.2f} of the baseline; GPT-3 gains {g2:.3f}, "
            "{g3:.2f}, {g4:.2f} %, below the margin",
            "| within {level_a:.1f} % and {level_d:.1f} % |",
            "| by {kept_least:.1f} to {kept_most:.0f} % |",
            "no claim fails, but {thin:.0f} of the 44 are below the margin",
        ],
    ),
    "A5": (
        zero_infinity,
        [
            "| 0.999 | {near:.4f} |",
            "| 4.6 | {opt:.3f} |",
            "| {wait:.1f} % of the step, {wait_opt:.1f} % with the best pool |",
            "| 512 and 500 GB/s | {fabric:.0f} and {memory:.0f} GB/s |",
            "With tensor parallelism 4 and 2 the gain is {tp4:.2f} and {tp2:.2f}",
            "With 512 tokens it is {short:.2f}",
            "With 1 MB the pool is {large:.2f} % slower than ZeRO-Infinity, with 64 kB "
            "{middle:.2f} % slower, and with 4 kB {small:.2f} % slower",
            "collectives ({collectives:.1f} %) and accesses to the pool ({pool:.1f} %)",
        ],
    ),
    "A6": (
        memory_pool,
        [
            "The loads are {group:.0f}W, {link:.0f}W and {node:.0f}W, and {switch:.0f}W and "
            "{inner:.0f}W in the switches",
        ],
    ),
    "A7": (
        wafer_scaling,
        [
            "| {t_out:+.1f} % at 4,096 NPUs | {g_out:+.1f} % |",
            "| {t1024:.2f}, {t2048:.2f}, {t4096:.2f} of the time | {g1024:.2f}, {g2048:.2f}, "
            "{g4096:.2f} |",
            "| {t_back:+.2f} %: fails | {g_back:+.1f} %: fails |",
            "GPT-3 takes {gs1024:.2f}, {gs2048:.2f}, {gs4096:.2f} of the time",
        ],
    ),
    "B7": (
        pictures,
        [
            "{a:.1f} ms | {a1:.0f}, {a2:.0f}, {a3:.0f} % |",
            "{b:.1f} ms | {b1:.0f}, {b2:.0f}, {b3:.0f} % |",
            "{c:.1f} ms | {c1:.0f}, {c2:.0f}, {c3:.0f} % |",
            "VGG-16 gives {vgg:.2f} GB to collectives in a step, one of Transformer-17B "
            "{small:.0f} GB, of GPT-3 {gpt:.0f} GB, and of Transformer-1T {large:.0f} GB",
        ],
    ),
    "B": (
        multidim,
        [
            "| 1.10x (1.45x) | {speed_m:.2f}x ({speed_m_most:.2f}x) |",
            "| {speed_s:.2f}x ({speed_s_most:.2f}x), best in all {best:.0f} |",
            "| {EqualBW:.1f}, {MessageBW:.1f}, {SmartBW:.1f} % |",
            "| {used2D:.1f}, {used3D:.1f}, {used4D:.1f} % |",
            "| {bound2D:.2f}x, {bound3D:.2f}x, {bound4D:.2f}x |",
            "| 7.77x (13.82x) | {cost_e:.2f}x ({cost_e_most:.2f}x) |",
            "| 1.65x (4.13x) | {cost_s:.2f}x ({cost_s_most:.2f}x) |",
            "| 8.52x (17.02x) | {worth_m:.2f}x ({worth_m_most:.2f}x) |",
            "| 5.51x (15.37x) | {worth_s:.2f}x ({worth_s_most:.2f}x) |",
            "| falls: 1T {last2D:.0f}, {last3D:.0f}, {last4D:.0f} GB |",
            "There ours uses {odd_MessageBW:.1f} % with MessageBW and {odd_SmartBW:.1f} % with "
            "SmartBW.",
            "MessageBW is {rest:.1f} % above SmartBW",
            "it gains less: {run2D:.2f}x, {run3D:.2f}x, {run4D:.2f}x for Transformer-1T",
        ],
    ),
    "D1": (
        topologies,
        [
            "by {gap_large:.1f}x to {gap_small:.1f}x here",
            "all-reduce of 64 MiB by {limit:.3f}x",
            "| 1x8x8 beats 1x64x1 | {line_small:.2f}x | {line_large:.2f}x |",
            "| 2x8x4 is worse than 1x8x8 | {flat_small:.2f}x | {flat_large:.2f}x |",
            "| 4x4x4 beats 2x8x4 | {cube_small:.2f}x | {cube_large:.2f}x |",
            "| {square_small:.2f}x | {square_large:.2f}x |",
            "are even at {even:.2f} MiB instead of 4 MB",
            "are even at {slow:.1f} MiB",
            "baseline all-reduce {asymmetric:.1f}x faster",
            "the enhanced one is {enhanced:.1f}x faster still",
            "raise the second gain to {chunks:.1f}x",
        ],
    ),
    "D4": (
        waits,
        [
            "grows by {slow:.1f} %, from 2x4x4 to 2x4x8 by {jump:.1f} %",
            "waits {p2:.1f} us there, {over:.1f} times as long",
            "it waits {p3:.1f} us in P3",
            "two growths are {slow4:.1f} and {jump4:.1f} %",
            "they are {slow16:.1f} and {jump16:.1f} %",
        ],
    ),
    "D5": (layers, ["FIFO would take {every:.1f} % longer"]),
    "D6": (
        scaling,
        [
            "| 4.1 % | {least:.1f} % |",
            "| 25.2 % | {whole:.1f} % |",
            "| below 1 % | {half:.1f} % |",
            "from {every:.1f} % (LIFO in every queue) over {one:.1f} % (1 chunk) to "
            "{many:.1f} % (64 chunks)",
            "share its links, it is {flow:.1f} %",
        ],
    ),
}


SECTIONS = {
    "A1 to A4": ("A1", "A2", "A4"),
    "A5 and A6": ("A5", "A6"),
    "A7": ("A7",),
    "B1 to B6": ("B",),
    "B7 and B8": ("B7",),
    "D1 to D3": ("D1",),
    "D4": ("D4",),
    "D5": ("D5",),
}
NOT_OURS = {
    "A1 to A4": (
        "ASTRA-sim 2.0",
        "are within 0.1 %",  # checked in `table4`
        "a mean error of 5 % against NCCL",
        "takes 1.70 s and 3.14 s",
        "takes 1.7 CPU s on `flow`",
        'count from 1 %, and "equal" is within 6 %',
    ),
    "A7": ("ASTRA-sim 2.0",),
    "B7 and B8": (),
    "D1 to D3": (),
    "D4": (
        "here they are 16 MiB and 64",
        "With 4 chunks",
        "With 16",
        "`T = 8` and `P = 16`",
    ),
    "D5": (),
    "A5 and A6": ("ASTRA-sim 2.0", "within 5 % of its best"),
    "B1 to B6": (
        "arXiv:2109.11762",
        "1.17x (1.86x), best everywhere",
        "56.67, 96.59, 94.46 %",
        "57.53, 39.02, 66.74 %",
        "1.39x, 1.83x, 1.29x",
        "which gives SmartBW 7.77x and EqualBW 1.65x",
        "has 5.51x the performance per cost",
        "is 7.77 / 1.65 x 1.17, so EqualBW costs 7.77x",
    ),
}
"""What a section says of papers and setups, and of runs that no test repeats."""


@pytest.mark.parametrize("title", SECTIONS)
def test_a_section_has_no_number_that_nothing_checks(title: str) -> None:
    templates = [each for code in SECTIONS[title] for each in SENTENCES[code][1]]
    assert unchecked(PAGE, title, templates, NOT_OURS[title]) == []


@pytest.mark.parametrize("code", SENTENCES)
def test_the_page_says_what_the_study_prints(code: str) -> None:
    facts, sentences = SENTENCES[code]
    assert says(PAGE, sentences, facts()) == []
