"""Words that nothing may show to a person: a short list of phrases for which there are plainer ones.

Docstrings and comments are for people who read the code; what is looked at here are the other literals.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Where literals are sentences, labels and help.
SHOWN = (
    *("lcm_tui/cli", "lcm_tui/screens", "lcm_tui/views", "lcm_tui/panes", "lcm_tui/dialogs"),
    *("lcm_tui/actions", "lcm_tui/changes", "lcm_tui/mcp", "core/lcm_core"),
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
    statements = {id(one.value) for one in ast.walk(module) if isinstance(one, ast.Expr)}
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
            yield node.lineno, " ".join(node.value.split())


def test_nothing_that_is_shown_has_a_word_of_the_list() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for folder in SHOWN
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in literals(ast.parse(path.read_text(encoding="utf-8")))
        if FORBIDDEN.search(text)
    ]
    assert found == []


def test_the_list_finds_them() -> None:
    module = ast.parse(
        '"""It stands in the way."""\nsay("It is mended.")\nsay(f"{it} stands in the context")'
    )
    assert [text for _, text in literals(module) if FORBIDDEN.search(text)] == [
        "It is mended.",
        "stands in the context",
    ]
