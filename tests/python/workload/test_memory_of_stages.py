"""Peak memory of every stage of drawn layouts against what is added up tensor by tensor."""

from __future__ import annotations

from collections import Counter

import pytest
from memory_by_hand import added_up, drawn
from thorough import usually

MODELS = ("llama-3-8b", "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3", "megatron-3.6b")


@pytest.mark.parametrize("model", MODELS)
def test_memory_of_stages(model: str) -> None:
    """All five parts and what is offloaded, to the byte."""
    met: Counter[str] = Counter()
    for options, plan in drawn(model, usually(25, 400), 51):
        met.update(name for name in options if name != "framework_set")
        for stage in range(plan.at.par.pp):
            ours = plan.memory(stage, plan.order(stage)), plan.host(stage)
            assert ours == added_up(plan, stage), (model, options, stage)
    print(model, dict(met))
