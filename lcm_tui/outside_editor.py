"""Editing a text in the operator's own editor, which gets the terminal until it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lcm_core.errors import ConfigurationError
from lcm_core.text import safe_line
from textual.app import App


def editor_of(environ: Mapping[str, str]) -> list[str]:
    """The operator's editor and its arguments.

    Raises:
        ConfigurationError: none is set, or its quotes do not close.
    """
    said = environ.get("VISUAL") or environ.get("EDITOR") or ""
    try:
        command = shlex.split(said)
    except ValueError as error:
        raise ConfigurationError(
            f"The editor {safe_line(said)} cannot be understood ({error}): set EDITOR, or use e to edit here."
        ) from None
    if not command:
        raise ConfigurationError("No editor is set: set EDITOR (for instance to vi), or use e to edit here.")
    return command


async def edit_outside(app: App[int], name: str, text: str) -> str:
    """Give the terminal to the operator's editor until it ends, and return the text that it left.

    The file lies in a private folder and goes afterwards. The event loop goes on meanwhile, so that what is
    in flight is not held up, but nothing is drawn.

    Raises:
        ConfigurationError: no editor is set, it cannot be started or failed, or it left no file.
    """
    command = editor_of(os.environ)
    with tempfile.TemporaryDirectory(prefix="lcm-tui-") as folder:
        path = Path(folder) / f"{''.join(one for one in name if one.isalnum() or one in '_-')}.md"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        with app.suspend(), app.batch_update(), _without_interrupts():
            # Textual gives the terminal back at the end of the block, and not when something is raised in it.
            problem = await _run(command, path)
        if problem is not None:
            raise ConfigurationError(problem)
        try:
            edited = path.read_bytes().decode("utf-8", "surrogateescape")
        except OSError as error:
            raise ConfigurationError(
                f"The editor left no readable file ({error.strerror}); the draft is unchanged."
            ) from None
    # Editors end a file with a line break that the text did not have.
    return edited[:-1] if edited.endswith("\n") and not text.endswith("\n") else edited


async def _run(command: Sequence[str], path: Path) -> str | None:
    """Wait for an editor; what went wrong, as a sentence."""
    try:
        process = await asyncio.create_subprocess_exec(*command, str(path))
    except (OSError, ValueError) as error:  # ValueError: a NUL in the command
        why = error.strerror if isinstance(error, OSError) else str(error)
        return f"The editor {safe_line(command[0])} cannot be started ({why}): set EDITOR, or use e."
    code = await process.wait()
    return f"The editor ended with {code}; the draft is unchanged." if code else None


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """ctrl+c in the terminal is the editor's."""
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
