"""How two texts are laid beside each other: `v` says it on a diff, and so does `m`, the other view of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from lcm_tui.commands import Action
from lcm_tui.widgets.diff_view import DiffView

#: The other view of a diff.
OTHER_LAYOUT: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {"other-view": ("Side by side", "Switch between one text under the other and both side by side.")}
)


def layout_actions(view: DiffView) -> tuple[Action, Action]:
    """`v`, and `m`, which does the same."""
    return Action("layout", view.switch), Action("other-view", view.switch)


def layout_title(view: DiffView) -> str:
    """What the other view would be now."""
    return "Unified" if view.side_by_side else "Side by side"


def without_twin(commands: Sequence[str]) -> list[str]:
    """The commands of a key bar, which says once that there is another layout."""
    return [name for name in commands if name != "other-view"]
