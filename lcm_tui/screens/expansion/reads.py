"""What the screen of an expansion reads: the levels of a summary, and the texts of one, page by page."""

from __future__ import annotations

from dataclasses import dataclass

from lcm_core.recall.levels import Level, levels_below, read_level
from lcm_core.recall.read import Page, Passage
from lcm_core.records import SummaryId
from lcm_core.store.database import Reader


@dataclass(frozen=True, slots=True)
class LevelTexts:
    """The texts of a level as far as they were read."""

    level: Level
    passages: tuple[Passage, ...] = ()
    next: str | None = None  #: the cursor of what was not read yet

    @property
    def tokens(self) -> int:
        """Of what was read, estimated."""
        return sum(one.tokens for one in self.passages)

    def with_page(self, page: Page) -> LevelTexts:
        """The same with one more page."""
        return LevelTexts(self.level, (*self.passages, *page.passages), page.next)


async def load_levels(reader: Reader, summary_id: SummaryId) -> tuple[Level, ...]:
    """The levels below a summary, without texts.

    Raises:
        NotFoundError: the summary is gone.
    """
    return await reader.run(lambda rows: levels_below(rows, reader.schema, summary_id))


async def load_page(reader: Reader, texts: LevelTexts, *, again: bool) -> LevelTexts:
    """One page more of a level; *again*: as much as was read, as it is now."""
    before = LevelTexts(texts.level) if again else texts
    tokens = {"tokens": texts.tokens} if again and texts.passages else {}
    return before.with_page(
        await reader.run(
            lambda rows: read_level(rows, reader.schema, before.level, cursor=before.next, **tokens)
        )
    )
