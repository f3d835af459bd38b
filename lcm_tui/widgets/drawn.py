"""What every widget that draws `Line` values shares: the styles behind the names."""

from __future__ import annotations

from typing import ClassVar

from rich.style import Style
from textual.widget import Widget

from lcm_tui.widgets.spans import STYLE_NAMES, StyleName


class Drawn(Widget):
    """A widget that draws lines of spans; `style_of` gives what the theme makes of a style's name."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"line--{name}" for name in STYLE_NAMES} | {
        "line--cursor",
        "line--cursor-blur",
        "line--fresh",
    }
    DEFAULT_CSS = """
    Drawn {
        & > .line--text { color: $foreground; }
        & > .line--dim { color: $foreground 60%; }
        & > .line--title { text-style: bold; }
        & > .line--heading { color: $secondary; text-style: bold; }
        & > .line--key { color: $accent; text-style: bold; }
        & > .line--ok { color: $success; }
        & > .line--warn { color: $warning; }
        & > .line--error { color: $error; text-style: bold; }
        & > .line--match { background: $warning; color: $background; }
        & > .line--new { color: $success; text-style: bold; }
        & > .line--role-user { color: $accent; text-style: bold; }
        & > .line--role-assistant { color: $primary; text-style: bold; }
        & > .line--role-tool { color: $secondary; }
        & > .line--role-system { color: $warning; }
        & > .line--leaf { color: $success; }
        & > .line--d1 { color: $primary; }
        & > .line--d2 { color: $secondary; }
        & > .line--d3 { color: $accent; }
        & > .line--tail { color: $warning; }
        & > .line--brief { color: $accent; text-style: italic; }
        & > .line--cursor { background: $primary 40%; text-style: bold; }
        & > .line--cursor-blur { background: $surface; }
        & > .line--fresh { background: $success 25%; }
    }
    Drawn:nocolor {
        & > .line--heading { text-style: bold underline; }
        & > .line--cursor { text-style: reverse; }
        & > .line--cursor-blur { text-style: underline; }
        & > .line--fresh { text-style: bold; }
        & > .line--match { text-style: reverse; }
        & > .line--error { text-style: bold reverse; }
    }
    """

    _styles: dict[str, Style] | None = None

    def style_of(self, name: StyleName) -> Style:
        """The style that the theme gives to a name."""
        return self.component_style(f"line--{name}")

    def component_style(self, name: str) -> Style:
        """The style of a component class; all but ``line--text`` only say what they change."""
        if self._styles is None:
            self._styles = {}
        style = self._styles.get(name)
        if style is None:
            style = self.get_component_rich_style(name, partial=name != "line--text")
            self._styles[name] = style
        return style

    def notify_style_update(self) -> None:
        """The theme changed: forget its colours."""
        self._styles = None
        super().notify_style_update()
