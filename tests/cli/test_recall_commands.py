"""``grep``, ``show`` and ``expand`` from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from lcm_core.base.files import cache_folder

from tests.cli.support import run
from tests.databases import building, new_database


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    path = new_database(tmp_path / "lcm.db")
    with building(path) as rows:
        owner = rows.conversation(session_key="agent:main:main")
        said = rows.message(owner, "The needle is \x1b[31mred\x1b[0m.\nNext line.")
        rows.part(said, "tool", None, tool_name="exec", tool_input="find needle")
        rows.summary(owner, "sum_a", "A summary of the needle.", messages=[said], in_context=True)
        for number in range(5):
            rows.message(owner, f"needle number {number}")
    return path


def test_hits_are_shown_with_their_scope_and_no_escape_sequence(memory: Path) -> None:
    shown = run("grep", "needle", "--db", memory)
    assert shown.code == 0
    assert "\x1b" not in shown.out
    assert "Under sum_a" in shown.out
    assert "all conversations" in shown.out
    assert "full" in shown.out
    data = run("grep", "needle", "--json", "--db", memory).data
    assert data["total"] == 7
    assert data["coverage"]["full"] is True
    assert data["coverage"]["searched"] == {"message": 6, "summary": 1, "brief": 0, "file": 0}
    assert {hit["coveredBy"] for hit in data["hits"]} == {"sum_a", None}


def test_pages_follow_each_other(memory: Path) -> None:
    seen: list[str] = []
    cursor: list[str] = []
    for _ in range(4):
        data = run("grep", "needle", "--limit", "2", *cursor, "--json", "--db", memory).data
        seen += [hit["id"] for hit in data["hits"]]
        if data["nextCursor"] is None:
            break
        cursor = ["--cursor", data["nextCursor"]]
    assert len(seen) == len(set(seen)) == 7


def test_nothing_found_is_no_failure_unless_it_is_asked_for(memory: Path) -> None:
    assert run("grep", "nowhere", "--db", memory).code == 0
    result = run("grep", "nedle", "--fail-empty", "--db", memory)
    assert result.code == 3
    assert "needle" in result.out


def test_a_scope_without_conversations_finds_nothing_and_is_named(memory: Path) -> None:
    for scope in (("--agent", "other"), ("--session-key", "agent:x"), ("--conversation-id", "99")):
        data = run("grep", "needle", *scope, "--json", "--db", memory).data
        assert data["total"] == 0
        assert scope[1] in data["scope"]
    assert run("grep", "needle", "--agent", "main", "--json", "--db", memory).data["total"] == 7


@pytest.mark.parametrize(
    "options",
    [
        ("--kind", "x"),
        ("--limit", "0"),
        ("--limit", "501"),
        ("--cursor", "x"),
        ("--cursor", "-1"),
        ("--regex", "--substring"),
        ("--role", "x"),
        ("--depth", "x"),
        ("--since", "x"),
    ],
)
def test_wrong_options_are_refused(options: tuple[str, ...], memory: Path) -> None:
    assert run("grep", "needle", *options, "--db", memory).code == 2


@pytest.mark.long
def test_reading_down_gives_the_messages_with_their_tool_calls(memory: Path) -> None:
    data = run("expand", "sum_a", "--json", "--db", memory).data
    assert [one["text"] for one in data["passages"]] == [
        "A summary of the needle.",
        "The needle is \x1b[31mred\x1b[0m.\nNext line.\n[tool name] exec\n[tool input] find needle",
    ]
    assert run("expand", "sum_", "--json", "--db", memory).data == {**data, "id": "sum_a"}
    assert run("show", "sum_", "--json", "--db", memory).data["summary"]["summaryId"] == "sum_a"
    assert run("expand", "sum_", "--level", "all", "--json", "--db", memory).data["id"] == "sum_a"
    assert "### sum_ (leaf, 0 tokens)" in run("expand", "sum_", "--as-engine", "--db", memory).out
    citation = data["passages"][1]["citation"]
    assert run("show", citation, "--json", "--db", memory).data["verdict"] == "holds"
    for name in ("m1", "msg#1"):
        assert (
            run("expand", name, "--json", "--db", memory).data["passages"][0]["citation"].startswith("msg#1@")
        )
        assert "needle" in run("show", name, "--db", memory).out
    assert run("show", citation[:-1] + "x", "--db", memory).code == 2
    assert "\x1b" not in run("expand", "sum_a", "--db", memory).out
    assert run("expand", "sum_none", "--db", memory).code == 3
    assert run("expand", "sum_a", "--cursor", "x", "--db", memory).code == 2


def test_as_the_engine_is_the_engines_own_text(memory: Path) -> None:
    assert run("grep", "needle", "--as-engine", "--db", memory).out.startswith("## LCM Grep Results")
    text = run("expand", "sum_a", "--as-engine", "--db", memory).out
    assert "### sum_a (leaf, " in text
    assert "Messages: msg#1 (user, " in text
    assert "needle" not in text


@pytest.mark.cases(9)
@pytest.mark.parametrize(
    "options",
    [
        ("--role", "user"),
        ("--tool", "exec"),
        ("--agent", "main"),
        ("--depth", "0"),
        ("--kind", "leaf"),
        ("--kind", "message", "--kind", "file"),
        ("--context", "in"),
        ("--broken",),
        ("--cursor", "2"),
        ("--substring",),
    ],
)
def test_what_the_engines_tool_cannot_do_is_not_left_out_in_silence(
    options: tuple[str, ...], memory: Path
) -> None:
    refused = run("grep", "needle", "--as-engine", *options, "--db", memory)
    assert refused.code == 2
    assert "cannot be combined with --as-engine" in refused.err


def test_a_script_sees_that_the_engines_tool_found_nothing(memory: Path) -> None:
    asked = ("--as-engine", "--regex", "--fail-empty", "--db", memory)
    assert run("grep", "needle", *asked).code == 0
    assert run("grep", "nowhere", *asked).code == 3
    assert run("expand", "sum_a", "--as-engine", "--cursor", "1.0", "--db", memory).code == 2


def test_a_scope_without_a_text_is_said(memory: Path) -> None:
    shown = run("grep", "needle", "--conversation-id", "99", "--db", memory)
    assert "Nothing was searched" in shown.out
    assert "(0 conversations)" in shown.out


def test_hits_outside_the_time_asked_are_counted(memory: Path) -> None:
    asked = run("grep", "needle", "--since", "2199-01-01", "--db", memory)
    total = run("grep", "needle", "--db", memory, "--json").data["total"]
    assert f"Nothing was found in the time asked; {total} before it." in asked.out
    data = run("grep", "needle", "--until", "1999-01-01", "--db", memory, "--json").data
    assert data["outsideTime"] == {"before": 0, "after": total, "atLeast": False}
    assert "outsideTime" not in run("grep", "nowhere", "--db", memory, "--json").data


def test_the_context_narrows_a_search(memory: Path) -> None:
    with building(memory) as rows:
        left = rows.message(1, "a needle that was compacted", in_context=False)
    inside = run("grep", "needle", "--context", "in", "--json", "--db", memory).data
    outside = run("grep", "needle", "--context", "out", "--json", "--db", memory).data
    assert inside["total"] == 7
    assert all(hit["inContext"] for hit in inside["hits"])
    assert [hit["id"] for hit in outside["hits"]] == [f"msg#{left}"]


def test_a_search_by_index_is_the_same_and_is_forgotten(memory: Path) -> None:
    plain = run("grep", "needle", "--index", "off", "--json", "--db", memory).data
    indexed = run("grep", "needle", "--index", "update", "--json", "--db", memory).data
    assert indexed["hits"] == plain["hits"]
    assert indexed["coverage"]["full"] is True
    assert run("grep", "--index", "forget", "--json", "--db", memory).data == {"removed": 2}
    assert run("grep", "--index", "update", "--json", "--db", memory).data == {"indexed": True}
    assert run("grep", "--index", "forget", "--json", "--db", memory).data == {"removed": 1}


def test_without_the_cache_a_search_keeps_nothing_and_forgetting_leaves_no_byte(memory: Path) -> None:
    assert run("grep", "needle", "--index", "off", "--db", memory).code == 0
    assert not list(cache_folder().rglob("*"))
    assert run("grep", "needle", "--index", "update", "--db", memory).code == 0
    kept = [one.read_bytes() for one in cache_folder().rglob("*") if one.is_file()]
    assert sum(b"needle" in one for one in kept) == 2, "in the index and in the recent searches"
    assert run("grep", "--index", "forget", "--db", memory).code == 0
    assert not [one for one in cache_folder().rglob("*") if one.is_file() and b"needle" in one.read_bytes()]


def test_the_levels_below_a_summary_and_the_texts_of_one(memory: Path) -> None:
    with building(memory) as rows:
        rows.summary(1, "sum_top", "above the \x1b[31mneedle", depth=1, sources=["sum_a", "sum_gone"])
    levels = run("expand", "sum_top", "--level", "all", "--json", "--db", memory).data["levels"]
    assert [one["summaries"] for one in levels] == [["sum_top"], ["sum_a"], []]
    assert [one["messages"] for one in levels] == [[], [], [1]]
    assert [one["missing"] for one in levels] == [0, 1, 0]
    assert levels[2]["tokensToHere"] == sum(one["tokens"] for one in levels)
    told = run("expand", "sum_top", "--level", "all", "--db", memory).out
    assert "1 D1 summary" in told
    assert "1 leaf summary, 1 missing" in told
    texts = run("expand", "sum_top", "--level", "2", "--json", "--db", memory).data["passages"]
    assert [one["text"].splitlines()[-1] for one in texts] == ["[tool input] find needle"]
    assert run("show", texts[0]["citation"], "--json", "--db", memory).data["verdict"] == "holds"
    wrong = (("--level", "3"), 3), (("--level", "-1"), 2)
    for options, code in (
        *wrong,
        *((("--level", "all", one), 2) for one in ("--as-engine", "--no-messages")),
    ):
        assert run("expand", "sum_top", *options, "--db", memory).code == code, options
    assert run("expand", "msg#1", "--level", "all", "--db", memory).code == 3
