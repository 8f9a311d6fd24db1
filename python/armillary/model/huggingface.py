"""Hugging Face `config.json` into the fields of a decoder model.

Here: which architecture a file describes, and what is refused. Not here: the fields themselves
(`decoder.py`), what known architectures make of their keys (`huggingface_kinds.py`). A file is read
exactly or refused: an architecture, a key or a value that is not known may be another model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, Problem
from .huggingface_kinds import KNOWN, common
from .huggingface_names import (
    BESIDE_TEXT,
    DEFAULTS,
    OTHER_PARTS,
    OUTER,
    SAME,
    TIED,
    WIDE,
    WITHOUT_HEAD,
    is_without_cost,
)
from .huggingface_reader import Reader, capturing, way_out

_PARTS = ("text_config", "llm_config")
_HEADS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ChatModel")
"""Ends of the names of classes that predict tokens."""

_OTHER_NAMES = {"kimi_k2": ("deepseekv3",)}
"""Classes whose names are not like their `model_type`."""


def translate(
    values: Mapping[str, Any], file: str
) -> tuple[dict[str, Any], list[str], list[Problem]]:
    """The fields of the model with its `family`, warnings for the reader, and what keeps the file
    from being read."""
    try:
        text = _text(values, file)
    except InputError as refused:
        return {}, [], list(refused.problems)
    defaults = DEFAULTS.get(text.named) or DEFAULTS.get(text.kind, {})
    reader = Reader({**defaults, **text.values}, file, (text.kind, text.named))
    found = common(reader, wide=text.kind in WIDE)
    found |= KNOWN[text.kind](reader)
    if "experts" not in found:
        found["family"] = "transformer"
    elif not found["experts"]:
        reader.refuse("experts", "has none", f"one or more; {way_out(file)}")
    notes = [*text.notes, *_notes(reader)]
    reader.refuse_the_rest(text.kind)
    return found, notes, reader.problems


@dataclass(frozen=True, slots=True)
class _Text:
    """The text part of a configuration, or all of it where there is no other."""

    kind: str
    values: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    named: str = ""
    """Type of the part, where it has defaults of its own."""


def _text(values: Mapping[str, Any], file: str) -> _Text:
    """The part that describes a decoder. Raises `InputError` where it is not known exactly."""
    part = next((key for key in _PARTS if isinstance(values.get(key), Mapping)), None)
    outer = _named(values)
    if outer in WITHOUT_HEAD:
        raise InputError([_unknown(outer, file)])
    _check_classes(values, outer, file)
    if part is None and outer not in OUTER:
        return _Text(_known(outer, file), values)
    return _beside(values, outer, part, file)


def _beside(values: Mapping[str, Any], outer: str, part: str | None, file: str) -> _Text:
    """The text part of a model with other parts, which are left out with a note."""
    if outer not in OUTER:
        raise InputError([_unknown(outer, file)])
    inner = values[part] if part else values
    named = _named(inner) if part else ""
    kind = _known(named or OUTER.get(outer) or outer, file)
    left = sorted(key for key in values if key.startswith(OTHER_PARTS) and values[key])
    if part is None:
        inner = {key: value for key, value in values.items() if not _is_beside(key)}
    else:
        _check_beside(values, part, file)
        inner = _with_head(values, outer, inner, file)
    said = f"only the text part ({kind}) of {outer!r} is read"
    notes = (f"{said}; left out: {', '.join(left)}" if left else said,)
    return _Text(kind, inner, notes, named or f"{outer}_text")


def _with_head(
    values: Mapping[str, Any], outer: str, inner: Mapping[str, Any], file: str
) -> Mapping[str, Any]:
    """The text part with what the whole says about its head."""
    key = "tie_word_embeddings"
    given, own = values.get(key), inner.get(key)
    whole = outer in TIED if given is None else given
    if own is not None and own != whole:
        how = "when nothing is said" if given is None else "as given"
        said = f"is {whole!r} for {outer!r} {how}, and {own!r} for its text part"
        way = f"the same value at both places; or {capturing(file)}"
        raise InputError([Problem(file, key, said, way)])
    return {**inner, key: whole}


def _check_beside(values: Mapping[str, Any], part: str, file: str) -> None:
    """Refuses keys next to a text part that may change it."""
    unknown = [
        key
        for key, value in values.items()
        if key != part and not (_is_beside(key) or is_without_cost(key, value))
    ]
    unknown = [key for key in unknown if key not in ("quantization_config", *values[part])]
    if unknown:
        said = f"is not known next to {part}: it may change parameters or operations"
        raise InputError([Problem(file, key, said, way_out(file)) for key in unknown])


def _is_beside(key: str) -> bool:
    return key in BESIDE_TEXT or key.startswith(OTHER_PARTS)


def _named(values: Mapping[str, Any]) -> str:
    """The type of model as a configuration names it; by its class where it has no `model_type`."""
    kind = values.get("model_type")
    if isinstance(kind, str) and kind:
        return kind
    plain = next((_plain(name) for name in _classes(values)), "")
    known = (*KNOWN, *SAME, *OUTER)
    return next((kind for kind in known if kind.replace("_", "") == plain), plain)


def _classes(values: Mapping[str, Any]) -> list[str]:
    named = values.get("architectures")
    return [str(name) for name in named] if isinstance(named, list) else []


def _plain(name: str) -> str:
    """The name of a class without what it predicts, as types are spelled without underscores."""
    head = next((head for head in _HEADS if name.endswith(head)), "")
    return name.removesuffix(head).replace("_", "").lower() if head else name


def _check_classes(values: Mapping[str, Any], kind: str, file: str) -> None:
    """Refuses classes that are not the one of the type."""
    same = (kind, kind.removesuffix("_text"), SAME.get(kind, kind))
    allowed = {each.replace("_", "") for each in same} | set(_OTHER_NAMES.get(kind, ()))
    for name in _classes(values):
        if _plain(name) not in allowed:
            said = f"{name!r} is not known as a class of {kind!r}"
            raise InputError([Problem(file, "architectures", said, capturing(file))])


def _known(kind: str, file: str) -> str:
    """The architecture that reads a type."""
    found = SAME.get(kind, kind)
    if found in KNOWN:
        return found
    raise InputError([_unknown(kind, file)])


def _unknown(kind: str, file: str) -> Problem:
    known = ", ".join(sorted(KNOWN))
    help_ = f"{capturing(file)}; or one of {known}"
    return Problem(file, "model_type", f"{kind!r} is not a decoder that is known exactly", help_)


def _notes(reader: Reader) -> Iterator[str]:
    """Notes for readers of the configuration."""
    reader.used |= {"num_nextn_predict_layers", "quantization_config"}
    if reader.assumed:
        yield f"assumed: {', '.join(reader.assumed)}"
    if modules := reader.values.get("num_nextn_predict_layers"):
        yield (
            f"num_nextn_predict_layers {modules} is left out; --mtp {modules} trains "
            "multi-token prediction"
        )
