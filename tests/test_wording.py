"""What the literals of the program may say to a person, and what they have to.

A short list of phrases has plainer ones, no screen names a document, and each error that a page explains is
said somewhere. Docstrings and comments are for people who read the code; what is looked at are the others.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

from tests.test_references import DOCUMENT, pages
from tests.test_sample_outputs import CUT

ROOT = Path(__file__).parents[1]
PROGRAM = ("lcm_tui", "core", "prompts")
#: Where literals are sentences, labels and help.
SHOWN = (
    *("lcm_tui/cli", "lcm_tui/screens", "lcm_tui/tables", "lcm_tui/kit", "lcm_tui/flows", "lcm_tui/mcp"),
    "core",
)
FORBIDDEN = re.compile(
    r"\b(?:stands? (?:in the|in a|on a|at|behind|beside|over)|gives? way|all the same|is no regular file"
    r"|put(?:ting)? into the database|(?:nobody|no model|somebody) is asked|passed over"
    r"|taken back|takes? it back|does not stand|mend(?:s|ed|ing)?|go(?:es)? on with|written anew|planned anew"
    r"|moved on|no more than that|stand for a row|is there already|which is not there|is none:|all the time"
    r"|leave (?:it|--\S+) out|goes? on(?: with| in|$)|hands? (?:on|over)|bring \S+ back|in step|begun at"
    r"|the time was (?:up|over)|at it|nothing was said)\b"
)


def literals(module: ast.Module) -> Iterator[tuple[int, str]]:
    """The strings of a module that are no docstrings, with their lines."""
    statements: set[int] = set()
    for node in ast.walk(module):  # a statement comes before what it is made of
        if isinstance(node, ast.Expr):
            statements.add(id(node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield node.lineno, " ".join(node.value.split())


@cache
def shown_by(folder: str) -> tuple[tuple[str, str], ...]:
    """The literals of all modules below *folder*, each behind its place."""
    return tuple(
        (f"{path.relative_to(ROOT)}:{line}", text)
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in literals(ast.parse(path.read_text(encoding="utf-8")))
    )


def test_nothing_that_is_shown_has_a_word_of_the_list() -> None:
    found = [
        f"{place}: {text}"
        for folder in PROGRAM
        for place, text in shown_by(folder)
        if place.startswith(SHOWN) and FORBIDDEN.search(text)
    ]
    assert found == []


def test_no_text_of_the_program_names_a_document() -> None:
    ours = {page.name for page in pages()}
    named = {
        f"{place}: {found}"
        for folder in PROGRAM
        for place, text in shown_by(folder)
        for found in DOCUMENT.findall(text)
        if found in ours or re.search(re.escape(found) + r"(?:,? section)? [0-9]", text)
    }
    assert named == set()


def test_each_error_of_the_page_is_said_somewhere() -> None:
    """What somebody pastes into a search of the page is a sentence of the program."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \|", page, re.MULTILINE)[1:]
    said = "\n".join(text for folder in PROGRAM for _, text in shown_by(folder))
    pieces = [piece.strip() for row in rows for piece in row.split(CUT)]
    missing = [piece for piece in pieces if len(piece) > 3 and piece not in said]
    assert (len(rows) > 15, missing) == (True, [])


def test_the_list_finds_them() -> None:
    module = ast.parse(
        '"""It stands in the way."""\nsay("It is mended.")\nsay(f"{it} stands in the context")'
    )
    assert [text for _, text in literals(module) if FORBIDDEN.search(text)] == [
        "It is mended.",
        "stands in the context",
    ]


#: Of these there are always several.
SEVERAL = {
    *("CLOSEST", "MOST_ROWS", "expected", "len(found)", "len(matching)", "len(seen.sessions)", "len(titles)"),
    *("count", "many", "new", "number", "tally.stored"),
}


def test_what_is_counted_may_be_one() -> None:
    """``1 messages`` is said nowhere: `counted` writes a number with its noun."""
    many = re.compile(r" (?:more |newest |other )?(?:messages|rows|calls|changes|sessions|entries|texts)\b")
    begins = re.compile(f"[}}\"']{many.pattern}")  # only modules with such a piece are parsed
    found = {
        ast.unparse(number.value)
        for folder in SHOWN
        for path in (ROOT / folder).rglob("*.py")
        if begins.search(text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.JoinedStr)
        for number, noun in pairwise(node.values)
        if isinstance(number, ast.FormattedValue) and isinstance(noun, ast.Constant)
        if number.format_spec is not None and many.match(str(noun.value))
    }
    assert found <= SEVERAL
