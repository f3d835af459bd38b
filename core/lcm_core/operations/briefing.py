"""The text of a focus brief: what it is written from, asking for it, and a draft that waits for a decision.

What is read is read in short transactions, and none is open while a model is asked. A draft that was paid for
lies in a private file until it is committed or given up.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from lcm_core.change.planning import rehearse
from lcm_core.dag.focus import FocusInput, FocusSource, Watermark
from lcm_core.errors import FileMissingError, RefusedError
from lcm_core.javascript import Json, JsonObject
from lcm_core.operations.drafting.draft import MANUAL, storable
from lcm_core.operations.drafting.members import (
    DamagedError,
    number_member,
    objects_member,
    text_member,
    texts_member,
)
from lcm_core.operations.focus import BriefText, FocusKind, FocusWish, new_brief_id, plan_brief
from lcm_core.private_files import drafts_folder, make_private, read_limited, reason_of, write_private
from lcm_core.records import ConversationId, Summary, SummaryId, Timestamp
from lcm_core.store import summaries as summary_store
from lcm_core.store.database import Database, Reader
from lcm_core.summarize.briefing import (
    BriefLimits,
    BriefPassage,
    BriefQuestion,
    Progress,
    WrittenBrief,
    cut_to,
    passage,
    write_brief,
)
from lcm_core.summarize.cost import LimitReachedError
from lcm_core.summarize.replies import Model
from lcm_core.summarize.request import SummarizerError
from lcm_core.summarize.retention import Retention, measure, read_retention_source
from lcm_core.summarize.source import Rendering, source_of

_FORMAT: Final = "lcm-tui focus draft"
_VERSION: Final = 1
_BEGINNING: Final = "brief_"
_ENDING: Final = ".json"
_LARGEST: Final = 16 * 1024 * 1024


# -- what it is written from -----------------------------------------------------------------------------


async def read_question(reader: Reader, wish: FocusWish, rendering: Rendering) -> BriefQuestion:
    """The texts that a brief is written from, as a model is shown them."""
    texts = await summary_store.texts_of(reader, [one.summary_id for one in wish.wanted])
    estimator = rendering.rules.estimator
    return BriefQuestion(
        wish.prompt,
        tuple(
            passage(one.summary.summary_id, _head(one.summary), one.content, estimator)
            for one in {text.summary.summary_id: text for text in texts}.values()
        ),
        "" if wish.earlier is None else wish.earlier.content,
    )


def _head(summary: Summary) -> str:
    what = "leaf" if summary.kind == "leaf" else f"condensed, depth {summary.depth}"
    return f"{what}, {summary.earliest_at or 'unknown'} to {summary.latest_at or 'unknown'}"


async def read_expanded(
    reader: Reader,
    conversation_id: ConversationId,
    ids: Sequence[SummaryId],
    tokens: int,
    rendering: Rendering,
) -> list[BriefPassage]:
    """What some summaries of a conversation were made from, within so many tokens; others are left out."""
    estimator, found = rendering.rules.estimator, []
    known = {one.summary_id: one for one in await summary_store.summaries_in(reader, ids)}
    for summary_id in ids:
        summary = known.get(summary_id)
        if summary is None or summary.conversation_id != conversation_id or tokens <= 0:
            continue
        source = await source_of(reader, summary_id, rendering)
        if source.text:
            whole = passage(summary_id, f"what {summary_id} was made from", source.text, estimator)
            one = cut_to(whole, tokens, estimator)
            found.append(one)
            tokens -= one.tokens
    return found


async def have_written(
    database: Database,
    wish: FocusWish,
    question: BriefQuestion,
    model: Model,
    rendering: Rendering,
    *,
    limits: BriefLimits | None = None,
    progress: Progress = lambda _, __: None,
) -> WrittenBrief:
    """Ask a model for the brief; nothing is open meanwhile.

    Raises:
        SummarizerError: no answer came back.
        LcmError: the brief could not be committed; no call was made.
    """
    await rehearse(database, partial(plan_brief, wish=wish, text=BriefText("…")))

    async def expand(ids: Sequence[SummaryId], tokens: int) -> Sequence[BriefPassage]:
        return await database.read(read_expanded, wish.conversation_id, ids, tokens, rendering)

    return await write_brief(model, question, expand, limits, progress)


def call_failed(error: BaseException) -> bool:
    """Whether a call was made and no text came of it; one beyond the operator's limits is not made at all."""
    return isinstance(error, SummarizerError) and not isinstance(error, LimitReachedError)


