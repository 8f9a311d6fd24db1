"""Convolutional networks against published parameter counts and operations, and closed forms of
volume and memory."""

from __future__ import annotations

from inspect import unwrap

import pytest
from exchanges import Listed

import armillary as arm
from armillary.errors import InputError
from armillary.model.cnn import Convolution, network
from armillary.model.files import Model, load_model
from armillary.workload.cnn import Style, cnn, layers, operations


@pytest.mark.parametrize(
    ("name", "layers", "parameters", "giga"),
    [
        # pytorch/vision, *_Weights: `num_params` and `_ops`, 10^9 multiply-and-adds
        ("resnet-50", 54, 25_557_032, 4.089),
        ("vgg-16", 16, 138_357_544, 15.47),
        ("alexnet", 8, 61_100_840, 0.714),
    ],
)
def test_published_counts(name: str, layers: int, parameters: int, giga: float) -> None:
    net = network(load_model(name))
    assert len(net.layers) == layers
    assert net.parameters == parameters
    assert round(net.multiplications / 1e9, 3) == giga


def test_resnet_weights_match_the_papers_input_file() -> None:
    """Bytes of weight gradients in ASTRA-sim's Resnet50_DataParallel.txt: 32 bits, without
    normalisation."""
    net = network(load_model("resnet-50"))
    weights = [
        layer.parameters - layer.outputs * (2 if isinstance(layer, Convolution) else 1)
        for layer in net.layers
    ]
    assert [4 * count for count in weights[:5]] == [37632, 16384, 147456, 65536, 65536]
    assert sorted(4 * count for count in weights)[-4:] == [8388608, 9437184, 9437184, 9437184]
    assert 4 * weights[-1] == 8192000


def test_volumes_operations_memory() -> None:
    net = network(load_model("resnet-50"))
    workload = cnn(
        "resnet-50",
        dp=8,
        local_batch=32,
        passes=3,
        precision="fp16",
        optimizer="adam",
        elementwise=False,
    )
    summary = workload.summary
    assert summary is not None
    assert (summary.ranks, summary.batch, summary.parameters) == (8, 256, 25_557_032)
    (entry,) = summary.classes
    (volume,) = entry.volumes
    assert (volume.group, volume.kind, volume.count, volume.bytes) == (
        "",
        "all_reduce",
        54,
        4 * 25_557_032,
    )
    # forward and two gradients, less the input gradient of the first layer: 64 x 112 x 112 x 147
    # multiply-and-adds
    assert (
        entry.operations
        == 32 * 2 * (3 * net.multiplications - 64 * 112 * 112 * 147)
        == operations(net, 32)
    )
    assert summary.flops == summary.hardware_flops == 8 * entry.operations
    memory = entry.memory
    assert (memory.weights, memory.gradients, memory.optimizer) == tuple(
        25_557_032 * each for each in (2, 4, 8)
    )


TINY = {
    "input": [3, 8, 8],
    "layers": [
        {"conv": {"name": "a", "out": 4, "kernel": 3, "padding": 1}},
        {"pool": {"kernel": 2}},
        {"residual": {"name": "r", "convs": [{"out": 8, "kernel": 3, "padding": 1, "groups": 2}]}},
        {"linear": {"name": "z", "out": 10}},
    ],
}


def test_small_network_by_hand() -> None:
    net = network(Model("tiny", "cnn", TINY))
    assert [layer.name for layer in net.layers] == ["a", "r.0.conv1", "r.0.downsample", "z"]
    # a: 3*3*3*4 + 8; r: 3*3*2*8 + 16 (two groups of two inputs); shortcut 4*8 + 16; z: 8*4*4*10 +
    # 10
    assert [layer.parameters for layer in net.layers] == [116, 160, 48, 1290]
    assert net.multiplications == 27 * 4 * 64 + 18 * 8 * 16 + 4 * 8 * 16 + 1280
    summary = cnn(Model("tiny", "cnn", TINY), dp=2, local_batch=5, precision="tf32").summary
    assert summary is not None
    kept = (
        (3 * 64 + 4 * 64) + (4 * 16 + 8 * 16) * 2 + 128
    )  # inputs, and outputs before a normalisation
    assert summary.classes[0].memory.activations == 5 * 4 * kept


def kernels(**options: object) -> dict[str, tuple[int, int]]:
    """Time of nothing: operations and bytes of each node of one pass, by name, read from the
    network's layers."""
    net = network(Model("tiny", "cnn", TINY))
    found = {}
    for layer in layers(net, 5, Style(**options)):  # type: ignore[arg-type]
        steps = {
            "forward": layer.forward,
            "input": layer.input_gradient,
            "weight": layer.weight_gradient,
        }
        for step, work in steps.items():
            assert work is not None
            own = (work.kernel,) if work.kernel else ()
            for touch in (*work.before, *own, *work.touches):
                found[f"{layer.name}.{step}.{touch.kernel}"] = (touch.operations, touch.bytes)
        if layer.update:
            found[f"{layer.name}.update"] = (layer.update.operations, layer.update.bytes)
    return found


