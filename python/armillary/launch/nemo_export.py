"""Layouts as configurations of NeMo's Megatron-Bridge, which `nemo.py` reads back as the same.

Flags of Megatron-LM become fields of megatron-core's classes. The activation function is the
recipe's: YAML can't name it. Source: Megatron-Bridge 0.3.1, training/config.py."""

from __future__ import annotations

import json

from .megatron_export import megatron_flags
from .nemo import INVERSE, key_of
from .patterns import read_pattern
from .wanted import Wanted

_NAME = "Megatron-Bridge"
_DROPPED = ("--group-query-attention", "--max-position-embeddings")


def nemo_config(wanted: Wanted) -> str:
    """A configuration that gives the layout. Raises `InputError` for what the library can't do."""
    par, shape = wanted.par, wanted.shape
    wanted.only(_NAME, {"moments": ("fp32",)})
    if shape.clamped:
        wanted.refuse("clamped", "on, a function that YAML can't name", "a model without it")
    if shape.positions not in (0, par.seq):
        wanted.refuse("seq", par.seq, f"{shape.positions}, the model's learned positions")
    if par.ep_node is not None:
        wanted.refuse("ep_node", par.ep_node, "none: the launcher decides ranks of a node")
    flags = megatron_flags(wanted, _NAME)
    tree: dict[str, dict[str, object]] = {
        "model": {}, "train": {}, "ddp": {}, "optimizer": {}, "mixed_precision": {},
        "comm_overlap": {"tp_comm_overlap": False}, "checkpoint": {},
    }  # fmt: skip
    for flag, value in flags:
        if flag not in _DROPPED:
            section, name, found = _key(flag, value)
            tree[section][name] = found
    tree["model"] |= {"should_pad_vocab": True}
    tree["mixed_precision"]["grad_reduce_in_fp32"] = par.fp32_gradients
    tree["mixed_precision"].setdefault("fp32", par.precision == "fp32")
    lines = [
        f"# {wanted.model.name} on {par.world} ranks, over a recipe of the same model.",
    ]
    for section, keys in tree.items():
        lines += [f"{section}:"] if keys else []
        lines += [f"  {name}: {json.dumps(value)}" for name, value in keys.items()]
    return "\n".join(lines) + "\n"


def _key(flag: str, value: str) -> tuple[str, str, object]:
    """Section, key and value of a flag."""
    section, _, name = key_of(flag).partition(".")
    if flag in INVERSE.values():
        return section, name, False
    if flag in ("--grad-reduce-in-bf16", "--accumulate-allreduce-grads-in-fp32"):
        return section, name, flag.endswith("fp32")
    return section, name, _typed(flag, value)


def _typed(flag: str, value: str) -> object:
    """A value of a flag as YAML has it."""
    if flag == "--moe-layer-freq":
        return read_pattern(value)
    if flag == "--window-size":
        return [int(each) for each in value.strip("()").split(",")]
    if flag == "--recompute-modules":
        return value.split()
    if flag == "--cp-comm-type":
        return "all_gather" if value == "allgather" else value
    return _plain(value) if value else True


def _plain(value: str) -> object:
    if value.isdecimal():
        return int(value)
    try:
        return float(value)
    except ValueError:
        return value
