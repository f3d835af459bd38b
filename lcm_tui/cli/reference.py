"""The page of every command (docs/commands.md) and the man page, both made from the declarations.

``python -m lcm_tui.cli.reference`` prints the page, ``python -m lcm_tui.cli.reference man`` the man page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import version

from lcm_tui.cli import registry
from lcm_tui.cli.common import CommonOptions
from lcm_tui.cli.declaring import Argument, Command, Declared, Option, declared_in
from lcm_tui.cli.launch import WITHOUT_A_COMMAND
from lcm_tui.cli.presentation import PROGRAM

#: docs/decisions.md, "Exit codes".
EXIT_CODES = (
    (0, "done"),
    (1, "an error of the program itself"),
    (2, "the command line is wrong"),
    (3, "not found, including a file or database"),
    (4, "configuration or credentials"),
    (5, "the database cannot be opened or written"),
    (6, "the doctor, or --fail-on, found something"),
    (7, "the database kept changing"),
    (8, "another process keeps a lock"),
    (9, "refused, or confirmation was not possible"),
    (10, "cancelled, or a batch was completed in part"),
)
_HEAD = """# Commands

Made from the declarations of the commands by `python -m lcm_tui.cli.reference`; a test keeps it current.
`lcm-tui help COMMAND` says the same in a terminal.
"""


def page() -> str:
    """The page of every command, as Markdown."""
    return "\n".join([_HEAD, *_common(), *(line for one in registry.every() for line in _section(one))])


def man_page() -> str:
    """The same as a man page (roff, section 1)."""
    lines = [
        f'.TH LCM\\-TUI 1 "" "{PROGRAM} {version(PROGRAM)}"',
        *(".SH NAME", f"{_roff(PROGRAM)} \\- inspect and repair an LCM agent's memory"),
        *(".SH SYNOPSIS", f".B {_roff(PROGRAM)}", "[OPTIONS] [COMMAND [ARGUMENTS]]"),
        *(".SH DESCRIPTION", "Without a command the app opens on the database."),
        *(".SH COMMON OPTIONS", *_roff_options(_shown(declared_in(CommonOptions)))),
        *(".SH OPTIONS OF THE APP", *_roff_options(_shown(WITHOUT_A_COMMAND.parameters))),
        ".SH COMMANDS",
    ]
    for one in registry.every():
        lines += [f".SS {_roff(_usage(one))}", *_roff_text(one.help)]
        lines += _roff_arguments(one)
        lines += _roff_options(_shown(one.parameters))
    lines.append(".SH EXIT STATUS")
    lines += [line for code, words in EXIT_CODES for line in (".TP", f".B {code}", _roff(words))]
    return "\n".join(lines) + "\n"


# -- Markdown --------------------------------------------------------------------------------------------


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


# -- roff ------------------------------------------------------------------------------------------------


def _roff_arguments(one: Command) -> Iterator[str]:
    for shape in _arguments(one):
        yield from (".TP", f".I {_roff(shape.name)}", _roff(shape.help))


def _roff_options(options: list[Option]) -> Iterator[str]:
    for one in options:
        yield from (".TP", f".B {_roff(_named(one))}", _roff(one.help))


def _roff_text(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text)):
        if number:
            yield ".PP"
        yield _roff(" ".join(paragraph.split()))


def _roff(text: str) -> str:
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{safe}" if safe[:1] in (".", "'") else safe


# -- both ------------------------------------------------------------------------------------------------


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
    sys.stdout.write(man_page() if sys.argv[1:] == ["man"] else page())
