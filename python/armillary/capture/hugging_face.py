"""The module that a Hugging Face configuration describes, without weights.

Here: which class of `transformers` it is, and what is refused. Nothing is downloaded, and no code
that a configuration names runs (`auto_map`)."""

from __future__ import annotations

import copy
import difflib
import math
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ..errors import InputError, Problem
from ..model.huggingface_names import SAME
from . import catching
from .inputs import WAY_OUT

_PARTS = ("text_config", "llm_config", "vision_config", "audio_config")


def build(values: Mapping[str, Any], file: str) -> torch.nn.Module:
    """The model of a configuration, with parameters that hold no numbers, in 16 bits. Raises
    `InputError` where its class is not one of `transformers`."""
    transformers = _library(file)
    from transformers.initialization import no_init_weights

    config = _config(transformers, values, file)
    model = _class(transformers, config, values, file)
    catching.register()
    with warnings.catch_warnings(), no_init_weights(), torch.device("meta"):
        warnings.simplefilter("ignore")
        try:
            made = _built(model, config)
        except Exception as error:
            said = f"{model.__name__} cannot be built of it: {_line(error)}"
            raise InputError([Problem(file, "", said, "a configuration of this class")]) from None
    # Some classes make parameters in their own way, on a processor.
    made = made.to("meta")
    made.tie_weights()
    made.train()
    return made  # type: ignore[no-any-return]


def _built(model: Any, config: Any) -> Any:
    """The model, with our attention and grouped products where its classes take them. Some choose
    among classes of attention of their own, and parts of some take no implementation of experts."""
    attention = [catching.NAME, "sdpa", "eager"]
    experts: list[object] = ["grouped_mm", {"": "grouped_mm", "text_config": "grouped_mm"}]
    while True:
        options: dict[str, object] = {"attn_implementation": attention[0], "dtype": torch.bfloat16}
        if _has_experts(model):
            options["experts_implementation"] = experts[0]
        try:
            return model._from_config(copy.deepcopy(config), **options)
        except Exception as error:
            missing = error.args == (attention[0],) or "scaled_dot_product_attention" in str(error)
            if missing and len(attention) > 1:
                attention.pop(0)
            elif "experts implementation" in str(error) and len(experts) > 1:
                experts.pop(0)
            else:
                raise


def text_part(model: torch.nn.Module) -> str:
    """The module inside of a model that predicts tokens by itself, next to its towers; empty where
    only the whole model does."""
    inner = getattr(model, "language_model", None)
    return "language_model" if type(inner).__name__.endswith("ForCausalLM") else ""


def _has_experts(model: Any) -> bool:
    """Whether a class takes an implementation of experts."""
    return bool(getattr(model, "_can_set_experts_implementation", lambda: False)())


def _library(file: str) -> Any:
    try:
        import transformers
    except ImportError:
        said = "needs the package transformers, which is not installed"
        help_ = "pip install 'armillary[capture]'"
        raise InputError([Problem(file, "", said, help_)]) from None
    transformers.logging.set_verbosity_error()
    return transformers


def _config(transformers: Any, values: Mapping[str, Any], file: str) -> Any:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    for place in ("", *_PARTS):
        part = values.get(place) if place else values
        if isinstance(part, Mapping) and part.get("auto_map"):
            said = "names code that comes with the model. Such code is never run"
            where = f"{place}.auto_map" if place else "auto_map"
            help_ = f"no such key where a class of transformers is the same; else {WAY_OUT}"
            raise InputError([Problem(file, where, said, help_)])
    _check_sizes(values, file)
    given = str(values.get("model_type", ""))
    kind = given if given in CONFIG_MAPPING else SAME.get(given, "")
    if kind not in CONFIG_MAPPING:
        said = f"transformers {transformers.__version__} has no model of the type {given!r}"
        near = difflib.get_close_matches(given, list(CONFIG_MAPPING), n=3, cutoff=0.6)
        raise InputError([Problem(file, "model_type", said, "; or ".join([*near, WAY_OUT]))])
    rest = {key: value for key, value in _plain(values).items() if key != "model_type"}
    try:
        return CONFIG_MAPPING[kind](**rest)
    except Exception as error:
        said = f"{CONFIG_MAPPING[kind].__name__} refuses it: {_line(error)}"
        raise InputError([Problem(file, "", said, "a configuration of this class")]) from None


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without keys that choose an implementation, which may be code from elsewhere,
    or a quantization."""
    return {
        key: _plain(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if not key.startswith("_") and not key.endswith(_CHOICES)
    }


_CHOICES = (
    "attn_implementation",
    "experts_implementation",
    "kernels",
    "kernel_config",
    "quantization_config",
)
"""Ends of keys that choose an implementation or a quantization."""


def _check_sizes(values: Mapping[str, Any], file: str) -> None:
    """Refuses sizes that no model has, as building one would take too long."""
    problems = []
    for place, value in _numbers(values, ""):
        most = next((most for end, most in _MOST if place.endswith(end)), _LARGEST)
        if abs(value) > most:
            problems.append(Problem(file, place, f"{value:,} is too large", f"up to {most:,}"))
    if problems:
        raise InputError(problems)


def _numbers(values: object, place: str) -> Iterator[tuple[str, int | float]]:
    """Numbers of a configuration, and where they are. An infinite limit is none."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield from _numbers(value, f"{place}.{key}".lstrip("."))
    elif isinstance(values, list):
        for at, value in enumerate(values):
            yield from _numbers(value, f"{place}[{at}]")
    elif isinstance(values, int | float) and not isinstance(values, bool) and values != math.inf:
        yield place, values


_LARGEST = 2**40
_MOST = (
    ("layers", 4096),
    ("n_layer", 4096),
    ("depth", 4096),
    ("blocks", 4096),
    ("experts", 2**16),
    ("modules", 4096),
)
"""Largest numbers of keys with these ends."""


def _class(transformers: Any, config: Any, values: Mapping[str, Any], file: str) -> Any:
    """The class that a configuration names, or that predicts tokens: all of an encoder-decoder, and
    masked ones of an encoder."""
    from transformers.models.auto import modeling_auto as auto

    named = values.get("architectures")
    for name in named if isinstance(named, list) else ():
        found = getattr(transformers, str(name), None)
        if found is not None and getattr(found, "config_class", None) is type(config):
            return found
    first: list[Any] = []
    if getattr(config, "is_encoder_decoder", False):
        first = [
            auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
            auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING,
        ]
    elif getattr(config, "is_decoder", None) is False:
        first = [auto.MODEL_FOR_MASKED_LM_MAPPING]
    for mapping in (
        *first,
        auto.MODEL_FOR_CAUSAL_LM_MAPPING,
        auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
        auto.MODEL_FOR_MASKED_LM_MAPPING,
        auto.MODEL_MAPPING,
    ):
        if type(config) in mapping:
            return mapping[type(config)]
    said = f"no model of transformers has a {type(config).__name__}"
    raise InputError([Problem(file, "architectures", said, "a class of transformers")])


def _line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
