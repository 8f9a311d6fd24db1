"""Checkpoints of other programs, to go on from or to export.

Here: names of parameters in the open DLRM code and in TorchRec, and where they are here. Not here:
writing (`tensor_files.py`, `folder.py`).

    here             DLRM (`dlrm_s_pytorch.py`)   TorchRec (`DLRM`, `DLRM_DCN`)
    table N          emb_l.N.weight               embedding_bags.NAME.weight
    bottom.layers.N  bot_l.2N                     dense_arch.model._mlp.N._linear
    top.layers.N     top_l.2N                     over_arch.model.0._mlp.N._linear
    the last one     the last one                 over_arch.model.1
    cross.down.N                                  inter_arch.crossnet.V_kernels.N
    cross.up.N                                    inter_arch.crossnet.W_kernels.N, bias.N

Only weights are read: optimizers start anew. TorchRec's pairs of features are in another order, so
the columns of the first layer behind them move."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from armillary import documents
from armillary.errors import InputError, Problem
from armillary.model.dlrm import Dlrm
from armillary.plain_pickle import RefusedError

from ..data.samples import START
from ..tensor_files import Spec, Writer
from .folder import Folder
from .manifest import Entry, Manifest, Reached, Stored
from .shards import array_of
from .torch_distributed import read_distributed
from .torch_save import Saved, is_tensor, size_of

_HELP = "a file of torch.save, or a folder of torch.distributed.checkpoint"
_DEEPEST = 8
"""Levels of `state_dict` in one another."""
_LONGEST = 1000
"""Characters of a parameter's name."""
_DLRM = re.compile(r"(emb_l|bot_l|top_l)\.([0-9]{1,9})\.(weight|bias)")
_TABLE = re.compile(r"(?:.*\.)?embedding_bags\.(.+)\.weight")
_ARCH = re.compile(
    r"(?:.*\.)?(?:(dense_arch\.model|over_arch\.model\.0)\._mlp\.([0-9]{1,9})\._linear\.(weight|bias)"
    r"|over_arch\.model\.1\.(weight|bias)"
    r"|inter_arch\.crossnet\.(V_kernels|W_kernels|bias)\.([0-9]{1,9}))"
)


def import_(source: str, facts: Dlrm, output: str) -> list[str]:
    """Makes a checkpoint of step 0 in `output` from a file or folder of another program. Returns
    the parameters that were not used. Raises `InputError`."""
    state = _read(Path(source))
    tables, dense, unused = _named(state, facts, source)
    problems = _model_problems(tables, dense, facts, source)
    if problems:
        raise InputError(problems)
    folder = Folder(output)
    folder.lock()
    try:
        folder.clean()
        if folder.steps():
            said = "has checkpoints already"
            raise InputError([Problem(output, "--output", said, "another folder")])
        try:
            _write(folder, tables, dense, facts)
        except OSError as error:
            said = f"can't be written: {error.strerror or error}"
            raise InputError([Problem(output, "--output", said)]) from None
    finally:
        folder.unlock()
    return unused


def _read(path: Path) -> dict[str, Tensor]:
    """The tensors of a file of `torch.save`, or of a folder of `torch.distributed.checkpoint`.
    Those that are not parameters are empty."""
    if documents.is_folder(path):
        return read_distributed(path, _is_parameter)
    try:
        with documents.open_plain(path) as stream:
            return _state(Saved(stream), path.stat().st_size)
    except RefusedError as error:
        raise InputError([Problem(str(path), "", f"can't be read: it {error}", _HELP)]) from None
    except (OSError, ValueError) as error:
        said = f"can't be read: {getattr(error, 'strerror', None) or error}"
        raise InputError([Problem(str(path), "", said, _HELP)]) from None


def _state(saved: Saved, size: int) -> dict[str, Tensor]:
    """The tensors of a file of `size` bytes."""
    content = saved.value
    for _ in range(_DEEPEST):
        if not isinstance(content, dict) or not isinstance(content.get("state_dict"), dict):
            break
        content = content["state_dict"]
    if not isinstance(content, dict):
        raise RefusedError("has no parameters by name")
    found = {str(key)[:_LONGEST]: value for key, value in content.items() if is_tensor(value)}
    wanted = {key: value for key, value in found.items() if _is_parameter(key)}
    if sum(map(size_of, wanted.values())) > size:
        raise RefusedError(f"has larger tensors than its {size:,} bytes")
    return {
        key: saved.tensor(value) if key in wanted else torch.empty(0)
        for key, value in found.items()
    }


def _is_parameter(key: str) -> bool:
    return any(each.fullmatch(key) for each in (_DLRM, _TABLE, _ARCH))


def _named(
    state: Mapping[str, Tensor], facts: Dlrm, source: str
) -> tuple[dict[str, Tensor], dict[str, Tensor], list[str]]:
    """Tables and dense parameters by their names here, and the keys that are neither."""
    given: dict[str, Tensor] = {}
    dense: dict[str, Tensor] = {}
    unused = []
    last = len(facts.top) - 1
    theirs = any(_ARCH.fullmatch(key) for key in state)
    for key, value in state.items():
        table = _table(key)
        name = _of_dlrm(key) or _of_torchrec(key, last)
        if table in given or name in dense:
            said = f"is the parameter of another name: {key!r}"
            raise InputError([Problem(source, table or name or "", said, "each parameter once")])
        if table is not None:
            given[table] = value
        elif name is not None:
            dense[name] = value
        else:
            unused.append(key)
    if not given:
        said = "has no tables under a known name"
        help_ = "emb_l.N.weight (DLRM), embedding_bags.NAME.weight (TorchRec)"
        raise InputError([Problem(source, "", said, help_)])
    if theirs and facts.interaction.kind == "dot" and "top.layers.0.weight" in dense:
        dense["top.layers.0.weight"] = _reordered(dense["top.layers.0.weight"], facts)
    return _tables(given, facts), dense, unused


