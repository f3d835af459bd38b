"""What is said of a batch of drafts before a rule accepts what is left of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from lcm_core.api import Draft
from lcm_core.operations.drafting import BatchItem, ItemState
from lcm_core.operations.drafts import EVERY, MeasuredDraft

from lcm_tui.tables.drafts import Passing


def item(name: str, state: ItemState, tokens: int, drafted: int | None) -> BatchItem:
    draft = cast(Draft, SimpleNamespace(number=1, tokens=drafted, summary_id=name))
    drafts = () if drafted is None else (draft,)
    chosen = None if drafted is None else 1
    owner = 1
    return BatchItem(name, owner, 0, tokens, state=state, drafts=drafts, chosen=chosen)


BATCH = (
    item("sum_a", ItemState.REVIEW, 500, 700),
    item("sum_b", ItemState.REVIEW, 500, 550),
    item("sum_c", ItemState.REVIEW, 100, 9_000),  # in no context
    item("sum_d", ItemState.COMMITTED, 100, 8_000),  # decided
    item("sum_e", ItemState.WAITING, 100, None),
)
CONTEXT = {"sum_a", "sum_b", "sum_d", "sum_e"}


def passing_of(items: tuple[BatchItem, ...], *passing: str) -> Passing:
    """All drafts of *items* are measured; those of the summaries *passing* pass any rule."""
    found = Passing(items)
    for one in items:
        said = () if one.summary_id in passing else ("no",)
        measured = SimpleNamespace(draft=one.draft, objections=lambda _, said=said: said)
        found.measured += [cast(MeasuredDraft, measured)] if one.state is ItemState.REVIEW else []
    found.done = True
    return found


def test_the_tokens_of_a_rule_are_those_of_drafts_that_pass_it_and_replace_summaries_of_a_context() -> None:
    both, *_ = [*passing_of(BATCH, "sum_a", "sum_b").sentences(EVERY, CONTEXT)][1:]
    assert both == (
        "Accepting adds 250 tokens to the contexts so far: they contain 2 of these summaries, and 1 of those "
        "to come, which may grow."
    )
    *_, none_to_come = [*passing_of(BATCH, "sum_a", "sum_b").sentences(EVERY, CONTEXT - {"sum_e"})][1:2]
    assert none_to_come.endswith(" the contexts, which contain 2 of these summaries.")
    one, *_ = [*passing_of(BATCH, "sum_a", "sum_c").sentences(EVERY, CONTEXT)][1:]
    assert one.startswith("Accepting adds 200 tokens to the contexts so far: they contain 1 of these summ")
    shorter = (item("sum_a", ItemState.REVIEW, 1_700, 200),)
    assert (
        "takes 1,500 tokens from the contexts, which contain 1 of these summaries."
        in [*passing_of(shorter, "sum_a").sentences(EVERY, CONTEXT)][1]
    )
    none = [[*passing_of(BATCH[:3], *one).sentences(EVERY, CONTEXT)] for one in ((), ("sum_c",))]
    assert [len(one) for one in none] == [1, 1]


def test_a_rule_says_no_result_before_all_drafts_are_checked() -> None:
    passing = passing_of(BATCH[:3], "sum_a", "sum_b")
    passing.done = False
    (said,) = passing.sentences(EVERY, CONTEXT)
    assert said == "3 of 3 drafts checked so far. This applies to this batch only."


def test_a_rule_says_that_it_goes_on_for_drafts_to_come() -> None:
    now, later = Passing(BATCH).sentences(EVERY, CONTEXT)
    assert now == "0 of 3 drafts checked so far. This applies to this batch only."
    assert later == (
        "1 summary of the batch has no draft yet: the conditions stay in force and accept its draft when it "
        "arrives, without asking again."
    )
    assert [*Passing(BATCH[:3]).sentences(EVERY, CONTEXT)] == [now]
    assert Passing(BATCH[4:]).text(EVERY) == "No draft is to be reviewed yet"
    _, many = Passing((BATCH[4], item("sum_f", ItemState.DRAFTING, 1, None))).sentences(EVERY, CONTEXT)
    assert many.startswith("2 summaries of the batch have no draft yet: the conditions stay in force and ac")
