"""A deployment: a model on engines of a platform, ready to take requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import InputError, Problem
from ..model.decoder import Decoder
from ..platform import Platform
from ..units import counted
from .engines import Engine
from .iteration import Iteration, Term, overheads
from .layout import BYTES, CACHES, Footprint, Layout, Precision, blocks, footprint

_SIZE = "a size: --set npu.memory.capacity=80GB"
SMALL = 70 * 2**30
"""Bytes of a GPU below which engines take smaller steps by default."""


DRAFTERS = ("eagle", "mtp", "draft_model", "ngram")
"""Sources of drafts."""
HIDDEN = ("eagle", "mtp")
"""Those that draft from hidden states of the model. The last block of a cached prefix is then
computed again (vLLM 0.19, `SpeculativeConfig.use_eagle`)."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Settings of an engine that a user may choose; `None` for the engine's default."""

    sequences: int | None = None
    """Requests that run at a time (max_num_seqs)."""
    tokens: int | None = None
    """Tokens of a step (max_num_batched_tokens)."""
    longest: int | None = None
    """Tokens of a request (max_model_len)."""
    block: int | None = None
    """Tokens of a block."""
    blocks: int | None = None
    """Blocks of the cache of each rank."""
    memory: float | None = None
    """Part of the memory of a GPU that the engine takes."""
    caching: bool | None = None
    chunked: bool | None = None
    asynchronous: bool | None = None
    graphs: bool = True
    """Steps run as CUDA graphs."""
    priority: bool = False
    long_prefill: int = 0
    """Most tokens of one request in a step; 0 without a limit."""
    look: int = 0
    """Steps between two looks at what arrived, on an engine that runs (SGLang's
    `scheduler-recv-interval`)."""
    patience: int = 0
    """Steps that prompts wait for others at most (TensorRT-LLM's `batch_wait_timeout_iters`)."""
    enough: float = 0.0
    """Part of a step's tokens at which they wait no longer (`batch_wait_max_tokens_ratio`)."""
    balanced: bool = False
    """They wait until each rank with attention of its own has one (`enable_balance`)."""
    prefill_tokens: int | None = None
    """SGLang: tokens of prompts of a step, but for a single longer prompt (max_prefill_tokens)."""
    conservativeness: float | None = None
    """SGLang: factor on the part of outputs for which room is kept (schedule_conservativeness)."""
    mixed_chunks: bool | None = None
    """SGLang: steps with prompts generate tokens too (enable_mixed_chunk)."""
    longest_prefix: bool | None = None
    """SGLang: requests that find more of their prompt in the cache come first (lpm)."""
    drafts: int = 0
    """Tokens that are drafted in each step."""
    drafter: str = "draft_model"
    """Source of drafts: `eagle`, `mtp`, `draft_model` or `ngram`."""
    acceptance: tuple[float, ...] = ()
    """Probability that a draft is right where all before it are, by place."""


