"""Answers of AIConfigurator: times of measured runs of inference engines.

Each is a lone estimate of `cli_estimate` in its mode for engines that do all of a request, with the
run's lengths, requests at a time, layout and number formats. Its tables of kernels and this
selection of runs come from the same repository, so that its errors are not those of new runs.
Nothing of ours is fitted to its answers."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from aiconfigurator.cli.api import cli_estimate
from answers import Answers, main

from armillary_lab.measured.serving import Run
from armillary_lab.predict.serving import recipe
from armillary_lab.score.aiconfigurator import chosen

SYSTEMS = {"h100": "h100_sxm", "h200": "h200_sxm", "b200": "b200_sxm"}
MODELS = {
    "DeepSeek-R1": "deepseek-ai/DeepSeek-R1", "DeepSeek-V3": "deepseek-ai/DeepSeek-V3",
    "GLM-5": "zai-org/GLM-5", "Llama-3.1-70B": "meta-llama/Meta-Llama-3.1-70B",
    "Qwen3.5-397B-A17B": "Qwen/Qwen3.5-397B-A17B", "gpt-oss-120b": "openai/gpt-oss-120b",
}  # fmt: skip
FORMATS = {"bf16": "bfloat16"}
"""Words of aiconfigurator for number formats that differ from ours."""


def words(run: Run) -> dict[str, Any]:
    """The run in its words. Number formats of gpt-oss are those of its model file."""
    pool, precision = run.pools[0], recipe(run).precision
    found: dict[str, Any] = {
        "model_path": MODELS[run.model], "system_name": SYSTEMS[run.gpu],
        "backend_name": run.engine, "isl": run.prompt, "osl": run.output,
        "batch_size": max(1, run.concurrency // pool.dp), "tp_size": pool.tp, "pp_size": pool.pp,
        "attention_dp_size": pool.dp,
        "kvcache_quant_mode": FORMATS.get(precision.cache, precision.cache),
    }  # fmt: skip
    if run.model != "gpt-oss-120b":
        found["gemm_quant_mode"] = FORMATS.get(precision.weights, precision.weights)
    if not run.model.startswith("Llama"):
        found |= {"moe_ep_size": pool.ep, "moe_tp_size": pool.tp * pool.dp // pool.ep}
        if run.model != "gpt-oss-120b":
            found["moe_quant_mode"] = FORMATS.get(precision.experts, precision.experts)
    return found


def record(run: Run) -> dict[str, object]:
    """Milliseconds, or the kind of its error."""
    try:
        found = cli_estimate(**words(run))
    except Exception as error:
        return {"run": run.name, "error": type(error).__name__}
    return {"run": run.name, "ttft_ms": float(found.ttft), "tpot_ms": float(found.tpot)}


def answers() -> Answers:
    """Estimates of the chosen runs."""
    return {"runs": [record(run) for run in chosen()]}


if __name__ == "__main__":
    main(version("aiconfigurator"), answers)
