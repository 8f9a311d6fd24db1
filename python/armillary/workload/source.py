"""A workload by whatever names it: files that hold one, or a model that is made into one at
once."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from .. import documents
from ..errors import InputError, Problem, flag
from ..model.files import is_huggingface, load_model, models
from ..model.huggingface_names import CAPTURED
from ..model.other_names import preset_of
from ..platform import AnyPlatform
from . import texts
from . import workload as files
from .workload import Workload

_FAMILY = re.compile(r"^family\s*:", re.MULTILINE)
_LARGEST = 1 << 22
"""Bytes of a model's file, at most: traces are larger, and are not read to find out what they
are."""


def load(
    path: str | os.PathLike[str],
    platform: AnyPlatform | None = None,
    groups: str | os.PathLike[str] | None = None,
    passes: int = 1,
    **chosen: object,
) -> Workload:
    """Reads a workload, or makes one of a model: `load("traces/gpt.%d.et")`, `load("llama-3-70b",
    tp=8, dp=64)`.

    `path` is what `Workload.write` wrote, Chakra execution traces, one a rank, or a text of
    ASTRA-sim 1.0: `traces/gpt.%d.et` with `%d` standing for the rank, the prefix `traces/gpt`
    alone, the directory when it holds one such set, or an archive of it. Protobuf and JSON, plain
    and gzip are recognized by their content. With `platform`, an object, a name or a
    path, the number of ranks must be that of
    its NPUs; without, it is checked when the workload is simulated. `groups` is a JSON file of
    communicator groups, `{"1": [0, 1], "2": [2, 3]}`, for traces that only name them; when not
    given, `comm_group.json` in the directory `path`. `passes` is how often the layers of a text
    run; everything else has its own steps and takes no other than 1.

    Or `path` is a model: a preset, unless a file has that name, a model file, or a Hugging Face
    `config.json` or the directory that holds it. `chosen` are then the options of its family
    (`build`). A text takes `overlap` and `bucket_mb`, traces take none. Raises `InputError`
    listing every problem."""
    name = os.fspath(path)
    if is_model(name):
        return _made(name, groups, passes, chosen)
    is_text = files.is_text(name)
    if chosen and not is_text:
        raise InputError([_no_model(name, chosen)])
    course = texts.chosen(name, chosen) if is_text else texts.Options()
    try:
        return files.load(name, platform, groups, passes, course)
    except InputError as error:
        near = (
            []
            if os.path.lexists(name)
            else difflib.get_close_matches(name.lower(), models(), n=5, cutoff=0.5)
        )
        if not near:
            raise
        model = Problem(
            name, "", "there is no model of this name", f"a model such as {', '.join(near)}"
        )
        raise InputError([*error.problems, model]) from None


def is_model(name: str) -> bool:
    """Whether `name` means a model and no workload: by the content of the file, or as a preset
    where there is none."""
    if name.startswith(CAPTURED):
        return True
    path = Path(name)
    if path.is_dir():
        return (path / "config.json").is_file() and not (path / "workload.json").is_file()
    if path.is_file():
        return _holds_model(path)
    return preset_of(name, models()) is not None


def _holds_model(path: Path) -> bool:
    if path.suffix not in (".json", ".yml", ".yaml") or path.stat().st_size > _LARGEST:
        return False
    try:
        text = documents.read_text(path, "a model file")
        if path.suffix != ".json":
            return _FAMILY.search(text) is not None
        values = documents.parse_json(text, str(path), "a JSON object", finite=False)
    except InputError:
        return False
    return isinstance(values, dict) and is_huggingface(values)


def _made(
    name: str, groups: str | os.PathLike[str] | None, passes: int, chosen: dict[str, object]
) -> Workload:
    if groups is not None:
        raise InputError(
            [
                Problem(
                    name, "groups", "is for traces; a model has groups of its own", "no such file"
                )
            ]
        )
    from .families import build, options

    known = options(load_model(name).family)
    if passes != 1 and "passes" not in known:
        raise InputError(
            [Problem(name, "passes", f"{passes} passes of a model that has no such option", "1")]
        )
    return build(name, **chosen, **({} if passes == 1 else {"passes": passes}))


def _no_model(name: str, chosen: Iterable[str]) -> Problem:
    if not os.path.lexists(name):
        near = difflib.get_close_matches(name.lower(), models(), n=5, cutoff=0.4)
        return Problem(name, "", "there is no such model", ", ".join(near or models()))
    flags = ", ".join(flag(option) for option in chosen)
    return Problem(
        name, flags, "for models and texts only, and this is neither", "a model, or no such option"
    )
