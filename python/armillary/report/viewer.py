"""The script that makes charts of a page interactive, kept in the user's cache: making it takes a
second.

Here: Vega, Vega-Lite and Vega-Embed as one text, from vl-convert. Not here: what a page does with
it (`page.js`)."""

from __future__ import annotations

import contextlib
from functools import cache
from pathlib import Path

from .. import files
from ..errors import InputError
from .chart import VEGA_LITE, require_room

_SNIPPET = "window.vegaEmbed = vegaEmbed;"


@cache
def script() -> str:
    """Text of a script that sets `window.vegaEmbed`, below the notices of what it is made of.

    Without a cache that can be written it is made anew.
    """
    return _comment() + _bundle()


def _comment() -> str:
    """The copyright notices that whoever passes on a page passes on with it."""
    return "/*\n" + (Path(__file__).parent / "notices.txt").read_text(encoding="utf-8") + "*/\n"


def _bundle() -> str:
    import vl_convert

    versions = (vl_convert.get_vega_embed_version(), vl_convert.get_vega_version(), VEGA_LITE)
    name = f"vega-embed-{'-'.join(versions)}.js"
    kept = files.cache_directory() / name
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return kept.read_text(encoding="utf-8")
    require_room()
    text = _safe(vl_convert.javascript_bundle(_SNIPPET, vl_version=VEGA_LITE))
    with contextlib.suppress(OSError, InputError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(kept, text)
    return text


def _safe(text: str) -> str:
    """The script as it may stand within HTML: nothing in it opens or ends an element."""
    return (
        text.replace("</script", "<\\/script")
        .replace("<!--", "\\x3c!--")
        .replace("<script", "\\x3cscript")
    )
