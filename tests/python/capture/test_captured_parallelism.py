"""Tensor, sequence, context and expert parallelism of captured models, against the generator of
decoders and by hand."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers
from small_models import SMALL
from torch import nn
from torch.nn import functional

import armillary as arm
from armillary.capture.result import Capture
from armillary.errors import InputError
from armillary.workload import Workload, build, captured
from armillary.workload.summary import RankClass

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor.parallel import ParallelStyle

STYLES = pytest.mark.xdist_group("PyTorch's styles")
"""Tests that load them, which takes five seconds: on one worker."""

TOKENS = 2048
LLAMA = {
    "model_type": "llama",
    "hidden_size": 1024,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "intermediate_size": 3072,
    "vocab_size": 32001,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}
QWEN = {
    "model_type": "qwen3_moe",
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "intermediate_size": 96,
    "vocab_size": 32000,
    "num_experts": 16,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 128,
    "norm_topk_prob": True,
    "tie_word_embeddings": False,
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "intermediate_size": 640,
    "vocab_size": 3200,
    "first_k_dense_replace": 1,
    "n_routed_experts": 16,
    "n_shared_experts": 1,
    "num_experts_per_tok": 4,
    "moe_intermediate_size": 96,
    "n_group": 2,
    "topk_group": 1,
    "q_lora_rank": 96,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "tie_word_embeddings": False,
}
GPT2 = {
    "model_type": "gpt2",
    "n_embd": 512,
    "n_layer": 4,
    "n_head": 8,
    "n_positions": 2048,
    "vocab_size": 3200,
    "resid_pdrop": 0.0,
    "embd_pdrop": 0.0,
    "attn_pdrop": 0.0,
}


def written(folder: Path, config: dict[str, Any]) -> Path:
    file = folder / f"{config['model_type']}.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shapes")


@pytest.fixture(scope="module")
def llama(folder: Path) -> Capture:
    return arm.capture(written(folder, LLAMA), sequence=TOKENS, name="captured")


@pytest.fixture(scope="module")
def qwen(folder: Path) -> Capture:
    return arm.capture(written(folder, QWEN), sequence=TOKENS, name="captured")


@pytest.fixture(scope="module")
def deepseek(folder: Path) -> Capture:
    return arm.capture(written(folder, DEEPSEEK), sequence=TOKENS, name="captured")


@pytest.fixture(scope="module")
def gpt2(folder: Path) -> Capture:
    return arm.capture(written(folder, GPT2), sequence=TOKENS, name="captured")


def classes(made: Workload) -> tuple[RankClass, ...]:
    assert made.summary is not None
    return made.summary.classes


def volumes(made: Workload, group: str) -> dict[str, int]:
    """Bytes of the first stage's collectives of a group, by kind."""
    return {each.kind: each.bytes for each in classes(made)[0].volumes if each.group == group}


def same(one: Workload, other: Workload) -> None:
    """The same states, operations and volumes of every collective on each rank."""
    assert one.ranks == other.ranks
    for ours, theirs in zip(classes(one), classes(other), strict=True):
        assert ours.ranks == theirs.ranks
        assert ours.memory.weights == theirs.memory.weights
        assert ours.memory.gradients == theirs.memory.gradients
        assert ours.memory.optimizer == theirs.memory.optimizer
        assert set(ours.volumes) == set(theirs.volumes)
        assert ours.operations == pytest.approx(theirs.operations, rel=2e-3)


@pytest.mark.parametrize("draw", range(8))
def test_a_dense_model_is_the_generators(draw: int, llama: Capture, folder: Path) -> None:
    drawn = random.Random(draw)
    options: dict[str, Any] = {
        "tp": drawn.choice([2, 4, 8, 16]),
        "sp": drawn.choice([False, True]),
        "cp": drawn.choice([1, 2, 4]),
        "cp_comm_type": drawn.choice(["p2p", "all_gather"]),
        "dp": drawn.choice([1, 2, 8]),
        "pp": drawn.choice([1, 2, 4]),
        "zero": drawn.choice([0, 1, 2, 3]),
        "recompute": drawn.choice(["none", "full"]),
    }
    same(captured(llama, **options), build(folder / "llama.json", seq=TOKENS, **options))


def test_heads_are_exchanged_for_tokens(llama: Capture, folder: Path) -> None:
    options: dict[str, Any] = {"cp": 2, "cp_comm_type": "a2a", "tp": 2, "sp": True}
    same(captured(llama, **options), build(folder / "llama.json", seq=TOKENS, **options))


