"""Focus briefs: texts over one question that replace the summaries they cover. Reading, plans and drafts.

What the engine writes when it makes, refreshes and removes a brief, row for row (docs/spec/focus.md);
activating an older one and deleting one are ours, by the same rules. The sweep that the engine forces around
it is compaction, and whoever requests a brief makes it with the same batch (docs/spec/focus.md,
"Ours: writing a brief").
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import convert

from lcm_core.base.errors import FileMissingError, NotFoundError, RefusedError
from lcm_core.base.files import drafts_folder, make_private, read_limited, reason_of, write_private
from lcm_core.base.javascript import Json, JsonObject
from lcm_core.base.records import Conversation, ConversationId, FocusBrief, Summary, SummaryId, Timestamp
from lcm_core.base.text import BLANKS, agree, clip, counted, safe_line
from lcm_core.base.times import sql_utc
from lcm_core.base.tokens import estimate
from lcm_core.base.values import Record, replace, to_json
from lcm_core.change.plan import Cell, Cells, Edit, Plan, insertion
from lcm_core.change.preview import rehearse
from lcm_core.engine.graph import BriefState, FocusInput, FocusSource, Watermark, newer_sources
from lcm_core.engine.rules import engine_rules
from lcm_core.engine.wrapper import FocusOverlay, SummaryReach, covered_by, overlay
from lcm_core.operations.rows import delete, update
from lcm_core.store import summaries as summary_store
from lcm_core.store.conversations import get_conversation
from lcm_core.store.database import Database, Reader
from lcm_core.store.focus import (
    BRIEFS,
    SOURCES,
    active_brief,
    active_in,
    brief_sources,
    context_reaches,
    context_sources,
    focus_input,
    has_briefs,
    list_briefs,
    read_reaches,
    read_role_counts,
    read_sources,
    read_states,
    state_of,
    stored_briefs,
)
from lcm_core.store.opening import Rows
from lcm_core.store.rows import StoredRow
from lcm_core.store.schema import Schema
from lcm_core.store.summaries import summaries_in
from lcm_core.writers.briefing import (
    BriefPassage,
    BriefQuestion,
    BriefText,
    Progress,
    WrittenBrief,
    cut_to,
    passage,
    write_brief,
)
from lcm_core.writers.cost import LimitReachedError, Model
from lcm_core.writers.request import MANUAL, SummarizerError, storable
from lcm_core.writers.retention import Retention, measure, read_retention_source
from lcm_core.writers.source import Rendering, source_of

# -- briefs as they are shown ----------------------------------------------------------------------------
# What each replaces, and whether it is stale.
#
# Source: docs/spec/focus.md; docs/spec/assembly.md, "What is sent".


class FocusEffect(Record, frozen=True):
    """What a brief does to a context: the summaries that are not sent, and what is sent for them."""

    covered: tuple[SummaryId, ...]  #: in the order of the context
    covered_tokens: int
    brief_tokens: int
    left: int  #: summaries of the context that it does not cover

    @property
    def saved(self) -> int:
        """Tokens; below 0 the brief is larger than what it replaces. 0 when it covers nothing."""
        return self.covered_tokens - self.brief_tokens if self.covered else 0

    @property
    def words(self) -> str:
        """The same as part of a sentence."""
        if not self.covered:
            return "no summary of the context is covered, so nothing is replaced"
        what = f"{counted(len(self.covered), 'summary')} ({self.covered_tokens:,} tokens)"
        saved = f"{self.saved:,} saved" if self.saved >= 0 else f"{-self.saved:,} more"
        return f"{self.brief_tokens:,} tokens replace {what}: {saved}"


class BriefEntry(Record, frozen=True):
    """A brief with what is around it."""

    brief: FocusBrief
    is_active: bool  #: it is the one that the engine uses
    state: BriefState
    effect: FocusEffect  #: on the context as it is now; of one that is not active, what it would do
    roles: Mapping[str, int]  #: how many summaries are recorded as its sources, by role

    @property
    def why_stale(self) -> tuple[str, ...]:
        """What came since, in words; empty: nothing did."""
        state = self.state
        found = []
        if state.context_changed:
            found.append("source context changed")
        newer = ((state.messages, "message"), (state.summaries, "summary"))
        if any(number for number, _ in newer):
            found.append(f"newer: {', '.join(counted(number, noun) for number, noun in newer if number)}")
        return tuple(found)


async def effect_of(reader: Reader, brief: FocusBrief) -> FocusEffect:
    """What a brief does to the context as it is now, or would do if it were in force."""
    owner = brief.conversation_id
    return _effect(brief, await context_sources(reader, owner), await context_reaches(reader, owner))


def _effect(
    brief: FocusBrief, present: Sequence[FocusSource], reaches: Sequence[SummaryReach]
) -> FocusEffect:
    under = covered_by(brief, reaches) if brief.content.strip(BLANKS) else []
    ids = frozenset(one.summary_id for one in under)
    covered = [one for one in present if one.summary_id in ids] if ids else []
    return FocusEffect(
        tuple(one.summary_id for one in covered),
        sum(one.tokens for one in covered),
        brief.tokens,
        len(present) - len(covered),
    )


class MeasuredBriefs(Record, frozen=True):
    """Briefs of a conversation with what is around them."""

    entries: tuple[BriefEntry, ...] = ()  #: newest first
    overlay: FocusOverlay | None = None  #: what the one in force does to the context; None: nothing


async def measure_briefs(
    reader: Reader,
    conversation_id: ConversationId,
    known: Sequence[FocusBrief],
    *,
    only: str | None = None,
    with_tokens: bool = False,
    zone: tzinfo | None = UTC,
) -> MeasuredBriefs:
    """What is around the briefs of a conversation, which are *known*, newest first. *only*: of one, by id.

    *with_tokens* counts the tokens that came since too, which takes its time in a large file. *zone* is that
    of the times in the overlay. It is one load, in a thread: a context may hold thousands of summaries.
    """
    return await reader.run(
        _read_measured, reader.schema, conversation_id, known, only=only, with_tokens=with_tokens, zone=zone
    )


def _read_measured(
    db: Rows,
    schema: Schema,
    conversation_id: ConversationId,
    known: Sequence[FocusBrief],
    *,
    only: str | None,
    with_tokens: bool,
    zone: tzinfo | None,
) -> MeasuredBriefs:
    briefs = [one for one in known if only is None or one.brief_id == only]
    if not briefs:
        return MeasuredBriefs()
    active = active_in(known)
    present = read_sources(db, schema, conversation_id)
    reaches = read_reaches(db, schema, conversation_id)
    states = read_states(db, schema, conversation_id, briefs, present, with_tokens=with_tokens)
    roles = read_role_counts(db, schema, conversation_id)
    entries = tuple(
        BriefEntry(
            one,
            one is active,
            states[one.brief_id],
            _effect(one, present, reaches),
            roles.get(one.brief_id, {}),
        )
        for one in briefs
    )
    return MeasuredBriefs(entries, None if active is None else overlay(active, reaches, zone))


async def load_briefs(
    reader: Reader,
    conversation_id: ConversationId,
    *,
    only: str | None = None,
    with_tokens: bool = False,
) -> tuple[BriefEntry, ...]:
    """The briefs of a conversation, newest first; none where this version has no briefs.

    *only* and *with_tokens* are those of `measure_briefs`.
    """
    known = await list_briefs(reader, conversation_id)
    found = await measure_briefs(reader, conversation_id, known, only=only, with_tokens=with_tokens)
    return found.entries


# -- requests for a brief --------------------------------------------------------------------------------

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


class FocusWish(Record, frozen=True):
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


# -- reading a request -----------------------------------------------------------------------------------


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
    """An id of the engine's form (docs/spec/format.md, "Identifiers")."""
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


