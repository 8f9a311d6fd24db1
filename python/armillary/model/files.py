"""Models as data: presets (`models/*.yml`), model files, Hugging Face `config.json`.

Here: finding and reading a model, and turning its fields into a family's own dataclass. Not here:
what the fields mean (`decoder.py`, `dlrm.py` and the other families), the translation of a Hugging
Face configuration (`huggingface.py`). A model file is YAML: `family`, `source`, and the fields of
the family; what has no published source has no place in it."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .. import documents, old_words
from ..errors import InputError, Problem
from .checkpoint import PLAIN, Checkpoint, declared_checkpoint, read_checkpoint
from .huggingface_names import CAPTURED
from .other_names import preset_of

if TYPE_CHECKING:
    from ..declared import Source

MODELS = Path(__file__).resolve().parent.parent / "models"
"""Folder of the presets."""

FAMILIES = ("transformer", "moe", "dlrm", "cnn", "layerwise")
"""Families that a model file may name."""
DECODERS = ("transformer", "moe")
"""Families of decoders."""
_FAMILY = re.compile(r"^family: (\w+)$", re.M)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Model:
    """A model as its file gives it."""

    name: str
    family: str
    """One of `FAMILIES`, or `captured`."""
    fields: Mapping[str, Any]
    """The family's fields, not yet checked; `parse` does that."""
    source: str = ""
    """Where the numbers are from."""
    file: str = ""
    """The file as the caller named it, for problems; empty for a model made in Python."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Line of each field, from 1."""
    notes: tuple[str, ...] = ()
    """Assumptions and omissions when the file was read."""
    checkpoint: Checkpoint | None = PLAIN
    """Number formats in which the weights are published, if they are known."""

    def problem(self, place: str, message: str, help_: str = "") -> Problem:
        """A problem with the field `place`."""
        line = f"line {self.lines[place]}: " if place in self.lines else ""
        return Problem(self.file or self.name, line + place, message, help_)

    def document(self) -> Source:
        """The fields as a document to read, with the lines that are known."""
        from ..declared import Source

        lines: dict[documents.Path_, int] = {(key,): line for key, line in self.lines.items()}
        return Source(dict(self.fields), self.file or self.name, lines=lines)


def is_huggingface(values: Mapping[str, Any]) -> bool:
    """Whether a mapping looks like a Hugging Face model configuration."""
    return "model_type" in values or "architectures" in values


def models() -> list[str]:
    """Names of the models that come with Armillary, in order."""
    return sorted(path.stem for path in MODELS.glob("*.yml"))


def models_by_family() -> dict[str, list[str]]:
    """The same by family. A line of each file names it, so that a list reads no YAML."""
    found: dict[str, list[str]] = {family: [] for family in FAMILIES}
    for name in models():
        text = documents.read_text(MODELS / f"{name}.yml", "a model file")
        found[_FAMILY.findall(text)[0]].append(name)
    return found


def load_model(name: str | os.PathLike[str] | Model) -> Model:
    """The preset `name`, or the model file or Hugging Face `config.json` at the path `name` (or in
    that directory), or the preset with the published name `name` (`other_names.py`).

    `capture:PATH` is a Hugging Face configuration that is captured from PyTorch. Raises
    `InputError` when there is no such model, or its file is not a model file.
    """
    if isinstance(name, Model):
        return name
    if os.fspath(name).startswith(CAPTURED):
        return _captured(os.fspath(name).removeprefix(CAPTURED))
    path = _find(os.fspath(name))
    text = documents.read_text(path, "a model file")
    shown = path.name if path.parent == MODELS else str(path)
    values, lines = _json(text, shown) if path.suffix == ".json" else _yaml(text, shown)
    if is_huggingface(values):
        from .huggingface import translate

        stem = path.parent.name if path.name == "config.json" else path.stem
        found, notes, problems = translate(values, shown)
        if problems:
            raise InputError(problems)
        source = f"{shown}, a Hugging Face configuration"
        published = read_checkpoint(values.get("quantization_config"))
        return Model(
            stem or "model", found.pop("family"), found, source, shown,
            notes=tuple(notes), checkpoint=published,
        )  # fmt: skip
    return _model(path.stem, values, shown, lines)