def test_context_parallel_ranks_share_the_work(llama: Capture, folder: Path) -> None:
    """Rings and gathers take the time that the generator's take, next to other kernels between
    products."""
    times = {}
    for exchange in ("p2p", "all_gather", "a2a"):
        options: dict[str, Any] = {"cp": 4, "cp_comm_type": exchange, "dp": 2}
        made = captured(llama, **options), build(folder / "llama.json", seq=TOKENS, **options)
        times[exchange] = [arm.simulate(each, "dgx-h100").step_time_ns for each in made]
    for ours, theirs in times.values():
        assert ours == pytest.approx(theirs, rel=0.1)


@pytest.mark.parametrize("name", ["llama", "qwen", "deepseek"])
def test_stages_are_those_of_a_plan_of_transformers(
    name: str, request: pytest.FixtureRequest
) -> None:
    """Plans of `transformers` name the modules of a model in the order of stages."""
    found: Capture = request.getfixturevalue(name)
    kind = {"llama": LLAMA, "qwen": QWEN, "deepseek": DEEPSEEK}[name]["model_type"]
    plan = list(transformers.CONFIG_MAPPING[kind].base_model_pp_plan)
    at = plan.index("layers")
    assert {path.split(".")[-2] for block in found.blocks for path in block.modules} == {"layers"}
    ends = [
        {each.module.rpartition(".")[2] for each in block.operations}
        for block in (found.before, found.after)
    ]
    assert ends[0] >= set(plan[:at])
    assert ends[1] >= set(plan[at + 1 :])


def test_layers_may_be_dealt_unevenly(llama: Capture, folder: Path) -> None:
    options: dict[str, Any] = {"pp": 4, "layers_per_stage": "1,2,2,3", "tp": 2}
    same(captured(llama, **options), build(folder / "llama.json", seq=TOKENS, **options))


@pytest.mark.parametrize("draw", range(8))
def test_a_model_with_experts_is_the_generators(draw: int, qwen: Capture, folder: Path) -> None:
    drawn = random.Random(draw)
    options: dict[str, Any] = {
        "tp": drawn.choice([1, 1, 2, 8]),
        "ep": drawn.choice([1, 2, 4]),
        "cp": drawn.choice([1, 1, 2]),
        "recompute": drawn.choice(["none", "full"]),
        "dp": drawn.choice([4, 8]),
        "pp": drawn.choice([1, 2]),
        "zero": drawn.choice([0, 1, 2, 3]),
        "imbalance": drawn.choice([1, 1.5]),
    }
    same(captured(qwen, **options), build(folder / "qwen3_moe.json", seq=TOKENS, **options))


@pytest.mark.parametrize(
    "options",
    [
        {"tp": 2, "dp": 4, "ep": 4, "etp": 1, "zero": 1},
        {"tp": 4, "cp": 2, "dp": 4, "ep": 8, "etp": 1, "pp": 2, "imbalance": 1.25},
    ],
)
def test_experts_may_be_whole(options: dict[str, Any], qwen: Capture, folder: Path) -> None:
    same(captured(qwen, **options), build(folder / "qwen3_moe.json", seq=TOKENS, **options))


@pytest.mark.parametrize("sp", [False, True])
@pytest.mark.parametrize(
    "options",
    [{"recompute": "full"}, {"recompute": "ops"}, {"recompute_modules": "mlp"}],
    ids=["full", "ops", "mlp"],
)
def test_what_is_computed_again_is_sent_again(
    options: dict[str, Any], sp: bool, llama: Capture, folder: Path
) -> None:
    options = {"tp": 4, "sp": sp, **options}
    same(captured(llama, **options), build(folder / "llama.json", seq=TOKENS, **options))


def test_the_router_is_not_a_product_that_counts(qwen: Capture) -> None:
    """Every other product is computed again, wherever the experts are."""
    alone, spread = (
        classes(captured(qwen, dp=4, ep=ep, recompute="ops"))[0].operations for ep in (1, 4)
    )
    assert alone == spread


@pytest.mark.parametrize("options", [{"ep": 4, "dp": 4}, {"ep": 2, "dp": 8, "pp": 4}])
def test_latent_attention_with_experts(
    options: dict[str, Any], deepseek: Capture, folder: Path
) -> None:
    """The generator counts the router's correction as parameters; it is a buffer."""
    one, other = (
        captured(deepseek, **options),
        build(folder / "deepseek_v3.json", seq=TOKENS, **options),
    )
    for ours, theirs in zip(classes(one), classes(other), strict=True):
        assert ours.operations == pytest.approx(theirs.operations, rel=2e-3)
        assert {each for each in ours.volumes if each.group == "ep"} == {
            each for each in theirs.volumes if each.group == "ep"
        }
        assert ours.memory.weights == pytest.approx(theirs.memory.weights, rel=1e-3)