def _table(key: str) -> str | None:
    """The name of a table there."""
    dlrm, torchrec = _DLRM.fullmatch(key), _TABLE.fullmatch(key)
    if dlrm and dlrm[1] == "emb_l":
        return dlrm[2]
    return torchrec[1] if torchrec else None


def _of_dlrm(key: str) -> str | None:
    """The dense parameter here that a key of DLRM names."""
    found = _DLRM.fullmatch(key)
    if found is None:
        return None
    part = "bottom" if found[1] == "bot_l" else "top"
    return f"{part}.layers.{int(found[2]) // 2}.{found[3]}"


def _of_torchrec(key: str, last: int) -> str | None:
    """The dense parameter here that a key of TorchRec names. `last`: number of the last layer."""
    found = _ARCH.fullmatch(key)
    if found is None:
        return None
    arch, number, name, end, cross, place = found.groups()
    if arch:
        part = "bottom" if arch.startswith("dense") else "top"
        return f"{part}.layers.{number}.{name}"
    if end:
        return f"top.layers.{last}.{end}"
    if cross == "V_kernels":
        return f"cross.down.{place}.weight"
    return f"cross.up.{place}.{'bias' if cross == 'bias' else 'weight'}"


def _tables(given: Mapping[str, Tensor], facts: Dlrm) -> dict[str, Tensor]:
    """Tables by their names here: the same name, that behind `t_`, or the order of numbers in
    names."""
    names = [table.name for table in facts.tables]
    for known in (given, {key.removeprefix("t_"): value for key, value in given.items()}):
        if set(names) <= set(known):
            return {name: known[name] for name in names}
    ordered = sorted(given, key=lambda key: [*map(int, re.findall(r"[0-9]{1,18}", key))] or [0])
    return {
        names[place] if place < len(names) else key: given[key] for place, key in enumerate(ordered)
    }


def _reordered(weight: Tensor, facts: Dlrm) -> Tensor:
    """The first layer's columns in our order of pairs, from that of TorchRec: the upper triangle,
    row by row."""
    dim, features = facts.interaction.dim, facts.interaction.features
    if weight.dim() != 2 or weight.shape[1] != facts.interaction.outputs:
        return weight
    row, column = torch.triu_indices(features, features, 1)
    places = torch.zeros(features, features, dtype=torch.int64)
    places[column, row] = torch.arange(len(row))
    lower_row, lower_column = torch.tril_indices(features, features, -1)
    order = places[lower_row, lower_column] + dim
    return torch.cat((weight[:, :dim], weight[:, order]), 1)


def _model_problems(
    tables: Mapping[str, Tensor], dense: Mapping[str, Tensor], facts: Dlrm, source: str
) -> list[Problem]:
    wanted = {f"table {each.name!r}": [each.rows, each.dim] for each in facts.tables}
    layers = [("bottom.layers.{}", facts.bottom), ("top.layers.{}", facts.top)]
    layers += [("cross.down.{}", facts.interaction.layers[::2])]
    layers += [("cross.up.{}", facts.interaction.layers[1::2])]
    for name, some in layers:
        for number, layer in enumerate(some):
            wanted[f"{name.format(number)}.weight"] = [layer.outputs, layer.inputs]
            if layer.bias:
                wanted[f"{name.format(number)}.bias"] = [layer.outputs]
    found = {f"table {name!r}": list(value.shape) for name, value in tables.items()}
    found |= {name: list(value.shape) for name, value in dense.items()}
    problems = []
    for name in sorted(wanted.keys() | found.keys()):
        if name not in found:
            problems.append(Problem(source, name, "is missing", f"the shape {wanted[name]}"))
        elif found[name] != wanted.get(name):
            allowed = f"{wanted[name]}, as in {facts.name}" if name in wanted else "no more layers"
            problems.append(Problem(source, name, f"has the shape {found[name]}", allowed))
    return problems


def _write(
    folder: Folder, tables: Mapping[str, Tensor], dense: Mapping[str, Tensor], facts: Dlrm
) -> None:
    run = secrets.token_hex(4)
    name = f"rank-0-of-1-{run}.safetensors"
    place = folder.of(0)
    place.mkdir(parents=True, exist_ok=True)
    stored = [Stored(each.name, each.rows, each.dim, "F32", {}) for each in facts.tables]
    entries = [
        Entry(each.name, "weight", (0, each.rows), (0, each.dim), name, None, "F32")
        for each in stored
    ]
    values = {entry.key: array_of(tables[entry.table].float()) for entry in entries}
    values |= {f"dense.{key}": array_of(value.float()) for key, value in dense.items()}
    writer = Writer(place / name, [Spec(key, *_kind(each)) for key, each in values.items()])
    try:
        for key, (_, array) in values.items():
            writer.write(key, array)
        record = writer.end()
    except OSError:
        writer.abandon()
        raise
    progress: Reached = {
        "updates": 0, "steps": 0, "samples": 0, "seconds": 0.0, "evaluations": [], "bound": None,
        "position": {"epoch": START.epoch, "sample": START.sample},
        "interaction": facts.interaction.kind,
    }  # fmt: skip
    folder.commit(
        Manifest(0, None, run, 1, None, None, progress, tuple(stored), (record,), tuple(entries))
    )


def _kind(found: tuple[str, Any]) -> tuple[str, tuple[int, ...]]:
    return found[0], found[1].shape
