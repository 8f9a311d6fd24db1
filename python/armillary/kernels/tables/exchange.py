"""Tables of measured exchanges of experts (aiconfigurator's `wideep_deepep_ll_perf`,
`wideep_deepep_normal_perf` and `trtllm_alltoall_perf`).

A row of DeepEP has a dispatch and a combine. Nodes have 8 ranks, those of GB200 4. Low-latency
times are of kernels. Normal times on one node are of calls, with the host's launch; on several
nodes they are of kernels, copies and notifications apart, which are added here. Their routers
choose experts on 4 nodes at most. Times of TensorRT-LLM are of calls in CUDA graphs, in ms.

Source: ai-dynamo/aiconfigurator, collector/deep_collector and its all-to-alls of TensorRT-LLM."""

from __future__ import annotations

from typing import TypedDict

from ..shapes import Combine, Dispatch
from .rows import Left, Row, Table, count

_RANKS, _RANKS_OF_TRAYS = 8, 4
_TRAYS = ("gb200", "gb300")
_MOST_NODES = 4
"""Nodes that the router of the normal benchmark chooses."""
_FORMATS = {"bfloat16": "bf16", "fp8": "fp8", "nvfp4": "nvfp4"}
_SIDES = {"NVLinkOneSided": "trtllm", "NVLinkTwoSided": "trtllm_two_sided"}


class _Counts(TypedDict):
    tokens: int
    hidden: int
    experts: int
    top_k: int
    ep: int


def _deepep(row: Row) -> _Counts:
    """The counts of a row.

    Raises:
        ValueError: a value that is not a count, or ranks that do not divide the experts, with which
            DeepEP does not run.
    """
    trays = row["system"].lower().startswith(_TRAYS)
    ep = count(row, "node_num") * (_RANKS_OF_TRAYS if trays else _RANKS)
    experts = count(row, "num_experts")
    if ep == 0 or experts % ep != 0:
        raise ValueError(f"{experts} experts do not divide by {ep} ranks")
    return {
        "tokens": count(row, "num_token"),
        "hidden": count(row, "hidden_size"),
        "experts": experts,
        "top_k": count(row, "num_topk"),
        "ep": ep,
    }


def _groups(row: Row) -> int:
    """The limit of nodes of a token, where it is one."""
    return _MOST_NODES if count(row, "node_num") > _MOST_NODES else 0


def dispatch_ll(row: Row) -> Dispatch | Left:
    """The low-latency dispatch of a row."""
    return Dispatch(**_deepep(row))


def combine_ll(row: Row) -> Combine | Left:
    """The low-latency combine of a row."""
    return Combine(**_deepep(row))


def dispatch_normal(row: Row) -> Dispatch | Left:
    """The normal dispatch of a row."""
    sms = count(row, "dispatch_sms")
    return Dispatch(**_deepep(row), groups=_groups(row), sms=sms, backend="deepep_normal")


def combine_normal(row: Row) -> Combine | Left:
    """The normal combine of a row."""
    sms = count(row, "combine_sms")
    return Combine(**_deepep(row), groups=_groups(row), sms=sms, backend="deepep_normal")


def trtllm(row: Row) -> Dispatch | Combine | Left:
    """The operation of a row of TensorRT-LLM."""
    backend = _SIDES.get(row["kernel_source"])
    format = _FORMATS.get(row["moe_dtype"])
    operation = row["op_name"].removeprefix("alltoall_")
    if backend is None or format is None:
        return Left(f"all-to-alls by {row['kernel_source']} in {row['moe_dtype']}")
    if row["distribution"] != "balanced":
        return Left(f"all-to-alls of {row['distribution']} routers")
    counts: _Counts = {
        "tokens": count(row, "num_tokens"),
        "hidden": count(row, "hidden_size"),
        "experts": count(row, "num_experts"),
        "top_k": count(row, "topk"),
        "ep": count(row, "moe_ep_size"),
    }
    copy = "copy" if backend == "trtllm_two_sided" else "whole"
    if operation in ("prepare", "dispatch"):
        stage = "prepare" if operation == "prepare" else copy
        return Dispatch(**counts, format=format, backend=backend, routing="balanced", stage=stage)
    if operation in ("combine", "combine_low_precision"):
        low = "bf16" if operation == "combine" else "nvfp4"
        return Combine(**counts, format=low, backend=backend, routing="balanced", stage=copy)
    return Left(f"operations {operation} of all-to-alls")


_LL = ("node_num", "num_token", "num_topk", "num_experts")
DISPATCH_LL = Table("dispatch_ll", (*_LL, "dispatch_avg_t_us"), dispatch_ll, "dispatch_avg_t_us")
"""Dispatch by DeepEP's low-latency kernels."""
COMBINE_LL = Table("combine_ll", (*_LL, "combine_avg_t_us"), combine_ll, "combine_avg_t_us")
"""Combine by DeepEP's low-latency kernels."""
DISPATCH_NORMAL = Table(
    "dispatch_normal",
    (*_LL, "dispatch_sms", "dispatch_transmit_us", "dispatch_notify_us"),
    dispatch_normal,
    "dispatch_transmit_us",
    more="dispatch_notify_us",
)
"""Dispatch by DeepEP's normal kernels."""
COMBINE_NORMAL = Table(
    "combine_normal",
    (*_LL, "combine_sms", "combine_transmit_us", "combine_notify_us"),
    combine_normal,
    "combine_transmit_us",
    more="combine_notify_us",
)
"""Combine by DeepEP's normal kernels."""
TRTLLM_EXCHANGE = Table(
    "trtllm_exchange",
    ("op_name", "kernel_source", "moe_dtype", "num_tokens", "moe_ep_size", "topk", "latency"),
    trtllm,
    "latency",
    1000.0,
)
"""All-to-alls of TensorRT-LLM."""
