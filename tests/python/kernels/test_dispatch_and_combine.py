"""Dispatch and combine of experts: the command, its refusals, and tables of measured ones."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Armillary

from armillary import kernels
from armillary.errors import InputError
from armillary.kernels import Combine, Dispatch
from armillary.kernels.tables import (
    COMBINE_LL,
    COMBINE_NORMAL,
    DISPATCH_LL,
    DISPATCH_NORMAL,
    TABLES,
    TRTLLM_EXCHANGE,
    Left,
    Measured,
    read,
)
from armillary.platform import Platform


def test_a_dispatch_in_words_and_as_json(armillary: Armillary) -> None:
    words = ("kernel", "dispatch", "128x7168x256x8x8", "-p", "dgx-h100")
    run = armillary(*words)
    assert run.returncode == 0, run.stderr
    assert "80 %" in run.stdout and "rests on  measured kernels of hopper" in run.stdout
    found = json.loads(armillary(*words, "--json", "-").stdout)
    assert found["kernel"]["backend"] == "deepep_ll" and found["kernel"]["format"] == "fp8"
    # DeepEP, README: 77 us on an H800, whose links have 200 GB/s; an H100's have 450.
    assert 77 * 200 / 450 < found["time_us"] < 77
    low, high = found["interval"]["low_us"], found["interval"]["high_us"]
    assert low < found["time_us"] < high


def test_published_bandwidths_of_deepep() -> None:
    """DeepEP's README: normal kernels on H800 with 400 Gb/s cards, 4,096 tokens, at most 4 nodes of
    a token. Bytes are those of all nodes of a token, its own with them."""
    platform = Platform.load("h800-256n")
    for kind, row, ranks, published in (
        (Dispatch, 7168 * 33 / 32, 16, 43e9),
        (Dispatch, 7168 * 33 / 32, 32, 58e9),
        (Dispatch, 7168 * 33 / 32, 64, 51e9),
        (Combine, 7168 * 2, 16, 43e9),
        (Combine, 7168 * 2, 32, 57e9),
        (Combine, 7168 * 2, 64, 50e9),
    ):
        nodes = ranks // 8
        shape = kind(
            tokens=4096,
            hidden=7168,
            experts=256,
            top_k=8,
            ep=ranks,
            sms=24,
            groups=min(nodes, 4),
            backend="deepep_normal",
        )
        visits = min(nodes, 4) * (1 - (1 - 1 / min(nodes, 4)) ** 8)
        ours = 4096 * row * visits / kernels.one(shape, platform).seconds
        assert 0.87 < ours / published < 1.15, (kind, ranks, ours / 1e9)


def test_drawn_calls_have_times_that_grow() -> None:
    draw = random.Random(5)
    platform = Platform.load("dgx-h100-16n")
    for _ in range(40):
        kind = draw.choice((Dispatch, Combine))
        ep = draw.choice((1, 2, 4, 8, 16, 64, 128))
        call = kind(
            tokens=1,
            hidden=128 * draw.randint(4, 64),
            experts=ep * draw.randint(4, 8),
            top_k=draw.randint(1, 4),
            ep=ep,
            backend=draw.choice(("deepep_ll", "deepep_normal")),
            sms=2 * draw.randint(2, 12),
            format="bf16",
        )
        shapes = [replace(call, tokens=tokens) for tokens in (1, 64, 65, 4096)]
        times = kernels.seconds(shapes, platform)
        assert all(1e-6 < time < 1 for time in times)
        assert times == sorted(times)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["dispatch", "128x7168x256x8"], "4 counts, not 5"),
        (["dispatch", "0x7168x256x8x8"], "invalid count of tokens: '0'"),
        (["dispatch", "128x7168x256x8x0"], "invalid count of ep: '0'"),
        (["dispatch", "128x7168x250x8x8"], "250 experts do not divide by ep 8"),
        (["dispatch", "128x7168x256x300x8"], "top_k is at most 256"),
        (["dispatch", "128x7000x256x8x8"], "hidden is a multiple of 128"),
        (["dispatch", "128x7168x256x8x12"], "do not divide by ep 12"),
        (["dispatch", "128x7168x256x8x16"], "ep 16 needs a network between 2 nodes of 8"),
        (["dispatch", "128x7168x256x8x8", "backend=nccl"], "nccl"),
        (["dispatch", "128x7168x256x8x8", "format=nvfp4"], "take format=fp8 or bf16"),
        (["dispatch", "128x7168x256x8x8", "backend=trtllm"], "npu.kernels.dispatch.trtllm"),
        (["dispatch", "128x7168x256x8x8", "backend=deepep_normal", "sms=7"], "sms is even"),
        (["combine", "128x7168x256x8x8", "format=fp8"], "take format=bf16"),
        (["combine", "128x7168x256x8x8", "stage=copy"], "take stage=whole"),
        (["combine", "128x7168x256x8x8", "routing=skewed"], "skewed"),
    ],
)
def test_what_is_refused(armillary: Armillary, arguments: list[str], said: str) -> None:
    run = armillary("kernel", *arguments, "-p", "dgx-h100")
    assert run.returncode == 2, run
    assert said in run.stderr
    assert "Traceback" not in run.stderr


def test_a_platform_without_enough_nodes_is_refused() -> None:
    shape = Dispatch(tokens=1, hidden=1024, experts=1024, top_k=8, ep=256)
    with pytest.raises(InputError, match="such as dgx-h100-16n"):
        kernels.one(shape, Platform.load("dgx-h100-16n"))
    # A graph of switches has the same cards as the stack.
    near = Dispatch(tokens=128, hidden=7168, experts=256, top_k=8, ep=64)
    stack, fabric = (
        kernels.one(near, Platform.load(name)).seconds
        for name in ("dgx-h100-16n", "dgx-h100-16n-fabric")
    )
    assert fabric == pytest.approx(stack)


DISPATCH = Dispatch(tokens=128, hidden=7168, experts=256, top_k=8, ep=8)
COMBINE = Combine(tokens=128, hidden=7168, experts=256, top_k=8, ep=8)
LL = """op_name,kernel_source,node_num,hidden_size,num_token,num_topk,num_experts,combine_avg_t_us,\
combine_bandwidth_gbps,dispatch_avg_t_us,dispatch_bandwidth_gbps,system,ver
ll,deepep,2,7168,128,8,256,186.2,1,102.1,1,h100,0.5.6
ll,deepep,1,7168,128,8,256,36.2,1,26.9,1,gb200,0.5.12
ll,deepep,8,7168,128,8,288,306.6,1,164.2,1,h100,0.5.6
"""
NORMAL = """op_name,kernel_source,node_num,hidden_size,num_token,num_topk,num_experts,dispatch_sms,\
dispatch_transmit_us,dispatch_notify_us,combine_sms,combine_transmit_us,combine_notify_us,system,ver
normal,deepep,8,7168,512,8,256,24,765,122,20,737,973,h100,0.5.6
"""
TRTLLM = """op_name,kernel_source,moe_dtype,num_tokens,hidden_size,topk,num_experts,moe_ep_size,\
distribution,latency,system,ver
alltoall_prepare,NVLinkTwoSided,fp8,64,7168,8,256,16,balanced,0.012,gb200,1.3.0
alltoall_dispatch,NVLinkOneSided,nvfp4,64,7168,8,256,16,balanced,0.020,gb200,1.3.0
alltoall_combine,NVLinkOneSided,nvfp4,64,7168,8,256,16,balanced,0.030,gb200,1.3.0
alltoall_combine_low_precision,NVLinkTwoSided,nvfp4,64,7168,8,256,16,balanced,0.026,gb200,1.3.0
alltoall_dispatch,DeepEP,nvfp4,64,7168,8,256,16,balanced,0.020,gb200,1.3.0
alltoall_dispatch,NVLinkOneSided,nvfp4,64,7168,8,256,16,power_law,0.020,gb200,1.3.0
"""


def rows(folder: Path, text: str) -> list[Measured | Left]:
    file = folder / "t.csv.gz"
    file.write_bytes(gzip.compress(text.encode(), mtime=0))
    return list(read(file, TABLES))


def test_a_row_of_deepep_is_a_dispatch_and_a_combine(tmp_path: Path) -> None:
    found = rows(tmp_path, LL)
    kept = [row for row in found if isinstance(row, Measured)]
    assert {row.software for row in kept} == {"deepep 0.5.6", "deepep 0.5.12"}
    assert {(row.table, row.us, row.shape) for row in kept} == {
        (DISPATCH_LL.name, 102.1, replace(DISPATCH, ep=16)),
        (COMBINE_LL.name, 186.2, replace(COMBINE, ep=16)),
        (DISPATCH_LL.name, 26.9, replace(DISPATCH, ep=4)),
        (COMBINE_LL.name, 36.2, replace(COMBINE, ep=4)),
    }
    assert [row.reason for row in found if isinstance(row, Left)] == [
        "288 experts do not divide by 64 ranks"
    ] * 2


def test_notifications_of_normal_kernels_count(tmp_path: Path) -> None:
    found = {row.table: row for row in rows(tmp_path, NORMAL) if isinstance(row, Measured)}
    assert set(found) == {DISPATCH_NORMAL.name, COMBINE_NORMAL.name}
    dispatch, combine = found[DISPATCH_NORMAL.name], found[COMBINE_NORMAL.name]
    assert (dispatch.us, combine.us) == (887.0, 1710.0)
    for call, row, sms in ((DISPATCH, dispatch, 24), (COMBINE, combine, 20)):
        normal = replace(call, tokens=512, ep=64, groups=4, backend="deepep_normal")
        assert row.shape == replace(normal, sms=sms)


def test_operations_of_tensorrt_are_stages(tmp_path: Path) -> None:
    found = rows(tmp_path, TRTLLM)
    dispatch, combine = (
        replace(call, tokens=64, ep=16, backend="trtllm", routing="balanced")
        for call in (DISPATCH, COMBINE)
    )
    two = "trtllm_two_sided"
    assert [(row.table, row.us, row.shape) for row in found if isinstance(row, Measured)] == [
        (TRTLLM_EXCHANGE.name, 12.0, replace(dispatch, backend=two, stage="prepare")),
        (TRTLLM_EXCHANGE.name, 20.0, replace(dispatch, format="nvfp4")),
        (TRTLLM_EXCHANGE.name, 30.0, combine),
        (TRTLLM_EXCHANGE.name, 26.0, replace(combine, backend=two, stage="copy", format="nvfp4")),
    ]
    assert [row.reason for row in found if isinstance(row, Left)] == [
        "all-to-alls by DeepEP in nvfp4",
        "all-to-alls of power_law routers",
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("102.1", "x", "dispatch_avg_t_us is not a number"),
        ("102.1", "-1", "dispatch_avg_t_us is -1"),
        ("102.1", "nan", "dispatch_avg_t_us is nan"),
        (",0.5.6\n", "\n", "another number of columns"),
    ],
)
def test_a_wrong_row_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        rows(tmp_path, LL.replace(old, new, 1))


def test_an_imported_table_is_preferred(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "ll.csv").write_text(LL, encoding="utf-8")
    run = armillary("import", "ll.csv", "-p", "dgx-h100-16n", "-o", "my.yml", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    kernel = ("kernel", "combine", "128x7168x256x8x16", "-p", "my.yml", "--json", "-")
    found = json.loads(armillary(*kernel, cwd=tmp_path).stdout)
    assert (found["time_us"], found["basis"]["how"]) == (pytest.approx(186.2), "measured")
