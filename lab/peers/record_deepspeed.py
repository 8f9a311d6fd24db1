"""Answers of DeepSpeed: the fields of its configuration classes, by the section of the file that
they are, and its constants, which name the keys that have no class."""

from __future__ import annotations

import ast
from importlib.metadata import version

from answers import Answers, main
from declared_fields import fields, source

_RUNTIME = "deepspeed/runtime"
SECTIONS = {
    "zero_optimization": (f"{_RUNTIME}/zero/config.py", "DeepSpeedZeroConfig"),
    "zero_optimization.offload_param": (
        f"{_RUNTIME}/zero/offload_config.py",
        "DeepSpeedZeroOffloadParamConfig",
    ),
    "zero_optimization.offload_optimizer": (
        f"{_RUNTIME}/zero/offload_config.py",
        "DeepSpeedZeroOffloadOptimizerConfig",
    ),
    "bf16": (f"{_RUNTIME}/precision_config.py", "DeepSpeedBF16Config"),
    "fp16": (f"{_RUNTIME}/precision_config.py", "DeepSpeedFP16Config"),
    "tensor_parallel": (f"{_RUNTIME}/tensor_parallel/config.py", "TPTrainingConfig"),
    "expert_parallel": ("deepspeed/module_inject/auto_ep_presets/base.py", "AutoEPConfig"),
    "compile": ("deepspeed/compile/config.py", "CompileConfig"),
}
CONSTANTS = (
    f"{_RUNTIME}/constants.py",
    f"{_RUNTIME}/config.py",
    f"{_RUNTIME}/activation_checkpointing/config.py",
    f"{_RUNTIME}/tensor_parallel/config.py",
)


def texts(tree: ast.Module) -> set[str]:
    """Short texts of a module: values of constants, and keys that functions ask for."""
    found = {
        str(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {text for text in found if text.isidentifier() and len(text) < 50}


def aliases(file: str, name: str) -> dict[str, list[str]]:
    """The fields of a class, under their aliases where they have one."""
    tree = source("deepspeed", file)
    node = next(each for each in tree.body if isinstance(each, ast.ClassDef) and each.name == name)
    found = fields(tree, name)
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.value, ast.Call):
            assert isinstance(each.target, ast.Name)
            for keyword in each.value.keywords:
                if keyword.arg == "alias" and isinstance(keyword.value, ast.Constant):
                    found[str(keyword.value.value)] = found.pop(each.target.id)
    return found


def answers() -> Answers:
    """Fields of each section, and constants."""
    words: set[str] = set()
    for file in CONSTANTS:
        words |= texts(source("deepspeed", file))
    return {
        "fields": {section: aliases(*place) for section, place in SECTIONS.items()},
        "constants": sorted(words),
    }


if __name__ == "__main__":
    main(version("deepspeed"), answers)