# -- existing briefs -------------------------------------------------------------------------------------


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


# -- writing a brief -------------------------------------------------------------------------------------
# What its text is written from, the call, and a draft that waits for a decision.
#
# What is read is read in short transactions, and none is open during a call. A draft that was paid for is
# in a private file until it is committed or discarded.

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

    return await write_brief(model, question, expand, progress)


def call_failed(error: BaseException) -> bool:
    """Whether a call was made and no text came of it; one beyond the operator's limits is not made at all."""
    return isinstance(error, SummarizerError) and not isinstance(error, LimitReachedError)


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


class BriefDraft(Record, frozen=True):
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
            **to_json(text),
            "textHash": _hash_of(text.content),
            "coveredLatestAt": mark.latest_at,
            "coveredMessageSeq": mark.message_seq,
            "madeFrom": to_json(wish.made_from.sources),
            "wanted": [one.summary_id for one in wish.wanted],
            "earlier": None if wish.earlier is None else wish.earlier.brief_id,
            "batch": self.batch,
            "madeAt": self.made_at,
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
    place, found = drafts_folder() if folder is None else folder, list[BriefDraft]()
    for path in place.glob(f"{_BEGINNING}*{_ENDING}"):
        with contextlib.suppress(RefusedError, FileMissingError):
            found.append(read_draft(path))
    ours = (one for one in found if one.database == str(database.resolve()))
    return sorted(ours, key=lambda one: (one.made_at, str(one.path)), reverse=True)


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
    except (ValueError, RecursionError):
        raise RefusedError(
            f"{path} is not a draft of a focus brief. Nothing was changed.", code="DRAFT_INVALID"
        ) from None


class _DraftFile(Record, frozen=True):
    """What the file of a draft says beside its `BriefText`."""

    conversation_id: ConversationId
    kind: FocusKind
    prompt: str
    made_from: tuple[FocusSource, ...]
    wanted: frozenset[str]
    database: str
    made_at: str
    batch: str
    text_hash: str = ""
    covered_latest_at: Timestamp | None = None
    covered_message_seq: int | None = None


def _draft_of(document: Json, path: Path) -> BriefDraft:
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ValueError("format")
    if document.get("version") != _VERSION:
        raise ValueError("version")
    file, text = convert(document, _DraftFile), convert(document, BriefText)
    if file.kind not in (FocusKind.CREATE, FocusKind.REFOCUS):
        raise ValueError("kind")
    wish = FocusWish(
        file.conversation_id,
        file.kind,
        storable(file.prompt),
        FocusInput(file.made_from, Watermark(file.covered_latest_at, file.covered_message_seq)),
        tuple(one for one in file.made_from if one.summary_id in file.wanted),
    )
    # A person wrote the text when it is no longer the one that was written to the file.
    writer = text.writer if file.text_hash == _hash_of(text.content) else MANUAL
    text = replace(text, writer=writer or MANUAL).storable
    return BriefDraft(wish, text, file.database, file.made_at, file.batch, path)


def _hash_of(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