def text_of(written: WrittenBrief) -> BriefText:
    """What a model wrote as the text of a brief."""
    return BriefText(
        storable(written.content),
        storable(written.model),
        written.cited,
        written.expanded,
        written.irrelevant,
        written.truncated,
        storable(written.notes),
    )


async def brief_retention(
    question: BriefQuestion, shown: Sequence[BriefPassage], text: str, rendering: Rendering
) -> Retention:
    """What a brief keeps of what it was written from, loses and invents; worked out off the event loop.

    A brief is about one question, so much that it loses it was meant to leave out; what it invents counts.
    """

    def work() -> Retention:
        passages = [one.text for one in shown] or [one.text for one in question.passages]
        source = "\n\n".join([*passages, question.earlier, question.prompt])
        return measure(read_retention_source(source, estimator=rendering.rules.estimator), text)

    return await asyncio.to_thread(work)


# -- a draft that waits ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BriefDraft:
    """A text with what it was written from: all that its plan needs."""

    wish: FocusWish
    text: BriefText
    database: str  #: whose it is
    made_at: str  #: UTC, ISO
    batch: str = ""  #: of the sweep that was made before; empty: none was
    path: Path | None = None  #: where it lies

    @property
    def document(self) -> JsonObject:
        """The draft as it is written to a file; ``text`` may be edited there."""
        wish, text, mark = self.wish, self.text, self.wish.made_from.watermark
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "database": self.database,
            "conversationId": wish.conversation_id,
            "kind": wish.kind.value,
            "prompt": wish.prompt,
            "text": text.content,
            "writer": text.writer,
            "textHash": _hash_of(text.content),
            "citedSummaryIds": list(text.cited),
            "expandedSummaryIds": list(text.expanded),
            "irrelevantSummaryIds": list(text.irrelevant),
            "truncated": text.truncated,
            "confidenceNotes": text.notes,
            "coveredLatestAt": mark.latest_at,
            "coveredMessageSeq": mark.message_seq,
            "madeFrom": [_source_document(one) for one in wish.made_from.sources],
            "wanted": [one.summary_id for one in wish.wanted],
            "earlier": None if wish.earlier is None else wish.earlier.brief_id,
            "batch": self.batch,
            "madeAt": self.made_at,
        }


def _source_document(source: FocusSource) -> JsonObject:
    return {
        "ordinal": source.ordinal,
        "summaryId": source.summary_id,
        "kind": source.kind,
        "depth": source.depth,
        "tokens": source.tokens,
        "latestAt": source.latest_at,
        "createdAt": source.created_at,
        "ownLastSeq": source.own_last_seq,
    }


def write_draft(path: Path, draft: BriefDraft) -> Path:
    """Write a draft to a file that only this user can read; gives the whole path.

    Raises:
        FileThereError: something of that name is there.
        FileNotWrittenError: it cannot be written.
    """
    return write_private(path, json.dumps(draft.document, indent=2, ensure_ascii=True) + "\n")


def keep_draft(draft: BriefDraft, folder: Path | None = None) -> Path:
    """Keep a draft that was paid for in our own folder.

    Raises:
        FileNotWrittenError: it cannot be written.
    """
    place = drafts_folder() if folder is None else folder
    with contextlib.suppress(OSError):  # that it cannot be made is said by what writes into it
        make_private(place)
    return write_draft(place / f"{_BEGINNING}{new_brief_id().removeprefix('focus_')}{_ENDING}", draft)


def drop_draft(path: Path | None) -> None:
    """Remove a kept draft that was decided on; one that the operator named stays."""
    if path is not None and path.parent == drafts_folder() and path.name.startswith(_BEGINNING):
        with contextlib.suppress(OSError):
            path.unlink()


def kept_drafts(database: Path, folder: Path | None = None) -> list[BriefDraft]:
    """The drafts of a database that wait for a decision, the newest first; blocks."""
    found = (one for one in _all_drafts(folder) if one.database == str(database.resolve()))
    return sorted(found, key=lambda one: (one.made_at, str(one.path)), reverse=True)


