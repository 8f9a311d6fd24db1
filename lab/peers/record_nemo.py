"""Answers of NeMo's Megatron-Bridge: the fields of its configuration, by section, and its named
precisions. Its sections for parallel data and the optimizer inherit those of megatron-core."""

from __future__ import annotations

import ast
from importlib.metadata import version

from answers import Answers, main
from declared_fields import fields, source

_BRIDGE = "megatron/bridge"
SECTIONS = {
    "": (f"{_BRIDGE}/training/config.py", "ConfigContainer"),
    "model": (f"{_BRIDGE}/models/gpt_provider.py", "GPTModelProvider"),
    "train": (f"{_BRIDGE}/training/config.py", "TrainingConfig"),
    "dist": (f"{_BRIDGE}/training/config.py", "DistributedInitConfig"),
    "checkpoint": (f"{_BRIDGE}/training/config.py", "CheckpointConfig"),
    "mixed_precision": (f"{_BRIDGE}/training/mixed_precision.py", "MixedPrecisionConfig"),
    "comm_overlap": (f"{_BRIDGE}/training/comm_overlap.py", "CommOverlapConfig"),
}


def precisions() -> dict[str, dict[str, str]]:
    """Fields that each named precision sets."""
    tree = source("megatron-bridge", f"{_BRIDGE}/training/mixed_precision.py")
    found: dict[str, dict[str, str]] = {}
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or not node.name.endswith("_mixed"):
            continue
        keys: dict[str, str] = {}
        for each in ast.walk(node):
            if isinstance(each, ast.Call) and ast.unparse(each.func) == "MixedPrecisionConfig":
                keys |= {str(word.arg): ast.unparse(word.value) for word in each.keywords}
            if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Attribute):
                keys[each.targets[0].attr] = ast.unparse(each.value)
        found[node.name] = keys
    return found


def answers() -> Answers:
    """Fields and named precisions."""
    trees = {key: (source("megatron-bridge", file), name) for key, (file, name) in SECTIONS.items()}
    return {
        "fields": {key: fields(*place) for key, place in trees.items()},
        "precisions": precisions(),
    }


if __name__ == "__main__":
    main(version("megatron-bridge"), answers)
