"""What the names of styles look like in a theme: the one table of the app's colours.

Styles come from here and not from component classes: matching some 25 classes against the stylesheet for
every widget of a new screen was half of the time that opening one took.

Eight series (depths and roles) have hues of their own: a theme has four. Every colour is made lighter or
darker until it is readable on what it stands on, whatever the theme says.
"""

from __future__ import annotations

import colorsys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from rich.style import Style
from textual.color import Color, ColorParseError

#: The least contrast of a text with what it stands on (WCAG 2.2, success criterion 1.4.3).
READABLE: Final = 4.5
#: How much of the text's colour something dim keeps, where that is readable.
DIM_SHARE: Final = 0.6
_STEPS: Final = 50


@dataclass(frozen=True, slots=True)
class Paint:
    """A style by the theme's variables, or by a colour of its own, and what stands for it without colours."""

    colour: str = "foreground"
    background: str | None = None
    attributes: str = ""
    monochrome: str | None = None  #: attributes without colours; None: the same ones
    ansi: str = (
        ""  #: the terminal's own colour, where the theme is made of those; "": of the theme's variable
    )


PAINTS: Mapping[str, Paint] = {
    "text": Paint(),
    "dim": Paint(monochrome="dim"),
    "title": Paint(attributes="bold"),
    "heading": Paint("text-secondary", attributes="bold", monochrome="bold underline"),
    "key": Paint("text-accent", attributes="bold"),
    "ok": Paint("text-success"),
    "warn": Paint("text-warning"),
    "error": Paint("text-error", attributes="bold", monochrome="bold reverse"),
    "match": Paint("background", "warning", monochrome="reverse"),
    "new": Paint("text-success", attributes="bold"),
    "role-user": Paint("#ffa040", attributes="bold", ansi="ansi_bright_yellow"),
    "role-assistant": Paint("#40d8d8", attributes="bold", ansi="ansi_cyan"),
    "role-tool": Paint("#dcd450", ansi="ansi_yellow"),
    "role-system": Paint("#ff6868", ansi="ansi_red"),
    "leaf": Paint("#58c858", ansi="ansi_green"),
    "d1": Paint("#5aa2ff", ansi="ansi_blue"),
    "d2": Paint("#a98bff", ansi="ansi_magenta"),
    "d3": Paint("#ff78d0", ansi="ansi_bright_magenta"),
    "tail": Paint("text-warning"),
    "brief": Paint("text-accent", attributes="italic"),
    "cursor": Paint(background="primary-muted", monochrome="reverse"),
    "cursor-blur": Paint(background="panel", monochrome="underline"),
    "fresh": Paint(background="success-muted", monochrome="bold"),
}
#: What a bar of a context is made of: each must be told from the others by its colour.
SERIES: Final = ("leaf", "d1", "d2", "d3", "role-user", "role-assistant", "role-tool", "role-system")
#: What may lie over a line.
OVERLAYS: Final = ("cursor", "cursor-blur", "fresh")


def style_on(name: str, over: str, ground: Color, variables: Mapping[str, str], *, monochrome: bool) -> Style:
    """What *name* looks like on *ground* in the theme of these *variables*; *over* lies over it, or "" does.

    What has a background of its own keeps it under a cursor: a match stays seen there.
    """
    paint, upper = PAINTS[name], PAINTS.get(over)
    if monochrome:
        style = _attributes(paint)
        return style + _attributes(upper) if upper else style
    if variables.get("background", "").startswith("ansi"):
        style = _attributes(paint) if paint.background else _parsed(paint.attributes)
        colour = _ansi(paint.ansi or variables.get(paint.colour, ""))
        style += Style(color=colour.rich_color if colour and not paint.background else None)
        style += Style(dim=True) if name == "dim" else Style()
        return style + _attributes(upper) if upper and not paint.background else style
    behind = paint.background or (upper.background if upper else None)
    own = variables.get(paint.colour, paint.colour)
    return _coloured(name, own, variables[behind] if behind else None, ground)


@lru_cache(maxsize=1_000)
def _coloured(name: str, colour: str, background: str | None, ground: Color) -> Style:
    on = Color.parse(background) if background else ground
    own = Color.parse(colour)
    if name == "dim":
        own = on.blend(own, DIM_SHARE, 1)
    return _parsed(PAINTS[name].attributes) + Style(
        color=readable(own, on).rich_color, bgcolor=on.rich_color if background else None
    )


def readable(colour: Color, ground: Color) -> Color:
    """*colour*, made as much lighter or darker as it needs to be read on *ground*, its hue kept."""
    if contrast(colour, ground) >= READABLE:
        return colour
    white, black = Color(255, 255, 255), Color(0, 0, 0)
    up = contrast(white, ground) >= contrast(black, ground)
    hue, lightness, saturation = colorsys.rgb_to_hls(*colour.normalized)
    for step in range(1, _STEPS):
        moved = lightness + ((1.0 - lightness) if up else -lightness) * step / _STEPS
        red, green, blue = colorsys.hls_to_rgb(hue, moved, saturation)
        tried = Color(round(red * 255), round(green * 255), round(blue * 255))
        if contrast(tried, ground) >= READABLE:
            return tried
    return white if up else black


def contrast(one: Color, other: Color) -> float:
    """The contrast of two colours, 1 to 21, as WCAG 2.2 defines it ("contrast ratio")."""
    lower, upper = sorted((_luminance(one), _luminance(other)))
    return (upper + 0.05) / (lower + 0.05)


@lru_cache(maxsize=2_000)
def _luminance(colour: Color) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@lru_cache(maxsize=64)
def _parsed(attributes: str) -> Style:
    return Style.parse(attributes)


def _attributes(paint: Paint) -> Style:
    return _parsed(paint.attributes if paint.monochrome is None else paint.monochrome)


def _ansi(name: str) -> Color | None:
    """A colour of the terminal by the name that a theme gives it; a share of one is the colour."""
    try:
        return Color.parse(name.partition(" ")[0])
    except ColorParseError:
        return None