@dataclass(frozen=True, slots=True)
class Engines:
    """Engines that are all alike, with the times of their steps."""

    model: Decoder
    platform: Platform
    engine: Engine
    layout: Layout
    precision: Precision
    count: int
    """How many."""
    sequences: int
    tokens: int
    longest: int
    block: int
    blocks: int
    caching: bool
    chunked: bool
    asynchronous: bool
    choices: Choices
    held: Footprint
    terms: tuple[Term, ...]
    warnings: tuple[str, ...]
    network: str | None = None
    """Network on which collectives of a step were simulated; `None` for measured ones."""

    @property
    def gpus(self) -> int:
        """GPUs of all of them."""
        return self.count * self.layout.gpus

    @property
    def _eager(self) -> float:
        """Seconds that the host takes at least to launch the kernels of a step without a graph."""
        model, file = self.model, self.engine.file
        experts = sum(model.has_experts(layer) for layer in range(model.layers))
        launched = file.eager * model.layers + file.eager_experts * experts
        return launched / self.layout.pp / 1e6

    def row(self, longest: int) -> dict[str, Any]:
        """As `_core.serve` takes it, for requests of at most `longest` tokens."""
        chosen, file = self.choices, self.engine.file
        cautious = file.conservativeness_ranks if self.layout.dp > 1 else file.conservativeness
        if chosen.conservativeness is not None:
            # SGLang multiplies its own default where ranks have attention of their own.
            part = cautious / file.conservativeness if file.conservativeness else 1.0
            cautious = chosen.conservativeness * part
        mixed = _or(chosen.mixed_chunks, file.mixed_chunks) and not chosen.drafts
        return {
            "engines": self.count, "ranks": self.layout.dp, "stages": self.layout.pp,
            "block": self.block, "blocks": self.blocks, "sequences": self.sequences,
            "tokens": self.tokens, "longest": max(longest, self.longest), "chunked": self.chunked,
            "long_prefill": chosen.long_prefill, "priority": chosen.priority,
            "caching": self.caching, "asynchronous": self.asynchronous, "drafts": chosen.drafts,
            "lookahead": 0 if chosen.drafter == "ngram" else chosen.drafts,
            "recomputes_last": bool(chosen.drafts) and chosen.drafter in HIDDEN,
            "whole": file.whole,
            "acceptance": list(chosen.acceptance), "terms": [each.row() for each in self.terms],
            "graphs": self.engine.sizes(self.tokens) if chosen.graphs else [],
            "mixed_graphs": file.mixed_graphs, "eager": self._eager,
            "overlapped": self.asynchronous,
            "policy": file.scheduler,
            "longest_prefix": _or(chosen.longest_prefix, file.longest_prefix), "mixed": mixed,
            "prefill_tokens": chosen.prefill_tokens or file.prefill_tokens,
            "conservativeness": cautious, "evicts": file.pauses,
            "every": chosen.look, "patience": chosen.patience, "part": chosen.enough,
            "balanced": chosen.balanced, "front_at": [0.0, 1.0],
            "front_seconds": [file.front / 1e3, file.front / 1e3 + file.front_token / 1e6],
        }  # fmt: skip


