"""Drafts of summaries for people: who writes, a batch and its progress."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import compress
from types import MappingProxyType
from typing import Final

from lcm_core.base.diff import compare_texts, unified_text
from lcm_core.base.records import SummaryId
from lcm_core.base.text import counted, depth_name, some
from lcm_core.base.values import Record, replace, to_json
from lcm_core.operations.drafting import BatchItem, BatchProgress, Draft, DraftOrigin, ItemState, Material
from lcm_core.operations.drafts import AcceptanceRule, MeasuredDraft
from lcm_core.operations.repair import ABOVE_STALE, CONTAMINATED, STALE
from lcm_core.writers.acceptance import DraftFault, reversal_sentence
from lcm_core.writers.cost import CallLoad, Spent, total_forecast
from lcm_core.writers.request import Usage
from lcm_core.writers.retention import Assessment, Checked, Retention, assess

from lcm_tui.flows.drafts import DraftForecast, Modelling, cost_text, most_text, spent_text
from lcm_tui.kit.spans import Line, Span, StyleName, depth_style
from lcm_tui.tables.blocks import Cell, Facts, ListColumn, Note, OutputBlock, Prose, list_table, seconds_text
from lcm_tui.tables.composition import gauge

# -- the writer ------------------------------------------------------------------------------------------


def model_facts(model: Modelling, name: str = "Model") -> list[tuple[str, Cell]]:
    """Who is asked and with which key."""
    headers, price = model.chosen.headers, model.chosen.price
    told = {
        name: model.words,
        "Key": model.key,
        "Headers": headers and f"{', '.join(headers.names)} from {headers.origin}",
        "Price": price and price.words,
    }
    return [(name, words) for name, words in told.items() if words]


def writer_facts(model: Modelling) -> list[tuple[str, Cell]]:
    """Who writes summaries."""
    return [*model_facts(model, "Written by"), *(("Prompts", note) for note in model.prompt_notes)]


# -- the lists -------------------------------------------------------------------------------------------
# What is said of a summary in a batch: on the screen, in tables of commands, and in JSON.


def _change(item: BatchItem) -> str:
    return f"{item.tokens:,}" if item.draft is None else f"{item.tokens:,} → {item.draft.tokens:,}"


def _previous_words(one: DraftForecast) -> str | None:
    words, skipped = ", ".join(_previous_ids(one)), [skip["summaryId"] for skip in _skipped(one)]
    if skipped:
        words += f"{' ' if words else ''}(not {', '.join(skipped[:2])}: broken)"
    return words or None


def _previous_ids(one: DraftForecast) -> list[SummaryId]:
    return [node.summary_id for node in one.material.previous.nodes]


def _skipped(one: DraftForecast) -> list[dict[str, str]]:
    return [to_json(skip) for skip in one.material.previous.passed_over if "broken" in skip.reason]


def _source_ids(one: DraftForecast) -> list[int | str]:
    source = one.material.source
    messages = [message.message.message_id for message in source.messages]
    return [*messages, *(summary.summary.summary_id for summary in source.summaries)]


def _findings(item: BatchItem) -> str | None:
    return " ".join(item.draft.sentences) or None if item.draft is not None else None


def _key(number: int, *_: object) -> Span:
    return Span(str(number), "key")


def _depth(depth: int, *_: object) -> Span:
    return Span(depth_name(depth), depth_style(depth))


def _dim(text: str, *_: object) -> Span:
    return Span(text, "dim")


def _state(state: ItemState, *_: object) -> Span:
    return Span(state_text(state), STATE_STYLES[state])


def _size(draft: Draft | None, *_: object) -> Span:
    return Span("" if draft is None else f"{draft.tokens:,} tok")


_SUMMARY: Final = ListColumn[BatchItem, None](
    "summary", "summary", 20, keep=9, heading="Summary", json="summaryId", value="summary_id"
)
_DEPTH: Final = ListColumn[BatchItem, None]("level", right=True, heading="Depth", json="depth", value="depth")
_CHANGE: Final = ListColumn[BatchItem, None]("change", right=True, heading="Tokens", value=_change)
_MODEL: Final = ListColumn[BatchItem, None](
    "model", heading="Model", spare=1, value=lambda item: item.draft and item.draft.model
)
#: What a summary is before it is drafted.
WAITING_COLUMNS: Final[tuple[ListColumn[BatchItem, None], ...]] = (
    _SUMMARY,
    ListColumn("owner", json="conversationId", value="conversation_id"),
    _DEPTH,
    ListColumn("size", json="tokens", value="tokens"),
    ListColumn("cause", json="reason", value=lambda item: item.reason or None),
    ListColumn("after", json="after", value=lambda item: list(item.after)),
)
#: What is said of it besides: in the app in its own words, then by commands.
ITEM_COLUMNS: Final[tuple[ListColumn[BatchItem, None], ...]] = (
    *WAITING_COLUMNS,
    ListColumn("conversation", "conv", 4, right=True, keep=9, value="conversation_id", cell=_key),
    ListColumn("depth", "kind", 4, right=True, keep=2, value="depth", cell=_depth),
    ListColumn("reason", "reason", 13, keep=8, value=lambda item: reason_text(item), cell=_dim),
    ListColumn("state", "state", 9, keep=7, value="state", cell=_state),
    ListColumn("tokens", "tokens", 6, right=True, keep=3, value=lambda item: f"{item.tokens:,}", cell=_dim),
    ListColumn("draft", "draft", 9, right=True, keep=6, value="draft_in_sight", cell=_size),
    ListColumn("why", "", 20, grows=True, keep=5, value=lambda item: why_text(item), cell=_dim),
    ListColumn("status", heading="State", json="state", value="state.value"),
    _CHANGE,
    _MODEL,
    ListColumn("operation", heading="Operation", spare=2, value="operation"),
    ListColumn("note", grows=True, heading="Why", json="why", value=lambda item: item.why or None),
    ListColumn("applied", json="operationId", value="operation"),
    ListColumn("chosen", json="chosen", value="chosen"),
)
_TAKEN_COLUMNS: Final[tuple[ListColumn[BatchItem, None], ...]] = (
    _SUMMARY,
    _DEPTH,
    _CHANGE,
    replace(_MODEL, spare=0),
    ListColumn("found", grows=True, heading="Found", value=_findings),
)
FORECAST_COLUMNS: Final[tuple[ListColumn[DraftForecast, None], ...]] = (
    ListColumn("summary", heading="Summary", value="item.summary_id"),
    ListColumn("conversation", right=True, heading="Conv", spare=2, value="item.conversation_id"),
    ListColumn("depth", right=True, heading="Depth", value="item.depth"),
    ListColumn("reason", heading="Why", value=lambda one: reason_text(one.item) or None),
    ListColumn("tokens", right=True, heading="Now", value="item.tokens"),
    ListColumn("size", json="sourceTokens", value="source_tokens"),
    ListColumn("target", right=True, heading="Target", json="targetTokens", value="request.target_tokens"),
    ListColumn("source", right=True, heading="Source", value="source_tokens"),
    ListColumn("sources", json="sources", value=_source_ids),
    ListColumn("gone", json="gone", value=lambda one: list(one.material.source.gone)),
    ListColumn("broken", json="brokenSources", value=lambda one: list(one.broken_sources)),
    ListColumn("previous", grows=True, heading="Previous context", spare=1, value=_previous_words),
    ListColumn("given", json="previous", value=_previous_ids),
    ListColumn("skipped", json="previousSkipped", value=_skipped),
    ListColumn("input", json="inputTokens", value="forecast.once.input_tokens"),
    ListColumn("output", json="outputTokens", value="forecast.once.output_tokens"),
)

# -- on the command line ---------------------------------------------------------------------------------
# What would be requested, what came of it, what is to be decided.

#: Rows of a table for people; the whole of it is in the JSON.
MOST = 200


def spent_words(spent: Spent) -> str:
    """What a batch has taken in all its runs."""
    return f"Spent on this batch so far: {counted(spent.calls, 'call')}, {cost_words(spent.usage)}."


def draft_forecast_blocks(
    seen: Sequence[DraftForecast], most: CallLoad, model: Modelling, words: str
) -> list[OutputBlock]:
    """What would be asked, of whom, and what it would cost; *most* is all of it, as far as limits let it."""
    once = total_forecast(one.forecast for one in seen).once
    facts = [*writer_facts(model), *cost_facts(once, most), ("Auto-accept", words)]
    blocks: list[OutputBlock] = [list_table(FORECAST_COLUMNS, seen[:MOST]), Facts(facts)]
    if len(seen) > MOST:
        blocks.append(Note(f"{len(seen) - MOST:,} more are not shown; --json shows them all."))
    lost = [one.item.summary_id for one in seen if one.material.source.gone]
    if lost:
        blocks.append(Note(f"Sources of {', '.join(lost[:3])} are missing: no draft can cover them."))
    spoilt = [one for one in seen if one.broken_sources]
    if spoilt:
        sources = list(dict.fromkeys(source for one in spoilt for source in one.broken_sources))
        made = "1 of these is" if len(spoilt) == 1 else f"{len(spoilt):,} of these are"
        blocks.append(
            Note(
                f"{made} made from broken summaries ({some(sources)}): "
                "repair those first, or the gap remains."
            )
        )
    for one in seen:
        if one.prompt is not None:
            blocks.append(Prose(one.prompt.system, title=f"{one.item.summary_id}: system"))
            blocks.append(Prose(one.prompt.user, title=f"{one.item.summary_id}: request"))
    return blocks


def cost_facts(
    once: CallLoad,
    most: CallLoad,
    again: str = "retries and second answers",
    when: str = "every first answer is accepted",
) -> list[tuple[str, Cell]]:
    """What it takes, and at most, with what is asked *again*; *when*: that it takes no more than that."""
    if not once.calls:
        return [("Cost", "nothing")]
    cost = f"~{cost_text(once.cost_usd)}" if once.cost_usd else cost_text(once.cost_usd)
    return [
        ("Calls", f"{once.calls:,}; at most {most.calls:,}, including {again}"),
        ("Sent", f"~{once.input_tokens:,} tokens; at most {most.input_tokens:,}"),
        ("Answers", f"up to {once.output_tokens:,} tokens; at most {most.output_tokens:,}"),
        ("Cost", f"{cost} if {when}"),
        ("Cost at most", most_text(most.cost_usd)),
    ]


def outcome_blocks(
    items: Sequence[BatchItem], progress: BatchProgress, spent: Spent, undo: str
) -> list[OutputBlock]:
    """What came of a batch, and what all its calls took, those without a draft too."""
    counts = ", ".join(
        f"{progress.counts[state]:,} {state}" for state in ItemState if progress.counts.get(state)
    )
    facts: list[tuple[str, Cell]] = [
        ("Summaries", counts),
        ("Cost of the drafts", cost_words(progress.usage)),
        ("Total cost", f"{counted(spent.calls, 'call')}, {cost_words(spent.usage)}"),
    ]
    if undo:
        facts.append(("To undo all of it", undo))
    return [list_table(ITEM_COLUMNS, items[:MOST]), Facts(facts), *_three_way_blocks(items)]


def _three_way_blocks(items: Sequence[BatchItem]) -> Iterator[OutputBlock]:
    """What became of the text that a draft was made over: there, and in the draft."""
    for item in items[:MOST]:
        if item.theirs is not None and item.draft is not None:
            base = item.draft.base.content
            for words, text in (
                ("what changed since it was drafted", item.theirs),
                ("what the draft would change", item.draft.text),
            ):
                yield Prose(
                    "\n".join(unified_text(compare_texts(base, text))), title=f"{item.summary_id}: {words}"
                )


def taken_blocks(items: Sequence[BatchItem]) -> list[OutputBlock]:
    """What would be taken from a file of drafts."""
    rows = [item for item in items[:MOST] if item.draft is not None]
    return [list_table(_TAKEN_COLUMNS, rows)]


def cost_words(usage: Usage) -> str:
    """What was spent, for people."""
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    cost = spent_text(usage)
    return f"{cost} ({tokens})" if usage.input_tokens else cost


def progress_line(progress: BatchProgress, spent: Spent) -> str:
    """How far a batch has come and what it took, on one line."""
    words = f"{progress.done:,} of {progress.total:,} drafted, {progress.in_flight} in flight"
    if progress.per_minute is not None:
        words += f", {progress.per_minute:.0f}/min"
    if progress.remaining:
        words += f", about {seconds_text(progress.remaining)} left"
    if spent.usage.cost_usd:
        words += f", {spent_text(spent.usage)}"
    return words


def draft_blocks(
    item: BatchItem,
    draft: Draft,
    material: Material,
    kept: Retention,
    now: Retention | None,
    below: Retention | None,
) -> list[OutputBlock]:
    """A draft to decide on: what changes, what was found, what it keeps, also of the messages *below*.

    *now*: what the present text keeps.
    """
    title = (
        f"{item.summary_id} (depth {item.depth}): {item.tokens:,} to {draft.tokens:,} tokens by {draft.model}"
    )
    changed = "\n".join(unified_text(compare_texts(material.base.content, draft.text)))
    blocks: list[OutputBlock] = [Prose(changed, title=title)]
    if draft.origin is DraftOrigin.FALLBACK:
        blocks.append(Note("This is the truncated source: every answer was rejected."))
    blocks += [Note(assessment_of(draft, material, kept, now).sentence), *map(Note, draft.sentences)]
    if kept.reversed and DraftFault.REVERSED not in draft.faults:
        blocks.append(Note(reversal_sentence(kept.reversed)))
    of_messages = [] if below is None else [("and of the messages below", _share(below))]
    blocks.append(
        Facts(
            [
                ("Kept of what matters most", _share(kept)),
                *of_messages,
                ("Invented", some([one.text for one in kept.invented], 6) or "nothing"),
                ("Rules", _rules(kept)),
                ("Lost", some([one.text for one in kept.lost], 6) or "nothing"),
            ]
        )
    )
    return blocks


def assessment_of(draft: Draft, material: Material, kept: Retention, now: Retention | None) -> Assessment:
    """What the numbers say of a draft; a broken text is nothing that it could be worse than."""
    return assess(kept, None if material.broken else now, cautions=bool(draft.sentences))


def _share(kept: Retention) -> str:
    return "nothing to keep" if kept.share is None else f"{kept.share * 100:.0f} %"


def _rules(kept: Retention) -> str:
    """How many came through, and the ones that did not."""
    checked = kept.rules_checked
    if checked is Checked.NONE:
        return checked.words
    said = f"{kept.constraints_kept:,} of {kept.constraints:,} kept"
    said += f" ({checked.words})" if checked.words else ""
    if kept.reversed:
        said += f"; reversed: {some([f'{one.rule.text} ({one.words})' for one in kept.reversed], 6)}"
    if kept.constraints_lost:
        said += f"; lost: {some([one.text for one in kept.constraints_lost], 6)}"
    return said


# -- the queue -------------------------------------------------------------------------------------------
# What is said of a summary in a batch, and above all of them.

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
    reason = {CONTAMINATED: "from broken", ABOVE_STALE: "from stale"}.get(item.reason, item.reason)
    return f"was {reason}" if item.state is ItemState.COMMITTED and reason else reason


#: What the reasons mean, for who sees them for the first time (docs/spec/doctor.md, the table of markers).
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
        CONTAMINATED: "made from a broken summary",
        STALE: "made from a text that was replaced since",
        ABOVE_STALE: "made from a stale summary",
    }
)


class Passing:
    """The drafts to review that pass a rule; each is measured once, for any number of rules."""

    def __init__(self, items: Iterable[BatchItem]) -> None:
        """None of the drafts of *items* is measured yet."""
        states = {ItemState.WAITING, ItemState.DRAFTING, ItemState.FAILED}
        self._to_come = [one.summary_id for one in items if one.state in states]
        self._tokens = {one.summary_id: one.tokens for one in items if one.state is ItemState.REVIEW}
        self.measured: list[MeasuredDraft] = []
        self.done = False  #: all are measured
        self._passes: dict[AcceptanceRule, list[bool]] = {}

    def _drafts(self, rule: AcceptanceRule) -> list[Draft]:
        passes = self._passes.setdefault(rule, [])
        passes += [not one.objections(rule) for one in self.measured[len(passes) :]]
        return [one.draft for one in compress(self.measured, passes)]

    def text(self, rule: AcceptanceRule) -> str:
        """The number, "12 of 19 drafts pass", or how far the check is: a number of some would mislead."""
        if not self._tokens:
            return "No draft is to be reviewed yet"
        drafts = counted(len(self._tokens), "draft")
        if not self.done:
            return f"{len(self.measured):,} of {drafts} checked so far"
        passed = len(self._drafts(rule))
        return f"{passed:,} of {drafts} {'passes' if passed == 1 else 'pass'}"

    def sentences(self, rule: AcceptanceRule, in_context: Container[SummaryId]) -> Iterator[str]:
        """What *rule* applies to: the drafts that wait, and, without another question, those to come."""
        yield f"{self.text(rule)}. This applies to this batch only."
        drafts = [one for one in self._drafts(rule) if one.summary_id in in_context]
        if drafts and self.done:
            change = sum(one.tokens - self._tokens[one.summary_id] for one in drafts)
            size = counted(abs(change), "token")
            changes = f"adds {size} to" if change >= 0 else f"takes {size} from"
            that, more = ", which", ""
            if to_come := sum(one in in_context for one in self._to_come):
                that, more = " so far: they", f", and {to_come:,} of those to come, which may grow"
            yield f"Accepting {changes} the contexts{that} contain {len(drafts):,} of these summaries{more}."
        if self._to_come:
            coming, one = counted(len(self._to_come), "summary"), len(self._to_come) == 1
            arrive = "its draft when it arrives" if one else "their drafts when they arrive"
            yield (
                f"{coming} of the batch {'has' if one else 'have'} no draft yet: "
                f"the conditions stay in force and accept {arrive}, without asking again."
            )


def why_text(item: BatchItem) -> str:
    """Why a summary is as far as it is; without a reason who wrote its draft, and what was found of that."""
    draft = item.draft_in_sight
    if draft is None or item.why:
        return item.why
    more = f"{len(item.drafts)} drafts, " if len(item.drafts) > 1 else ""
    return f"{more}{draft.model}" + (", " + draft.sentences[0] if draft.sentences else "")


def whole_text(item: BatchItem) -> str:
    """All that a row says in words: why the summary is in the batch, and why it is as far as it is."""
    meaning = MEANINGS.get(item.reason)
    reason = f"{reason_text(item)} ({meaning})" if meaning else reason_text(item)
    return " · ".join(filter(None, (f"{reason}, {state_text(item.state)}".lstrip(", "), why_text(item))))


class Outcome(Record, frozen=True):
    """What applied drafts brought."""

    undone: frozenset[str] = frozenset()  #: operations that were undone since
    tokens: int = 0  #: by which contexts grew
    stale: int = 0  #: summaries made from a text that was replaced, in the same conversations


class BatchState(Record, frozen=True):
    """What is known of a batch."""

    who: str  #: who is asked
    key: str  #: with which key, masked; empty: nothing is sent to anybody
    listed: int  #: summaries
    broken: int  #: broken ones, as the first screen and the checks count them
    stale: int  #: stale ones, as the first screen counts them, that are not broken
    marked: int
    contaminated: int  #: summaries that were made from broken ones and are not marked
    estimate: str  #: what it takes, before it begins
    progress: BatchProgress | None  #: None: it has not begun
    spent: Usage
    running: bool
    ready: bool  #: there is something to draft before a decision
    outcome: Outcome
    rule: str  #: by which drafts are accepted unseen; empty: by none
    trouble: str  #: why it stopped


def head_lines(state: BatchState) -> Iterator[Line]:
    """Who is asked, with which key; what it takes, or how far it is; what is to be known."""
    progress = state.progress
    yield (Span(f" {state.who}"),)
    if state.key:
        cost = "" if progress is None else f" · cost so far: {spent_text(state.spent)}"
        yield (Span(f" {state.key}{cost}", "dim"),)
    if progress is not None:
        yield tuple(_progress(progress, running=state.running, ready=state.ready))
        if progress.counts.get(ItemState.WAITING, 0) and not state.running and not state.ready:
            said = "Waiting for your decisions: enter reviews, A accepts by conditions, L skips"
            yield (Span(f" {said}", "warn"),)
    elif state.listed:
        apart = f"; (1) also marks {counted(state.contaminated, 'summary')} made from them"
        yield (Span(f" {_chosen(state)}", "title"), Span(apart if state.contaminated else "", "warn"))
        estimate = f" · {state.estimate}" if state.estimate else ""
        yield (Span(f" Not started · P asks before starting{estimate}", "dim"),)
    elif state.estimate:
        yield (Span(f" {state.estimate}", "dim"),)
    if state.trouble:
        yield (Span(f" {state.trouble}", "error"),)
    elif state.rule:
        yield from _by_rule(state, progress)


def _by_rule(state: BatchState, progress: BatchProgress | None) -> Iterator[Line]:
    """What is accepted unseen, as long as something can be; what came of it, and how it is taken back."""
    applied = 0 if progress is None else progress.counts.get(ItemState.COMMITTED, 0)
    if progress is None or progress.done < progress.total:
        yield (Span(f" Auto-accept {state.rule}; new drafts too.", "warn"),)
    elif progress.counts.get(ItemState.REVIEW, 0) or not applied:
        yield (Span(f" Auto-accept {state.rule}.", "warn"),)
    if applied and not state.running:
        stale = f", {counted(state.outcome.stale, 'summary')} stale now" if state.outcome.stale else ""
        said = f"{applied:,} applied, {state.outcome.tokens:+,} tokens{stale}"
        yield (Span(f" {said}; U, then u undoes {'it' if applied == 1 else 'all of them'}.", "ok"),)


def _chosen(state: BatchState) -> str:
    """How many are broken and stale, and how many are marked."""
    kinds = {"broken": state.broken, "stale": state.stale}
    known = [counted(number, f"{kind} summary") for kind, number in kinds.items() if number]
    marked = "all" if known and state.marked == sum(kinds.values()) else f"{state.marked:,}"
    return ", ".join([*known, f"{marked} marked"])


def _progress(progress: BatchProgress, *, running: bool, ready: bool) -> Iterator[Span]:
    """How many are drafted, as a bar; what became of each; rate and remaining time."""
    done = progress.done / progress.total if progress.total else 1.0
    yield Span(" ")
    yield from gauge(done, GAUGE)
    sign = "  "
    for state in ItemState:
        if count := progress.counts.get(state, 0):
            words = "to review" if state is ItemState.REVIEW else state_text(state)
            yield Span(f"{sign}{count:,} {words}", STATE_STYLES[state])
            sign = " · "
    yield Span(_pace(progress) if running else " · paused" if ready else "", "dim")


def _pace(progress: BatchProgress) -> str:
    """Rate and remaining time, behind the counts."""
    rate, left = progress.per_minute, progress.remaining
    said = "" if rate is None else f" · {rate:,.0f} a minute"
    if left is not None and progress.done < progress.total:
        said += f" · about {left:,.0f} s left" if left < 100 else f" · about {left / 60:,.0f} min left"
    return said
