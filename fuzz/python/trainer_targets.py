"""Readers of the trainer that are fuzzed: click logs, recipes, ingested data, checkpoints of ours
and of other programs. Those that need PyTorch are left out where it is not installed.

Checksums are corrected after the damage. Or else the fuzzer would only see that they are wrong."""

from __future__ import annotations

import contextlib
import gzip
import importlib.util
import io
import json
import shutil
import tempfile
import zlib
from functools import cache
from pathlib import Path
from typing import Any

from target import ROOT, Files, Target

MODEL = ROOT / "examples/checkpoints/dlrm.yml"
_RUN = "00000000"
"""The name of a run, which is drawn by chance."""


def _checksum(body: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True, separators=(",", ":")).encode())


def sealed(manifest: bytes, files: Files) -> bytes:
    """A manifest whose checksums are those of `files` and its own, where that can be done."""
    try:
        body = json.loads(manifest)
        body.pop("checksum", None)
        for record in _records(body):
            if record.get("name") in files:
                _correct(record, files[record["name"]])
        return json.dumps({**body, "checksum": _checksum(body)}).encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return manifest


def _records(body: dict[str, Any]) -> list[dict[str, Any]]:
    found = list(body.get("files", []))
    for split in body.get("splits", {}).values():
        found += [each["record"] for each in split]
    return [each for each in found if isinstance(each, dict)]


def _correct(record: dict[str, Any], data: bytes) -> None:
    head = 8 + int.from_bytes(data[:8], "little")
    record |= {"bytes": len(data), "header": zlib.crc32(data[:head])}
    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError):
        sums = {}
        for key, each in json.loads(data[8:head]).items():
            if key != "__metadata__":
                start, end = each["data_offsets"]
                sums[key] = zlib.crc32(data[head + start : head + end])
        record["tensors"] = sums


def _settings(folder: Path, **other: Any) -> Any:  # noqa: ANN401
    from armillary_train.settings import Settings

    return Settings(
        str(MODEL), checkpoint=str(folder), threads=1, global_batch=1, eval_samples=50, steps=4,
        checkpoint_every=2, dense_optimizer="adam", **other,
    )  # fmt: skip


def _facts() -> Any:  # noqa: ANN401
    from armillary.model import load_model
    from armillary.model.dlrm import parse

    return parse(load_model(str(MODEL)))


@cache
def _trained() -> Files:
    """Two checkpoints; the second has changed rows only."""
    from armillary_train.ranks.world import World
    from armillary_train.run import loop

    found: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory() as folder:
        loop.train(_settings(Path(folder)), _facts(), World())
        for step in sorted(Path(folder).glob("step-*")):
            manifest = json.loads((step / "manifest.json").read_bytes())
            name = manifest["files"][0]["name"]
            data = (step / name).read_bytes()
            text = json.dumps(manifest).replace(manifest["run"], _RUN).encode()
            found[f"{step.name}.{name.replace(manifest['run'], _RUN)}"] = data
            found[f"{step.name}.manifest.json"] = text
    return found


def _checkpoint(folder: Path, files: Files) -> object:
    from armillary_train.checkpoint.content import Content
    from armillary_train.checkpoint.export import about, export
    from armillary_train.checkpoint.folder import last
    from armillary_train.checkpoint.run_checkpoints import checkpoints
    from armillary_train.cli.checkpoint import _row
    from armillary_train.ranks.world import World
    from armillary_train.run import loop

    run = folder / "run"
    shutil.rmtree(run, ignore_errors=True)
    for step in {name.partition(".")[0] for name in files}:
        (run / step).mkdir(parents=True)
        of = {name.partition(".")[2]: data for name, data in files.items() if step in name}
        for name, data in of.items():
            (run / step / name).write_bytes(sealed(data, of) if name == "manifest.json" else data)
    content = Content(*last(run))
    json.dumps(about(content)), [_row(content.folder, each) for each in content.folder.steps()]
    content.check()
    export(content, str(folder / "out"), lambda _: None)
    trainer = loop.Trainer(_settings(run, resume=True), _facts(), World())
    with checkpoints(trainer, loop.Outcome()):
        return None


def _saved() -> list[Files]:
    folder = ROOT / "examples/checkpoints"
    return [{name: (folder / name).read_bytes()} for name in ("dlrm.pt", "torchrec.pt")]


