"""Shapes of kernels, as `crates/kernels` reads them: one dataclass for each kind."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from ..errors import InputError, Problem


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """A kernel. Whole numbers are counts, texts are words."""

    kind: ClassVar[str]
    """Kind of the kernel on the command line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Allreduce(Shape):
    """An all-reduce of an inference engine among GPUs of one node."""

    kind: ClassVar[str] = "allreduce"
    bytes: int
    """Bytes of the message of each GPU."""
    members: int
    """GPUs."""
    library: str = "vllm"
    """Engine: trtllm, vllm, sglang (to version 0.5.10) or sglang_jit (from 0.5.12)."""
    launch: str = "graph"
    """How calls are launched: in a CUDA graph, or eager, one by one by the host on a copy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exchange(Shape):
    """Tokens between ranks and the ranks of their experts."""

    kind: ClassVar[str] = ""
    tokens: int
    """Tokens of each rank."""
    hidden: int
    """Elements of a token."""
    experts: int
    """Experts of the layer."""
    top_k: int
    """Experts of each token."""
    ep: int
    """Ranks that share the experts."""
    sms: int = 20
    """Multiprocessors of DeepEP's normal kernels."""
    groups: int = 0
    """Most nodes of a token; 0 without a limit."""
    format: str = "bf16"
    """Number format in which results are sent: bf16, by trtllm_two_sided also nvfp4."""
    backend: str = "deepep_ll"
    """Library: deepep_ll or deepep_normal, DeepEP's low-latency or normal kernels; trtllm or
    trtllm_two_sided, TensorRT-LLM's within NVLink."""
    routing: str = "random"
    """How routers spread the experts of a token: random, or balanced over the
    largest possible number of ranks."""
    stage: str = "whole"
    """The part that is timed: whole; of trtllm_two_sided also prepare, which finds the places of
    the tokens, or copy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dispatch(Exchange):
    """A dispatch: each token goes to the ranks of its experts."""

    kind: ClassVar[str] = "dispatch"
    format: str = "fp8"
    """Number format in which tokens are sent: bf16 or fp8, by TensorRT-LLM also nvfp4."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Combine(Exchange):
    """A combine: the results of a token's experts go back to its rank, which adds them."""

    kind: ClassVar[str] = "combine"


