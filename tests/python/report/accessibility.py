"""What axe-core finds wrong with a page for people who see or move otherwise."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

GRAVE = {"serious", "critical"}
_SHEET = """() => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(
        "svg, tbody tr:not([class]):nth-child(n + 4) { display: none !important }");
    document.adoptedStyleSheets.push(sheet);
}"""


def violations(page: Page, *schemes: str) -> list[str]:
    """Serious and critical findings: rule, what it asks for, and the first elements that break
    it. The contrast of colours is asked for in these `schemes`, the system's, after all else.

    Contrast takes most of the time. It follows from the scheme, so it is enough to ask for it at
    one width, of each table in its first rows, and not of drawings: there axe-core decides
    nothing."""
    found = _found(page, {"rules": {"color-contrast": {"enabled": False}}})
    if schemes:
        page.evaluate(_SHEET)
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            found += _found(page, {"runOnly": ["color-contrast"]})
        page.evaluate("() => { document.adoptedStyleSheets.pop(); }")
    return found


def _found(page: Page, options: dict[str, Any]) -> list[str]:
    found = Axe().run(page, options={"resultTypes": ["violations"], **options})
    findings: list[dict[str, Any]] = found.response["violations"]
    return [
        f"{each['id']} ({each['impact']}): {each['help']}: "
        f"{[node['html'][:160] for node in each['nodes'][:3]]}"
        for each in findings
        if each["impact"] in GRAVE
    ]
