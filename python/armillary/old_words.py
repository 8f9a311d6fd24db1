"""Old words of options, values, keys and modules: what each is called today.

Here: the table, and the functions that read old words with it. Every row works until the release
that it names, with a warning. docs/reference/old-words.md is the table as a page. Not here: keys of
platform files (`crates/platform/src/config/declared`), imports of modules (`_moved.py`)."""

from __future__ import annotations

import functools
import sys
import warnings as warnings_
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from .errors import InputError, Problem, flag

T = TypeVar("T")
Kind = Literal["verb", "verb value", "model", "model value", "key"]
Convert = Callable[[object, object], object]
"""From the value of an old word, and the value that the new one has already (`None` without), to
the new value. `None` drops the word."""

NEXT = "0.3"
"""Release without the old words of this one."""
SAID = "ARMILLARY_OLD_WORDS_SAID"
"""Environment variable: the process that started this one has printed its warnings of old words."""


@dataclass(frozen=True, slots=True)
class OldWord:
    """One old word."""

    kind: Kind
    """`verb`, an option of a verb (`--html`); `model`, an option of a model (`zero`), on the
    command line, in Python and in files; the `value` of one of them; `key`, a key of a YAML
    file."""
    places: tuple[str, ...]
    """Verbs, families of models, or kinds of files that had the word."""
    old: str
    new: str
    """Word of today. Empty for an option that had no effect. `framework_set.merged` is the key
    `merged` of the option `framework_set`."""
    option: str = ""
    """Option whose value the word is, by its name of today."""
    is_flag: bool = False
    """Whether an option takes no value."""
    convert: Convert | None = None
    """Conversion of the value; `None` where it is the same."""
    help: str = ""
    """Conversion in words."""
    until: str = NEXT
    """Release in which the old word goes."""

    @property
    def warning(self) -> str:
        """The warning for a user of the old word."""
        what = f" of {self.option}" if self.option else ""
        if not self.new:
            return f"{self.old}{what} has no effect; it goes in {self.until}"
        more = f" ({self.help})" if self.help else ""
        return f"{self.old}{what} is now called {self.new}{more}; the old name goes in {self.until}"


_DECODERS = ("transformer", "moe")
_FLAGS = (
    "merged",
    "gates_inside",
    "separate_bias",
    "separate_clamp",
    "separate_rotary",
    "early_stop",
    "overlap_tp",
    "overlap_grad_reduce",
    "overlap_param_gather",
    "whole_tensors",
    "scatter_gather",
)
_VALUES = ("kernels", "loss_metrics", "bucket_mb", "unflatten_us", "partition")


def _stage(on: object, zero: object) -> object:
    """The stage of ZeRO for an old flag, with the stage that is given."""
    return max(1, zero if isinstance(zero, int) else 0) if on else None


_FORMATS = {"4": "fp32", "2": "fp16", "1": "fp8"}
"""Formats by bytes of an element."""


def _precision(value: object, _held: object) -> str:
    """The format of a number of bytes. Raises `InputError`."""
    found = _FORMATS.get(str(value))
    if found is None:
        said = f"no format has {value} bytes"
        raise InputError([Problem("", "precision", said, "fp32, tf32, fp16, bf16, fp8 or int8")])
    return found


def _messages(*names: str) -> Convert:
    """From bytes of an element on the wire to the formats of these exchanges, behind others."""

    def convert(value: object, held: object) -> str:
        if str(value) not in ("2", "4"):
            said = f"no plain format has {value} bytes"
            allowed = "messages with fp32, fp16 or bf16; int8 and fp8 also send a scale of each row"
            raise InputError([Problem("", "messages", said, allowed)])
        found = ",".join(f"{name}={_FORMATS[str(value)]}" for name in names)
        return found if held is None else f"{held},{found}"

    return convert


_BYTES = "bytes to a format: 4 to fp32, 2 to fp16, 1 to fp8"
_SENT = "bytes to formats: 4 to fp32, 2 to fp16"
_FORWARD = ("forward", "reduce-scatter")

