"""Thresholds by model and session: every recorded answer, and rules that nobody recorded."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.api import EngineSettings
from lcm_core.base.engine_settings import ThresholdRule, threshold_rules
from lcm_core.base.setting_values import SettingSource, Sourced
from lcm_core.engine.sessions import (
    UNKNOWN_MODEL,
    NotedThreshold,
    RuntimeModel,
    settings_for_session,
    still_holds,
    threshold_for,
)
from lcm_host.backfill import kept_by_engine

from tests.support import recorded

RECORDED: dict[str, Any] = recorded("lcm-0.15.3.policy.json.xz")
THRESHOLDS = RECORDED["thresholds"]
RULES = threshold_rules(THRESHOLDS["rules"])


def model_of(bag: dict[str, Any]) -> RuntimeModel:
    return RuntimeModel(bag.get("provider"), bag.get("model"), bag.get("modelContextWindow"))


@pytest.mark.parametrize("case", THRESHOLDS["cases"])
def test_the_recorded_answers(case: dict[str, Any]) -> None:
    model = model_of(case["bag"])
    found = threshold_for(THRESHOLDS["global"], RULES, case.get("sessionKey"), model)
    rule = None if found.rule_index is None else RULES[found.rule_index]
    answer = {
        "contextThreshold": found.share,
        "source": found.source.value,
        "ruleIndex": found.rule_index,
        "ruleName": rule and rule.name,
        "reason": found.reason,
        "specificity": found.specificity,
        "modelRef": model.ref,
        "modelContextWindow": model.window,
        "freshTailCount": found.fresh_tail_count,
        "leafChunkTokens": found.leaf_chunk_tokens,
    }
    assert {name: value for name, value in answer.items() if value is not None} == case["resolved"]


@pytest.mark.parametrize("case", THRESHOLDS["reconcile"])
def test_noted_thresholds_that_are_stale(case: dict[str, Any]) -> None:
    row = case["row"]
    noted = NotedThreshold(
        *(row[f"context{name}"] for name in ("Threshold", "ThresholdSource")),
        *(row[f"context{name}"] for name in ("FreshTailCount", "LeafChunkTokens")),
    )
    model = model_of(case["bag"])
    holds = still_holds(noted, THRESHOLDS["global"], RULES, case["sessionKey"], model)
    assert holds == case["couldProduce"]
    assert (noted.share is not None and not holds) == case["supersededStalePersisted"]


#: A rule with one thing wrong, and the path that the refusal names.
WRONG = [
    ("rules", "not a list"),
    ([7], r"\[0\] is not an object"),
    ([{"contextThreshold": 1}], r"\[0\]\.match is not"),
    ([{"match": {}, "contextThreshold": 1}], r"\[0\]\.match has no condition"),
    ([{"match": {"model": " "}, "contextThreshold": 1}], r"\[0\]\.match\.model "),
    ([{"match": {"model": 7}, "contextThreshold": 1}], r"\[0\]\.match\.model "),
    ([{"match": {"sessionPattern": ""}, "contextThreshold": 1}], r"\[0\]\.match\.sessionPattern "),
    (
        [{"match": {"modelContextWindowMin": 0}, "contextThreshold": 1}],
        r"\[0\]\.match\.modelContextWindowMin ",
    ),
    ([{"match": {"modelContextWindowMax": 1.5}, "contextThreshold": 1}], "modelContextWindowMax "),
    (
        [{"match": {"modelContextWindowMin": 9, "modelContextWindowMax": 8}, "contextThreshold": 1}],
        "is larger than",
    ),
    ([{"match": {"model": "m"}}], r"\[0\]\.contextThreshold is missing"),
    ([{"match": {"model": "m"}, "contextThreshold": 1.1}], r"\[0\]\.contextThreshold "),
    ([{"match": {"model": "m"}, "contextThreshold": 1, "freshTailCount": 0}], r"\[0\]\.freshTailCount "),
    ([{"match": {"model": "m"}, "contextThreshold": 1, "leafChunkTokens": True}], "leafChunkTokens "),
    ([{"match": {"model": "m"}, "contextThreshold": 1}, None], r"\[1\] is not an object"),
]


@pytest.mark.parametrize(("value", "path"), WRONG)
def test_one_wrong_rule_refuses_all_at_its_path(value: Any, path: str) -> None:
    with pytest.raises(ValueError, match=path):
        threshold_rules(value)


def test_numbers_may_be_texts_and_what_is_read_is_written_the_same() -> None:
    written = [
        {
            "name": "n",
            "match": {"modelContextWindowMin": "1000", "sessionPattern": "a:*"},
            "contextThreshold": "0.5",
            "freshTailCount": "8",
        }
    ]
    [rule] = threshold_rules(written)
    assert rule == ThresholdRule(0.5, None, "a:*", 1000, None, 8, None, "n")
    assert threshold_rules([rule.document()]) == (rule,)
    assert [one.document() for one in RULES] == THRESHOLDS["rules"]


NAMES = st.sampled_from(["m", "p/m", "q/m"])
RULE = st.builds(
    ThresholdRule,
    st.sampled_from([0.2, 0.4]),
    st.none() | NAMES,
    st.none() | st.sampled_from(["a:*", "a:**", "b"]),
    st.none() | st.sampled_from([10, 20]),
    st.none() | st.sampled_from([20, 30]),
    st.none() | st.just(5),
)
MODELS = st.builds(
    RuntimeModel,
    st.none() | st.sampled_from(["p", "q"]),
    st.none() | st.just("m"),
    st.none() | st.sampled_from([5, 10, 20, 25, 30, 31]),
)
KEYS = st.none() | st.sampled_from(["a:x", "a:x:y", "b"])


def fits(rule: ThresholdRule, key: str | None, model: RuntimeModel) -> bool:
    """Every matcher on its own, as the page has it."""
    called = "m" if model.provider is None else f"{model.provider}/m"
    keyed = {"a:*": {"a:x"}, "a:**": {"a:x", "a:x:y"}, "b": {"b"}, None: {key}}[rule.session_pattern]
    named = rule.model is None or (model.model is not None and rule.model in ("m", called))
    bounded = rule.window_min is not None or rule.window_max is not None
    wide = not bounded or (
        model.window is not None and (rule.window_min or 0) <= model.window <= (rule.window_max or 10**9)
    )
    return key in keyed and named and wide


@pytest.mark.long
@given(st.lists(RULE, max_size=5), KEYS, MODELS)
def test_the_most_specific_rule_holds_and_the_first_of_equal_ones(rules, key, model) -> None:
    found = threshold_for(0.75, rules, key, model)
    fitting = [(-rule.specificity, at) for at, rule in enumerate(rules) if fits(rule, key, model)]
    assert found.rule_index == (min(fitting)[1] if fitting else None)
    if found.rule_index is None:
        assert (found.share, found.source) == (0.75, "global")
    else:
        assert (found.share, found.fresh_tail_count) == (
            rules[found.rule_index].threshold,
            rules[found.rule_index].fresh_tail_count,
        )


@pytest.mark.long
@given(st.lists(RULE, max_size=4), KEYS, MODELS)
def test_what_was_noted_a_moment_ago_holds_also_when_the_model_is_not_known_later(rules, key, model) -> None:
    live = threshold_for(0.75, rules, key, model)
    noted = NotedThreshold(live.share, live.source.value, live.fresh_tail_count, live.leaf_chunk_tokens)
    assert still_holds(noted, 0.75, rules, key, model)
    unknown = threshold_for(0.75, rules, key, UNKNOWN_MODEL)
    if live.source == "override" and unknown.source == "global":
        assert still_holds(noted, 0.75, rules, key, UNKNOWN_MODEL)
    assert not still_holds(NotedThreshold(0.9, live.source.value), 0.75, rules, key, model)


def test_settings_of_one_session() -> None:
    engine = EngineSettings(context_threshold_overrides=Sourced(RULES, SettingSource.PLUGIN_CONFIG, "rules"))
    assert settings_for_session(engine, "agent:main:main") is engine
    cron = settings_for_session(engine, "agent:main:cron:nightly")
    assert (cron.context_threshold.value, cron.fresh_tail_count) == (0.4, engine.fresh_tail_count)
    wide = settings_for_session(engine, None, RuntimeModel(window=500_000))
    assert (wide.context_threshold.value, wide.fresh_tail_count.value) == (0.5, 80)
    assert (wide.fresh_tail_count.is_set, wide.fresh_tail_count.name) == (True, "rules[1]")


@pytest.mark.parametrize("case", RECORDED["bootstrap"]["trim"])
def test_how_many_of_the_newest_messages_a_first_import_keeps(case: dict[str, Any]) -> None:
    kept = kept_by_engine(case["tokens"], case["max"])
    assert list(range(len(case["tokens"])))[len(case["tokens"]) - kept :] == case["keptIndexes"]


@pytest.mark.parametrize(("largest", "newest"), product([0, 5, 6], [1, 6, 7]))
def test_a_newest_message_that_alone_does_not_fit_keeps_nothing(largest: int, newest: int) -> None:
    assert kept_by_engine([1, newest], largest) == max(0, (newest <= largest) + (newest + 1 <= largest))
