"""A model as the text of a model file, which `armillary` reads wherever it takes a model."""

from __future__ import annotations

import json

from ..model.files import Model


def model_file(model: Model) -> str:
    """The model file."""
    lines = [f"family: {model.family}", f"source: {json.dumps(model.source)}"]
    lines += [f"{name}: {json.dumps(value)}" for name, value in model.fields.items()]
    return "\n".join(lines) + "\n"
