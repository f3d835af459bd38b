"""The page of every command (docs/commands.md), made from the declarations.

``python -m lcm_tui.cli.reference`` prints it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import click

from lcm_tui.cli import tree
from lcm_tui.cli.command import Command, common_options, parameters_of
from lcm_tui.cli.kinds import label
from lcm_tui.cli.main import open_app
from lcm_tui.cli.presentation import PROGRAM

_HEAD = """# Commands

Made from the declarations of the commands by `python -m lcm_tui.cli.reference`; a test keeps it current.
`lcm-tui help COMMAND` says the same in a terminal.
"""


def page() -> str:
    """The page of every command, as Markdown."""
    return "\n".join([_HEAD, *_common(), *(line for one in tree.every() for line in _section(one))])


def _common() -> Iterator[str]:
    yield "Options of every command; they may come before or after the command:\n"
    yield from _table(parameters_of(common_options))
    yield "Without a command the app opens, which also has:\n"
    yield from _table(open_app.own)


def _section(one: Command) -> Iterator[str]:
    yield f"## {one.path}\n"
    yield f"    {_usage(one)}\n"
    yield f"{one.help}\n"
    yield from (f"- `{label(each)}`: {each.help}" for each in one.arguments)
    if one.arguments:
        yield ""
    yield from _table(one.own)
    if one.examples:
        yield "\n".join(["```sh", *(f"{PROGRAM} {example}" for example in one.examples), "```", ""])


def _table(declared: Sequence[click.Parameter]) -> Iterator[str]:
    options = [one for one in declared if isinstance(one, click.Option) and not one.hidden]
    if not options:
        return
    yield "| option | meaning |"
    yield "|---|---|"
    for one in options:
        words = str(one.help)
        several = "; may be given several times" if one.multiple and "several times" not in words else ""
        named = f"{one.opts[0]} {one.metavar or ''}".strip()
        yield f"| `{_cell(named)}` | {_cell(words.removesuffix('.') + several)} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _usage(one: Command) -> str:
    named = []
    for each in one.arguments:
        dots = "..." if each.nargs == -1 else ""
        named.append(f"{label(each)}{dots}" if each.required else f"[{label(each)}]{dots}")
    return " ".join([PROGRAM, one.path, *named, "[OPTIONS]"])


if __name__ == "__main__":
    sys.stdout.write(page())
