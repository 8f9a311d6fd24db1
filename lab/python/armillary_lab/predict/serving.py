"""Predictions of measured runs of inference engines.

Settings are those of InferenceX's scripts (SemiAnalysisAI/InferenceX `benchmarks/*.sh`, Apache-2.0,
between October 2025 and March 2026). Lengths, load and layout are the run's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from armillary.errors import InputError, Problem
from armillary.model.decoder_reader import decoder
from armillary.model.files import load_model
from armillary.platform import Platform
from armillary.serve import (
    Choices,
    Engines,
    Layout,
    Lengths,
    Load,
    Precision,
    Request,
    Served,
    deploy,
    drawn,
    load_engine,
    serve,
)
from armillary.serve.load import PICOSECONDS
from armillary.serve.transfer import transfer

from ..measured.serving import BLOCKS, Pool, Run, Timed, Unused, requests

MODELS = {
    "DeepSeek-R1": "deepseek-v3",
    "DeepSeek-V3": "deepseek-v3",
    "Llama-3.1-70B": "llama-3-70b",
    "gpt-oss-120b": "gpt-oss-120b",
}
LATER = {"GLM-5": "glm-5", "Qwen3.5-397B-A17B": "qwen3.5-397b-a17b"}
"""Models whose runs no setting or host time was chosen after. Scores of all runs leave them out."""
FLEETS = {
    "h100": "dgx-h100-16n", "h200": "hgx-h200-16n", "b200": "dgx-b200-16n", "gb200": "gb200-nvl72",
}  # fmt: skip
"""Platforms of runs on several nodes."""
PLATFORMS = {
    "h100": "dgx-h100", "h200": "hgx-h200", "b200": "dgx-b200", "gb200": "gb200-nvl72",
    "mi300x": "mi300x-8", "mi355x": "mi355x-8",
}  # fmt: skip
HOSTS = {
    "RTX4090": "rtx-4090-1", "RTXPRO6000": "rtx-pro-6000-8", "L40S": "l40s-8",
    "A100": "dgx-a100-80gb", "H100": "dgx-h100", "H200": "hgx-h200", "B200": "dgx-b200",
}  # fmt: skip
"""Platforms of GPUs as LLMServingSim names them."""
DECODERS = {
    "Llama-3.1-8B": "llama-3-8b", "Llama-3.1-70B": "llama-3-70b",
    "Qwen3-30B-A3B": "qwen3-30b-a3b",
}  # fmt: skip
VISIBLE = ("vllm", "sglang")
"""Engines whose versions of 2025 hid no launches of experts' kernels. Their files describe those of
2026."""
LOW, HIGH = 0.8, 1.0
"""Lengths over their nominal ones."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """A predicted run. Times are seconds."""

    run: Run
    ttft: float
    tpot: float
    rate: float
    """Tokens a second and GPU, of prompts and outputs."""
    speed: float
    """Median of the tokens a second of a request."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How InferenceX's script starts an engine for a run."""

    precision: Precision
    choices: Choices


def recipe(run: Run) -> Recipe:
    """Settings of the run's script."""
    family = run.model.split("-")[0].lower()
    return Recipe(_precision(run, family), _choices(run, family))


def _choices(run: Run, family: str) -> Choices:
    busy = run.concurrency
    if run.engine == "vllm":
        return _chosen(512 if (family, run.gpu) == ("gpt", "b200") else busy, 8192, 0.9)
    if run.engine == "sglang":
        return _sglang(run)
    return _trtllm(run, family)


def _sglang(run: Run) -> Choices:
    look = 30 if run.concurrency >= 16 else 10
    if run.gpu == "h200":
        return _chosen(512 if _short(run) else 256, 32768, 0.82)
    if run.precision == "fp4":
        return _chosen(256, 16384, 0.85, look=look)
    if run.pools[0].tp == 4:
        return _chosen(32, 8192, 0.95, look=10)
    return _chosen(128, 32768, 0.82, look=look)


def _trtllm(run: Run, family: str) -> Choices:
    """Prompts wait for each other where prompts and outputs are short, and for those of other
    ranks."""
    busy, balanced = run.concurrency, run.pools[0].dp > 1
    wait = (60, 0.0) if balanced else (0, 0.0)
    if family == "llama":
        if _short(run) and run.pools[0].tp < 8:
            wait = (20, 0.9)
        return _chosen(2048, run.prompt + run.output + 200, 0.9, wait)
    if family == "gpt":
        return _chosen(busy, 20000, 0.85, wait, balanced=balanced)
    if run.precision == "fp8" and run.gpu == "b200" and _short(run) and 64 <= busy < 256:
        wait = (40, 0.8)
    tokens = max(8192, busy + run.prompt + 64)
    return _chosen(2048, tokens, 0.75 if run.gpu == "h200" else 0.8, wait, balanced=balanced)


def _short(run: Run) -> bool:
    return (run.prompt, run.output) == (1024, 1024)


def _chosen(
    sequences: int,
    tokens: int,
    memory: float,
    wait: tuple[int, float] = (0, 0.0),
    *,
    look: int = 0,
    balanced: bool = False,
) -> Choices:
    return Choices(
        sequences=sequences, tokens=tokens, memory=memory, caching=False, look=look,
        patience=wait[0], enough=wait[1], balanced=balanced,
    )  # fmt: skip


