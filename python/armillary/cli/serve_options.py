"""Options of `armillary serve`, by heading of its help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from . import completion
from .options import Json, NoWhatIf, Npus, PlatformName, ReportName, Settings, Timeline


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """Deployment."""

    platform: PlatformName
    from_: Annotated[str | None, typer.Option("--from", metavar="COMMAND")] = None
    """Command line of an engine, such as "vllm serve NAME --tensor-parallel-size 8", or a script
    with one: engine, layout, formats and scheduler are those of the command."""
    engine: Annotated[str, typer.Option(metavar="NAME")] = "vllm"
    """Inference engine: vllm, sglang, trtllm, or a file that describes one."""
    engine_set: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE")] = None
    """Override a value of the engine's file, such as conservativeness=0.3, prefill_tokens=8192,
    mixed_chunks=true or memory=0.8."""
    tp: Annotated[int, typer.Option(metavar="N")] = 1
    """GPUs that share attention and dense layers (tensor parallelism)."""
    pp: Annotated[int, typer.Option(metavar="N")] = 1
    """Stages of a pipeline."""
    dp: Annotated[int, typer.Option(metavar="N")] = 1
    """Ranks with attention of their own that share the experts."""
    ep: Annotated[int, typer.Option(metavar="N")] = 1
    """Ranks that share out whole experts."""
    replicas: Annotated[int, typer.Option(metavar="N", min=1, max=2**20)] = 1
    """Engines."""
    prefill: Annotated[str | None, typer.Option(metavar="LAYOUT")] = None
    """Engines that compute prompts alone, such as tp=4,replicas=2; those above then generate."""
    prefill_platform: Annotated[
        str | None, typer.Option(metavar="PLATFORM", autocompletion=completion.platforms)
    ] = None
    """Platform of the engines for prompts, if it is another one, without --npus and --set."""
    routing: Annotated[str, typer.Option(metavar="round_robin|least_loaded|prefix")] = "round_robin"
    """How requests reach engines."""
    weights: Annotated[str | None, typer.Option(metavar="FORMAT")] = None
    """Number format of the matrices: bf16, fp8, fp8_block, nvfp4, mxfp4, int8 or int4. Default: as
    the model's checkpoint is published."""
    experts: Annotated[str | None, typer.Option(metavar="FORMAT")] = None
    """That of the experts' matrices. Default: as --weights."""
    kv_cache: Annotated[str, typer.Option(metavar="bf16|fp8")] = "bf16"
    """That of keys and values."""
    npus: Npus = None
    set_: Settings = None


@dataclass(frozen=True, kw_only=True)
class LoadOptions(Deployment):
    """Load."""

    requests: Annotated[str | None, typer.Option(metavar="FILE")] = None
    """Recorded requests (docs/guides/serve-traffic.md), instead of drawn ones. --rate stretches
    their times, and --num-requests takes the first ones."""
    rate: Annotated[float | None, typer.Option(metavar="X")] = None
    """Requests a second."""
    concurrency: Annotated[int | None, typer.Option(metavar="N", min=1, max=2**24)] = None
    """Requests that are there at any time, instead of a rate."""
    num_requests: Annotated[int | None, typer.Option(metavar="N", min=1, max=10_000_000)] = None
    """Requests; 200 when not given."""
    input_tokens: Annotated[str | None, typer.Option(metavar="TOKENS")] = None
    """Tokens of a prompt: 1024, 820-1024 (uniform) or 1024~0.5 (lognormal, deviation over mean).
    Default: 1024."""
    output_tokens: Annotated[str | None, typer.Option(metavar="TOKENS")] = None
    """Tokens that are generated, written in the same way. Default: 256."""
    arrival: Annotated[str, typer.Option(metavar="poisson|even|gamma:SHAPE")] = "poisson"
    """Distances between arrivals at a rate."""
    prefix: Annotated[int, typer.Option(metavar="TOKENS", min=0, max=2**24)] = 0
    """Tokens at the start of each prompt that requests share."""
    prefixes: Annotated[int, typer.Option(metavar="N", min=1, max=2**24)] = 1
    """Different texts of such starts."""
    turns: Annotated[str | None, typer.Option(metavar="N")] = None
    """Turns of a conversation (4, 2-6, 4~0.5): requests are turns. --rate and --concurrency are
    then of conversations, and --input-tokens are the new tokens of a turn."""
    think: Annotated[str | None, typer.Option(metavar="SECONDS")] = None
    """Seconds between an answer and the next turn (10, 5-15, 10~0.5). Default with --turns: 10."""
    seed: Annotated[int, typer.Option(min=0)] = 0
    """Seed of the drawn load."""


