"""The one line about a draft: what it says where numbers speak against it."""

from __future__ import annotations

import pytest
from lcm_core.writers.retention import assess, measure, read_retention_source

SOURCE = (
    "[2026-03-02 09:14 UTC | user]\nYou must never deploy on a Friday. Never delete /srv/data/index.db.\n"
    "You must keep OPS-1423 open.\n"
    + "".join(f"The weather was rather pleasant on day number {n} of this long spring.\n" for n in range(60))
)
RULES = "Never deploy on a Friday. Never delete /srv/data/index.db. Keep OPS-1423 open: you must."
LONG = SOURCE.rsplit("\n", 6)[0]


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("draft", "present", "sentence"),
    [
        ("Nothing.", RULES, "Worse: loses 3 of 3 rules, keeps 0 % of the names (now 100 %)."),
        ("Nothing.", None, "Says little of its source: loses 3 of 3 rules, keeps 0 % of the names."),
        (
            "Nothing.",
            "Nothing at all.",  # rules kept: not known
            "Says little of its source: loses 3 of 3 rules, keeps 0 % of the names.",
        ),
        (
            "X Nothing.",
            "Nothing.",
            "Like the present text: keeps 0 of 3 rules, keeps 0 % of the names.",
        ),
        (
            "OPS-1423 and /srv/data/index.db.",
            "Nothing.",
            "Better than the present text: keeps 0 of 3 rules, keeps 100 % of the names (now 0 %).",
        ),
        ("Nothing.", "Never deploy on a Friday.", "Worse: loses 3 of 3 rules (now 2)."),
        (
            "Never deploy on a Friday. Keep OPS-1423 in mind.",
            "Never deploy on a Friday. Keep OPS-1423 in mind, and OPS-77.",
            "Keeps 1 of 3 rules, keeps 50 % of the names, 1 % of its source.",
        ),
        (LONG, RULES, "Hardly shorter: 92 % of its source, 45.1 times the present text."),
        (f"{RULES} See OPS-9999.", RULES, "Worse: invents 1 name or number."),
        (
            RULES,
            "Nothing.",
            "OK: keeps 3 of 3 rules (now 0), keeps 100 % of the names (now 0 %), 2 % of its source.",
        ),
        (
            f"{RULES} See OPS-9999.",
            None,
            "Keeps 3 of 3 rules, keeps 100 % of the names, invents 1 name or number, 2 % of its source.",
        ),
        (RULES, RULES, "OK: keeps 3 of 3 rules, keeps 100 % of the names, 2 % of its source."),
    ],
)
def test_a_draft_is_called_good_only_where_nothing_speaks_against_it(
    draft: str, present: str | None, sentence: str
):
    source = read_retention_source(SOURCE)
    old = None if present is None else measure(source, present)
    assessment = assess(measure(source, draft), old)
    assert assessment.sentence == sentence
    assert assessment.good == sentence.startswith(("OK", "Keeps"))


def test_a_draft_with_something_said_against_it_is_not_called_ok():
    source = read_retention_source(SOURCE)
    kept = measure(source, RULES)
    assessment = assess(kept, kept, cautions=True)
    assert assessment.sentence == "Keeps 3 of 3 rules, keeps 100 % of the names, 2 % of its source."
    assert assessment.good
