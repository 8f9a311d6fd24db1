"""How fast click logs become batches, and what that leaves of a training step.

    python lab/bench/python/ingestion.py ingest      MB/s of text, for each CPU second and second
    python lab/bench/python/ingestion.py steps       time of a step by where its data comes from
    torchrun --nproc-per-node 2 lab/bench/python/ingestion.py steps       the same on two processes

Lines are drawn in the format of Criteo's logs, with 32 bits in each category. Sources of data take
turns, and medians are printed, because other work on a machine comes and goes."""

from __future__ import annotations

import argparse
import gzip
import statistics
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from armillary.model import load_model
from armillary.model.dlrm import Dlrm, parse
from armillary_train.data import Part, open_data
from armillary_train.data.ingest import ingest
from armillary_train.data.readers import Readers
from armillary_train.data.recipe import HeldOut, Recipe, Shuffle, criteo
from armillary_train.ranks.world import World, joined
from armillary_train.settings import Settings

LINES = 40_000
"""Lines that are drawn; a file repeats them."""


def lines() -> bytes:
    """Lines as in Criteo's Kaggle set: 12 % of counts and categories are missing."""
    made = np.random.default_rng(0)
    counts = np.floor(made.lognormal(2, 2, (LINES, 13))).astype(int).astype(str)
    ids = made.integers(2**32, size=(LINES, 26))
    missing = made.random((LINES, 39)) < 0.12
    labels = (made.random(LINES) < 0.2562).astype(int)
    rows = []
    for label, some, row, none in zip(labels, counts, ids, missing, strict=True):
        fields = [*some, *(f"{each:08x}" for each in row)]
        rows.append("\t".join([str(label), *np.where(none, "", fields)]))
    return ("\n".join(rows) + "\n").encode()


