"""Where answers and errors leave the program: standard output and standard error, nothing else."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TextIO

from lcm_core.base.errors import LcmError
from lcm_core.base.setting_values import Json
from lcm_core.base.text import safe_line

from lcm_tui.cli.presentation import Presentation, error_document

if TYPE_CHECKING:
    from lcm_tui.cli.answer import Answer
    from lcm_tui.tables.blocks import OutputBlock as Block

#: Characters of an error that people read.
_LONGEST = 2_000


def print_answer(answer: Answer, presentation: Presentation) -> None:
    """Write an answer to standard output; what a database holds reaches no terminal unsafe."""
    if presentation.quiet:
        if answer.failed is not None:
            print_error(answer.failed, presentation)
        return
    terminal = sys.stdout.isatty()
    utf8 = True
    pieces: Iterable[str]
    if presentation.json:
        from lcm_tui.tables.machine import json_pieces

        written = json_pieces(answer.envelope, pretty=presentation.pretty, for_terminal=terminal)
        pieces = chain(written, "\n")
    elif answer.script is not None:
        print_aside(answer.blocks, presentation)
        pieces = (f"{statement}\n" for statement in answer.script)
    elif presentation.engine_table:
        from lcm_tui.tables.machine import table_lines

        pieces = table_lines(answer.envelope, for_terminal=terminal)
    elif presentation.form == "csv":
        _print_csv(answer, for_terminal=terminal)
        return
    else:
        text = (
            _readable(answer.blocks, presentation, terminal=terminal) if answer.text is None else answer.text
        )
        utf8 = bool(presentation.form)
        pieces = (text, "\n")
    write(sys.stdout, pieces, utf8=utf8)


def _print_csv(answer: Answer, *, for_terminal: bool) -> None:
    """Write a list, and on standard error where the next page begins."""
    from lcm_tui.tables.machine import csv_lines

    write(sys.stdout, csv_lines(answer.envelope, answer.names, for_terminal=for_terminal), utf8=True)
    if answer.pagination and (cursor := answer.pagination["nextCursor"]):
        write(sys.stderr, f"More follow: --cursor {cursor}\n", utf8=False)


def print_aside(blocks: Sequence[Block], presentation: Presentation) -> None:
    """Show people something on standard error, so that standard output holds the answer alone."""
    text = _readable(blocks, presentation, terminal=sys.stderr.isatty())
    write(sys.stderr, text + "\n\n", utf8=False)


def _readable(blocks: Sequence[Block], presentation: Presentation, *, terminal: bool) -> str:
    """The blocks for people. Help and version are printed as they are, without what draws tables."""
    from lcm_tui.tables.blocks import Verbatim

    if all(isinstance(block, Verbatim) for block in blocks):
        return "\n\n".join(block.text for block in blocks if isinstance(block, Verbatim))
    from lcm_tui.cli.readable import Page

    width = shutil.get_terminal_size().columns if terminal else None
    return Page(width, color=presentation.color and _wants_color(terminal=terminal)).render(blocks)


def print_error(error: LcmError, presentation: Presentation) -> None:
    """Write an error to standard error: one sentence, or in the engine's forms its envelope."""
    if not presentation.for_programs:
        write(sys.stderr, _bounded(safe_line(error.message)) + "\n", utf8=False)
        return
    from lcm_tui.tables.machine import json_text

    document: Json = {"ok": False, "error": error_document(error)}
    text = json_text(document, pretty=presentation.pretty, for_terminal=sys.stderr.isatty())
    write(sys.stderr, text + "\n", utf8=True)


def _bounded(words: str) -> str:
    """A sentence without the middle of a name that fills screens; what to do now is at its end."""
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST // 2]} … {words[-_LONGEST // 2 :]}"


def write(stream: TextIO, text: str | Iterable[str], *, utf8: bool) -> None:
    """Write *text* whole, or piece by piece. Bytes that were no UTF-8 in the database leave as they were."""
    encoding = "utf-8" if utf8 else stream.encoding or "utf-8"
    binary = getattr(stream, "buffer", None)
    try:
        stream.flush()
        for piece in (text,) if isinstance(text, str) else text:
            if binary is None:
                stream.write(piece)
            else:
                binary.write(_encoded(piece, encoding))
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritten(stream, error) from error


def unwritten(stream: TextIO, error: OSError) -> LcmError:
    """What is said when *stream* takes nothing more; it is silenced."""
    silence(stream)
    return LcmError(
        f"The output could not be written ({error.strerror or error}). The command has finished; write its "
        "output elsewhere.",
        code="OUTPUT_FAILED",
    )


def open_missing_streams() -> None:
    """Where the shell closed a stream (``>&-``), what is written goes nowhere, and nothing can be read."""
    # typeshed promises all three; Python leaves None for a descriptor that was closed at its start.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (for as long as it runs)


def forget_odd_sizes(most: int) -> None:
    """A size of the terminal in the environment counts if it is 1 to *most*, else the terminal's own does."""
    for name in ("COLUMNS", "LINES"):
        given = os.environ.get(name, "1")
        if not (re.fullmatch("0*[1-9][0-9]{0,8}", given) and int(given) <= most):
            del os.environ[name]


def silence(stream: TextIO) -> None:
    """Send what may still be written to *stream* nowhere: its reader has gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    except (OSError, ValueError):  # a stream without a descriptor, in a test
        pass
    finally:
        os.close(nowhere)


def _encoded(text: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding, "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode(encoding, "replace")


def _wants_color(*, terminal: bool) -> bool:
    """As the environment says (no-color.org, force-color.org, bixense.com/clicolors), else on a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name, "") not in ("", "0") for name in ("FORCE_COLOR", "CLICOLOR_FORCE")):
        return True
    return terminal and os.environ.get("TERM", "dumb") != "dumb" and os.environ.get("CLICOLOR") != "0"
