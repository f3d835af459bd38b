"""The page of every command (docs/commands.md), made from the declarations.

``python -m lcm_tui.cli.reference`` prints it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from lcm_tui.cli import registry
from lcm_tui.cli.declaring import Argument, Command, CommonOptions, Declared, Option, declared_in
from lcm_tui.cli.main import WITHOUT_A_COMMAND
from lcm_tui.cli.presentation import PROGRAM

_HEAD = """# Commands

Made from the declarations of the commands by `python -m lcm_tui.cli.reference`; a test keeps it current.
`lcm-tui help COMMAND` says the same in a terminal.
"""


def page() -> str:
    """The page of every command, as Markdown."""
    return "\n".join([_HEAD, *_common(), *(line for one in registry.every() for line in _section(one))])


def _common() -> Iterator[str]:
    yield "Options of every command; they may come before or after the command:\n"
    yield from _table(_shown(declared_in(CommonOptions)))
    yield "Without a command the app opens, which also has:\n"
    yield from _table(_shown(WITHOUT_A_COMMAND.parameters))


def _section(one: Command) -> Iterator[str]:
    yield f"## {one.path}\n"
    yield f"    {_usage(one)}\n"
    yield f"{one.help}\n"
    yield from (f"- `{shape.name}`: {shape.help}" for shape in _arguments(one))
    if _arguments(one):
        yield ""
    yield from _table(_shown(one.parameters))
    if one.examples:
        yield "\n".join(["```sh", *(f"{PROGRAM} {example}" for example in one.examples), "```", ""])


def _table(options: list[Option]) -> Iterator[str]:
    if not options:
        return
    yield "| option | meaning |"
    yield "|---|---|"
    for one in options:
        several = "; may be given several times" if one.several and "several times" not in one.help else ""
        yield f"| `{_cell(_named(one))}` | {_cell(one.help.removesuffix('.') + several)} |"
    yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _usage(one: Command) -> str:
    named = (
        f"{each.shape.name}{'...' if each.shape.several else ''}"
        if each.needed
        else f"[{each.shape.name}]{'...' if each.shape.several else ''}"
        for each in one.parameters
        if isinstance(each.shape, Argument)
    )
    return " ".join([PROGRAM, one.path, *named, "[OPTIONS]"])


def _arguments(one: Command) -> list[Argument]:
    return [each.shape for each in one.parameters if isinstance(each.shape, Argument)]


def _shown(declared: Sequence[Declared]) -> list[Option]:
    shapes = (each.shape for each in declared)
    return [shape for shape in shapes if isinstance(shape, Option) and not shape.hidden]


def _named(one: Option) -> str:
    return f"{one.flag} {one.metavar}".strip()


if __name__ == "__main__":
    sys.stdout.write(page())
