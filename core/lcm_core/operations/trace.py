"""Where a line of a summary comes from: the messages below it, best first; and which lines tell of a message.

No row records this, so what both share decides (docs/spec/retention.md, "Tracing a line").
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from lcm_core.base.records import ConversationId, Message, MessageId, Summary, SummaryId, SummaryText
from lcm_core.base.values import Record
from lcm_core.store.database import Reader
from lcm_core.store.listing import messages_by_id
from lcm_core.store.messages import message_parts
from lcm_core.store.summaries import get_summary, load_graph, summaries_above, texts_of
from lcm_core.writers.identifiers import identifiers
from lcm_core.writers.quantities import terms

#: Messages below a summary that are compared, the first ones.
MOST_MESSAGES: Final = 5_000
#: How much more an identifier counts than a word.
_IDENTIFIER: Final = 3.0
#: A message that says less of a line is none of its messages.
_LEAST: Final = 0.15
#: Messages that are named for a line.
_NAMED: Final = 50


class TracedMessage(Record, frozen=True):
    """A message that a line may come from."""

    message: Message
    text: str  #: its own, or that of its parts
    share: float  #: of what the line says, 0 to 1, that is in the message
    common: tuple[str, ...]  #: what both have, as the line writes it; the rarest first
    weight: float  #: of what both have


class TraceSource(Record, frozen=True):
    """A summary and the messages below it, read once for all of its lines."""

    lines: tuple[str, ...]
    messages: tuple[tuple[Message, str], ...]
    left_out: int  #: messages beyond `MOST_MESSAGES`
    _said: tuple[frozenset[str], ...]  #: what each message says, in the order of `messages`
    _known: Counter[str]  #: in how many messages each of it is

    def of_line(self, line: str, only: MessageId | None = None) -> list[TracedMessage]:
        """The messages that a line may come from, best first; none where they have too little in common.

        *only*: this message, if it is one of them.
        """
        weights = {key: weight * self._rarity(key) for key, weight in _weighed(line).items()}
        whole = sum(weights.values())
        if not whole:
            return []
        shown = {key: text for text, key in _written(line)}
        found = []
        for (message, text), said in zip(self.messages, self._said, strict=True):
            if only not in (None, message.message_id):
                continue
            common = sorted(weights.keys() & said, key=lambda key: -weights[key])
            shared = sum(weights[key] for key in common)
            if shared >= _LEAST * whole:
                words = tuple(dict.fromkeys(shown[key] for key in common))
                found.append(TracedMessage(message, text, shared / whole, words, shared))
        return sorted(found, key=lambda one: (-one.share, one.message.seq))[:_NAMED]

    def _rarity(self, key: str) -> float:
        """More for what few messages say; what none says, which the writer added, counts as the rarest."""
        return math.log(1 + len(self.messages) / max(self._known[key], 1))


async def read_trace(reader: Reader, conversation_id: ConversationId, summary_id: SummaryId) -> TraceSource:
    """Read the text of a summary and the messages below it.

    Raises:
        NotFoundError: the summary is gone.
    """
    content = (await get_summary(reader, summary_id)).content
    graph = await load_graph(reader, conversation_id)
    return await _compared(reader, content, graph.below([summary_id]))


class TracedSummary(Record, frozen=True):
    """A summary made from a message."""

    summary: Summary
    line: str = ""  #: of its text, the one that tells most of the message; empty: none does
    share: float = 0.0  #: of what the line says, 0 to 1, that is in the message
    common: tuple[str, ...] = ()  #: what both have, as the line writes it; the rarest first


async def read_message_trace(reader: Reader, message_id: MessageId) -> list[TracedSummary]:
    """What was made from a message, the leaf first, each with the line that tells of it."""
    above = (await summaries_above(reader, [message_id])).get(message_id, frozenset())
    source = await _compared(reader, "", above)  # how rare words are is judged by the messages beside it
    texts = sorted(
        await texts_of(reader, list(above)), key=lambda one: (one.summary.depth, one.summary.summary_id)
    )
    return await asyncio.to_thread(lambda: [_telling(source, text, message_id) for text in texts])


def _telling(source: TraceSource, text: SummaryText, message_id: MessageId) -> TracedSummary:
    lines = [line for line in text.content.split("\n") if line.strip()]
    found = [(one, line) for line in lines for one in source.of_line(line, message_id)]
    if not found:
        return TracedSummary(text.summary)
    # Neither a short line that any message says, nor a list of files of which one is in it.
    best, line = max(found, key=lambda one: one[0].share * one[0].weight)
    return TracedSummary(text.summary, line, best.share, best.common)


async def _compared(reader: Reader, content: str, below: Iterable[SummaryId]) -> TraceSource:
    """The lines of a text, and what the messages of some leaves say."""
    ids = await _message_ids(reader, below)
    messages = await messages_by_id(reader, ids[:MOST_MESSAGES])
    parts: defaultdict[MessageId, list[str]] = defaultdict(list)
    for part in await message_parts(reader, [one.message_id for one in messages]):
        parts[part.message_id] += filter(None, (part.text, part.tool_input, part.tool_output))
    texts = [
        (one, one.content if one.content.strip() else "\n".join(parts[one.message_id])) for one in messages
    ]
    said = await asyncio.to_thread(lambda: tuple(frozenset(_weighed(text)) for _, text in texts))
    lines = tuple(line for line in content.split("\n") if line.strip())
    known = Counter(key for each in said for key in each)
    return TraceSource(lines, tuple(texts), max(len(ids) - MOST_MESSAGES, 0), said, known)


async def _message_ids(reader: Reader, summaries: Iterable[SummaryId]) -> Sequence[MessageId]:
    """The messages of some leaves, each once, in their order."""
    if not reader.schema.has("summary_messages"):
        return ()
    rows = await reader.rows_in(
        "SELECT DISTINCT message_id FROM summary_messages WHERE summary_id IN (?*)", list(summaries)
    )
    return sorted(MessageId(row["message_id"]) for row in rows)


def _weighed(text: str) -> dict[str, float]:
    """What a text says, and how much each of it counts."""
    weights = dict.fromkeys(terms(text), 1.0)
    weights.update((one.key, _IDENTIFIER) for one in identifiers(text))
    return weights


def _written(line: str) -> list[tuple[str, str]]:
    """How a line writes what it says, and what that is compared by."""
    words = [(word.strip(".,;:!?()[]\"'`"), key) for word in line.split() for key in terms(word)]
    return [*words, *((one.text, one.key) for one in identifiers(line))]
