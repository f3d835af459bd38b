"""The keys that a user gives to actions in the config file, and what may be wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from textual.binding import Binding

from lcm_tui.commands import COMMANDS
from lcm_tui.widgets.text import TextView


def key_problems(given: Mapping[str, str]) -> list[str]:
    """Actions that do not exist and keys that other actions lose, one sentence each.

    *given*: action id to a key, or to several separated by commas (`Settings.keys`).
    """
    known = _default_keys()
    problems = [
        f"The config file gives a key to {action!r}, which is no action; {_like(action, known)}"
        for action in given
        if action not in known
    ]
    left = {action: _split(keys) for action, keys in known.items() if action not in given}
    for action in (action for action in given if action in known):
        for key in _split(given[action]):
            problems += [
                f"The config file gives {key!r} to {action!r}, and so takes it from {other!r}: "
                f"give {other!r} another key."
                for other, keys in left.items()
                if key in keys
            ]
    return problems


def _default_keys() -> dict[str, str]:
    """The keys of every action that has an id: the commands, and moving in lists and texts."""
    moving = [binding for view in TextView.__mro__ for binding in vars(view).get("BINDINGS", ())]
    keys = {one.id: one.key for one in moving if isinstance(one, Binding) and one.id}
    return keys | {command.id: command.key for command in COMMANDS.values()}


def _split(keys: str) -> list[str]:
    return [key.strip() for key in keys.split(",") if key.strip()]


def _like(action: str, known: Mapping[str, str]) -> str:
    found = get_close_matches(action, known, 1)
    return f"do you mean {found[0]!r}?" if found else "the command palette (:) knows those that there are."