def test_latent_attention_is_divided_by_heads(deepseek: Capture) -> None:
    """As in Megatron, compressed queries, keys and values are made of a rank's own tokens, and
    gathered."""
    found = volumes(captured(deepseek, tp=4, sp=True, dp=4, ep=4), "tp")
    hidden, latent, turned = 256, 96 + 64, 16
    # Rows at the experts of three layers.
    sent = 3 * 4 * TOKENS * hidden
    forward = 4 * (latent + turned + hidden) + hidden
    backward = 4 * (3 * hidden + latent) + 2 * hidden
    assert found["all_gather"] == 2 * (TOKENS * (forward + backward) + 2 * sent) // 4
    summed = 4 * (3 * hidden + latent + turned) + 2 * hidden
    assert found["reduce_scatter"] == 2 * (TOKENS * summed + 2 * sent)


@pytest.mark.parametrize(
    "kind",
    ["exaone4", "gemma2", "gpt2", "granite", "nemotron", "opt", "qwen3", "stablelm", "starcoder2"],
)
def test_blocks_of_other_models_are_divided_alike(kind: str, folder: Path) -> None:
    """An input is gathered for each block forward, again backward, and its gradient, wherever the
    norms are; sums of gradients are reduced once."""
    found = arm.capture(written(folder, {"model_type": kind, **SMALL[kind]}), sequence=32)
    whole = 32 * 64 * 2
    made = volumes(captured(found, tp=2, sp=True), "tp")
    gathered = (2 * 2 + 1) + 2 * (2 * 2 + 1)
    assert made["all_gather"] == gathered * whole // 2
    assert made["reduce_scatter"] == (1 + 2 * (2 * 2) + 1) * whole
    assert made["all_reduce"] == 12 * 32
    alone, spread = (classes(captured(found, tp=tp))[0].operations for tp in (1, 2))
    assert spread == pytest.approx(alone / 2, rel=1e-3)


def test_blocks_side_by_side_are_reduced_once(folder: Path) -> None:
    found = arm.capture(written(folder, {"model_type": "cohere", **SMALL["cohere"]}), sequence=32)
    made = volumes(captured(found, tp=2), "tp")
    # Embedding, each layer forward and backward, the norm's output included; head; loss.
    assert made["all_reduce"] <= (1 + 2 * 3 + 1) * 32 * 64 * 2 + 12 * 32


def test_heads_stay_divided_where_halves_are_stacked(folder: Path) -> None:
    """Rotary embeddings of Cohere stack two tensors along a new dimension."""
    heads = {"num_attention_heads": 12, "num_key_value_heads": 6, "intermediate_size": 96}
    config = {"model_type": "cohere", **SMALL["cohere"], **heads, "hidden_size": 96}
    found = arm.capture(written(folder, config), sequence=32)
    alone, spread = (classes(captured(found, tp=tp))[0].operations for tp in (1, 3))
    assert spread == pytest.approx(alone / 3, rel=1e-3)


def test_biases_of_experts_stay_with_them(folder: Path) -> None:
    config = {"model_type": "gpt_oss", **SMALL["gpt_oss"]}
    found = arm.capture(written(folder, config), sequence=32)
    made = captured(found, dp=2, ep=2)
    assert volumes(made, "ep") == {"all_to_all": 2 * 4 * 32 * 2 * 64 * 2}
    spread = captured(found, tp=2, dp=2, ep=2)
    assert classes(spread)[0].operations == pytest.approx(classes(made)[0].operations / 2, rel=1e-3)


def test_gpt2_is_divided_as_megatron_does(gpt2: Capture) -> None:
    made = captured(gpt2, tp=4)
    whole = TOKENS * 512 * 2
    # Embedding, four in each layer, the head's gradient; 12 bytes a token of the loss.
    assert volumes(made, "tp") == {"all_reduce": (1 + 4 * 4 + 1) * whole + 12 * TOKENS}
    layer = 2 * 4 * 512 + 512 * 3 * 512 // 4 + 3 * 512 // 4 + 512 * 512 // 4 + 512
    layer += 2 * 512 * 4 * 512 // 4 + 4 * 512 // 4 + 512 - 2 * 4 * 512 + 4 * 512
    rest = 3200 // 4 * 512 + 2048 * 512 + 2 * 512
    assert classes(made)[0].memory.weights == 2 * (4 * layer + rest)


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(256)
        self.up = nn.Linear(256, 1024)
        self.down = nn.Linear(1024, 256)
        self.side = nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm(x)
        result: torch.Tensor = x + self.down(functional.gelu(self.up(normed))) + self.side(normed)
        return result


