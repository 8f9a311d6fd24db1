"""Studies: tables and figures of papers, rerun and printed as paper, ours and ratio.

Here: the list of all studies, with those of `score/`. One study is one file. Not here: what a
study and its rows are (`armillary_lab.study`)."""

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


STUDIES = (
    Entry("astra2-table4", "a1", "studies.astra2_table4"),
    Entry("astra2-nccl", "a2", "studies.astra2_nccl"),
    Entry("astra2-speed", "a3", "studies.astra2_speed"),
    Entry("themis", "a4", "studies.themis"),
    Entry("zero-infinity", "a5", "studies.zero_infinity"),
    Entry("memory-pool", "a6", "studies.memory_pool"),
    Entry("wafer-scaling", "a7", "studies.wafer_scaling"),
    Entry("multidim-cost", "b1", "studies.multidim_cost"),
    Entry("multidim-speedup", "b2", "studies.multidim_speedup"),
    Entry("multidim-utilization", "b3", "studies.multidim_utilization"),
    Entry("multidim-equal-bandwidth", "b4", "studies.multidim_equal_bandwidth"),
    Entry("multidim-performance-per-cost", "b5", "studies.multidim_performance_per_cost"),
    Entry("multidim-last-dimension", "b6", "studies.multidim_last_dimension"),
    Entry("multidim-allocation", "b7", "studies.multidim_allocation"),
    Entry("multidim-communication", "b8", "studies.multidim_communication"),
    Entry("packet-all-reduce", "c1", "studies.packet_all_reduce"),
    Entry("dlrm-topology", "c2", "studies.dlrm_topology"),
    Entry("dlrm-injection", "c3", "studies.dlrm_injection"),
    Entry("dlrm-buffers", "c4", "studies.dlrm_buffers"),
    Entry("dlrm-chunks", "c5", "studies.dlrm_chunks"),
    Entry("dlrm-layers", "c6", "studies.dlrm_layers"),
    Entry("ispass-topology", "d1", "studies.ispass_topology"),
    Entry("ispass-dimensions", "d2", "studies.ispass_dimensions"),
    Entry("ispass-hierarchy", "d3", "studies.ispass_hierarchy"),
    Entry("ispass-breakdown", "d4", "studies.ispass_breakdown"),
    Entry("ispass-layers", "d5", "studies.ispass_layers"),
    Entry("resnet50-scaling", "d6", "studies.resnet50_scaling"),
    Entry("resnet50-compute-power", "d7", "studies.resnet50_compute_power"),
    Entry("neo-throughput", "e1", "studies.neo_throughput"),
    Entry("neo-scaling", "e2", "studies.neo_scaling"),
    Entry("neo-optimizations", "e3", "studies.neo_optimizations"),
    Entry("neo-benchmarks", "e4", "studies.neo_benchmarks"),
    Entry("neo-memory", "e5", "studies.neo_memory"),
    Entry("neo-quality", "e6", "studies.neo_quality"),
    Entry("neo-messages", "e7", "studies.neo_messages"),
    Entry("neo-servers", "e8", "studies.neo_servers"),
    Entry("validate-collectives", "v1", "score.collectives"),
    Entry("validate-training", "v2", "score.training_steps"),
    Entry("validate-memory", "v3", "score.peak_memory"),
    Entry("deepseek-v3", "v4", "studies.deepseek_v3"),
    Entry("llama-405b", "v5", "studies.llama_405b"),
    Entry("validate-fabrics", "v6", "score.fabrics"),
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
    return dataclasses.replace(found, name=entry.name, code=entry.code)


__all__ = ["STUDIES", "Entry", "Study", "StudyRow", "studies", "study"]
