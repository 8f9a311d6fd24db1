"""Command lines of inference engines: the deployment that one starts, in our words.

    command = read_command("vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2")
    layout, replicas = command.spread(has_experts=False)

Here: the command among the lines of a script. Not here: its words (`command_words.py`), what its
flags mean (`flags_vllm.py`, `flags_sglang.py`, `flags_trtllm.py`). Nothing is executed. A flag that
is not known is refused. One that takes or saves time without a model is a note, and one that costs
no time is in `idle`, with the reason."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .. import documents
from ..errors import InputError, Problem
from ..launch.given import Given
from ..launch.shell import Word, read_script
from . import flags_sglang, flags_trtllm, flags_vllm
from .command_words import Table, given_words
from .engine_command import EngineCommand

_WHAT = (
    "vllm serve MODEL ..., python -m sglang.launch_server --model-path MODEL ..., "
    "trtllm-serve MODEL ..."
)
_READERS: Mapping[str, tuple[Table, Callable[[Given], EngineCommand]]] = {
    "vllm": (flags_vllm.TABLE, flags_vllm.read),
    "sglang": (flags_sglang.TABLE, flags_sglang.read),
    "trtllm": (flags_trtllm.TABLE, flags_trtllm.read),
}
_MODULES = {
    "vllm.entrypoints.openai.api_server": "vllm",
    "sglang.launch_server": "sglang",
    "sglang_router.launch_server": "sglang",
}
_IMAGE = re.compile(r"(?:[\w.-]+(?::\d+)?/)*vllm-openai(?::[\w.-]+)?(?:@sha256:\w+)?")
"""Images of containers whose arguments are those of vLLM's server."""


def read_command(text: str, *, file: str = "") -> EngineCommand:
    """The deployment that a command line starts, alone or in a script with variables.

    `file` names the script in errors; configuration files that the command names are read from its
    folder.

    Raises:
        InputError: no command of a known engine, or several; every flag that is not known or has
            no model, with its line.
    """
    script = read_script(text, file)
    found = [each for words in script.commands if (each := _engine(words))]
    if len(found) != 1:
        said = f"starts {len(found)} engines" if found else "starts no engine that is known"
        raise InputError([Problem(file, "", said, _WHAT)])
    name, words = found[0]
    table, read = _READERS[name]
    lines = len({word.line for word in words}) > 1 or bool(file)
    if not lines:
        words = [Word(word.text, 0, word.unknown, word.assumed) for word in words]
    given = given_words(words, table, file, Path(file).parent)
    for note in script.notes:
        given.note(note)
    return read(given)


def read_command_file(path: str | os.PathLike[str]) -> EngineCommand:
    """The same of a script. Raises `InputError`."""
    name = os.fspath(path)
    text = documents.read_text(name, "a script that starts an engine", documents.MOST_YAML)
    return read_command(text, file=name)


def _engine(words: Sequence[Word]) -> tuple[str, list[Word]] | None:
    """The engine that a command starts, and the words after its name; `None` for others."""
    texts = [word.text for word in words]
    for place, text in enumerate(texts):
        after = texts[place + 1] if place + 1 < len(texts) else ""
        name = text.rpartition("/")[2]
        if name == "vllm" and after == "serve":
            return "vllm", list(words[place + 2 :])
        if name == "sglang" and after == "serve":
            return "sglang", list(words[place + 2 :])
        if name == "trtllm-serve":
            return "trtllm", list(words[place + 1 + (after == "serve") :])
        if text in _MODULES and place and texts[place - 1] == "-m":
            return _MODULES[text], list(words[place + 1 :])
        if _IMAGE.fullmatch(text):
            return "vllm", list(words[place + 1 :])
    return None
