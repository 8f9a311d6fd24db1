"""`armillary checkpoint`: shows checkpoints of training, checks them, exports and imports them."""

from __future__ import annotations

import json as json_text
from typing import TYPE_CHECKING, Annotated, Any

import typer

from armillary import __version__
from armillary.cli import completion, output
from armillary.cli.options import Json

if TYPE_CHECKING:
    from ..checkpoint.folder import Folder

SCHEMA = "armillary.checkpoints/1"
EXPORT_SCHEMA = "armillary.checkpoint_export/1"
IMPORT_SCHEMA = "armillary.checkpoint_import/1"
_SHOWN = 10
"""Names of unused parameters that are shown."""

app = typer.Typer(
    no_args_is_help=True,
    help="Show, check, export or import checkpoints of training.",
    rich_markup_mode=None,
)

Given = Annotated[
    str,
    typer.Argument(
        metavar="DIR", help="Folder of a run's checkpoints, or of one of them (DIR/step-...)."
    ),
]
Out = Annotated[str, typer.Option("--output", "-o", metavar="DIR", help="File or folder to write.")]


@app.command("show")
def show(
    folder: Given,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare all files with their checksums.")
    ] = False,
    json: Json = None,
) -> None:
    """Show what the checkpoints of a folder contain."""
    with output.guard():
        output.claim({"--json": json})
        _require_torch()
        from ..checkpoint.content import Content
        from ..checkpoint.export import about
        from ..checkpoint.folder import last

        found, step = last(folder)
        content = Content(found, step)
        steps = found.steps()
        if verify:
            with output.progress("checking", clock=False) as update:
                for number, each in enumerate(steps):
                    Content(found, each).check()
                    if update is not None:
                        update((number + 1) / len(steps), 0.0, f"step {each}")
        body = {
            "schema": SCHEMA,
            "version": __version__,
            "folder": folder,
            "verified": verify,
            "checkpoints": [_row(found, each) for each in steps],
            "last": about(content),
        }
        output.write_json(json, json_text.dumps(body, indent=2))
        if json != "-":
            from armillary.report import words

            from ..report import checkpoints

            words.show(checkpoints.page(body), output.console())


def _row(folder: Folder, step: int) -> dict[str, Any]:
    manifest = folder.manifest(step)
    return {
        "step": step,
        "samples": manifest.progress["samples"],
        "base": manifest.base,
        "ranks": manifest.ranks,
        "precision": manifest.precision,
        "files": len(manifest.files),
        "bytes": manifest.bytes,
    }


@app.command("export")
def export(folder: Given, out: Out, json: Json = None) -> None:
    """Write a checkpoint as safetensors, and its dense part as ONNX."""
    with output.guard():
        output.claim({"--json": json})
        _require_torch()
        from ..checkpoint import export as exporter
        from ..checkpoint.content import Content
        from ..checkpoint.folder import last

        content = Content(*last(folder))
        content.check()
        with output.progress("exporting", clock=False) as update:
            names = exporter.export(
                content, out, lambda done: update(done, 0.0, "tables") if update else None
            )
        body = {
            "schema": EXPORT_SCHEMA,
            "version": __version__,
            "step": content.last.step,
            "folder": out,
            "files": names,
        }
        output.write_json(json, json_text.dumps(body, indent=2))
        if json != "-":
            typer.echo(f"step {content.last.step} to {out}: {', '.join(names)}")
        if exporter.GRAPH not in names:
            output.log(f"{exporter.GRAPH} needs ONNX: pip install 'armillary-train[onnx]'")


@app.command("import")
def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="File of torch.save, or folder of torch.distributed.checkpoint, of DLRM or "
            "TorchRec.",
        ),
    ],
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="Preset or model file of the DLRM.",
            autocompletion=completion.workloads,
        ),
    ],
    out: Out,
    json: Json = None,
) -> None:
    """Make a checkpoint of weights that DLRM's code or TorchRec trained."""
    with output.guard():
        output.claim({"--json": json})
        _require_torch()
        from armillary.model import load_model
        from armillary.model.dlrm import parse

        from ..checkpoint import importing

        unused = importing.import_(source, parse(load_model(model)), out)
        body = {
            "schema": IMPORT_SCHEMA,
            "version": __version__,
            "folder": out,
            "unused": unused,
        }
        output.write_json(json, json_text.dumps(body, indent=2))
        if json != "-":
            typer.echo(f"{source} to {out}: go on with train {model} --checkpoint {out} --resume")
        if unused:
            more = f" and {len(unused) - _SHOWN} more" if len(unused) > _SHOWN else ""
            output.log(f"not used: {', '.join(unused[:_SHOWN])}{more}")


def _require_torch() -> None:
    from .. import torch_check

    torch_check.require("armillary checkpoint", "checkpoints need")
