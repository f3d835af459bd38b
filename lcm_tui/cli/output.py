"""Where answers and errors leave the program: standard output and standard error, nothing else."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO

from lcm_core.errors import LcmError
from lcm_core.settings import Json
from lcm_core.text import safe_line

from lcm_tui.cli.answer import Answer
from lcm_tui.cli.machine import json_text, table_text
from lcm_tui.cli.options import Presentation
from lcm_tui.cli.readable import Page


def print_answer(answer: Answer, presentation: Presentation) -> None:
    """Write an answer to standard output; what a database holds reaches no terminal unsafe."""
    terminal = sys.stdout.isatty()
    if presentation.json:
        text = json_text(answer.envelope, pretty=presentation.pretty, for_terminal=terminal)
    elif presentation.engine_table:
        text = table_text(answer.envelope, for_terminal=terminal)
    else:
        width = shutil.get_terminal_size().columns if terminal else None
        text = Page(width, color=terminal and presentation.color and _wants_color()).render(answer.blocks)
    write(sys.stdout, text + "\n", utf8=presentation.json or presentation.engine_table)


def print_error(error: LcmError, presentation: Presentation) -> None:
    """Write an error to standard error: one sentence, or the engine's envelope."""
    if not presentation.json:
        write(sys.stderr, safe_line(error.message) + "\n", utf8=False)
        return
    details: dict[str, Json] = {"details": dict(error.details)} if error.details else {}
    document: Json = {"ok": False, "error": {"code": error.code, "message": error.message, **details}}
    text = json_text(document, pretty=presentation.pretty, for_terminal=sys.stderr.isatty())
    write(sys.stderr, text + "\n", utf8=True)


def write(stream: TextIO, text: str, *, utf8: bool) -> None:
    """Write *text* whole. Bytes that were no UTF-8 in the database leave as they were."""
    encoding = "utf-8" if utf8 else stream.encoding or "utf-8"
    binary = getattr(stream, "buffer", None)
    if binary is None:
        stream.write(text)
    else:
        stream.flush()
        binary.write(_encoded(text, encoding))
    stream.flush()


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


def _wants_color() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
