"""Focus briefs: a text over one question in the place of the summaries that it covers.

What the engine writes when it makes, refreshes and takes away a brief, row for row (docs/engine/focus.md);
activating an older one and deleting one are ours, by the same rules. The sweep that the engine forces around
it is compaction, and whoever asks for a brief makes it with the same batch (docs/focus.md, "A new brief").
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from lcm_core.change.plan import Cell, Cells, Edit, Plan, insertion
from lcm_core.dag.focus import FocusInput, FocusSource, newer_sources
from lcm_core.engine_rules import engine_rules
from lcm_core.errors import NotFoundError, RefusedError
from lcm_core.focus_view import FocusEffect, effect_of
from lcm_core.javascript import BLANKS, JsonObject
from lcm_core.operations.drafting.draft import MANUAL, storable
from lcm_core.operations.rows import delete, update
from lcm_core.records import Conversation, ConversationId, FocusBrief, SummaryId, Timestamp
from lcm_core.store.briefs import active_brief, list_briefs
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Reader
from lcm_core.store.focus import (
    BRIEFS,
    SOURCES,
    brief_sources,
    focus_input,
    has_briefs,
    state_of,
    stored_briefs,
)
from lcm_core.store.rows import StoredRow
from lcm_core.store.summaries import summaries_in
from lcm_core.text import clip, safe_line
from lcm_core.times import sql_utc
from lcm_core.tokens import estimate
from lcm_core.wording import agree, counted

#: The size that the engine asks of a brief, and below which it warns.
TARGET_TOKENS: Final = 12_000
LEAST_TOKENS: Final = 7_200
#: Codes of refusals that a sweep may cure: it makes summaries of newer messages.
CURED_BY_SWEEP: Final = frozenset({"NO_SUMMARIES", "ALREADY_CURRENT"})
#: Characters of a question; more is no question.
MOST_PROMPT: Final = 4_000
_SHOWN: Final = 48


class FocusKind(StrEnum):
    """What is done to the briefs of a conversation, as the history calls it."""

    CREATE = "focus"
    REFOCUS = "refocus"
    FAILED = "focus-failed"
    ACTIVATE = "focus-activate"
    CLEAR = "unfocus"
    DELETE = "focus-delete"


@dataclass(frozen=True, slots=True)
class BriefText:
    """A text for a brief, and what its writer said of it."""

    content: str
    writer: str = MANUAL  #: the model, or `MANUAL` for a person
    cited: tuple[str, ...] = ()  #: ids, as they were given: none needs to be one of the conversation
    expanded: tuple[str, ...] = ()
    irrelevant: tuple[str, ...] = ()
    truncated: bool = False  #: something was left out
    notes: str = ""  #: what the writer said about how sure it is

    @property
    def raw(self) -> str | None:
        """What ``raw_result_json`` records; None for a text that a person wrote."""
        if self.writer == MANUAL:
            return None
        document: JsonObject = {
            "briefMarkdown": self.content,
            "citedSummaryIds": list(self.cited),
            "expandedSummaryIds": list(self.expanded),
            "irrelevantSummaryIds": list(self.irrelevant),
            "confidenceNotes": self.notes,
            "truncated": self.truncated,
        }
        return storable(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


@dataclass(frozen=True, slots=True)
class FocusWish:
    """A brief that is to be made: what it is about and what it is made from, read at one moment.

    The engine records the context from before it had the text written; so does a plan from this.
    """

    conversation_id: ConversationId
    kind: FocusKind  #: `FocusKind.CREATE` or `FocusKind.REFOCUS`
    prompt: str
    made_from: FocusInput
    wanted: tuple[FocusSource, ...]  #: those that the text is written from: for a refocus, the newer ones
    earlier: FocusBrief | None = None  #: the brief in force, which a refocus goes on from

    @property
    def tokens(self) -> int:
        """Of the summaries that it is written from."""
        return sum(one.tokens for one in self.wanted)


# -- reading ---------------------------------------------------------------------------------------------


def check_known_to_engine(reader: Reader) -> None:
    """Check that the engine of this file knows focus briefs.

    Raises:
        RefusedError: it does not.
    """
    if not has_briefs(reader):
        raise RefusedError(
            "The engine that wrote this database has no focus briefs: they came with 0.11.0. "
            "Nothing was changed.",
            code="NO_FOCUS_BRIEFS",
        )


async def read_wish(reader: Reader, conversation_id: ConversationId, prompt: str) -> FocusWish:
    """What a new brief about *prompt* would be made from.

    Raises:
        NotFoundError: there is no such conversation.
        RefusedError: it has no summary in its context, or the engine has no briefs.
        RefusedError: the prompt is blank or too long.
    """
    check_known_to_engine(reader)
    await get_conversation(reader, conversation_id)
    said = storable(prompt).strip(BLANKS)
    if not 0 < len(said) <= MOST_PROMPT:
        raise RefusedError(
            f"A brief needs a question of 1 to {MOST_PROMPT:,} characters, not {len(said):,}. "
            "Nothing was changed.",
            code="NO_PROMPT",
        )
    found = await focus_input(reader, conversation_id)
    if not found.sources:
        raise RefusedError(
            f"The context of conversation {conversation_id} has no summaries that a brief could replace: "
            "compact it first. Nothing was changed.",
            code="NO_SUMMARIES",
        )
    return FocusWish(conversation_id, FocusKind.CREATE, said, found, found.sources)


async def read_refocus(reader: Reader, conversation_id: ConversationId) -> FocusWish:
    """What the brief in force would be written again from: the summaries that came since.

    Raises:
        NotFoundError: there is no such conversation.
        RefusedError: no brief is in force, or nothing came since (``ALREADY_CURRENT``).
    """
    check_known_to_engine(reader)
    await get_conversation(reader, conversation_id)
    brief = await active_brief(reader, conversation_id)
    if brief is None:
        raise RefusedError(
            f"Conversation {conversation_id} has no active focus brief: create or activate one first. "
            "Nothing was changed.",
            code="NO_ACTIVE_BRIEF",
        )
    found = await focus_input(reader, conversation_id)
    delta = newer_sources(brief, found.sources)
    if not delta:
        raise RefusedError(
            f"Focus brief {brief.brief_id} is already current: no summary in the context is newer. "
            "Nothing was changed.",
            code="ALREADY_CURRENT",
        )
    return FocusWish(conversation_id, FocusKind.REFOCUS, brief.prompt, found, delta, brief)


async def get_brief(reader: Reader, conversation_id: ConversationId, brief_id: str) -> FocusBrief:
    """One brief of a conversation.

    Raises:
        NotFoundError: it has no brief of this id.
        RefusedError: the engine has no briefs.
    """
    check_known_to_engine(reader)
    found = next(
        (one for one in await list_briefs(reader, conversation_id) if one.brief_id == brief_id), None
    )
    if found is None:
        raise NotFoundError(
            f"Conversation {conversation_id} has no focus brief {brief_id}.",
            code="BRIEF_NOT_FOUND",
            details={"briefId": brief_id},
        )
    return found


def new_brief_id() -> str:
    """An id of the engine's form (docs/format.md, "Identifiers")."""
    return f"focus_{secrets.token_hex(8)}"


