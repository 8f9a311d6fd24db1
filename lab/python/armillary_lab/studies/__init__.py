"""Studies: tables and figures of papers, rerun and printed as paper, ours and ratio.

Here: the list of all studies, with those of `score/`, which loads none. One study is one file. Not
here: what a study and its rows are (`armillary_lab.study`)."""

from __future__ import annotations

import dataclasses
import difflib
import importlib
from typing import NamedTuple

from armillary.errors import InputError, Problem

from ..study import Study, StudyRow


class Entry(NamedTuple):
    """A study in the list."""

    name: str
    code: str
    """Code of the study in the list of targets (docs/reference/studies.md), an alias of the
    name."""
    module: str
    """Module below `armillary_lab` that holds `STUDY`."""
    title: str
    source: str
    """Where the numbers are printed, or who published them."""


_ASTRA2 = "Won et al., ASTRA-sim 2.0, ISPASS 2023"
_ASTRA2_ARXIV = f"{_ASTRA2}, arXiv:2303.14006"
_MULTIDIM = (
    "Won et al., Multi-dimensional hierarchical network topologies, 2021, arXiv:2109.11762 v1"
)
_HOTI = "Rashidi et al., ASTRA-SIM + NS3, HOTI 2020"
_ISPASS = "Rashidi et al., ASTRA-SIM, ISPASS 2020"
_NEO = "Mudigere et al., Neo and ZionEX, ISCA 2022"