@dataclass(frozen=True, kw_only=True, slots=True)
class Experts(Shape):
    """A layer of experts on one rank, from the router's choices to the sum over them."""

    kind: ClassVar[str] = "experts"
    tokens: int
    """Tokens of all ranks that share the experts."""
    hidden: int
    """Width of a token."""
    inner: int
    """Inner width of an expert, of all ranks."""
    experts: int
    """Experts of the layer."""
    top_k: int
    """Experts of each token."""
    tp: int = 1
    """Ranks that share each expert."""
    ep: int = 1
    """Ranks that share the experts. The busiest of them is timed."""
    matrices: int = 3
    """Matrices of an expert: 3 with a gate, 2 without."""
    format: str = "bf16"
    """bf16, fp8, fp8_block, int4, nvfp4, mxfp4 or mxfp4_mxfp8. Activations of int4 and mxfp4 have
    16 bits."""
    kernels: str = "triton"
    """Library of the products: triton, marlin, cutlass, flashinfer (CUTLASS without tuning),
    generated (TensorRT-LLM's for Blackwell), triton_kernels or widened (4-bit weights that Triton
    widens first)."""
    library: str = "vllm"
    """Engine: trtllm, vllm or sglang."""
    routing: str = "balanced"
    """How the router spreads tokens: balanced, power_law_1.01 or power_law_1.2."""
    choices: str = "own"
    """Choices that the rank computes: own, those of its experts, or all, every choice of the tokens
    that reach it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Stream(Shape):
    """A copy, a sum or another elementwise kernel that streams over memory."""

    kind: ClassVar[str] = "stream"
    bytes: int
    """Bytes read and written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attention(Shape):
    """A call of attention: prefill with a causal mask, its backward pass, or decode."""

    kind: ClassVar[str] = "attention"
    batch: int
    """Sequences."""
    length: int
    """Tokens of a sequence; in decode those that are cached, with the new one."""
    heads: int
    """Heads of queries."""
    kv_heads: int
    """Heads of keys and values."""
    head_dim: int
    """Elements of a head."""
    window: int = 0
    """Tokens that a token sees before itself; 0 without a limit."""
    phase: str = "prefill"
    """`prefill` or `decode`."""
    format: str = "bf16"
    """Number format of the products."""
    cache: str = "bf16"
    """Number format of the cache of keys and values."""
    source: str = "flash3"
    """Library: `flash2`, `flash3`, `flashinfer`, `tensorrt` or `triton`."""
    engine: str = "vllm"
    """Engine that calls it: `sglang`, `trtllm` or `vllm`."""
    direction: str = "forward"
    """`forward` or `backward`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Mla(Shape):
    """A call of multi-head latent attention, as DeepSeek's models have it."""

    kind: ClassVar[str] = "mla"
    batch: int
    """Sequences."""
    length: int
    """Tokens of a sequence; in decode those that are cached, with the new one."""
    heads: int
    """Heads of queries on the GPU."""
    phase: str = "prefill"
    """`prefill` or `decode`."""
    format: str = "bf16"
    """Number format of the products."""
    cache: str = "bf16"
    """Number format of the cache of latents."""
    form: str = "expanded"
    """Form that prefill works on: `expanded` heads, or latents, which is `absorbed`."""
    source: str = "tensorrt"
    """Library: `flash3`, `flashmla`, `tensorrt` or `triton`."""
    engine: str = "trtllm"
    """Engine that calls it: `sglang`, `trtllm` or `vllm`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gemm(Shape):
    """A product of two matrices, as one linear layer of an engine computes it."""

    kind: ClassVar[str] = "gemm"
    m: int
    """Rows of the activations."""
    n: int
    """Columns of the weights."""
    k: int
    """Columns of the activations, rows of the weights."""
    format: str = "bf16"
    """Format of the activations: bf16, fp8, fp8_block, nvfp4 or int8. Activations come in 16 bits,
    and their conversion counts."""
    weights: str = "same"
    """Format of the weights: that of the activations, or int8 or int4 next to bf16."""
    library: str = "trtllm"
    """Engine whose kernels compute it: trtllm or vllm."""
    launch: str = "graph"
    """How calls are launched: in a CUDA graph, or eager, one by one by the host."""
    copies: int = 100
    """Calls before the same weights are used again. With few calls small weights lie in the L2
    cache."""


KINDS: dict[str, type[Shape]] = {
    shape.kind: shape
    for shape in (Allreduce, Attention, Combine, Dispatch, Experts, Gemm, Mla, Stream)
}
"""Every kind of kernel, and its shape."""


def encoded(shapes: Iterable[Shape]) -> str:
    """The JSON list that `_core.Platform.kernel_times` takes."""
    return json.dumps([{"kind": shape.kind, **dataclasses.asdict(shape)} for shape in shapes])


def parse(kind: str, words: Iterable[str]) -> Shape:
    """The shape that a command line names: `8192x8192x8192`, which gives the counts without a
    default in their order, and `name=value`.

    Raises:
        InputError: an unknown kind or name, a value that is not a count, or one that is missing.
    """
    if kind not in KINDS:
        raise _problem(f"unknown kind of kernel: {kind!r}", f"kinds: {', '.join(KINDS)}")
    fields = {field.name: field for field in dataclasses.fields(KINDS[kind])}
    required = [name for name, field in fields.items() if field.default is dataclasses.MISSING]
    usage = f"{kind} takes {', '.join(fields)}, such as {_example(kind, required)}"
    given: dict[str, int | str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        pairs = [(name, value)] if equals else _in_order(word, required, usage)
        for name, value in pairs:
            if name not in fields:
                raise _problem(f"unknown part of a shape: {name!r}", usage)
            if name in given:
                raise _problem(f"{name} is given twice", usage)
            given[name] = _value(name, value, "int" in str(fields[name].type), usage)
    missing = [name for name in required if name not in given]
    if missing:
        raise _problem(f"missing: {', '.join(missing)}", usage)
    return KINDS[kind](**given)


def _in_order(word: str, required: list[str], usage: str) -> list[tuple[str, str]]:
    values = word.split("x")
    if len(values) != len(required):
        raise _problem(f"{word!r} has {len(values)} counts, not {len(required)}", usage)
    return list(zip(required, values, strict=True))


def _value(name: str, text: str, count: bool, usage: str) -> int | str:
    if not count:
        return text
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) > 0):
        raise _problem(f"invalid count of {name}: {text!r}", usage)
    return int(text)


def _example(kind: str, required: list[str]) -> str:
    return f"{kind} {'x'.join(['1024'] * len(required))}"


def _problem(message: str, help: str) -> InputError:
    return InputError([Problem("", "kernel", message, help)])