def _precision(run: Run, family: str) -> Precision:
    hopper = run.gpu in ("h100", "h200")
    if family == "gpt":
        return Precision("bf16", "mxfp4", "bf16" if hopper else "fp8")
    if family == "llama":
        return Precision("nvfp4" if run.precision == "fp4" else "fp8", "bf16", "fp8")
    if run.precision == "bf16":
        return Precision()
    cache = "bf16" if (run.engine, run.gpu) == ("sglang", "h200") else "fp8"
    if run.precision == "fp4":
        return Precision("nvfp4", "nvfp4", cache, "bf16")
    return Precision("fp8_block", "fp8_block", cache)


def load(run: Run, most: int = 10**9) -> Load:
    """The requests of a run, `most` of them at most."""
    count = min(10 * run.concurrency, most)
    return drawn(count, _lengths(run.prompt), _lengths(run.output), concurrency=run.concurrency)


def _lengths(nominal: int) -> Lengths:
    mean = nominal * (LOW + HIGH) / 2
    return Lengths(mean, LOW * nominal / mean, HIGH * nominal / mean)


def layout(pool: Pool, experts: int) -> Layout:
    """The layout of a pool's engines."""
    return Layout(tp=pool.tp, pp=pool.pp, dp=pool.dp, ep=pool.ep if experts else 1)


def engines(run: Run, pool: Pool) -> Engines:
    """The engines of one pool of a run.

    Raises:
        InputError: what the platform can't hold or has no times for.
    """
    platform = PLATFORMS[run.gpu] if len(run.pools) == 1 else FLEETS[run.gpu]
    longest = run.prompt + run.output
    visible = run.engine in VISIBLE and run.day < "2026"
    return _engines(
        run.model, platform, run.engine, pool, recipe(run), longest, visible=visible
    )  # fmt: skip


@cache
def _platform(name: str) -> Platform:
    return Platform.load(name)


@cache
def _engines(
    model: str, platform: str, name: str, pool: Pool, chosen: Recipe, longest: int, *, visible: bool
) -> Engines:
    engine = load_engine(name)
    if visible:
        engine = replace(engine, file=replace(engine.file, experts_launch=1.0))
    shape = decoder(load_model((MODELS | LATER)[model]))
    choices = chosen.choices
    choices = replace(choices, tokens=max(choices.tokens or 0, longest))
    return deploy(
        shape, _platform(platform), engine, layout(pool, shape.experts),
        chosen.precision, count=pool.workers, longest=longest, choices=choices,
    )  # fmt: skip


def predict(run: Run, most: int = 10**9, models: Mapping[str, str] = MODELS) -> Prediction | Unused:
    """Runs the load of a run of one of `models`, or why it can't."""
    if run.model not in models:
        return Unused(run.name, f"no model file of {run.model}")
    if run.gpu not in PLATFORMS:
        return Unused(run.name, f"no times of kernels of {run.gpu}")
    try:
        served = simulated(run, most)
    except InputError as error:
        return Unused(run.name, str(error).split("\n", maxsplit=1)[0])
    return Prediction(
        run, served.ttft.mean, served.tpot.mean, served.rate / run.gpus, 1 / served.tpot.p50
    )


def simulated(run: Run, most: int = 10**9) -> Served:
    """The requests of a run, served."""
    if len(run.pools) == 1:
        return serve(engines(run, run.pools[0]), load(run, most))
    prompts, outputs = (engines(run, pool) for pool in run.pools)
    way = transfer(prompts, outputs)
    return serve(prompts, load(run, most), decode=outputs, transfer=way, routing="least_loaded")


def single_requests() -> tuple[Engines, Load]:
    """vLLM 0.19 with Llama 3.1 8B on an RTX 4090, and the requests that were measured on it. It
    printed its blocks."""
    return replay(requests(), "RTX4090", "Llama-3.1-8B", Choices(blocks=BLOCKS))


def replay(
    rows: Sequence[Timed], gpu: str, model: str, choices: Choices, tp: int = 1
) -> tuple[Engines, Load]:
    """vLLM as it was measured, and the requests. They arrive when the engine has queued them. Their
    contents are unknown.

    Raises:
        InputError: an unknown GPU or model, or an engine that the platform can't hold.
    """
    names = {"gpu": (gpu, HOSTS), "model": (model, DECODERS)}
    for key, (name, known) in names.items():
        if name not in known:
            message = f"unknown {key}: {name!r}"
            raise InputError([Problem("", key, message, ", ".join(known))])
    sent = tuple(Request(((number, row.prompt),), row.output) for number, row in enumerate(rows))
    times = tuple(round(row.arrival * PICOSECONDS) for row in rows)
    arrived = Load(sent, times, measured=tuple((row.ttft, row.latency) for row in rows))
    engine = load_engine("vllm")
    direct = replace(engine, file=replace(engine.file, front=0.0, front_token=0.0))
    found = deploy(
        decoder(load_model(DECODERS[model])), Platform.load(HOSTS[gpu]), direct, Layout(tp=tp),
        Precision(), longest=arrived.longest, choices=choices,
    )  # fmt: skip
    return found, arrived
