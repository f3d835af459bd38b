"""What is below a summary level by level, and what each level costs; then the texts of one level.

Source: docs/recall.md, "Level by level".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lcm_core.errors import NotFoundError
from lcm_core.recall.read import DEFAULT_TOKENS, Page, cursor_at, page_of
from lcm_core.records import ConversationId, MessageId, Summary, SummaryId
from lcm_core.store.connecting import Rows
from lcm_core.store.recalled import RecalledRows
from lcm_core.store.schema import Schema
from lcm_core.store.searched import Document, DocumentKind, SearchedRows

#: Documents that are read at once.
_BATCH: Final = 50


@dataclass(frozen=True, slots=True)
class Level:
    """Everything that is so many steps below a summary, each summary and message once, at its first place."""

    number: int  #: steps below the root, which is 0
    summaries: tuple[SummaryId, ...]
    messages: tuple[MessageId, ...]
    depths: tuple[tuple[int, int], ...]  #: how many of the summaries have which depth, the deepest first
    missing: int  #: recorded as sources, and without a row
    tokens: int  #: as stored

    @property
    def count(self) -> int:
        """Of texts."""
        return len(self.summaries) + len(self.messages)


def levels_below(
    db: Rows, schema: Schema, root: str, within: Collection[ConversationId] | None = None
) -> tuple[Level, ...]:
    """The levels of a summary, itself the first; no text is read. The walk ends even if sources form a cycle.

    *root*: an id or a citation. *within*: rows of other conversations count as missing; None: all count.

    Raises:
        NotFoundError: there is no summary of this id.
    """
    rows = RecalledRows(db, schema)
    wanted, linked = [SummaryId(root.partition("@")[0])], list[MessageId]()
    seen: set[str | int] = {*wanted}
    levels: list[Level] = []
    while wanted or linked:
        summaries = [
            one for one in rows.without_texts(wanted) if within is None or one.conversation_id in within
        ]
        if not levels and not summaries:
            raise NotFoundError(
                f"There is no summary {root[:80]}; only a summary has levels below it.",
                code="NOT_FOUND",
                details={"id": root[:80]},
            )
        levels.append(_level(len(levels), summaries, rows.message_tokens(linked, within), wanted, linked))
        ids = [one.summary_id for one in summaries]
        sources = (edge.source for one in ids for edge in rows.edges("summary_id", one))
        messages = (message for one in ids for message in rows.message_ids(one))
        wanted = [one for one in dict.fromkeys(sources) if one not in seen]
        linked = [one for one in dict.fromkeys(messages) if one not in seen]
        seen.update(wanted, linked)
    return tuple(levels)


def _level(
    number: int,
    summaries: list[Summary],
    tokens: dict[MessageId, int],
    wanted: list[SummaryId],
    linked: list[MessageId],
) -> Level:
    depths = Counter(one.depth for one in summaries)
    return Level(
        number,
        tuple(one.summary_id for one in summaries),
        tuple(one for one in linked if one in tokens),
        tuple(sorted(depths.items(), reverse=True)),
        len(wanted) + len(linked) - len(summaries) - len(tokens),
        sum(one.tokens for one in summaries) + sum(tokens.values()),
    )


def level_of(levels: Sequence[Level], number: int, root: str) -> Level:
    """The level of a *number*, of those below *root*.

    Raises:
        NotFoundError: there are fewer levels.
    """
    if not 0 <= number < len(levels):
        raise NotFoundError(
            f"There is no level {number:,} below {root[:80]}; the last one is {len(levels) - 1}.",
            details={"level": number},
        )
    return levels[number]


def read_level(
    db: Rows,
    schema: Schema,
    level: Level,
    *,
    tokens: int = DEFAULT_TOKENS,
    cursor: str | None = None,
) -> Page:
    """A page of the texts of a level, in its order: summaries, then messages with their tool calls.

    *tokens* are estimated as the engine does today. A text that alone is larger continues on the next page.

    Raises:
        UsageError: the cursor is none of ours.
    """
    at = cursor_at(cursor)
    return page_of(_numbered(SearchedRows(db, schema), level, at.number), tokens, at)


def _numbered(rows: SearchedRows, level: Level, first: int) -> Iterator[tuple[int, tuple[Document, int]]]:
    places = [(DocumentKind.SUMMARY, str(one)) for one in level.summaries]
    places += [(DocumentKind.MESSAGE, str(one)) for one in level.messages]
    for start in range(first, len(places), _BATCH):
        some = places[start : start + _BATCH]
        found = {
            (kind, one.id): one
            for kind in (DocumentKind.SUMMARY, DocumentKind.MESSAGE)
            for one in rows.some(kind, [name for held, name in some if held is kind])
        }
        for number, place in enumerate(some, start):
            if place in found:
                yield number, (found[place], level.number)