def test_kernels_of_libraries_by_hand() -> None:
    """Layer `a`: 3 x 64 elements in, 4 x 64 out, 108 weights; five samples of 2 bytes. Nothing here
    joins but `r`."""
    eager = kernels(kernels="eager", width=2)
    both, out = 5 * 7 * 64, 5 * 4 * 64
    for step in ("forward", "input", "weight"):
        assert eager[f"a.{step}.convolution"] == (5 * 2 * 27 * 4 * 64, 2 * (both + 108))
    assert eager["a.forward.normalization"][1] == 2 * 3 * out
    assert eager["a.forward.elementwise"][1] == 2 * 2 * out
    assert eager["a.weight.normalization"][1] == 2 * 5 * out
    assert eager["a.weight.elementwise"][1] == 2 * 3 * out
    # weights and momentum in 4 bytes read and written, a gradient of 4 read, a copy of 2 written
    assert eager["a.update"] == (4 * 116, 22 * 116)
    joined = 5 * 8 * 16
    assert eager["r.0.conv1.forward.elementwise"][1] == 2 * (2 + 3) * joined
    assert "r.0.downsample.forward.elementwise" not in eager
    fused = kernels(kernels="fused", width=2)
    assert fused["a.forward.normalization"][1] == 2 * 3 * out
    assert fused["r.0.conv1.forward.normalization"][1] == 2 * 4 * joined
    assert not any(name.endswith("elementwise") for name in fused if name[0] in "ar")
    multiplied = kernels(width=2)
    assert multiplied["a.forward.normalization"][1] == 2 * 2 * out
    assert multiplied["a.input.normalization"][1] == 2 * 3 * out
    repacked = kernels(kernels="fused", width=2, repack=True)
    assert repacked["a.forward.convolution"][1] == 2 * (3 * both + 108)


def test_fewer_bytes_take_less_time() -> None:
    platform = arm.Platform.load("dgx-a100", {"npus": 1})
    times = [
        arm.simulate(
            cnn("resnet-50", dp=1, local_batch=64, precision="fp16", **options), platform
        ).step_time_ns
        for options in (
            {"kernels": "fused"},
            {"kernels": "eager"},
            {"kernels": "eager", "repack": True},
        )
    ]
    assert times == sorted(times)
    assert len(set(times)) == 3


def test_it_runs() -> None:
    result = arm.simulate(cnn("alexnet", dp=8, passes=2), arm.Platform.load("dgx-a100"))
    compute = 2 * operations(network(load_model("alexnet")), 32) / 312e12 * 1e9
    assert result.step_time_ns > compute


def problems(**options: object) -> list[str]:
    with pytest.raises(InputError) as caught:
        cnn(**{"dp": 8, **options})  # type: ignore[arg-type]
    return [str(problem) for problem in caught.value.problems]


def test_bad_options_are_all_named() -> None:
    found = problems(dp=0, local_batch=-1, optimizer="lion", kernels="none")
    assert found == [
        "dp: 0 is not a count (allowed: a whole number from 1 to 16777216)",
        "local_batch: -1 is not a count (allowed: a whole number from 1 to 171196)",
        "optimizer: unknown value 'lion' (allowed: sgd, momentum, adam)",
        "kernels: unknown value 'none' (allowed: multiplications, fused, eager)",
    ]


def test_too_much_is_refused() -> None:
    found = problems(local_batch=10**9, precision="fp12", passes=1.5)
    assert found == [
        "local_batch: 1000000000 is too much (allowed: a whole number from 1 to 171196)",
        "passes: 1.5 is not a count (allowed: a whole number from 1 to 10000)",
        "precision: unknown precision 'fp12' (allowed: fp32, tf32, fp16, bf16, fp8, int8)",
    ]


def test_bad_descriptions_are_all_named() -> None:
    def said(**fields: object) -> list[str]:
        return problems(model=Model("bad", "cnn", {"input": [3, 8, 8], **fields}))

    layers = [
        {"conv": {"out": 4, "kernel": 9, "colour": 1}},
        {"warp": {}},
        {"pool": {"kernel": True}},
    ]
    assert said(layers=layers, depth=3) == [
        "bad: depth: unknown key (allowed: input, layers, bias, norm)",
        "bad: layers[0].conv.colour: unknown key (allowed: out, kernel, groups, stride, padding, "
        "bias, norm, name)",
        "bad: layers[1]: has none of the keys (allowed: conv, pool, linear, residual)",
        "bad: layers[2].pool.kernel: invalid count: True (allowed: a whole number from 1 to "
        "2,147,483,648)",
    ]
    assert said(
        layers=[{"conv": {"out": 4, "kernel": 9}}, {"conv": {"out": 5, "kernel": 1, "groups": 3}}]
    ) == [
        "bad: layers[0].conv.kernel: 9 is larger than the padded image of (8, 8) (allowed: a "
        "kernel up to 8)",
        "bad: layers[1].conv.groups: 3 groups don't divide both 4 and 5 channels (allowed: a "
        "common divisor)",
    ]


