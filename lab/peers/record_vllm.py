"""Answers of vLLM: the parameters that a rank of tensor parallelism holds, of models that vLLM
builds from drawn configurations.

Models are built on the meta device, for processors and without other ranks: a group of ranks is
only its size. Types with experts are left out, because their layers ask for a GPU."""

from __future__ import annotations

import json
import os
import random
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ["VLLM_LOGGING_LEVEL"] = "CRITICAL"  # read when vLLM is imported

import record_transformers as models
import torch
import vllm
import vllm.platforms
from answers import Answers, main
from vllm.platforms.cpu import CpuPlatform

vllm.platforms._current_platform = CpuPlatform()

from vllm.config import ModelConfig, VllmConfig, set_current_vllm_config
from vllm.distributed import parallel_state
from vllm.model_executor.models.registry import (
    ModelRegistry,
    _LazyRegisteredModel,
    _ModelInfo,
)

# In this process: vLLM would start one for each model.
_LazyRegisteredModel.inspect_model_cls = lambda model: _ModelInfo.from_model_cls(
    model.load_model_cls()
)

KINDS = ("glm4", "granite", "llama", "mistral", "phi3", "qwen2", "qwen3")
"""Without gemma2, for whose embedding and head vLLM has one matrix in any configuration. Without
olmo2: vLLM holds the gains of norms over all heads on each rank, and Armillary cuts them."""
RANKS = (1, 2, 4, 8)
VOCABULARY = 163_840
"""Rows of the embedding: vLLM pads to a multiple of 64, which cuts evenly over the ranks."""


def group(size: int) -> Any:  # noqa: ANN401 - in place of a class of vLLM
    """What layers ask a group of ranks for."""
    return SimpleNamespace(
        world_size=size, rank_in_group=0, rank=0, is_first_rank=True, is_last_rank=True
    )


def parameters(config: dict[str, Any], ranks: int) -> int:
    """Parameters of the first of `ranks` ranks."""
    for name in ("_PP", "_DP", "_EP", "_PCP", "_DCP"):
        setattr(parallel_state, name, group(1))
    parallel_state._TP = group(ranks)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config), encoding="utf-8")
        found = ModelConfig(model=folder, tokenizer=folder, skip_tokenizer_init=True)
        whole = VllmConfig(model_config=found)
        kind, _ = ModelRegistry.resolve_model_cls(config["architectures"], found)
        with set_current_vllm_config(whole), torch.device("meta"):
            model = kind(vllm_config=whole)
    return sum(each.numel() for each in model.parameters())


def answers() -> Answers:
    """A configuration of each type, and the parameters of a rank by the number of ranks."""
    found = []
    for kind in KINDS:
        recorded: Any = models.record(kind, random.Random(f"vllm {kind}"))["config"]
        config = {**recorded, "vocab_size": VOCABULARY}
        heads = config["num_attention_heads"]
        held = {str(ranks): parameters(config, ranks) for ranks in RANKS if heads % ranks == 0}
        found.append({"config": config, "parameters_of_a_rank": held})
    return {"models": found}


if __name__ == "__main__":
    main(vllm.__version__, answers)