WORDS: tuple[OldWord, ...] = (
    OldWord("verb", ("calibrate", "platform"), "--out", "--output"),
    OldWord("verb", ("design", "study"), "--html", "--report"),
    OldWord("verb", ("run",), "--seed", ""),
    OldWord("key", ("sweep",), "parameters.seed", ""),
    OldWord(
        "model",
        _DECODERS,
        "distributed_optimizer",
        "zero",
        is_flag=True,
        convert=_stage,
        help="1",
    ),
    *(
        OldWord("model", _DECODERS, name, f"framework_set.{name}", is_flag=name in _FLAGS)
        for name in (*_FLAGS, *_VALUES)
    ),
    OldWord("verb", ("bench", "train"), "--nproc", "--ranks"),
    OldWord("verb", ("bench", "train"), "--batch", "--global-batch"),
    OldWord("verb", ("train",), "--cache-memory", "--cache"),
    *(
        OldWord("verb value", ("plan", "train"), old, "rowwise_adagrad", option="--optimizer")
        for old in ("row-wise-adagrad", "row_wise_adagrad")
    ),
    OldWord(
        "verb",
        ("plan",),
        "--embedding-width",
        "--table-precision",
        convert=_precision,
        help=_BYTES,
    ),
    OldWord(
        "verb",
        ("plan",),
        "--message-width",
        "--messages",
        convert=_messages("forward", "backward", "reduce-scatter"),
        help=_SENT,
    ),
    *(
        OldWord("model value", ("dlrm",), old, "rowwise_adagrad", option="optimizer")
        for old in ("row-wise-adagrad", "row_wise_adagrad")
    ),
    OldWord("model", ("dlrm",), "npus_per_node", "ranks_per_node"),
    OldWord("model", ("dlrm",), "pipelined", "pipeline", is_flag=True),
    OldWord("model", ("parameter_servers",), "batch", "local_batch"),
    *(
        OldWord("model", families, old, new, convert=_precision, help=_BYTES)
        for families, old, new in (
            (("cnn", "dlrm", "parameter_servers"), "width", "precision"),
            (("cnn", "dlrm"), "gradient_width", "gradient_precision"),
            (("dlrm", "parameter_servers"), "embedding_width", "table_precision"),
        )
    ),
    *(
        OldWord("key", ("dlrm",), old, new, convert=_precision, help=_BYTES)
        for old, new in (
            ("width", "precision"),
            ("gradient_width", "gradient_precision"),
            ("embedding_width", "table_precision"),
        )
    ),
    *(
        OldWord("model", ("dlrm",), old, "messages", convert=_messages(*names), help=_SENT)
        for old, names in (("forward_width", _FORWARD), ("backward_width", ("backward",)))
    ),
)
"""All old words but those of modules (`old_modules.py`) and of platform files."""


def of(kind: Kind, place: str) -> dict[str, OldWord]:
    """The old words of one place, by the old word."""
    return {each.old: each for each in WORDS if each.kind == kind and place in each.places}


