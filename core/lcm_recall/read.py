"""Reading what is stored: the evidence for a question, and a summary down to its messages."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

from lcm_core.base.errors import NotFoundError, UsageError
from lcm_core.base.records import Conversation, ConversationId, MessageId, SummaryId, Timestamp
from lcm_core.base.text import fenced, safe_line
from lcm_core.base.times import with_z
from lcm_core.base.tokens import Estimator, estimate
from lcm_core.base.values import Record, T, field, replace
from lcm_core.store.database import Reader
from lcm_core.store.messages import message_before_end, message_ids
from lcm_core.store.opening import Rows
from lcm_core.store.schema import Schema
from lcm_core.store.search import Document, DocumentKind, RecalledRows, SearchedRows, seqs_of

from lcm_recall.answer import REPEATS
from lcm_recall.delegation import Task
from lcm_recall.engine_tools import expand_summary
from lcm_recall.queries import RecallSettings
from lcm_recall.search import OTHER_SPELLING, with_file

# -- evidence --------------------------------------------------------------------------------------------
# What answers a question where no model is used (docs/spec/recall.md, "Without a sub-agent").

NO_MODEL = "No model was asked; this is what was found, to be read as it is:"


def evidence_reply(rows: RecalledRows, task: Task) -> str:
    """What a sub-agent would reply, with texts as its answer: the summaries of a task in their order, each
    that still fits its cap, and of those that were found by their messages these.
    """
    left = task.token_cap
    parts, cited, truncated = [NO_MODEL], list[str](), False
    for text in rows.summaries(task.bucket.summaries):
        if text.summary.tokens > left:
            truncated = True
            continue
        left -= text.summary.tokens
        cited.append(text.summary.summary_id)
        parts.append(f"[{text.summary.summary_id}]\n{text.content}")
    for summary_id in task.bucket.with_messages:
        below = expand_summary(rows, summary_id, include_messages=True, cap=left)
        left -= below.tokens
        truncated = truncated or below.truncated
        messages = (one.message for one in below.messages)
        parts += [f"[msg#{one.message_id} {one.role}]\n{one.content}" for one in messages]
    return json.dumps(
        {
            "answer": "\n\n".join(parts),
            "citedIds": cited,
            "expandedSummaryCount": len(cited),
            "totalSourceTokens": task.token_cap - left,
            "truncated": truncated,
        }
    )


# -- reading down ----------------------------------------------------------------------------------------
# From a summary to the messages with their tool calls, page by page, with citations (docs/spec/searching.md,
# "Reading down" and "Citations").

DEFAULT_TOKENS: Final = 4_000
_CURSOR: Final = re.compile(r"(\d{1,9})\.(\d{1,12})")
_CITATION: Final = re.compile(
    r"(?P<id>(?:msg#|m)(?P<message>\d{1,18})|[a-z]+_[A-Za-z0-9_-]+|[0-9a-f-]{8,64})(?:@(?P<hash>[0-9a-f]{12}))?"
)
_HASH: Final = 12


class Verdict(StrEnum):
    """What became of a citation; the values are shown."""

    HOLDS = "holds"
    CHANGED = "changed"  #: the text is another one now
    GONE = "gone"
    UNPROVEN = "unproven"  #: it names no hash of what was read


class Passage(Record, frozen=True, omit_defaults=True):
    """A piece of text that was read."""

    citation: str  #: the id and a hash of the whole text
    kind: DocumentKind
    conversation_id: ConversationId
    label: str
    at: Timestamp
    level: int  #: below the root, which is 0
    tokens: int  #: by the estimator of today
    start: int  #: characters of the whole text before it
    complete: bool  #: whether it goes on to the end of the text
    text: str  #: foreign text
    repeats: bool = False  #: it adds little to the words of the question, so others come before it
    other_spelling: bool = False  #: no word of the question is in it as it was typed

    @property
    def notes(self) -> list[str]:
        """What is to be known of it beside the text."""
        return [*[REPEATS] * self.repeats, *[OTHER_SPELLING] * self.other_spelling]

    @property
    def part_text(self) -> str:
        """Which part of the whole text it is, and what else is to be known of it."""
        begins = [f"from character {self.start:,}"] * (self.start > 0)
        return "".join(f", {one}" for one in (*begins, *["continues"] * (not self.complete), *self.notes))


class CursorAt(Record, frozen=True):
    """Where a page begins: a passage by its number, and the characters of it that were read before."""

    number: int
    start: int


class Page(Record, frozen=True):
    """As much as a budget holds."""

    passages: tuple[Passage, ...]
    next: str | None  #: the cursor of the next page

    @property
    def tokens(self) -> int:
        """Of all passages."""
        return sum(one.tokens for one in self.passages)


def read_below(
    db: Rows,
    schema: Schema,
    root: str,
    settings: RecallSettings,
    *,
    tokens: int = DEFAULT_TOKENS,
    cursor: str | None = None,
    with_messages: bool = True,
    level: int | None = None,
    within: Collection[ConversationId] | None = None,
) -> Page:
    """A summary, then each of its sources with what lies below it; a leaf with its messages.

    Also of one message, brief or file. A text that alone is larger than *tokens* goes on on the next page.
    Of conversations that are not *within* nothing is read; None: of all. *level*: only the texts of this
    level of a summary, as `levels_below` numbers them.

    Raises:
        NotFoundError: there is nothing of this id, or the summary has fewer levels.
        UsageError: the cursor is none of ours.
    """
    if level is not None:
        chosen = level_of(levels_below(db, schema, root, within), level, root)
        return read_level(db, schema, chosen, tokens=tokens, cursor=cursor)
    found = _below(db, schema, root, settings, with_messages, within)
    return page_of(enumerate(found), tokens, cursor_at(cursor))


def page_of(numbered: Iterable[tuple[int, tuple[Document, int]]], tokens: int, at: CursorAt) -> Page:
    """As many of the numbered documents, each with its level, as *tokens* hold, from a cursor on.

    Raises:
        UsageError: there is nothing at the cursor.
    """
    left = tokens
    passages: list[Passage] = []
    begun = not (at.number or at.start)
    for number, (document, level) in numbered:
        if number < at.number:
            continue
        whole, begin = text_of(document), at.start if number == at.number else 0
        if begin and begin >= len(whole):
            break
        begun = True
        passage = passage_of(document, level, whole, begin, left)
        if whole[begin:] and not passage.text:
            return Page(tuple(passages), f"{number}.{begin}")
        passages.append(passage)
        left -= passage.tokens
        if not passage.complete:
            return Page(tuple(passages), f"{number}.{passage.start + len(passage.text)}")
    if not begun:
        raise UsageError(
            "The cursor is beyond the end: it belongs to another id, or the text has changed. Omit it.",
            code="INVALID_CURSOR",
            details={"option": "cursor", "value": f"{at.number}.{at.start}"},
        )
    return Page(tuple(passages), None)


def text_of(document: Document) -> str:
    """The texts of a document as one, each part under its name."""
    return "\n".join(text if place == "content" else f"[{place}] {text}" for place, text in document.texts)


def cite(document: Document) -> str:
    """A citation of a document as it is now."""
    digest = hashlib.sha256(text_of(document).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name_of(document)}@{digest[:_HASH]}"


def verify(
    db: Rows,
    schema: Schema,
    citation: str,
    settings: RecallSettings,
    *,
    within: Collection[ConversationId] | None = None,
) -> tuple[Verdict, Document | None]:
    """Whether what a citation names is still what was read; of conversations not *within* nothing is.

    Raises:
        UsageError: it is no citation.
    """
    given = _CITATION.fullmatch(citation.strip())
    if given is None:
        raise UsageError(
            "That is neither an id nor a citation; they look like msg#12, sum_... or msg#12@0123456789ab.",
            code="INVALID_CITATION",
            details={"value": citation[:80]},
        )
    document = document_of(db, schema, given["id"], settings)
    if document is None or not _is_within(document, within):
        return Verdict.GONE, None
    if given["hash"] is None:
        return Verdict.UNPROVEN, document
    return (Verdict.HOLDS if cite(document).endswith(f"@{given['hash']}") else Verdict.CHANGED), document


def document_of(db: Rows, schema: Schema, name: str, settings: RecallSettings) -> Document | None:
    """A message, summary, brief or file by its id; None when there is none."""
    rows = SearchedRows(db, schema)
    message = re.fullmatch(r"(?:msg#|m)(\d{1,18})", name)
    kinds = (
        [DocumentKind.MESSAGE] if message else [DocumentKind.SUMMARY, DocumentKind.FILE, DocumentKind.BRIEF]
    )
    for kind in kinds:
        found = rows.some(kind, [message[1] if message else name])
        if found:
            return with_file(rows, found[0], settings)[0]
    return None


def _below(
    db: Rows,
    schema: Schema,
    root: str,
    settings: RecallSettings,
    with_messages: bool,
    within: Collection[ConversationId] | None,
) -> Iterator[tuple[Document, int]]:
    for document, level in _all_below(db, schema, root, settings, with_messages):
        if _is_within(document, within):
            yield document, level
        elif not level:
            raise unknown(root)


def _is_within(document: Document, within: Collection[ConversationId] | None) -> bool:
    return within is None or document.conversation_id in within


def unknown(root: str) -> NotFoundError:
    """The sentence for an id of nothing."""
    return NotFoundError(
        f"There is no message, summary, brief or file {root[:80]}; a search names ids.",
        code="NOT_FOUND",
        details={"id": root[:80]},
    )


def _all_below(
    db: Rows, schema: Schema, root: str, settings: RecallSettings, with_messages: bool
) -> Iterator[tuple[Document, int]]:
    first = document_of(db, schema, root.partition("@")[0], settings)
    if first is None:
        raise unknown(root)
    yield first, 0
    if first.kind is not DocumentKind.SUMMARY:
        return
    rows, recalled = SearchedRows(db, schema), RecalledRows(db, schema)
    seen = {first.id}
    waiting = [(first.id, 0)]
    while waiting:
        at, level = waiting.pop()
        if level:
            yield from ((one, level) for one in rows.some(DocumentKind.SUMMARY, [at]))
        sources = [edge.source for edge in recalled.edges("summary_id", SummaryId(at))]
        waiting += [(one, level + 1) for one in reversed(sources) if one not in seen]
        seen.update(sources)
        if with_messages:
            for message_id in recalled.message_ids(SummaryId(at)):
                yield from ((one, level + 1) for one in rows.some(DocumentKind.MESSAGE, [str(message_id)]))


def passage_of(document: Document, level: int, whole: str, start: int, left: int) -> Passage:
    """As much of a text from a place on as fits, cut in two where it does not."""
    text = whole[start:]
    tokens = estimate(text, Estimator.WEIGHTED)
    if tokens > left:
        text = beginning_of(text, left)
        tokens = estimate(text, Estimator.WEIGHTED)
    return Passage(
        cite(document),
        document.kind,
        document.conversation_id,
        document.label,
        Timestamp(with_z(document.at)),
        level,
        tokens,
        start,
        start + len(text) >= len(whole),
        text,
    )


def beginning_of(text: str, tokens: int) -> str:
    """The longest beginning of a text that has no more tokens, estimated as today."""
    low, high = 0, min(len(text), max(0, tokens) * 4)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate(text[:middle], Estimator.WEIGHTED) <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def name_of(document: Document) -> str:
    """The id of a document, as it is cited and asked for."""
    return f"msg#{document.id}" if document.kind is DocumentKind.MESSAGE else document.id


def cursor_at(cursor: str | None) -> CursorAt:
    """Where a page begins.

    Raises:
        UsageError: the cursor is none of ours.
    """
    if cursor is None:
        return CursorAt(0, 0)
    given = _CURSOR.fullmatch(cursor)
    if given is None:
        raise UsageError(
            "The cursor cannot be used: use the one printed by the previous page, or omit --cursor.",
            code="INVALID_CURSOR",
            details={"option": "cursor", "value": cursor[:80]},
        )
    return CursorAt(int(given[1]), int(given[2]))


# -- levels ----------------------------------------------------------------------------------------------
# What is below a summary level by level, and what each level costs; then the texts of one level
# (docs/spec/searching.md, "Level by level").

#: Documents that are read at once.
_BATCH: Final = 50


class Level(Record, frozen=True):
    """Everything that is so many steps below a summary, each summary and message once, at its first place."""

    number: int = field(name="level")  #: steps below the root, which is 0
    summaries: tuple[SummaryId, ...]
    messages: tuple[MessageId, ...]
    missing: int = 0  #: recorded as sources, and without a row
    tokens: int = 0  #: as stored
    tokens_to_here: int = 0  #: of it and of all above it
    depths: tuple[tuple[int, int], ...] = ()  #: how many of the summaries have which depth, the deepest first

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
        tokens = rows.message_tokens(linked, within)
        here = sum(one.tokens for one in summaries) + sum(tokens.values())
        levels.append(
            Level(
                len(levels),
                tuple(one.summary_id for one in summaries),
                tuple(one for one in linked if one in tokens),
                len(wanted) + len(linked) - len(summaries) - len(tokens),
                here,
                here + (levels[-1].tokens_to_here if levels else 0),
                tuple(sorted(Counter(one.depth for one in summaries).items(), reverse=True)),
            )
        )
        ids = [one.summary_id for one in summaries]
        sources = (edge.source for one in ids for edge in rows.edges("summary_id", one))
        messages = (message for one in ids for message in rows.message_ids(one))
        wanted = [one for one in dict.fromkeys(sources) if one not in seen]
        linked = [one for one in dict.fromkeys(messages) if one not in seen]
        seen.update(wanted, linked)
    return tuple(levels)


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


# -- a conversation --------------------------------------------------------------------------------------

#: Messages that are looked at for a page; the one behind them begins the next.
_WINDOW: Final = 500
#: A message, and in a cursor the characters of it that were read before.
_PLACE: Final = re.compile(r"(?:msg#|m)?(\d{1,18})(?:@[0-9a-f]{12})?(?:\.(\d{1,12}))?")


async def read_conversation(
    reader: Reader,
    conversation_id: ConversationId,
    place: str | None = None,
    *,
    last: int | None = None,
    tokens: int = DEFAULT_TOKENS,
) -> Page:
    """A page of a conversation in its order: messages with their tool calls.

    *place*: from this message or cursor on. *last*: without one, so many messages before the end; None: from
    the beginning.

    Raises:
        NotFoundError: the message is not of this conversation.
        UsageError: the text of the cursor has changed.
    """
    first, characters = None, "0"
    if place is not None:
        match = _PLACE.fullmatch(place.strip())
        first, characters = MessageId(int(match[1]) if match else 0), (match and match[2]) or "0"
    elif last is not None:
        first = await message_before_end(reader, conversation_id, last)
    ids = await message_ids(reader, conversation_id, first, _WINDOW + 1)
    if not ids and place is not None:
        raise NotFoundError(
            f"There is no message {place[:80]} in conversation {conversation_id}.", details={"id": place[:80]}
        )
    if not ids:
        return Page((), None)
    window = Level(0, (), tuple(ids[:_WINDOW]))
    page = await reader.run(
        lambda rows: read_level(rows, reader.schema, window, tokens=tokens, cursor=f"0.{characters}")
    )
    number, _, begin = (page.next or f"{_WINDOW}.0").partition(".")
    return replace(page, next=f"{ids[int(number)]}.{begin}" if int(number) < len(ids) else None)


# -- as Markdown -----------------------------------------------------------------------------------------
# What is stored for a reader: one document, or the messages of a conversation. Texts are as stored, in fences
# that they cannot end: no text can pass for the heading of another one.


#: Messages whose texts are read together.
_TOGETHER: Final = 500


def markdown_of(document: Document, number: int | None = None) -> str:
    """A document for a reader, under a heading that names it; its texts cannot end their fences.

    *number*: the place of a message in its conversation.
    """
    place = "" if number is None else f"#{number} "
    about = f"{place}{document.label} · {document.at} · {name_of(document)}"
    lines = [f"## {safe_line(about)}"]
    for where, text in document.texts:
        lines += ["", *([] if where == "content" else [f"{where}:", ""]), *fenced(text)]
    return "\n".join(lines) + "\n"


async def conversation_markdown(reader: Reader, conversation: Conversation) -> str:
    """The messages of a conversation for a reader, in order, with their tool calls."""
    heading = f"# Conversation {conversation.conversation_id}: {safe_line(conversation.name)}\n"
    return "\n".join([heading, *await each_message(reader, conversation, markdown_of)])


async def conversation_text(reader: Reader, conversation: Conversation) -> str:
    """The texts of its messages, each under its place and role."""

    def written(document: Document, number: int | None) -> str:
        return f"#{number} {safe_line(document.label)}\n{text_of(document)}\n"

    return "\n".join(await each_message(reader, conversation, written))


async def each_message(
    reader: Reader, conversation: Conversation, written: Callable[[Document, int | None], T]
) -> list[T]:
    """Each message of a conversation in order, as *written* makes it of the message and its seq."""
    ids = await message_ids(reader, conversation.conversation_id)

    def load(db: Rows) -> list[T]:
        rows, seqs = SearchedRows(db, reader.schema), seqs_of(db, reader.schema, ids)
        sections: list[T] = []
        for start in range(0, len(ids), _TOGETHER):
            some = ids[start : start + _TOGETHER]
            found = {int(one.id): one for one in rows.some(DocumentKind.MESSAGE, map(str, some))}
            sections += [written(found[one], seqs.get(one)) for one in some if one in found]
        return sections

    return await reader.run(load)
