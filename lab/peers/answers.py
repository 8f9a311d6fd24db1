"""File that a record program hands to `run_peers.py`: version and answers of the peer, as JSON.

Here: writing it. Not here: comparing with the record, and the record's date (`run_peers.py`)."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

Answers = Mapping[str, object]
"""Name of a question to an answer of JSON's types."""


def main(version: str, answers: Callable[[], Answers]) -> None:
    """Writes what `answers` returns to the file that the command line names. Warnings of peers
    about their own code are not shown."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    content = {"version": version, "answers": answers()}
    Path(sys.argv[1]).write_text(json.dumps(content), encoding="utf-8")
