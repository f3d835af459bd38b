"""What a context is taken elsewhere for: written to a file, compared with another one or an earlier one."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Final, Literal

from lcm_core.assemble.export import markdown, request_text
from lcm_core.assemble.ledger import Ledger
from lcm_core.budget import parse_budget, step
from lcm_core.private_files import FileNotWrittenError, FileThereError, write_private
from lcm_core.records import ConversationId

from lcm_tui import places
from lcm_tui.screens.context.assembly import AssembledContext

#: What the prompt is open for.
Asks = Literal["search", "budget", "prompt", "export", "compare"]
MARKDOWN: Final = frozenset({".md", ".markdown"})
_OTHER: Final = re.compile(r"#([0-9]{1,15})")
#: How the id of a snapshot begins.
SNAPSHOT: Final = "asm_"
#: What is typed for the context as it was when the screen was opened.
OPENED: Final = "opened"
#: What is typed, or an empty answer stands for, to compare with the same context without its prompt.
NO_PROMPT: Final = "no prompt"


class Exporting(AssembledContext):
    """A context that can be exported and compared."""

    _asks: Asks = "search"
    _offered = ""  #: what an empty answer stands for
    _agreed = ""  #: the name of a file that was there: typed again, it is replaced

    # -- to a file -------------------------------------------------------------------------------------------

    def action_export(self) -> None:
        """Ask for the file; the current folder is offered."""
        self._asks = "export"
        self._agreed = ""
        self._offered = f"context-{self._conversation_id}-{self.asked_budget()}.json"
        self.open_prompt(
            f"to a file (.json for an API call, .md to read); enter: {self._offered} in this folder"
        )

    def export_to(self, name: str) -> None:
        """Write the messages to a file of this name, or to the one that was offered."""
        if self.ledger is not None:
            self.work_on("export", self._export, name.strip() or self._offered, self.ledger)

    async def _export(self, name: str, ledger: Ledger) -> None:
        to_read = Path(name).suffix.lower() in MARKDOWN
        try:
            written = await asyncio.to_thread(self._write, name, ledger, name == self._agreed, to_read)
        except FileThereError as error:
            self._asks, self._agreed = "export", name
            self.app.notify(
                f"{error.message} Enter again replaces it; or give another name.", severity="warning"
            )
            self.open_prompt("another name", name)
            return
        except FileNotWrittenError as error:
            self.app.notify(error.message, severity="warning", timeout=8)
            return
        form = "Markdown" if to_read else "JSON for an API call"
        count = len(ledger.assembled.messages)
        said = f"{count:,} messages as {form}, for you alone to read: {written}"
        self.app.notify(said, title="Exported", timeout=8)

    def _write(self, name: str, ledger: Ledger, replace: bool, to_read: bool) -> Path:
        path, database = Path(name).expanduser(), self.session.database.path
        never = [database.with_name(database.name + end) for end in ("", "-wal", "-shm", "-journal")]
        title = f"Conversation {self._conversation_id}, as the model sees it"
        text = markdown(ledger.assembled, title) if to_read else request_text(ledger.assembled)
        return write_private(path, text, replace=replace, never=never)

    # -- with another ----------------------------------------------------------------------------------------

    def action_compare(self) -> None:
        """Ask what to compare with; offered is no prompt when there is one, else a smaller budget."""
        self._asks = "compare"
        budget = self.asked_budget()
        other = step(budget, -1)
        smaller = str(other if other != budget else step(budget, 1))
        self._offered = NO_PROMPT if self.user_prompt else smaller
        self.open_prompt(f"compare with 64k, #3 (conversation), {OPENED}, asm_… (@); enter: {self._offered}")

    def compare_with(self, wanted: str) -> None:
        """Compare the messages with those that are asked for, or with the budget that was offered."""
        wanted = wanted.strip() or self._offered
        first = self.first
        if first is None:
            return
        from dataclasses import replace

        from lcm_core.assemble.compare import sent_now

        from lcm_tui.places import Side

        number, budget = self._conversation_id, self.session.budget
        here = Side(number, budget, "now", prompt=self.user_prompt, clamps=self.clamps)
        if wanted.casefold() == OPENED:
            then = Side(number, first.assembled.budget, OPENED, sent_now(first.assembled))
            self.open(places.Comparison(then, here))
            return
        if wanted.casefold() == NO_PROMPT and self.user_prompt:
            self.open(places.Comparison(replace(here, when="", prompt=""), here))
            return
        if wanted.startswith(SNAPSHOT):
            self.open(places.Comparison(Side(number, budget, snapshot_id=wanted), here))
            return
        other = number
        for word in wanted.split():
            match, parsed = _OTHER.fullmatch(word), parse_budget(word)
            if match is not None:
                other = ConversationId(int(match[1]))
            elif parsed is not None:
                budget = parsed
            else:
                said = f"“{word}” is no budget (64k), conversation (#3), snapshot (asm_…), nor “{OPENED}”."
                self.app.notify(said, severity="warning")
                return
        there = replace(here, conversation_id=other, budget=budget, when="")
        if (other, budget) == (here.conversation_id, here.budget):
            self.app.notify("That is this context itself.", severity="warning")
            return
        self.open(places.Comparison(here, there))
