"""A job that is planned: a model, its step, the values of its layouts, and how they are searched.

Not here: the machines (`machines.py`), the search on one of them (`search.py`)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import InputError, Problem
from ..model.decoder import Decoder
from ..model.decoder_reader import decoder
from ..model.files import Model, load_model
from ..units import counted
from .axes import checked
from .measured_file import MeasuredStep

SIMULATIONS = 32
"""Most simulations of a search."""
_MOST_SIMULATIONS = 100_000
_TOKENS, _TOKENS_OF_RANK = 1 << 22, 1 << 10
"""Tokens of a step where none are given: these in all, or these for each rank if that is more."""


@dataclass(frozen=True)
class Job:
    """The same on every machine."""

    model: Model
    shape: Decoder
    global_batch: int
    """Samples of a step."""
    seq: int
    """Tokens of a sample."""
    layout: Mapping[str, Sequence[object]] = field(default_factory=dict)
    """Values of options that are searched instead of the defaults."""
    framework: str | None = None
    framework_set: Mapping[str, object] | None = None
    near: bool = False
    """Whether layouts that may fit are taken, too."""
    simulations: int = SIMULATIONS
    """Most simulations on a machine."""
    backend: str | None = None
    measured: str | os.PathLike[str] | Sequence[MeasuredStep] = ()
    """Steps of this job that were measured, or a file of them."""
    sensitivity: bool = False
    """Whether other batches, networks and memories are tried as well."""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        model: str | os.PathLike[str] | Model,
        ranks: int,
        *,
        global_batch: int | None = None,
        seq: int | None = None,
        layout: Mapping[str, object] | None = None,
        framework: str | None = None,
        framework_set: Mapping[str, object] | None = None,
        near: bool = False,
        simulations: int = SIMULATIONS,
        backend: str | None = None,
        measured: str | os.PathLike[str] | Sequence[MeasuredStep] = (),
        sensitivity: bool = False,
    ) -> Job:
        """The job; `ranks` are those of the largest machine. Raises `InputError`."""
        if not 1 <= simulations <= _MOST_SIMULATIONS:
            said = f"invalid number: {simulations}"
            raise InputError([Problem("", "simulations", said, "1 to 100,000")])
        loaded = load_model(model)
        shape = decoder(loaded)
        length = shape.sequence if seq is None else seq
        notes: tuple[str, ...] = ()
        batch = global_batch
        if batch is None:
            batch = max(1, max(_TOKENS, _TOKENS_OF_RANK * ranks) // length)
            notes = (
                f"assumed: a step of {counted(batch, 'sample')} of {length} tokens; "
                "--global-batch sets it",
            )
        return cls(
            loaded,
            shape,
            batch,
            length,
            checked(layout or {}, loaded.name),
            framework,
            framework_set,
            near,
            simulations,
            backend,
            measured,
            sensitivity,
            notes,
        )

    @property
    def software(self) -> dict[str, object]:
        """Options that make the framework of all layouts, those that are given."""
        both = (("framework", self.framework), ("framework_set", self.framework_set))
        return {key: value for key, value in both if value is not None}
