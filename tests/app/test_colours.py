"""Colours: everything is readable in every theme that the app offers, and the series are told apart."""

from __future__ import annotations

from itertools import combinations

import pytest
from rich.style import Style
from textual.color import Color, rgb_to_lab
from textual.theme import BUILTIN_THEMES

from lcm_tui.kit.drawn import PAINTS, contrast, style_on

#: What may lie over a line.
OVERLAYS = ("cursor", "cursor-blur", "fresh")
READABLE = 4.5
#: What a bar of a context is made of: each must be told from the others by its colour.
SERIES = ("leaf", "d1", "d2", "d3", "role-user", "role-assistant", "role-tool", "role-system")

VARIABLES = {name: theme.to_color_system().generate() for name, theme in BUILTIN_THEMES.items()}
ANSI = {name for name, variables in VARIABLES.items() if variables["background"].startswith("ansi")}
TRUE = sorted(set(VARIABLES) - ANSI)
#: What our widgets stand on.
GROUNDS = ("background", "surface", "panel")
#: The least distance of two series, in CIELAB, where 2 is seen side by side and black is 100 from white.
APART = 10.0


def style(theme: str, name: str, over: str, ground: str) -> Style:
    variables = VARIABLES[theme]
    return style_on(name, over, Color.parse(variables[ground]), variables, monochrome=False)


def colour(given: Style) -> Color:
    assert given.color is not None
    return Color.from_rich_color(given.color)


@pytest.mark.parametrize("theme", TRUE)
def test_every_text_is_readable_on_what_it_stands_on(theme: str) -> None:
    weak = []
    for name in PAINTS.keys() - set(OVERLAYS):
        for ground in GROUNDS:
            for over in ("", *OVERLAYS):
                found = style(theme, name, over, ground)
                behind = (
                    Color.from_rich_color(found.bgcolor)
                    if found.bgcolor
                    else Color.parse(VARIABLES[theme][ground])
                )
                if contrast(colour(found), behind) < READABLE:
                    weak.append((name, ground, over))
    assert not weak


@pytest.mark.parametrize("theme", TRUE)
@pytest.mark.parametrize("over", ["", "cursor"])
def test_the_series_are_told_apart(theme: str, over: str) -> None:
    seen = {name: rgb_to_lab(colour(style(theme, name, over, "surface"))) for name in SERIES}
    near = {}
    for one, other in combinations(SERIES, 2):
        a, b = seen[one], seen[other]
        distance = ((a.L - b.L) ** 2 + (a.a - b.a) ** 2 + (a.b - b.b) ** 2) ** 0.5
        if distance < APART:
            near[one, other] = round(distance, 1)
    assert not near


@pytest.mark.parametrize("theme", sorted(ANSI))
def test_a_theme_of_the_terminals_own_colours_has_eight_series_too(theme: str) -> None:
    variables = VARIABLES[theme]
    ground = Color.parse("ansi_default")
    drawn = {name: style_on(name, "", ground, variables, monochrome=False) for name in PAINTS}
    assert len({str(drawn[name].color) for name in SERIES}) == len(SERIES)
    assert drawn["match"].reverse


def test_a_match_under_the_cursor_is_still_a_match() -> None:
    for theme in TRUE:
        assert style(theme, "match", "cursor", "surface") == style(theme, "match", "", "surface")
        assert (
            style(theme, "match", "cursor", "surface").bgcolor
            != style(theme, "text", "cursor", "surface").bgcolor
        )


@pytest.mark.parametrize(
    ("one", "other", "wanted"), [("#000000", "#ffffff", 21.0), ("#777777", "#ffffff", 4.48)]
)
def test_contrast_is_that_of_wcag(one: str, other: str, wanted: float) -> None:
    assert round(contrast(Color.parse(one), Color.parse(other)), 2) == wanted
