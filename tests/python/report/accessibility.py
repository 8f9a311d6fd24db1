"""What axe-core finds wrong with a page for people who see or move otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page
from thorough import usually

GRAVE = {"serious", "critical"}
SCHEMES = ("light", "dark")


def schemes(place: int) -> tuple[str, ...]:
    """The schemes that the page at this place of a list is asked for: one in turn, as pages share
    their classes, or both."""
    return usually((SCHEMES[place % 2],), SCHEMES)


_KINDS = """
    const named = (at) => /^aria-(label|description|valuetext)$/.test(at.name)
        ? at.name + (at.value.trim() ? "=text" : "=")
        : at.name + (/^(aria-.*|role|class|style|tabindex)$/.test(at.name) ? "=" + at.value : "");
    const says = (each) => [...each.childNodes].some((at) => at.nodeType == 3 && at.data.trim());
    const own = (each) => each.tagName + "[" + [...each.attributes].map(named).sort() + "]"
        + (says(each) ? "text" : "");
    const kinds = new Map(), seen = new Map();
    const kind = (each) => {
        if (!kinds.has(each))
            kinds.set(each, own(each) + "(" + [...new Set([...each.children].map(kind))] + ")");
        return kinds.get(each);
    };
    const stays = (each, within, most) => {
        const key = within + kind(each), count = (seen.get(key) ?? 0) + 1;
        seen.set(key, count);
        if (count > most) each.remove();
        return count <= most;
    };
    const thin = (each, within, most) => {
        for (const child of [...each.children])
            if (stays(child, within, most)) thin(child, within + own(child), most);
    };
"""
_THIN = f"""() => {{{_KINDS}
    const copy = document.body.cloneNode(true);
    for (const svg of copy.querySelectorAll("svg")) thin(svg, own(svg), 2);
    [...copy.querySelectorAll("tbody")].forEach((body, place) => {{
        for (const row of [...body.rows]) stays(row, "table " + place, 3);
    }});
    window.whole = document.body;
    window.whole.replaceWith(copy);
}}"""
_COLOURS = f"""() => {{{_KINDS}
    document.querySelectorAll("svg").forEach((each) => each.remove());
    thin(document.body, "", 2);
}}"""
_WHOLE = "() => document.body.replaceWith(window.whole)"


def violations(page: Page, *schemes: str) -> list[str]:
    """Serious and critical findings: rule, what it asks for, and the first elements that break
    it. The contrast of colours is asked for in these `schemes`, the system's, after all else.

    axe-core looks at a few elements of each kind: a page has thousands of marks that differ only
    in their place. Contrast takes most of the time. It follows from the scheme and from classes, so
    it is enough to ask for it at one width, of two elements of a kind in the whole page, and not of
    drawings: there axe-core decides nothing."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    with _thinned(page):
        found = _found(page, {"rules": {"color-contrast": {"enabled": False}}})
        if schemes:
            page.evaluate(_COLOURS)
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            found += _found(page, {"runOnly": ["color-contrast"]})
    return found


@contextmanager
def _thinned(page: Page) -> Iterator[None]:
    """Shows a copy of the page without marks and rows that are like earlier ones: same elements,
    attributes, roles and classes, also within. Of each kind two marks stay among all drawings, and
    three rows in a table. The page itself stays as it is, as its charts draw into it again."""
    page.evaluate(_THIN)
    yield
    page.evaluate(_WHOLE)


def _found(page: Page, options: dict[str, Any]) -> list[str]:
    asked = {"resultTypes": ["violations"], **options}
    found = page.evaluate("options => axe.run(document, options)", asked)
    findings: list[dict[str, Any]] = found["violations"]
    return [
        f"{each['id']} ({each['impact']}): {each['help']}: "
        f"{[node['html'][:160] for node in each['nodes'][:3]]}"
        for each in findings
        if each["impact"] in GRAVE
    ]