def test_another_family_is_refused() -> None:
    assert problems(model="llama-2-7b")[0].endswith(
        "llama-2-7b is a transformer model (allowed: a cnn model)"
    )


PLAIN = {
    "input": [3, 8, 8],
    "layers": [
        {"conv": {"name": "a", "out": 4, "kernel": 3, "padding": 1}},
        {"pool": {"kernel": 2}},
        {"residual": {"name": "r", "convs": [{"out": 8, "kernel": 3, "padding": 1}]}},
        {"linear": {"name": "z", "out": 10}},
    ],
}
"""`TINY` without groups: 116, 304, 48 and 1290 parameters in `a`, `r`, its shortcut and `z`."""


def test_cut_by_output_channels_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two NPUs with 5 samples of 4 bytes. `r` and its shortcut read 4 x 4 x 4 elements after
    pooling, `z` reads 8 x 4 x 4, and 10 leave. The shortcut exchanges nothing by itself."""
    program = Listed()
    monkeypatch.setitem(unwrap(cnn).__globals__, "Program", lambda: program)
    options = {"dp": 3, "local_batch": 5, "optimizer": "adam", "elementwise": False}
    summary = cnn(Model("plain", "cnn", PLAIN), mp=2, **options).summary
    assert program.exchanged == [
        ("a.forward.all_gather", 5 * 4 * 64 // 2),
        ("r.0.downsample.forward.all_gather", 5 * 4 * 128 // 2),
        ("z.forward.all_gather", 5 * 4 * 10 // 2),
        ("z.weight_gradient.all_reduce", 4 * 1290 // 2),
        ("z.input_gradient.reduce_scatter", 5 * 4 * 128),
        ("r.0.downsample.weight_gradient.all_reduce", 4 * 48 // 2),
        ("r.0.conv1.weight_gradient.all_reduce", 4 * 304 // 2),
        ("r.0.conv1.input_gradient.reduce_scatter", 5 * 4 * 64),
        ("a.weight_gradient.all_reduce", 4 * 116 // 2),
    ]
    assert summary is not None
    assert (summary.ranks, summary.batch, summary.parameters) == (6, 15, 1758)
    (entry,) = summary.classes
    memory = entry.memory
    assert (memory.weights, memory.gradients, memory.optimizer) == (4 * 879, 4 * 879, 8 * 879)
    # inputs are whole; outputs before a normalisation are halves
    assert memory.activations == 5 * 4 * (192 + 128 + 64 + 64 + 64 + 64 + 128)
    assert {volume.group for volume in entry.volumes} == {"model", "data"}
    assert summary.flops == 3 * operations(network(Model("plain", "cnn", PLAIN)), 5)


@pytest.mark.parametrize("kernels", ["multiplications", "fused", "eager"])
def test_cut_networks_run(kernels: str) -> None:
    """In all kinds of kernels, an eighth of the work is done by each of eight NPUs."""
    whole, cut = (
        arm.workload.build("resnet-50", dp=8 // mp, mp=mp, kernels=kernels) for mp in (1, 8)
    )
    assert whole.summary is not None
    assert cut.summary is not None
    assert 8 * cut.summary.classes[0].operations == whole.summary.classes[0].operations
    result = arm.simulate(cut, "paper-ispass-torus-2x2x2")
    assert result.breakdown()["exposed_comm_share"][0] > 0


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        ("plain", {"mp": 3}, r"mp: 3 does not divide the 4 output channels of a .*allowed: 1, 2\)"),
        ("tiny", {"mp": 2}, r"mp: a convolution in groups is not cut: r\.0\.conv1 has 2"),
        ("plain", {"mp": 0}, "mp: 0 is not a count"),
        ("plain", {"mp": 2, "dp": 2**24}, "dp 16777216 x mp 2 NPUs are too many"),
    ],
)
def test_what_cannot_be_cut_is_refused(model: str, options: dict[str, int], said: str) -> None:
    described = {"plain": PLAIN, "tiny": TINY}[model]
    with pytest.raises(InputError, match=said):
        cnn(Model(model, "cnn", described), **{"dp": 2, **options})
