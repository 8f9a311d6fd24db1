"""Reading a model's fields: every value checked for type and range, unknown keys refused, all
problems kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from ..errors import InputError, Problem
from .files import Model


def require_family(model: Model, family: str) -> None:
    """Refuses a model of another family."""
    if model.family != family:
        raise InputError(
            [
                model.problem(
                    "family", f"{model.name} is a {model.family} model", f"a {family} model"
                )
            ]
        )


T = TypeVar("T")

NPUS = 2**24
"""NPUs of the largest machine."""

LARGEST = 2**31
"""Side of the largest matrix."""

MOST_BYTES = 2**50
COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "barrier",
)

LIMITS = {"dp": NPUS, "mp": NPUS, "passes": 10_000}
"""Largest value of an option; what is called a width has 16 bytes at most."""


def check_counts(counts: Mapping[str, int], **limits: int) -> list[Problem]:
    """Options that are not whole numbers from 1 up to their limit, which `limits` may lower."""
    problems = []
    for key, value in counts.items():
        most = limits.get(key, LIMITS.get(key, 16 if key.endswith("width") else LARGEST))
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not whole or not 1 <= value <= most:
            said = f"{value!r} is not a count" if not whole or value < 1 else f"{value} is too much"
            problems.append(Problem("", key, said, f"a whole number from 1 to {most}"))
    return problems


class Fields:
    """One mapping of a model file and where it stands there. `problems` is shared by all mappings
    of the file."""

    def __init__(
        self,
        values: Mapping[str, Any],
        file: str,
        place: str = "",
        problems: list[Problem] | None = None,
    ) -> None:
        self.values, self.file, self.place = values, file, place
        self.problems: list[Problem] = [] if problems is None else problems
        self.read: set[str] = set()

    def at(self, key: str) -> str:
        """The place of `key` in the file."""
        return f"{self.place}.{key}" if self.place else key

    def fault(self, key: str, message: str, allowed: str = "") -> None:
        """Keeps a problem at `key`."""
        self.problems.append(Problem(self.file, self.at(key), message, allowed))

    def _take(self, key: str, kind: type[T], what: str, default: T | None) -> T | None:
        self.read.add(key)
        if key not in self.values and default is not None:
            return default
        value = self.values.get(key)
        if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
            return value
        self.fault(key, f"{value!r} is not {what}" if key in self.values else "missing", what)
        return None

    def whole(
        self, key: str, default: int | None = None, least: int = 1, most: int = LARGEST
    ) -> int:
        """A whole number from `least` to `most`; required without a `default`."""
        value = self._take(key, int, f"a whole number from {least}", default)
        if value is not None and not least <= value <= most:
            said = f"{value} is too small" if value < least else f"{value} is too large"
            self.fault(key, said, f"a whole number from {least} to {most}")
            value = None
        return least if value is None else int(value)

    def text(self, key: str, default: str | None = None, allowed: tuple[str, ...] = ()) -> str:
        """A text, one of `allowed` if any are given."""
        value = self._take(
            key, str, "one of " + ", ".join(allowed) if allowed else "a text", default
        )
        if value is not None and allowed and value not in allowed:
            self.fault(key, f"{value!r} is unknown", ", ".join(allowed))
        return "" if value is None else str(value)

    def flag(self, key: str, default: bool) -> bool:
        """`true` or `false`."""
        value = self._take(key, bool, "true or false", default)
        return default if value is None else bool(value)

    def wholes(self, key: str, least: int = 1, count: int | None = None) -> tuple[int, ...]:
        """A list of whole numbers, `count` of them."""
        many = "" if count is None else f"{count} "
        what = f"a list of {many}whole numbers from {least}"
        value = self._take(key, list, what, None)
        if value is None:
            return ()
        good = all(
            isinstance(item, int) and not isinstance(item, bool) and least <= item <= LARGEST
            for item in value
        )
        if not good or (count is not None and len(value) != count):
            self.fault(key, f"{value!r} is not {what}", what)
            return ()
        return tuple(value)

    def recorded(self, key: str) -> tuple[int, str, int]:
        """Cycles, and the collective after them with its bytes: `[1200]` or `[1200, all_reduce,
        4096]`."""
        what = "[cycles] or [cycles, collective, bytes]"
        value = self._take(key, list, what, None)
        kinds = (int,) if value is not None and len(value) == 1 else (int, str, int)
        if value is None or len(value) != len(kinds) or not all(map(isinstance, value, kinds)):
            if value is not None:
                self.fault(key, f"{value!r} is not {what}", what)
            return 0, "", 0
        if not self._is_recorded(*value):
            said = (
                f"cycles and bytes from 0 to {LARGEST} and {MOST_BYTES}, and one of "
                f"{', '.join(COLLECTIVES)}"
            )
            self.fault(key, f"{value!r} is out of range", said)
            return 0, "", 0
        return (
            (int(value[0]), "", 0)
            if len(value) == 1
            else (int(value[0]), str(value[1]), int(value[2]))
        )

    @staticmethod
    def _is_recorded(cycles: int, kind: str = COLLECTIVES[0], size: int = 0) -> bool:
        return 0 <= cycles <= LARGEST and kind in COLLECTIVES and 0 <= size <= MOST_BYTES

    def entries(self, key: str) -> Iterator[Fields]:
        """The mappings of a list."""
        self.read.add(key)
        value = self.values.get(key)
        if not isinstance(value, list) or not value:
            self.fault(
                key,
                "missing" if value is None else f"{value!r} is not a list of mappings",
                "a list of mappings",
            )
            return
        for index, item in enumerate(value):
            if isinstance(item, Mapping):
                yield Fields(item, self.file, f"{self.at(key)}[{index}]", self.problems)
            else:
                self.fault(f"{key}[{index}]", f"{item!r} is not a mapping", "a mapping")

    def inner(self, key: str) -> Fields:
        """The mapping at `key`."""
        self.read.add(key)
        value = self.values.get(key)
        if not isinstance(value, Mapping):
            self.fault(
                key, "missing" if value is None else f"{value!r} is not a mapping", "a mapping"
            )
            value = {}
        return Fields(value, self.file, self.at(key), self.problems)

    def has(self, key: str) -> bool:
        """Whether the file gives `key`."""
        return key in self.values

    def done(self) -> None:
        """Refuses keys that were not read."""
        for key in self.values:
            if key not in self.read:
                self.fault(key, "unknown key", ", ".join(sorted(self.read)))

    def finish(self) -> None:
        """`done`, and raises everything found in the file."""
        self.done()
        if self.problems:
            raise InputError(self.problems)
