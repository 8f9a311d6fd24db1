"""Inference engines as data: their schedulers' defaults and the kernels that they call
(`engines/*.yml`). Every file names the version that it describes and its source."""

from __future__ import annotations

import dataclasses
import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from .. import documents
from ..declared import Source, Within, open_source, read
from ..errors import InputError, Problem

ENGINES = Path(__file__).resolve().parent.parent / "engines"
"""Folder of the descriptions that come with Armillary."""

Count = Annotated[int, Within(1, 2**24)]


@dataclass(frozen=True, slots=True)
class Kernels:
    """Words of the kernels that an engine calls, as `armillary kernel` has them."""

    gemm: str
    """Library of matrix products."""
    allreduce: str
    """Library of all-reduces."""
    experts: str
    """Engine of layers of experts."""
    attention: Mapping[str, str]
    """Library of attention by generation of GPUs."""
    mla: Mapping[str, str]
    """The same of multi-head latent attention."""
    exchange: tuple[str, ...]
    """Libraries that send tokens to experts: the fastest one is taken. `gather` gives all ranks all
    tokens, and sums their results, as an all-reduce does."""
    mla_engine: str = ""
    """Engine whose measured latent attention is taken, if it is another one."""
    gemm_blocks: str = ""
    """Library of products of 8-bit floats with scales for blocks, if it is another one."""
    fused: tuple[str, ...] = ()
    """Formats to which activations are converted by the kernel before the product."""
    experts_of: Mapping[str, str] = field(default_factory=dict)
    """Library of experts by number format and generation, `mxfp4_hopper`, if not the usual one."""


@dataclass(frozen=True, slots=True)
class EngineFile:
    """Behavior of an inference engine. Values that end in `_small` hold for GPUs with less than
    70 GiB."""

    summary: str
    version: str
    source: str
    block: Count
    """Tokens of a block of the cache of keys and values."""
    sequences: Count
    """Requests that run at a time."""
    tokens: Count
    """Tokens of a step."""
    sequences_small: Count
    tokens_small: Count
    memory: Annotated[float, Within(0.01, 1)]
    """Part of the memory of a GPU that the engine takes."""
    memory_of_free: bool
    """`memory` is a part of what weights and activations leave."""
    chunked: bool
    """A prompt may take several steps."""
    caching: bool
    """Blocks keep their prefixes for later requests."""
    asynchronous: bool
    """A step is scheduled while the one before it runs."""
    whole: bool
    """A request is admitted when there are blocks for its whole prompt."""
    graphs: Annotated[int, Within(0, 2**16)]
    """Tokens of the largest step that is captured as a CUDA graph."""
    mixed_graphs: bool
    """Steps with prompts run as graphs too."""
    kernels: Kernels
    scheduler: Literal["vllm", "sglang", "trtllm"] = "vllm"
    """Whose rules the scheduler follows (`crates/serve`)."""
    longest_prefix: bool = False
    """SGLang: requests that find more of their prompt in the cache come first."""
    mixed_chunks: bool = False
    """SGLang: steps with prompts generate tokens too."""
    prefill_tokens: Count = 16384
    """SGLang: tokens of prompts of a step, but for a single longer prompt."""
    conservativeness: Annotated[float, Within(0, 100)] = 1.0
    """SGLang: factor on the part of outputs for which room is kept."""
    conservativeness_ranks: Annotated[float, Within(0, 100)] = 1.0
    """SGLang: the same with data parallelism of attention."""
    memory_static: bool = False
    """`memory` is the part of what libraries leave that weights and the cache take (SGLang's
    mem_fraction_static). The rest is for activations and graphs."""
    pauses: bool = False
    """TensorRT-LLM: requests start without room for their whole output (MAX_UTILIZATION)."""
    eager: Annotated[float, Within(0, 10000)] = 0.0
    """Microseconds that the host takes to launch the kernels of a layer outside of graphs."""
    eager_experts: Annotated[float, Within(0, 10000)] = 0.0
    """The same of the experts of a layer."""
    experts_launch: Annotated[float, Within(0, 1)] = 1.0
    """Part of the fixed time of the kernels of experts that remains in a graph, where their
    neighbors hide launches. They were measured alone."""
    layer: Annotated[float, Within(0, 1000)] = 0.0
    """Microseconds that each layer takes in addition to its kernels."""
    step: Annotated[float, Within(0, 1000)] = 0.0
    """Milliseconds that the host takes for a step."""
    request: Annotated[float, Within(0, 1000)] = 0.0
    """Microseconds that the host takes for each request of a step."""
    front: Annotated[float, Within(0, 10000)] = 0.0
    """Milliseconds until the scheduler knows a request: its way, the server."""
    front_token: Annotated[float, Within(0, 1000)] = 0.0
    """Microseconds for each token of its prompt: the tokenizer."""


