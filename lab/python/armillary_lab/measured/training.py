"""Measured training steps of language models: what was run, on what, how long it took and how much
memory it held.

Here: `measured/training.csv` (a row a run), `training_models.csv` (architectures),
`training_groups.csv` (machines and sources) and `nanotron_failed.csv` (configurations without a
result), as typed rows. Not here: which preset stands for the machine (`training_steps.py`), what we
predict (`training_steps.py`, `peak_memory.py`). Made once from the published tables named in
`training_groups.csv`: times that a source gives as tokens/s or FLOP/s are converted to seconds by
its own formula. Layers, widths and heads of models that a table only names come from the source in
`training_models.csv`. Micro-batches and chunks of Narayanan et al. 2021 are those of
NVIDIA/Megatron-LM examples/sc21/run_table_1.sh. What no source says and had to be assumed is listed
in the column `extra`, as `assumed=`."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from armillary.model.files import Model, load_model, models
from armillary.model.huggingface_names import CAPTURED
from armillary.workload.frameworks import Framework, load_framework

KINDS: dict[str, dict[str, Any]] = {
    "gpt": {},
    "mpt": {"dropout": False},
    "llama": {"gated": True, "norm": "rms", "bias": False, "dropout": False},
    "nemotron": {"bias": False, "dropout": False},
}
"""Fields of a decoder that go with its kind."""

LEARNED = ("gpt", "mpt")
"""Kinds with learned positions."""

FRAMEWORKS: Mapping[str, str] = {
    "vtrain_single": "megatron-lm-2021",
    "vtrain_multi": "megatron-lm-2021",
    "megatron_sc21": "megatron-lm-2021",
    "megatron_seqsel_a100": "megatron-lm-2021",
    "megatron_core_h100": "megatron-lm",
    "simumax_b200": "megatron-lm",
    "mosaic_llmfoundry": "llm-foundry",
    "internevo": "internevo",
    "torchtitan": "torchtitan",
    "nanotron_h100": "nanotron",
    "nemo_megatron_bridge": "megatron-lm",
    "dgxc_benchmarking": "megatron-lm",
    "nemo_h100_fp8": "megatron-lm",
    "mlperf": "megatron-lm",
}
"""Framework of each group (`frameworks/*.yml`)."""

COUNTS = (
    "seq",
    "gpus",
    "nodes",
    "dp",
    "tp",
    "pp",
    "cp",
    "ep",
    "zero",
    "virtual_stages",
    "micro_batch",
    "global_batch",
)
WORDS = ("name", "group", "grade", "gpu", "recompute", "precision")


@dataclass(frozen=True, slots=True)
class Training:
    """One measured run of a training step."""

    name: str
    group: str
    grade: str
    """A: printed by the source; B: partly derived, noisy; C: read off a figure."""
    model: Model
    seq: int
    gpu: str
    gpus: int
    nodes: int
    dp: int
    tp: int
    pp: int
    cp: int
    ep: int
    zero: int
    virtual_stages: int
    micro_batch: int
    """Samples; of micro-batches of the pipeline."""
    global_batch: int
    recompute: str
    """`none`, `selective` or `full`, as the source calls it."""
    precision: str
    extra: Mapping[str, str]
    """Other statements of a source: sequence parallelism (`sp`), mixed precision of FSDP (`mixed`),
    packed samples, ranks that a shard is split over (`zero_group`)."""
    iter_time_s: float | None
    """Seconds of a step; `None` for configurations without a result."""
    memory_gib: float | None
    """The most that PyTorch's allocator held on a GPU, GiB; `None` where the source does not
    say."""

    @property
    def captured(self) -> bool:
        """Whether the model is captured from PyTorch."""
        return self.model.family == "captured"

    @property
    def sp(self) -> bool:
        """Sequence parallelism: activations between tensor-parallel parts are cut by `tp`."""
        return self.tp > 1 and self.extra.get("sp") == "1"

    @property
    def framework(self) -> Framework:
        """The framework that the source used."""
        return load_framework(FRAMEWORKS[self.group])

    @property
    def options(self) -> dict[str, object]:
        """The run as options of `transformer` and `moe`: what the source says, nothing chosen for
        it."""
        return {
            "tp": self.tp,
            "pp": self.pp,
            "dp": self.dp,
            "cp": self.cp,
            "ep": self.ep,
            "sp": self.sp,
            "zero": self.zero,
            "zero_group": int(self.extra["zero_group"]) if "zero_group" in self.extra else None,
            "micro_batch": self.micro_batch,
            "global_batch": self.global_batch,
            "seq": self.seq,
            "virtual_stages": self.virtual_stages,
            "recompute": self.recompute,
            "precision": self.precision,
        }


@cache
def trainings() -> tuple[Training, ...]:
    """All measured runs, in the order of their file."""
    return tuple(_training(row) for row in _table("training.csv"))


@cache
def failures() -> tuple[Training, ...]:
    """nanotron configurations that crashed or ran out of memory (the source does not say which of
    the two) apart.

    Some were tried twice (with all-reduces instead of sequence parallelism, which the source does
    not say), and 15 of them also ran."""
    return tuple(_failure(row) for row in _table("nanotron_failed.csv"))


@cache
def sources() -> Mapping[str, tuple[str, str]]:
    """Machine and source of each group."""
    return {row["group"]: (row["system"], row["source"]) for row in _table("training_groups.csv")}


@cache
def _models() -> Mapping[str, Mapping[str, str]]:
    return {row["model"]: row for row in _table("training_models.csv")}


def _table(name: str) -> Iterator[dict[str, str]]:
    with resources.files(__package__).joinpath(name).open(encoding="utf-8") as file:
        yield from csv.DictReader(file)


def _pairs(text: str) -> dict[str, str]:
    return {
        key: value for key, _, value in (part.partition("=") for part in text.split(";") if part)
    }


def _number(text: str) -> float | None:
    return float(text) if text else None


@cache
def known_model(name: str, seq: int) -> Model:
    """A model of `training_models.csv`, or else a preset, for sequences of this length."""
    if name not in _models() and name in models():
        found = load_model(name)
        learned = {"positions": seq} if "positions" in found.fields else {}
        return replace(found, fields={**found.fields, "sequence": seq, **learned})
    row = _models()[name]
    counts = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocabulary")
    fields: dict[str, Any] = {key: int(row[key]) for key in counts} | KINDS[row["kind"]]
    fields |= {key: int(value) for key, value in _pairs(row["extra"]).items()}
    fields |= {
        "tied": row["tied"] == "1",
        "sequence": seq,
        "positions": seq if row["kind"] in LEARNED else 0,
    }
    return Model(name, "moe" if "experts" in fields else "transformer", fields, row["source"])


@cache
def captured_model(name: str) -> Model:
    """A model of `captured/`, which PyTorch builds from its configuration."""
    path = resources.files(__package__) / "captured" / f"{name}.json"
    return replace(load_model(f"{CAPTURED}{path}"), name=name)


def _training(row: Mapping[str, str]) -> Training:
    return Training(
        model=known_model(row["model"], int(row["seq"])),
        extra=_pairs(row["extra"]),
        iter_time_s=_number(row["iter_time_s"]),
        memory_gib=_number(row["memory_gib"]),
        **{key: int(row[key]) for key in COUNTS},  # type: ignore[arg-type]
        **{key: row[key] for key in WORDS},  # type: ignore[arg-type]
    )


def _failure(row: Mapping[str, str]) -> Training:
    dp, tp, pp, micro = (int(row[key]) for key in ("dp", "tp", "pp", "micro_batch"))
    size = row["model"].partition("-")[2].upper()
    accumulated = int(row["global_batch"]) // dp // micro
    same = {
        "group": "nanotron_h100",
        "grade": "B",
        "gpu": "H100",
        "recompute": "none",
        "precision": "bf16",
    }
    return Training(
        name=f"nanotron_failed_{size}_n{dp * tp * pp}_dp{dp}_pp{pp}_tp{tp}_mbs{micro}"
        f"_ga{accumulated}_z{row['zero']}",
        model=known_model(row["model"], 4096),
        seq=4096,
        gpus=dp * tp * pp,
        nodes=dp * tp * pp // 8,
        dp=dp,
        tp=tp,
        pp=pp,
        cp=1,
        ep=1,
        zero=int(row["zero"]),
        virtual_stages=1,
        micro_batch=micro,
        global_batch=int(row["global_batch"]),
        extra={"sp": "1"},
        iter_time_s=None,
        memory_gib=None,
        **same,
    )