# -- a new brief -----------------------------------------------------------------------------------------


async def plan_brief(
    reader: Reader,
    wish: FocusWish,
    text: BriefText,
    *,
    brief_id: str | None = None,
    now: datetime | None = None,
    batch: str | None = None,
) -> Plan:
    """Put a text in force as the brief of a conversation; the one in force before is superseded.

    One row, a row for each of its sources, and every brief of the conversation that is active or a draft
    becomes ``superseded``. *now* is in UTC.

    Raises:
        RefusedError: the text is blank, or the engine has no briefs.
    """
    check_known_to_engine(reader)
    owner = await get_conversation(reader, wish.conversation_id)
    content = storable(text.content)
    if not content.strip(BLANKS):
        raise RefusedError("An empty text is not a focus brief. Nothing was changed.", code="EMPTY_TEXT")
    tokens = estimate(content, engine_rules(reader.schema).estimator)
    stamp = sql_utc(now or datetime.now(UTC))
    row = _row(wish, owner, stamp, text.writer, brief_id) | {
        "content": content,
        "status": "active",
        "token_count": tokens,
        "raw_result_json": replace(text, content=content).raw,
    }
    edits: list[Edit] = _superseded(await stored_briefs(reader, wish.conversation_id), stamp)
    sources, unknown = await _sources(reader, wish, text)
    edits += _inserted(reader, row, sources)
    effect = await effect_of(reader, _would_be(wish, content, tokens))
    verb = "Refocus" if wish.kind is FocusKind.REFOCUS else "Focus"
    return Plan(
        kind=wish.kind,
        title=f"{verb} conversation {wish.conversation_id} on {_said(wish.prompt)}: {effect.words}",
        conversation_id=wish.conversation_id,
        edits=tuple(edits),
        warnings=(
            *await _moved_on(reader, wish),
            *_about_text(tokens, text, unknown),
            *_about_effect(effect),
        ),
        batch=batch,
        select=str(row["brief_id"]),
    )