STUDIES = (
    Entry(
        "astra2-table4",
        "a1",
        "studies.astra2_table4",
        "All-reduce on wafers and conventional systems of growing size",
        f"{_ASTRA2_ARXIV}, Table IV",
    ),
    Entry(
        "astra2-nccl",
        "a2",
        "studies.astra2_nccl",
        "The analytical network against V100s",
        f"{_ASTRA2_ARXIV}, Fig. 4",
    ),
    Entry(
        "astra2-speed",
        "a3",
        "studies.astra2_speed",
        "Time to simulate an all-reduce on a torus",
        f"{_ASTRA2_ARXIV}, section IV-C",
    ),
    Entry(
        "themis",
        "a4",
        "studies.themis",
        "Wafers against conventional systems, with and without Themis",
        f"{_ASTRA2_ARXIV}, Tables II and III, Fig. 9a and section V-A1",
    ),
    Entry(
        "zero-infinity",
        "a5",
        "studies.zero_infinity",
        "Disaggregated memory: ZeRO-Infinity and a hierarchical pool",
        f"{_ASTRA2}, section V-B, Table V and Fig. 11",
    ),
    Entry(
        "memory-pool",
        "a6",
        "studies.memory_pool",
        "Remote memory: the worked example of a hierarchical pool",
        f"{_ASTRA2}, section IV-D, Figs. 6 to 8",
    ),
    Entry(
        "wafer-scaling",
        "a7",
        "studies.wafer_scaling",
        "GPT-3 and Transformer-1T on growing wafers and scale-out",
        f"{_ASTRA2_ARXIV}, Fig. 9b and section V-A2",
    ),
    Entry(
        "multidim-cost",
        "b1",
        "studies.multidim_cost",
        "What a network of three NPUs and a switch costs",
        f"{_MULTIDIM}, Table II and Fig. 12",
    ),
    Entry(
        "multidim-speedup",
        "b2",
        "studies.multidim_speedup",
        "Step time by bandwidth allocation",
        f"{_MULTIDIM}, Fig. 13 and section VI-B",
    ),
    Entry(
        "multidim-utilization",
        "b3",
        "studies.multidim_utilization",
        "Bandwidth used by allocation",
        f"{_MULTIDIM}, Fig. 14 and section VI-B",
    ),
    Entry(
        "multidim-equal-bandwidth",
        "b4",
        "studies.multidim_equal_bandwidth",
        "Transformer-1T at 300 GB/s: what equal bandwidths leave unused",
        f"{_MULTIDIM}, Fig. 10 and section III-C",
    ),
    Entry(
        "multidim-performance-per-cost",
        "b5",
        "studies.multidim_performance_per_cost",
        "Cost and performance per cost by allocation",
        f"{_MULTIDIM}, Figs. 15 and 16, section VI-C",
    ),
    Entry(
        "multidim-last-dimension",
        "b6",
        "studies.multidim_last_dimension",
        "Traffic of the last dimension and NICs by number of dimensions",
        f"{_MULTIDIM}, Fig. 3",
    ),
    Entry(
        "multidim-allocation",
        "b7",
        "studies.multidim_allocation",
        "Chunks of an all-reduce on three allocations of bandwidth",
        f"{_MULTIDIM}, Fig. 9 and section III-C",
    ),
    Entry(
        "multidim-communication",
        "b8",
        "studies.multidim_communication",
        "Communication of models in a step",
        f"{_MULTIDIM}, Fig. 2 and section I",
    ),
    Entry(
        "packet-all-reduce",
        "c1",
        "studies.packet_all_reduce",
        "An all-reduce over TCP: direct and double binary tree, shallow and deep buffers",
        f"{_HOTI}, Figs. 7 to 10, section IV-A",
    ),
    Entry(
        "dlrm-topology",
        "c2",
        "studies.dlrm_topology",
        "DLRM: exposed communication on flat and hierarchical systems",
        f"{_HOTI}, Fig. 13 and the sums of Fig. 12, section IV-B",
    ),
    Entry(
        "dlrm-injection",
        "c3",
        "studies.dlrm_injection",
        "DLRM: injection latency from 10 ns to 100 us",
        f"{_HOTI}, Fig. 14, section IV-C",
    ),
    Entry(
        "dlrm-buffers",
        "c4",
        "studies.dlrm_buffers",
        "DLRM: the buffer of the scale-out switch",
        f"{_HOTI}, Fig. 15, section IV-D",
    ),
    Entry(
        "dlrm-chunks",
        "c5",
        "studies.dlrm_chunks",
        "DLRM: chunks and chunks under way",
        f"{_HOTI}, Fig. 16, section IV-E",
    ),
    Entry(
        "dlrm-layers",
        "c6",
        "studies.dlrm_layers",
        "DLRM: raw and exposed communication by layer",
        f"{_HOTI}, Figs. 11 and 12, section IV-B",
    ),
    Entry(
        "ispass-topology",
        "d1",
        "studies.ispass_topology",
        "Eight packages: all-to-all and all-reduce around switches and on a ring",
        f"{_ISPASS}, Fig. 9, section V-A",
    ),
    Entry(
        "ispass-dimensions",
        "d2",
        "studies.ispass_dimensions",
        "64 packages: an all-reduce on one, two and three dimensions",
        f"{_ISPASS}, Fig. 10, section V-B",
    ),
    Entry(
        "ispass-hierarchy",
        "d3",
        "studies.ispass_hierarchy",
        "4x4x4: faster links within packages, and the all-reduce that uses them",
        f"{_ISPASS}, Fig. 11, section V-C",
    ),
    Entry(
        "ispass-breakdown",
        "d4",
        "studies.ispass_breakdown",
        "All-reduce on growing tori: where chunks wait",
        f"{_ISPASS}, Fig. 12, section V-D",
    ),
    Entry(
        "ispass-layers",
        "d5",
        "studies.ispass_layers",
        "Transformer and ResNet-50: communication by layer",
        f"{_ISPASS}, Figs. 13 to 16, sections V-E and V-F",
    ),
    Entry(
        "resnet50-scaling",
        "d6",
        "studies.resnet50_scaling",
        "ResNet-50: exposed communication, 8 to 128 NPUs",
        f"{_ISPASS}, Fig. 17 and section V-F",
    ),
    Entry(
        "resnet50-compute-power",
        "d7",
        "studies.resnet50_compute_power",
        "ResNet-50: exposed communication at 0.5 to 4 times the compute power",
        f"{_ISPASS}, Fig. 18 and section V-F",
    ),
    Entry(
        "neo-throughput",
        "e1",
        "studies.neo_throughput",
        "Training throughput of three models on 16 ZionEX nodes",
        f"{_NEO}, Tables 2 and 3, section 8, Eq. 1",
    ),
    Entry(
        "neo-scaling",
        "e2",
        "studies.neo_scaling",
        "Weak scaling from one ZionEX node to 16, and the parts of a step",
        f"{_NEO}, Figs. 9 and 10, section 8.3",
    ),
    Entry(
        "neo-optimizations",
        "e3",
        "studies.neo_optimizations",
        "What each of Neo's optimizations gains",
        f"{_NEO}, Fig. 11, section 8.4",
    ),
    Entry(
        "neo-benchmarks",
        "e4",
        "studies.neo_benchmarks",
        "Bandwidths and rates of V100, A100 and 128 GPUs",
        f"{_NEO}, Appendices A and B, Figs. 12, 13, 14, 15 and 17 in part",
    ),
    Entry(
        "neo-memory",
        "e5",
        "studies.neo_memory",
        "Model F's memory, fused kernels, caches, and ZionEX over Zion",
        f"{_NEO}, sections 5, 6.2 and 8.5",
    ),
    Entry(
        "neo-quality",
        "e6",
        "studies.neo_quality",
        "Quality of training: large synchronous batches against small asynchronous ones",
        f"{_NEO}, Fig. 8 and section 8.1",
    ),
    Entry(
        "neo-messages",
        "e7",
        "studies.neo_messages",
        "Quality of training with messages of 16 and 8 bits",
        f"{_NEO}, section 8.4",
    ),
    Entry(
        "neo-servers",
        "e8",
        "studies.neo_servers",
        "Model A on ZionEX over parameter servers",
        f"{_NEO}, section 8.2 and Fig. 3",
    ),
    Entry(
        "validate-collectives",
        "v1",
        "score.collectives",
        "Collectives: predicted against measured times",
        "nccl-tests and rccl-tests output that others published; each sweep's source is "
        "in armillary_lab/measured/sweeps.csv",
    ),
    Entry(
        "validate-training",
        "v2",
        "score.training_steps",
        "Training steps: predicted against measured times",
        "published tables; each group's source is in armillary_lab/measured/training_groups.csv",
    ),
    Entry(
        "validate-memory",
        "v3",
        "score.peak_memory",
        "Memory: predicted peaks against runs and failures",
        "nanotron on H100s (Ultra-Scale Playbook), Megatron-LM on B200s (SimuMax): "
        "armillary_lab/measured/training_groups.csv",
    ),
    Entry(
        "deepseek-v3",
        "v4",
        "studies.deepseek_v3",
        "DeepSeek-V3: a training step on 2,048 H800",
        "DeepSeek-AI 2024, arXiv:2412.19437; Zhao et al. 2025, arXiv:2505.09343, table 4",
    ),
    Entry(
        "llama-405b",
        "v5",
        "studies.llama_405b",
        "Llama 3 405B: training steps on 8,192 and 16,384 H100",
        "Grattafiori et al. 2024, arXiv:2407.21783, table 4",
    ),
    Entry(
        "validate-fabrics",
        "v6",
        "score.fabrics",
        "Collectives on the real fabrics of the measured machines",
        "the sweeps of study V1; each fabric's source is in its file in systems/fabric",
    ),
    Entry(
        "validate-one-node",
        "v7",
        "score.one_node",
        "NCCL within one node: predicted against measured times",
        "ai-dynamo/aiconfigurator@095f58a5 systems/data (Apache-2.0), in "
        "armillary_lab/measured/one_node.csv.gz",
    ),
)
"""Every study, in the order in which they are listed."""


def study(name: str) -> Study:
    """The study called `name`, or with that code. Raises `InputError` when there is none."""
    wanted = name.lower()
    for entry in STUDIES:
        if wanted in (entry.name, entry.code):
            return _load(entry)
    known = [entry.name for entry in STUDIES]
    near = difflib.get_close_matches(wanted, known, n=3) or known
    raise InputError([Problem("", "study", f"unknown study {name!r}", ", ".join(near))])


def studies() -> list[Study]:
    """Every study, in order."""
    return [_load(entry) for entry in STUDIES]


def _load(entry: Entry) -> Study:
    package = __package__.rpartition(".")[0]
    found: Study = importlib.import_module(f"{package}.{entry.module}").STUDY
    return dataclasses.replace(
        found, name=entry.name, code=entry.code, title=entry.title, source=entry.source
    )


__all__ = ["STUDIES", "Entry", "Study", "StudyRow", "studies", "study"]
