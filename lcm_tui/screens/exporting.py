"""What `o` does: what is shown, in a private file, in the form that the end of its name says.

The file has the exact texts, as the command that lists the same prints them for programs. In CSV a text that
a spreadsheet would take for a formula gets a ``'`` before it, and Markdown has a line for each row of a list.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any, Final, TypeVar

from lcm_core.base.errors import FileMissingError
from lcm_core.base.files import FileNotWrittenError, FileThereError, write_private
from lcm_core.base.records import Conversation
from lcm_core.base.text import counted
from lcm_core.base.values import Record, replace, to_json
from lcm_core.store.database import Reader
from lcm_core.store.opening import database_files

from lcm_tui.screens.frame import DONE_SECONDS, CommandScreen
from lcm_tui.tables.blocks import ListColumn, Table, json_names, json_of, list_table, moment_text, shown
from lcm_tui.tables.conversation_rows import CONVERSATION_COLUMNS, Row
from lcm_tui.tables.messages import below_home

MARKDOWN: Final = frozenset({".md", ".markdown"})
R = TypeVar("R")

#: The forms of a list.
ENDINGS: Final = (*sorted(MARKDOWN), ".json", ".csv")


class ShownRows(Record, frozen=True):
    """Rows as a screen shows them, for a file."""

    title: str
    rows: Table  #: for Markdown
    items: Sequence[Mapping[str, Any]]  #: for CSV, and for JSON
    names: Sequence[str] = ()  #: the columns of CSV


async def export(
    screen: CommandScreen,
    label: str,
    offered: str,
    write: Callable[[str, bool], Awaitable[str]],
    endings: Sequence[str] = (),
) -> None:
    """Ask for the name of a file and *write* it; what is said comes from there.

    *write* gets the name, and whether a file of that name is replaced: only when it was typed twice.
    *endings*: one of them ends the name; none: any.
    """

    def check(text: str) -> str | None:
        name = text.strip()
        good = not name or not endings or Path(name).suffix.lower() in endings
        return None if good else f"The name ends in one of {', '.join(endings)}."

    name, agreed = await screen.ask(label, check=check), ""
    while name is not None:
        name = name.strip() or offered
        try:
            said = await write(name, name == agreed)
        except FileThereError as error:
            agreed = name
            again = f"{error.message} Enter again replaces it; or give another name."
            screen.app.notify(again, severity="warning")
            name = await screen.ask("another name", name, check=check)
            continue
        except (FileNotWrittenError, FileMissingError) as error:
            screen.app.notify(error.message, severity="warning", timeout=8)
            return
        screen.app.notify(said, title="Exported", timeout=DONE_SECONDS)
        return


def in_this_folder(name: str, most: int = 40) -> str:
    """The path of a file in the folder where the program was started, cut to *most* characters."""
    path = below_home(Path.cwd() / name)
    return path if len(path) <= most else f"…{path[1 - most :]}"


async def export_rows(screen: CommandScreen, name: str, found: ShownRows) -> None:
    """Write rows that are shown; *name*: what the file is called unless the operator says otherwise."""
    database = screen.session.database.path

    async def write(typed: str, replace: bool) -> str:
        written = await asyncio.to_thread(_write, typed, _text_of(found, typed), database, replace)
        return f"{counted(len(found.items), 'row')}, readable only by you: {below_home(written)}"

    label = f"to a file; enter: {in_this_folder(f'{name}.md')}; or .json, .csv"
    await export(screen, label, f"{name}.md", write, ENDINGS)


async def export_conversation(screen: CommandScreen, conversation: Conversation) -> None:
    """Write a whole conversation: its messages, or all its rows so that they can be imported."""
    name, session = f"conversation-{conversation.conversation_id}", screen.session

    async def write(typed: str, replace: bool) -> str:
        if Path(typed).suffix.lower() == ".jsonl":
            from lcm_core.operations.export import export_to

            path = os.path.expanduser(typed)  # noqa: ASYNC240 - looks at no file
            made = await session.read(
                export_to, conversation, Path(path), session.database.path, replace=replace
            )
            rows = counted(made.rows, "row")
            return f"{rows} that import reads, readable only by you: {below_home(made.path)}"
        text, count = await session.read(_conversation_text, conversation, typed)
        written = await asyncio.to_thread(_write, typed, text, session.database.path, replace)
        return f"{counted(count, 'message')}, readable only by you: {below_home(written)}"

    label = f"to a file; enter: {in_this_folder(f'{name}.md', 25)}; .json, .csv, .jsonl (import)"
    await export(screen, label, f"{name}.md", write, (*ENDINGS, ".jsonl"))


async def export_conversations(screen: CommandScreen, listed: Sequence[Row]) -> None:
    """Write the conversations of a list, in its order."""
    by_id = {one.conversation.conversation_id: one for one in listed if one.conversation is not None}
    counted = await screen.session.read(screen.session.memory.statistics_of, list(by_id))
    rows = [replace(row, counted=counted[one]) for one, row in by_id.items()]
    columns = [one for one in CONVERSATION_COLUMNS if one.name not in ("tail_messages", "tail_tokens")]
    await export_rows(screen, "conversations", rows_of("Conversations", columns, rows, screen.session.zone))


async def _conversation_text(reader: Reader, conversation: Conversation, name: str) -> tuple[str, int]:
    from lcm_recall.read import Verdict, conversation_markdown, each_message, name_of
    from lcm_recall.results import Described

    messages: list[dict[str, Any]] = await each_message(
        reader,
        conversation,
        lambda one, number: {
            "seq": number,
            **to_json(Described.of(name_of(one), Verdict.UNPROVEN, one)),
        },
    )
    if Path(name).suffix.lower() in MARKDOWN:
        return await conversation_markdown(reader, conversation), len(messages)
    return _text_of(ShownRows("", Table((), ()), messages), name), len(messages)


def _write(name: str, text: str, database: Path, replace: bool) -> Path:
    never = database_files(database)
    return write_private(Path(name).expanduser(), text, replace=replace, never=never)


def _text_of(found: ShownRows, name: str) -> str:
    """Rows in the form that the end of a name says."""
    from lcm_tui.tables.machine import csv_lines, json_text

    match Path(name).suffix.lower():
        case ".json":
            return json_text(list(found.items), pretty=True) + "\n"
        case ".csv":
            return "".join(csv_lines({"data": {"items": list(found.items)}}, found.names))
        case _:
            return _markdown(found)


def _markdown(found: ShownRows) -> str:
    def line(cells: Sequence[str]) -> str:
        escaped = (one.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") for one in cells)
        return f"| {' | '.join(escaped)} |"

    titles = [one.title for one in found.rows.columns]
    body = [line([shown(cell) for cell in row]) for row in found.rows.rows]
    rule = f"|{'---|' * len(titles)}"
    return "\n".join([f"# {found.title}", "", line(titles), rule, *body]) + "\n"


def rows_of(
    title: str, columns: Sequence[ListColumn[R, Any]], rows: Sequence[R], zone: tzinfo | None
) -> ShownRows:
    """The rows of a list, in the columns of the command that lists the same."""
    items = [json_of(columns, row) for row in rows]
    return ShownRows(title, list_table(columns, rows, when(zone)), items, json_names(columns))


def when(zone: tzinfo | None) -> Callable[[str | None], str | None]:
    """How a stored time is written for people."""
    return lambda stored: stored and moment_text(stored, zone)
