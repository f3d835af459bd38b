"""Focus briefs in words: a list of them, one with what it replaces, and what a new one would be made from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo

from lcm_core.focus_view import BriefEntry
from lcm_core.operations.focus import BriefText, FocusKind, FocusWish
from lcm_core.summarize.retention import Retention
from lcm_core.wording import counted, some

from lcm_tui.views.blocks import Block, Cell, Column, Facts, Note, Prose, Table
from lcm_tui.views.units import moment_text

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


def briefs_blocks(entries: Sequence[BriefEntry], zone: tzinfo | None) -> list[Block]:
    """The briefs of a conversation, for people."""
    columns = (
        Column(""),
        Column("Brief"),
        Column("Status"),
        Column("Created", spare=3),
        Column("Tokens", right=True),
        Column("Saves", right=True),
        Column("State", spare=2, grows=True),
        Column("Question", grows=True),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            "*" if one.is_active else "",
            one.brief.brief_id,
            one.brief.status,
            moment_text(one.brief.created_at, zone),
            one.brief.tokens,
            f"{one.effect.saved:,}" if one.effect.covered else None,
            state_words(one),
            one.brief.prompt,
        )
        for one in entries
    ]
    blocks: list[Block] = [Table(columns, rows, title="Focus briefs", empty="No focus briefs.")]
    if any(one.is_active for one in entries):
        blocks.append(Note("* is active: the model receives it instead of the summaries it covers."))
    return blocks


def brief_blocks(entry: BriefEntry, zone: tzinfo | None) -> list[Block]:
    """One brief with its text, for people."""
    brief = entry.brief
    seq = "unknown" if brief.covered_message_seq is None else f"seq {brief.covered_message_seq:,}"
    facts: list[tuple[str, Cell]] = [
        ("Status", brief.status + (", sent to the model" if entry.is_active else "")),
        ("Question", brief.prompt),
        ("Created", moment_text(brief.created_at, zone)),
        ("Tokens", f"{brief.tokens:,} of {brief.target_tokens:,} asked for"),
        ("Covers to", f"{moment_text(brief.covered_latest_at, zone)}, {seq}"),
        ("Replaces" if entry.is_active else "Would replace", entry.effect.words),
    ]
    if entry.effect.covered:
        facts.append(("Covered", some(entry.effect.covered, 6)))
    facts.append(("State", state_words(entry)))
    if entry.state.tokens:
        facts.append(("Newer tokens", f"{entry.state.tokens:,}"))
    roles = ", ".join(f"{number:,} {role.replace('_', ' ')}" for role, number in entry.roles.items())
    facts += [("Sources", roles or "none recorded"), ("Written by", brief.generator_run_id)]
    if brief.superseded_at:
        facts.append(("Superseded", moment_text(brief.superseded_at, zone)))
    if brief.error:
        facts.append(("Error", brief.error))
    blocks: list[Block] = [Facts(facts, title=brief.brief_id)]
    blocks.append(Prose(brief.content, title="Text") if brief.content.strip() else Note("It has no text."))
    return blocks


def wish_blocks(wish: FocusWish) -> list[Block]:
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


def draft_blocks(text: BriefText, found: Retention | None) -> list[Block]:
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
