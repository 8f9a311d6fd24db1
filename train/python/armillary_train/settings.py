"""Settings of a training run, each with its default and its check.

The options of `armillary train` are these fields, below the headings of their classes. Here:
settings as data, without PyTorch. Not here: the run (`run/loop.py`), the processes
(`run/launch.py`)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Annotated, Literal, get_args

from armillary.errors import InputError, Problem, flag
from armillary.model.messages import Messages
from armillary.old_words import reads_keywords
from armillary.option_fields import Written, written
from armillary.sizes import byte_count
from armillary.units import counted

from .tables.tensor_train_shapes import Rule

OptimizerName = Literal["sgd", "adagrad", "rowwise_adagrad", "adam", "lamb"]
DenseOptimizerName = Literal["sgd", "adagrad", "adam", "adamw"]
Decay = Literal["none", "linear", "quadratic", "cosine"]
Precision = Literal["fp32", "tf32", "bf16"]
TablePrecision = Literal["fp32", "fp16", "bf16"]
Device = Literal["cpu", "cuda"]
CachePolicy = Literal["lru", "lfu"]
CheckpointPrecision = Literal["fp16", "int8"]
ReadersOn = Literal["local", "ray"]

SYNTHETIC = "synthetic"
"""The name of made-up data, in place of a path."""

DEFAULT_SAMPLES = 500_000
"""Samples of a run on synthetic data, which never end."""

_WORDS = {
    "optimizer": get_args(OptimizerName),
    "dense_optimizer": get_args(DenseOptimizerName),
    "decay": get_args(Decay),
    "precision": get_args(Precision),
    "table_precision": get_args(TablePrecision),
    "device": get_args(Device),
    "cache_policy": get_args(CachePolicy),
    "readers_on": get_args(ReadersOn),
}
_COUNTS = {
    "ranks": 4096,
    "global_batch": 2**24,
    "accumulate": 2**16,
    "steps": 2**40,
    "samples": 2**50,
    "eval_every": 2**40,
    "eval_samples": 2**40,
    "held_out": 2**16,
    "threads": 4096,
    "checkpoint_every": 2**40,
    "keep": 2**20,
    "readers": 1024,
}
"""Largest value of settings that are counts from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Main:
    """Job."""

    data: Annotated[str, Written("synthetic|PATH")] = SYNTHETIC
    """Made-up clicks with a known best score, or Criteo's logs: a file, or a folder with a file for
    each day."""
    ranks: int = 1
    """Ranks, a process each. torchrun may start them instead."""
    global_batch: int = 2048
    """Samples of a step, over all ranks."""
    steps: int | None = None
    """Batches to train on, instead of samples."""
    samples: int | None = None
    """Samples to train on. Default: 500,000 synthetic ones, or one pass over the logs."""
    optimizer: OptimizerName = "rowwise_adagrad"
    """Optimizer of the tables."""
    learning_rate: Annotated[float, Written(option="--lr")] = 0.02
    """Learning rate of the tables."""
    device: Device = "cpu"
    """Where tables and MLPs are: cuda is a GPU."""
    checkpoint: Annotated[str | None, Written("DIR")] = None
    """Write checkpoints of the run here."""
    resume: Annotated[bool, Written(option="--resume")] = False
    """Go on from the last checkpoint, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tables(_Main):
    """Tables and their memory."""

    plan: Annotated[str | None, Written("FILE")] = None
    """Sharding plan: the ranks of each table. Default: tables are shared out whole by size."""
    table_precision: TablePrecision = "fp32"
    """Numbers in the tables."""
    tensor_train: Annotated[str | None, Written("rank=N,rows>=N")] = None
    """Store large tables as small cores of a rank, such as rank=16,rows>=1e6."""
    cache: Annotated[str | None, Written("BYTES")] = None
    """Keep rows in caches of this size in each process, such as 2GiB, with the tables in slower
    memory, or in --table-dir. Default: tables are in memory as a whole."""
    table_dir: Annotated[str | None, Written("DIR")] = None
    """Keep the tables behind the caches on the disk, here."""
    cache_policy: CachePolicy = "lru"
    """Which rows leave a cache: the least recently or the least frequently used."""
    cache_precision: TablePrecision | None = None
    """Numbers in the caches: fp32, or those of the tables, which is the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Optimizers(_Tables):
    """Optimizers."""

    dense_optimizer: DenseOptimizerName = "adam"
    """Optimizer of the MLPs."""
    dense_learning_rate: Annotated[float, Written(option="--dense-lr")] = 0.001
    """Learning rate of the MLPs."""
    warmup: int = 0
    """Steps over which learning rates grow from 0."""
    decay: Decay = "linear"
    """How learning rates fall to 0 at the end."""
    weight_decay: float = 0.0
    """Weight decay of the tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work(_Optimizers):
    """Computation and messages."""

    precision: Precision = "fp32"
    """Arithmetic of the MLPs, where the hardware has it."""
    accumulate: int = 1
    """Compute a batch's MLPs in N parts, one after the other; the result is that of the whole
    global_batch."""
    messages: Annotated[str | None, Written("NAME=FORMAT,...")] = None
    """Formats of what processes send: forward, backward, reduce-scatter and all-reduce as fp32,
    fp16, bf16, int8 or fp8, such as forward=fp16,backward=bf16. Default: fp32."""
    pipeline: bool = True
    """Exchange what the next batch needs while the MLPs work. It changes no result."""
    seed: int = 0
    """Seed of weights and synthetic samples."""
    threads: int | None = None
    """Threads of each process. Default: the cores shared out."""
    timeout: Annotated[float, Written("S")] = 60.0
    """Seconds after which a process waits no longer for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Samples(_Work):
    """Data and evaluation."""

    eval_every: Annotated[int | None, Written(option="--eval")] = None
    """Evaluate every N steps. There is an evaluation at the end."""
    eval_samples: int | None = None
    """Samples of an evaluation. Default: 100,000 synthetic ones, or all held-out lines."""
    held_out: int = 1
    """Days of the logs kept for evaluation: the last ones."""
    positive_rate: Annotated[float | None, Written("SHARE")] = None
    """Share of clicks in synthetic data. Default: 0.2562, Criteo's Kaggle set."""
    readers: int | None = None
    """Processes that read data ahead for each process that trains. Default: none."""
    readers_on: ReadersOn = "local"
    """Where readers are: processes here, or actors of Ray Data on a cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(_Samples):
    """Checkpoints and profiles."""

    checkpoint_every: int = 1000
    """Steps between checkpoints; there is one at the end."""
    checkpoint_precision: CheckpointPrecision | None = None
    """Round weights of tables in checkpoints. Default: keep every bit."""
    keep: int = 2
    """Keep the last N checkpoints."""
    trace: Annotated[str | None, Written("DIR")] = None
    """Record PyTorch profiles of some steps here, for armillary import."""
    trace_steps: Annotated[str, Written("A:B")] = "11:20"
    """The first and the last step that are recorded; those behind them are recorded with operators
    and shapes."""


@reads_keywords("train")
@dataclass(frozen=True, slots=True)
class Settings(RunOptions):
    """Everything that a run depends on. The same settings on any number of processes train on the
    same samples in the same order."""

    model: str
    """Preset or model file."""

    def check(self) -> None:
        """Raises `InputError` listing every setting that is out of range."""
        problems = list(self._problems())
        if problems:
            raise InputError(problems)

    def _problems(self) -> Iterator[Problem]:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        for name, allowed in _WORDS.items():
            if values[name] not in allowed:
                said = f"unknown {name.replace('_', ' ')}: {values[name]!r}"
                yield Problem("", option(name), said, ", ".join(allowed))
        for name, most in _COUNTS.items():
            value = values[name]
            if value is not None and not 1 <= value <= most:
                allowed_ = f"a whole number from 1 to {most:,}"
                yield Problem("", option(name), f"{value} is out of range", allowed_)
        for name in ("learning_rate", "dense_learning_rate", "weight_decay", "timeout"):
            value = values[name]
            positive = name != "weight_decay"
            if not math.isfinite(value) or value < 0 or (positive and value == 0):
                allowed_ = "a number above 0" if positive else "a number from 0"
                yield Problem("", option(name), f"{value} is out of range", allowed_)
        if self.warmup < 0:
            yield Problem("", "--warmup", f"{self.warmup} is out of range", "a number from 0")
        if not 0 <= self.seed < 2**63:
            yield Problem("", "--seed", f"{self.seed} is out of range", "0 to 2^63 - 1")
        if self.positive_rate is not None and not 0 < self.positive_rate < 1:
            said = f"{self.positive_rate} is out of range"
            yield Problem("", "--positive-rate", said, "between 0 and 1")
        if self.positive_rate is not None and self.data != SYNTHETIC:
            said = "the logs have labels of their own"
            yield Problem("", "--positive-rate", said, f"with --data {SYNTHETIC} only")
        if self.steps is not None and self.samples is not None:
            yield Problem("", "--steps, --samples", "both are given", "one of them")
        yield from self._tables_problems()
        yield from self._files_problems()
        if 0 < self.global_batch < self.ranks:
            said = f"a batch of {counted(self.global_batch, 'sample')} for {self.ranks} processes"
            yield Problem("", "--global-batch", said, "at least one sample for each process")

    def _files_problems(self) -> Iterator[Problem]:
        for name in ("checkpoint", "table_dir", "trace"):
            if getattr(self, name) == "":
                yield Problem("", option(name), "no path", "the path of a file or folder")
        if self.readers_on != "local" and self.readers is None:
            yield Problem("", "--readers-on", "is for runs with readers", "--readers N")
        allowed = get_args(CheckpointPrecision)
        if self.checkpoint_precision not in (None, *allowed):
            said = f"unknown checkpoint precision: {self.checkpoint_precision!r}"
            yield Problem("", "--checkpoint-precision", said, ", ".join(allowed))
        if not self.traced:
            said = f"invalid steps: {self.trace_steps!r}"
            yield Problem("", "--trace-steps", said, "A:B, the first and the last step, from 1")
        if self.checkpoint is None:
            for name in ("resume", "checkpoint_precision"):
                if getattr(self, name):
                    said = "is for runs with checkpoints"
                    yield Problem("", option(name), said, "--checkpoint DIR")

    @property
    def formats(self) -> Messages:
        """`messages`, read. Raises `InputError`."""
        return Messages() if self.messages is None else Messages.parse(self.messages, "--messages")

    def _tables_problems(self) -> Iterator[Problem]:
        try:
            self.formats  # noqa: B018 - reads them
        except InputError as error:
            yield from error.problems
        if self.tensor_train is not None:
            try:
                Rule.parse(self.tensor_train)
            except InputError as error:
                yield from error.problems
        if self.cache is None:
            for name, alone in (
                ("table_dir", None),
                ("cache_precision", None),
                ("cache_policy", "lru"),
            ):
                if getattr(self, name) != alone:
                    yield Problem("", option(name), "is for tables with caches", "--cache BYTES")
            return
        try:
            if not self.cache_bytes:
                yield Problem("", "--cache", f"{self.cache!r} is empty", "a size such as 2 GiB")
        except InputError as error:
            yield from error.problems
        if self.cache_precision not in (None, "fp32", self.table_precision):
            said = f"{self.cache_precision} over tables of {self.table_precision}"
            allowed = ", ".join(sorted({"fp32", self.table_precision}))
            yield Problem("", "--cache-precision", said, allowed)
        if self.tensor_train is not None:
            place = "--cache, --tensor-train"
            yield Problem("", place, "both are given", "one of them")

    @property
    def traced(self) -> range:
        """The steps that are recorded; none if `trace_steps` are not steps."""
        found = re.fullmatch(r"(\d{1,12}):(\d{1,12})", self.trace_steps)
        return range(int(found[1]), int(found[2]) + 1) if found and int(found[1]) else range(0)

    @property
    def cache_bytes(self) -> int:
        """Bytes of `cache`; 0 if it is not given. Raises `InputError`."""
        return 0 if self.cache is None else byte_count(self.cache, "--cache")


def option(name: str) -> str:
    """The command-line option of a setting."""
    return written(RunOptions)[name].option or flag(name)


def factor(step: float, steps: int | None, warmup: int, decay: Decay) -> float:
    """Factor of the learning rates in `step` (from 0) of `steps`: it grows in equal parts over
    `warmup` steps, and falls from there to the end of the run. Without an end (`steps` is `None`)
    it doesn't fall. A step between two whole ones follows a smaller batch."""
    if step < warmup:
        return (step + 1) / (warmup + 1)
    if decay == "none" or steps is None or steps <= warmup:
        return 1.0
    left = 1 - (step - warmup) / (steps - warmup)
    if decay == "cosine":
        return (1 - math.cos(math.pi * left)) / 2
    return left if decay == "linear" else left * left