def _distributed() -> list[Files]:
    folder = ROOT / "examples/checkpoints/torchrec-dcn"
    return [{path.name: path.read_bytes() for path in sorted(folder.iterdir())}]


def _import_file(folder: Path, files: Files) -> object:
    return _imported(folder / next(iter(files)), MODEL, folder)


def _import_folder(folder: Path, _files: Files) -> object:
    return _imported(folder, MODEL.with_name("dcn.yml"), folder)


def _imported(source: Path, model: Path, folder: Path) -> object:
    from armillary.model import load_model
    from armillary.model.dlrm import parse
    from armillary_train.checkpoint import importing

    facts = parse(load_model(str(model)))
    return importing.import_(str(source), facts, str(folder / "out"))


RECIPE = b"""label: bought
separator: "|"
held_out: {share: 0.25}
samples_per_file: 3
shuffle: {seed: 1, memory: 1 MiB}
dense:
  - {columns: [price], numbers: decimal, missing: 1.0, log: 1.0}
categories:
  - {columns: [city], kind: text, rows: 50}
  - {columns: [tags], kind: whole, separator: ",", rows: 7}
"""
LOG = "price|bought|tags|city\n1|1|1,9|Bonn\n|0||\n0.001|0||Köln\n2e7|1|-1|Bonn\n".encode()


def _recipes() -> list[Files]:
    return [{"recipe.yml": RECIPE}]


def _recipe(folder: Path, _files: Files) -> object:
    from armillary_train.data.recipe_file import read_recipe

    return read_recipe(str(folder / "recipe.yml"))


def _parquet() -> bytes:
    import polars as pl

    frame = pl.DataFrame(
        {
            "city": ["Bonn", None, "Köln", "Bonn"],
            "bought": [True, False, False, True],
            "price": [1.5, None, 1e-3, 2e7],
            "tags": [[1, 9], [], None, [-1]],
        }
    )
    stream = io.BytesIO()
    frame.write_parquet(stream)
    return stream.getvalue()


def _logs() -> list[Files]:
    return [{"log.txt": LOG}, {"log.txt.gz": gzip.compress(LOG, mtime=0)}]


def _shop() -> Any:  # noqa: ANN401
    from armillary_train.data.recipe import CategoryColumn, DenseColumn, HeldOut, Recipe, Shuffle

    columns = (DenseColumn("price", "decimal", missing=1.0, log=1.0),)
    categories = (
        CategoryColumn("city", "text", rows=50),
        CategoryColumn("tags", "whole", missing=None, separator=",", rows=7),
    )
    return Recipe(
        None, "bought", columns, categories, separator="|", held_out=HeldOut(0),
        samples_per_file=3, shuffle=Shuffle(1, 2**20),
    )  # fmt: skip


def _ingest(folder: Path, files: Files) -> object:
    from armillary_train.data.ingest import ingest

    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    return ingest([folder / next(iter(files))], out, _shop(), threads=1)


@cache
def _ingested() -> Files:
    from armillary_train.data.ingest import ingest

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.txt")
        path.write_bytes(LOG)
        ingest([path], Path(folder, "out"), _shop(), threads=1)
        return {each.name: each.read_bytes() for each in sorted(Path(folder, "out").iterdir())}


def _dataset(folder: Path, files: Files) -> object:
    from armillary_train.data.ingested import open_dataset

    (folder / "manifest.json").write_bytes(sealed(files["manifest.json"], files))
    train, held_out = open_dataset(folder, (50, 7), 1)
    found = [list(split.parts(2, 0, 1)) for split in (train, held_out)]
    return found, train.identity


def _log_lines(folder: Path, _files: Files) -> object:
    from armillary_train.run import logs

    return logs._kept(folder / "log.jsonl", 2)


TARGETS: tuple[Target, ...] = (
    Target("recipe", _recipes, _recipe),
    Target("clicks", _logs, _ingest),
    Target("parquet", lambda: [{"log.parquet": _parquet()}], _ingest),
    Target("ingested", lambda: [_ingested()], _dataset),
    Target("train_log", lambda: [{"log.jsonl": b'{"step": 1}\n{"step": 2}\n'}], _log_lines),
)
if importlib.util.find_spec("torch") is not None:
    TARGETS += (
        Target("checkpoint", lambda: [_trained()], _checkpoint),
        Target("torch_save", _saved, _import_file),
        Target("torch_distributed", _distributed, _import_folder),
    )
