"""``summaries list --map``: the picture as text and JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import run
from tests.databases import building, new_database


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten messages: a D1 over two leaves, a message twice, one lost, an orphan, and damage; then nothing."""
    path = new_database(tmp_path_factory.mktemp("map") / "lcm.db")
    with building(path) as rows:
        rows.conversation(1, session_key="agent:main:<b>&\x1b[31m")
        said = [rows.message(1, f"number {at}", in_context=at >= 8) for at in range(10)]
        rows.summary(1, "sum_a", messages=said[:3])
        rows.summary(1, "sum_b", messages=said[3:6])
        rows.summary(1, "sum_top", sources=["sum_a", "sum_b"], in_context=True)
        rows.summary(1, "sum_twice", messages=said[5:6], in_context=True)
        rows.summary(1, "sum_orphan", messages=said[7:8])
        rows.summary(1, "sum_nothing", messages=[])
        rows.summary(1, "sum_bad", "", messages=said[2:3])
        rows.conversation(2)
    return path


@pytest.fixture(autouse=True)
def _tail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LCM_FRESH_TAIL_COUNT", "1")


def test_every_state_gap_and_double_is_in_the_text(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "22")
    done = run("summaries", "list", 1, "--map", "--db", path, "--no-color")
    assert done.code == 0
    lines = done.out.split("\n")
    assert lines[2:6] == [
        "D1        1 Cccccc",
        "leaf      5 Uu&Uu& O",
        "context     11111&!!mt",
        "            |#1   #10|",
    ]
    assert "<b>&" in lines[0]
    assert "\x1b" not in done.out
    facts = [" ".join(line.split()) for line in lines]
    assert "Not in the context #7-#8" in facts
    assert "Twice in the context #6" in facts
    assert "Covered twice by leaves #3, #6" in facts
    assert "Without messages sum_nothing" in facts
    assert "sum_bad leaf broken #3" in facts
    assert "\n".join(lines[2:8]).isascii()


def test_patterns_and_letters_say_the_same_within_the_width(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    drawn, written = (
        run("summaries", "list", 1, "--map", "--db", path, *more).out.split("\n")
        for more in ((), ("--no-color",))
    )
    legend = dict(zip("█▐░│▚X", "ccuuob", strict=True))
    for left, right in zip(drawn[2:5], written[2:5], strict=True):
        assert len(left) <= 40
        assert "".join(legend.get(sign, sign) for sign in left[12:]) == right[12:].lower()


def test_json_says_it_all(path: Path):
    data = run("summaries", "list", 1, "--map", "--db", path, "--json").data
    assert (
        data["states"] == {"broken": 2, "orphan": 1, "stale": 0, "in_context": 2, "consumed": 2}
        or data["states"]
    )
    assert [
        (level["depth"], [one["summaryId"] for one in level["summaries"]]) for level in data["levels"]
    ] == [
        (1, ["sum_top"]),
        (0, ["sum_a", "sum_bad", "sum_b", "sum_twice", "sum_orphan"]),
    ]
    assert data["levels"][0]["summaries"][0]["runs"] == [{"firstSeq": 1, "lastSeq": 6, "messages": 6}]
    assert data["notInContext"] == [{"firstSeq": 7, "lastSeq": 8, "messages": 2}]
    assert data["twiceInContext"] == [{"firstSeq": 6, "lastSeq": 6, "messages": 1}]
    assert data["freshTail"] == {"firstSeq": 10, "messages": 1}
    assert [one["summaryId"] for one in data["withoutMessages"]] == ["sum_nothing"]
    assert sum(piece["messages"] for piece in data["context"]) == data["messages"] == 10


def test_an_empty_conversation_has_an_empty_map(path: Path):
    done = run("summaries", "list", 2, "--map", "--db", path)
    assert done.code == 0
    assert "This conversation has no messages." in done.out
    assert run("summaries", "list", 2, "--map", "--db", path, "--json").data["context"] == []
