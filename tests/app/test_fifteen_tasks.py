"""What operators do with a database, each in the real program in a terminal of 80x24, its keys counted.

Words that are typed count as one key; the backup that is offered before the first change of a day is made by
the key that applies the change.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.app.in_terminal import Operator
from tests.conftest import DatabaseFactory
from tests.databases import column, query, run, value
from tests.operations.compacting import start_database

#: The first summary of the context of conversation 1 in the recorded database.
TOP = "sum_4c4bd5292abfa225"
ITEMS = "SELECT ordinal, message_id, summary_id FROM context_items WHERE conversation_id = 1 ORDER BY ordinal"
TEXT = "SELECT content FROM summaries WHERE summary_id = ?"


@pytest.fixture
def path(database_copy: DatabaseFactory) -> Path:
    return database_copy("0.15.3")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Of an operator who never used the program."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.mark.long
def test_1_what_is_wrong_with_the_database(path: Path, home: Path) -> None:
    with Operator(path, home) as operator:
        operator.sees("✗ 16 broken summaries in 6 conversations")
        operator.press("H", "Health of the database", "broken, errors", "C1 truncated")
        assert operator.keys == 1


@pytest.mark.long
def test_2_what_the_model_sees(path: Path, home: Path) -> None:
    with Operator(path, home) as operator:
        operator.sees("Conversations  8")
        operator.press("c", "Context 1", "sum_4c4bd", "3,304", "fresh tail")
        operator.press("m", "stands for", "tool       m850")
        assert operator.keys == 2


@pytest.mark.long
def test_3_where_a_sentence_was_said(path: Path, home: Path) -> None:
    with Operator(path, home) as operator:
        operator.sees("Conversations  8")
        operator.press("F", "Search")
        operator.types("Oluwaseun normalizePath Ingrid", "m14 #14")
        operator.press("enter", "Conversation 1", "#14", "(constraint from Oluwaseun)")
        assert operator.keys == 3


@pytest.mark.long
def test_4_what_a_tool_said_that_is_in_the_context(path: Path, home: Path) -> None:
    with Operator(path, home) as operator:
        operator.sees("Conversations  8")
        operator.press("F", "Search")
        operator.types("error", "311 hits")
        operator.press("tab")
        operator.press("1", "149 of 311 hits")
        operator.press("5", "21 of 311 hits", "in the context")
        assert operator.keys == 5


@pytest.mark.long
def test_5_a_summary_edited_by_hand(path: Path, home: Path) -> None:
    before = value(path, TEXT, TOP)
    with Operator(path, home) as operator:
        operator.sees("Conversations  8")
        operator.press("s", "Summary DAG of 1", TOP)
        operator.press("e", f"Edit {TOP}")
        operator.types("In March: ", "In March: Condensed memory")
        keys = operator.keys - 1  # what is written is no way to write it
        operator.press("ctrl+s", f"Review {TOP}", "+▌In March: Condensed memory")
        operator.press("a", "preview: not applied yet", "(b) back up first: yes, ")
        operator.press("a", "Applied: Rewrite", "To undo it: u.")
        assert keys + 3 <= 6
    assert value(path, TEXT, TOP) == f"In March: {before}"
    assert list(path.parent.glob("*.backup"))


@pytest.mark.long
def test_6_where_a_line_of_a_summary_comes_from(path: Path, home: Path) -> None:
    with Operator(path, home) as operator:
        operator.sees("Conversations  8")
        operator.press("s", "Summary DAG of 1", TOP)
        keys = operator.keys
        operator.press("L", f"Lines of {TOP}", "100 %  m14 #14", "asked us to refactor the schema migration")
        operator.press("enter", "14 assistant 2026-03-02 08:51", "Ingrid asked us to refactor the schema")
        assert operator.keys - keys <= 2


@pytest.mark.long
def test_7_what_is_broken_repaired_without_a_model(path: Path, home: Path) -> None:
    before = query(path, "SELECT summary_id, content FROM summaries ORDER BY summary_id")
    with Operator(path, home) as operator:
        operator.sees("✗ 16 broken summaries in 6 conversations")
        operator.press("R", "Repair summaries", "only conversation 1")
        operator.press("enter", "4 broken summaries", "P asks before starting")
        operator.press("P", "Draft 4 summaries?", "No network call, no cost")
        operator.press("enter", "to review")
        operator.press("A", "Accept drafts on these conditions?")
        operator.press("a", "Auto-accept when", "applied", "Backup made")
        assert operator.keys <= 7
    after = query(path, "SELECT summary_id, content FROM summaries ORDER BY summary_id")
    changed = {one for (one, old), (_, new) in zip(before, after, strict=True) if old != new}
    assert "sum_6c18661f50d6fc7f" in changed


@pytest.mark.long
def test_8_a_change_undone_and_made_again(path: Path, home: Path) -> None:
    before = query(path, ITEMS)
    with Operator(path, home) as operator:
        operator.sees("Conversations  8")
        operator.press("s", "Summary DAG of 1", TOP)
        operator.press("d", "Dissolve summary")
        operator.press("a", "Applied: Dissolve", "To undo it: u")
        changed = query(path, ITEMS)
        assert changed != before
        operator.press("escape", "Conversations  8")
        keys = operator.keys
        operator.press("u", "preview: not applied yet")
        operator.press("a", "Undone")
        assert operator.keys - keys <= 2
        assert query(path, ITEMS) == before
        keys = operator.keys
        operator.press("U", "History", "Dissolve")
        operator.press("u", "preview: not applied yet")
        operator.press("a", "Redone")
        assert operator.keys - keys <= 3
    assert query(path, ITEMS) == changed


@pytest.mark.long
def test_9_a_summary_dissolved(path: Path, home: Path) -> None:
    with Operator(path, home) as operator:
        operator.sees("Conversations  8")
        operator.press("s", "Summary DAG of 1", TOP)
        operator.press("d", "Ordinals 1–21 move by +1", "3,304 → 3,793")
        operator.press("a", "Applied: Dissolve")
        assert operator.keys <= 4
    assert TOP not in column(path, "SELECT summary_id FROM context_items")
    assert value(path, "SELECT count(*) FROM context_items WHERE conversation_id = 1") == 23


@pytest.mark.long
def test_10_one_pass_compacted_and_the_context_beside_that_before_it(home: Path, tmp_path: Path) -> None:
    path = start_database("0.15.3", tmp_path / "lcm.db")
    before = value(path, "SELECT count(*) FROM summaries")
    settings = {"LCM_FRESH_TAIL_COUNT": "10", "LCM_LEAF_CHUNK_TOKENS": "1400"}
    with Operator(path, home, **settings) as operator:
        operator.sees("Conversations")
        operator.press("C", "Compact 7", "1,324", "Draft 1 pass")
        operator.press("a", "ordinals 0 to 12 become one summary")
        operator.press("a", "made    1 summary, -979 tokens")
        assert operator.keys <= 4
        operator.press("escape", "Compacted: 1 summary was made")
        keys = operator.keys
        operator.press("c", "Context 7")
        operator.press("D", "1 summary made", "conversation 6")
        assert "……" not in operator.screen
        operator.press("enter", "Compare", "14 only in the first · 1 only in the second")
        assert operator.keys - keys <= 3
    assert value(path, "SELECT count(*) FROM summaries") == before + 1


@pytest.mark.long
def test_10_one_pass_where_nothing_is_due(path: Path, home: Path) -> None:
    with Operator(path, home) as operator:
        operator.sees("Conversations  8")
        operator.press("C", "Compact 1", "passes  none (sweep: all messages", "enter Protect fewer")
        operator.press("enter", "(#) tail: 8", "3,304 → ~2,453")
        operator.press("a", "ordinals 4 to 13 become one summary")
        operator.press("m", "preview: not applied yet", "Ordinals", "1,308 tokens leave")
        operator.press("a", "made    1 summary, -")
        assert operator.keys <= 5, "one more than without the preview of the rows"


def test_11_the_context_beside_that_before_the_last_compaction(path: Path, home: Path) -> None:
    with Operator(path, home) as operator:
        operator.sees("Conversations  8")
        operator.press("c", "Context 1")
        operator.press("D", "before the compaction of 03-04 11:59")
        operator.press("enter", "Compare", "before the compaction of 03-04 11:59", "only in the first")
        assert operator.keys <= 3


@pytest.mark.long
def test_12_the_disk_gets_bytes_back(path: Path, home: Path) -> None:
    run(path, "CREATE TABLE filler AS SELECT randomblob(500000) AS one", "DROP TABLE filler")
    free = value(path, "PRAGMA freelist_count")
    size = path.stat().st_size
    assert free > 100
    with Operator(path, home) as operator:
        operator.sees("Conversations  8")
        operator.press("&", "can be given back")
        operator.press("v", "Give the space back?", "4.2 MB, about ")
        operator.press("a", "The disk has ", "KB back: the file")
        assert operator.keys <= 4
    assert value(path, "PRAGMA freelist_count") == 0
    assert path.stat().st_size < size - 400_000


@pytest.mark.long
def test_13_markdown_an_id_and_a_command(path: Path, home: Path) -> None:
    with Operator(path, home) as operator:
        operator.sees("Conversations  8")
        operator.press("enter", "Conversation 1")
        operator.press("o", "conversation-1.md")
        operator.press("enter", "Exported: 384 messages")
        assert operator.keys <= 3
        assert (home / "conversation-1.md").read_text().startswith("# Conversation 1")
        operator.press("escape", "Conversations  8")
        operator.press("y", "Copy to the clipboard", "lcm-tui conversations show 1")
        operator.press("y", "Copied 1")
        operator.press("y", "Copy to the clipboard")
        operator.press("c", "Copied lcm-tui conversations show 1")


@pytest.mark.long
def test_14_another_key_and_another_theme(path: Path, home: Path) -> None:
    with Operator(path, home) as operator:
        operator.sees("Conversations  8")
        operator.press("?", "type to filter")
        operator.press("down")
        operator.press("f2", "Press the key for “Context”")
        operator.press("f6", "Context is F6 now")
        assert operator.keys <= 4
        operator.press("escape")
        operator.waits(lambda: "╭" not in operator.screen and "F6 Context" in operator.screen, "the list")
        operator.press(":", "What do you want to do")
        operator.types("themes", "Themes")
        operator.press("enter", "Which theme?")
        operator.types("nord", "nord")
        operator.press("enter", "Conversations  8")
        operator.press("f6", "Context 1")
    [config] = home.rglob("config.toml")
    assert tomllib.loads(config.read_text())["theme"] == "nord"


@pytest.mark.long
def test_15_the_conversation_that_is_worst_and_why(path: Path, home: Path) -> None:
    with Operator(path, home) as operator:
        operator.sees("✗7", "✗ 16 broken summaries")  # without a key
        operator.press("S", "most broken, then findings")
        operator.press("enter", "trouble")
        operator.waits(lambda: _first_row(operator).startswith("3 research main"), "the worst on top")
        assert "7 broken" in _first_row(operator)
        operator.press("enter", "Conversation 3")
        operator.press("H", "Health of", "broken, errors")
        assert operator.keys <= 4


def _first_row(operator: Operator) -> str:
    """Of the conversations: what stands below their headings."""
    lines = operator.screen.splitlines()
    heads = next((at for at, line in enumerate(lines) if line.startswith("   id conversation")), None)
    return "" if heads is None else lines[heads + 1].strip()
