"""Keys of a launch and their values, each read once with its type; faults and notes are kept.

Here: what all frameworks share. Not here: which keys a framework has (`megatron.py`). A
key that no reader asked for is refused, unless the table of the framework says why it is idle."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from ..declared import near, shown
from ..errors import InputError, Problem

MOST = 2**24
_COUNT = re.compile(r"[0-9]{1,12}")
_SWITCHES = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Said:
    """The value of a key as it was written."""

    value: object
    """A text, a value of JSON or YAML, a list of either; `None` where a flag stands alone."""
    place: str = ""
    unknown: tuple[str, ...] = ()
    """Parts that the file does not say."""
    assumed: tuple[str, ...] = ()
    """Defaults that it stands on."""


@dataclass
class Given:
    """Keys of a launch, and the faults and notes found so far."""

    file: str
    keys: Mapping[str, Said]
    notes: dict[str, None] = field(default_factory=dict)
    """Assumptions, in order."""
    problems: list[Problem] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    name_of: Callable[[str], str] = str
    """From a key to its name in the file, where those of `keys` are translated."""

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        self.asked.add(key)
        return key in self.keys

    def note(self, text: str) -> None:
        """Keeps an assumption."""
        self.notes[text] = None

    def fault(self, key: str, message: str, allowed: str) -> None:
        """Keeps a problem of a key."""
        place = self.keys[key].place if key in self.keys else ""
        name = self.name_of(key)
        where = f"{place}: {name}" if place else name
        self.problems.append(Problem(self.file, where, message, allowed))

    def value(self, key: str) -> object:
        """The value of a key; `None` where it is not there, or the file does not say it."""
        self.asked.add(key)
        said = self.keys.get(key)
        if said is None:
            return None
        if said.unknown:
            what = ", ".join(said.unknown)
            self.fault(key, f"has a value that the file does not say: {what}", "a plain value")
            return None
        self.notes |= dict.fromkeys(f"{self.name_of(key)}: {each}" for each in said.assumed)
        return said.value

    def count(self, key: str, least: int = 1) -> int | None:
        """A whole number of at least `least`."""
        value = self._single(key)
        if value is None:
            return None
        text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
        if _COUNT.fullmatch(text) and least <= int(text) <= MOST:
            return int(text)
        self.fault(key, f"invalid count: {shown(value)}", f"{least} to {MOST}")
        return None

    def world(self, each: int | None, nodes: int | None, ranks: int | None) -> int | None:
        """Ranks: those that were given, or `each` on every node; without a number of nodes one."""
        found = each * (nodes or 1) if each else None
        if ranks is not None and found is not None and ranks != found:
            said = f"{ranks}, but the file starts {each} x {nodes or 1} = {found}"
            self.problems.append(Problem(self.file, "--ranks", said, "leave it out"))
        if ranks is None and found is None and not self.problems:
            said = "is missing: the file does not say how many ranks there are"
            self.problems.append(Problem(self.file, "--ranks", said, "--ranks N"))
        return ranks or found

    def number(self, key: str) -> float | None:
        """A number that is not below 0."""
        value = self._single(key)
        if value is None:
            return None
        try:
            found = float(str(value)) if isinstance(value, str | int | float) else -1.0
        except ValueError:
            found = -1.0
        if isinstance(value, bool) or not 0 <= found <= 1e18:
            self.fault(key, f"{shown(value)} is not a number", "a number, 0 or more")
            return None
        return found

    def word(self, key: str, allowed: Sequence[str]) -> str | None:
        """One of the allowed words."""
        value = self._single(key)
        if value is None:
            return None
        if isinstance(value, str) and value in allowed:
            return value
        self.fault(key, f"unknown value {shown(value)}", ", ".join(allowed))
        return None

    def text(self, key: str) -> str | None:
        """Any text."""
        value = self._single(key)
        if value is None or isinstance(value, str):
            return value
        self.fault(key, f"{shown(value)} is not a text", "a text")
        return None

    def words(self, key: str) -> list[str] | None:
        """A list of words."""
        value = self.value(key)
        listed = [value] if isinstance(value, str) else value
        if listed is None:
            return None
        if isinstance(listed, list) and all(isinstance(each, str) for each in listed):
            return [str(each) for each in listed]
        self.fault(key, f"{shown(value)} is not a list of words", "words")
        return None

    def switch(self, key: str) -> bool | None:
        """A flag that stands alone, or a value that is true or false; `None` without it."""
        if not self.has(key):
            return None
        if self.keys[key].unknown:
            return bool(self.value(key))
        value = self.value(key)
        if value is None or value is True:
            return True
        said = _SWITCHES.get(value.lower()) if isinstance(value, str) else value
        if isinstance(said, bool):
            return said
        self.fault(key, f"has the value {shown(value)}", "no value, or true")
        return None

    def _names(self, keys: set[str]) -> list[str]:
        return sorted({self.name_of(key) for key in keys})

    def _single(self, key: str) -> object:
        value = self.value(key)
        if isinstance(value, list):
            self.fault(key, f"has {len(value)} values: {shown(value)}", "one value")
            return None
        if value is None and key in self.keys and not self.keys[key].unknown:
            self.fault(key, "has no value", "a value")
        return value

    def warn(self, keys: Mapping[str, str]) -> None:
        """Notes keys that take time, or save it, which the simulator does not model."""
        for key, why in keys.items():
            if self.has(key):
                self.note(f"{self.name_of(key)} has no model, and is left out: {why}")

    def refuse(self, keys: Mapping[str, str], allowed: str) -> None:
        """Refuses keys that change what is trained."""
        for key, why in keys.items():
            if self.has(key):
                self.fault(key, why, allowed)

    def finish(
        self, idle: Mapping[str, str], switches: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, str]:
        """The keys that were left out because they cost nothing, each with the reason. `idle` has
        those that may be there; `switches` too, without a value. Raises `InputError` with every
        problem, and with the keys that are unknown."""
        left = [key for key in self.keys if key not in self.asked]
        known = {*idle, *switches, *self.asked}
        for key in left:
            said = self.keys[key]
            if key in switches and said.unknown:
                what = ", ".join(said.unknown)
                self.fault(key, f"is followed by what the file does not say: {what}", "plain words")
            elif key in switches and said.value not in (None, True, False, "true", "false"):
                self.fault(key, f"has the value {shown(said.value)}", "no value")
            elif key not in known:
                like = near(self.name_of(key), self._names(known))
                self.fault(key, "unknown key", f"{like}; or take it out if it costs no time")
        if self.problems:
            raise InputError(self.problems)
        return {key: idle.get(key) or switches[key] for key in left}
