"""A row of the journal that no commit wrote is refused when it is decoded, wherever it is asked for."""

from __future__ import annotations

import asyncio
import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import ExitCode, plan_dissolve, plan_undo, plan_undo_with_later
from lcm_core.change.commit import commit
from lcm_core.change.journal import DamagedRecordError, edits_of, get

from tests.app.support import open_app, settled, wait_for_text
from tests.change.support import dissolvable, only, planned
from tests.cli.support import run as run_command
from tests.conftest import DatabaseFactory
from tests.databases import connect
from tests.support import sampled

Json = dict[str, Any]
ITEM = {
    "conversation_id": 1,
    "ordinal": 0,
    "item_type": "message",
    "message_id": 1,
    "summary_id": None,
    "created_at": "2026-03-06 12:00:00",
}
LINK = {"summary_id": "sum_a", "message_id": 5, "ordinal": 0}


def row(name: str, table: str, key: Json, before: Json, after: Json | None = None) -> Json:
    found = {"edit": name, "table": table, "key": key, "before": before}
    return found if after is None else {**found, "after": after}


def update(key: Json, before: Json, after: Json, table: str = "messages") -> Json:
    return row("update", table, key, before, after)


def splice(**changed: Any) -> Json:
    return {
        "edit": "splice",
        "conversationId": 1,
        "after": None,
        "before": {"type": "message", "ref": 2, "occurrence": 0, "copies": 1},
        "removed": [],
        "inserted": [ITEM],
        "shift": 1,
        "gap": [None, 0],
        "copies": [0, 1],
        **changed,
    }


def without(name: str) -> Json:
    return {column: cell for column, cell in ITEM.items() if column != name}


CONTENT = ({"content": "a"}, {"content": "b"})
#: Edits that no commit leaves, by what is wrong with them.
FORGED: dict[str, Json] = {
    "an item that changes outside a splice": update(
        {"conversation_id": 1, "ordinal": 0}, {"message_id": 1}, {"message_id": 2}, "context_items"
    ),
    "an item that goes outside a splice": row(
        "delete", "context_items", {"conversation_id": 1, "ordinal": 0}, ITEM
    ),
    "an item that comes outside a splice": {"edit": "insert", "table": "context_items", "row": ITEM},
    "no key": update({}, *CONTENT),
    "no key of a row that goes": row("delete", "messages", {}, {"message_id": 5, "content": "a"}),
    "another key": update({"seq": 5}, *CONTENT),
    "half a key": update({"summary_id": "sum_a"}, {"ordinal": 0}, {"ordinal": 1}, "summary_messages"),
    "a key of another row": row("delete", "summary_messages", {"summary_id": "b", "message_id": 5}, LINK),
    "a key of another type": update({"message_id": {"$new": "new:1", "of": "id"}}, *CONTENT),
    "a row without its key": row("delete", "messages", {"message_id": 5}, {"content": "a"}),
    "a new row without its key": {"edit": "insert", "table": "messages", "row": {"content": "a"}},
    "a new row of nothing": {"edit": "insert", "table": "notes", "row": {}},
    "more after than before": update({"message_id": 5}, {"content": "a"}, {"content": "b", "role": "user"}),
    "a value that is not known": update({"message_id": 5}, {"seq": 1}, {"seq": {"$new": "x", "of": "seq"}}),
    "65 bits": update({"message_id": 2**63}, *CONTENT),
    "65 bits of a value": update({"message_id": 5}, {"token_count": 1}, {"token_count": -(2**63) - 1}),
    "200 bits of an ordinal": splice(inserted=[{**ITEM, "ordinal": 2**200}]),
    "65 bits of a shift": splice(shift=2**63),
    "65 bits of a gap": splice(gap=[None, -(2**64)]),
    "65 bits of a conversation": splice(conversationId=2**63),
    "65 bits of an item": splice(before={"type": "message", "ref": 2**63, "occurrence": 0, "copies": 1}),
    "65 bits of a move": {
        "edit": "renumber",
        "conversationId": 1,
        "moves": [{"item": {"ref": 1, "occurrence": 0, "copies": 1}, "old": 0, "new": 2**70}],
    },
    "a lone surrogate": update({"message_id": 5}, {"content": "a"}, {"content": "\ud800"}),
    "a lone low surrogate": update({"message_id": 5}, {"content": "a\udfff"}, {"content": "b"}),
    "a lone surrogate in a key": update({"summary_id": "\udc80"}, *CONTENT, "summaries"),
    "a lone surrogate in a column": update({"message_id": 5}, {"\ud83d": 1}, {"\ud83d": 2}),
    "a lone surrogate in a table": update({"message_id": 5}, *CONTENT, "messages\udeee"),
    "a lone surrogate of an item": splice(before={"ref": "sum_\ud801", "occurrence": 0, "copies": 1}),
    "no ordinal": splice(inserted=[without("ordinal")]),
    "no ordinal of an item that goes": splice(inserted=[], removed=[without("ordinal")]),
    "an ordinal that is a text": splice(inserted=[{**ITEM, "ordinal": "0"}]),
    "an ordinal that is a real": splice(removed=[{**ITEM, "ordinal": 1.5}]),
    "no id of a message": splice(inserted=[without("message_id")]),
    "no id of a summary": splice(removed=[without("summary_id")]),
    "an item of nobody": splice(inserted=[without("conversation_id")]),
    "an item of another conversation": splice(inserted=[{**ITEM, "conversation_id": 2}]),
    "an occurrence that cannot be": splice(before={"ref": 2, "occurrence": 7, "copies": 1}),
    "an occurrence below zero": splice(before={"ref": 2, "occurrence": -1, "copies": 1}),
    "a conversation that is true": splice(conversationId=True),
    "a table that is a number": {"edit": "insert", "table": 5, "row": {"a": 1}},
    "nothing of a splice": {"edit": "splice"},
}
SOME = sampled(
    list(FORGED),
    [
        "an item that changes outside a splice",
        "an item that goes outside a splice",
        "no key",
        "a key of another row",
        "65 bits of a value",
        "a lone surrogate",
        "no ordinal",
        "no id of a message",
    ],
)


