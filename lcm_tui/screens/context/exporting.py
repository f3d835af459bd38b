"""What a context is taken elsewhere for: written to a file, compared with another one or an earlier one."""

from __future__ import annotations

import asyncio
import re
from datetime import tzinfo
from pathlib import Path
from typing import Final

from lcm_core.assemble.export import markdown, request_text
from lcm_core.assemble.ledger import Ledger
from lcm_core.budget import parse_budget, step
from lcm_core.errors import FileMissingError, UsageError
from lcm_core.past.point import parse_point
from lcm_core.private_files import FileNotWrittenError, FileThereError, write_private
from lcm_core.records import ConversationId

from lcm_tui import places
from lcm_tui.commands import Action
from lcm_tui.frame import DONE_SECONDS, CommandScreen
from lcm_tui.places import Side
from lcm_tui.screens.context.assembly import Assembly

MARKDOWN: Final = frozenset({".md", ".markdown"})
_OTHER: Final = re.compile(r"#([0-9]{1,15})")
#: How the id of a snapshot begins.
SNAPSHOT: Final = "asm_"
#: What is typed for the context as it was when the screen was opened.
OPENED: Final = "opened"
#: What is typed on the past for the context as it is now.
NOW: Final = "now"
#: What is typed, or an empty answer stands for, to compare with the same context without its prompt.
NO_PROMPT: Final = "no prompt"


def export_actions(
    screen: CommandScreen, conversation_id: ConversationId, assembly: Assembly
) -> tuple[Action, ...]:
    """Write what is sent to a file, and compare it."""

    async def export() -> None:
        offered = f"context-{conversation_id}-{assembly.budget}.json"
        name = await screen.ask(
            f"to a file (.json for an API call, .md to read); enter: {offered} in this folder"
        )
        agreed = ""  # the name of a file that was there: typed again, it is replaced
        if name is not None:
            await assembly.ready()
        while name is not None and assembly.ledger is not None:
            name = name.strip() or offered
            database = screen.session.database.path
            try:
                said = await asyncio.to_thread(
                    _export, name, assembly.ledger, conversation_id, database, replace=name == agreed
                )
            except FileThereError as error:
                agreed = name
                again = f"{error.message} Enter again replaces it; or give another name."
                screen.app.notify(again, severity="warning")
                name = await screen.ask("another name", name)
                continue
            except (FileNotWrittenError, FileMissingError) as error:
                screen.app.notify(error.message, severity="warning", timeout=8)
                return
            screen.app.notify(said, title="Exported", timeout=DONE_SECONDS)
            return

    async def compare() -> None:
        other = step(assembly.budget, -1)
        smaller = str(other if other != assembly.budget else step(assembly.budget, 1))
        then, zone = screen.then, screen.session.zone
        offered = NOW if then is not None else NO_PROMPT if assembly.prompt else smaller
        at = "" if then is None else then.past.point.text
        here = Side(
            conversation_id, assembly.asked, at or NOW, prompt=assembly.prompt, clamps=assembly.clamps, at=at
        )

        def check(text: str) -> str | None:
            try:
                if text.strip().casefold() != OPENED:  # which is known when the context is assembled
                    comparison(text.strip() or offered, here, None, zone)
            except UsageError as error:
                return error.message
            return None

        label = f"compare with: 64k, #3, asm_…, op_…, a time, {OPENED}, {NOW}; enter: {offered}"
        wanted = await screen.ask(label, check=check)
        if wanted is not None and (first := await assembly.ready()) is not None:
            screen.open(comparison(wanted.strip() or offered, here, first, zone))

    return (Action("export", export, assembly.why_none), Action("compare", compare, assembly.why_none))


def comparison(wanted: str, here: Side, first: Ledger | None, zone: tzinfo | None) -> places.Comparison:
    """What is compared with what when *wanted* is typed on a context.

    *first*: its assembly as it was when the screen was opened; None: nobody asks for that.

    Raises:
        UsageError: nothing can be compared with that.
    """
    number, budget = here.conversation_id, here.budget
    if wanted.casefold() == OPENED and first is not None:
        from lcm_core.assemble.compare import sent_now

        opened = sent_now(first.assembled)
        return places.Comparison(Side(number, first.assembled.budget, OPENED, opened), here)
    if wanted.casefold() == NOW and here.at:
        return places.Comparison(here, here._replace(when=NOW, at=""))
    if (point := parse_point(wanted, zone)) is not None and point.text != here.at:
        return places.Comparison(here._replace(when=point.text, at=point.text), here)
    if wanted.casefold() == NO_PROMPT and here.prompt:
        return places.Comparison(here._replace(when="", prompt=""), here)
    if wanted.startswith(SNAPSHOT):
        return places.Comparison(Side(number, budget, snapshot_id=wanted), here)
    other = number
    for word in wanted.split():
        match, parsed = _OTHER.fullmatch(word), parse_budget(word)
        if match is not None:
            other = ConversationId(int(match[1]))
        elif parsed is not None:
            budget = parsed
        else:
            raise UsageError(
                f"“{word}” was not understood. Use a budget (64k), a conversation (#3), a snapshot "
                f"(asm_…), a point of the past (op_… or a time), “{NOW}” or “{OPENED}”."
            )
    if (other, budget) == (number, here.budget):
        raise UsageError("That is this context itself: choose another budget or conversation.")
    return places.Comparison(here, here._replace(conversation_id=other, budget=budget, when=""))


def _export(
    name: str, ledger: Ledger, conversation_id: ConversationId, database: Path, *, replace: bool
) -> str:
    """Write the file; the sentence that says what was written where."""
    to_read = Path(name).suffix.lower() in MARKDOWN
    title = f"Conversation {conversation_id}, as the model sees it"
    text = markdown(ledger.assembled, title) if to_read else request_text(ledger.assembled)
    never = [database.with_name(database.name + end) for end in ("", "-wal", "-shm", "-journal")]
    written = write_private(Path(name).expanduser(), text, replace=replace, never=never)
    form = "Markdown" if to_read else "JSON for an API call"
    return f"{len(ledger.assembled.messages):,} messages as {form}, readable only by you: {written}"