def log(folder: Path, megabytes: int) -> Path:
    """A file of about so much text."""
    text = lines()
    path = folder / "train.txt"
    with path.open("wb") as stream:
        for _ in range(-(-megabytes * 10**6 // len(text))):
            stream.write(text)
    return path


def ingestion(folder: Path, megabytes: int, rounds: int) -> None:
    """Prints the speed of ingestion."""
    path = log(folder, megabytes)
    packed, parquet = folder / "train.txt.gz", folder / "train.parquet"
    packed.write_bytes(gzip.compress(path.read_bytes(), 6))
    to_parquet(path, parquet)
    rows = [table.rows for table in parse(load_model("dlrm-criteo-kaggle")).tables]
    plain = criteo().with_rows(rows, "")
    shuffled = replace(plain, shuffle=Shuffle(0, 2**26))
    cases: list[tuple[str, Path, Recipe, int]] = [
        ("text, 1 thread", path, plain, 1),
        ("text, 2 threads", path, plain, 2),
        ("text, whole values", path, criteo(), 1),
        ("text, shuffled in 64 MiB", path, shuffled, 1),
        ("gzip, 1 thread", packed, plain, 1),
        ("Parquet, 1 thread", parquet, plain, 1),
    ]
    found: dict[str, list[tuple[float, float]]] = {}
    for number in range(rounds):
        for name, source, recipe, threads in cases:
            out = folder / f"data-{number}-{len(found)}"
            whole = replace(recipe, held_out=HeldOut(0))
            result = ingest([source], out, whole, threads=threads)
            speeds = result.text_bytes / 1e6 / np.array([result.cpu_seconds, result.seconds])
            found.setdefault(name, []).append((speeds[0], speeds[1]))
            for each in out.iterdir():
                each.unlink()
            out.rmdir()
    print(f"{path.stat().st_size / 1e6:,.0f} MB of text; MB/s for each CPU second, and second")
    for name, all_ in found.items():
        cpu, wall = (statistics.median(each) for each in zip(*all_, strict=True))
        print(f"{name:28} {cpu:6,.0f} {wall:6,.0f}")
    print(f"Parquet: {parquet.stat().st_size / 1e6:,.0f} MB")


def to_parquet(path: Path, parquet: Path) -> None:
    """The same columns as Parquet."""
    import polars as pl

    names = list(criteo().columns or ())
    kinds = {
        each: pl.Int32 if each[0] in "lc" and "cat" not in each else pl.String for each in names
    }
    pl.scan_csv(path, separator="\t", has_header=False, schema=kinds).sink_parquet(parquet)


def steps(folder: Path, model: str, batch: int, rounds: int, count: int) -> None:
    """Prints the time of a step with data from memory and from files; of the slowest process."""
    from armillary_train.process import prepare_process
    from armillary_train.run.loop import Trainer
    from armillary_train.run.pipeline import windows

    facts = parse(load_model(model))
    with joined(60) as world:
        folder = Path(world.gather(str(folder), str)[0])
        path = folder / "train.txt"
        if world.rank == 0:
            path = log(folder, max(1, batch * (count + 2) * 250 // 10**6))
            recipe = criteo().with_rows([table.rows for table in facts.tables], "")
            ingest([path], folder / "data", recipe, threads=2)
        world.gather(0, int)
        settings = Settings(
            model, ranks=world.size, global_batch=batch, data=str(folder / "data"), threads=1
        )
        prepare_process(settings.threads)
        trainer = Trainer(settings, facts, world)
        ways = dict(sources(settings, facts, path, world))
        found: dict[str, list[tuple[float, float]]] = {}
        for _ in range(rounds + 1):
            for name, parts in ways.items():
                world.gather(0, int)
                with closing(parts()) as given:
                    timed = measured(trainer.step, windows(given, trainer.ahead), count)
                walls, cpus = zip(*world.gather(timed, tuple[float, float]), strict=True)
                found.setdefault(name, []).append((max(walls), max(cpus)))
        world.gather(0, int)
    if world.rank:
        return
    print(f"{model}, batches of {batch}, {world.size} processes: ms of wall and CPU time of a step")
    for name, all_ in found.items():
        wall, cpu = (statistics.median(each) for each in zip(*all_[1:], strict=True))
        print(f"{name:28} {wall * 1e3:7.2f} {cpu * 1e3:7.2f}")


Parts = Callable[[], Generator[Part, None, None]]


def sources(
    settings: Settings, facts: Dlrm, path: Path, world: World
) -> Iterator[tuple[str, Parts]]:
    """The same batches from memory, from ingested files, and from text, alone and by readers."""
    batch = settings.global_batch

    def endless(source: object) -> Parts:
        def parts() -> Generator[Part, None, None]:
            while True:
                yield from source.parts(batch, world.rank, world.size)  # type: ignore[attr-defined]

        return parts

    data, _ = open_data(settings, facts)
    memory = list(data.parts(batch, world.rank, world.size))
    yield "memory", lambda: (part for part in cycle(memory))
    yield "ingested files", endless(data)
    of_text = replace(settings, data=str(path))
    text, _ = open_data(of_text, facts)
    yield "text", endless(text)
    for name, source, its in (("ingested files", data, settings), ("text", text, of_text)):
        yield f"{name}, 1 reader", endless(Readers(source, replace(its, readers=1)))


def measured(
    step: Callable[..., float], batches: Iterator[tuple[Part, object]], count: int
) -> tuple[float, float]:
    """Seconds of wall and CPU time of a step, over `count` steps behind the first two."""
    for part, following in islice(batches, 2):
        step(part, 1.0, following)
    wall, cpu = time.perf_counter(), time.process_time()
    for part, following in islice(batches, count):
        step(part, 1.0, following)
    return (time.perf_counter() - wall) / count, (time.process_time() - cpu) / count


def main() -> None:
    """Reads the arguments and measures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["ingest", "steps"])
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=2048)
    parser.add_argument("--model", default="dlrm-criteo-kaggle")
    parser.add_argument("--folder", help="where files are written; a temporary folder by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        if given.what == "ingest":
            ingestion(Path(folder), given.megabytes, given.rounds)
        else:
            steps(Path(folder), given.model, given.batch, given.rounds, given.steps)


if __name__ == "__main__":
    main()
