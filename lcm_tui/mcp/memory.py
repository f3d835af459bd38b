"""What a server reads from, and the arguments that several tools take."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lcm_core.recall.indexing import IndexUse, index_of
from lcm_core.recall.settings import RecallSettings
from lcm_core.recall.spellings import KnownWords
from lcm_core.store.database import Database

from lcm_tui.mcp.arguments import Whole
from lcm_tui.mcp.scope import Allowed

if TYPE_CHECKING:  # a server that asks nobody loads none of it
    from lcm_core.summarize.replies import Model

#: Calls that read at the same time; others wait for their turn.
AT_ONCE: Final = 4
#: Tokens of text in an answer.
MAX_TOKENS: Final = 8_000
CONVERSATION: Final = Whole("Only this conversation, by its id; it must be in the scope of the server.")


@dataclass(frozen=True, slots=True)
class Memory:
    """What a server reads from."""

    database: Database
    settings: RecallSettings
    allowed: Allowed
    model: Model | None = None  #: named at the start; it alone makes the tool ``ask``
    by_index: bool = True  #: whether a search may go by the private index, where there is one
    index_folder: Path | None = None  #: where that is; None: where an operator's are
    words: KnownWords = field(default_factory=KnownWords)
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))

    def index(self) -> IndexUse | None:
        """The index that a search goes by now; looks at files."""
        return index_of(self.database.path, self.index_folder) if self.by_index else None
