"""AUC and NE of `dlrm-small` with every sharding, next to the best possible ones.

    python lab/bench/python/shardings.py --samples 4000000

Every run sees the same samples. All tables are sharded in the same way, by a plan of that scheme:
on two processes, and on four in two nodes for `table_row`. Prints JSON lines."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from armillary.model import load_model
from armillary.model.dlrm import parse

MODEL = "dlrm-small"
RATES = ["--global-batch", "4096", "--lr", "0.2", "--dense-lr", "0.005"]
SCHEMES = ("table", "row", "column", "data", "table_row")


def plan(scheme: str, ranks: int) -> dict[str, Any]:
    """A plan with all tables in one scheme."""
    tables = []
    for place, each in enumerate(parse(load_model(MODEL)).tables):
        node = place % 2 * 2
        holders = {
            "table": place % ranks,
            "table_row": f"{node}-{node + 1}",
        }.get(scheme, f"0-{ranks - 1}")
        facts = {"name": each.name, "rows": each.rows, "columns": each.dim, "ranks": holders}
        tables.append({**facts, "scheme": scheme})
    return {"version": 1, "model": MODEL, "ranks": ranks, "ranks_per_node": 2, "tables": tables}


def main() -> None:
    """Trains once for each scheme, and once on one process."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--samples", type=int, default=4_000_000)
    given = asked.parse_args()
    base = [str(Path(sys.executable).with_name("armillary")), "train", MODEL, *RATES]
    base += ["--samples", str(given.samples), "--json", "-"]
    with tempfile.TemporaryDirectory() as folder:
        for scheme in ("", *SCHEMES):
            ranks = 4 if scheme == "table_row" else 2 if scheme else 1
            more = ["--ranks", str(ranks)]
            if scheme:
                file = Path(folder, f"{scheme}.yml")
                file.write_text(yaml.safe_dump(plan(scheme, ranks)))
                more += ["--plan", str(file)]
            run = subprocess.run([*base, *more], check=True, stdout=-1, text=True)
            said = json.loads(run.stdout)
            last, bound = said["evaluations"][-1], said["bound"]
            line = {"scheme": scheme or "one process", "ranks": ranks}
            line |= {name: last[name] for name in ("ne", "auc")}
            line |= {f"best {name}": bound[name] for name in ("ne", "auc")}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
