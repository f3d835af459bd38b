"""A command line read with the options of every command, before any command is meant.

The engine's command reads it so first, which decides what it says of two mistakes at once
(docs/engine/command.md, "Errors").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from lcm_core.errors import UsageError

from lcm_tui.cli import registry
from lcm_tui.cli.declaring import Option

#: What the engine's command knows beside the common options; all else it refuses before it looks at words.
ENGINE_OPTIONS: Final = frozenset(
    {
        *("--conversation-id", "--session-key"),
        *("--after", "--before", "--between", "--recency", "--limit", "--cursor"),
        *("--role", "--include-content", "--depth", "--kind", "--count"),
    }
)
_HELP, _VERSION = ("-h", "--help"), ("-v", "--version")


@dataclass(slots=True)
class Scanned:
    """The words of a command line that are no options, and whether it has `--version` or `--help`."""

    words: list[str] = field(default_factory=list)
    help: bool = False
    version: bool = False
    unknown: bool = False  #: it holds an option that no command has


def every_option() -> Iterator[Option]:
    """Every option of every command; all their modules are imported."""
    return (one for command in registry.every() for one in registry.options_of(command))


@cache
def _by_name() -> Mapping[str, Option]:
    return {one.flag: one for one in every_option()}


def scanned(arguments: Sequence[str]) -> Scanned:
    """Read a command line.

    Raises:
        UsageError: an option without its value, or with one that it does not take. Unknown options count as
            flags: whoever knows what command is meant names them.
    """
    found, rest = Scanned(), list(arguments)
    while rest:
        given = rest.pop(0)
        if given == "--":
            found.words += rest
            break
        if len(given) < 2 or not given.startswith("-"):
            found.words.append(given)
            continue
        name, joined, value = given.partition("=") if given.startswith("--") else (given, "", "")
        option = None if name in registry.NO_VALUE else _by_name().get(name)
        if option is not None and option.kind is not None:
            if not joined:
                refuse_dashes(name, rest[0] if rest else None)
                rest.pop(0)
        elif joined and (option is not None or name in registry.NO_VALUE):
            raise UsageError(f"{name} takes no value.", details={"option": name.lstrip("-"), "value": value})
        found.unknown |= option is None and name not in registry.NO_VALUE
        found.help |= name in _HELP
        found.version |= name in _VERSION
    return found


def refuse_dashes(option: str, value: str | None) -> None:
    """Refuse a *value* of an option that is missing, or begins with a dash: more often it was forgotten."""
    details = {"option": option.lstrip("-")}
    if value is None:
        raise UsageError(f"{option} needs a value.", details=details)
    if value.startswith("-") and len(value) > 1:
        raise UsageError(
            f"{option} needs a value; join a value that begins with a dash: {option}={value}.",
            details={**details, "value": value},
        )
