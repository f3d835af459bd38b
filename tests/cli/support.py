"""Runs the command line inside the test's process."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lcm_tui.cli import options, tree
from lcm_tui.cli.kinds import label
from lcm_tui.cli.main import main

_WRITING = (options.ChangeFlags, options.ModelOptions)
#: Commands that neither change a database nor take a model, and do not read one either, or write a file.
_NOT_READING = (
    "remnic list",
    *("conversations export", "backup", "config", "prompts", "demo"),
)


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as JSON."""
        assert self.code == 0, self.err
        return json.loads(self.out)

    @property
    def data(self) -> Any:
        return self.document["data"]

    @property
    def error(self) -> Any:
        """Standard error as the JSON of an error."""
        assert self.out == ""
        document = json.loads(self.err)
        assert document["ok"] is False
        return document["error"]


def run(*arguments: object) -> Result:
    """Run ``lcm-tui`` with *arguments*; neither standard stream is a terminal."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
        out.flush()  # as the end of a process does
    return Result(
        code, *(stream.buffer.getvalue().decode("utf-8", "surrogateescape") for stream in (out, err))
    )


def readings(ids: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Every command that only reads a database, with the *ids* that it has for the first argument of each."""
    for one in tree.every():
        if one.path.startswith(_NOT_READING) or any(map(one.takes, _WRITING)):
            continue
        words, argument = one.path.split(), next(iter(one.arguments), None)
        needed = (argument is not None and argument.required) or (
            one.takes(options.EngineConversation) and one.path != "summaries"
        )
        if not needed and one.path != "grep":
            yield words
        if argument is not None:
            yield from ([*words, value] for value in ids[label(argument)])
