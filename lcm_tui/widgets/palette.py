"""What the names of styles look like in a theme: the one table of the app's colours.

Styles come from here and not from component classes: matching some 25 classes against the stylesheet for
every widget of a new screen was half of the time that opening one took.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from rich.style import Style


@dataclass(frozen=True, slots=True)
class Paint:
    """A style by the theme's variables, and what stands for it without colours."""

    colour: str | None = None
    background: str | None = None
    attributes: str = ""
    monochrome: str | None = None  #: attributes without colours; None: the same ones


PAINTS: Mapping[str, Paint] = {
    "text": Paint(),
    "dim": Paint(attributes="dim"),
    "title": Paint(attributes="bold"),
    "heading": Paint("text-secondary", attributes="bold", monochrome="bold underline"),
    "key": Paint("text-accent", attributes="bold"),
    "ok": Paint("text-success"),
    "warn": Paint("text-warning"),
    "error": Paint("text-error", attributes="bold", monochrome="bold reverse"),
    "match": Paint("background", "warning", monochrome="reverse"),
    "new": Paint("text-success", attributes="bold"),
    "role-user": Paint("text-accent", attributes="bold"),
    "role-assistant": Paint("text-primary", attributes="bold"),
    "role-tool": Paint("text-secondary"),
    "role-system": Paint("text-warning"),
    "leaf": Paint("text-success"),
    "d1": Paint("text-primary"),
    "d2": Paint("text-secondary"),
    "d3": Paint("text-accent"),
    "tail": Paint("text-warning"),
    "brief": Paint("text-accent", attributes="italic"),
    "cursor": Paint(background="primary-muted", monochrome="reverse"),
    "cursor-blur": Paint(background="panel", monochrome="underline"),
    "fresh": Paint(background="success-muted", monochrome="bold"),
}


def palette(variables: Mapping[str, str], *, monochrome: bool) -> Mapping[str, Style]:
    """Every name's style in a theme; each says only what it changes."""
    wanted = {name for paint in PAINTS.values() for name in (paint.colour, paint.background) if name}
    return _palette(tuple(sorted((name, variables.get(name, "")) for name in wanted)), monochrome)


@lru_cache(maxsize=8)
def _palette(variables: tuple[tuple[str, str], ...], monochrome: bool) -> Mapping[str, Style]:
    colours = dict(variables)
    return {name: _style(paint, colours, monochrome) for name, paint in PAINTS.items()}


def _style(paint: Paint, colours: Mapping[str, str], monochrome: bool) -> Style:
    attributes = paint.attributes if paint.monochrome is None or not monochrome else paint.monochrome
    style = Style.parse(attributes)
    if monochrome:
        return style
    return style + Style(
        color=colours.get(paint.colour or "") or None, bgcolor=colours.get(paint.background or "") or None
    )