class Mine(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(1000, 256)
        self.layers = nn.ModuleList([Perceptron() for _ in range(4)])
        self.head = nn.Linear(256, 1000, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.table(tokens)
        for layer in self.layers:
            x = layer(x)
        logits: torch.Tensor = self.head(x)
        return functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


PLAN = {
    "layers.*.up": "colwise",
    "layers.*.down": "rowwise",
    "table": "vocabulary",
    "head": "vocabulary",
}


def mine(plan: dict[str, str] | None = None) -> Capture:
    return arm.capture(Mine(), torch.zeros(2, 64, dtype=torch.long), tp_plan=plan)


def test_a_module_of_ones_own_with_a_plan() -> None:
    found = mine(PLAN)
    made = captured(found, tp=4)
    assert made.summary is not None
    (note,) = [each for each in made.summary.notes if "no rule" in each]
    assert note.endswith("replicated: layers.*.side")
    whole = 2 * 64 * 256 * 4
    assert volumes(made, "tp") == {"all_reduce": (1 + 4 * 2 + 1) * whole + 12 * 128}
    inner = (256 * 1024 + 1024 + 1024 * 256) // 4 + 256 + 256 * 256 + 256 + 2 * 256
    assert classes(made)[0].memory.weights == 4 * (4 * inner + 2 * 250 * 256)
    ways = captured(found, tp=4, sp=True)
    gathered = volumes(ways, "tp")
    # Forward each layer and the head; backward twice each layer, the head, and the embedding.
    assert gathered["all_gather"] == (4 + 1 + 2 * 4 + 1 + 1) * whole // 4
    assert gathered["reduce_scatter"] == (1 + 4 * 2 + 1) * whole


def test_without_a_plan_all_is_replicated() -> None:
    alone, spread = captured(mine()), captured(mine(), tp=4)
    assert classes(spread)[0].memory == classes(alone)[0].memory
    assert classes(spread)[0].operations == classes(alone)[0].operations
    assert not volumes(spread, "tp")
    assert spread.summary is not None
    assert any("head, layers.*.down" in each for each in spread.summary.notes)


def titan(module: Mine, mesh: DeviceMesh) -> None:
    """As torchtitan's models apply their plans."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        SequenceParallel,
        parallelize_module,
    )

    assert mesh.size() == 1
    outer = {
        "table": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1)),
    }
    parallelize_module(module, mesh, outer)
    for layer in module.layers:
        inner: dict[str, ParallelStyle] = {
            "norm": SequenceParallel(),
            "up": ColwiseParallel(),
            "down": RowwiseParallel(output_layouts=Shard(1)),
        }
        parallelize_module(module=layer, device_mesh=mesh, parallelize_plan=inner)


@STYLES
def test_a_plan_of_pytorch_is_that_of_words() -> None:
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    tokens = torch.zeros(2, 64, dtype=torch.long)
    noted = arm.capture(Mine(), tokens, tp_plan=titan)
    assert noted.rules.tensor == {**mine(PLAN).rules.tensor, "head.weight": "colwise"}
    same(captured(noted, tp=4, sp=True), captured(mine(PLAN), tp=4, sp=True))
    styles = {"layers.*.up": ColwiseParallel(), "table": RowwiseParallel()}
    found = arm.capture(Mine(), tokens, tp_plan=styles).rules.tensor
    assert found["layers.3.up.bias"] == "colwise"
    assert found["table.weight"] == "vocabulary"


@STYLES
def test_styles_without_a_word_are_refused() -> None:
    from torch.distributed.tensor import parallel

    class Odd(parallel.ParallelStyle):
        def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
            return module

    tokens = torch.zeros(2, 64, dtype=torch.long)
    with pytest.raises(InputError, match="Odd of head is unknown"):
        arm.capture(Mine(), tokens, tp_plan={"head": Odd()})
    with pytest.raises(InputError, match="divides a Linear that is not in the module"):
        arm.capture(
            Mine(), tokens, tp_plan=lambda _, mesh: parallel.parallelize_module(nn.Linear(2, 2))
        )


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ({"layers.*.up": "columns"}, "unknown rule 'columns'"),
        ({"layers.up": "colwise"}, "no parameter, and no module"),
    ],
)
def test_plans_that_are_refused(plan: dict[str, str], said: str) -> None:
    with pytest.raises(InputError) as caught:
        mine(plan)
    assert said in str(caught.value)
    assert all(problem.help for problem in caught.value.problems)


def test_a_configuration_has_the_plan_of_transformers(folder: Path, llama: Capture) -> None:
    layer = llama.blocks[0].modules[0]
    assert llama.rules.tensor[f"{layer}.self_attn.q_proj.weight"] == "colwise"
    assert llama.rules.tensor[f"{layer}.mlp.down_proj.weight"] == "rowwise"
    assert llama.rules.tensor["lm_head.weight"] == "vocabulary"
    with pytest.raises(InputError, match="whose plan comes from transformers"):
        arm.capture(folder / "llama.json", tp_plan={"layers.*": "colwise"})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tp": 3}, "q_proj has 16 parts, which 3 does not divide"),
        ({"tp": 32}, "16 parts, which 32 does not divide"),
        ({"ep": 2}, "2 for a model without experts"),
        ({"tp": 2, "ranks": 3}, "3 ranks, but tp 2"),
        ({"imbalance": 2}, "2.0 for a model without experts"),
        ({"tp": 0}, "invalid count: 0"),
        ({"cp": 3}, "2048 tokens are not divisible by 2 x cp = 6"),
        ({"cp": 8, "tp": 2, "cp_comm_type": "a2a"}, "2 heads of a rank are not divisible by cp 8"),
        ({"cp": 2, "cp_comm_type": "bcast"}, "unknown cp_comm_type 'bcast'"),
        ({"tp": 2, "sp": True, "cp": 512, "ranks": 3}, "3 ranks, but tp 2"),
        ({"pp": 2, "layers_per_stage": "3,4"}, "adds up to 7 layers"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_degrees_that_do_not_fit(options: dict[str, Any], said: str, llama: Capture) -> None:
    with pytest.raises(InputError) as caught:
        captured(llama, **options)
    assert said in str(caught.value)
    assert all(problem.help for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ep": 3, "dp": 6}, "16 experts are not divisible by 3"),
        ({"ep": 4, "dp": 2}, "expert parallelism of 4 lies inside data parallelism of 2"),
        ({"tp": 2, "sp": False}, "off, with experts and tp 2"),
    ],
    ids=["experts", "replicas", "sp"],
)
def test_experts_that_do_not_fit(options: dict[str, Any], said: str, qwen: Capture) -> None:
    with pytest.raises(InputError) as caught:
        captured(qwen, **options)
    assert said in str(caught.value)
    assert all(problem.help for problem in caught.value.problems)


def test_inputs_without_tokens_have_no_sequence_to_divide() -> None:
    module = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 8))
    plan = {"0": "colwise", "1": "rowwise"}
    found = arm.capture(module, torch.empty(4, 8), tp_plan=plan)
    assert volumes(captured(found, tp=2), "tp") == {"all_reduce": 4 * 8 * 4}
    with pytest.raises(InputError, match="no tokens were captured"):
        captured(found, tp=2, sp=True)


class Eager(nn.Module):
    """Attention of one head, with its scores as a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(100, 32)
        self.inputs = nn.Linear(32, 96)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        queries, keys, values = self.inputs(self.table(tokens)).chunk(3, dim=-1)
        mixed: torch.Tensor = torch.softmax(queries @ keys.mT, -1) @ values
        return mixed


def test_what_mixes_tokens_outside_of_attention_has_no_context_parallelism() -> None:
    tokens = torch.zeros(1, 64, dtype=torch.long)
    found = arm.capture(Eager(), tokens)
    with pytest.raises(InputError, match="has bmm between tokens of a sequence"):
        captured(found, cp=2)
    # With sequence parallelism each rank has all tokens for it.
    spread = captured(arm.capture(Eager(), tokens, tp_plan={"table": "vocabulary"}), tp=2, sp=True)
    alone, shared = classes(captured(found))[0], classes(spread)[0]
    scores = 6 * 2 * 64 * 64 * 32
    assert scores < shared.operations < alone.operations


def test_scans_have_no_context_parallelism(folder: Path) -> None:
    config = {
        "model_type": "mamba2",
        "vocab_size": 96,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "state_size": 16,
        "num_heads": 8,
        "head_dim": 16,
        "n_groups": 8,
        "chunk_size": 16,
    }
    found = arm.capture(written(folder, config), sequence=64)
    with pytest.raises(InputError, match="between tokens of a sequence, which only attention"):
        captured(found, cp=2)
