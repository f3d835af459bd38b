"""A compaction for people: what it would do, pass by pass, and what was done."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from lcm_core.base.text import agree, counted, safe_text
from lcm_core.base.text import some as listed
from lcm_core.base.values import Record, replace
from lcm_core.operations.compact import CompactionForecast, ForecastPass, PassDone
from lcm_core.operations.compact_pass import PassDraft
from lcm_core.operations.selection import PassMade, PassMoved, PassSkipped
from lcm_core.writers.acceptance import Level
from lcm_core.writers.retention import Checked, Retention

from lcm_tui.flows.compaction import (
    CompactionRun,
    CompactionWish,
    PlannedCompaction,
    depth_text,
    span_text,
    step_words,
)
from lcm_tui.flows.drafts import cost_text
from lcm_tui.kit.spans import Block, Document, Span, StyleName, depth_style, heading, text_field
from lcm_tui.tables.blocks import Cell, Facts, ListColumn, Note, OutputBlock, Prose, cells_of, list_table
from lcm_tui.tables.drafts import writer_facts
from lcm_tui.tables.items import SHOWN
from lcm_tui.tables.preview import LINES, some

# -- stand-ins -------------------------------------------------------------------------------------------
# A text in which every character that is not safe on a terminal is replaced with a harmless one, and back.

#: What stands for a character that cannot be shown, when its own picture is taken: private use, one cell.
_POOL: Final = range(0xE000, 0xF8FF)
#: Characters at which an editor would break lines, and the tab, which it keeps.
KEPT: Final = frozenset("\n\t")
_ENDS: Final = frozenset("\x85\u2028\u2029")


def stand_ins(text: str) -> dict[int, str]:
    """For every character of *text* that is not safe to show (by code point) one that stands for it.

    None of those occurs in the text, and no two are alike, so they can be put back.
    """
    used = set(text)
    unsafe = sorted(one for one in used - KEPT if is_unsafe(one))
    free = (chr(code) for code in _POOL if chr(code) not in used)
    table: dict[int, str] = {}
    for one in unsafe:
        picture = chr(0x2400 + ord(one)) if ord(one) < 0x20 else "␡" if one == "\x7f" else ""
        if not picture or picture in used:
            picture = next(free)
        used.add(picture)
        table[ord(one)] = picture
    return table


def is_unsafe(one: str) -> bool:
    """Whether a terminal could take it for more than a character, or a text area for the end of a line."""
    if one.isascii():
        return not one.isprintable()
    blank = one.isspace() and one not in _ENDS
    return safe_text(f"a{one}") != f"a{one}" or not (one.isprintable() or blank)


def put_back(text: str, table: dict[int, str]) -> str:
    """The text with its own characters again."""
    return text.translate({ord(stand_in): code for code, stand_in in table.items()})


# -- on the command line ---------------------------------------------------------------------------------
# What would be done, pass by pass, and what was done.


def planned_compaction(shown: PlannedCompaction) -> list[OutputBlock]:
    """What would be done, for people."""
    seen = shown.forecast
    if not seen.passes:
        can = "--set freshTailCount=N protects fewer messages, --single-root condenses all summaries into one"
        if shown.setting.rendering.rules.compaction.compacts_current_turn and not shown.wish.current_turn:
            can += ", --current-turn also compacts the finished tool calls of the current turn"
        why = map(Note, _why_nothing(shown, f"{can}."))
        return [Facts(_facts(shown), title="Nothing to compact"), *why, *_notes(shown)]
    title = f"Compact conversation {shown.conversation_id}: {counted(len(seen.passes), 'pass')}"
    passes = list_table(FORECAST_COLUMNS, seen.passes[:LINES], title="Passes")
    return [Facts(_facts(shown), title=title), passes, *_notes(shown)]


def _why_nothing(shown: PlannedCompaction, can: str) -> tuple[str, ...]:
    """Why there is no pass; behind it what *can* be done about it, unless there is no need."""
    seen, setting, wish = shown.forecast, shown.setting, shown.wish
    threshold = setting.rendering.rules.compaction.threshold(setting.budget)
    if wish.target is not None and seen.tokens_before <= wish.target:
        return (f"The context ({seen.tokens_before:,} tokens) is already below {wish.target:,}.",)
    if wish.if_due and seen.tokens_before <= threshold:
        return (f"The context ({seen.tokens_before:,} tokens) is not above the threshold of {threshold:,}.",)
    if seen.tail_from is None:
        return ("There is no raw message to compact, and no run of summaries long or large enough.", can)
    tail = tail_text(seen, setting.bounds().fresh_tail_count)
    why = f"All raw messages are in the fresh tail, which compaction does not touch: {tail}."
    return (f"{why} No run of summaries is long or large enough to condense.", can)


def tail_text(seen: CompactionForecast[Any], count: int) -> str:
    """What is in the fresh tail, and why, where that are not *count* messages."""
    rule = "" if seen.tail_messages == count else f" (rule: the newest {count:,})"
    if seen.tail_from is None:
        return f"no message{rule}"
    every = "all " if seen.tail_messages == seen.messages > 1 else ""
    where = "" if every else f" from ordinal {seen.tail_from:,}"
    return f"{every}{counted(seen.tail_messages, 'message')}, {seen.tail_tokens:,} tokens{where}{rule}"


def _facts(shown: PlannedCompaction) -> list[tuple[str, Cell]]:
    seen, setting = shown.forecast, shown.setting
    bounds, rules = setting.bounds(), setting.rendering.rules
    rows: list[tuple[str, Cell]] = [
        ("Rules", f"of the engine {rules.name}, {'by --rules' if shown.wish.rules else 'by the schema'}"),
        ("Fresh tail", tail_text(seen, bounds.fresh_tail_count)),
        *([("Current turn", "finished tool calls too")] if setting.takes_current_turn else []),
        ("Compaction threshold", f"{rules.compaction.threshold(setting.budget):,} tokens"),
        *([("Debt", shown.debt)] if shown.debt else []),
    ]
    if not seen.passes:
        return [*rows, ("Tokens", f"{seen.tokens_before:,}")]
    rows += [
        (
            "Tokens",
            f"{seen.tokens_before:,} -> ~{seen.tokens_after:,}, {seen.tokens_before / setting.budget:.1%} -> "
            f"~{seen.tokens_after / setting.budget:.1%} of {setting.budget:,}",
        ),
        ("Calls", f"~{seen.calls:,}, ~{seen.input_tokens:,} tokens in, ~{seen.output_tokens:,} out"),
        ("Cost", f"~{cost_text(shown.cost)}" if shown.cost else cost_text(shown.cost)),
    ]
    return [*rows, *([] if shown.model is None else writer_facts(shown.model))]


def _about(one: ForecastPass) -> str:
    return "" if one.is_exact else "~"


def _source_tokens(one: ForecastPass) -> Cell:
    return one.source_tokens if one.is_exact else f"~{one.source_tokens}"


def _source_cell(_: object, one: ForecastPass, __: object) -> Span:
    return Span(f"{_about(one)}{one.source_tokens:,}")


def _into_cell(_: object, one: ForecastPass, of: PassDone | str) -> Span:
    if isinstance(of, str):
        return Span(f"~{one.assumed_tokens:,}")
    return Span("" if of.draft is None else f"{of.draft.text.tokens:,}")


def _state_cell(_: object, __: ForecastPass, of: PassDone | str) -> Span:
    return Span(of, "new") if isinstance(of, str) else Span(*done_state(of))


# fmt: off
#: All that lists say of a pass; drawn with what became of it, or what is being done with one to come.
FORECAST_COLUMNS: Final[tuple[ListColumn[ForecastPass, PassDone | str], ...]] = (
    ListColumn("pass", "pass", 4, right=True, keep=100, heading="Pass", json="number", value="number",
               cell=lambda value, _, __: Span(str(value), "dim")),
    ListColumn("kind", json="kind", value=lambda one: "leaf" if one.is_leaf else "condensed"),
    ListColumn("makes", "creates", 8, keep=60, heading="Makes", json="depth", value="depth", text=depth_text,
               cell=lambda value, _, __: Span(depth_text(value), depth_style(value))),
    ListColumn("from", "from", 20, grows=True, keep=90, heading="From",
               value=lambda one: f"{_about(one)}{span_text(one.refs)}"),
    ListColumn("count", "count", 5, right=True, keep=40, heading="Sources", value=lambda one: len(one.refs),
               cell=lambda value, _, __: Span(str(value), "dim")),
    ListColumn("sources", json="sources", value=lambda one: list(one.refs)),
    ListColumn("tokens", "tokens", 8, right=True, keep=80, heading="Tokens", value=_source_tokens,
               cell=_source_cell),
    ListColumn("size", json="sourceTokens", value="source_tokens"),
    ListColumn("into", "→ tokens", 8, right=True, keep=70, heading="Into",
               value=lambda one: f"~{one.assumed_tokens}", cell=_into_cell),
    ListColumn("assumed", json="assumedTokens", value="assumed_tokens"),
    ListColumn("exact", json="exact", value="is_exact"),
    ListColumn("state", "", 11, keep=95, value="number", cell=_state_cell),
)
# fmt: on


def _notes(shown: PlannedCompaction) -> list[OutputBlock]:
    seen = shown.forecast
    notes: list[OutputBlock] = [Note(f"Warning: {warning}.") for warning in shown.warnings]
    if len(seen.passes) > LINES:
        notes.append(
            Note(f"{counted(len(seen.passes) - LINES, 'more pass', 'more passes')}; --json lists all.")
        )
    if any(not one.is_exact for one in seen.passes):
        notes.append(
            Note("~ marks estimates: what later passes condense depends on the length of earlier drafts.")
        )
    if getattr(seen.result, "stopped_at_bound", False):
        notes.append(
            Note("A sweep stops at its maximum number of passes; run the same command again to continue.")
        )
    if seen.damaged:
        notes.append(
            Note(
                f"Warning: {counted(seen.damaged, 'item')} of this context refer to a row that is "
                "missing, duplicate, or of another conversation; compaction skips them: see `lcm-tui doctor`."
            )
        )
    return notes


def done_compaction(done: CompactionRun, undo: str, *, told: bool = False) -> list[OutputBlock]:
    """What was done, for people; *told*: they saw each pass when it had been made."""
    made, failed = done.made, done.failed
    costs = [step.draft.text.usage.cost_usd for step in made if step.draft]
    cost = None if None in costs else sum(one for one in costs if one is not None)
    facts: list[tuple[str, Cell]] = [
        ("Passes", counted(len(made), "summary was made", "summaries were made")),
        ("Tokens in context", f"{-done.saved:+,}"),
        ("Cost", cost_text(cost)),
    ]
    if made:
        facts.append(("To undo", undo))
    lines = [step_words(number, step) for number, step in enumerate(done.done, 1)]
    blocks: list[OutputBlock] = [Facts(facts, title="Compacted" if failed is None else "Compacted in part")]
    if lines and not told:
        blocks.append(Prose("\n".join(some(lines)), title="Passes"))
    if failed is not None:
        blocks.append(Note(failed.message))
    return blocks


# -- on the screen ---------------------------------------------------------------------------------------
# The result of a compaction, its passes as rows, and a pass as a text to read.

#: Names and rules that are listed; the rest is counted.
NAMED: Final = 12

COLUMNS: Final = tuple(column for column in FORECAST_COLUMNS if column.width)


class Outlook(Record, frozen=True):
    """What is to come, as it was read; why nothing can be made, if so."""

    wish: CompactionWish | None = None  #: what it answers
    planned: PlannedCompaction | None = None
    refusal: str = ""  #: the context cannot be read
    problem: str = ""  #: nobody can write


def behind(done: int, one: ForecastPass) -> ForecastPass:
    """A pass to come as it is numbered behind *done* others, its sources too."""
    refs = tuple(
        f"pass {int(ref[5:]) + done}" if isinstance(ref, str) and ref.startswith("pass ") else ref
        for ref in one.refs
    )
    return replace(one, number=done + one.number, refs=refs)


class Passes(Record, frozen=True):
    """Every pass by its number, from 1: those that were dealt with, then those to come."""

    done: Sequence[PassDone]
    coming: Mapping[int, ForecastPass]
    held: PassDraft | None = (
        None  #: of the first pass to come: it stays as drafted, whatever is written meanwhile
    )

    def numbers(self) -> list[int]:
        """The passes, in order."""
        first = len(self.done) + (self.held is not None)
        return [*range(1, first + 1), *(number for number in self.coming if number > first)]

    def _held(self, number: int) -> PassDraft | None:
        return self.held if number == len(self.done) + 1 else None

    def _row(self, number: int) -> ForecastPass | None:
        held = self._held(number)
        if number > len(self.done) and held is None:
            return self.coming.get(number)
        chunk = self.done[number - 1].chunk if held is None else held.chunk
        return ForecastPass(number, chunk.due.depth, chunk.refs, chunk.tokens, 0, is_exact=True)

    def refs(self, number: int) -> tuple[int | str, ...]:
        """The sources of a pass, when they are rows; else empty."""
        one = self._row(number)
        return one.refs if one is not None and one.is_exact else ()

    def id_of(self, number: int) -> str | None:
        """The summary that a pass made, or the first source of one to come."""
        if number > len(self.done):
            refs = self.refs(number)
            return str(refs[0]) if refs else None
        one = self.done[number - 1]
        return one.draft.summary_id if one.draft is not None and one.is_made else None

    def cells(self, number: int, doing: str) -> Mapping[str, Span]:
        """A pass in the list; *doing*: what is being done with it now."""
        one = self._row(number)
        of = self.done[number - 1] if number <= len(self.done) else doing
        cells = {} if one is None else cells_of(FORECAST_COLUMNS, one, of)
        held = self._held(number)
        return cells if held is None else {**cells, "into": Span(f"{held.text.tokens:,}")}

    def document(self, number: int, source: str | None) -> Document:
        """A pass as a text; *source*: what a model is given, None when it has not been read."""
        if number <= len(self.done):
            return done_document(number, self.done[number - 1], source)
        one = self.coming.get(number)
        return () if one is None else coming_document(one, source)


# -- the head --------------------------------------------------------------------------------------------


def outcome_words(seen: CompactionForecast[Any]) -> str:
    """What a choice comes to, in a clause."""
    if not seen.passes:
        return "nothing to do"
    first, *more = seen.passes
    done = f"{counted(len(first.refs), 'message' if first.is_leaf else 'summary')} → 1 summary"
    saved = "next to nothing" if seen.saves_little else f"~{seen.tokens_before - seen.tokens_after:,} tokens"
    return f"{counted(len(seen.passes), 'pass') if more else done}, saves {saved}"


def head_lines(outlook: Outlook, run: CompactionRun, mode: str) -> list[Block]:
    """What it comes to, who writes, and what was made so far; *mode*: what its passes are made of."""
    blocks: list[Block] = []
    if run.failure or outlook.refusal or outlook.problem:
        said = [run.failure, outlook.refusal, outlook.problem]
        blocks += [_said(one, "error") for one in dict.fromkeys(filter(None, said))]
    if outlook.planned is not None:
        blocks += _numbers(outlook.planned, mode, made=bool(run.made))
    if run.held is not None:
        blocks.append(
            _said("A draft is waiting: a accepts it, A accepts it and all that follow, esc asks.", "warn")
        )
    if run.made or run.spent.cost_usd != 0:
        blocks.append(_made_line(run))
    if outlook.planned is not None:
        blocks += [_said(f"{warning}.", "warn") for warning in outlook.planned.warnings]
    return blocks


def _line(*spans: Span) -> Block:
    return Block(spans=(Span(" "), *spans), indent=9)


def _said(text: str, style: StyleName) -> Block:
    return Block(spans=(Span(" "), Span(text, style)), indent=1)


def _fact(name: str, value: str) -> Block:
    return _line(Span(f"{name:<8}", "dim"), Span(value))


def _numbers(planned: PlannedCompaction, mode: str, *, made: bool) -> list[Block]:
    seen, setting, model = planned.forecast, planned.setting, planned.model
    budget, bounds = setting.budget, setting.bounds()
    before, after = seen.tokens_before, seen.tokens_after
    of = f"of {budget:,}; due over {setting.rendering.rules.compaction.threshold(budget):,}"
    stays = _fact("tail", tail_text(seen, bounds.fresh_tail_count))
    if not seen.passes:
        more = "no more" if made else "none"
        tokens = f"{before:,}, {before / budget:.1%} {of}"
        blocks = [_fact("tokens", tokens), _fact("passes", f"{more} ({mode})"), stays]
    else:
        tokens = f"{before:,} → ~{after:,}, {before / budget:.1%} → ~{after / budget:.1%} {of}"
        little = ": saves next to nothing" if seen.saves_little else ""
        blocks = [_fact("tokens", f"{tokens}{little}"), _fact("calls", _calls(planned)), stays]
    if planned.debt:
        blocks.append(_fact("debt", planned.debt))
    if model is not None:
        key = f", key {model.key}" if model.key else ""
        rules = f"; rules of {setting.rendering.rules.name}"
        blocks.append(_fact("by", f"{model.words}{key}{rules}"))
    if getattr(seen.result, "stopped_at_bound", False):
        blocks.append(
            _said("One sweep stops at its maximum number of passes; A continues from there.", "dim")
        )
    if seen.damaged:
        blocks.append(
            _said(
                f"{seen.damaged:,} of its items {agree(seen.damaged, 'refer')} to a row that is missing, "
                "duplicate, or of another conversation: compaction skips them, see the health screen (H).",
                "warn",
            )
        )
    return blocks


def _calls(planned: PlannedCompaction) -> str:
    seen, cost = planned.forecast, planned.cost
    said = f"~{seen.calls:,}, ~{seen.input_tokens:,} tokens in, ~{seen.output_tokens:,} out"
    if planned.model is None:
        return said
    return f"{said}, cost {'~' if cost else ''}{cost_text(cost)}"


def _made_line(run: CompactionRun) -> Block:
    made = run.made
    if not made:
        return _line(Span(f"{'made':<8}", "dim"), Span(f"nothing, cost {cost_text(run.spent.cost_usd)}"))
    what = f"{len(made):,} {'summary' if len(made) == 1 else 'summaries'}, {-run.saved:+,} tokens"
    said = f"{what}, cost {cost_text(run.spent.cost_usd)}; U, u undoes all of it"
    return _line(Span(f"{'made':<8}", "ok"), Span(said))


# -- a pass as a text ----------------------------------------------------------------------------------------


def done_state(one: PassDone) -> tuple[str, StyleName]:
    """What became of a pass, in a word or two."""
    match one.outcome:
        case PassMade(level=level):
            if level in {Level.FALLBACK, Level.CAPPED}:
                return str(level), "warn"
            is_cut = one.draft is not None and one.draft.text.is_cut
            return ("truncated", "warn") if is_cut else ("made", "ok")
        case PassSkipped():
            return "skipped", "dim"
        case PassMoved():
            return "changed", "warn"
        case refused:
            if refused.by_provider:
                return "refused", "error"
            return ("kept", "ok") if one.is_kept else ("discarded", "warn")


def nothing_document(outlook: Outlook, keys: Mapping[str, str]) -> Document:
    """Why there is no pass, and what can be done about it; *keys* by command."""
    if outlook.planned is None:
        return ()
    can = (
        f"{keys['open']} protects fewer of the newest messages until there is a pass ({keys['tail']}: as "
        f"many as you say), {keys['choice-1']} lists what other modes would do, {keys['choice-2']} sets a "
        "target size."
    )
    why, *more = _why_nothing(outlook.planned, can)
    return (heading("Why"), Block(why), *([Block(), Block(can, "dim")] if more else ()))


def coming_document(one: ForecastPass, source: str | None) -> Document:
    """A pass to come: what it would make, and what the model would be given."""
    head = (
        heading(f"Pass {one.number} would make a {depth_text(one.depth)}"),
        text_field("from", f"{span_text(one.refs)}, {len(one.refs):,} in all", width=9),
        text_field("tokens", f"{one.source_tokens:,} → ~{one.assumed_tokens:,} (target)", width=9),
    )
    if not one.is_exact:
        note = "What it condenses depends on the length of earlier drafts; this is an estimate."
        return (*head, Block(), Block(note, "dim"))
    return (*head, *source_blocks(source))


def done_document(number: int, one: PassDone, source: str | None) -> Document:
    """A pass that was dealt with: what it made, from what."""
    chunk = one.chunk
    state, style = done_state(one)
    name = one.draft.summary_id if one.draft is not None and one.is_made else depth_text(chunk.due.depth)
    size = "" if one.draft is None else f" → {one.draft.text.tokens:,}"
    blocks = [
        heading(f"Pass {number}: {name}"),
        text_field("from", f"{span_text(chunk.refs)}, {len(chunk.refs):,} in all", width=9),
        text_field("tokens", f"{chunk.tokens:,}{size}", width=9),
        text_field("state", state, style, width=9),
    ]
    if one.is_kept:
        note = "Not accepted, but kept: running this pass again reuses it without another call."
        blocks.append(Block(note, "ok"))
    if isinstance(one.outcome, PassMoved):
        blocks.append(Block("The database changed in the meantime: this pass was planned again.", "warn"))
    if one.operation_id:
        blocks.append(text_field("undo id", one.operation_id, width=9))
    if one.search:
        blocks.append(Block(one.search, "warn"))
    if one.draft is not None:
        blocks += draft_blocks(one.draft)
    return (*blocks, *source_blocks(source))


def held_document(number: int, draft: PassDraft, kept: Retention | None) -> Document:
    """A draft that waits for a word; *kept*: what it keeps of its source, None while that is measured."""
    chunk = draft.chunk
    return (
        heading(f"Pass {number}: a draft that waits for your decision"),
        text_field("from", f"{span_text(chunk.refs)}, {len(chunk.refs):,} in all", width=9),
        text_field("tokens", f"{chunk.tokens:,} → {draft.text.tokens:,}", width=9),
        text_field("places", shift_text(chunk.due.run), width=9),
        *(kept_fields(kept) if kept is not None else (text_field("keeps", "…", "dim", width=9),)),
        *draft_blocks(draft),
        *(lost_blocks(kept) if kept is not None else ()),
        *source_blocks(chunk.source.text),
    )


def shift_text(run: range) -> str:
    """Which ordinals of a context become one summary, and how far the others move."""
    first, last, up = run.start, run.stop - 1, len(run) - 1
    items = f"ordinal {first:,}" if first == last else f"ordinals {first:,} to {last:,}"
    return f"{items} become{'s' if first == last else ''} one summary; what follows moves up by {up:,}"


def kept_fields(kept: Retention) -> Iterator[Block]:
    """What a draft keeps of its source and what it invents, in short."""
    share = "no names to keep" if kept.share is None else f"{kept.share:.0%} of what is named most and last"
    checked = kept.rules_checked
    rules = f", {kept.constraints_kept:,} of {counted(kept.constraints, 'rule')}" if kept.constraints else ""
    if checked is Checked.NONE:
        rules = ", rules not checked"
    elif checked is Checked.PART:
        rules += f" ({checked.words})"
    yield text_field("keeps", f"{share}{rules}", width=9)
    if kept.invented:
        names = listed((one.text for one in kept.invented), NAMED)
        yield text_field("invents", names, "error", width=9)


def lost_blocks(kept: Retention) -> Iterator[Block]:
    """What did not come through: rules, and the names that matter most."""
    if kept.reversed:
        yield Block()
        yield heading("Rules that this draft reverses")
        for one in kept.reversed[:NAMED]:
            yield Block(f"- {one.rule.text}", "error", indent=2)
            yield Block(f"  {one.words}: {one.draft.text}", "error", indent=2)
    if kept.constraints_lost:
        yield Block()
        yield heading("Rules that were lost")
        yield from (Block(f"- {one.text}", "warn", indent=2) for one in kept.constraints_lost[:NAMED])
    if kept.lost:
        yield Block()
        yield heading("Lost")
        yield Block(listed((one.text for one in kept.lost), NAMED), "warn")


def draft_blocks(draft: PassDraft) -> list[Block]:
    """The text of a draft, and what it cost."""
    text = draft.text
    called = f"{counted(text.calls, 'call')}, cost {cost_text(text.usage.cost_usd)}"
    way = "" if text.level is Level.NORMAL and not text.is_cut else f" ({text.way})"
    return [
        text_field("by", f"{draft.model}{way}, {called}", width=9),
        Block(),
        heading("The summary"),
        Block(text.content),
    ]


def source_blocks(source: str | None) -> Document:
    """What a model is given, or was."""
    if source is None:
        return (Block(), Block("Reading …", "dim"))
    shown = source if len(source) <= SHOWN else source[:SHOWN]
    cut = () if len(source) <= SHOWN else (Block(f"… {len(source) - SHOWN:,} more characters", "dim"),)
    title = heading("Source text, as the model receives it")
    return (Block(), title, Block(shown or "The source is empty.", "text" if shown else "dim"), *cut)