def packed(document: object) -> bytes:
    return zlib.compress(json.dumps(document).encode("ascii"))


@pytest.fixture(scope="module")
def dissolved(database_file: DatabaseFactory, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    copy = Path(shutil.copyfile(database_file("0.15.3"), tmp_path_factory.mktemp("dissolved") / "lcm.db"))
    path = only(copy, 1)
    conversation, summary = dissolvable(path)[0]
    return path, commit(path, asyncio.run(planned(path, plan_dissolve, conversation, [summary]))).id


@pytest.fixture
def changed(dissolved: tuple[Path, str], tmp_path: Path) -> tuple[Path, str]:
    path, operation = dissolved
    return Path(shutil.copyfile(path, tmp_path / "lcm.db")), operation


def forge(path: Path, edit: Json, *, resolved: bool = False) -> None:
    """Write an edit into the first row of the journal: as it was planned, or as a commit made it."""
    edits, differing = ([splice()], {"0": edit}) if resolved else ([edit], {})
    with connect(path) as connection:
        connection.execute(
            "UPDATE lcm_tui_operations SET edits = ?, resolution = ?",
            (packed(edits), packed({"values": {}, "edits": differing})),
        )


@pytest.mark.cases(2)
@pytest.mark.parametrize("kind", list(FORGED))
@pytest.mark.parametrize("resolved", [False, True], ids=["as planned", "as committed"])
def test_what_no_commit_wrote_is_refused_when_it_is_decoded(changed, kind, resolved):
    path, operation = changed
    forge(path, FORGED[kind], resolved=resolved)
    before = path.read_bytes()

    def work(reader):
        return edits_of(reader, get(reader, operation))

    for ask in (
        lambda: asyncio.run(planned(path, lambda reader: reader.run(work))),
        lambda: asyncio.run(planned(path, plan_undo, operation)),
        lambda: asyncio.run(planned(path, plan_undo_with_later, operation)),
    ):
        with pytest.raises(DamagedRecordError) as caught:
            ask()
        assert caught.value.exit_code is ExitCode.DATABASE
        assert f"operation {operation} (row 1) cannot be read (" in caught.value.message
        assert "\n" not in caught.value.message
    assert path.read_bytes() == before


def test_a_splice_that_a_commit_may_have_made_is_decoded(changed):
    path, operation = changed
    forge(path, splice(inserted=[ITEM, {**ITEM, "ordinal": 1, "message_id": None, "summary_id": "sum_a"}]))
    asyncio.run(planned(path, lambda reader: reader.run(lambda db: edits_of(db, get(db, operation)))))


@pytest.mark.cases(1)
@pytest.mark.parametrize("kind", SOME)
def test_every_command_exits_with_5_and_names_the_row(changed, kind):
    path, operation = changed
    forge(path, FORGED[kind])
    before = path.read_bytes()
    undo = ("history", "undo")
    for words in (("show", operation), (*undo, operation), (*undo, operation, "--sql"), (*undo, "last")):
        result = run_command(*words, "--db", path)
        assert result.code == 5, (words, result)
        assert operation in result.out + result.err
        assert "BEGIN IMMEDIATE" not in result.out
    assert path.read_bytes() == before


@pytest.mark.long
@pytest.mark.parametrize("kind", SOME[:1] + SOME[-1:])
async def test_the_app_says_it_instead_of_planning(changed, kind, tmp_path):
    path, operation = changed
    forge(path, FORGED[kind])
    async with open_app(path) as pilot:
        await settled(pilot)
        await pilot.press("U")
        await wait_for_text(pilot, " History ")
        await settled(pilot)
        await pilot.press("u")
        await wait_for_text(pilot, "The history of this database is damaged", operation)
        await pilot.press("escape")
        await settled(pilot)
        await pilot.press("enter")
        await wait_for_text(pilot, "cannot be read")
