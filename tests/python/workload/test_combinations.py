"""Every combination of options that fit a model runs, and its counts hold."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from test_held import peaks
from test_transformer import LATENT, MODELS, platform, summary
from thorough import usually

import armillary as arm
from armillary.workload import Model, build
from armillary.workload.checks import KNOWN_MODULES
from armillary.workload.framework_set import nested


@st.composite
def layers_again(draw: st.DrawFn, most: int, grouped: bool) -> dict[str, object]:
    """Full recomputation of all layers, or of a number of each part."""
    method = draw(st.sampled_from(["block", "uniform"]))
    uniform = method == "uniform"
    count = draw(st.integers(int(uniform), 1 if uniform and not grouped else most))
    early = {"early_stop": draw(st.booleans())}
    return {"recompute": "full", "recompute_layers": count, "recompute_method": method} | early


@st.composite
def combinations(draw: st.DrawFn) -> tuple[Model, dict[str, object]]:
    """A model and options that fit it."""
    model = draw(st.sampled_from(MODELS))
    schedule = draw(st.sampled_from(["1f1b", "interleaved", "dualpipe"]))
    pp = draw(st.sampled_from([2, 4]))
    dp = draw(st.sampled_from([1, 2, 4]))
    parts = pp * (2 if schedule == "interleaved" else 1)
    precision = draw(st.sampled_from(["bf16", "fp8"]))
    inner = draw(st.permutations(range(parts)))
    counts = [8 // parts + (1 if i in inner[: 8 % parts] else 0) for i in range(parts)]
    options: dict[str, object] = {
        "tp": draw(st.sampled_from([1, 2])),
        "pp": pp,
        "dp": dp,
        "schedule": schedule,
        "virtual_stages": 2 if schedule == "interleaved" else 1,
        "global_batch": dp * pp * 2,
        "layers_per_stage": counts,
        "overlap_passes": draw(st.booleans()),
        "zero": draw(st.sampled_from([0, 1, 2])),
        "mtp": draw(st.integers(0, 2)),
        "precision": precision,
        "fp8_recipe": draw(st.sampled_from(["blockwise", "tensorwise"])),
        "moments": draw(st.sampled_from(["fp32", "bf16"])),
        "attention": "unfused",
        "scatter_gather": draw(st.booleans()),
    }
    if precision == "fp8":
        options |= {
            key: draw(st.booleans())
            for key in ("fp8_weight_cache", "fp8_activations", "fp8_param_gather")
        }
    known = set(KNOWN_MODULES)
    known -= {"mla_up_proj", "shared_experts"} if model is not LATENT else set()
    known -= {"moe", "moe_act"} if model.family == "transformer" else set()
    if draw(st.booleans()):
        options["recompute_modules"] = draw(st.lists(st.sampled_from(sorted(known)), unique=True))
    else:
        options |= draw(layers_again(max(counts), grouped=not options["mtp"]))
    if model.family == "moe":
        ep = draw(st.sampled_from([e for e in (1, 2, 4) if dp % e == 0]))
        options |= {
            "ep": ep,
            "fp8_dispatch": draw(st.booleans()),
            "gates_inside": draw(st.booleans()),
        }
        options["ep_node"] = draw(st.sampled_from([None, *(n for n in (1, 2, 4) if ep % n == 0)]))
        if options["tp"] == 2 and draw(st.booleans()):
            whole = draw(st.sampled_from([e for e in (2, 4, 8) if 2 * dp % e == 0]))
            near = draw(st.sampled_from([None, *(n for n in (2, 4) if whole % n == 0)]))
            options |= {"etp": 1, "ep": whole, "ep_node": near}
    return model, options


@settings(max_examples=usually(20, 400), deadline=None)
@given(combinations())
def test_every_combination_runs(combination: tuple[Model, dict[str, object]]) -> None:
    """Folded and not alike; kernels add up to the model's operations; nodes hold what the summary
    says."""
    model, options = combination
    workload = build(model, **nested(options))
    found = summary(workload)
    target = platform(workload.ranks)
    folded = arm.simulate(workload, target).step_time_ns
    assert folded > 0
    if workload.ranks <= 16:
        assert folded == arm.simulate(workload, target, fold=False).step_time_ns
    done = sum(entry.operations * entry.ranks for entry in found.classes)
    if model is LATENT and options["tp"] != 1:
        assert done > found.hardware_flops
    else:
        assert done == found.hardware_flops
    for simulated, declared in peaks(workload):
        # Side by side a backward pass may free before the forward one has kept all.
        assert simulated <= declared if options["overlap_passes"] else simulated == declared