def forget_brief_drafts(
    database: Path, conversation_ids: Collection[int], folder: Path | None = None
) -> list[Path]:
    """Remove the drafts of some conversations that are to leave no trace; those that went; blocks."""
    gone = []
    for draft in kept_drafts(database, folder):
        if draft.wish.conversation_id in conversation_ids and draft.path is not None:
            with contextlib.suppress(OSError):
                draft.path.unlink()
                gone.append(draft.path)
    return gone


def _all_drafts(folder: Path | None) -> Iterator[BriefDraft]:
    place = drafts_folder() if folder is None else folder
    for path in sorted(place.glob(f"{_BEGINNING}*{_ENDING}")) if place.is_dir() else ():
        with contextlib.suppress(RefusedError, FileMissingError):
            yield read_draft(path)


def read_draft(path: Path) -> BriefDraft:
    """A draft from its file, without the brief that it carries on; blocks.

    Raises:
        FileMissingError: it is not there.
        RefusedError: it is no draft of a brief.
    """
    try:
        document = json.loads(read_limited(path, _LARGEST).decode("utf-8"))
        return _draft_of(document, path)
    except FileNotFoundError:
        raise FileMissingError(
            "draft", path, "Give the path that --draft wrote to.", code="DRAFT_NOT_FOUND"
        ) from None
    except OSError as error:
        raise RefusedError(
            f"The draft {path} cannot be read ({reason_of(error)}).", code="DRAFT_INVALID"
        ) from None
    except (ValueError, DamagedError, RecursionError):
        raise RefusedError(
            f"{path} is not a draft of a focus brief. Nothing was changed.", code="DRAFT_INVALID"
        ) from None


def _draft_of(document: Json, path: Path) -> BriefDraft:
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ValueError("format")
    if document.get("version") != _VERSION:
        raise ValueError("version")
    sources = tuple(map(_source_of, objects_member(document, "madeFrom")))
    wanted = frozenset(texts_member(document, "wanted"))
    latest, seq = document.get("coveredLatestAt"), document.get("coveredMessageSeq")
    made_from = FocusInput(
        sources,
        Watermark(
            Timestamp(latest) if isinstance(latest, str) else None, seq if isinstance(seq, int) else None
        ),
    )
    wish = FocusWish(
        ConversationId(number_member(document, "conversationId")),
        FocusKind(text_member(document, "kind")),
        storable(text_member(document, "prompt")),
        made_from,
        tuple(one for one in sources if one.summary_id in wanted),
    )
    if wish.kind not in (FocusKind.CREATE, FocusKind.REFOCUS):
        raise ValueError("kind")
    text = BriefText(
        storable(text_member(document, "text")),
        _writer_of(document),
        _ids(document, "citedSummaryIds"),
        _ids(document, "expandedSummaryIds"),
        _ids(document, "irrelevantSummaryIds"),
        document.get("truncated") is True,
        storable(text_member(document, "confidenceNotes")),
    )
    return BriefDraft(
        wish,
        text,
        text_member(document, "database"),
        text_member(document, "madeAt"),
        text_member(document, "batch"),
        path,
    )


def _writer_of(document: Mapping[str, Json]) -> str:
    """Who wrote the text: a person, when it is no longer the one that was written to the file."""
    as_written = document.get("textHash") == _hash_of(text_member(document, "text"))
    return storable(text_member(document, "writer")) or MANUAL if as_written else MANUAL


def _hash_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _ids(document: Mapping[str, Json], name: str) -> tuple[str, ...]:
    return tuple(map(storable, texts_member(document, name)))


def _source_of(document: JsonObject) -> FocusSource:
    latest, seq = document.get("latestAt"), document.get("ownLastSeq")
    return FocusSource(
        number_member(document, "ordinal"),
        SummaryId(text_member(document, "summaryId")),
        text_member(document, "kind"),
        number_member(document, "depth"),
        number_member(document, "tokens"),
        Timestamp(latest) if isinstance(latest, str) else None,
        Timestamp(text_member(document, "createdAt")),
        seq if isinstance(seq, int) else None,
    )
