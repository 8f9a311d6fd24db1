"""Tables and sentences of docs/reference/studies.md that take minutes to compute. Quick ones are in
`lab/tests/studies/test_documented_numbers.py`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from documented import Facts, ours, rows, says, unchecked

from armillary_lab.predict.peak_memory import MEGATRON, NANOTRON, failed, measured
from armillary_lab.score import peak_memory
from armillary_lab.studies import dlrm_injection, dlrm_topology, neo, neo_optimizations
from armillary_lab.studies.hoti import PORTS, loop

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/studies.md"
NETWORKS = ("analytical", "link", "flow", "flit")


def packets() -> Facts:
    found = {setup: row.ours for setup, row in rows("packet-all-reduce", "packet").items()}
    shallow, deep = "64 MB buffer", "1 GB buffer"
    return {
        "most": found[f"trees, {deep}: most above 2 D / BW"],
        "again": found[f"trees, {deep}: sent again"],
        "trees64": found[f"64 MB, {deep}: trees over direct"],
        "trees8": found[f"8 MB, {shallow}: trees over direct"],
        "trees256": found[f"256 MB, {shallow}: trees over direct"],
        "used": found[f"direct, 256 MB, {deep}: utilization"],
        "over16": found[f"direct, 16 MB, {shallow}: over 2 D / BW"],
        "rotation": found["the same in rotation"],
        "random": found[f"direct, 8 MB, {shallow}: above 2 D / BW"],
        "small": found[f"direct, 8 MB, {deep}, MTU 1500, random: above 2 D / BW"],
        "middle": found[f"direct, 8 MB, {deep}, MTU 4096, random: above 2 D / BW"],
        "large": found[f"direct, 8 MB, {deep}, MTU 9000, random: above 2 D / BW"],
    }


def flits() -> Facts:
    names = {
        "d1": ("ispass-topology", "all-reduce, switches over ring at 64 MiB"),
        "d2": ("ispass-dimensions", "4x4x4 beats 1x8x8 up to"),
        "d3": ("ispass-hierarchy", "all-reduce, baseline over enhanced at 64 MiB"),
        "d4": ("ispass-breakdown", "growth 2x4x4 to 2x4x8 over 2x4x2 to 2x4x4"),
        "queue": ("ispass-breakdown", "2x4x4: wait in queue P2 over the longest other"),
        "layers": (
            "ispass-layers",
            "Transformer: communication, most of layers 1 to 6 over the least",
        ),
        "d6": ("resnet50-scaling", "2x8x8 (128 NPUs), published"),
        "d7": ("resnet50-compute-power", "4x compute, published"),
    }
    facts = {}
    for key, (name, setup) in names.items():
        for network in NETWORKS:
            facts[f"{key}_{network}"] = ours(name, setup, network)
        assert facts[f"{key}_link"] == pytest.approx(facts[f"{key}_analytical"], rel=1e-3), key
    return facts


def memory() -> Facts:
    found = {setup: row.ours for setup, row in rows("validate-memory").items()}
    one, sharded, megatron = (
        "nanotron, tp 1 (128)",
        "nanotron, tp 2 to 32 (1093)",
        "Megatron-LM (30)",
    )
    facts = {"all": found[f"{megatron}: within 10 %"]}
    assert facts["all"] == 100
    for key, name in (("one", one), ("sharded", sharded), ("megatron", megatron)):
        facts[key] = found[f"{name}: median error"]
        facts[f"{key}_within"] = found[f"{name}: within 10 %"]
    return facts


def deepseek() -> Facts:
    found = {setup: row.ours for setup, row in rows("deepseek-v3").items()}
    whole = found["GPU hours for 10^12 tokens"]
    changes = {
        "nodes": "10 % less between nodes",
        "busy": "busiest experts with 10 % more tokens",
        "wide": "dispatch in 16 bits",
        "each": "tokens sent to each expert",
        "passes": "passes after one another",
        "plain": "1F1B, passes after one another",
        "attention": "32 % of the peak in attention",
        "slower": "multiplications 5 % slower",
        "faster": "multiplications 5 % faster",
        "free": "no multiprocessors for communication",
        "single": "no multi-token prediction",
    }
    return {
        "hours": whole,
        "step": found["a step"],
        "memory": found["fullest GPU"],
        "operations": found["operations a token"],
        "half": found["operations a token, half of all scores"],
        **{key: 100 * (found[setup] / whole - 1) for key, setup in changes.items()},
    }


def llama() -> Facts:
    found = {setup: row.ours for setup, row in rows("llama-405b").items()}
    long = "16,384 GPUs, 131,072 tokens"
    return {
        "small": found["8,192 GPUs, 8,192 tokens"],
        "large": found["16,384 GPUs, 8,192 tokens"],
        "long": found[long],
        "faster": found["131,072 tokens, unmasked blocks 370 / 319 as fast"],
        "ring": 100 * (found["131,072 tokens, keys and values in a ring"] / found[long] - 1),
    }


def throughput() -> Facts:
    found = {setup: row.ours for setup, row in rows("neo-throughput").items()}
    facts: dict[str, float] = {}
    for key in ("A", "F", "I"):
        rate, own = found[f"model {key}"], f"model {key}, "
        others = [value for setup, value in found.items() if _other_draw(setup, own)]
        facts |= {
            key: rate,
            f"{key}_least": min(others),
            f"{key}_most": max(others),
            f"{key}_share": found[f"{own}share of Eq. 1"],
        }
    papers = {"A": 1.2, "F": 1.7, "I": 3.4}
    for key, printed in papers.items():
        facts[f"{key}_paper"] = found[f"model {key}, paper's {printed} M over Eq. 1"]
        facts[f"{key}_times"] = facts[key] / printed
    facts["A_best"] = found["model A, paper's 1.5 M over Eq. 1"]
    facts["A_off"] = 100 * (1 - facts["A_times"])
    return facts


def _other_draw(setup: str, own: str) -> bool:
    return setup.startswith(own) and any(word in setup for word in ("seed", "skew"))


def scaling() -> Facts:
    found = {setup: row.ours for setup, row in rows("neo-scaling").items()}
    return {
        "a": found["model A, 128 GPUs"],
        "i": found["model I, 128 GPUs"],
        "exposed": found["model A, 128 GPUs, exposed over serialized"],
    }


def optimizations() -> Facts:
    found = {setup: row.ours for setup, row in rows("neo-optimizations").items()}
    steps = {
        "sharding": "optimized sharding",
        "tables": "FP16 tables",
        "messages": "16-bit all-to-alls",
        "batch": "batch of 256 K",
    }
    facts = {"baseline": found["baseline"], "whole": found["all together, gain"]}
    for key, setup in steps.items():
        facts |= {key: found[setup], f"{key}_gain": found[f"{setup}, gain"]}
    others = [value for setup, value in found.items() if setup.startswith("all together, seed")]
    return {**facts, "least": min(others), "most": max(others)}


def appendix() -> Facts:
    found = {setup: row.ours for setup, row in rows("neo-benchmarks").items()}
    return {
        "a100": found["A100: lookups, FP32"],
        "v100": found["V100: lookups, FP32"],
        "product_a": found["A100: product of 4096^3, FP16"],
        "product_v": found["V100: product of 4096^3, FP16"],
        "all_to_all": found["128 GPUs: all-to-all, 256 MB"],
        "all_reduce": found["128 GPUs: all-reduce, 256 MB"],
    }


def gains() -> Facts:
    found = {setup: row.ours for setup, row in rows("neo-memory").items()}
    fused = "samples each: fused tables over single ones"
    return {
        "naive": ours("neo-memory", "model F, FP32, AdaGrad"),
        "smaller": ours("neo-memory", "model F, FP16, row-wise AdaGrad"),
        "many": found[f"model A on 8 GPUs, 512 {fused}"],
        "few": found[f"model A on 8 GPUs, 64 {fused}"],
        "cache": found["model F, cache over none, without pipelining"],
        "zion": found["ZionEX over Zion"],
    }


def dlrm() -> Facts:
    topology = "dlrm-topology"
    facts = {}
    for key, system in (
        ("f1", "flat100"),
        ("f8", "flat800"),
        ("h", "hier100"),
        ("o", "hierOpt100"),
    ):
        facts[key] = ours(topology, f"{system}, whole")
        facts[f"{key}b"] = ours(topology, f"{system}, to the last computation")
        facts[f"{key}4"] = ours(topology, f"{system}, 4 chunks")
        facts[f"{key}16"] = ours(topology, f"{system}, 16 chunks")
    slower = dlrm_injection.rows(("analytical",), tuple(dlrm_injection.SLOWER))
    delayed = {row.setup: row.ours for row in slower}
    bound = rows(topology)["flat100: least time of two iterations' reductions"]
    line = "flat800, 100 us over 10 ns, extended to 1,024 chunks"
    return {
        **facts,
        "flat": ours(topology, "flat800 over flat100"),
        "hier": ours(topology, "hierOpt100 over hier100"),
        "floor": bound.ours,
        "left": bound.reference.value or 0,
        "slower": delayed["hierOpt100, 100 us over 10 ns"],
        "share": delayed["hierOpt100, 10 ns: compute"],
        "slow_share": delayed["hierOpt100, 100 us: compute"],
        "eight": delayed["hierOpt100, 100 us over 10 ns, 8 chunks"],
        "slower_f": delayed["flat800, 100 us over 10 ns"],
        "line": delayed[line],
        "range_f": ours("dlrm-chunks", "flat800, exposed, most over least"),
        "range_o": ours("dlrm-chunks", "hierOpt100, exposed, most over least"),
    }


SENTENCES: dict[str, tuple[Callable[[], Facts], list[str]]] = {
    "C": (
        dlrm,
        [
            "| 73.1 % | {f1:.1f} % | {f1b:.1f} % |",
            "| 20 % | {f8:.1f} % | {f8b:.1f} % |",
            "| 73.2 % | {h:.1f} % | {hb:.1f} % |",
            "| 22.1 % | {o:.1f} % | {ob:.1f} % |",
            "| 2.97x | | {flat:.2f}x |",
            "| 2.91x | | {hier:.2f}x |",
            "need {floor:.1f} ms on flat100's links. With our computation, 73.1 % exposed means "
            "{left:.1f} ms in all",
            "are {f14:.1f}, {f84:.1f}, {h4:.1f} and {o4:.1f} %, with 16 they are {f116:.1f}, "
            "{f816:.1f}, {h16:.1f} and {o16:.1f} %",
            "becomes {slower:.2f}x slower (paper: 4.53x), and its share of computation falls from "
            "{share:.1f} to {slow_share:.1f} % (77.8 to 17.5 %)",
            "with 8 chunks it is {eight:.2f}x",
            "and becomes {slower_f:.2f}x slower",
            "reaches {line:.0f}x at the paper's 1,024 (paper: around 50x)",
            "the exposed time varies {range_f:.2f}x on flat800 and {range_o:.2f}x on hierOpt100",
        ],
    ),
    "C1": (
        packets,
        [
            "| 16 % | {most:.1f} % |",
            "| trees, 1 GB buffer: sent again | 0 | {again:.0f} |",
            "| below 1 | {trees64:.3f}x |",
            "| below 1, above 1 | {trees8:.3f}x, {trees256:.2f}x |",
            "| 52 % | {used:.0f} % |",
            "| 50x | {over16:.0f}x |",
            "| 37 % | {rotation:.2f} % in rotation, {random:,.0f} % at random |",
            "moves the result from {rotation:.2f} to {random:,.0f} %",
            "9,000 B give {small:.1f}, {middle:.1f} and {large:.1f} %",
        ],
    ),
    "D on flits": (
        flits,
        [
            "switches over ring | {d1_analytical:.3f}x | {d1_flow:.3f}x | {d1_flit:.3f}x |",
            "4x4x4 beats 1x8x8 up to | {d2_analytical:.3f} MiB | {d2_flow:.3f} MiB "
            "| {d2_flit:.3f} MiB |",
            "baseline over enhanced | {d3_analytical:.2f}x | {d3_flow:.2f}x | {d3_flit:.2f}x |",
            "2x4x2 to 2x4x4 | {d4_analytical:.1f}x | {d4_flow:.1f}x | {d4_flit:.1f}x |",
            "over the longest other | {queue_analytical:.1f}x | {queue_flow:.1f}x "
            "| {queue_flit:.1f}x |",
            "over the least | {layers_analytical:.3f}x | {layers_flow:.3f}x | {layers_flit:.3f}x |",
            "communication on 2x8x8 | {d6_analytical:.1f} % | {d6_flow:.1f} % | {d6_flit:.1f} % |",
            "4 times the compute power | {d7_analytical:.1f} % | {d7_flow:.1f} % "
            "| {d7_flit:.1f} % |",
        ],
    ),
    "V3": (
        memory,
        [
            "layers cut | 30 | {megatron:.1f} % | all |",
            "| 128 | {one:.1f} % | {one_within:.0f} % |",
            "| 1,093 | {sharded:.1f} % | {sharded_within:.0f} % |",
        ],
    ),
    "V4": (
        deepseek,
        [
            "| 180 K | {hours:.1f} K |",
            "| 19.926 s | {step:.2f} s |",
            "| fits in 80 GB | {memory:.1f} GB |",
            "| 280.2, 249.7 GFLOP | {operations:.1f}, {half:.1f} GFLOP |",
            "bandwidth between nodes | {nodes:+.1f} % |",
            "with 10 % more tokens | {busy:+.1f} % |",
            "| dispatch in 16 bits | {wide:+.1f} % |",
            "| tokens sent to each expert | {each:+.0f} % |",
            "| passes one after the other | {passes:+.0f} % |",
            "| 1F1B without overlap | {plain:+.0f} % |",
            "FlashAttention-2's kernels alone | {attention:+.0f} % |",
            "5 % slower, faster | {slower:+.1f} %, {faster:+.1f} % |",
            "| no multiprocessors for communication | {free:+.1f} % |",
            "| no multi-token prediction | {single:+.1f} % |",
        ],
    ),
    "V5": (
        llama,
        [
            "| 430 | {small:.1f} |",
            "| 400 | {large:.1f} |",
            "| 380 | {long:.1f} |",
            "times that factor, 0.238, ours is {faster:.0f}.",
            "instead of gathered are worth {ring:.1f} %",
        ],
    ),
    "E1": (
        throughput,
        [
            "| 1.2 M | {A:.2f} M | {A_least:.2f} to {A_most:.2f} M | {A_share:.0f} % "
            "| {A_paper:.0f} %; its best, 1.5 M, {A_best:.0f} % |",
            "| 1.7 M | {F:.2f} M | {F_most:.2f} M | {F_share:.0f} % | {F_paper:.0f} % |",
            "| 3.4 M | {I:.2f} M | {I_least:.2f} to {I_most:.2f} M | {I_share:.0f} % "
            "| {I_paper:.0f} % |",
            "**Model A** is within {A_off:.0f} %.",
            "**Model I is {I_times:.1f} times too fast.**",
            "**Model F is {F_times:.1f} times too fast.**",
        ],
    ),
    "E2": (
        scaling,
        [
            "is {a:.0f} % for model A (paper: around 50 %) and {i:.0f} % for model I",
            "Exposed communication is {exposed:.2f} of",
        ],
    ),
    "E3": (
        optimizations,
        [
            "| below 0.7 M | {baseline:.3f} | | |",
            "| optimized sharding | | {sharding:.3f} | 20 % | {sharding_gain:.0f} % |",
            "| FP16 tables | | {tables:.3f} | 20 % | {tables_gain:.0f} % |",
            "| 16-bit all-to-alls | | {messages:.3f} | almost 30 % | {messages_gain:.0f} % |",
            "| 256 K samples | | {batch:.3f} | | {batch_gain:.0f} % |",
            "| all together | 1.31 M | {batch:.3f} | 87 % | {whole:.0f} % |",
            "Other seeds and spreads gain {least:.0f} to {most:.0f} % in all.",
        ],
    ),
    "E4": (
        appendix,
        [
            "lookups reach {a100:,.0f} GB/s on an A100 and {v100:.0f} GB/s on a V100",
            "products {product_a:.1f} and {product_v:.1f} %",
            "all-to-all {all_to_all:.1f} GB/s, all-reduce {all_reduce:.1f} GB/s",
        ],
    ),
    "E5": (
        gains,
        [
            "take {naive:.1f} TB in FP32 with AdaGrad and {smaller:.1f} TB in FP16",
            "are {many:.1f} times as fast as three kernels for each table with 512 samples on each "
            "of 8 GPUs, and {few:.0f} times with 64",
            "gains {cache:.0f} % over reading every row",
            "are {zion:.1f} times slower than ZionEX",
        ],
    ),
}


@pytest.mark.filterwarnings("ignore:this run simulates")
@pytest.mark.parametrize("code", SENTENCES)
def test_the_page_says_what_the_study_prints(code: str) -> None:
    facts, sentences = SENTENCES[code]
    assert says(PAGE, sentences, facts()) == []


# On other backends these studies take minutes, so these were copied by hand.
NOT_OURS_IN_C = (
    "| flat100 | 77.1 % | 89.0 % |",
    "| flat800 | 9.6 % | 32.3 % |",
    "| hier100 | 75.3 % | 86.1 % |",
    "| hierOpt100 | 18.8 % | 31.6 % |",
    "| flat800 over flat100 | 3.95x | 6.18x |",
    "| hierOpt100 over hier100 | 3.28x | 4.91x |",
    "hierOpt100 becomes 1.23x slower and flat800 1.34x",
    # On packets: the last column of C2, C3, C4, and the first half of C5.
    " 79.2 % |",
    " 21.5 % |",
    " 75.5 % |",
    " 19.8 % |",
    " 3.77x |",
    " 3.27x |",
    "within 6.1 points of the paper's",
    "| flat800 | 78.5 to 1.7 % (79.9 to 1.5 %) | 47x (around 50x) |",
    "| hierOpt100 | 80.2 to 18.0 % (77.8 to 17.5 %) | 4.44x (4.53x) |",
    "| flat100 | 20.8 % | 20.8 % |",
    "| flat800 | 78.5 % | 78.5 % |",
    "| hier100 | 1.8 % | 24.5 % |",
    "| hierOpt100 | 80.2 % | 80.2 % | 3.4 %, 77.8 % |",
    "under way are 0.5 MB",
    "by 1 %. With 32 MB",
    "(9.9 and 5.3 %)",
    "The paper's 22.9 times",
    "varies 1.50x (paper: 1.54x) and its whole time 9.8 % (7.4 %)",
    "these are 3.41x (8.89x) and 18 % (21.5 %)",
    "128 chunks, exposes 7.4 %",
)


def test_the_section_of_dlrm_has_no_number_that_nothing_checks() -> None:
    assert unchecked(PAGE, "C2 to C5", SENTENCES["C"][1], NOT_OURS_IN_C) == []


def test_over_tcp_the_hierarchical_system_is_as_in_the_paper() -> None:
    """hierOpt100 exposes within 4 percentage points of 22.1 %, with buffers of 1 GB and nothing
    lost. Shallow buffers stop it: one timeout of 50 ms is longer than six iterations. The paper has
    22.9 times at 64 MB; ours needs a little less room than that, or more chunks under way."""
    deep = loop("hierOpt100", "packet")
    assert deep.exposed_before_last == pytest.approx(dlrm_topology.EXPOSED["hierOpt100"], abs=4)
    assert deep.timeouts == 0
    shallow = loop("hierOpt100", "packet", 32_000_000)
    crowded = loop("hierOpt100", "packet", 64_000_000, active_chunks=128)
    for run in (shallow, crowded):
        assert run.timeouts > 0
        assert run.computed > 5 * deep.computed
    # With the paper's chunks under way, nothing differs at 64 MB: no port ever holds its part.
    assert deep.fullest <= 64_000_000 // PORTS


def test_model_a_is_within_15_percent_of_table_3() -> None:
    """1.2 M samples/s; the paper's rooflines are 15 % above its measurements."""
    found = neo.model_a()
    assert found.rate == pytest.approx(1.2, rel=0.15)
    assert found.rate < found.roofline
    # Copies of inputs are hidden, all-reduces mostly, all-to-alls not (Fig. 10).
    assert found.exposed < found.serialized("all_to_all") + found.serialized("all_reduce")