async def plan_failed_brief(
    reader: Reader,
    wish: FocusWish,
    error: str,
    writer: str,
    *,
    brief_id: str | None = None,
    now: datetime | None = None,
    batch: str | None = None,
) -> Plan:
    """Record that a model wrote no text: a ``failed`` row, as the engine leaves one; nothing is superseded.

    *error* is what happened, *writer* the model. *now* is in UTC.

    Raises:
        NotFoundError: the conversation is gone.
        RefusedError: the engine has no briefs.
    """
    check_known_to_engine(reader)
    owner = await get_conversation(reader, wish.conversation_id)
    stamp = sql_utc(now or datetime.now(UTC))
    row = _row(wish, owner, stamp, writer, brief_id) | {"status": "failed", "error": storable(error)}
    sources, _ = await _sources(reader, wish, BriefText(""))
    return Plan(
        kind=FocusKind.FAILED,
        title=f"Record a failed focus brief of conversation {wish.conversation_id} on {_said(wish.prompt)}",
        conversation_id=wish.conversation_id,
        edits=tuple(_inserted(reader, row, sources)),
        batch=batch,
        select=str(row["brief_id"]),
    )


def _row(
    wish: FocusWish, owner: Conversation, stamp: str, writer: str, brief_id: str | None
) -> dict[str, Cell]:
    """A row for a wish, without a text: what is the same whether one was written or not."""
    mark = wish.made_from.watermark
    return {
        "brief_id": brief_id or new_brief_id(),
        "conversation_id": wish.conversation_id,
        "session_key": owner.session_key,
        "prompt": storable(wish.prompt),
        "content": "",
        "status": "draft",
        "token_count": 0,
        "target_tokens": TARGET_TOKENS,
        "covered_latest_at": mark.latest_at,
        "covered_message_seq": mark.message_seq,
        "source_context_hash": wish.made_from.digest,
        "generator_run_id": storable(writer),
        "generator_session_key": None,
        "raw_result_json": None,
        "error": None,
        "created_at": stamp,
        "updated_at": stamp,
        "superseded_at": None,
    }


def _inserted(
    reader: Reader, row: Mapping[str, Cell], sources: Iterable[Mapping[str, Cell]]
) -> Iterator[Edit]:
    """A brief with what it was made from, in the columns that this file has."""
    yield insertion(BRIEFS, _of_schema(reader, BRIEFS, row))
    for one in sources:
        whole = {**one, "brief_id": row["brief_id"], "created_at": row["created_at"]}
        yield insertion(SOURCES, _of_schema(reader, SOURCES, whole))


async def plan_create_brief(
    reader: Reader,
    conversation_id: ConversationId,
    prompt: str,
    text: BriefText,
    *,
    now: datetime | None = None,
) -> Plan:
    """Put a text in force as the brief about *prompt*, made from the context as it is. *now* is in UTC.

    The engine sweeps the context first; that is compaction, and not in this plan.

    Raises:
        NotFoundError: there is no such conversation.
        RefusedError: it has no summary in its context, prompt or text are blank, or the engine has no briefs.
    """
    return await plan_brief(reader, await read_wish(reader, conversation_id, prompt), text, now=now)


async def effect_of_text(reader: Reader, wish: FocusWish, content: str) -> FocusEffect:
    """What a text would replace as the brief of its conversation, in the context as it is now."""
    tokens = estimate(storable(content), engine_rules(reader.schema).estimator)
    return await effect_of(reader, _would_be(wish, content, tokens))


