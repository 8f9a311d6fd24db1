"""A training run: batches in, a trained model and its scores out.

Here: the step, the evaluation and the course of a run, on every rank alike. Not here: the
processes (`launch.py`), the data (`data/`), the model (`net/model.py`).

One step, with the batch shared out over the ranks:

    rows       every rank gets the pooled rows of its samples        embeddings, forward
    MLPs       loss and gradients, part by part                      `accumulate` parts
    add up     gradients of the MLPs over the ranks, under way while
    update     gradients of the rows go to where the tables are      embeddings, backward
    step       the MLPs' optimizer

What is under way meanwhile is in `pipeline.py`.

The loss is the mean over the whole batch, so that gradients are added over ranks and never
averaged: neither a batch that doesn't divide by the ranks nor the number of ranks changes them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from armillary.errors import InputError, Problem, TrainingError
from armillary.model.dlrm import Dlrm as Facts

from .. import profile_ranges
from ..build import (
    CachedEmbeddings,
    Embeddings,
    compute_type,
    dense_optimizer,
    embeddings_of,
    ratios,
)
from ..checkpoint.folder import forget_tables
from ..checkpoint.run_checkpoints import Checkpoints, checkpoints
from ..data import START, Part, Position, Samples, Source, open_data
from ..data.readers import reading
from ..net import metrics
from ..net.model import Dlrm
from ..process import prepare_process
from ..ranks.exchange import Exchange
from ..ranks.sharded import ShardedEmbeddingCollection
from ..ranks.world import World
from ..settings import Settings, factor
from ..tables.tensor_train import SplitEmbeddings
from . import profiler
from .length import Length, batches
from .pipeline import PipelinedBatch, Sums, depth, sparse, windows
from .stopping import StoppedError, until_signal

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXACT = 2**24
"""Samples of an evaluation whose AUC is exact, at most; larger ones are streamed."""

_REPORTS = 200
"""Reports of a run whose length is known, about."""
_REPORT_STEPS = 100
"""Steps between reports of another one."""

_SMALLER_STEPS = "a lower --lr or --dense-lr, or --warmup"

_SHOWN = ("hit_rate", "evictions", "stall_seconds")
"""Numbers of caches in each report."""

Progress = Callable[[float, str], None]
"""Gets the share of the run that is done, and what to show."""

Write = Callable[[str, int, "dict[str, float | int | None]"], None]
"""Gets a kind of record, the step, and values by name."""


@dataclass(slots=True)
class Outcome:
    """Result of a run."""

    samples: int = 0
    steps: int = 0
    seconds: float = 0.0
    """Seconds of training, without evaluations."""
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    """Scores of the held-out samples, in the order of steps."""
    bound: dict[str, Any] | None = None
    """Scores of the teacher on the same samples; `None` where there is no teacher."""
    cache: dict[str, float] | None = None
    """Numbers of the caches of all ranks; `None` where tables have none. `hit_rate` is the share of
    lookups whose row was there, `stall_seconds` the sum of the times that the ranks waited for
    rows."""
    tensor_trains: dict[str, float] = field(default_factory=dict)
    """Tables that are trains of tensors, and how many times smaller that makes each."""
    position: Position = START
    """Where the data is behind the last step."""
    data: str = ""
    """Names the data and its order, where there is any: `Source.identity`."""
    trace: dict[str, float | int] | None = None
    """Median wall times of recorded steps and of others, in seconds; `None` where none were
    recorded."""
    checkpoints: dict[str, Any] | None = None
    """Cost of checkpoints; `None` where there are none. `stall_seconds` is how long training waited
    for them."""

    @property
    def is_evaluated(self) -> bool:
        """Whether there was an evaluation after the last step."""
        return bool(self.evaluations) and self.evaluations[-1]["step"] == self.steps

    @property
    def rate(self) -> float:
        """Samples trained on in a second."""
        return self.samples / self.seconds if self.seconds else 0.0


class Trainer:
    """A model in training on one rank."""

    def __init__(
        self, settings: Settings, facts: Facts, world: World, shared: Embeddings | None = None
    ) -> None:
        """A new model, with tables of its own or those of another one, `shared`."""
        self.settings, self.world = settings, world
        compute = compute_type(settings.precision, settings.device)
        self.exchange = Exchange(messages=settings.formats)
        self.embeddings = shared or embeddings_of(facts, settings, world, self.exchange)
        self.model = Dlrm(facts, self.embeddings, seed=settings.seed, compute=compute)
        self.model.parts.to(settings.device)
        self.parameters = list(self.model.parts.parameters())
        self.optimizer = dense_optimizer(self.parameters, settings)
        self.seen = metrics.Streaming()
        sharded = isinstance(self.embeddings, ShardedEmbeddingCollection)
        self.ahead = depth(settings, world.size if sharded else 1)
        """Batches that `step` may know in addition to its own."""
        self._coming: list[PipelinedBatch] = []

    def step(self, part: Part, scale: float, following: Sequence[Part] = ()) -> float:
        """Trains on this rank's samples of a batch, with learning rates times `scale`. Returns
        this rank's share of the loss. The `following` batches, up to `ahead`, are on their way
        meanwhile; all ranks give the same number of them.

        Raises `TrainingError` when the loss is not a number."""
        known = {id(each.part): each for each in self._coming}
        found = [known.get(id(each)) or self._come(each) for each in (part, *following)]
        now, *self._coming = found
        self._enter(found)
        return self.finish(now, scale)

    def begin(self, part: Part) -> PipelinedBatch:
        """A batch that has its rows, as the tables are now."""
        found = self._come(part)
        found.look_up()
        return found

    def _come(self, part: Part) -> PipelinedBatch:
        return PipelinedBatch(part, self.embeddings, self.settings.device)

    def _enter(self, batches: Sequence[PipelinedBatch]) -> None:
        """Looks up the rows of the first of some batches, and fetches those of the second into
        caches."""
        for batch in batches[:1]:
            batch.look_up()
        if self.ahead > 1:
            for batch in batches[1:2]:
                batch.prefetch()

    def cache_report(self) -> dict[str, float] | None:
        """Numbers of the caches of all ranks so far; `None` where tables have none."""
        tables = self.embeddings
        if self.settings.cache is None or not isinstance(tables, CachedEmbeddings):
            return None
        found = self.world.gather(tables.cache_report(), dict[str, float])
        total: dict[str, float] = {}
        for report in found:
            for name, value in report.items():
                total[name] = total.get(name, 0) + value
        lookups = total.get("lookups", 0)
        return {**total, "hit_rate": 1 - total["misses"] / lookups if lookups else 1.0}

    def is_stopping(self) -> bool:
        """Whether a rank was asked to end the run, which all of them then do with a checkpoint; the
        same on all ranks."""
        if self.settings.checkpoint is None:
            return False
        tables = self.embeddings
        plain = tables.plain if isinstance(tables, SplitEmbeddings) else tables
        if not isinstance(plain, ShardedEmbeddingCollection):  # It has no meetings of its own.
            self.exchange.meet("update", [])
        return self.exchange.stopping

    def ask_to_stop(self) -> None:
        """Makes `is_stopping` true on all ranks, after their next meeting."""
        self.exchange.asked = True

    def save_tables(self) -> None:
        """Makes the tables a checkpoint, if all of them are on a disk."""
        tables = self.embeddings
        if self.settings.table_dir is None or not isinstance(tables, CachedEmbeddings):
            return
        if all(self.world.gather(tables.is_on_disk, bool)):
            tables.checkpoint()

    def settle_tables(self) -> None:
        """Waits for what caches do in the background. Raises on all ranks if a disk failed."""
        if self.settings.cache is not None and isinstance(self.embeddings, CachedEmbeddings):
            self.embeddings.settle()

    def finish(self, now: PipelinedBatch, scale: float) -> float:
        """The rest of a step, with the rows that it began with."""
        self.embeddings.set_learning_rate(self.settings.learning_rate * scale)
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.dense_learning_rate * scale
        self.optimizer.zero_grad(set_to_none=True)
        sums = Sums(self.exchange)
        loss = self._dense(now, sums)
        # Ranks have the same gradients after they were added up, so that all end together. One rank
        # ends before its tables refuse the gradient as a wrong input.
        if self.world.size == 1:
            self._require_finite_gradients()
        now.update()
        sums.go_on()
        self._enter(self._coming)
        sums.finish()
        with profile_ranges.part("optimizer"):
            if self.world.size > 1:
                self._require_finite_gradients()
            self.optimizer.step()
        sums.clear()
        return loss

    def _dense(self, now: PipelinedBatch, sums: Sums) -> float:
        """Loss of this rank's samples over those of the whole batch. Leaves gradients of the MLPs
        in their parameters, and begins to add them up and to send those of rows."""
        samples, count = now.part.samples, len(now.part.samples)
        size = max(1, -(-count // self.settings.accumulate))
        parts, pipelined = self.model.parts, self.settings.pipeline
        loss, gradients, logits = 0.0, list[Tensor](), list[Tensor]()
        pooled = None if pipelined else now.pooled()
        top = [each for name, each in parts.named_parameters() if not name.startswith("bottom.")]
        for first in range(0, max(count, 1), size):
            some = slice(first, first + size)
            low = parts.below(now.dense[some]) if count else now.dense[:0]
            if pooled is None:
                pooled = now.pooled()
                for coming in self._coming:
                    coming.send_indices()
            rows, cut = pooled[some].requires_grad_(), low.detach().requires_grad_()
            if count:
                found = parts.above(cut, rows)
                with profile_ranges.part("loss.forward"):
                    each = torch.nn.functional.binary_cross_entropy_with_logits(
                        found, now.labels[some], reduction="sum"
                    )
                torch.autograd.backward(each / now.part.whole)
                loss += float(each.detach())
                logits.append(found.detach())
            self._require_finite(loss, now.part)
            gradients.append(rows.grad if rows.grad is not None else torch.zeros_like(rows))
            last = first + size >= count
            if last and pipelined:
                sums.start(top)
                now.send_gradient(_joined(gradients))
            if count:
                torch.autograd.backward(low, cut.grad)
        if logits:
            with profile_ranges.part("scores"):
                self.seen.add(torch.cat(logits).cpu().numpy(), samples.labels)
        if pipelined:
            sums.go_on()
            sums.start(list(parts.bottom.parameters()))
        else:
            sums.start(top)
            sums.start(list(parts.bottom.parameters()))
            now.send_gradient(_joined(gradients))
        return loss / now.part.whole

    def _require_finite(self, loss: float, part: Part) -> None:
        if math.isfinite(loss):
            return
        count = len(part.samples)
        said = f"the loss is {loss} at sample {part.first:,} or one of the {count} behind it"
        error = TrainingError([Problem("", "", said, _SMALLER_STEPS)])
        if self.world.size == 1:
            raise error
        # The ranks meet before they update their tables. Until then they wait for this one.
        self.exchange.fail(error)

    def _require_finite_gradients(self) -> None:
        """Raises `TrainingError` if a gradient of the MLPs is not finite. The loss may be finite
        then: the ReLU of oneDNN makes 0 of a value that is not a number."""
        given = [each.grad for each in self.parameters if each.grad is not None]
        if given and not math.isfinite(float(torch.stack([each.sum() for each in given]).sum())):
            said = "a gradient of the MLPs is not finite"
            raise TrainingError([Problem("", "", said, _SMALLER_STEPS)])

    @torch.no_grad()
    def logits(self, samples: Samples) -> NDArray[np.float32]:
        """Predictions for these samples, float32 [n]."""
        rows = self.embeddings(sparse(samples))
        if not len(samples):
            return np.zeros(0, np.float32)
        dense = torch.from_numpy(samples.dense).to(self.settings.device)
        found: Tensor = self.model.parts(dense, rows)
        return found.cpu().numpy()


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def train(
    settings: Settings,
    facts: Facts,
    world: World,
    *,
    progress: Progress | None = None,
    write: Write | None = None,
) -> Outcome:
    """Runs a training on this rank of `world`, and returns the same outcome on every rank.

    Raises `InputError` and `TrainingError`."""
    prepare_process(settings.threads)
    source, held_out = open_data(settings, facts)
    world.agree({**asdict(settings), "samples": source.size, "held-out samples": held_out.size})
    forget_tables(settings, world.rank, world.size)
    trainer = Trainer(settings, facts, world)
    outcome = Outcome(tensor_trains=ratios(trainer.embeddings), data=source.identity)
    with checkpoints(trainer, outcome) as saved:
        read = reading(source, settings)
        with until_signal(trainer.ask_to_stop) if settings.checkpoint else nullcontext():
            try:
                _course(trainer, read, held_out, outcome, saved, progress, write)
            except StoppedError:
                if outcome.steps:
                    saved.after(outcome, end=True)
                    saved.settle()
                raise
    return outcome


def _course(
    trainer: Trainer,
    source: Source,
    held_out: Source,
    outcome: Outcome,
    saved: Checkpoints,
    progress: Progress | None,
    write: Write | None,
) -> None:
    """All steps from where `outcome` is, and the evaluations."""
    settings, world = trainer.settings, trainer.world
    length = Length.of(settings, source)
    whole = length.whole
    every = _REPORT_STEPS if whole is None else max(1, whole // _REPORTS)
    _evaluate_if_due(trainer, held_out, outcome, write)
    begin = time.monotonic()
    parts = batches(source, settings, world, length, outcome)
    ahead = windows(parts, trainer.ahead)
    for part, following in profiler.steps(ahead, settings, world, outcome, whole):
        scale = factor(length.done(outcome), whole, settings.warmup, settings.decay)
        trainer.step(part, scale, following)
        outcome.steps += 1
        outcome.samples += part.whole
        outcome.position = part.after
        if outcome.steps % every == 0 or length.is_reached(outcome.steps, outcome.samples):
            outcome.seconds += time.monotonic() - begin
            begin = time.monotonic()
            _report(trainer, outcome, length, scale, progress, write)
        if settings.eval_every and outcome.steps % settings.eval_every == 0:
            outcome.seconds += time.monotonic() - begin
            _evaluate_if_due(trainer, held_out, outcome, write)
            begin = time.monotonic()
        saved.after(outcome)
        if trainer.is_stopping():
            raise StoppedError
    outcome.seconds += time.monotonic() - begin
    if not outcome.samples:
        said = "there are no samples to train on"
        raise InputError([Problem(settings.data, "", said, "at least one line")])
    saved.after(outcome, end=True)
    if not outcome.is_evaluated:
        evaluate(trainer, held_out, outcome, write)
    trainer.save_tables()
    saved.settle()
    outcome.cache = trainer.cache_report()
    outcome.checkpoints = saved.report()


def _evaluate_if_due(
    trainer: Trainer, held_out: Source, outcome: Outcome, write: Write | None
) -> None:
    """The evaluation after this step, unless there was one: a run that goes on from a checkpoint
    has none yet if it was stopped meanwhile."""
    every = trainer.settings.eval_every
    if every and outcome.steps and outcome.steps % every == 0 and not outcome.is_evaluated:
        evaluate(trainer, held_out, outcome, write)
        trainer.save_tables()


def _report(
    trainer: Trainer,
    outcome: Outcome,
    length: Length,
    scale: float,
    progress: Progress | None,
    write: Write | None,
) -> None:
    """Shows and writes the scores of the samples trained on since the last report."""
    merged = metrics.Streaming()
    merged.state = trainer.world.add(trainer.seen.state)
    trainer.seen.clear()
    scores = merged.scores()
    rate = outcome.rate
    report = trainer.cache_report() or {}
    caches = {f"cache_{name}": report[name] for name in _SHOWN if name in report}
    if progress is not None:
        done = length.share(outcome)
        text = f"step {outcome.steps:,}: loss {scores.loss:.4f}, AUC {scores.auc:.4f}"
        progress(done, f"{text}, {rate:,.0f} samples/s")
    if write is not None:
        values = {**scores.as_dict(), "samples_per_second": rate, "learning_rate_scale": scale}
        write("train", outcome.steps, {**values, "samples": outcome.samples, **caches})


def evaluate(trainer: Trainer, source: Source, outcome: Outcome, write: Write | None) -> None:
    """Scores the held-out samples, and once what the best predictions would score on them; adds
    both to `outcome`. Raises `StoppedError` if the run is to end."""
    world, settings = trainer.world, trainer.settings
    size = source.size
    limit = settings.eval_samples or size
    whole = _EvaluationScores(world, exact=limit is not None and limit <= EXACT)
    best = _EvaluationScores(world, exact=whole.exact) if outcome.bound is None else None
    done = 0
    for batch in source.parts(settings.global_batch, world.rank, world.size):
        if limit is not None and done >= limit:
            break
        left = batch.whole if limit is None else limit - done
        part = batch.cut(left, world.rank, world.size)
        whole.add(trainer.logits(part.samples), part.samples.labels)
        bound = None if best is None else source.bound(part.first, len(part.samples))
        if best is not None and bound is not None:
            best.add(bound, part.samples.labels)
        done += part.whole
        if trainer.is_stopping():
            raise StoppedError
    # No score of rows that a disk did not give.
    trainer.settle_tables()
    scores = whole.scores()
    if best is not None and best.filled:
        outcome.bound = best.scores().as_dict()
    if not scores.samples:
        said = "there are no samples to evaluate on"
        raise InputError([Problem(settings.data, "", said, "at least one held-out line")])
    if not math.isfinite(scores.loss):
        said = f"the loss of the evaluation after step {outcome.steps:,} is {scores.loss}"
        raise TrainingError([Problem("", "", said, _SMALLER_STEPS)])
    values = scores.as_dict()
    outcome.evaluations.append({"step": outcome.steps, "trained": outcome.samples, **values})
    if write is not None:
        write("evaluation", outcome.steps, values)


class _EvaluationScores:
    """Scores of an evaluation over all ranks: exact, or streamed where there are too many."""

    def __init__(self, world: World, *, exact: bool) -> None:
        self.world, self.exact, self.filled = world, exact, False
        self._logits: list[NDArray[np.floating[Any]]] = []
        self._labels: list[NDArray[np.float32]] = []
        self._stream = metrics.Streaming()

    def add(self, logits: NDArray[np.floating[Any]], labels: NDArray[np.float32]) -> None:
        self.filled = True
        if self.exact:
            self._logits.append(logits)
            self._labels.append(labels)
        else:
            self._stream.add(logits, labels)

    def scores(self) -> metrics.Scores:
        if not self.exact:
            merged = metrics.Streaming()
            merged.state = self.world.add(self._stream.state)
            return merged.scores()
        empty = np.zeros(0, np.float32)
        mine = (np.concatenate([empty, *self._logits]), np.concatenate([empty, *self._labels]))
        found = zip(*map(self.world.gather_array, mine), strict=True)
        return metrics.exact(*(np.concatenate(each) for each in zip(*found, strict=True)))