_RULES = {
    **dict.fromkeys(
        ("longest_prefix", "mixed_chunks", "prefill_tokens", "conservativeness",
         "conservativeness_ranks"), "sglang",
    ),
    "pauses": "trtllm",
}  # fmt: skip
"""Keys that only one scheduler looks at."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An inference engine."""

    name: str
    file: EngineFile

    def sizes(self, longest: int) -> list[int]:
        """Sizes of captured graphs in tokens, up to `longest`: 1, 2, 4, then every 8 to 256 and
        every 16 above, as vLLM 0.19 captures them."""
        steps = [1, 2, 4, *range(8, 256, 8), *range(256, self.file.graphs + 1, 16)]
        return [size for size in steps if size <= min(self.file.graphs, longest)]


def engines() -> list[str]:
    """Names of the engines that come with Armillary."""
    return sorted(path.stem for path in ENGINES.glob("*.yml"))


def _check_rules(source: Source, found: EngineFile, given: Mapping[str, object]) -> None:
    """Keys that are given are looked at by the rules of the scheduler."""
    for key in given:
        rules = _RULES.get(key, found.scheduler)
        if rules != found.scheduler:
            message = f"the rules of the scheduler ({found.scheduler}) have no such setting"
            source.fault((key,), message, f"scheduler: {rules}, or without {key}")


def changed(engine: Engine, pairs: Mapping[str, object], option: str) -> Engine:
    """An engine with other values of its file, such as `conservativeness: 0.3`.

    Raises:
        InputError: unknown keys, nested ones, those of another scheduler, and values out of their
            bounds, named by `option`.
    """
    if not pairs:
        return engine
    plain = {each.name for each in dataclasses.fields(EngineFile)} - {"kernels"}
    problems = []
    for key in pairs:
        if key not in plain:
            close = difflib.get_close_matches(key, plain, n=3) or sorted(plain)
            problems.append(Problem("", f"{option} {key}", "unknown key", ", ".join(close)))
    if problems:
        raise InputError(problems)
    given = {each.name: getattr(engine.file, each.name) for each in dataclasses.fields(EngineFile)}
    kernels = given.pop("kernels")
    source = Source({**given, **pairs}, option)
    found = read(EngineFile, source, given={"kernels": kernels})
    source.finish()
    if found is not None:
        _check_rules(source, found, pairs)
        source.finish()
    assert found is not None
    return Engine(engine.name, found)


@cache
def load_engine(name: str | os.PathLike[str]) -> Engine:
    """The engine `name`, or the description in the file at the path `name`.

    Raises:
        InputError: an unknown name, with the known ones, or every problem of the file.
    """
    text = os.fspath(name)
    path = ENGINES / f"{text}.yml"
    if "/" in text or not documents.is_file(path):
        path = Path(text)
    if not documents.is_file(path):
        close = difflib.get_close_matches(text.lower(), engines(), n=3) or engines()
        message = f"unknown engine {text!r}"
        raise InputError([Problem("", "engine", message, f"{', '.join(close)}, a file")])
    source = open_source(path, "a description of an engine")
    if path.parent == ENGINES:
        source = dataclasses.replace(source, file=path.name)
    found = read(EngineFile, source)
    if found is not None:
        _check_rules(source, found, source.values)
    source.finish()
    assert found is not None
    return Engine(path.stem, found)
