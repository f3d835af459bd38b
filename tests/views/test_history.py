"""The history as both faces draw it, without a terminal."""

from __future__ import annotations

from lcm_core.base.records import Timestamp
from lcm_core.change.journal import Operation
from lcm_core.change.plan import RowCount

from lcm_tui.tables.history import IN_PART, HistoryLine, ListedOperation, lines_of


def operation(
    number: int,
    *,
    conversation: int | None = 1,
    batch: str | None = None,
    tokens: int = 5,
    kind: str = "dissolve",
    title: str = "",
) -> Operation:
    return Operation(
        id=f"op_{number:016x}",
        place=number,
        kind=kind,
        title=title or f"Change {number}\x1b[31m",
        conversation_id=conversation,
        batch=batch,
        rows=(RowCount("summaries", 1, 2, 3),),
        tokens=tokens,
        removed=frozenset(),
        tool_version="0.1.0",
        created_at=Timestamp("2026-03-02 10:00:00"),
        undoes=None,
        undone_by=None,
        export=None,
    )


def test_a_batch_is_one_line_in_the_place_of_its_newest() -> None:
    newer = ListedOperation(operation(2, batch="batch_1"), True, None)
    older = ListedOperation(operation(1, conversation=2, batch="batch_1", tokens=-7), False, "op_9")
    line = HistoryLine((newer, older))
    assert (line.name, line.owner, line.tokens, line.rows) == ("batch_1", None, -2, 12)
    assert line.state == IN_PART
    assert line.undone_by == "1 operation"
    assert line.what == "Change 1\x1b[31m and 1 more", "the one that changed contexts most"


def test_what_the_history_does_not_tell_any_more_is_no_state() -> None:
    assert HistoryLine((ListedOperation(operation(1), None, None),)).state is None


def test_a_batch_unfolds() -> None:
    listed = [ListedOperation(operation(number, batch="batch_1"), True, None) for number in (2, 1)]
    assert [line.name for line in lines_of(listed)] == ["batch_1"]
    unfolded = [line.name for line in lines_of(listed, unfold=True)]
    assert unfolded == [f"op_{number:016x}" for number in (2, 1)]
