"""Answers of torchtitan: the fields of its configuration, and what its configuration functions
set. Nothing of it is imported."""

from __future__ import annotations

import ast
from importlib.metadata import version

from answers import Answers, main
from declared_fields import fields, source

SECTIONS = {
    "training": ("torchtitan/config/configs.py", "TrainingConfig"),
    "parallelism": ("torchtitan/config/configs.py", "ParallelismConfig"),
    "compile": ("torchtitan/config/configs.py", "CompileConfig"),
    "optimizer": ("torchtitan/components/optimizer/optimizer.py", "OptimizersContainer.Config"),
    "": ("torchtitan/trainer.py", "Trainer.Config"),
}
MODULES = ("llama3", "deepseek_v3", "qwen3", "gpt_oss")


def functions(module: str) -> dict[str, dict[str, str]]:
    """Keywords of `training`, `parallelism` and `compile` that each function sets itself, and its
    kind of checkpoints."""
    tree = source("torchtitan", f"torchtitan/models/{module}/config_registry.py")
    found: dict[str, dict[str, str]] = {}
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        made = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
        whole = [each for each in made if ast.unparse(each.func) == "Trainer.Config"]
        keys: dict[str, str] = {}
        for keyword in whole[0].keywords if whole else ():
            if keyword.arg in ("training", "parallelism", "compile"):
                values = keyword.value.keywords if isinstance(keyword.value, ast.Call) else []
                keys |= {f"{keyword.arg}.{each.arg}": ast.unparse(each.value) for each in values}
            elif keyword.arg == "activation_checkpoint":
                keys[keyword.arg] = ast.unparse(keyword.value)
        found[node.name] = keys
    return found


def subcommands() -> list[str]:
    """Words behind `activation_checkpoint:`."""
    tree = source("torchtitan", "torchtitan/distributed/activation_checkpoint.py")
    calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
    return [
        ast.literal_eval(each.args[0])
        for each in calls
        if ast.unparse(each.func) == "tyro.conf.subcommand"
    ]


def answers() -> Answers:
    """Fields by section, checkpoints, and functions by module."""
    trees = {
        section: (source("torchtitan", file), name) for section, (file, name) in SECTIONS.items()
    }
    return {
        "fields": {section: fields(*place) for section, place in trees.items()},
        "checkpoints": subcommands(),
        "functions": {module: functions(module) for module in MODULES},
    }


if __name__ == "__main__":
    main(version("torchtitan"), answers)
