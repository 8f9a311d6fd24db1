"""SVG as text: the shapes that drawings of ours consist of.

Here: elements, escaped, with numbers cut to a tenth of a pixel, so that the same drawing gives the
same bytes. Not here: what is drawn (`platform_picture.py`, `fabric_picture.py`)."""

from __future__ import annotations

from html import escape

from .escapes import visible

FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
INK, PAPER, NPU, SWITCH, LINE = "#1d1d1f", "#ffffff", "#0072b2", "#5b5b5b", "#9a9a9a"
"""Colours that `page.css` turns on a dark page."""


def document(width: float, height: float, body: str, title: str = "", text: str = "") -> str:
    """A whole drawing on a white ground; `title` and `text` are what a screen reader says."""
    view = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    frame = f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>'
    said = f"<title>{said_text(title)}</title>" if title else ""
    said += f"<desc>{said_text(text)}</desc>" if text else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {view} font-family="{FONT}">'
        f"{said}{frame}{body}</svg>"
    )


def said_text(text: str) -> str:
    """Text as it may stand between tags."""
    return escape(visible(text), quote=False)


def titled(element: str, title: str) -> str:
    """The element with a text that shows up when a reader points at it."""
    return f"<g><title>{said_text(title)}</title>{element}</g>"


def box(
    x: float,
    y: float,
    width: float,
    height: float,
    fill: str,
    round_: float = 4,
    edge: str = "none",
    edge_width: float = 1.5,
) -> str:
    """A box by its upper left corner."""
    shape = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{round_:g}"'
    drawn = "" if edge == "none" else f' stroke="{edge}" stroke-width="{edge_width:g}"'
    return f'<rect {shape} fill="{fill}"{drawn}/>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float) -> str:
    """A straight line."""
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:.1f}"/>'


def bow(
    x1: float,
    y1: float,
    x2: float,
    y2: float,
    towards: tuple[float, float],
    colour: str,
    width: float,
) -> str:
    """A curve from end to end that is drawn towards a point."""
    path = f"M{x1:.1f} {y1:.1f}Q{towards[0]:.1f} {towards[1]:.1f} {x2:.1f} {y2:.1f}"
    return f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width:.1f}"/>'


def text(
    x: float,
    y: float,
    said: str,
    points: float,
    colour: str = INK,
    bold: bool = False,
    anchor: str = "middle",
) -> str:
    """A line of text."""
    weight = ' font-weight="bold"' if bold else ""
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{points:g}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}"{weight}>{said_text(said)}</text>'
