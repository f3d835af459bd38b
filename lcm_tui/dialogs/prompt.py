"""The help of a line that is typed: what it asks for, and its keys."""

from __future__ import annotations

from lcm_tui.dialogs.dialog import TYPING, key_row
from lcm_tui.panes.finding import Filter, Finder
from lcm_tui.widgets.text import Block, Document, heading


def prompt_document(label: str, explained: str, finder: Finder | None, keys: tuple[str, str]) -> Document:
    """*label* is shown above the line, *explained* only here; *keys* go through the matches of *finder*."""
    through = f"{keys[0]} and {keys[1]} go through the matches"
    if finder is None:
        about = "A line to fill in. Nothing happens before enter; the line above says what is wrong with it."
        enter = key_row("enter", "Done", "Take what is typed. As long as something is wrong, the line stays.")
        escape = key_row("esc", "Cancel", "Close the line; nothing is done.")
    elif isinstance(finder, Filter):
        about = "A filter of the list: it shows only the rows that contain every word typed."
        enter = key_row("enter", "Keep", "Keep the filter, and go to the list.")
        escape = key_row("esc", "Clear", "Show all rows again.")
    else:
        about = "Finds as you type, and ignores case."
        enter = key_row("enter", "Keep", f"Keep what was found; {through}.")
        escape = key_row("esc", "Clear", "End the search.")
    return (
        Block(about),
        Block(),
        heading("What it asks for"),
        Block(label),
        *((Block(" ".join(explained.split())),) if explained else ()),
        Block(),
        heading("Keys while you type"),
        enter,
        key_row("F1", "Help", "This help; what you typed stays."),
        escape,
        *TYPING,
        key_row("^q ^c", "Quit", "Quit lcm-tui immediately, without asking."),
    )
