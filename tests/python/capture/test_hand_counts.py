"""Operations of small models, against counts by hand from the formulas of their papers.

A formula is plain arithmetic on a configuration, and none of it comes from Armillary. Matrix
products, convolutions, attention and scans are compared apart, so that no two errors cancel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from small_models import BATCH, LIMITED, SCANS, SMALL, TOKENS, captured
from thorough import some

pytest.importorskip("torch")
pytest.importorskip("transformers")

from armillary.capture.result import Capture

# Tests of the same captures run in one process.
pytestmark = pytest.mark.xdist_group("small models")

ROWS = BATCH * TOKENS

Values = dict[str, Any]
Count = Counter[tuple[str, str]]
"""Operations by kind and pass."""


def work(kind: str, forward: int, backward: int) -> Count:
    return Counter({(kind, "forward"): forward, (kind, "backward"): backward})


def added(*counts: Count) -> Count:
    return sum(counts, Counter())


def matrices(*sizes: tuple[int, int], rows: int = ROWS) -> Count:
    """Two operations for each parameter and token, and twice as many backward. (Kaplan et al. 2020,
    arXiv:2001.08361, section 2.1)"""
    forward = 2 * rows * sum(inputs * outputs for inputs, outputs in sizes)
    return work("product", forward, 2 * forward)


def scores(heads: int, pairs: int, key: int, value: int | None = None) -> Count:
    """Queries with keys and scores with values (Vaswani et al. 2017, arXiv:1706.03762, section
    3.2.1). Backward the scores again, and gradients of scores, values, queries and keys (Dao et al.
    2022, arXiv:2205.14135, appendix B)."""
    value = key if value is None else value
    backward = key + value + value + key + key
    each = 2 * BATCH * heads * pairs
    return work("attention", each * (key + value), each * backward)


def scan(forward: int) -> Count:
    """Backward a scan is computed again, and each of its products has two gradients. (Gu and Dao
    2023, arXiv:2312.00752, section 3.3.2)"""
    return work("scan", forward, 3 * forward)


def taps(channels: int, width: int) -> Count:
    """A convolution of each channel by itself over time. (Gu and Dao 2023, arXiv:2312.00752,
    section 3.4)"""
    forward = 2 * ROWS * channels * width
    return work("convolution", forward, 2 * forward)


def seen(window: int = 0) -> int:
    """Pairs under a causal mask: half of a square; with a window (Jiang et al. 2023, Mistral 7B,
    arXiv:2310.06825, section 2) a band without the triangle that the first tokens lack."""
    return TOKENS * window - window * window // 2 if window else TOKENS * TOKENS // 2


# Parts of a layer.


def queries(v: Values, pairs: int) -> Count:
    """Attention of groups of queries. (Ainslie et al. 2023, arXiv:2305.13245, section 2.2)"""
    width, heads, groups = v["hidden_size"], v["num_attention_heads"], v["num_key_value_heads"]
    each = v.get("head_dim", width // heads)
    projections = matrices(
        (width, heads * each), (width, groups * each), (width, groups * each), (heads * each, width)
    )
    return added(projections, scores(heads, pairs, each))


def latent(v: Values, pairs: int) -> Count:
    """Multi-head latent attention: low-rank queries, keys and values, and one key with a position
    for all heads. (DeepSeek-AI 2024, DeepSeek-V2, arXiv:2405.04434, section 2.1)"""
    width, heads, low, rank = (
        v[key] for key in ("hidden_size", "num_attention_heads", "q_lora_rank", "kv_lora_rank")
    )
    plain, turned, value = v["qk_nope_head_dim"], v["qk_rope_head_dim"], v["v_head_dim"]
    projections = matrices(
        (width, low),
        (low, heads * plain),
        (low, heads * turned),
        (width, rank),
        (width, turned),
        (rank, heads * plain),
        (rank, heads * value),
        (heads * value, width),
    )
    return added(projections, scores(heads, pairs, plain + turned, value))


def gated(width: int, inner: int) -> Count:
    """Three matrices. (Shazeer 2020, arXiv:2002.05202, section 2)"""
    return matrices((width, inner), (width, inner), (inner, width))


def plain(width: int, inner: int) -> Count:
    """Two matrices. (Vaswani et al. 2017, arXiv:1706.03762, section 3.3)"""
    return matrices((width, inner), (inner, width))


def experts(v: Values, inner: int, shared: int = 0) -> Count:
    """A router, and for each token its own experts (Jiang et al. 2024, Mixtral, arXiv:2401.04088,
    section 2.1) and those of all tokens (Dai et al. 2024, DeepSeekMoE, arXiv:2401.06066, section
    3.2)."""
    width, chosen = v["hidden_size"], v["num_experts_per_tok"]
    routed = [gated(width, inner)] * (chosen + shared)
    return added(matrices((width, v["num_local_experts"])), *routed)


def head(v: Values) -> Count:
    return matrices((v["hidden_size"], v["vocab_size"]))


# Families of models.


def decoder(perceptron: Callable[[int, int], Count], *windows: int) -> Callable[[Values], Count]:
    """Layers of attention and a perceptron. Windows as their papers alternate them: Gemma 2
    (arXiv:2408.00118, section 2), Gemma 3 (arXiv:2503.19786, section 2), OLMo 3 (arXiv:2512.13961,
    section 3), EXAONE 4 (arXiv:2507.11407, section 2). The first layers are local."""

    def formula(v: Values) -> Count:
        inner = perceptron(v["hidden_size"], v["intermediate_size"])
        mixers = [queries(v, seen(window)) for window in windows or (0, 0)]
        return added(*mixers, inner, inner, head(v))

    return formula


def early(v: Values) -> Values:
    """The values of a model from before grouped queries, by the names of later ones."""
    width = v.get("hidden_size") or v.get("n_embd") or v["d_model"]
    heads = v.get("num_attention_heads") or v.get("n_head") or v["num_heads"]
    inner = v.get("ffn_dim") or v.get("d_ff") or v.get("intermediate_size") or 4 * width
    return {
        **v,
        "hidden_size": width,
        "intermediate_size": inner,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
    }


def gpt(v: Values) -> Count:
    """(Radford et al. 2019, GPT-2, section 2.3)"""
    return decoder(plain)(early(v))


def bert(v: Values) -> Count:
    """All pairs, and one more matrix before the words. (Devlin et al. 2018, arXiv:1810.04805,
    section 3)"""
    v = early(v)
    width = v["hidden_size"]
    layer = added(queries(v, TOKENS * TOKENS), plain(width, v["intermediate_size"]))
    return added(layer, layer, matrices((width, width)), head(v))


def vit(v: Values) -> Count:
    """Patches, which need no gradient, and a token of the class, which a last matrix takes.
    (Dosovitskiy et al. 2020, arXiv:2010.11929, section 3.1)"""
    v = early(v)
    width, side = v["hidden_size"], v["image_size"] // v["patch_size"]
    patches = 2 * BATCH * side * side * 3 * v["patch_size"] ** 2 * width
    tokens = side * side + 1
    layer = added(
        matrices(*[(width, width)] * 4, rows=BATCH * tokens),
        matrices(*[(width, v["intermediate_size"])] * 2, rows=BATCH * tokens),
        scores(v["num_attention_heads"], tokens * tokens, width // v["num_attention_heads"]),
    )
    embedded = work("convolution", patches, patches)
    return added(embedded, layer, layer, matrices((width, width), rows=BATCH))


def t5(v: Values) -> Count:
    """An encoder that sees all pairs, and a decoder that sees it, too. (Raffel et al. 2019,
    arXiv:1910.10683, section 2.1)"""
    v = {**early(v), "head_dim": v["d_kv"]}
    inner = plain(v["hidden_size"], v["intermediate_size"])
    encoder = added(queries(v, TOKENS * TOKENS), inner)
    behind = added(queries(v, seen()), queries(v, TOKENS * TOKENS), inner)
    return added(encoder, encoder, behind, behind, head(v))


def sparse(inner: str, *windows: int) -> Callable[[Values], Count]:
    """Experts in each layer. gpt-oss alternates windows. (OpenAI 2025, arXiv:2508.10925, section
    2)"""

    def formula(v: Values) -> Count:
        mixers = [queries(v, seen(window)) for window in windows or (0, 0)]
        routed = experts(v, v[inner])
        return added(*mixers, routed, routed, head(v))

    return formula


def first_dense(mixer: Callable[[Values, int], Count]) -> Callable[[Values], Count]:
    """A dense layer, and one with routed and shared experts. (DeepSeek-AI 2024, DeepSeek-V3,
    arXiv:2412.19437, section 2.1; Zeng et al. 2025, GLM-4.5, arXiv:2508.06471, section 2.1)"""

    def formula(v: Values) -> Count:
        mixed = mixer(v, seen())
        dense = gated(v["hidden_size"], v["intermediate_size"])
        routed = experts(v, v["moe_intermediate_size"], v["n_shared_experts"])
        return added(mixed, dense, mixed, routed, head(v))

    return formula


def indexed(v: Values, _: int) -> Count:
    """Each query has scores with `index_topk` keys, which an indexer chooses without a gradient:
    for each pair and head a product of a query and a key, and a weighted sum. (DeepSeek-AI 2025,
    DeepSeek-V3.2-Exp, section 2.1)"""
    heads, each = v["index_n_heads"], v["index_head_dim"]
    width, low = v["hidden_size"], v["q_lora_rank"]
    projections = 2 * ROWS * (low * heads * each + width * each + width * heads)
    pairs = BATCH * heads * TOKENS * TOKENS // 2
    return added(
        latent(v, TOKENS * v["index_topk"]),
        work("product", projections, 0),
        work("scan", 2 * pairs * (each + 1), 0),
    )


def llama4(v: Values) -> Count:
    """A dense layer that sees chunks, and a layer with a routed and a shared expert that sees all.
    (Meta 2025, Llama 4, model card and reference code)"""
    width, chunk = v["hidden_size"], v["attention_chunk_size"]
    chunks = TOKENS // chunk
    return added(
        queries(v, chunks * chunk * chunk // 2),
        gated(width, v["intermediate_size_mlp"]),
        queries(v, seen()),
        experts(v, v["intermediate_size"], 1),
        head(v),
    )


def minimax(v: Values) -> Count:
    """A layer of lightning attention: in each block queries with keys, scores with values, the
    state with queries, and keys with values. Its result has a gate. (MiniMax 2025,
    arXiv:2501.08313, section 2.2)"""
    width, heads, each = v["hidden_size"], v["num_attention_heads"], v["head_dim"]
    inner, block = heads * each, v["block_size"]
    blocks = [block] * (TOKENS // block) + [TOKENS % block]
    inside = sum(2 * size * size * each for size in blocks)
    across = sum(2 * size * each * each for size in blocks)
    routed = experts(v, v["intermediate_size"])
    return added(
        matrices(*[(width, inner)] * 4, (inner, width)),
        scan(2 * BATCH * heads * (inside + across)),
        routed,
        queries(v, seen()),
        routed,
        head(v),
    )


def mamba1_layer(width: int, inner: int, state: int) -> Count:
    """Inputs and a gate, a convolution, and a scan by B, C and low-rank steps. The scan takes 9
    operations for each state. (Gu and Dao 2023, arXiv:2312.00752, sections 3.4 and 3.6, and its
    reference code)"""
    rank = -(-width // 16)
    return added(
        matrices((width, 2 * inner), (inner, rank + 2 * state), (rank, inner), (inner, width)),
        taps(inner, 4),
        scan(9 * ROWS * inner * state),
    )


def mamba(v: Values) -> Count:
    layer = mamba1_layer(v["hidden_size"], v["intermediate_size"], v["state_size"])
    return added(layer, layer, head(v))


def mamba2(v: Values) -> Count:
    """In each chunk scores of C with B, scores with inputs, states of B with inputs, and results of
    C with states. (Dao and Gu 2024, arXiv:2405.21060, sections 6 and 7.1)"""
    width, heads, p, n = (v[key] for key in ("hidden_size", "num_heads", "head_dim", "state_size"))
    inner, both, chunk = heads * p, 2 * v["n_groups"] * n, v["chunk_size"]
    chunks = BATCH * -(-TOKENS // chunk)
    inside = chunk * chunk * (v["n_groups"] * n + heads * p)
    layer = added(
        matrices((width, 2 * inner + both + heads), (inner, width)),
        taps(inner + both, 4),
        scan(2 * chunks * (inside + heads * 2 * chunk * p * n)),
    )
    return added(layer, layer, head(v))


def jamba(v: Values) -> Count:
    """A layer of Mamba with a perceptron, and one of attention with experts. (Lieber et al. 2024,
    arXiv:2403.19887, section 2)"""
    width = v["hidden_size"]
    return added(
        mamba1_layer(width, 2 * width, v["mamba_d_state"]),
        gated(width, v["intermediate_size"]),
        queries(v, seen()),
        experts(v, v["intermediate_size"]),
        head(v),
    )


def qwen3_next(v: Values) -> Count:
    """A layer of the gated delta rule and one of attention with a gate, both with routed experts
    and a shared one that has a gate. In each chunk of 64 tokens: scores of keys with keys and with
    queries, a triangular system solved for values and keys, and products with the state.
    (Yang et al. 2024, arXiv:2412.06464, sections 3.3 and 3.4; Qwen team 2025, Qwen3-Next)"""
    width, chunk = v["hidden_size"], 64
    heads, key, value = (
        v[f"linear_{end}"] for end in ("num_value_heads", "key_head_dim", "value_head_dim")
    )
    keys, values = v["linear_num_key_heads"] * key, heads * value
    score, solved = chunk * chunk * key, chunk * chunk * (key + value) // 2
    # The state meets keys, queries, and new values.
    state = 3 * chunk * key * value
    inside = 2 * score + solved + chunk * chunk * value
    linear = added(
        matrices((width, 2 * keys + 2 * values), (width, 2 * heads), (values, width)),
        taps(2 * keys + values, 4),
        scan(2 * BATCH * -(-TOKENS // chunk) * heads * (inside + state)),
    )
    gate = matrices((width, v["num_attention_heads"] * v["head_dim"]))
    shared = added(gated(width, v["shared_expert_intermediate_size"]), matrices((width, 1)))
    routed = added(experts(v, v["moe_intermediate_size"]), shared)
    return added(linear, routed, queries(v, seen()), gate, routed, head(v))


FORMULAS: dict[str, Callable[[Values], Count]] = {
    **dict.fromkeys(("llama", "qwen2", "qwen3", "gemma", "phi3", "olmo", "olmo2"), decoder(gated)),
    **dict.fromkeys(("glm", "glm4", "cohere", "granite", "stablelm"), decoder(gated)),
    **dict.fromkeys(("smollm3", "seed_oss"), decoder(gated)),
    **dict.fromkeys(("phi", "starcoder2", "nemotron", "apertus"), decoder(plain)),
    **dict.fromkeys(("mistral", "gemma3_text", "olmo3", "exaone4"), decoder(gated, 8, 8)),
    "gemma2": decoder(gated, 8, 0),
    **dict.fromkeys(("gpt2", "gpt_neox", "opt"), gpt),
    "bert": bert,
    "vit": vit,
    "t5": t5,
    **dict.fromkeys(("mixtral", "olmoe", "minimax_m2"), sparse("intermediate_size")),
    "qwen3_moe": sparse("moe_intermediate_size"),
    "gpt_oss": sparse("intermediate_size", 8, 0),
    "glm4_moe": first_dense(queries),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3"), first_dense(latent)),
    "deepseek_v32": first_dense(indexed),
    "llama4_text": llama4,
    "minimax": minimax,
    "mamba": mamba,
    "mamba2": mamba2,
    "jamba": jamba,
    "qwen3_next": qwen3_next,
}
VALUES = {**SMALL, **SCANS, **LIMITED}


def of_capture(found: Capture) -> Count:
    kinds = {"matmul": "product", "grouped_matmul": "product"}
    total: Count = Counter()
    for block in (found.before, *found.blocks, found.after):
        for each in block.operations:
            passed = "backward" if each.backward else "forward"
            total[kinds.get(each.kind, each.kind), passed] += block.count * each.flops
    return +total


def test_every_small_model_has_a_formula() -> None:
    assert FORMULAS.keys() == VALUES.keys()


@pytest.mark.parametrize("kind", some(VALUES))
def test_operations_are_those_of_the_formula(kind: str) -> None:
    assert of_capture(captured(kind)) == +FORMULAS[kind](VALUES[kind])