def _would_be(wish: FocusWish, content: str, tokens: int) -> FocusBrief:
    mark, none = wish.made_from.watermark, Timestamp("")
    return FocusBrief(
        "",
        wish.conversation_id,
        wish.prompt,
        content,
        "active",
        tokens,
        TARGET_TOKENS,
        mark.latest_at,
        mark.message_seq,
        None,
        None,
        none,
        none,
    )


def _superseded(rows: Iterable[StoredRow], stamp: str) -> list[Edit]:
    """Supersede every brief that is active or a draft."""
    gone: Mapping[str, Cell] = {"status": "superseded", "superseded_at": stamp, "updated_at": stamp}
    return [update(BRIEFS, row, gone) for row in rows if row["status"] in ("active", "draft")]


def _of_schema(reader: Reader, table: str, row: Mapping[str, Cell]) -> Cells:
    """A row with the columns that this file has."""
    return Cells.of({name: value for name, value in row.items() if reader.schema.has(table, name)})


async def _sources(
    reader: Reader, wish: FocusWish, text: BriefText
) -> tuple[list[dict[str, Cell]], tuple[str, ...]]:
    """What the brief is recorded to be made from, and the ids of its writer that name no summary of it."""
    ordinals = {one.summary_id: one.ordinal for one in reversed(wish.made_from.sources)}
    named = {
        "cited": dict.fromkeys(text.cited),
        "expanded": dict.fromkeys(text.expanded),
        "irrelevant": dict.fromkeys(text.irrelevant),
    }
    asked = {SummaryId(one) for ids in named.values() for one in ids}
    used = {one.summary_id for one in wish.wanted}
    known = {
        one.summary_id
        for one in await summaries_in(reader, asked | used)
        if one.conversation_id == wish.conversation_id
    }
    rows: list[dict[str, Cell]] = [
        {"summary_id": one, "ordinal": ordinals[one], "role": "active_input"}
        for one in dict.fromkeys(one.summary_id for one in wish.wanted)
        if one in known
    ]
    rows += [
        {"summary_id": one, "ordinal": ordinals.get(SummaryId(one)), "role": role}
        for role, ids in named.items()
        for one in ids
        if one in known
    ]
    return rows, tuple(sorted(asked - known))


async def _moved_on(reader: Reader, wish: FocusWish) -> list[str]:
    """What to say when the context is another one than the text was written from."""
    present = await focus_input(reader, wish.conversation_id)
    if present.digest == wish.made_from.digest:
        return []
    return [
        "The context changed since the text was written: the brief covers what it was written from, and is "
        "stale from the start"
    ]


def _about_text(tokens: int, text: BriefText, unknown: Sequence[str]) -> list[str]:
    found: list[str] = []
    if text.truncated:
        found.append("The model reports that it omitted something")
    if text.writer != MANUAL and tokens < LEAST_TOKENS:
        asked = f"the engine asks for {TARGET_TOKENS:,} and warns below {LEAST_TOKENS:,}"
        found.append(f"It has {tokens:,} tokens; {asked}")
    if tokens > TARGET_TOKENS:
        found.append(f"It has {tokens:,} tokens, more than the {TARGET_TOKENS:,} that the engine asks for")
    if unknown:
        ids = ", ".join(safe_line(one) for one in unknown[:3])
        found.append(
            f"The model cited {counted(len(unknown), 'id')} of no summary of this conversation "
            f"({clip(ids, 80)}): not recorded"
        )
    return found


def _about_effect(effect: FocusEffect) -> list[str]:
    if effect.covered and effect.saved < 0:
        return ["The brief is larger than the summaries it replaces"]
    return []


def _said(prompt: str) -> str:
    return f'"{clip(safe_line(prompt.strip()), _SHOWN)}"'


# -- briefs that are there -------------------------------------------------------------------------------


