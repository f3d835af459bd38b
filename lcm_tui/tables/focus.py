"""Focus briefs for people: a list of them, one with what it replaces, and a new one while it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Final

from lcm_core.base.records import FocusBrief
from lcm_core.base.text import counted, some
from lcm_core.base.values import Record
from lcm_core.engine.wrapper import FocusOverlay
from lcm_core.operations.focus import TARGET_TOKENS, BriefEntry, FocusKind, FocusWish
from lcm_core.writers.briefing import BriefText
from lcm_core.writers.request import MANUAL
from lcm_core.writers.retention import Retention

from lcm_tui.flows.compaction import PlannedCompaction
from lcm_tui.flows.drafts import cost_text, forecast_text
from lcm_tui.flows.focus import BriefOnScreen, BriefOutlook
from lcm_tui.kit.spans import Block, Document, Span, StyleName, heading, text_field
from lcm_tui.tables.blocks import (
    PENDING,
    UNRECORDED,
    Cell,
    Facts,
    ListColumn,
    Note,
    OutputBlock,
    Prose,
    list_table,
    minute_text,
    moment_text,
)

# -- briefs in words -------------------------------------------------------------------------------------
# A list of them, one with what it replaces, and what a new one would be made from.

#: What is said when the sweep of the engine is left out.
NO_SWEEP = "--no-sweep skips the sweep that the engine would make."


def state_words(entry: BriefEntry) -> str:
    """Whether a brief is stale, and why; newer messages alone make none stale for an operator."""
    if not entry.brief.content.strip():
        return "no text"
    state = entry.state
    found = [f"stale: {', '.join(entry.why_stale)}"] if state.outdated else ["current"]
    if state.stale and not state.outdated:
        number, stay = counted(state.messages, "newer message"), "stays" if state.messages == 1 else "stay"
        found.append(f"{number} {stay} in the context as {'it is' if state.messages == 1 else 'they are'}")
    if state.truncated:
        found.append("truncated")
    return "; ".join(found)


class ListedBrief(Record, frozen=True):
    """A brief of the list."""

    brief: FocusBrief
    is_active: bool  #: it is the one that the engine uses
    entry: BriefEntry | None = None  #: with what is around it; None: not read yet


def _saves(one: ListedBrief) -> str | None:
    if one.entry is None:
        return PENDING
    effect = one.entry.effect
    return f"{effect.saved:,}" if effect.covered else None


def _saves_cell(value: str | None, _: ListedBrief, __: tzinfo | None) -> Span:
    return Span(value or UNRECORDED, "dim" if value in (None, PENDING) else "text")


def _state_cell(_: object, one: ListedBrief, __: tzinfo | None) -> Span:
    if not one.brief.content.strip():
        return Span("no text", "dim")
    if one.entry is None:
        return Span(PENDING, "dim")
    return Span("stale", "warn") if one.entry.state.outdated else Span("current", "ok")


def _replaces(one: ListedBrief) -> dict[str, Any] | None:
    if one.entry is None:
        return None
    effect = one.entry.effect
    held = {"summaries": list(effect.covered), "tokens": effect.covered_tokens}
    return {**held, "saved": effect.saved, "left": effect.left}


def _state(one: ListedBrief) -> dict[str, Any] | None:
    if one.entry is None:
        return None
    state = one.entry.state
    return {
        "stale": state.stale,
        "contextChanged": state.context_changed,
        "newerMessages": state.messages,
        "newerSummaries": state.summaries,
        "newerTokens": state.tokens,
        "truncated": state.truncated,
        "words": state_words(one.entry),
    }


def _time(stored: str | None, _: ListedBrief, zone: tzinfo | None) -> Span:
    return Span(minute_text(stored, zone))


_STATUS_STYLES: Final[Mapping[str, StyleName]] = {"active": "ok", "failed": "error", "draft": "warn"}
# fmt: off
#: All that lists say of a brief, in order.
BRIEF_COLUMNS: Final[tuple[ListColumn[ListedBrief, tzinfo | None], ...]] = (
    ListColumn("mark", "", 1, keep=99, heading=" ", value="is_active",
               text=lambda value: "*" if value else "",
               cell=lambda value, _, __: Span("●" if value else " ", "ok")),
    ListColumn("brief", heading="Brief", json="briefId", value="brief.brief_id"),
    ListColumn("conversation", json="conversationId", value="brief.conversation_id"),
    ListColumn("status", "status", 10, keep=98, heading="Status", json="status", value="brief.status",
               cell=lambda value, _, __: Span(value, _STATUS_STYLES.get(value, "dim"))),
    ListColumn("active", json="active", value="is_active"),
    ListColumn("question", json="prompt", value="brief.prompt"),
    ListColumn("created", "created", 16, keep=80, timed="at", heading="Created", spare=3, time=True,
               value="brief.created_at", cell=_time),
    ListColumn("covers", "covers to", 16, keep=50, value="brief.covered_latest_at", cell=_time),
    ListColumn("count", right=True, heading="Tokens", json="tokenCount", value="brief.tokens"),
    ListColumn("target", json="targetTokens", value="brief.target_tokens"),
    ListColumn("tokens", "tokens/target", 13, right=True, keep=60,
               value=lambda one: f"{one.brief.tokens:,}/{one.brief.target_tokens:,}"),
    ListColumn("latest", json="coveredLatestAt", value="brief.covered_latest_at"),
    ListColumn("seq", json="coveredMessageSeq", value="brief.covered_message_seq"),
    ListColumn("run", json="generatorRunId", value="brief.generator_run_id"),
    ListColumn("error", json="error", value="brief.error"),
    ListColumn("made", json="createdAt", time=True, value="brief.created_at"),
    ListColumn("updated", json="updatedAt", time=True, value="brief.updated_at"),
    ListColumn("superseded", json="supersededAt", value="brief.superseded_at"),
    ListColumn("replaces", json="replaces", value=_replaces),
    ListColumn("saves", "saves", 9, right=True, keep=70, heading="Saves", value=_saves,
               cell=_saves_cell),
    ListColumn("state", "state", 7, keep=85, value="is_active", cell=_state_cell),
    ListColumn("words", heading="State", spare=2, grows=True,
               value=lambda one: one.entry and state_words(one.entry)),
    ListColumn("around", json="state", value=_state),
    ListColumn("sources", json="sources", value=lambda one: one.entry and dict(one.entry.roles)),
    ListColumn("prompt", "prompt", 16, grows=True, keep=90, heading="Question", value="brief.prompt"),
    ListColumn("id", "id", 22, keep=30, value="brief.brief_id", cell=lambda value, _, __: Span(value, "key")),
)
# fmt: on


def briefs_blocks(entries: Sequence[ListedBrief], zone: tzinfo | None) -> list[OutputBlock]:
    """The briefs of a conversation, for people."""
    table = list_table(
        BRIEF_COLUMNS,
        entries,
        lambda stored: moment_text(stored, zone),
        title="Focus briefs",
        empty="No focus briefs.",
    )
    blocks: list[OutputBlock] = [table]
    if any(one.is_active for one in entries):
        blocks.append(Note("* is active: the model receives it instead of the summaries it covers."))
    return blocks


def brief_blocks(entry: BriefEntry, zone: tzinfo | None) -> list[OutputBlock]:
    """One brief with its text, for people."""
    text = entry.brief.content
    facts = Facts([*_brief_facts(entry.brief, entry, None, zone)], title=entry.brief.brief_id)
    return [facts, Prose(text, title="Text") if text.strip() else Note(_NO_TEXT)]


_NO_TEXT: Final = "It has no text."


def _brief_facts(
    brief: FocusBrief, entry: BriefEntry | None, overlay: FocusOverlay | None, zone: tzinfo | None
) -> Iterator[tuple[str, str | None]]:
    """What is known of a brief; *entry*: what is around it, if it is read; *overlay*: what it replaces."""
    seq = "unknown" if brief.covered_message_seq is None else f"seq {brief.covered_message_seq:,}"
    sent = entry is not None and entry.is_active
    yield "Status", brief.status + (", sent to the model" if sent else "")
    yield "Question", brief.prompt
    yield "Created", moment_text(brief.created_at, zone)
    yield "Tokens", f"{brief.tokens:,} of {brief.target_tokens:,} asked for"
    yield "Covers to", f"{moment_text(brief.covered_latest_at, zone)}, {seq}"
    if entry is None:
        yield "State", PENDING
    else:
        yield "Replaces" if entry.is_active else "Would replace", entry.effect.words
        if entry.effect.covered:
            place = "" if overlay is None else f" at ordinal {overlay.at_ordinal}"
            yield "Covered", some(entry.effect.covered, 6) + place
        yield "State", state_words(entry)
        if entry.state.tokens:
            yield "Newer tokens", f"{entry.state.tokens:,}"
        roles = ", ".join(f"{number:,} {role.replace('_', ' ')}" for role, number in entry.roles.items())
        yield "Sources", roles or "none recorded"
    yield "Written by", ", ".join(filter(None, (brief.generator_run_id, brief.generator_session_key))) or None
    if brief.superseded_at:
        yield "Superseded", moment_text(brief.superseded_at, zone)
    if brief.error:
        yield "Error", brief.error


def wish_blocks(wish: FocusWish) -> list[OutputBlock]:
    """What a brief would be made from, for people."""
    mark = wish.made_from.watermark
    seq = "" if mark.message_seq is None else f", to seq {mark.message_seq:,}"
    what = f"{counted(len(wish.wanted), 'summary')} ({wish.tokens:,} tokens){seq}"
    title = "Focus brief" if wish.kind is FocusKind.CREATE else "Refocus"
    facts: list[tuple[str, Cell]] = [("Question", wish.prompt), ("Made from", what)]
    if wish.earlier is not None:
        facts.append(("Replaces brief", f"{wish.earlier.brief_id} ({wish.earlier.tokens:,} tokens)"))
    whole = sum(one.tokens for one in wish.made_from.sources)
    facts.append(("Would replace", f"{counted(len(wish.made_from.sources), 'summary')} ({whole:,} tokens)"))
    return [Facts(facts, title=f"{title}, conversation {wish.conversation_id}")]


def draft_blocks(text: BriefText, found: Retention | None) -> list[OutputBlock]:
    """A text that was written for a brief, for people; *found*: what it keeps and invents."""
    facts: list[tuple[str, Cell]] = [("Written by", text.writer)]
    if text.cited or text.expanded:
        facts.append(("Summaries", f"{len(text.cited):,} cited, {len(text.expanded):,} expanded"))
    if found is not None:
        facts.append(("Names kept", f"{len(found.kept):,} of {len(found.kept) + len(found.lost):,}"))
        invented = some((one.text for one in found.invented), 6) if found.invented else "nothing found"
        facts.append(("Invented", invented))
    if text.notes:
        facts.append(("Notes of the model", text.notes))
    return [Facts(facts, title="Draft"), Prose(text.content, title="Text")]


# -- a brief to read -------------------------------------------------------------------------------------
# Its text with what is recorded of it, or what the model receives.


def brief_document(
    brief: FocusBrief, entry: BriefEntry | None, overlay: FocusOverlay | None, zone: tzinfo | None
) -> Document:
    """A brief with what is known of it, and its text."""
    stale = entry is not None and entry.state.outdated
    return (
        Block(spans=(Span(brief.brief_id, "title"),)),
        *(
            text_field(name.lower(), value or UNRECORDED, "warn" if stale and name == "State" else "text")
            for name, value in _brief_facts(brief, entry, overlay, zone)
            if name not in ("Status", "Created", "Tokens")  # the list beside it shows them
        ),
        Block(),
        Block(brief.content) if brief.content.strip() else Block(_NO_TEXT, "dim"),
    )


def sent_document(overlay: FocusOverlay) -> Document:
    """The message that the model gets for a brief."""
    return (heading("role: user"), Block(overlay.text))


# -- a draft ---------------------------------------------------------------------------------------------
# A new brief as its screen shows it: what is due, what it costs and replaces, and its text.

LEFT_OUT = "skipped; the engine would sweep first"


def sweep_text(sweep: PlannedCompaction) -> str:
    """The passes of a sweep, and what they cost."""
    seen, cost = sweep.forecast, sweep.cost
    if not seen.passes:
        return "nothing to compact"
    passes, about = counted(len(seen.passes), "pass"), "~" if cost else ""
    return f"{passes}, {seen.tokens_before:,} → ~{seen.tokens_after:,} tokens, cost {about}{cost_text(cost)}"


def head_blocks(work: BriefOnScreen, outlook: BriefOutlook | None, failure: str) -> list[Block]:
    """What is due, who writes, and what the brief replaces."""
    blocks = [_fact("question", work.prompt)]
    if failure:
        blocks.append(_said(failure, "error"))
    if outlook is None:
        return blocks
    blocks += [_said(one, "error") for one in (outlook.refusal, outlook.problem) if one]
    blocks += _facts(work, outlook)
    return blocks


def _facts(work: BriefOnScreen, outlook: BriefOutlook) -> Iterator[Block]:
    wish, draft, found = outlook.wish, work.draft, work.retention
    if work.sweeps and work.sweep is not None:
        yield _fact("sweep", sweep_text(work.sweep))
    elif work.draft is None or not work.draft.batch:
        yield _fact("sweep", LEFT_OUT)
    if wish is not None:
        yield _fact("from", f"{counted(len(wish.wanted), 'summary')}, {wish.tokens:,} tokens")
    if draft is None:
        if wish and work.author is not None and work.budget is not None and outlook.cost is not None:
            said = forecast_text(outlook.cost, work.budget)
            yield _fact("writer", f"{work.author.words}: {said}")
        return
    if outlook.effect is not None:
        yield _fact("saves", outlook.effect.words)
    text = draft.text
    yield _fact("writer", "you (manual)" if text.writer == MANUAL else text.writer)
    if found is not None:
        kept = f"{len(found.kept):,} of {counted(len(found.kept) + len(found.lost), 'name')} kept"
        invented = some((one.text for one in found.invented), 4) if found.invented else "nothing found"
        yield _fact("text", f"{kept}; invented: {invented}")
    if text.truncated:
        yield _said("The model reports that it omitted something.", "warn")
    if wish is not None and wish.made_from.digest != draft.wish.made_from.digest:
        yield _said("The context changed since it was written: the brief will be stale.", "warn")


def text_document(work: BriefOnScreen, keys: Mapping[str, str]) -> Document:
    """The text, or how it comes about."""
    if work.busy:
        return (Block(work.busy, "dim"),)
    if work.draft is not None:
        return (Block(work.draft.text.content),)
    lines = []
    if work.author is None:
        lines.append(
            "No model is configured (config.toml: [summary] provider, model), and the offline writer answers "
            "no questions: write it yourself."
        )
    else:
        lines.append(f"{keys['apply']}: {work.author.words} writes it, at most {TARGET_TOKENS:,} tokens.")
    if work.failed is not None:
        lines.append(f"{keys['choice-2']}: record the failed call as a failed brief, as the engine does.")
    lines.append(f"{keys['edit']}: write it here. {keys['edit-outside']}: write it in $EDITOR.")
    return tuple(Block(line, "dim") for line in ("There is no text yet.", *lines))


def _fact(name: str, value: str) -> Block:
    return Block(spans=(Span(" "), Span(f"{name:<9}", "dim"), Span(value)), indent=10)


def _said(text: str, style: StyleName) -> Block:
    return Block(spans=(Span(" "), Span(text, style)), indent=1)
