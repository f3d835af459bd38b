"""What the tutorial prints is what the commands print, one after the other on the demonstration database."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from lcm_tui.cli.reference import man_page, page
from lcm_tui.demo import unpack_demo
from tests.cli.support import run

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: A line of the page that stands for any number of lines, and the end of one that is cut.
LEFT_OUT, CUT = "...", "…"


def calls(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of the page with the lines that are shown of what it prints."""
    for block in BLOCK.findall(text):
        for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = piece.partition("\n")
            yield command, shown.rstrip("\n").split("\n")


def is_shown(shown: list[str], printed: list[str]) -> bool:
    """Whether lines of the page are what was printed, apart from what they leave out."""
    if not shown:
        return not printed
    if shown[0] == LEFT_OUT:
        return any(is_shown(shown[1:], printed[at:]) for at in range(len(printed) + 1))
    if not printed:
        return False
    line = shown[0]
    same = printed[0].startswith(line[: -len(CUT)]) if line.endswith(CUT) else printed[0].rstrip() == line
    return same and is_shown(shown[1:], printed[1:])


def test_the_tutorial_shows_what_commands_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpack_demo(tmp_path / "try")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LCM_DATABASE_PATH", "try/.openclaw/lcm.db")
    monkeypatch.setenv("TZ", "UTC")
    listed = list(calls((DOCS / "tutorial.md").read_text(encoding="utf-8")))
    assert len(listed) > 5
    for command, shown in listed:
        program, *arguments = shlex.split(command)
        assert program == "lcm-tui"
        done = run(*arguments)
        assert is_shown(shown, done.out.rstrip("\n").split("\n")), f"{command} prints:\n{done.out}{done.err}"


def test_the_page_of_commands_is_current() -> None:
    assert (DOCS / "commands.md").read_text(encoding="utf-8") == page(), "python -m lcm_tui.cli.reference"


def test_a_man_page_has_every_command_and_no_line_that_roff_would_obey() -> None:
    made = man_page()
    assert made.count("\n.SS ") > 40
    requests = {line.split()[0] for line in made.splitlines() if line.startswith((".", "'"))}
    assert requests <= {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".I"}