async def plan_activate_brief(
    reader: Reader, conversation_id: ConversationId, brief_id: str, *, now: datetime | None = None
) -> Plan:
    """Put a brief that is there in force again; the one in force is superseded. *now* is in UTC.

    Raises:
        NotFoundError: the conversation has no such brief.
        RefusedError: it is in force, or has no text.
    """
    brief = await get_brief(reader, conversation_id, brief_id)
    if not brief.content.strip(BLANKS):
        why = "it failed" if brief.status == "failed" else "it is empty"
        raise RefusedError(
            f"Focus brief {brief_id} has no text ({why}): the engine would not send it. Nothing was changed.",
            code="EMPTY_TEXT",
        )
    in_force = await active_brief(reader, conversation_id)
    if in_force is not None and in_force.brief_id == brief_id:
        raise RefusedError(f"Focus brief {brief_id} is already active. Nothing was changed.")
    stamp = sql_utc(now or datetime.now(UTC))
    rows = await stored_briefs(reader, conversation_id)
    edits = _superseded([row for row in rows if row["brief_id"] != brief_id], stamp)
    here: Mapping[str, Cell] = {"status": "active", "superseded_at": None, "updated_at": stamp}
    edits += [update(BRIEFS, row, here) for row in rows if row["brief_id"] == brief_id]
    effect, state = await effect_of(reader, brief), await state_of(reader, brief)
    stale = [f"It is stale: {', '.join(state.reasons)}"] if state.outdated else []
    return Plan(
        kind=FocusKind.ACTIVATE,
        title=f"Activate focus brief {brief_id} on {_said(brief.prompt)}: {effect.words}",
        conversation_id=conversation_id,
        edits=tuple(edits),
        warnings=(*stale, *_about_effect(effect)),
        select=brief_id,
    )


async def plan_clear_brief(
    reader: Reader,
    conversation_id: ConversationId,
    *,
    now: datetime | None = None,
    batch: str | None = None,
) -> Plan:
    """Take the active brief out of force; it is kept, as the engine's ``unfocus`` does. *now* is in UTC.

    Raises:
        NotFoundError: there is no such conversation.
        RefusedError: no brief is active.
    """
    check_known_to_engine(reader)
    await get_conversation(reader, conversation_id)
    rows = [row for row in await stored_briefs(reader, conversation_id) if row["status"] == "active"]
    ids = [one.brief_id for one in await list_briefs(reader, conversation_id) if one.status == "active"]
    if not rows:
        raise RefusedError(
            f"Conversation {conversation_id} has no active focus brief. Nothing was changed.",
            code="NO_ACTIVE_BRIEF",
        )
    stamp = sql_utc(now or datetime.now(UTC))
    off: Mapping[str, Cell] = {"status": "inactive", "updated_at": stamp}
    brief = await active_brief(reader, conversation_id)
    back = ""
    if brief is not None and (effect := await effect_of(reader, brief)).covered:
        number = len(effect.covered)
        what = f"{counted(number, 'summary')} ({effect.covered_tokens:,} tokens)"
        back = f": {what} {agree(number, 'are')} sent again instead of {effect.brief_tokens:,}"
    which = f"focus brief {ids[0]}" if len(ids) == 1 else f"{len(ids):,} focus briefs"
    return Plan(
        kind=FocusKind.CLEAR,
        title=f"Clear {which} of conversation {conversation_id}{back}",
        conversation_id=conversation_id,
        edits=tuple(update(BRIEFS, row, off) for row in rows),
        batch=batch,
        select=ids[0] if ids else None,
    )


async def plan_delete_brief(reader: Reader, conversation_id: ConversationId, brief_id: str) -> Plan:
    """Delete a brief with what it was made from; the engine never does, and keeps them all.

    Raises:
        NotFoundError: the conversation has no such brief.
    """
    brief = await get_brief(reader, conversation_id, brief_id)
    rows = [row for row in await stored_briefs(reader, conversation_id) if row["brief_id"] == brief_id]
    warnings = []
    if brief.status == "active":
        warnings.append("It is active: the summaries it covers are sent again")
    return Plan(
        kind=FocusKind.DELETE,
        title=f"Delete focus brief {brief_id} on {_said(brief.prompt)} ({brief.status})",
        conversation_id=conversation_id,
        edits=(
            *delete(SOURCES, await brief_sources(reader, brief_id)),
            *delete(BRIEFS, rows),
        ),
        warnings=tuple(warnings),
    )
