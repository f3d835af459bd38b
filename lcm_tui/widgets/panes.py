"""Containers that are covered by what they hold, and so have nothing to draw.

Textual asks every widget under a changed line for all of its lines; of a container they are blanks that
nobody sees, and on a screen of five containers they cost more than the line that a key has changed.
"""

from __future__ import annotations

from typing import ClassVar

from textual.containers import Horizontal, Vertical

from lcm_tui.widgets.drawn import Still


class Rows(Vertical, Still):
    """What it holds stands one below the other."""

    BLANK: ClassVar[bool] = True


class Columns(Horizontal, Still):
    """What it holds stands side by side."""

    BLANK: ClassVar[bool] = True
