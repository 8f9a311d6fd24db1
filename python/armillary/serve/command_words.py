"""Words of a command line of an engine as keys and values.

Here: flags with their aliases and negations, values, JSON of flags, and configuration files. Not
here: what the flags of an engine mean (`flags_vllm.py` and its like), scripts
(`launch/shell.py`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .. import documents
from ..errors import InputError, Problem
from ..launch.documented import flat, given_yaml
from ..launch.given import Given, Said
from ..launch.shell import Word

_SUFFIXED = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)([kKmMgG])")
_POWERS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_LEVEL = re.compile(r"-O([0-9])")
_MOST_WORDS = 2000


def listed(table: Mapping[str, str]) -> dict[str, str]:
    """Flags that a table lists by their reason, with the reason of each."""
    return {name: why for why, names in table.items() for name in names.split()}


@dataclass(frozen=True, slots=True)
class Table:
    """How an engine writes its flags. Names are without leading dashes."""

    engine: str
    separator: str
    """`-` or `_`, with which the names here are written. Commands may have either."""
    aliases: Mapping[str, str]
    switches: frozenset[str]
    """Flags that stand alone."""
    lists: frozenset[str]
    """Flags with several values."""
    objects: frozenset[str]
    """Flags with a JSON object whose keys are read."""
    positional: str
    """Name of the value that stands without a flag; empty where there is none."""
    config: str
    """Flag of a configuration file."""
    overrides: bool
    """Whether the file overrides the command line."""
    rest: frozenset[str] = field(default_factory=frozenset)
    """Flags whose keys after a dot are not read one by one."""
    offs: frozenset[str] = field(default_factory=frozenset)
    """Keys of a file that turn something off where they are null."""

    def name(self, text: str) -> str:
        """The name of a flag as this table writes it."""
        head, *keys = text.lstrip("-").split(".")
        other = "_" if self.separator == "-" else "-"
        head = head.replace(other, self.separator)
        return ".".join((self.aliases.get(head, head), *keys))


def given_words(words: Sequence[Word], table: Table, file: str, folder: Path) -> Given:
    """The keys of a command, whose words follow the name of the program. Raises `InputError`."""
    if len(words) > _MOST_WORDS:
        message = f"has {len(words)} words"
        raise InputError([Problem(file, "", message, f"at most {_MOST_WORDS}")])
    given = Given(file, {}, name_of=lambda key: _shown(key, table))
    keys: dict[str, Said] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        if not _is_flag(word):
            _positional(keys, word, table, given)
            continue
        if level := _LEVEL.fullmatch(word.text):
            _put(keys, table.name("-O"), Said(level[1], _place(word)), table)
            continue
        text, mark, value = word.text.partition("=")
        name = table.name(text)
        if name not in table.switches and (switch := _negated(name, table)):
            _put(keys, switch, Said(False, _place(word)), table)
        elif mark:
            said = Said(value, _place(word), word.unknown, word.assumed)
            _put(keys, name, said, table)
        elif name in table.switches and not (left and left[0].text in ("true", "false")):
            _put(keys, name, Said(None, _place(word), word.unknown), table)
        else:
            _put(keys, name, _values(word, left, name in table.lists), table)
    return _with_file(Given(file, _objects(keys, table, file), given.notes, given.problems,
                            name_of=given.name_of), table, folder)  # fmt: skip


def _place(word: Word) -> str:
    return f"line {word.line}" if word.line else ""


def _is_flag(word: Word) -> bool:
    """Whether a word is a flag, and not a negative number."""
    return word.text.startswith("-") and not re.fullmatch(r"-[0-9.]+|-", word.text)


def _shown(key: str, table: Table) -> str:
    return f"--{key}" if key != table.positional else key


def _negated(name: str, table: Table) -> str:
    """The switch that a name such as `no-enable-chunked-prefill` turns off; empty for others."""
    start = f"no{table.separator}"
    rest = name.removeprefix(start)
    return rest if name.startswith(start) and rest in table.switches else ""


def _positional(keys: dict[str, Said], word: Word, table: Table, given: Given) -> None:
    if not table.positional or table.positional in keys:
        message = f"{word.text[:80]!r} belongs to no flag"
        given.problems.append(Problem(given.file, _place(word), message, "--FLAG VALUE"))
        return
    keys[table.positional] = Said(word.text, _place(word), word.unknown, word.assumed)


def _values(flag: Word, left: list[Word], many: bool) -> Said:
    """The value that follows a flag, or all values up to the next flag."""
    taken: list[Word] = []
    while left and not _is_flag(left[0]) and (many or not taken):
        taken.append(left.pop(0))
    unknown = tuple(each for word in (flag, *taken) for each in word.unknown)
    assumed = tuple(each for word in taken for each in word.assumed)
    texts = [word.text for word in taken]
    value: object = None if not texts else texts[0] if len(texts) == 1 else texts
    return Said(value, _place(flag), unknown, assumed)


def _put(keys: dict[str, Said], name: str, said: Said, table: Table) -> None:
    """Keeps a value; the last one of a flag counts, as engines do it."""
    head = name.partition(".")[0]
    keys[head if head in table.rest else name] = said


def _objects(keys: Mapping[str, Said], table: Table, file: str) -> dict[str, Said]:
    """The keys, with JSON objects as keys of their own."""
    found: dict[str, Said] = {}
    for key, said in keys.items():
        if key not in table.objects or not isinstance(said.value, str) or said.unknown:
            found[key] = said
            continue
        name = f"{said.place}: {_shown(key, table)}" if said.place else _shown(key, table)
        try:
            value = documents.parse_json(said.value, file, "a JSON object")
            inner = flat(value, file)
        except InputError as error:
            message = error.problems[0].message
            raise InputError([Problem(file, name, message, "a JSON object")]) from None
        found |= {f"{key}.{part}": Said(each.value, said.place) for part, each in inner.items()}
    return found


def _with_file(given: Given, table: Table, folder: Path) -> Given:
    """The keys of a command and of its configuration file."""
    if not table.config or not given.has(table.config):
        return given
    name = given.text(table.config)
    if name is None:
        raise InputError(given.problems)
    path = folder / name
    text = documents.read_text(path, "a YAML file of keys and values", documents.MOST_YAML)
    read = given_yaml(text, str(path))
    keys: dict[str, Said] = {}
    for key, said in read.keys.items():
        _put(keys, table.name(key), Said(said.value, f"{name} {said.place}".strip()), table)
    document = documents.parse_yaml(text, str(path), "a YAML file").value
    keys |= {key: Said(False, name) for key in table.offs if document.get(key, key) is None}
    first, last = (given.keys, keys) if table.overrides else (keys, given.keys)
    return Given(given.file, {**first, **last}, given.notes, given.problems, given.asked,
                 given.name_of)  # fmt: skip


def tokens(given: Given, key: str) -> int | None:
    """A number of tokens, which may be written as 8k (8,000) or 8K (8,192)."""
    said = given.keys.get(key)
    found = None
    if said is not None and not said.unknown and isinstance(said.value, str):
        found = _SUFFIXED.fullmatch(said.value)
    if found is None:
        return given.count(key)
    given.value(key)
    if found[2].isupper() and "." in found[1]:
        given.fault(key, f"invalid count: {said.value!r}", "8192, 8k, 8K") if said else None
        return None
    return round(float(found[1]) * _POWERS[found[2]])
