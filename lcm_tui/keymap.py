"""The keys that a user gives to actions in the config file, and what may be wrong with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from textual.binding import Binding
from textual.keys import Keys

from lcm_tui.commands import COMMANDS
from lcm_tui.widgets.text import TextView

#: Names that people give to keys, and Textual's.
_ALIASES = {
    "esc": "escape",
    "return": "enter",
    "del": "delete",
    "ins": "insert",
    "bksp": "backspace",
    "pgup": "pageup",
    "pgdn": "pagedown",
    "pgdown": "pagedown",
}
_MODIFIED = re.compile(r"((?:(?:ctrl|shift|alt|meta|super|hyper)[+-])*)(.+)", re.IGNORECASE)


def textual_keys(written: str) -> str:
    """Keys as a user writes them, such as ``[``, ``F7``, ``ctrl-x`` or ``^x``, in the names of Textual."""
    if written.strip() == ",":
        return "comma"
    return ",".join(_named(key.strip()) for key in written.split(",") if key.strip())


def _named(key: str) -> str:
    if len(key) == 2 and key[0] == "^":
        key = f"ctrl+{key[1]}"
    found = _MODIFIED.fullmatch(key)
    modifiers, last = (found[1].lower().replace("-", "+"), found[2]) if found else ("", key)
    if len(last) > 1:
        return modifiers + _ALIASES.get(last.lower(), last.lower())
    return modifiers + _name_of(last.lower() if modifiers else last)


def _name_of(character: str) -> str:
    return next(iter(Binding.make_bindings([Binding(character, "")]))).key


def key_problems(given: Mapping[str, str]) -> list[str]:
    """Actions and keys that do not exist, and keys that two actions would have; one sentence each.

    *given*: action id to a key, or to several separated by commas, as the user wrote them.
    """
    known = _default_keys()
    problems = [
        f"The config file gives a key to {action!r}, which is not a command; {_like(action, known)}"
        for action in given
        if action not in known
    ]
    taken = {action: _split(keys) for action, keys in known.items()}
    taken |= {action: _split(textual_keys(keys)) for action, keys in given.items() if action in known}
    for action in (action for action in given if action in known):
        del taken[action]  # each pair is told once
        for key in _split(given[action]) if given[action].strip() != "," else [","]:
            name = _named(key) if key != "," else "comma"
            if not _exists(name):
                problems.append(
                    f"The config file gives {key!r} to {action!r}, which is not a key; write one character, "
                    "or f7, ctrl+x, space, pageup."
                )
            problems += [
                f"The config file gives {key!r} to {action!r} and to {other!r}; give one of them another key."
                if other in given
                else f"The config file gives {key!r} to {action!r}, and so takes it from {other!r}: "
                f"give {other!r} another key."
                for other, keys in taken.items()
                if name in keys and not _side_by_side(action, other, known)
            ]
    return problems


def _exists(name: str) -> bool:
    found = _MODIFIED.fullmatch(name)
    last = found[2] if found else name
    return len(last) == 1 or name in _NAMES or last in _NAMES


def _names() -> Iterator[str]:
    yield from (key.value for key in Keys)
    yield from (_name_of(chr(code)) for code in range(0x21, 0x7F) if chr(code) != ",")
    yield "comma"


_NAMES = frozenset(_names())


def moving_keys() -> Mapping[str, str]:
    """The keys that move in lists and texts, by action id."""
    moving = [binding for view in TextView.__mro__ for binding in vars(view).get("BINDINGS", ())]
    return {one.id: one.key for one in moving if isinstance(one, Binding) and one.id}


def _default_keys() -> dict[str, str]:
    """The keys of every action that has an id: the commands, and moving in lists and texts."""
    return {**moving_keys(), **{command.id: command.key for command in COMMANDS.values()}}


def _split(keys: str) -> list[str]:
    return [key.strip() for key in keys.split(",") if key.strip()]


def _side_by_side(action: str, other: str, known: Mapping[str, str]) -> bool:
    """Whether two actions have a key in common from the beginning: no screen has both."""
    return not set(_split(known[action])).isdisjoint(_split(known[other]))


def _like(action: str, known: Mapping[str, str]) -> str:
    found = get_close_matches(action, known, 1)
    return f"do you mean {found[0]!r}?" if found else "the command palette (:) lists the commands."