@dataclass(frozen=True, kw_only=True)
class SchedulerOptions(LoadOptions):
    """Scheduler. What is not given is as the engine has it."""

    max_num_seqs: Annotated[int | None, typer.Option(metavar="N", min=1, max=2**20)] = None
    """Requests that run at a time."""
    max_num_batched_tokens: Annotated[int | None, typer.Option(metavar="N", min=1, max=2**24)] = (
        None
    )
    """Tokens of a step."""
    max_model_len: Annotated[int | None, typer.Option(metavar="N", min=2, max=2**24)] = None
    """Tokens of a request, with its output."""
    block_size: Annotated[int | None, typer.Option(metavar="N", min=1, max=4096)] = None
    """Tokens of a block of the cache."""
    blocks: Annotated[int | None, typer.Option(metavar="N", min=1, max=2**26)] = None
    """Blocks of the cache, instead of those that fit."""
    gpu_memory: Annotated[float | None, typer.Option(metavar="X", min=0.01, max=1)] = None
    """Part of the memory that the engine takes."""
    prefix_caching: Annotated[bool | None, typer.Option("--prefix-caching/--no-prefix-caching")] = (
        None
    )
    """Keep the starts of prompts for later requests."""
    chunked_prefill: Annotated[
        bool | None, typer.Option("--chunked-prefill/--no-chunked-prefill")
    ] = None
    """A prompt may take several steps."""
    overlap: Annotated[bool | None, typer.Option("--overlap/--no-overlap")] = None
    """Schedule a step while the one before it runs."""
    draft_tokens: Annotated[int, typer.Option(metavar="N", min=0, max=64)] = 0
    """Tokens drafted in each step (speculative decoding). The time of drafting is not counted."""
    draft_method: Annotated[str, typer.Option(metavar="eagle|mtp|draft_model|ngram")] = (
        "draft_model"
    )
    """Source of drafts. With eagle and mtp vLLM computes the last block of a cached start again."""
    acceptance: Annotated[str | None, typer.Option(metavar="SHARES")] = None
    """Share of drafts that are right where those before it are: 0.8, or one for each place."""


@dataclass(frozen=True, kw_only=True)
class Recommender(SchedulerOptions):
    """Recommendation models, whose requests are queries."""

    query_samples: Annotated[str | None, typer.Option(metavar="SAMPLES")] = None
    """Samples of a query: 100, 100-700 (uniform) or 100~0.5 (lognormal). Default: 1."""
    batch_samples: Annotated[int | None, typer.Option(metavar="N", min=1, max=2**22)] = None
    """Samples of a batch, at most. Default: the model's batch."""
    batch_window: Annotated[str | None, typer.Option(metavar="TIME")] = None
    """Longest time that a query waits for others, such as 2ms. Default: 0, a batch is what waits
    when the replica is free."""
    sharding: Annotated[str | None, typer.Option(metavar="NAME")] = None
    """How tables are split over NPUs: auto, table, column, row, table_row or data."""
    tier: Annotated[str | None, typer.Option(metavar="device|host")] = None
    """Memory that holds the tables."""
    cache: Annotated[str | None, typer.Option(metavar="BYTES")] = None
    """Size of an NPU's cache of tables on its host, such as 20GB."""
    skew: Annotated[float | None, typer.Option(metavar="X", min=0, max=4)] = None
    """How unequally rows are looked up. Default: 1.05."""
    table_precision: Annotated[str | None, typer.Option(metavar="FORMAT")] = None
    """Numbers in the tables, such as fp16. Default: the model's."""
    host_inputs: Annotated[bool, typer.Option("--host-inputs")] = False
    """Samples are first copied from the host."""


@dataclass(frozen=True, kw_only=True)
class ServeOptions(Recommender):
    """Results."""

    slo: Annotated[str | None, typer.Option(metavar="LIMITS")] = None
    """Service level, such as ttft=1s,tpot=30ms; of a recommendation model latency=10ms. Goodput
    counts the requests that keep it."""
    price: Annotated[float | None, typer.Option(metavar="DOLLARS", min=0.0001)] = None
    """Dollars of a GPU for an hour."""
    prefill_price: Annotated[float | None, typer.Option(metavar="DOLLARS", min=0.0001)] = None
    """That of GPUs that compute prompts, if it is another one."""
    calibrate: Annotated[str | None, typer.Option(metavar="FILE")] = None
    """A measured run of the same deployment (docs/guides/serve-traffic.md): times become those of
    its first 200 requests, and intervals narrower."""
    backend: Annotated[
        str | None, typer.Option(metavar="NAME", autocompletion=completion.backends)
    ] = None
    """Network on which keys and values go from engine to engine. Default: the platform's."""
    network: Annotated[
        str | None, typer.Option(metavar="NAME", autocompletion=completion.backends)
    ] = None
    """Network on which the collectives of a step are simulated: flow, packet ... Default: measured
    collectives."""
    no_what_if: NoWhatIf = False
    json: Json = None
    timeline: Timeline = None
    autoscale: Annotated[str | None, typer.Option(metavar="RULE")] = None
    """Engines that start and stop with the load, such as min=1,max=8,concurrency=32,delay=60s, next
    to fleets of fixed sizes (docs/guides/serve.md#autoscaling)."""
    csv: Annotated[str | None, typer.Option(metavar="FILE")] = None
    """Write a row for each request here; - for standard output."""
    report: ReportName = None
