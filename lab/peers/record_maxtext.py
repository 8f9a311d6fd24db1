"""Answers of MaxText: the keys of its base configuration with their defaults, the words of settings
with a choice, and the names of its models."""

from __future__ import annotations

import re
from importlib.metadata import files, version
from pathlib import Path

import yaml
from answers import Answers, main

CHOICES = ("remat_policy", "context_parallel_strategy", "attention")


def answers() -> Answers:
    """Keys, words of choices, and models."""
    found = {str(each): Path(str(each.locate())) for each in files("maxtext") or ()}
    text = found["maxtext/configs/base.yml"].read_text(encoding="utf-8")
    types = found["maxtext/configs/types.py"].read_text(encoding="utf-8")
    base = yaml.safe_load(text)
    plain = {key: repr(value) for key, value in base.items() if not isinstance(value, list | dict)}
    lines = text.splitlines()
    words = {
        key: sorted(
            {
                word
                for at, line in enumerate(lines)
                if line.startswith(f"{key}:")
                for near in lines[max(0, at - 4) : at + 1]
                for word in re.findall(r"[a-z][a-z0-9_]+", near)
            }
        )
        for key in CHOICES
    }
    names = (name for name in found if re.fullmatch(r"maxtext/configs/models/[^/]+\.yml", name))
    return {
        "keys": plain,
        "words": words,
        "quantizations": sorted(set(re.findall(r'"(te_[a-z0-9_]+)"', types))),
        "models": sorted(Path(name).stem for name in names),
    }


if __name__ == "__main__":
    main(version("maxtext"), answers)
