"""The table of formats: what each is called, and the functions that read and write it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .. import documents
from ..errors import InputError, Problem
from ..model.files import DECODERS, Model, load_model
from . import (
    deepspeed,
    deepspeed_export,
    maxtext_export,
    megatron,
    megatron_export,
    nemo,
    nemo_export,
    torchtitan,
    torchtitan_export,
)
from .launched import Launched
from .wanted import Wanted, wanted

AUTO = "auto"
_WHAT = "a launch script or a configuration"


@dataclass(frozen=True, slots=True)
class Reader:
    """A format that is read."""

    recognises: Callable[[str], bool]
    """Whether a text has its words."""
    read: Callable[[str, str, Model | None, int | None], Launched]
    """From text, name of the file, model and ranks to a job."""


READERS: Mapping[str, Reader] = {
    "megatron-args": Reader(megatron.is_megatron, megatron.read_megatron),
    "torchtitan": Reader(torchtitan.is_torchtitan, torchtitan.read_torchtitan),
    "nemo": Reader(nemo.is_nemo, nemo.read_nemo),
    "deepspeed": Reader(deepspeed.is_deepspeed, deepspeed.read_deepspeed),
}
EXPORTS: Mapping[str, Callable[[Wanted], str]] = {
    "megatron": megatron_export.megatron_script,
    "torchtitan": torchtitan_export.torchtitan_command,
    "nemo": nemo_export.nemo_config,
    "deepspeed": deepspeed_export.deepspeed_config,
    "maxtext": maxtext_export.maxtext_config,
}


def read(
    path: str | os.PathLike[str],
    format_: str = AUTO,
    *,
    model: str | os.PathLike[str] | Model | None = None,
    ranks: int | None = None,
) -> Launched:
    """The job that a launch script or a configuration starts, as a model and options.

    `format_` is one of `READERS`; `auto` goes by the words of the file. `model` is needed where the
    file has none, and is compared where it has. `ranks` are all ranks, where the file does not say
    them. Nothing is executed. Raises `InputError` with every problem."""
    name = os.fspath(path)
    if format_ not in (AUTO, *READERS):
        allowed = ", ".join((AUTO, *READERS))
        raise InputError([Problem("", "--from", f"unknown format {format_!r}", allowed)])
    base = None if model is None else load_model(model)
    if base is not None and base.family not in DECODERS:
        said = f"a model of the family {base.family!r}"
        raise InputError([base.problem("family", said, f"a model of {' or '.join(DECODERS)}")])
    text = documents.read_text(name, _WHAT, documents.MOST_YAML)
    if format_ == AUTO:
        format_ = _recognised(text, name)
    return READERS[format_].read(text, name, base, ranks)


def _recognised(text: str, file: str) -> str:
    found = [name for name, reader in READERS.items() if reader.recognises(text)]
    if len(found) == 1:
        return found[0]
    said = f"looks like {' and '.join(found)}" if found else "has the words of no known format"
    raise InputError([Problem(file, "", said, f"--from FORMAT FILE: {', '.join(READERS)}")])


def export(
    model: str | os.PathLike[str] | Model, options: Mapping[str, object], framework: str
) -> str:
    """Launch flags, or a configuration, of `framework` that give the layout of `options`. Raises
    `InputError` for a layout that the framework can't express, with the option and what is
    allowed."""
    writer = EXPORTS.get(framework)
    if writer is None:
        allowed = ", ".join(EXPORTS)
        raise InputError([Problem("", "--export", f"unknown framework {framework!r}", allowed)])
    return writer(wanted(model, options))
