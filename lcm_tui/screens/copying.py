"""What `y` copies: the id of what is selected, its text, Markdown, JSON, or the command that shows the same.

A screen says in one place what is selected (`copies`). A text is read when it is chosen, so that the list is
there at once. What reaches the clipboard is safe in a shell as in a terminal: controls are written out.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from lcm_core.base.diff import Diff, LineMark
from lcm_core.base.errors import NotFoundError
from lcm_core.base.records import Conversation, ConversationId
from lcm_core.base.text import counted, safe_line, safe_text
from lcm_core.base.values import Record, to_json
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader

from lcm_tui.kit.dialogs import Question
from lcm_tui.kit.diff import DiffView
from lcm_tui.kit.session import Session

if TYPE_CHECKING:
    from lcm_core.base.findings import Finding
    from textual.app import App
    from textual.widget import Widget

#: Characters of what is copied: terminals take no more.
MOST: Final = 1_000_000
#: What is no id of a message, summary, brief or file: a snapshot, a line of a comparison.
_NO_DOCUMENT: Final = re.compile(r"asm_|.*\s", re.DOTALL)
#: Lines around a change of a diff.
_AROUND: Final = 3


class Forms(Record, frozen=True):
    """A thing in the forms that are copied, as it is stored."""

    text: str
    markdown: str
    json: Any


#: Reads the forms of a thing.
Load = Callable[[Reader], Awaitable[Forms]]


class Copies(Record, frozen=True):
    """What can be copied of a thing; what is empty or None cannot."""

    id: str
    command: Sequence[str] = ()  #: the words behind ``lcm-tui`` that show the same
    load: Load | None = None
    text: str = "the whole text, as it is stored"  #: what its text is, in words


class Copying(Protocol):
    """What copying asks of the screen that it stands on."""

    @property
    def app(self) -> App[Any]:
        """Has the clipboard."""

    @property
    def session(self) -> Session:
        """Where things are read."""

    @property
    def focused(self) -> Widget | None:
        """A diff is copied where it has the keys."""

    def copies(self) -> Copies | None:
        """What is selected."""

    def work_on(self, group: str, work: Callable[..., Awaitable[object]], *args: Any) -> object:
        """Do it beside the keys, and say what went wrong."""


def copy(screen: Copying) -> None:
    """Ask what is copied of the selected thing; where there is only an id, copy that."""
    found = screen.copies()
    if isinstance(screen.focused, DiffView) and (diff := screen.focused.diff) is not None:
        found = _of_diff(diff, found or Copies(""))
    if found is None:
        screen.app.notify("Nothing is selected.", severity="warning", timeout=3)
        return
    command = _command(screen.session, found)
    rows = {"id": found.id, "text": "", "Markdown": "", "JSON": "", "command": command}
    if found.load is not None:
        rows |= {
            "text": found.text,
            "Markdown": "the same, under a heading that names it",
            "JSON": "all that is known of it, for programs",
        }
    forms = [(name, words) for name, words in rows.items() if words]
    if len(forms) == 1:
        _take(screen, found.id)
        return
    keys = ["y", *(name[0].lower() for name, _ in forms[1:])]
    answers = [(key, f"{name:<10}{safe_line(words)}") for key, (name, words) in zip(keys, forms, strict=True)]
    chosen = dict(zip(keys, (name for name, _ in forms), strict=True))

    def take(key: str | None) -> None:
        if key:
            screen.work_on("copy", _copy, screen, found, chosen[key])

    screen.app.push_screen(Question("Copy to the clipboard", (), answers, decides=False), callback=take)


async def _copy(screen: Copying, copies: Copies, form: str) -> None:
    if form == "id":
        _take(screen, copies.id)
    elif form == "command":
        _take(screen, _command(screen.session, copies))
    elif copies.load is not None:
        forms = await screen.session.read(copies.load)
        text = {"text": forms.text, "Markdown": forms.markdown}.get(form)
        told = json.dumps(forms.json, indent=2) if text is None else safe_text(text)
        _take(screen, told, f"the {form}" if text is not None else form)


def _take(screen: Copying, text: str, name: str = "") -> None:
    """Put a text into the clipboard, and say so; without a *name* it is an id or a command, on one line."""
    # A shell may read what is pasted: line breaks and bytes that are no text are written out.
    text = text if name else safe_line(text)
    if len(text) > MOST:
        screen.app.notify(
            f"{len(text):,} characters are too many to copy; write them to a file.",
            severity="warning",
        )
        return
    screen.app.copy_to_clipboard(text)
    size = f"{name}: {counted(text.count(chr(10)) + 1, 'line')}, {counted(len(text), 'character')}"
    screen.app.notify(f"Copied {size if name else text}", timeout=3)


def _command(session: Session, copies: Copies) -> str:
    """The whole command, for a shell."""
    if not copies.command:
        return ""
    database = session.settings.database
    where = ["--db", str(database.value.absolute())] if database.is_set else []  # from any folder
    words = list(copies.command)
    end = words.index("--") if "--" in words else len(words)  # what follows is no option
    return shlex.join(["lcm-tui", *words[:end], *where, *words[end:]])


# -- things ----------------------------------------------------------------------------------------------


def by_id(session: Session, name: str) -> Copies:
    """A message (its number, or ``m47``), summary, brief or file; of anything else its id."""
    if _NO_DOCUMENT.match(name):
        return Copies(name)
    whole = f"m{name}" if name.isdecimal() else name
    return Copies(whole, ("show", whole), partial(_document_forms, session, whole))


async def _document_forms(session: Session, name: str, reader: Reader) -> Forms:
    from lcm_recall.queries import recall_settings
    from lcm_recall.read import Verdict, document_of, markdown_of, text_of
    from lcm_recall.results import Described

    settings = recall_settings(session.settings)
    found = await reader.run(lambda rows: document_of(rows, reader.schema, name, settings))
    if found is None:
        raise NotFoundError(f"{name} is not in the database any more; only its id can be copied.")
    described = Described.of(name, Verdict.UNPROVEN, found)
    return Forms(text_of(found), markdown_of(found), to_json(described))


def of_conversation(number: ConversationId) -> Copies:
    """A conversation."""
    words, load = ("conversations", "show", str(number)), partial(_conversation_forms, number)
    return Copies(str(number), words, load, "its messages in order, with tool calls")


async def _conversation_forms(number: ConversationId, reader: Reader) -> Forms:
    from lcm_recall.read import conversation_markdown, conversation_text

    found: Conversation = await get_conversation(reader, number)
    text, markdown = await conversation_text(reader, found), await conversation_markdown(reader, found)
    return Forms(text, markdown, to_json(found))


def of_operation(name: str) -> Copies:
    """An operation of the history."""
    return Copies(name, ("show", name))


def of_finding(name: str, finding: Finding) -> Copies:
    """A finding, by the *name* under which ``doctor --fix`` knows it."""
    owner = () if finding.conversation_id is None else (str(finding.conversation_id),)

    async def load(reader: Reader) -> Forms:
        from lcm_core.checks.running import CHECKS

        from lcm_tui.tables.blocks import json_of
        from lcm_tui.tables.findings import FINDING_COLUMNS

        del reader
        rows = [f"{row.table} {' '.join(str(part) for part in row.key)}" for row in finding.rows]
        about = safe_line(f"{finding.check}: {CHECKS[finding.check].title}")
        told = "\n".join(f"- {safe_line(one)}" for one in (finding.sentence, *rows))
        return Forms(
            "\n".join([finding.sentence, *rows]),
            f"## {about}\n\n{told}\n",
            json_of(FINDING_COLUMNS, finding),
        )

    words = ("doctor", *owner, "--check", finding.check)
    return Copies(name, words, load, "what is wrong, and the rows that it is about")


def _of_diff(diff: Diff, selected: Copies) -> Copies:
    """A diff, on the row of what is *selected* in it."""

    async def load(reader: Reader) -> Forms:
        from lcm_core.base.text import fenced

        del reader
        text = "\n".join(_diff_lines(diff))
        fence, body, end = fenced(text)
        lines = {"before": list(diff.old), "after": list(diff.new)}
        return Forms(text, f"{fence}diff\n{body}\n{end}\n", lines)

    return Copies(selected.id, selected.command, load, "the changed lines with their marks")


def _diff_lines(diff: Diff) -> Iterator[str]:
    """The changed lines, each with its mark, and some around them."""
    rows = list(diff.unified())
    near = {
        place + step
        for place, row in enumerate(rows)
        if row.mark is not LineMark.SAME
        for step in range(-_AROUND, _AROUND + 1)
    }
    last = -1
    for place, row in enumerate(rows):
        if place in near:
            if place > last + 1:
                yield "@@"
            last = place
            line = diff.old[row.old] if row.old is not None else diff.new[row.new or 0]
            yield f"{row.mark}{line}"
