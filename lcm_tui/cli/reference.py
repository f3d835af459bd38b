"""The page of every command (docs/commands.md) and the man page, made from the declarations.

``python -m lcm_tui.cli.reference`` prints the first, with ``man`` the second.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import click
from lcm_core import __version__

from lcm_tui.cli import tree
from lcm_tui.cli.command import Command, common_options, parameters_of
from lcm_tui.cli.kinds import label
from lcm_tui.cli.main import open_app
from lcm_tui.cli.presentation import PROGRAM

_HEAD = """# Commands

Made from the declarations of the commands by `python -m lcm_tui.cli.reference`; a test keeps it current.
`lcm-tui COMMAND --help` says the same in a terminal.
"""


def page() -> str:
    """The page of every command, as Markdown."""
    return "\n".join([_HEAD, *_common(), *(line for one in tree.every() for line in _section(one))])


def man_page() -> str:
    """What the program is, its commands and the options of all, as roff; more is in the help of each."""
    lines = [
        f'.TH {PROGRAM.upper()} 1 "" "{PROGRAM} {__version__}"',
        *(".SH NAME", _roff(f"{PROGRAM} - inspect and repair an LCM agent's memory")),
        *(".SH SYNOPSIS", f".B {_roff(PROGRAM)}", "[OPTIONS] [COMMAND [ARGUMENTS]]"),
        *(".SH DESCRIPTION", _roff(str(open_app.help))),
        *(".SH COMMANDS", _roff(f"{PROGRAM} COMMAND --help explains one.")),
    ]
    for title, words in tree.SECTIONS.items():
        lines.append(f".SS {title}")
        for word, line in words.items():
            second = f" {' | '.join(tree.last_words(word))}" if tree.is_group(word) else ""
            lines += [".TP", f".B {_roff(word + second)}", _roff(line)]
    for title, declared in (("OPTIONS", parameters_of(common_options)), ("OPTIONS OF THE APP", open_app.own)):
        lines.append(f".SH {title}")
        for one in _options(declared):
            lines += [".TP", f".B {_roff(_named(one))}", _roff(str(one.help))]
    lines += [".SH EXIT STATUS", _roff(tree.EXIT_CODES)]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    return "\n.PP\n".join(
        " ".join(paragraph.split()).replace("\\", "\\e").replace("-", "\\-")
        for paragraph in text.split("\n\n")
    )


def _common() -> Iterator[str]:
    yield "Options of every command; they may come before or after the command:\n"
    yield from _table(parameters_of(common_options))
    yield "Without a command the app opens, which also has:\n"
    yield from _table(open_app.own)


def _section(one: Command) -> Iterator[str]:
    yield f"## {one.path}\n"
    yield f"    {one.usage(click.Context(one))} [OPTIONS]\n"
    yield f"{one.help}\n"
    if one.examples:
        yield "\n".join(["```sh", *(f"{PROGRAM} {example}" for example in one.examples), "```", ""])
    yield from (f"- `{label(each)}`: {each.help}" for each in one.arguments)
    if one.arguments:
        yield ""
    yield from _table(one.own)


def _table(declared: Sequence[click.Parameter]) -> Iterator[str]:
    options = _options(declared)
    if not options:
        return
    yield "| option | meaning |"
    yield "|---|---|"
    for one in options:
        words = str(one.help)
        several = "; may be given several times" if one.multiple and "several times" not in words else ""
        yield f"| `{_cell(_named(one))}` | {_cell(words.removesuffix('.') + several)} |"
    yield ""


def _options(declared: Sequence[click.Parameter]) -> list[click.Option]:
    return [one for one in declared if isinstance(one, click.Option) and not one.hidden]


def _named(one: click.Option) -> str:
    return f"{', '.join(one.opts)} {one.metavar or ''}".strip()


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(man_page() if sys.argv[1:] == ["man"] else page())
