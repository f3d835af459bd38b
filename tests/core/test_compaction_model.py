"""Sweeps, leaf passes and until-under do what docs/spec/compaction.md says, told a second time.

Contexts, settings, callers and what comes of each pass are generated; both tellings must make the same
passes, leave the same context and report the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.base.values import replace
from lcm_core.engine.rules import RULES_0_1, RULES_PRESENT
from lcm_core.operations.compact import CompactionSetting
from lcm_core.operations.selection import (
    PassMade,
    PassRefused,
    PassSkipped,
    UnderResult,
    WeighedContext,
    WeighedItem,
)
from lcm_core.writers.source import Rendering

from tests.core.compaction_model import Answer, Caller, Config, Item, Model
from tests.support import with_values

_WEIGHT = st.one_of(st.integers(0, 60), st.sampled_from([0, 1, 119, 120, 121]))


@st.composite
def contexts(draw: st.DrawFn) -> list[Item]:
    """Summaries first and mostly messages then; what is stored need not be what an item weighs."""
    items: list[Item] = []
    for kind in draw(st.lists(st.sampled_from("ssss"), max_size=10)) + draw(
        st.lists(st.sampled_from("mmmus"), max_size=25)
    ):
        stored = draw(_WEIGHT)
        extra = draw(st.sampled_from([0, 0, 0, 7]))
        number = len(items) + 1
        if kind == "s":
            depth, blank = draw(st.sampled_from([0, 0, 0, 1, 1, 2])), draw(st.integers(0, 5)) == 0
            items.append(Item(f"sum_{number}", stored, stored or extra, False, depth, blank))
        else:
            items.append(Item(number, stored, stored + extra, kind == "u"))
    return items


CONFIGS = st.builds(
    Config,
    threshold=st.sampled_from([0.0, 0.3, 0.75, 1.0]),
    tail=st.integers(-1, 6),
    tail_tokens=st.one_of(st.none(), st.integers(0, 150)),
    leaf_fanout=st.integers(2, 4),
    fanout=st.integers(2, 4),
    hard_fanout=st.integers(2, 3),
    depth=st.sampled_from([-1, 0, 1, 1, 2, 3]),
    chunk=st.sampled_from([20, 60, 120, 400]),
    condensed_target=st.sampled_from([1, 10, 60]),
    prefix_target=st.one_of(st.none(), st.sampled_from([1, 30, 200])),
    rounds=st.integers(1, 4),
    iterations=st.sampled_from([1, 2, 3, 5, 40]),
    sweep_ms=st.sampled_from([1_000, 3_000, 1_000_000]),
    until_ms=st.sampled_from([1_000, 5_000, 1_000_000]),
)
CALLERS = st.builds(
    Caller,
    force=st.booleans(),
    hard=st.booleans(),
    stop_at=st.one_of(st.none(), st.integers(-5, 600)),
    threshold=st.one_of(st.none(), st.sampled_from([-0.1, 0.0, 0.4, 1.0, 1.5])),
    tail=st.one_of(st.none(), st.integers(-1, 5)),
    chunk=st.one_of(st.none(), st.sampled_from([-1, 0, 30, 200])),
    target=st.one_of(st.none(), st.integers(0, 400)),
    current=st.sampled_from([0, 0, 300, 2_000]),
    given=st.one_of(st.none(), st.just("")),
    condense=st.booleans(),
)
#: What comes of the first passes, in order: nothing to be said, a refused key, or a share of the source.
ANSWERS = st.lists(
    st.one_of(
        st.sampled_from(["skipped", "refused"]), st.sampled_from([0.0, 0.3, 0.3, 0.3, 0.9, 1.0, 1.0, 1.4])
    ),
    max_size=12,
)
OPERATIONS = st.sampled_from(["sweep", "sweep", "leaf", "until"])


@dataclass
class Played:
    """What both tellings are compared by."""

    passes: list[tuple[int, tuple[int | str, ...], tuple[str, ...]]]
    left: list[int | str]
    result: dict[str, Any]


def answer_for(answers: list[str | float], present: bool, number: int, depth: int, tokens: int) -> Answer:
    """What comes of a pass; 0.1 knows neither chunks that are skipped nor keys that are refused."""
    drawn = answers[number] if number < len(answers) else 0.4
    if isinstance(drawn, str):
        if present and not (drawn == "skipped" and depth > 0):
            return Answer(drawn)
        drawn = 1.0
    return Answer("made", int(tokens * drawn) + (drawn > 1))


def modelled(
    items: list[Item],
    config: Config,
    call: Caller,
    budget: int,
    present: bool,
    name: str,
    answers: list[str | float],
) -> Played:
    """The page, step by step."""

    def ask(number: int, depth: int, sources: list[Item]) -> Answer:
        return answer_for(answers, present, number, depth, sum(item.stored for item in sources))

    model = Model([replace(item) for item in items], config, budget, present, ask)
    operation = {"sweep": model.sweep, "leaf": model.leaf, "until": model.until_under}[name]
    result = operation(call)
    return Played(model.passes, [item.ref for item in model.items], result)


def rules_of(config: Config, present: bool):
    """The rules with the values of a generated configuration."""
    rules = RULES_PRESENT if present else RULES_0_1
    return with_values(
        rules,
        context_threshold=config.threshold,
        fresh_tail_count=config.tail,
        fresh_tail_max_tokens=config.tail_tokens if present else None,
        leaf_min_fanout=config.leaf_fanout,
        condensed_min_fanout=config.fanout,
        condensed_min_fanout_hard=config.hard_fanout,
        sweep_max_depth=config.depth,
        leaf_chunk_tokens=config.chunk,
        condensed_target_tokens=config.condensed_target,
        summary_prefix_target_tokens=config.prefix_target,
        max_rounds=config.rounds,
        max_sweep_iterations=config.iterations,
        sweep_deadline_ms=config.sweep_ms,
        compact_until_under_deadline_ms=config.until_ms,
    )


def played(
    items: list[Item],
    config: Config,
    call: Caller,
    budget: int,
    present: bool,
    name: str,
    answers: list[str | float],
) -> Played:
    """The code, with a context in memory."""
    context = WeighedContext.of(
        [
            WeighedItem(
                item.ref,
                item.weight,
                item.is_user,
                item.depth,
                blank=present and item.blank,
                stored=item.stored,
            )
            for item in items
        ]
    )
    setting = CompactionSetting(Rendering(rules_of(config, present)), budget, call.tail, call.chunk)
    seconds = 0
    compaction = setting.compaction(context, lambda: seconds * 1000)
    running = operation_of(compaction, name, call)
    passes: list[tuple[int, tuple[int | str, ...], tuple[str, ...]]] = []
    outcome = None
    while True:
        try:
            due = next(running) if outcome is None else running.send(outcome)
        except StopIteration as ended:
            return Played(passes, [ref for ref in context.refs if ref is not None], told(ended.value))
        seconds += 1
        run = slice(due.run.start, due.run.stop)
        refs = tuple(ref for ref in context.refs[run] if ref is not None)
        number = len(passes)
        passes.append((due.depth, refs, due.previous))
        answer = answer_for(answers, present, number, due.depth, sum(context.stored[run]))
        if answer.kind == "skipped":
            outcome = PassSkipped()
        elif answer.kind == "refused":
            outcome = PassRefused()
        else:
            removed = context.removed(due.run, is_leaf=due.is_leaf)
            context.replace(due.run, WeighedItem(f"made_{number}", answer.tokens, depth=due.depth))
            outcome = PassMade(f"made_{number}", "normal", removed - answer.tokens)


def operation_of(compaction, name: str, call: Caller):
    """What a caller asks for."""
    if name == "leaf":
        return compaction.leaf(force=call.force, given=call.given, incremental=call.condense)
    if name == "sweep":
        return compaction.sweep(
            force=call.force, hard=call.hard, stop_at=call.stop_at, threshold=call.threshold
        )
    return compaction.until_under(call.target, observed=call.current)


def told(result) -> dict[str, Any]:
    """A result in the words of the model."""
    auth = {"auth": True} if result.auth_failure else {}
    if isinstance(result, UnderResult):
        return {
            "success": result.success,
            "rounds": result.rounds,
            "after": result.final_tokens,
            "acted": result.acted,
            **auth,
        }
    return {
        "acted": result.acted,
        "before": result.tokens_before,
        "after": result.tokens_after,
        "condensed": result.condensed,
        "level": result.level is not None,
        **auth,
        **({"over": True} if result.stopped_at_bound else {}),
    }


@pytest.mark.long
@settings(max_examples=3_000)
@given(contexts(), CONFIGS, CALLERS, st.integers(1, 900), st.booleans(), OPERATIONS, ANSWERS)
def test_both_tellings_agree(
    items: list[Item],
    config: Config,
    call: Caller,
    budget: int,
    present: bool,
    name: str,
    answers: list[str | float],
) -> None:
    if not present:  # what 0.1 does not know
        call = replace(call, tail=None, chunk=None, threshold=None)
    wanted = modelled(items, config, call, budget, present, name, answers)
    assert played(items, config, call, budget, present, name, answers) == wanted
