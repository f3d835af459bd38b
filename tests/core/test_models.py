"""Models over the wire: the real SDKs against servers on the loopback, in every kind of trouble."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from lcm_core.api import ConfigurationError
from lcm_core.base.settings import SummarySettings
from lcm_core.writers.acceptance import judge
from lcm_core.writers.cost import CallBudget, CallMeter, LimitReachedError, Price
from lcm_core.writers.keys import Credential, CredentialError, KeyKind, KeySource
from lcm_core.writers.request import (
    PROVIDERS,
    ModelChoice,
    ProviderAuthError,
    SummarizerError,
    SummaryRequest,
)
from lcm_core.writers.writer import (
    ModelSummarizer,
    answer_room,
    choose_model,
    open_summary_writer,
    takes_temperature,
)

from tests.fakes.choices import Waits, choice_for
from tests.fakes.messages_api import MessagesApi
from tests.fakes.openai_api import OpenAIApi
from tests.fakes.server import Fail, Raw, Say, ScriptedServer

ATTEMPTS = 4

KEY = "sk-test-0123456789abcdef-SECRET"
REQUEST = SummaryRequest("[2026-03-02 09:14 UTC]\n" + "Move the importer to the queue. " * 40, False, 0, 200)
SHAPES = pytest.mark.parametrize("api", [MessagesApi, OpenAIApi])


@asynccontextmanager
async def asking(
    server: ScriptedServer,
    *,
    model: str | None = None,
    meter: CallMeter | None = None,
    timeout: float = 20.0,
    kind: KeyKind = KeyKind.API_KEY,
    waits: Waits | None = None,
) -> AsyncIterator[ModelSummarizer]:
    choice = choice_for(server, model)
    credential = Credential(choice.provider.name, choice.host, kind, "TEST_KEY", KEY)
    writer = ModelSummarizer(
        choice, credential, meter or CallMeter(Price(1.0, 5.0)), timeout=timeout, sleep=waits or Waits()
    )
    try:
        yield writer
    finally:
        await writer.aclose()


async def reply_of(server: ScriptedServer, request: SummaryRequest = REQUEST):
    async with asking(server) as writer:
        return await writer(request)


@SHAPES
async def test_an_answer_comes_with_what_it_cost(api: type[ScriptedServer]):
    with api(Say("The importer moved.\nExpand for details about: how")) as server:
        async with asking(server) as writer:
            reply = await writer(REQUEST)
            assert writer.meter.budget.spent.calls == 1
            assert writer.meter.budget.spent.usage == reply.usage
    assert reply.text.startswith("The importer moved.")
    assert reply.model == writer.choice.model
    assert (reply.finished, reply.stop_reason) == (True, "end_turn")
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (1_000, 50)
    assert reply.usage.cost_usd == pytest.approx(0.00125)
    assert judge(reply, REQUEST).accepted
    (sent,) = server.received
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.body["stream"] is True
    assert sent.body["temperature"] == 0.2
    assert sent.body["max_tokens"] == answer_room(200) > 200


async def test_system_and_source_are_sent_apart_in_both_shapes():
    with MessagesApi() as messages, OpenAIApi() as chat:
        await reply_of(messages)
        await reply_of(chat)
    body = messages.received[0].body
    system, user = body["system"], body["messages"][0]["content"]
    assert messages.received[0].path == "/v1/messages"
    assert chat.received[0].path == "/v1/chat/completions"
    assert [one["content"] for one in chat.received[0].body["messages"]] == [system, user]
    assert REQUEST.text in user
    assert REQUEST.text not in system


@SHAPES
async def test_the_second_attempt_asks_colder(api: type[ScriptedServer]):
    with api() as server:
        await reply_of(server, SummaryRequest("text " * 99, True, 0, 100))
    assert server.received[0].body["temperature"] == 0.1


@SHAPES
async def test_too_many_requests_are_repeated_when_the_server_says(api: type[ScriptedServer]):
    waits = Waits()
    busy = Fail(429, "rate_limit_error", headers={"retry-after": "7"})
    with api(busy, Fail(429, headers={"retry-after-ms": "1500"}), Say()) as server:
        async with asking(server, waits=waits) as writer:
            assert (await writer(REQUEST)).finished
            assert writer.meter.budget.spent.calls == 1, "a refusal for their number is no call"
            assert writer.meter.budget.spent.usage.input_tokens == 1_000, "a refused call costs nothing"
    assert waits.seconds == [7.0, 1.5]


async def test_a_server_that_asks_for_too_long_a_wait_is_not_waited_for():
    waits = Waits()
    with MessagesApi(Fail(429, "rate_limit_error", "slow down", {"retry-after": "900"})) as server:
        async with asking(server, waits=waits) as writer:
            with pytest.raises(SummarizerError, match="slow down"):
                await writer(REQUEST)
    assert len(server.received) == 1
    assert not waits.seconds


@SHAPES
async def test_an_overloaded_server_is_asked_again_with_growing_pauses(api: type[ScriptedServer]):
    waits = Waits()
    with api(Fail(529, "overloaded_error", "Overloaded")) as server:
        async with asking(server, waits=waits) as writer:
            with pytest.raises(SummarizerError, match=r"after 4 attempts \(529: .*Overloaded") as caught:
                await writer(REQUEST)
    assert caught.value.exit_code == 10
    assert len(server.received) == ATTEMPTS
    assert waits.seconds == sorted(waits.seconds)
    assert len(set(waits.seconds)) == 3


@SHAPES
@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_not_tried_again(api: type[ScriptedServer], status: int):
    said = f"invalid key {KEY}, sorry"
    with api(Fail(status, "authentication_error", said)) as server:
        async with asking(server) as writer:
            with pytest.raises(ProviderAuthError, match="TEST_KEY") as caught:
                await writer(REQUEST)
    assert caught.value.exit_code == 4
    assert KEY not in caught.value.message
    assert "sk-…CRET" in caught.value.message
    assert len(server.received) == 1


@pytest.mark.cases(2)
@SHAPES
@pytest.mark.parametrize("breaks", ["reset", "end", "error"])
async def test_an_answer_that_breaks_off_is_asked_for_again_and_never_used(
    api: type[ScriptedServer], breaks: str
):
    half = Say("half of it " * 20, breaks=breaks)
    with api(half, Say()) as server:
        assert (await reply_of(server)).text == Say().text
    with api(half) as server:
        async with asking(server) as writer:
            with pytest.raises(SummarizerError, match="after 4 attempts"):
                await writer(REQUEST)
            if breaks != "error":
                spent = writer.meter.budget.spent.usage
                assert spent.input_tokens > 0, "what broke off was paid for all the same"


@SHAPES
async def test_a_slow_answer_is_given_up(api: type[ScriptedServer]):
    with api(Say(pause=5.0)) as server:
        async with asking(server, timeout=0.05) as writer:
            with pytest.raises(SummarizerError, match=rf"after {ATTEMPTS} attempts .*no answer in 0\.05 s"):
                await writer(REQUEST)
            assert writer.meter.budget.spent.calls == ATTEMPTS


@SHAPES
async def test_cancelling_closes_the_connection(api: type[ScriptedServer]):
    with api(Say("word " * 500, pause=0.02)) as server:
        async with asking(server) as writer:
            task = asyncio.create_task(writer(REQUEST))
            while not server.received:
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(server.broken_off.wait, 60)
            assert len(server.received) == 1
            assert writer.meter.budget.spent.usage.input_tokens > 0


@pytest.mark.cases(4)
@SHAPES
@pytest.mark.parametrize(
    "raw",
    [
        Raw(b"<html>Welcome to the hotel network</html>", "text/html"),
        Raw(b'event: message_start\ndata: {"type": "message_start", "mess\n\n'),
        Raw(b"data: 17\n\n"),
        Raw(b""),
    ],
)
async def test_what_is_no_answer_is_said_to_be_none(api: type[ScriptedServer], raw: Raw):
    with api(raw) as server:
        async with asking(server) as writer:
            with pytest.raises(SummarizerError) as caught:
                await writer(REQUEST)
    assert str(server.url) in caught.value.message
    assert len(caught.value.message) < 500


@pytest.mark.cases(6)
@SHAPES
@pytest.mark.parametrize(
    ("say", "faults"),
    [
        (Say(""), {"empty"}),
        (Say("", thinking="Let me think about it."), {"empty"}),
        (Say("<think>Hm.</think>"), {"empty"}),
        (Say("So. <think>Hm.</think> Done."), {"reasoning"}),
        (Say("Here is the summary of the conversation: it moved."), {"reasoning"}),
        (Say("It moved.\n[Truncated from 5000 tokens]"), {"marker"}),
        (Say("[LCM fallback summary; truncated for context management] It moved."), {"marker"}),
        (Say("It moved.\n[Capped from 900 tokens to ~600]"), {"marker"}),
        (Say("I'm sorry, but I cannot summarise this."), {"refused"}),
        (Say("It moved", stop="refusal"), {"refused"}),
        (Say("It moved", stop="max_tokens"), {"cut off"}),
        (Say("never mind " * 400), {"not smaller"}),
        (Say('{"error": {"message": "quota"}}'), {"error"}),
        (Say("Move the importer to the queue. " * 20), {"copy"}),
    ],
)
async def test_what_is_no_draft_is_refused_with_the_reason(api: type[ScriptedServer], say: Say, faults):
    with api(say) as server:
        reply = await reply_of(server)
    verdict = judge(reply, REQUEST)
    assert set(verdict.faults) == faults
    assert not verdict.accepted
    assert reply.is_missing == (faults == {"empty"})
    assert len(verdict.sentences) == len(verdict.faults) + len(verdict.cautions)


async def test_reasoning_before_the_answer_is_taken_out():
    with MessagesApi(Say("<think>\nHm.\n</think>\nIt moved.", thinking="Hm.")) as server:
        assert (await reply_of(server)).text == "It moved."
    with OpenAIApi(Say("It moved.", thinking="Hm.")) as server:
        assert (await reply_of(server)).text == "It moved."


async def test_an_answer_over_its_target_is_a_caution():
    with MessagesApi(Say("word " * 220 + "\nExpand for details about: it")) as server:
        verdict = judge(await reply_of(server), REQUEST)
    assert verdict.accepted
    assert verdict.cautions == ("over target",)


@SHAPES
async def test_a_model_that_takes_no_temperature_is_asked_without_one(api: type[ScriptedServer]):
    refusal = Fail(400, "invalid_request_error", "temperature is not supported by this model")
    with api(refusal, Say()) as server:
        async with asking(server) as writer:
            await writer(REQUEST)
            await writer(REQUEST)
    assert ["temperature" in one.body for one in server.received] == [True, False, False]


@pytest.mark.parametrize(
    ("provider", "model", "takes"),
    [
        ("anthropic", "claude-haiku-4-5", True),
        ("anthropic", "claude-sonnet-4-20250514", True),
        ("anthropic", "claude-3-5-haiku-20241022", True),
        ("anthropic", "claude-opus-4-7", False),
        ("anthropic", "claude-sonnet-5", False),
        ("openai", "gpt-4.1", True),
        ("openai", "o3-mini", False),
        ("openrouter", "openai/gpt-5-mini", False),
        ("ollama", "qwen3:8b", True),
    ],
)
def test_which_models_take_a_temperature(provider: str, model: str, takes: bool):
    assert takes_temperature(ModelChoice(PROVIDERS[provider], model, "http://127.0.0.1/v1")) is takes


async def test_any_other_refusal_is_not_tried_again():
    with MessagesApi(Fail(404, "not_found_error", "model: claude-nope")) as server:
        async with asking(server) as writer:
            with pytest.raises(SummarizerError, match=r"404: .*claude-nope"):
                await writer(REQUEST)
    assert len(server.received) == 1


async def test_an_oauth_token_is_sent_as_one():
    with MessagesApi() as server:
        async with asking(server, kind=KeyKind.OAUTH) as writer:
            await writer(REQUEST)
    headers = server.received[0].headers
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["anthropic-beta"].startswith("oauth-")
    assert "x-api-key" not in headers


@SHAPES
async def test_calls_and_cost_are_limited_before_they_are_made(api: type[ScriptedServer]):
    with api() as server:
        async with asking(server, meter=CallMeter(Price(1.0, 5.0), CallBudget(max_calls=2))) as writer:
            await writer(REQUEST)
            await writer(REQUEST)
            with pytest.raises(LimitReachedError, match="limit of 2 calls") as caught:
                await writer(REQUEST)
        assert len(server.received) == 2
        assert caught.value.exit_code == 10
        most = writer.forecast(REQUEST).once.cost_usd
        assert most is not None
        async with asking(
            server, meter=CallMeter(Price(1.0, 5.0), CallBudget(max_cost=most * 1.5))
        ) as writer:
            results = await asyncio.gather(*(writer(REQUEST) for _ in range(3)), return_exceptions=True)
        assert sum(isinstance(one, LimitReachedError) for one in results) >= 1
        assert (writer.meter.budget.spent.usage.cost_usd or 0) <= most * 1.5


def test_a_limit_of_cost_needs_a_price():
    with pytest.raises(ConfigurationError, match="input_price"):
        CallMeter(None, CallBudget(max_cost=1.0))
    meter = CallMeter(None)
    meter.begin(10, 10).answered(10, 10)
    assert meter.budget.spent.usage.cost_usd is None, "unknown is not nothing"


async def test_requests_in_flight_share_one_connection_pool_and_one_count():
    with MessagesApi(Say(pause=0.002)) as server:
        async with asking(server) as writer:
            replies = await asyncio.gather(*(writer(REQUEST) for _ in range(6)))
            assert writer.meter.budget.spent.calls == len(server.received) == 6
    assert {reply.text for reply in replies} == {Say().text}


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    choice = ModelChoice(PROVIDERS["ollama"], "qwen3", "http://127.0.0.1:9/v1")
    writer = ModelSummarizer(choice, None, CallMeter(None))
    with pytest.raises(ConfigurationError, match=r"\[openai\]"):
        asyncio.run(writer(REQUEST))


# -- keys ------------------------------------------------------------------------------------------------


@SHAPES
async def test_a_redirect_is_not_followed(api: type[ScriptedServer]):
    with api() as elsewhere, api(Fail(307, headers={"Location": f"{elsewhere.url}/v1/messages"})) as server:
        async with asking(server) as writer:
            with pytest.raises(SummarizerError, match="another address"):
                await writer(REQUEST)
    assert elsewhere.received == []
    assert len(server.received) == 1


@SHAPES
async def test_nothing_for_this_machine_goes_through_a_proxy(
    api: type[ScriptedServer], monkeypatch: pytest.MonkeyPatch
):
    with api() as proxy, api() as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        await reply_of(server)
    assert proxy.received == []
    assert len(server.received) == 1


@pytest.mark.cases(1)
@SHAPES
async def test_the_key_appears_in_one_header_and_nowhere_else(
    api: type[ScriptedServer], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
):
    caplog.set_level(logging.DEBUG)
    said = f"bad key {KEY}"
    shown: list[str] = []
    script = (
        Say(),
        Fail(500, message=said),
        Fail(400, message=said),
        Fail(401, message=said),
        Say(breaks="end"),
    )
    with api(*script) as server:
        async with asking(server) as writer:
            for _ in range(5):
                try:
                    shown.append(repr(await writer(REQUEST)))
                except SummarizerError as error:
                    shown += [repr(error), json.dumps(error.details), *traceback.format_exception(error)]
            shown += [repr(writer), str(writer.choice), repr(writer.meter)]
    out, err = capfd.readouterr()
    shown += [caplog.text, out, err, *(repr(record.args) for record in caplog.records)]
    assert len(server.received) > 5
    for one in server.received:
        assert KEY not in one.path + one.raw.decode()
        assert {name for name, value in one.headers.items() if KEY in value} <= {"authorization", "x-api-key"}
    assert KEY not in "\n".join(shown)
    assert "sk-…CRET" in "\n".join(shown)


def test_a_credential_has_no_way_into_a_text_or_a_file():
    credential = Credential("anthropic", "https://api.anthropic.com:443", KeyKind.API_KEY, "TEST_KEY", KEY)
    assert KEY not in repr(credential) + str(credential) + f"{credential!s}"
    assert credential.masked == "sk-…CRET"
    with pytest.raises(TypeError):
        pickle.dumps(credential)
    short = Credential("anthropic", "https://x:443", KeyKind.API_KEY, "TEST_KEY", "sk-12345678")
    assert short.masked == "…"


@SHAPES
async def test_a_key_is_not_sent_to_an_address_it_does_not_belong_to(api: type[ScriptedServer]):
    with api() as server:
        choice = choice_for(server)
        foreign = Credential(
            choice.provider.name, "https://api.example.com:443", KeyKind.API_KEY, "TEST_KEY", KEY
        )
        writer = ModelSummarizer(choice, foreign, CallMeter(None))
        with pytest.raises(CredentialError, match="belongs to"):
            await writer(REQUEST)
    assert server.received == []


# -- from settings to a writer ---------------------------------------------------------------------------


async def test_settings_lead_to_a_writer_that_asks_the_server():
    with MessagesApi() as server:
        settings = SummarySettings().with_flags(provider="anthropic", base_url=f"{server.url}/", max_calls=1)
        chosen = choose_model(settings, KeySource({"GATEWAY_KEY": KEY}, key_variable="GATEWAY_KEY"))
        assert chosen.key_origin == "sk-…CRET from GATEWAY_KEY"
        writer = open_summary_writer(chosen, settings)
        forecast = writer.forecast(REQUEST)
        assert forecast.once.calls == 1
        assert forecast.once.input_tokens > len(REQUEST.text) / 4
        assert server.received == []
        assert (await writer(REQUEST)).text == Say().text
        await writer.aclose()
    assert server.received[0].headers["x-api-key"] == KEY, "as gateways ask for it"


IMPORTS = """
import sys
import lcm_core.writers.writer, lcm_core.writers.keys, lcm_core.writers.prompts
print(sorted({"anthropic", "openai", "httpx", "httpx2", "jinja2"} & set(sys.modules)))
"""


@pytest.mark.long
def test_nothing_heavy_is_imported_before_a_model_is_called():
    run = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
