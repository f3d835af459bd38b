"""A batch of drafts in words: what is said of a summary, and above all of them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from lcm_core.operations.drafting.items import BatchItem, BatchProgress, ItemState
from lcm_core.records import SummaryId
from lcm_core.summarize.request import Usage
from lcm_core.wording import counted

from lcm_tui.widgets.composition import gauge
from lcm_tui.widgets.spans import Line, Span, StyleName
from lcm_tui.writing import spent_text

#: States and how they look.
STATE_STYLES: Final[dict[ItemState, StyleName]] = {
    ItemState.WAITING: "dim",
    ItemState.DRAFTING: "title",
    ItemState.REVIEW: "warn",
    ItemState.COMMITTED: "ok",
    ItemState.SKIPPED: "dim",
    ItemState.FAILED: "error",
}
GAUGE: Final = 20


#: How states are called where that is another word.
_STATE_WORDS: Final = MappingProxyType({ItemState.COMMITTED: "applied"})


def state_text(state: ItemState) -> str:
    """A state in the words of the screen: what was committed is applied."""
    return _STATE_WORDS.get(state, state.value)


def reason_text(item: BatchItem) -> str:
    """Why a summary is in the batch; of one that is replaced, why it was."""
    applied = item.state is ItemState.COMMITTED and item.reason
    return f"was {item.reason}" if applied else item.reason


#: What the reasons mean, for who sees them for the first time (docs/engine/doctor.md, the table of markers).
MEANINGS: Final = MappingProxyType(
    {
        "old": "a cut of its source, as the oldest engines stored it",
        "fallback": "a cut of its source: the model failed or gave nothing",
        "truncated": "a cut of its source: no attempt was shorter",
        "emergency": "a cut of its source: no model was found",
        "empty": "no text",
        "error": "an error of the provider, no summary",
        "copy": "the beginning of its source, no summary",
        "capped": "cut at the size limit",
        "reasoning": "reasoning of the model, no summary",
        "refusal": "the model refused",
        "wordless": "no words",
        "contaminated": "made from a broken summary",
    }
)


def rule_sentences(items: Sequence[BatchItem]) -> Sequence[str]:
    """What a rule is applied to: the drafts that wait, and, without another question, those to come."""
    review = sum(one.state is ItemState.REVIEW for one in items)
    to_come = sum(one.state in {ItemState.WAITING, ItemState.DRAFTING, ItemState.FAILED} for one in items)
    now = counted(review, "draft") if review else "no draft"
    said = [f"Applies to this batch only, now to {now} to review."]
    if to_come:
        one = to_come == 1
        drafts = "its draft when it arrives" if one else "their drafts when they arrive"
        said.append(
            f"{counted(to_come, 'summary')} of the batch {'has' if one else 'have'} no draft yet: the rule "
            f"stays in force and accepts {drafts}, without asking again."
        )
    return said


def tokens_sentence(items: Sequence[BatchItem], in_context: Container[SummaryId]) -> str:
    """What the drafts that wait would add to the contexts, were all accepted; empty: none is in one."""
    waiting = [one for one in items if one.state is ItemState.REVIEW and one.summary_id in in_context]
    changes = [one.draft.tokens - one.tokens for one in waiting if one.draft is not None]
    if not changes:
        return ""
    change = sum(changes)
    verb = "adds" if change >= 0 else "takes"
    to = "to" if change >= 0 else "from"
    one = len(changes) == 1
    which, them = ("replaces a summary", "it") if one else ("replace summaries", "all of these")
    return (
        f"Of the drafts to review, {len(changes):,} {which} of a context: accepting {them} "
        f"{verb} {abs(change):,} tokens {to} the contexts."
    )


def why_text(item: BatchItem) -> str:
    """Why a summary is as far as it is; without a reason who wrote its draft, and what was found of that."""
    draft = item.draft or (item.drafts[-1] if item.drafts else None)
    if draft is None or item.why:
        return item.why
    more = f"{len(item.drafts)} drafts, " if len(item.drafts) > 1 else ""
    return f"{more}{draft.model}" + (", " + draft.verdict.sentences[0] if draft.verdict.sentences else "")


def whole_text(item: BatchItem) -> str:
    """All that a row says in words: why the summary is in the batch, and why it is as far as it is."""
    meaning = MEANINGS.get(item.reason)
    reason = f"{reason_text(item)} ({meaning})" if meaning else reason_text(item)
    return " · ".join(filter(None, (f"{reason}, {state_text(item.state)}".lstrip(", "), why_text(item))))


@dataclass(frozen=True, slots=True)
class BatchState:
    """What is known of a batch."""

    who: str  #: who is asked
    key: str  #: with which key, masked
    broken: int  #: broken summaries that are listed, as the first screen and the checks count them
    marked: int  #: summaries
    contaminated: int  #: summaries that were made from broken ones and are not marked
    estimate: str  #: what it takes, before it begins
    progress: BatchProgress | None  #: None: it has not begun
    spent: Usage
    running: bool
    rule: str  #: by which drafts are accepted unseen; empty: by none
    trouble: str  #: why it stopped


def head_lines(state: BatchState) -> Iterator[Line]:
    """Five lines: who is asked, with which key; what it takes, or how far it is; what is to be known."""
    progress = state.progress
    yield (Span(f" {state.who}"),)
    cost = "" if progress is None else f" · cost so far: {spent_text(state.spent)}"
    yield (Span(f" {state.key}{cost}", "dim"),)
    if progress is None:
        apart = f" · {state.contaminated:,} more depend on them (1 marks them)" if state.contaminated else ""
        yield (Span(f" {_chosen(state)}", "title"), Span(apart, "warn"))
        yield (Span(f" {state.estimate or 'nothing to estimate'}", "dim"),)
        yield (Span(" Not started. P shows the cost and asks before starting.", "dim"),)
        return
    yield (Span(" "), *_bar(progress), Span(f"  {pace(progress, running=state.running)}"))
    yield tuple(_counts(progress))
    if state.trouble:
        yield (Span(f" {state.trouble}", "error"),)
    elif state.rule:
        yield (Span(f" Rule in force, new drafts too: {state.rule.removeprefix('accept when ')}.", "warn"),)
    else:
        yield (Span(" enter: review · a: preview and apply · A: accept by rule", "dim"),)


def _chosen(state: BatchState) -> str:
    """How many are broken, and how many are marked."""
    if not state.broken:
        return f"{state.marked:,} marked"
    marked = "all" if state.marked == state.broken else f"{state.marked:,}"
    return f"{counted(state.broken, 'broken summary')}, {marked} marked"


def _bar(progress: BatchProgress) -> Line:
    done = progress.done / progress.total if progress.total else 1.0
    return (*gauge(done, GAUGE), Span(f" {progress.done:,} of {progress.total:,} drafted"))


def pace(progress: BatchProgress, *, running: bool) -> str:
    """Rate and remaining time."""
    said = []
    rate, left = progress.per_minute, progress.remaining
    if running and rate is not None:
        said.append(f"{rate:,.0f} a minute")
    if running and left is not None and progress.done < progress.total:
        said.append(f"about {left:,.0f} s left" if left < 100 else f"about {left / 60:,.0f} min left")
    if not running and progress.counts.get(ItemState.WAITING, 0):
        decide = progress.counts.get(ItemState.REVIEW, 0) + progress.counts.get(ItemState.FAILED, 0)
        said.append(f"{decide:,} to review" if decide else "paused")
    return " · ".join(said)


def _counts(progress: BatchProgress) -> Iterator[Span]:
    yield Span(" ")
    for state in ItemState:
        count = progress.counts.get(state, 0)
        if count:
            yield Span(f"{count:,} {state_text(state)}   ", STATE_STYLES[state])
