"""Operations and parameters of small models, against PyTorch's own counter on real tensors."""

from __future__ import annotations

import pytest
from small_models import BATCH, SMALL, TOKENS, captured
from thorough import some

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from armillary.capture.result import Capture

# Tests of the same captures run in one process.
pytestmark = pytest.mark.xdist_group("small models")


def real(kind: str) -> torch.nn.Module:
    """The same model with real weights, in plain kernels."""
    from armillary.capture import hugging_face

    values = {"model_type": kind, **SMALL[kind]}
    config = hugging_face._config(transformers, values, kind)
    model = hugging_face._class(transformers, config, values, kind)
    torch.manual_seed(0)
    plain = {"attn_implementation": "eager"}
    if hugging_face._has_experts(model):
        plain["experts_implementation"] = "eager"
    made: torch.nn.Module = model._from_config(config, **plain).train()
    return made


def full_attention(found: Capture, backward: bool) -> int:
    """Operations of all attention where no pair is hidden, as plain kernels compute it."""
    total = 0
    for block in (*found.blocks, found.before, found.after):
        for each in block.operations:
            if each.kind == "attention" and each.backward is backward:
                query, key, value = (tensor.shape for tensor in each.reads[:3])
                heads = query[0] * query[1]
                pairs = heads * query[2] * key[2]
                total += block.count * 2 * pairs * (query[3] + value[3]) * (2 if backward else 1)
    return total


def products(found: Capture, backward: bool) -> int:
    return sum(
        block.count * each.flops
        for block in (*found.blocks, found.before, found.after)
        for each in block.operations
        if each.kind in ("matmul", "grouped_matmul", "convolution") and each.backward is backward
    )


@pytest.mark.parametrize("kind", some(SMALL))
def test_operations_are_those_that_pytorch_counts(kind: str) -> None:
    from armillary.capture.inputs import Sizes, of_model

    found = captured(kind)
    model = real(kind)
    given, _ = of_model(model, Sizes(BATCH, TOKENS), kind)
    inputs = {
        name: torch.randint(0, 90, each.shape)
        if each.dtype == torch.long
        else torch.rand(each.shape)
        for name, each in given.items()
        if isinstance(each, torch.Tensor)
    }
    rest = {name: each for name, each in given.items() if name not in inputs}
    counter = FlopCounterMode(display=False)
    with counter:
        result = model(**inputs, **rest)
        end = (
            result["logits"].float().sum()
            if "logits" in result
            else sum(each.float().sum() for each in result.values())
        )
    forward = counter.get_total_flops()
    with counter:
        end.backward()
    backward = counter.get_total_flops()
    assert found.warnings == ()
    assert found.parameters.total == sum(each.numel() for each in model.parameters())
    assert products(found, False) + full_attention(found, False) == forward
    assert products(found, True) + full_attention(found, True) == backward