def _captured(name: str) -> Model:
    path = _find(name)
    shown = str(path)
    text = documents.read_text(path, "a configuration")
    values = _json(text, shown)[0] if path.suffix == ".json" else {}
    if not is_huggingface(values):
        said = "is not a configuration of Hugging Face"
        raise InputError([Problem(shown, "", said, "a config.json with model_type")])
    stem = path.parent.name if path.name == "config.json" else path.stem
    source = f"{shown}, a Hugging Face configuration, captured from PyTorch"
    return Model(stem or "model", "captured", values, source, shown)


def _find(name: str) -> Path:
    if name in models():
        return MODELS / f"{name}.yml"
    path = Path(name)
    path = path / "config.json" if documents.is_folder(path) else path
    if documents.is_file(path):
        return path
    if preset := preset_of(name, models()):
        return MODELS / f"{preset}.yml"
    near = difflib.get_close_matches(name.lower(), models(), n=5, cutoff=0.4)
    allowed = ", ".join(near or models())
    help_ = f"a model file, a Hugging Face config.json, or a preset such as {allowed}"
    raise InputError([Problem(name, "", "there is no such model", help_)])


def _json(text: str, file: str) -> tuple[dict[str, Any], dict[str, int]]:
    # Hugging Face writes Infinity for limits that are none.
    return _mapping(documents.parse_json(text, file, "a JSON object", finite=False), file), {}


def _yaml(text: str, file: str) -> tuple[dict[str, Any], dict[str, int]]:
    document = documents.parse_yaml(text, file, "`key: value` lines")
    values = _mapping(document.value, file)
    for path, line in document.repeated:
        raise InputError(
            [Problem(file, f"line {line}: {path[-1]}", "is given twice", "each key once")]
        )
    return values, {str(path[0]): line for path, line in document.lines.items() if len(path) == 1}


def _mapping(values: object, file: str) -> dict[str, Any]:
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise InputError(
            [Problem(file, "", "is not a mapping of fields to values", "`key: value` lines")]
        )
    return values


def _model(stem: str, values: dict[str, Any], file: str, lines: dict[str, int]) -> Model:
    fields = dict(values)
    name, family, source = (
        fields.pop(key, default)
        for key, default in (("name", stem), ("family", ""), ("source", ""))
    )
    published = fields.pop("checkpoint", None)
    model = Model(str(name), str(family), fields, str(source), file, lines)
    if published is not None:
        found = declared_checkpoint(published, model.file, lines.get("checkpoint"))
        model = replace(model, checkpoint=found)
    if family not in FAMILIES:
        said = f"unknown family {family!r}" if family else "is missing"
        raise InputError([model.problem("family", said, ", ".join(FAMILIES))])
    return _in_words_of_today(model)


def _in_words_of_today(model: Model) -> Model:
    """The model with today's names of its fields, and a note for each old one. Raises
    `InputError`."""
    try:
        fields, old = old_words.keys(model.family, model.fields)
    except InputError as error:
        problems = [model.problem(each.place, each.message, each.help) for each in error.problems]
        raise InputError(problems) from None
    return replace(model, fields=fields, notes=tuple(old)) if old else model


def parse_family(model: Model, family: str, shape: type[T]) -> T:
    """`parse`, for a model of `family` alone."""
    if model.family != family:
        said = f"{model.name} is a {model.family} model"
        raise InputError([model.problem("family", said, f"a {family} model")])
    return parse(model, shape)


def parse(model: Model, shape: type[T]) -> T:
    """The model's fields as the dataclass `shape`, which declares them (`declared.py`). Raises
    `InputError` listing every problem."""
    from ..declared import read

    source = model.document()
    found = read(shape, source)
    source.finish()
    assert found is not None
    return found
