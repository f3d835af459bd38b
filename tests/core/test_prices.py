"""What models cost and how large prompts are: the list, and the estimates (docs/spec/models.md)."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable
from datetime import date
from importlib.resources import files
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.base.setting_values import SettingSource, Sourced
from lcm_core.base.settings import SummarySettings
from lcm_core.writers.cost import (
    FREE,
    CallBudget,
    CallLoad,
    CallMeter,
    Forecast,
    Price,
    Spent,
    likely_tokens,
    most_tokens,
    price_of,
    total_forecast,
)
from lcm_core.writers.request import PROVIDERS, ModelChoice, Usage

from lcm_tui.flows.drafts import forecast_sentence, forecast_text, most_text

NOTHING_SET = SummarySettings()


def price(model: str, provider: str = "", base_url: str = "") -> Price | None:
    name = provider or ("anthropic" if model.startswith("claude") else "openai")
    return price_of(ModelChoice(PROVIDERS[name], model, base_url or PROVIDERS[name].base_url), NOTHING_SET)


def test_every_price_has_its_source_and_its_day():
    text = files("lcm_core.writers").joinpath("prices.toml").read_text("utf-8")
    rows = [row for rows in tomllib.loads(text).values() for row in rows]
    assert len(rows) > 90
    for row in rows:
        assert row["source"], row
        assert isinstance(row["date"], date), row
        assert 0 < row["input"] <= row["output"], row
        assert ("above" in row) == ("input_above" in row) == ("output_above" in row), row


#: Models that the SDK names and the source of the prices does not have yet.
UNPRICED = {"claude-fable-5-2", "claude-mythos-5-2"}


def test_the_models_that_the_sdk_names_have_a_price_or_are_known_to_have_none():
    from anthropic.types import model as sdk_models

    [literal, _] = get_args(sdk_models.Model)
    models = set(get_args(literal))
    assert len(models) >= 22
    assert {model for model in models if price(model) is None} <= UNPRICED


@pytest.mark.parametrize(
    ("model", "input_price", "output_price"),
    [
        ("gpt-4.1-nano", 0.1, 0.4),
        ("gpt-4.1-nano-2025-04-14", 0.1, 0.4),
        ("gpt-4.1-mini", 0.4, 1.6),
        ("gpt-4.1", 2.0, 8.0),
        ("gpt-4o-2024-05-13", 5.0, 15.0),
        ("gpt-4o-latest", 5.0, 15.0),
        ("claude-haiku-4-5", 1.0, 5.0),
        ("claude-haiku-4-5@20251001", 1.0, 5.0),
        ("claude-3-5-haiku-latest", 0.8, 4.0),
        ("claude-opus-4-8", 5.0, 25.0),
        ("claude-opus-4-20250514", 15.0, 75.0),
    ],
)
def test_a_model_costs_what_its_whole_name_costs(model: str, input_price: float, output_price: float):
    found = price(model)
    assert found is not None
    assert (found.input, found.output) == (input_price, output_price)


@pytest.mark.parametrize(
    "model",
    ["gpt-4.1-pico", "gpt-4o-mini-next", "my-gpt-4o", "claude-haiku-4", "claude-haiku-4-5-turbo", ""],
)
def test_a_name_that_only_resembles_another_has_no_price(model: str):
    assert price(model) is None


def test_a_price_belongs_to_a_provider_and_a_gateway_asks_what_the_maker_asks():
    assert price("gpt-4.1", "openrouter") is None
    assert price("claude-haiku-4-5", "openai") is None, "OpenAI does not serve it"
    assert price("claude-haiku-4-5", "openai", "https://gateway.example/v1") == price("claude-haiku-4-5")
    assert price("claude-haiku-4-5", "anthropic", "http://127.0.0.1:4000") == price("claude-haiku-4-5")
    assert price("qwen3:8b", "ollama") is FREE
    assert price("qwen3:8b", "ollama", "https://box.example/v1") is None
    own = Sourced(9.0, SettingSource.USER_CONFIG, "summary.input_price")
    set_by_hand = SummarySettings(input_price=own, output_price=own)
    found = price_of(ModelChoice(PROVIDERS["openrouter"], "x/y", "https://openrouter.ai/api/v1"), set_by_hand)
    assert found is not None
    assert (found.of(1_000_000, 0), found.source) == (9.0, "your settings")


def test_a_long_input_makes_the_whole_call_dearer():
    found = price("claude-haiku-5-5")
    assert found is not None
    assert found.of(100_000, 1_000) == pytest.approx(0.0105)
    assert found.of(100_001, 1_000) == pytest.approx(0.0525, rel=1e-4)
    assert "above 100,000 tokens in" in found.words
    assert "litellm" in found.words


# -- at most ------------------------------------------------------------------------------------------------

LOADS = st.builds(
    lambda taken, given: CallLoad.of_call(taken, given, Price(1.0, 5.0)),
    st.integers(1, 10**6),
    st.integers(1, 10**5),
)


@pytest.mark.long
@given(
    st.lists(st.tuples(LOADS, LOADS), min_size=1, max_size=6),
    st.integers(0, 40),
    st.floats(0, 1, allow_nan=False),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1), st.booleans()), max_size=60),
)
@settings(max_examples=150, deadline=None)
def test_no_course_of_a_batch_takes_more_than_was_said(
    requests: list[tuple[CallLoad, CallLoad]],
    max_calls: int,
    max_cost: float,
    course: list[tuple[int, int, bool]],
):
    """Calls of any request, each at most so often as it may be repeated, within limits and without them."""
    foreseen = total_forecast(Forecast.of(both, 4) for both in requests)
    for limits in ({}, {"max_calls": max_calls}, {"max_cost": max_cost}):
        budget = CallBudget(**limits)
        most = budget.at_most(foreseen)
        meter = CallMeter(Price(1.0, 5.0), budget)
        made: dict[tuple[int, int], int] = {}
        for number, which, refused in course:
            at = number % len(requests)
            if made.get((at, which), 0) == 4:
                continue
            load = requests[at][which]
            try:
                call = meter.begin(load.input_tokens, load.output_tokens)
            except Exception:
                break
            if refused:
                call.refused(counts=False)
            else:
                call.lost()
                made[at, which] = made.get((at, which), 0) + 1
        assert budget.spent.calls <= most.calls
        assert most.cost_usd is not None
        assert (budget.spent.usage.cost_usd or 0.0) <= most.cost_usd + 1e-9


@given(st.floats(1e-7, 1e4, allow_nan=False))
def test_what_is_shown_as_the_most_is_never_less_than_it(cost: float):
    shown = most_text(cost)
    assert float(shown.removeprefix("$")) >= cost - 1e-8
    assert float(shown.removeprefix("$")) <= cost * 1.02 + 0.01


def test_the_app_says_what_it_costs_once_and_at_most():
    load = CallLoad.of_call(1_000, 1_000, Price(1.0, 5.0))
    foreseen = total_forecast([Forecast.of([load, load], 4)] * 3)
    said = forecast_text(foreseen, CallBudget())
    assert said == "3 calls, ~3,000 tokens in, up to 3,000 out, cost: ~$0.02, at most $0.15 in 24 calls"
    assert "at most $0.01 in 2 calls" in forecast_sentence(foreseen, CallBudget(max_calls=2, max_cost=0.01))
    unknown = Forecast.of([CallLoad.of_call(1_000, 1_000, None)], 4)
    assert forecast_text(unknown, CallBudget()).endswith("cost: not known")


def test_what_was_spent_is_no_longer_to_be_spent():
    load = CallLoad.of_call(1_000, 1_000, Price(1.0, 5.0))
    spent = Spent(3, Usage(3_000, 3_000, 0.018))
    most = CallBudget(max_calls=4, max_cost=0.02, spent=spent).at_most(Forecast.of([load, load], 4))
    assert (most.calls, most.input_tokens) == (1, 1_000)
    assert most.cost_usd == pytest.approx(0.002)
    unknown = Forecast.of([CallLoad.of_call(1_000, 1_000, None)], 4)
    assert CallBudget(max_calls=4).at_most(unknown).cost_usd is None


# -- input --------------------------------------------------------------------------------------------------


def _digest(number: int) -> str:
    return hashlib.sha256(str(number).encode()).hexdigest()


def _log() -> str:
    lines = []
    for at in range(120):
        seed = _digest(at)
        when = f"2026-11-{at % 28 + 1:02d}T{at % 24:02d}:{at % 60:02d}:07.{at:03d}Z"
        lines.append(
            (
                f"{when} INFO  [exec-{at % 9}] c.e.RequestLogger - GET /v1/users/{at * 977} {at}ms",
                f"{when} ERROR [worker-{at % 4}] queue: cannot ack {seed[:8]}-{seed[8:12]} after 3 retries",
                f'10.0.3.{at} - - [{when}] "POST /api HTTP/1.1" 503 {at * 31} "-" "curl/8.5.0"',
                f"{when} WARN  disk usage on /dev/nvme0n1p2 at {at % 100}% of 931.5 GiB",
            )[at % 4]
        )
    return "\n".join(lines)


def _prose() -> str:
    return (
        "The importer was moved to the new queue on Monday. It must never drop a message, not even when the "
        "host restarts in the middle of a batch. Alice wants the retry limit to stay at three until the load "
        "tests have been repeated; the results of last week were measured on another machine. "
    ) * 12


def _hashes() -> str:
    return "\n".join(f"{_digest(number)}  pkg-{number}.whl" for number in range(40))


def _json() -> str:
    rows = [
        {"id": number * 7919, "ok": True, "price": number / 7, "tags": ["a", "bb"]} for number in range(60)
    ]
    return json.dumps(rows)


def _german() -> str:
    return (
        "Der Importeur wurde auf die neue Warteschlange umgestellt; es darf niemals eine Nachricht verloren "
        "gehen, auch nicht bei einem Neustart. Die Obergrenze für Wiederholungen bleibt bei drei. "
    ) * 12


def _chinese() -> str:
    return "导入器已迁移到新的队列；即使重启也绝不能丢失任何消息。重试上限仍然是三次，之后还要再讨论。" * 12


def _greek() -> str:
    return "Ο εισαγωγέας μεταφέρθηκε στη νέα ουρά και δεν πρέπει να χαθεί κανένα μήνυμα. " * 12


#: Texts, and how many tokens cl100k_base and o200k_base (OpenAI) and Claude's last public vocabulary make of
#: them, counted with tiktoken 0.14 and tokenizers 0.23.
COUNTED: list[tuple[Callable[[], str], int, int, int]] = [
    (_log, 5116, 5114, 5082),
    (_prose, 721, 721, 721),
    (_hashes, 1742, 1747, 1818),
    (_json, 2024, 2024, 1822),
    (_german, 601, 481, 673),
    (_chinese, 564, 480, 552),
    (_greek, 793, 313, 1033),
]


@pytest.mark.parametrize(("text", "cl100k", "o200k", "claude"), COUNTED)
def test_a_prompt_is_not_larger_than_it_is_estimated(
    text: Callable[[], str], cl100k: int, o200k: int, claude: int
):
    openai = ModelChoice(PROVIDERS["openai"], "gpt-4.1", PROVIDERS["openai"].base_url)
    anthropic = ModelChoice(PROVIDERS["anthropic"], "claude-haiku-4-5", PROVIDERS["anthropic"].base_url)
    told = text()
    assert max(cl100k, o200k) <= most_tokens([told], openai) <= max(cl100k, o200k) * 1.8
    assert claude <= most_tokens([told], anthropic) <= claude * 2.2


@pytest.mark.long
@given(st.text(max_size=200), st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_more_text_is_never_estimated_as_nothing(one: str, other: str):
    assert likely_tokens(one + "\n" + other) >= 0
    assert likely_tokens(one * 3) >= likely_tokens(one) * 0.9
