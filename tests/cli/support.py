"""Runs the command line inside the test's process."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from typing import Any

from lcm_tui.cli.main import main


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
