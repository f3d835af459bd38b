"""What is said of a batch of drafts before a rule accepts what is left of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from lcm_core.api import Draft
from lcm_core.operations.drafting import BatchItem, ItemState
from lcm_core.operations.drafts import parse_rule

from lcm_tui.tables.drafts import Passing, rule_sentences, tokens_sentence


def item(name: str, state: ItemState, tokens: int, drafted: int | None) -> BatchItem:
    draft = cast(Draft, SimpleNamespace(number=1, tokens=drafted))
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


def test_the_tokens_of_a_rule_are_those_of_drafts_to_review_that_replace_summaries_of_a_context() -> None:
    assert tokens_sentence(BATCH, CONTEXT) == (
        "Of the drafts to review, 2 replace summaries of a context: accepting all of these adds 250 tokens "
        "to the contexts."
    )
    shorter = (item("sum_a", ItemState.REVIEW, 1_700, 200),)
    assert (
        "1 replaces a summary of a context: accepting it takes 1,500 tokens from the contexts."
        in tokens_sentence(shorter, CONTEXT)
    )
    assert tokens_sentence(BATCH, ()) == ""
    assert tokens_sentence(BATCH[3:], CONTEXT) == ""


def test_a_rule_says_that_it_goes_on_for_drafts_to_come() -> None:
    passing = Passing(BATCH).text(parse_rule("every"))
    assert passing == "0 of 3 drafts pass so far, 0 checked …"
    now, later = rule_sentences(BATCH, passing)
    assert now.startswith(f"{passing}. ")
    assert later == (
        "1 summary of the batch has no draft yet: the conditions stay in force and accept its draft when it "
        "arrives, without asking again."
    )
    assert rule_sentences(BATCH[:3], passing) == [now]
    assert Passing(BATCH[4:]).text(parse_rule("every")) == "No draft is to be reviewed yet"
    many = rule_sentences((BATCH[4], item("sum_f", ItemState.DRAFTING, 1, None)), passing)[1]
    assert many.startswith("2 summaries of the batch have no draft yet: the conditions stay in force and ac")
