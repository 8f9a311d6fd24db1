"""Answers of megatron-core: the fields of its configuration classes, and the flags that they
name."""

from __future__ import annotations

from importlib.metadata import version

from answers import Answers, main
from declared_fields import fields, flags, source

_CORE = "megatron/core"
CLASSES = {
    "ModelParallelConfig": f"{_CORE}/model_parallel_config.py",
    "TransformerConfig": f"{_CORE}/transformer/transformer_config.py",
    "MLATransformerConfig": f"{_CORE}/transformer/transformer_config.py",
    "DistributedDataParallelConfig": f"{_CORE}/distributed/distributed_data_parallel_config.py",
    "OptimizerConfig": f"{_CORE}/optimizer/optimizer_config.py",
}


def answers() -> Answers:
    """Fields and flags of each class."""
    trees = {name: source("megatron-core", file) for name, file in CLASSES.items()}
    return {
        "fields": {name: fields(tree, name) for name, tree in trees.items()},
        "flags": {name: flags(tree, name) for name, tree in trees.items()},
    }


if __name__ == "__main__":
    main(version("megatron-core"), answers)
