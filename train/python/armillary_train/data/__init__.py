"""Data of a run: made-up clicks with a known best score, ingested data, or Criteo's logs."""

from __future__ import annotations

from pathlib import Path

from armillary.errors import InputError, Problem
from armillary.model.dlrm import Dlrm
from armillary.units import counted

from ..settings import DEFAULT_SAMPLES, SYNTHETIC, Settings
from .dataset import is_dataset
from .samples import DENSE, START, Part, Position, Samples, Source, share

__all__ = ["START", "Part", "Position", "Samples", "Source", "open_data", "share"]

EVALUATION_SAMPLES = 100_000
"""Synthetic samples of an evaluation, unless the settings say."""


def open_data(settings: Settings, facts: Dlrm) -> tuple[Source, Source]:
    """Data to train on, and data to evaluate on. Raises `InputError`."""
    rows = [table.rows for table in facts.tables]
    dense = facts.bottom[0].inputs
    if settings.data == SYNTHETIC:
        from .synthetic import EVALUATION_FIRST, POSITIVE_RATES, Synthetic

        most = 2**31
        large = [table.name for table in facts.tables if table.rows > most]
        if large:
            said = (
                f"too large for synthetic data: {counted(len(large), 'table')}, such as {large[0]}"
            )
            raise InputError([Problem(facts.name, "tables", said, f"at most {most:,} rows")])
        rate = settings.positive_rate or POSITIVE_RATES["kaggle"]
        pooling = [table.pooling for table in facts.tables]
        source = Synthetic(
            rows, pooling, seed=settings.seed, positive_rate=rate, dense_features=dense
        )
        count = settings.eval_samples or EVALUATION_SAMPLES
        return (
            source.over(0, _training_samples(settings)),
            source.over(EVALUATION_FIRST, count),
        )
    if is_dataset(Path(settings.data)):
        from .ingested import open_dataset

        return open_dataset(Path(settings.data), rows, dense)
    if not Path(settings.data).exists():
        said = "there is no such file"
        help_ = "ingested data, click logs, or synthetic"
        raise InputError([Problem(settings.data, "--data", said, help_)])
    if dense != DENSE:
        said = f"the model reads {dense} counts"
        raise InputError([Problem(facts.name, "dense_features", said, f"{DENSE}: those of a line")])
    wrong = [table.name for table in facts.tables if table.pooling != 1]
    if wrong:
        many = counted(len(wrong), "table")
        said = f"read several times for each sample: {many}, such as {wrong[0]}"
        raise InputError([Problem(facts.name, "pooling", said, "1: a line has one id for each")])
    from .criteo import open_files

    return open_files(Path(settings.data), rows, settings.held_out)


def _training_samples(settings: Settings) -> int:
    if settings.steps is not None:
        return settings.steps * settings.global_batch
    return settings.samples or DEFAULT_SAMPLES
