"""What pages say that commands print is what they print on the demonstration, one after the other."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from lcm_tui.cli.demo import unpack_demo
from lcm_tui.cli.reference import page
from tests.cli.support import Result, run

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
#: A line of a page that stands for any number of lines, and what stands for a part of a line, with the blanks
#: after it, which keep the next column in its place.
LEFT_OUT, CUT = "...", "…"
CUT_COLUMN = re.compile(f"{CUT} *")


def calls(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a page with the lines that are shown of what it prints."""
    for _, block in FENCE.findall(text):
        if block.startswith("$ "):
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
    wanted = ".*".join(re.escape(piece) for piece in CUT_COLUMN.split(shown[0]))
    return re.fullmatch(wanted, printed[0].rstrip()) is not None and is_shown(shown[1:], printed[1:])


def run_line(command: str, monkeypatch: pytest.MonkeyPatch) -> Result:
    """Run one line of a shell: assignments, the program, its arguments."""
    words = shlex.split(command)
    with monkeypatch.context() as patch:
        while "=" in words[0]:
            patch.setenv(*words.pop(0).split("=", 1))
        assert words.pop(0) == "lcm-tui"
        return run(*words)


PAGES = {
    str(page.relative_to(ROOT)): list(calls(page.read_text(encoding="utf-8")))
    for page in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("name", [name for name, found in PAGES.items() if found])
def test_a_page_shows_what_its_commands_print_on_the_demonstration(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unpack_demo(tmp_path / "try")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LCM_DATABASE_PATH", "try/.openclaw/lcm.db")
    for command, shown in PAGES[name]:
        done = run_line(command, monkeypatch)
        printed = done.out.rstrip("\n").split("\n")
        assert is_shown(shown, printed), f"{command} prints:\n{done.out}{done.err}"


def test_pages_have_sample_outputs() -> None:
    assert {"docs/tour.md", "docs/how-to.md"} <= {name for name, found in PAGES.items() if found}


def test_the_page_of_commands_is_current() -> None:
    assert (DOCS / "commands.md").read_text(encoding="utf-8") == page(), "python -m lcm_tui.cli.reference"
