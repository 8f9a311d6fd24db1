"""A reader of one Hugging Face configuration: values by key, and which keys were used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import Problem
from .huggingface_names import ACTIVATIONS, CAPTURED, NAMES, OWN_NAMES, is_without_cost

MOST_LAYERS = 10_000
"""Layers of a configuration: readers list one entry for each."""


class Reader:
    """Values out of a configuration, with the keys that were used and what was wrong."""

    def __init__(self, values: Mapping[str, Any], file: str, kinds: Sequence[str] = ()) -> None:
        self.values = values
        self.file = file
        self.names = dict(NAMES)
        for kind in kinds:
            self.names |= OWN_NAMES.get(kind, {})
        self.problems: list[Problem] = []
        self.used: set[str] = set()
        self.assumed: list[str] = []

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def number(self, keys: str | tuple[str, ...], default: int | None = None) -> int:
        """A whole number by the first of `keys` that is given, or the default. Keys that repeat it
        are used, too."""
        keys = (keys,) if isinstance(keys, str) else keys
        if not keys and default is not None:
            return default
        key = next((key for key in keys if key in self), keys[0])
        value = self.values.get(key)
        if value is None and default is not None:
            return default
        self.used |= {key, *(each for each in keys if self.values.get(each) == value)}
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            said = "is missing" if value is None else f"{value!r} is not a whole number"
            self.refuse(key, said, "a whole number")
            return 1
        return value

    def field(self, name: str, default: int | None = None) -> int:
        """A field by any of its names."""
        found = self.number(self.names[name], default)
        if name == "layers" and found > MOST_LAYERS:
            key = next(key for key in self.names[name] if self.values.get(key) == found)
            self.refuse(key, f"{found} layers", f"at most {MOST_LAYERS:,}")
            return 1
        return found

    def has(self, name: str) -> bool:
        """Whether a field is given."""
        return any(key in self for key in self.names[name])

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false; the default where it is not given."""
        value = self.values.get(key)
        if value is None:
            return default
        self.used.add(key)
        if not isinstance(value, bool):
            self.refuse(key, f"{value!r} is neither true nor false", "true, false")
            return default
        return value

    def require(self, key: str, *allowed: object) -> None:
        """A key that must have one of the values that are modelled, where it is given."""
        if key not in self:
            return
        self.used.add(key)
        if self.values[key] not in allowed:
            known = ", ".join(repr(value) for value in allowed)
            self.refuse(
                key, f"{self.values[key]!r} is not modelled", f"{known}; {way_out(self.file)}"
            )

    def types(self, key: str) -> list[str]:
        """A list of names, one for each layer; empty without."""
        value = self.values.get(key)
        if value is None:
            return []
        self.used.add(key)
        if not isinstance(value, list) or len(value) != self.field("layers"):
            self.refuse(key, "is not a list of one name for each layer", "one for each layer")
            return []
        return [str(each) for each in value]

    def refuse(self, key: str, said: str, help_: str) -> None:
        """A problem with one key, once however often the key is read."""
        problem = Problem(self.file, key, said, help_)
        if problem not in self.problems:
            self.problems.append(problem)

    def refuse_the_rest(self, kind: str) -> None:
        """A problem for each key that was given and not used, unless it is known to change neither
        parameters nor operations."""
        if set(self.types_unread()) - {"full_attention"}:
            self.refuse("layer_types", f"layers of {kind!r} do not differ", way_out(self.file))
        for key, value in self.values.items():
            if key not in self.used and not is_without_cost(key, value):
                said = f"is not known for {kind!r}: it may change parameters or operations"
                self.refuse(key, said, way_out(self.file))
        for key in ("hidden_act", "hidden_activation", "activation_function"):
            if key in self and self.values[key] not in ACTIVATIONS:
                self.refuse(key, f"{self.values[key]!r} is not known", ", ".join(ACTIVATIONS))

    def types_unread(self) -> list[str]:
        """`layer_types`, where the architecture did not ask for it."""
        return [] if "layer_types" in self.used else self.types("layer_types")


def way_out(file: str) -> str:
    """Advice about an unknown key of a file."""
    return f"remove it if it changes neither; or {capturing(file)}"


def capturing(file: str) -> str:
    """How to capture a configuration that no reader knows."""
    return (
        f"`armillary run {CAPTURED}{file} ...`, which captures it from PyTorch "
        "(docs/models/capture.md)"
    )