def test_optimizations_start_below_700_k_and_gain() -> None:
    """Fig. 11; single gains differ from the paper's, and the study says why."""
    model = neo.drawn("dlrm-neo-a")
    names = ("baseline", "16-bit all-to-alls")
    first, last = (neo.step(model, **neo_optimizations.OPTIONS[name]).rate for name in names)
    assert first < 0.7
    assert last > first


def test_every_run_is_predicted() -> None:
    groups = [each.run.group for each in measured()]
    assert (groups.count(NANOTRON), groups.count(MEGATRON), len(failed())) == (1221, 30, 1534)


def test_who_fits() -> None:
    rows = {row.setup: row for row in peak_memory.rows(())}
    assert rows["ran (1221): fits, we say"].verdict == "holds"
    assert (
        rows["ran, llm-foundry, vTrain, Megatron-LM, InternEvo (1300): fits, we say"].verdict
        == "holds"
    )
    said = [row.ours for name, row in rows.items() if name.startswith("failed (1534)")]
    assert sum(said) == pytest.approx(100)
    assert rows["failed (1534): doesn't fit, we say"].ours > 60


def test_figures_show_every_run() -> None:
    scatter, said = peak_memory.charts(())
    shown: list[list[Any]] = [list(chart.rows) for chart in (scatter, said)]
    assert len(shown[0]) == len(measured())
    assert sum(row["count"] for row in shown[1] if row["what"] == "ran") == 1221


def test_parameter_servers_are_as_printed() -> None:
    """The lines of the page that say what is ours, and the paper's claim."""
    text = PAGE.read_text(encoding="utf-8")
    shown = text.split("$ armillary study neo-servers", 1)[1].split("```", 1)[0].splitlines()[1:]
    command = [sys.executable, "-m", "armillary.cli", "study", "neo-servers"]
    environment = {**os.environ, "COLUMNS": "100"}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = [line for line in ran.stdout.splitlines() if re.search(" (ours|claim) ", line)]
    assert [line.rstrip() for line in found] == [line.rstrip() for line in shown]