def arguments(given: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments of a command line, the verb first, in words of today; and warnings."""
    verb = given[0] if given else ""
    names, values = of("verb", verb), of("verb value", verb)
    found, warnings = list[str](), dict[str, None]()
    left = list(given)
    while left and left[0] != "--":
        argument = left.pop(0)
        name, sign, value = argument.partition("=")
        word = names.get(name)
        if word is not None:
            warnings[word.warning] = None
            has_value = bool(sign) or (not word.is_flag and bool(left))
            value = value if sign or not has_value else left.pop(0)
            found += _argument(word, value if has_value else None)
        elif values and name.startswith("--") and (sign or left):
            value = value if sign else left[0]
            changed = _value(name, value, values, warnings)
            found += [f"{name}={changed}"] if sign else [name]
            left[:1] = left[:1] if sign else [changed]
        else:
            found.append(argument)
    return found + left, list(warnings)


def _argument(word: OldWord, value: str | None) -> list[str]:
    """An old option of a verb as it is written today."""
    if not word.new:
        return []
    made = value if word.convert is None or value is None else word.convert(value, None)
    return [word.new] if made is None else [word.new, str(made)]


def _value(
    option: str, value: str, values: Mapping[str, OldWord], warnings: dict[str, None]
) -> str:
    """The value of an option of a verb in words of today."""
    word = values.get(value)
    if word is None or word.option != option:
        return value
    warnings[word.warning] = None
    return word.new


def options(family: str, given: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """Options of a model in words of today; and warnings. Raises `InputError` for an old word next
    to another value of the new one."""
    return _current(of("model", family), of("model value", family), given)


def keywords(verb: str, given: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """The options of a verb as Python and files name them, in words of today; and warnings. Raises
    `InputError` for an old word next to another value of the new one."""
    names = {_keyword(old): _as_keyword(word) for old, word in of("verb", verb).items()}
    values = {old: _as_keyword(word) for old, word in of("verb value", verb).items()}
    return _current(names, values, given)


def keys(place: str, given: Mapping[str, object]) -> tuple[dict[str, object], list[str]]:
    """Keys of a file in words of today; and warnings. Raises `InputError`."""
    return _current(of("key", place), {}, given)


def keys_of_today(place: str, given: Mapping[str, object]) -> dict[str, object]:
    """Keys of a mapping in words of today, with a Python warning for each old one. Raises
    `InputError`."""
    found, warnings = keys(place, given)
    warn(warnings)
    return found


def today(family: str, given: Mapping[str, object]) -> dict[str, object]:
    """Options of a model in words of today, with a Python warning for each old one. Raises
    `InputError`."""
    found, warnings = options(family, given)
    warn(warnings)
    return found


def reads_keywords(verb: str) -> Callable[[type[T]], type[T]]:
    """Lets a dataclass take the old words of a verb as keywords, with a warning."""

    def decorate(declared: type[T]) -> type[T]:
        made = declared.__init__

        @functools.wraps(made)
        def init(self: T, *arguments: object, **given: object) -> None:
            found, warnings = keywords(verb, given)
            warn(warnings)
            made(self, *arguments, **found)

        declared.__init__ = init  # type: ignore[assignment, method-assign]
        return declared

    return decorate


def warn(warnings: Sequence[str]) -> None:
    """Warnings for a user of Python, at the first line that is not ours."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("armillary"):
        frame, level = frame.f_back, level + 1
    for each in warnings:
        warnings_.warn(each, DeprecationWarning, stacklevel=level)


def _keyword(option: str) -> str:
    """`cache_memory` of `--cache-memory`."""
    return option.removeprefix("--").replace("-", "_")


def _as_keyword(word: OldWord) -> OldWord:
    """An old word of a verb as Python has it."""
    if word.kind == "verb value":
        return replace(word, option=_keyword(word.option))
    return replace(word, old=_keyword(word.old), new=_keyword(word.new))


def _current(
    names: Mapping[str, OldWord], values: Mapping[str, OldWord], given: Mapping[str, object]
) -> tuple[dict[str, object], list[str]]:
    found: dict[str, object] = {}
    warnings = dict[str, None]()
    for name in [each for each in given if each not in names]:
        _put(found, name, given[name])
    for name in [each for each in given if each in names]:
        word = names[name]
        warnings[word.warning] = None
        if word.new:
            _rename(found, word, given[name])
    for name, value in found.items():
        word_of_value = values.get(value) if isinstance(value, str) else None
        if word_of_value is not None and word_of_value.option == name:
            warnings[word_of_value.warning] = None
            found[name] = word_of_value.new
    return found, list(warnings)


def _rename(found: dict[str, object], word: OldWord, value: object) -> None:
    """Puts the value of an old option under its new name."""
    name, _, key = word.new.partition(".")
    inner = found.get(name)
    held = inner.get(key) if key and isinstance(inner, Mapping) else None if key else inner
    made = value if word.convert is None else word.convert(value, held)
    if made is None:
        return
    if held is not None and held != made and word.convert is None:
        said = f"is the old name of {word.new}, which is given too"
        raise InputError([Problem("", word.old, said, f"only {flag(name)}")])
    _put(found, word.new, made)


def _put(found: dict[str, object], name: str, value: object) -> None:
    """Sets an option, or with `option.key` a key of an option that is a mapping."""
    outer, _, key = name.partition(".")
    if not key:
        found[name] = value
        return
    inner = found.get(outer)
    found[outer] = {**(inner if isinstance(inner, Mapping) else {}), key: value}
