"""Classes with a fused kernel inside, against the reference code that they stand for."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from small_models import SMALL
from test_modules import saved_for_real
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

import armillary as arm
from armillary.capture.records import Operation
from armillary.capture.result import Capture
from armillary.workload import captured


def operations(found: Capture) -> list[Operation]:
    return [each for block in found._all for each in block.operations for _ in range(block.count)]


def fused(found: Capture, name: str) -> list[Operation]:
    return [each for each in operations(found) if each.name == name]


SPARSE = {"hidden_size": 32, "q_lora_rank": 24, "index_n_heads": 4, "index_head_dim": 16}
SPARSE |= {"qk_rope_head_dim": 8, "index_topk": 8}


class Indexing(nn.Module):
    """An indexer, with something to train behind it."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        module = transformers.models
        if kind == "deepseek_v32":
            made = module.deepseek_v32.modeling_deepseek_v32.DeepseekV32Indexer
        else:
            made = module.glm_moe_dsa.modeling_glm_moe_dsa.GlmMoeDsaIndexer
        self.indexer = made(transformers.CONFIG_MAPPING[kind](**SPARSE), 0)
        self.behind = nn.Linear(32, 1)

    def forward(
        self, x: torch.Tensor, q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> torch.Tensor:
        mask = torch.ones(x.shape[0], x.shape[1], x.shape[1], dtype=torch.bool).tril()
        chosen = self.indexer(x, q, (cos, sin), mask, None)
        result: torch.Tensor = self.behind(x).sum() + chosen.sum()
        return result


@pytest.mark.parametrize("kind", ["deepseek_v32", "glm_moe_dsa"])
@pytest.mark.parametrize("draw", range(3))
def test_an_indexer_has_the_products_of_the_reference(kind: str, draw: int) -> None:
    """The reference multiplies hidden pairs, too, which are half of an even square."""
    drawn = random.Random(draw)
    batch, tokens = drawn.randint(1, 3), 2 * drawn.randint(8, 20)
    given = [torch.rand(batch, tokens, 32), torch.rand(batch, tokens, 24)]
    given += [torch.rand(batch, tokens, 8) for _ in range(2)]
    module = Indexing(kind)
    counter = FlopCounterMode(display=False)
    with counter:
        module(*given)
    found = arm.capture(module, given)
    (kernel,) = fused(found, "indexer")
    assert found.flops + kernel.flops == counter.get_total_flops()
    assert kernel.writes[0].shape == (batch, tokens, 8)
    assert not any(each.backward and "indexer" in each.module for each in operations(found))
    assert not any("indexer" in each.module for each in found.after.saved)


@pytest.mark.parametrize("draw", range(4))
def test_lightning_attention_has_the_products_of_the_reference(draw: int) -> None:
    from transformers.models.minimax.modeling_minimax import MiniMaxLightningAttention

    drawn = random.Random(draw)
    shape = {"hidden_size": 48, "num_attention_heads": 4, "head_dim": drawn.choice([8, 16])}
    config = transformers.CONFIG_MAPPING["minimax"](
        **shape,
        num_hidden_layers=2,
        block_size=drawn.choice([8, 16]),
        layer_types=["linear_attention"] * 2,
    )
    module: Any = MiniMaxLightningAttention(config, 0)
    x = torch.rand(drawn.randint(1, 2), drawn.randint(17, 60), 48)
    counter = FlopCounterMode(display=False)
    with counter:
        module(x, None, None)
    found = arm.capture(module, [x, None, None])
    assert found.flops == counter.get_total_flops()
    (forward,) = fused(found, "lightning_attention")
    (backward,) = fused(found, "lightning_attention.backward")
    assert backward.flops == 3 * forward.flops
    kept = {each.memory for each in found.after.saved}
    assert kept >= {each.memory for each in forward.reads}


class Cells(nn.Module):
    """A recurrent layer, token by token."""

    def __init__(self, layer: Any) -> None:  # noqa: ANN401 - a layer of PyTorch
        super().__init__()
        kinds = {"LSTM": nn.LSTMCell, "GRU": nn.GRUCell, "RNN_TANH": nn.RNNCell}
        self.cell = kinds[layer.mode](layer.input_size, layer.hidden_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        results, state = [], None
        for token in x:
            state = self.cell(token, state)
            results.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(results)


class Last(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(x)[0]
        return result


@pytest.mark.parametrize("made", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("tokens", [1, 7])
def test_a_recurrent_layer_has_the_products_of_its_cells(made: Any, tokens: int) -> None:  # noqa: ANN401
    layer, x = made(12, 20), torch.rand(tokens, 3, 12, requires_grad=True)
    cells, counter = Cells(layer), FlopCounterMode(display=False)
    with counter:
        result = cells(x)
    forward = counter.get_total_flops()
    found = arm.capture(Last(layer), x)
    assert found.warnings == ()
    assert found.flops == forward
    with counter:
        result.sum().backward()
    # The first state is nothing, and needs no gradient.
    state = 2 * 3 * 20 * sum(each.numel() for each in [layer.weight_hh_l0]) // 20
    assert found.flops_backward == counter.get_total_flops() + state
    assert found.parameters.total == sum(each.numel() for each in cells.parameters())


def test_what_a_recurrent_layer_keeps() -> None:
    tokens, batch, width = 7, 3, 20
    x = torch.empty(tokens, batch, 12)
    row = 4 * tokens * batch
    for made, kept, ends in ((nn.LSTM, 5, 2), (nn.GRU, 5, 1), (nn.RNN, 0, 1)):
        found = arm.capture(Last(made(12, width)), x)
        assert found.saved == row * (12 + (kept + 1) * width) + ends * 4 * batch * width


def test_layers_and_directions() -> None:
    layer = nn.LSTM(12, 20, num_layers=2, bidirectional=True, batch_first=True, dropout=0.1)
    x = torch.empty(3, 7, 12)
    result, (hidden, cells) = layer(torch.rand(3, 7, 12))
    shapes: list[tuple[int, ...]] = []

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result, (hidden, cells) = self.layer(x)
            shapes.extend(tuple(each.shape) for each in (result, hidden, cells))
            loss: torch.Tensor = result.sum() + hidden.sum() + cells.sum()
            return loss

    found = arm.capture(Both(), x)
    assert shapes == [tuple(each.shape) for each in (result, hidden, cells)]
    assert len(fused(found, "recurrent")) == 4
    first, second = (2 * 21 * 4 * 20 * (channels + 20) for channels in (12, 40))
    assert found.flops == 2 * first + 2 * second
    assert found.flops_backward == 2 * found.flops
    summary = captured(found).summary
    assert summary is not None
    assert summary.flops == 3 * found.flops


EXPERTS = {
    "mixtral": "MixtralSparseMoeBlock",
    "qwen3_moe": "Qwen3MoeSparseMoeBlock",
    "deepseek_v3": "DeepseekV3MoE",
    "gpt_oss": "GptOssMLP",
}


@pytest.mark.parametrize("kind", EXPERTS)
def test_experts_keep_what_real_ones_keep(kind: str) -> None:
    """Whichever tokens go to an expert."""
    config: Any = transformers.CONFIG_MAPPING[kind](**SMALL[kind])
    config._experts_implementation = "grouped_mm"
    classes = getattr(transformers.models, kind)
    code = getattr(classes, f"modeling_{kind}")
    module = getattr(code, EXPERTS[kind])(config).to(torch.bfloat16).train()
    torch.manual_seed(0)
    for each in module.parameters():
        nn.init.normal_(each, std=0.02)
    x = torch.rand(3, 40, 64, dtype=torch.bfloat16, requires_grad=True)
    assert arm.capture(module, x).saved == saved_for_real(module, x)


class Classified(nn.Module):
    """A head and the loss of it, as the models of `transformers` have them: in 32 bits."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.head = nn.Linear(16, 50, bias=False, dtype=dtype)

    def forward(self, x: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
        logits = self.head(x).float()
        return functional.cross_entropy(logits.flatten(0, -2), goal.flatten())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_loss_keeps_the_logarithms_of_all_words(dtype: torch.dtype) -> None:
    x = torch.rand(4, 8, 16, dtype=dtype, requires_grad=True)
    goal = torch.randint(0, 50, (4, 8))
    module, counter = Classified(dtype), FlopCounterMode(display=False)
    kept = saved_for_real(module, x, goal)
    with counter:
        loss = module(x, goal)
    forward = counter.get_total_flops()
    with counter:
        loss.backward()
    found = arm.capture(module, {"x": x, "goal": goal})
    # Inputs of the head, logarithms of all words, goals, and the number of tokens.
    assert found.saved == kept == 32 * (16 * dtype.itemsize + 50 * 4 + 8) + 4
    assert found.flops == forward == 2 * 32 * 16 * 50
    assert found.flops_backward == counter.get_total_flops() == 2 * forward