def deploy(
    model: Decoder,
    platform: Platform,
    engine: Engine,
    layout: Layout,
    precision: Precision,
    *,
    count: int = 1,
    longest: int,
    choices: Choices | None = None,
    network: str | None = None,
) -> Engines:
    """Engines of a model on a platform for requests of at most `longest` tokens. With a `network`
    (`flow`, `packet` ...) the collectives of a step are simulated on it, not measured ones.

    Raises:
        InputError: the layout does not divide the model, there are too few GPUs, or the memory does
            not hold the model and one request.
    """
    chosen = choices or Choices()
    layout.check(model)
    _check_formats(precision)
    _check_scheduler(engine, chosen)
    if count * layout.gpus > platform.npus:
        engines = f"{counted(count, 'engine')} of {counted(layout.gpus, 'GPU')}"
        message = f"{engines}, but {platform.name} has {platform.npus}"
        raise InputError(
            [Problem("", "platform", message, "--npus, fewer --replicas or a smaller layout")]
        )
    capacity = platform.describe()["npu"]["memory_capacity_bytes"]
    if not capacity:
        raise InputError(
            [Problem("", "npu.memory.capacity", "the platform does not say it", _SIZE)]
        )
    file = engine.file
    small = capacity < SMALL
    sequences = chosen.sequences or (file.sequences_small if small else file.sequences)
    tokens = chosen.tokens or (file.tokens_small if small else file.tokens)
    chunked = file.chunked if chosen.chunked is None else chosen.chunked
    longest = max(longest, chosen.longest or 0)
    warnings: list[str] = []
    if not chunked and tokens < longest:
        if chosen.tokens:
            message = f"steps of {tokens} tokens can't hold a prompt of a request of {longest}"
            raise InputError([Problem("", "tokens", message, "larger steps, or --chunked")])
        tokens = longest
    block = chosen.block or file.block
    _check_chunks(engine, chunked, tokens, block)
    held = footprint(model, layout, precision, tokens, sequences)
    memory = file.memory if chosen.memory is None else chosen.memory
    found, rest = blocks(
        held, capacity, memory, block, sequences, of_free=file.memory_of_free,
        static=file.memory_static,
    )  # fmt: skip
    if held.weights + held.context > capacity:
        raise InputError([_too_small(held, capacity, memory, 0, longest, platform)])
    if chosen.blocks and chosen.blocks > found:
        warnings.append(f"{chosen.blocks} blocks are more than the {found} that fit the memory")
    if not chosen.graphs and not file.eager:
        warnings.append("steps without CUDA graphs: the launches of the host are not counted")
    count_blocks = chosen.blocks or found
    if held.token == 0:
        count_blocks = max(count_blocks, sequences * -(-longest // block))
    # SGLang admits what needs less than all that is free.
    spare = int(file.scheduler == "sglang")
    if count_blocks * block < longest + chosen.drafts + spare:
        raise InputError([_too_small(held, capacity, memory, rest, longest, platform)])
    iteration = Iteration(
        model, layout, precision, engine, platform, tokens=tokens, sequences=sequences,
        longest=longest, network=network,
    )  # fmt: skip
    terms = (*iteration.terms(), *overheads(file, iteration.layers))
    return Engines(
        model, platform, engine, layout, precision, count, sequences, tokens, longest, block,
        count_blocks, file.caching if chosen.caching is None else chosen.caching, chunked,
        file.asynchronous if chosen.asynchronous is None else chosen.asynchronous, chosen, held,
        terms, (*warnings, *iteration.warnings), network,
    )  # fmt: skip


def same(one: Platform, other: Platform) -> bool:
    """Whether two platforms are one machine: the same object, or equal in name and contents."""
    return one is other or (one.name == other.name and one.to_yaml() == other.to_yaml())


def fit(engines: Engines, decode: Engines | None) -> bool:
    """Whether platforms have the GPUs of engines, and of others for tokens."""
    if decode is None or not same(decode.platform, engines.platform):
        pools = (engines, decode) if decode else (engines,)
        return all(each.gpus <= each.platform.npus for each in pools)
    return engines.gpus + decode.gpus <= engines.platform.npus


def _or(chosen: bool | None, else_: bool) -> bool:
    return else_ if chosen is None else chosen


def _check_formats(precision: Precision) -> None:
    problems = []
    for key, value, known in (
        ("weights", precision.weights, BYTES),
        ("experts", precision.experts, BYTES),
        ("cache", precision.cache, CACHES),
    ):
        if value not in known:
            problems.append(Problem("", key, f"unknown number format: {value!r}", ", ".join(known)))
    if problems:
        raise InputError(problems)


def _check_scheduler(engine: Engine, chosen: Choices) -> None:
    rules = engine.file.scheduler
    problems = []
    if chosen.long_prefill and rules != "vllm":
        message = f"the scheduler of {engine.name} has no limit for each prompt"
        problems.append(Problem("", "long_prefill", message, "without it"))
    for name in ("prefill_tokens", "conservativeness", "mixed_chunks", "longest_prefix"):
        if getattr(chosen, name) is not None and rules != "sglang":
            message = f"the scheduler of {engine.name} has no such setting"
            problems.append(Problem("", name, message, "without it"))
    if chosen.drafter not in DRAFTERS:
        problems.append(Problem("", "drafter", f"unknown: {chosen.drafter!r}", ", ".join(DRAFTERS)))
    if chosen.priority and rules == "trtllm":
        message = f"the scheduler of {engine.name} looks at no priorities"
        problems.append(Problem("", "priority", message, "without it"))
    if problems:
        raise InputError(problems)


def _check_chunks(engine: Engine, chunked: bool, tokens: int, block: int) -> None:
    """Chunks of SGLang are whole blocks, and those of TensorRT-LLM end with one."""
    rules = engine.file.scheduler
    if not chunked or rules == "vllm":
        return
    if tokens < block or (rules == "sglang" and tokens % block):
        message = f"steps of {tokens} tokens can't hold whole blocks of {block}"
        raise InputError([Problem("", "tokens", message, f"a multiple of {block}")])


def _too_small(
    held: Footprint, capacity: int, memory: float, rest: int, longest: int, platform: Platform
) -> Problem:
    need = longest * held.token
    message = (
        f"a request of {longest} tokens needs {_gb(need)} of keys and values on each GPU, and "
        f"{_gb(rest)} are left: {memory:.0%} of {_gb(capacity)} less "
        f"{_gb(held.weights)} of weights, {_gb(held.activations)} of activations and "
        f"{_gb(held.context)} of libraries"
    )
    return Problem("", "memory", message, "more GPUs (--tp), narrower formats or shorter requests")


def _gb(count: float) -> str:
    return f"{count / 1e9:,.2f} GB"
