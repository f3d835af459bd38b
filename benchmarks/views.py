"""What the benchmark assumes about the screens: their keys, and which text proves that their rows are there.

This table is the only place that knows the app. The proof is text that stands in the database: ids, session
keys and the beginnings of messages, of which a few must be on the emulated screen.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.generate import LARGEST
from benchmarks.screen import Screen

BACK = "q"
QUIT = "q"
FILTER, ESCAPE = "/", "\x1b"
_ENOUGH = 3  #: facts that must be visible, or all where there are fewer
_ID_LENGTH = 12  #: characters of a summary id that every screen shows
_TEXT_LENGTH = 16  #: characters of a message that every screen shows


@dataclass(frozen=True, slots=True)
class View:
    """A screen that is opened from the conversation list, or the list itself (its key is empty)."""

    name: str
    key: str
    title: re.Pattern[
        str
    ]  #: matches the first line of this screen, and that of the list only if it is the list
    facts: Callable[[sqlite3.Connection], list[str]]
    unfold: str = ""  #: the key that unfolds the selected row, where there is one
    unfold_all: str = ""  #: the key that unfolds all below it: a list of its own length for the keys
    fold_all: str = ""

    def titled(self, screen: Screen) -> bool:
        """Whether the screen is this one, with or without rows."""
        return self.title.search(screen.line(0)) is not None


def _list_facts(db: sqlite3.Connection) -> list[str]:
    rows = db.execute(
        """SELECT session_key FROM conversations AS c WHERE session_key IS NOT NULL ORDER BY (
        SELECT created_at FROM messages AS m WHERE m.conversation_id = c.conversation_id
        ORDER BY seq DESC LIMIT 1) DESC LIMIT 20"""
    )
    return [str(key).rsplit(":", 1)[-1] for (key,) in rows]


def _message_facts(db: sqlite3.Connection) -> list[str]:
    rows = db.execute(
        f"SELECT content FROM messages WHERE conversation_id = {LARGEST} ORDER BY seq DESC LIMIT 60"
    )
    return [_beginning(content) for (content,) in rows]


def _root_facts(db: sqlite3.Connection) -> list[str]:
    rows = db.execute(
        f"""SELECT summary_id FROM summaries WHERE conversation_id = {LARGEST}
        AND summary_id NOT IN (SELECT parent_summary_id FROM summary_parents)"""
    )
    return [str(summary_id)[:_ID_LENGTH] for (summary_id,) in rows]


def _context_facts(db: sqlite3.Connection) -> list[str]:
    rows = db.execute(
        f"""SELECT i.summary_id, m.content FROM context_items AS i LEFT JOIN messages AS m USING (message_id)
        WHERE i.conversation_id = {LARGEST}"""
    )
    return [
        str(summary_id)[:_ID_LENGTH] if summary_id else _beginning(content) for summary_id, content in rows
    ]


def _beginning(content: str) -> str:
    return content.strip().split("\n")[0][:_TEXT_LENGTH].strip()


LIST = View("conversation list", "", re.compile(r"\bConversations\b"), _list_facts)
OPENED = (
    View("conversation", "\r", re.compile(r"\bConversation\b"), _message_facts),
    View(
        "summary DAG",
        "s",
        re.compile(r"\bSummary DAG\b"),
        _root_facts,
        unfold="l",
        unfold_all="Z",
        fold_all="z",
    ),
    View("context", "c", re.compile(r"\bContext\b"), _context_facts),
)


def proof(view: View, path: Path) -> Callable[[Screen], bool]:
    """Tells whether a screen shows rows of *view* for the database at *path*."""
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?immutable=1", uri=True)
    try:
        facts = sorted({fact for fact in view.facts(connection) if fact})
    finally:
        connection.close()
    enough = min(_ENOUGH, len(facts))

    def shown(screen: Screen) -> bool:
        if not view.titled(screen):
            return False
        body = "\n".join(screen.line(y) for y in range(1, screen.rows))
        return sum(fact in body for fact in facts) >= enough

    return shown
