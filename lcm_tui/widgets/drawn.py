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
        & > .line--dim { text-style: dim; }
        & > .line--title { text-style: bold; }
        & > .line--heading { color: $text-secondary; text-style: bold; }
        & > .line--key { color: $text-accent; text-style: bold; }
        & > .line--ok { color: $text-success; }
        & > .line--warn { color: $text-warning; }
        & > .line--error { color: $text-error; text-style: bold; }
        & > .line--match { background: $warning; color: $background; }
        & > .line--new { color: $text-success; text-style: bold; }
        & > .line--role-user { color: $text-accent; text-style: bold; }
        & > .line--role-assistant { color: $text-primary; text-style: bold; }
        & > .line--role-tool { color: $text-secondary; }
        & > .line--role-system { color: $text-warning; }
        & > .line--leaf { color: $text-success; }
        & > .line--d1 { color: $text-primary; }
        & > .line--d2 { color: $text-secondary; }
        & > .line--d3 { color: $text-accent; }
        & > .line--tail { color: $text-warning; }
        & > .line--brief { color: $text-accent; text-style: italic; }
        & > .line--cursor { background: $primary-muted; }
        & > .line--cursor-blur { background: $panel; }
        & > .line--fresh { background: $success-muted; }
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
        """The style of a component class, over the widget's own text and background."""
        return self.component_style_alone("line--text") + self.component_style_alone(name)

    def component_style_alone(self, name: str) -> Style:
        """Only what a component class changes (of ``line--text``: everything)."""
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
