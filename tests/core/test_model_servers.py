"""Servers that are not as the documentation has them: what they may do to a draft, a bill and a key.

The real SDKs ask servers on the loopback; docs/spec/models.md says what is held here.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import json
import random
import zlib
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.base.settings import SummarySettings
from lcm_core.writers import wire as http
from lcm_core.writers.acceptance import judge
from lcm_core.writers.cost import CallBudget, CallMeter, LimitReachedError, Price
from lcm_core.writers.keys import Credential, KeyKind, KeySource, OwnHeaders, find_headers
from lcm_core.writers.request import (
    PROVIDERS,
    ModelChoice,
    ProviderAuthError,
    ProviderUnavailableError,
    SummarizerError,
    SummaryRequest,
)
from lcm_core.writers.wire import EventStream, retry_after
from lcm_core.writers.writer import CallPace, ModelSummarizer, choose_model, open_summary_writer

from tests.fakes.choices import Waits, choice_for
from tests.fakes.messages_api import MessagesApi, event
from tests.fakes.openai_api import OpenAIApi, data
from tests.fakes.server import Echo, Endless, Fail, Raw, Say, ScriptedServer

ATTEMPTS = 4
HELD_KEY = "held our key"
LONGEST_WAIT = 300.0
MOST_BYTES = 8_388_608

KEY = "sk-test-0123456789abcdef-SECRET"
PRICE = Price(1.0, 5.0)
REQUEST = SummaryRequest("[2026-03-02 09:14 UTC]\n" + "Move the importer to the queue. " * 40, False, 0, 200)
SHAPES = pytest.mark.parametrize("api", [MessagesApi, OpenAIApi])
#: What the SDKs read from the environment and would send, or send to.
AMBIENT = {
    "ANTHROPIC_CUSTOM_HEADERS": "X-Corp: corp-secret-12\nAuthorization: Bearer stolen-77\nCookie: a=amb-1",
    "OPENAI_CUSTOM_HEADERS": "X-Corp: corp-secret-12\nAuthorization: Bearer stolen-77",
    "ANTHROPIC_API_KEY": "sk-ant-ambient-000001",
    "ANTHROPIC_AUTH_TOKEN": "ambient-token-000002",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
    "ANTHROPIC_WEBHOOK_SIGNING_KEY": "whsec-ambient-000003",
    "ANTHROPIC_PROFILE": "ambient-profile",
    "OPENAI_API_KEY": "sk-ambient-000004",
    "OPENAI_ADMIN_KEY": "sk-admin-ambient-000005",
    "OPENAI_ORG_ID": "org-ambient-000006",
    "OPENAI_PROJECT_ID": "proj-ambient-000007",
    "OPENAI_WEBHOOK_SECRET": "whsec-ambient-000008",
    "OPENAI_BASE_URL": "http://127.0.0.1:9",
    "AWS_BEARER_TOKEN_BEDROCK": "ambient-aws-000009",
}


@asynccontextmanager
async def asking(
    server: ScriptedServer,
    *,
    budget: CallBudget | None = None,
    price: Price | None = PRICE,
    headers: dict[str, str] | None = None,
    key: str = KEY,
    waits: Waits | None = None,
) -> AsyncIterator[ModelSummarizer]:
    choice = choice_for(server)
    own = None if headers is None else OwnHeaders(choice.host, "CUSTOM_HEADERS", headers)
    credential = Credential(choice.provider.name, choice.host, KeyKind.API_KEY, "TEST_KEY", key)
    writer = ModelSummarizer(
        choice, credential, CallMeter(price, budget), headers=own, timeout=60, sleep=waits or Waits()
    )
    try:
        yield writer
    finally:
        await writer.aclose()


def most_of(writer: ModelSummarizer) -> float:
    most = writer.forecast(REQUEST).once.cost_usd
    assert most is not None
    return most


# -- answers -------------------------------------------------------------------------------------------------


@pytest.mark.long
@SHAPES
@pytest.mark.parametrize("stop", ["end_turn", "max_tokens"])
async def test_an_answer_without_a_stream_is_understood_and_counted(api: type[ScriptedServer], stop: str):
    with api(Say("It moved.", stop=stop, input_tokens=700, output_tokens=30, whole=True)) as server:
        async with asking(server) as writer:
            reply = await writer(REQUEST)
            spent = writer.meter.budget.spent
    assert (reply.text, reply.stop_reason, reply.finished) == ("It moved.", stop, stop == "end_turn")
    assert (spent.calls, spent.usage.input_tokens, spent.usage.output_tokens) == (1, 700, 30)
    assert spent.usage.cost_usd == pytest.approx(PRICE.of(700, 30))
    assert spent.usage.is_exact


@pytest.mark.long
@SHAPES
@pytest.mark.parametrize("content_type", ["text/event-stream", "text/plain", "application/json"])
async def test_what_an_answer_is_is_seen_by_how_it_begins(api: type[ScriptedServer], content_type: str):
    with api() as like:
        whole = json.dumps(like.whole(Say("It moved.")), indent=2).encode()
        stream = b"".join(like.events(Say("It moved.")))
    for body in (b"\n\xef\xbb\xbf " + whole, b": hello\r\n\r\n" + stream.replace(b"\n", b"\r\n")):
        with api(Raw(body, content_type)) as server:
            async with asking(server) as writer:
                assert (await writer(REQUEST)).text == "It moved."


@pytest.mark.long
@SHAPES
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("told", ["input", "output", "none"])
async def test_what_a_server_does_not_say_is_counted_with_the_most_it_can_be(
    api: type[ScriptedServer], whole: bool, told: str
):
    with api(Say(told=told, whole=whole, input_tokens=700, output_tokens=30)) as server:
        async with asking(server) as writer:
            usage = (await writer(REQUEST)).usage
            once = writer.forecast(REQUEST).once
    assert usage.input_tokens == (700 if told == "input" else once.input_tokens)
    assert usage.output_tokens == (30 if told == "output" else once.output_tokens)
    assert not usage.is_exact


@pytest.mark.cases(6)
@SHAPES
@pytest.mark.parametrize("lie", [-5, True, "many", 10**30, None, 1.5, [3]])
async def test_a_count_that_is_none_is_not_believed(api: type[ScriptedServer], lie: object):
    with api() as like:
        document = like.whole(Say("It moved."))
    document["usage"] = {
        "input_tokens": lie,
        "output_tokens": lie,
        "prompt_tokens": lie,
        "completion_tokens": lie,
    }
    with api(Raw(json.dumps(document).encode(), "application/json")) as server:
        async with asking(server) as writer:
            reply = await writer(REQUEST)
            assert reply.usage.cost_usd == pytest.approx(most_of(writer))
    assert reply.text == "It moved."


@SHAPES
async def test_a_text_without_end_is_refused_and_not_asked_for_again(api: type[ScriptedServer]):
    if api is MessagesApi:
        start = {"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}}
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        delta = {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": "w " * 900},
        }
        endless = Endless(event(start) + event(block), event(delta))
    else:
        endless = Endless(b"", data({"choices": [{"index": 0, "delta": {"content": "w " * 900}}]}))
    with api(endless) as server:
        async with asking(server) as writer:
            with pytest.raises(SummarizerError, match="longer than requested"):
                await writer(REQUEST)
            assert writer.meter.budget.spent.usage.cost_usd == pytest.approx(most_of(writer))
        assert len(server.received) == 1


@pytest.mark.long
@SHAPES
@pytest.mark.parametrize(
    "goes_on",
    [b": ping\n\n", b"x" * 4096, b'data: {"type": "ping"}\n\n', b" " * 4096, b'{"a": ' * 600],
    ids=["comments", "letters", "pings", "blanks", "nested"],
)
async def test_what_says_nothing_without_end_is_refused(
    api: type[ScriptedServer], goes_on: bytes, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(http, "MOST_BYTES", 1024 * 1024)
    with api(Endless(b"", goes_on * 20)) as server:
        async with asking(server) as writer:
            with pytest.raises(SummarizerError, match="larger than 1 MB"):
                await writer(REQUEST)
        assert len(server.received) == 1


@SHAPES
async def test_a_refusal_without_end_is_read_as_far_as_it_helps(api: type[ScriptedServer]):
    with api(Endless(b'{"error": {"message": "', b"no " * 2000, status=400)) as server:
        async with asking(server) as writer:
            with pytest.raises(SummarizerError, match="400: ") as caught:
                await writer(REQUEST)
    assert len(caught.value.message) < 500


@pytest.mark.long
@SHAPES
async def test_an_answer_that_unpacks_without_end_is_refused(api: type[ScriptedServer]):
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = packer.compress(b" " * (MOST_BYTES * 4)) + packer.flush()
    with api(Raw(bomb, headers={"Content-Encoding": "gzip"})) as server:
        async with asking(server) as writer:
            with pytest.raises(SummarizerError, match="larger than"):
                await writer(REQUEST)
        assert server.received[0].headers["accept-encoding"] == "identity"


@pytest.mark.cases(3)
@SHAPES
@pytest.mark.parametrize("length", [5, 10**9])
async def test_a_length_that_is_a_lie_gives_no_draft(api: type[ScriptedServer], length: int):
    body = b'{"id": "x", "choices": []}'
    with api(
        Raw(body, "application/json", headers={"Content-Length": str(length), "Connection": "close"})
    ) as server:
        async with asking(server) as writer:
            with pytest.raises(SummarizerError):
                await writer(REQUEST)


@pytest.mark.long
@given(
    st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), max_size=5),
    st.integers(1, 9),
)
@settings(max_examples=60, deadline=None)
def test_events_are_the_same_wherever_the_pieces_end(texts: list[str], size: int):
    raw = "".join(f"event: x\r\ndata: {text}\r\n\r\n" for text in texts).encode()
    events = EventStream()
    found = [one for at in range(0, len(raw), size) for one in events.feed(raw[at : at + size])]
    assert found == texts


@SHAPES
async def test_a_server_that_refuses_streams_is_asked_without_one(api: type[ScriptedServer]):
    refusal = Fail(400, "invalid_request_error", "Streaming is not supported for this model")
    with api(refusal, Say("It moved."), Say("It moved.")) as server:
        async with asking(server) as writer:
            for _ in range(2):
                assert (await writer(REQUEST)).text == "It moved."
            assert writer.meter.budget.spent.calls == 2
    assert [one.body["stream"] for one in server.received] == [True, False, False]
    assert "stream_options" not in server.received[1].body


# -- pauses and ends -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "3600"}, 3600.0),
        ({"retry-after": "1e400"}, float("inf")),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Mon, 02 Mar 2026 10:01:30 GMT", "date": "Mon, 02 Mar 2026 10:00:00 GMT"}, 90.0),
        ({"retry-after": "Mon, 02 Mar 2026 09:00:00 GMT", "date": "Mon, 02 Mar 2026 10:00:00 GMT"}, 0.0),
        ({"retry-after": "Mon, 02 Mar 2026 10:00:05 GMT"}, 5.0),
        ({"retry-after": "Mon, 99 Mar 2026 10:00:05 GMT"}, None),
        ({}, None),
    ],
)
def test_the_pause_a_server_names(headers: dict[str, str], seconds: float | None):
    assert retry_after(headers, datetime(2026, 3, 2, 10, tzinfo=UTC)) == seconds


async def test_a_pause_holds_for_all_calls_and_fewer_go_out_after_it():
    slept = asyncio.Event()

    async def sleep(seconds: float) -> None:
        await slept.wait()

    pace = CallPace(sleep)
    out: list[int] = []
    most = 0
    done = asyncio.Event()

    async def call(number: int) -> None:
        nonlocal most
        async with pace.turn():
            out.append(number)
            most = max(most, len(out))
            await done.wait()
            out.remove(number)

    first = [asyncio.create_task(call(number)) for number in range(4)]
    while len(out) < 4:
        await asyncio.sleep(0)
    pace.pause(7, slower=True)
    pace.pause(7, slower=True)  # another of the same burst
    assert pace.most == 2
    done.set()
    await asyncio.gather(*first)
    done.clear()
    most = 0
    later = [asyncio.create_task(call(number)) for number in range(6)]
    for _ in range(50):
        await asyncio.sleep(0)
    assert out == [], "nobody goes out while it pauses"
    slept.set()
    for _ in range(50):
        await asyncio.sleep(0)
    assert len(out) == 2
    done.set()
    await asyncio.gather(*later)
    assert most == 2
    await pace.aclose()


class Clock:
    """Time that goes on when nothing else does."""

    def __init__(self) -> None:
        self.now = 0.0
        self._sleeping: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = itertools.count()

    async def sleep(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleeping, (self.now + seconds, next(self._count), future))
        await future

    async def run(self, work: Awaitable[object]) -> None:
        task = asyncio.ensure_future(work)
        while True:
            for _ in range(60):
                await asyncio.sleep(0)
            if task.done():
                return task.result()
            self.now, _, future = heapq.heappop(self._sleeping)
            if not future.done():
                future.set_result(None)


class Limited:
    """Lets *burst* calls through, then one more every so many seconds; the others are refused at once."""

    def __init__(self, clock: Clock, every: float, burst: int, takes: float) -> None:
        self._clock, self._every, self._burst, self._takes = clock, every, burst, takes
        self._left, self._at = float(burst), 0.0
        self.calls = self.answered = 0

    async def call(self) -> bool:
        self.calls += 1
        self._left = min(self._burst, self._left + (self._clock.now - self._at) / self._every)
        self._at = self._clock.now
        passes = self._left > 1 - 1e-9
        self._left -= passes
        await self._clock.sleep(self._takes if passes else 0.02)
        self.answered += passes
        return passes


async def paced(
    server: Limited, clock: Clock, summaries: int, *, named: float | None, in_flight: int = 4
) -> None:
    """Ask for some summaries, a few at a time; *named*: the pause that the server asks for."""
    pace, room = CallPace(clock.sleep, lambda: clock.now), asyncio.Semaphore(in_flight)
    chance = random.Random(summaries)

    async def ask() -> None:
        async with room:
            refused, answers = 0, pace.answers
            while True:
                async with pace.turn():
                    if await server.call():
                        pace.answered()
                        return
                if pace.answers > answers:
                    refused, answers = 0, pace.answers
                wait = chance.uniform(0.75, 1.0) * min(8.0, 2.0**refused)
                refused += 1
                assert refused < ATTEMPTS, "the batch would end"
                pace.pause(named or wait, slower=True)

    await clock.run(asyncio.gather(*(ask() for _ in range(summaries))))
    await pace.aclose()


@pytest.mark.cases(1)
@pytest.mark.parametrize("in_flight", [1, 4, 8, 16])
@pytest.mark.parametrize("named", [5.0, 2.0, 1.0, None])
@pytest.mark.parametrize("every", [1.0, 2.0, 5.0])
async def test_a_server_with_a_pace_gets_at_most_two_calls_a_summary(
    named: float | None, every: float, in_flight: int
):
    for summaries, takes in itertools.product((7, 30), (0.05, 0.5, 1.9)):
        clock = Clock()
        server = Limited(clock, every, 1, takes)
        await paced(server, clock, summaries, named=named, in_flight=in_flight)
        assert server.answered == summaries
        assert server.calls <= 2 * summaries
        assert clock.now <= 1.6 * max(every, named or 0) * summaries + 20


@pytest.mark.cases(3)
@pytest.mark.parametrize("in_flight", [1, 4, 8, 16])
async def test_a_server_that_refuses_none_waits_two_moments_at_most(in_flight: int):
    for takes in (0.5, 10.0):
        clock = Clock()
        server = Limited(clock, 0.001, 100_000, takes)
        await paced(server, clock, 64, named=None, in_flight=in_flight)
        assert server.calls == 64
        assert clock.now <= 64 / in_flight * takes + (0 if in_flight <= 4 else 2.0)


async def test_the_pace_grows_again_after_whole_windows_without_a_refusal():
    clock = Clock()
    server = Limited(clock, 0.001, 100_000, 0.3)
    pace = CallPace(clock.sleep, lambda: clock.now)

    async def ask() -> None:
        async with pace.turn():
            assert await server.call()
            pace.answered()

    async def work() -> None:
        await ask()
        pace.pause(1.0, slower=True)
        await asyncio.gather(*(ask() for _ in range(12)))

    await clock.run(work())
    assert (server.calls, server.answered) == (13, 13)
    assert pace.each in (2, 3), "slowly"
    assert clock.now > 5.0
    await pace.aclose()


@pytest.mark.cases(1)
@SHAPES
async def test_refusals_for_their_number_are_no_calls_and_all_are_answered(api: type[ScriptedServer]):
    waits = Waits()
    burst = [Fail(429, "rate_limit_error", "slow down", {"Retry-After": "11"})] * 5
    with api(*burst, Say()) as server:
        async with asking(server, budget=CallBudget(max_calls=6), waits=waits) as writer:
            replies = await asyncio.gather(*(writer(REQUEST) for _ in range(6)))
            assert writer.meter.budget.spent.calls == 6
            with pytest.raises(LimitReachedError):
                await writer(REQUEST)
    assert {reply.text for reply in replies} == {Say().text}
    named = sorted(one for one in waits.seconds if one > 1.0)  # before the sixth call a moment passes
    assert named[:5] == [11.0] * 5
    assert all(11.0 < one < 12.2 for one in named[5:]), "windows among them"
    assert len(server.received) == 11


@pytest.mark.cases(6)
@SHAPES
@pytest.mark.parametrize(
    ("fail", "code", "says"),
    [
        (Fail(404, "not_found_error", "model: x"), "MODEL_NOT_FOUND", "--model"),
        (Fail(400, "invalid_request_error", "The model `x` does not exist"), "MODEL_NOT_FOUND", "--model"),
        (Fail(402, "billing_error", "pay"), "NO_CREDIT", "add credit"),
        (Fail(400, "invalid_request_error", "Your credit balance is too low"), "NO_CREDIT", "add credit"),
        (Fail(429, "insufficient_quota", "You exceeded your current quota"), "NO_CREDIT", "add credit"),
        (Fail(429, "rate_limit_error", "slow", {"Retry-After": "3600"}), "RATE_LIMITED", "60 minutes"),
        (Fail(503, "overloaded", "slow", {"Retry-After": "1e999"}), "RATE_LIMITED", "more than 100 days"),
        (
            Fail(
                429,
                "rate_limit_error",
                "slow",
                {"Retry-After": format_datetime(datetime.now(UTC) + timedelta(days=7), usegmt=True)},
            ),
            "RATE_LIMITED",
            "pause of 7 days|pause of 168 hours",
        ),
    ],
)
async def test_what_no_other_call_would_survive_is_said_once(
    api: type[ScriptedServer], fail: Fail, code: str, says: str
):
    waits = Waits()
    with api(fail) as server:
        async with asking(server, waits=waits) as writer:
            with pytest.raises(ProviderUnavailableError, match=says) as caught:
                await writer(REQUEST)
            assert writer.meter.budget.spent.usage.cost_usd == 0
    assert caught.value.code == code
    assert (len(server.received), waits.seconds) == (1, [])


@SHAPES
async def test_the_longest_pause_is_waited_for_and_a_longer_one_is_not(api: type[ScriptedServer]):
    waits = Waits()
    longest = Fail(429, "rate_limit_error", headers={"Retry-After": str(int(LONGEST_WAIT))})
    longer = Fail(429, "rate_limit_error", headers={"Retry-After": str(int(LONGEST_WAIT) + 1)})
    with api(longest, Say(), longer) as server:
        async with asking(server, waits=waits) as writer:
            await writer(REQUEST)
            with pytest.raises(ProviderUnavailableError, match="6 minutes"):
                await writer(REQUEST)
    assert waits.seconds == [LONGEST_WAIT]


@SHAPES
async def test_refusals_without_end_end(api: type[ScriptedServer]):
    with api(Fail(429, "rate_limit_error", "no")) as server:
        async with asking(server) as writer:
            with pytest.raises(ProviderUnavailableError, match="fewer calls") as caught:
                await writer(REQUEST)
            assert writer.meter.budget.spent.calls == 0
    assert caught.value.code == "RATE_LIMITED"
    assert len(server.received) == ATTEMPTS


@pytest.mark.cases(3)
@SHAPES
@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("authentication_error", ProviderAuthError),
        ("billing_error", ProviderUnavailableError),
        ("not_found_error", ProviderUnavailableError),
    ],
)
async def test_an_error_in_the_middle_of_an_answer_is_what_it_says(
    api: type[ScriptedServer], kind: str, error: type[SummarizerError]
):
    body = json.dumps({"type": "error", "error": {"type": kind, "message": "so it is"}}).encode()
    for raw in (b"event: error\ndata: " + body + b"\n\n", body):
        with api(Raw(raw)) as server:
            async with asking(server) as writer:
                with pytest.raises(error, match="so it is"):
                    await writer(REQUEST)
        assert len(server.received) == 1


# -- what it costs -------------------------------------------------------------------------------------------


@pytest.mark.long
@SHAPES
async def test_the_most_that_is_foreseen_holds_whatever_goes_wrong(api: type[ScriptedServer]):
    again = SummaryRequest(REQUEST.text, True, 0, 100)
    scripts = [
        [Say(breaks="reset", told="none")] * 3 + [Say(told="none", whole=True)],
        [Raw(b"<html>"), Say(breaks="end"), Say(breaks="error"), Say()],
        [Fail(529, "overloaded_error"), Fail(429, "rate_limit_error"), Say(told="none")],
    ]
    for script in scripts:
        with api(*script, *script) as server:
            async with asking(server) as writer:
                foreseen = writer.forecast(REQUEST, again)
                for one in (REQUEST, again):
                    await writer(one)
                spent = writer.meter.budget.spent
        assert foreseen.most.calls == 2 * ATTEMPTS
        assert spent.calls <= foreseen.most.calls
        assert foreseen.most.cost_usd is not None
        assert 0 < (spent.usage.cost_usd or 0) <= foreseen.most.cost_usd


async def test_nobody_is_paid_for_a_connection_that_never_was():
    with MessagesApi() as gone:
        pass
    async with asking(gone) as writer:
        with pytest.raises(SummarizerError, match="connection"):
            await writer(REQUEST)
        assert (writer.meter.budget.spent.calls, writer.meter.budget.spent.usage.cost_usd) == (0, 0.0)


# -- keys ----------------------------------------------------------------------------------------------------


@SHAPES
async def test_nothing_of_the_environment_reaches_a_server(
    api: type[ScriptedServer], monkeypatch: pytest.MonkeyPatch
):
    for name, value in AMBIENT.items():
        monkeypatch.setenv(name, value)
    with api() as server:
        async with asking(server) as writer:
            assert (await writer(REQUEST)).text == Say().text
    [sent] = server.received
    seen = json.dumps(dict(sent.headers)) + sent.raw.decode() + sent.path
    for value in AMBIENT.values():
        for word in value.replace("\n", " ").split():
            assert len(word) < 7 or word.startswith(("http", "X-", "Authorization")) or word not in seen
    expected = {
        "host",
        "accept",
        "accept-encoding",
        "content-type",
        "content-length",
        "user-agent",
        "authorization",
    }
    assert set(sent.headers) - {"x-api-key", "anthropic-version"} == expected
    assert sent.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.cases(6)
@SHAPES
@pytest.mark.parametrize(
    "garbage", ["X-Ü: 1", "X-A: naïve", "no colon", "X-B: a\r\nX-C: \x07", ": empty", "Content-Length: 3"]
)
async def test_headers_that_are_none_do_no_harm(
    api: type[ScriptedServer], garbage: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", garbage)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", garbage)
    with api() as server:
        async with asking(server) as writer:
            assert (await writer(REQUEST)).text == Say().text


@pytest.mark.parametrize(("name", "provider"), [("ANTHROPIC", "anthropic"), ("OPENAI", "openai")])
async def test_headers_go_to_the_address_that_they_are_for_and_to_no_other(name: str, provider: str):
    api = MessagesApi if provider == "anthropic" else OpenAIApi
    lines = (
        "X-Team: blue\nAuthorization: Bearer other\nX-Gateway-Key: gw-12345678\nHost: evil.example\nbroken"
    )
    with api() as mine, api() as foreign:
        environ = {
            f"{name}_CUSTOM_HEADERS": lines,
            f"{name}_BASE_URL": mine.url,
            f"{name}_API_KEY": KEY,
            "OTHER": "sk-other-key-00000",
        }
        for server, extra in ((mine, {}), (foreign, {"key_variable": "OTHER"})):
            flags = SummarySettings().with_flags(
                provider=provider, model="claude-haiku-4-5", base_url=server.url
            )
            chosen = choose_model(flags, KeySource(environ, **extra))
            writer = open_summary_writer(chosen, flags)
            await writer(REQUEST)
            await writer.aclose()
            assert ("gw-12345678" in repr(chosen), KEY in repr(chosen)) == (False, False)
    sent, elsewhere = mine.received[0].headers, foreign.received[0].headers
    assert (sent["x-team"], sent["x-gateway-key"]) == ("blue", "gw-12345678")
    assert sent["authorization"] == f"Bearer {KEY}"
    assert "127.0.0.1" in sent["host"]
    assert not {"x-team", "x-gateway-key"} & set(elsewhere)
    assert "gw-12345678" not in json.dumps(dict(elsewhere))


def test_headers_of_one_maker_are_not_those_of_another():
    environ = {"ANTHROPIC_CUSTOM_HEADERS": "X-A: 1", "OPENAI_CUSTOM_HEADERS": "X-B: 2"}
    for provider, base_url, names in (
        ("anthropic", "https://api.anthropic.com", ("X-A",)),
        ("openai", "https://api.openai.com/v1", ("X-B",)),
        ("openrouter", "https://openrouter.ai/api/v1", None),
        ("ollama", "http://127.0.0.1:11434/v1", None),
        ("anthropic", "https://gateway.example", None),
    ):
        found = find_headers(ModelChoice(PROVIDERS[provider], "m", base_url), KeySource(environ))
        assert (None if found is None else found.names) == names


@pytest.mark.cases(4)
@SHAPES
@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
async def test_what_a_server_repeats_of_our_headers_is_masked(api: type[ScriptedServer], status: int):
    headers = {"X-Gateway-Key": "gw/12+34&5678", "X-Pair": "Token pair-token-99", "X-Flag": "on"}
    with api(Echo(status)) as server:
        async with asking(server, headers=headers) as writer:
            with pytest.raises(SummarizerError) as caught:
                await writer(REQUEST)
    shown = (
        caught.value.message + json.dumps(caught.value.details) + repr(caught.value) + repr(writer.__dict__)
    )
    for secret in (KEY, "gw/12+34&5678", "pair-token-99"):
        assert secret not in shown
        assert json.dumps(secret)[1:-1].replace("/", "\\/") not in shown


@SHAPES
async def test_an_answer_that_holds_our_key_is_kept_nowhere(api: type[ScriptedServer]):
    with api(Echo(200)) as server:
        async with asking(server, headers={"X-Gateway-Key": "gw-1234-5678"}) as writer:
            reply = await writer(REQUEST)
    assert (reply.text, reply.finished, reply.stop_reason) == ("", False, HELD_KEY)
    assert reply.usage.input_tokens > 0, "it was paid for all the same"
    verdict = judge(reply, REQUEST)
    assert verdict.faults == ("held our key",)
    assert KEY not in repr(reply) + repr(verdict)


@pytest.mark.cases(5)
@SHAPES
@pytest.mark.parametrize("key", ["ollama", "lmstudio", "none", "test", "importer"])
async def test_a_key_that_is_a_word_may_stand_in_an_answer(api: type[ScriptedServer], key: str):
    with api(Say(f"The importer asks {key} now.")) as server:
        async with asking(server, key=key) as writer:
            assert key in (await writer(REQUEST)).text


@pytest.mark.parametrize("form", ["{}", "a{}b", "Bearer {}", "key={}&x"])
def test_a_secret_is_found_in_the_forms_in_which_servers_repeat_it(form: str):
    secret = "sk/te+st&0123<456>789"
    found = Credential("openai", "https://x:443", KeyKind.API_KEY, "K", secret).secrets
    for said in (
        secret,
        "sk\\/te+st&0123<456>789",
        "sk%2Fte%2Bst%260123%3C456%3E789",
        "sk/te+st&amp;0123&lt;456&gt;789",
    ):
        text = form.format(said)
        assert found.are_in(text)
        assert said not in found.redacted(text)
    with pytest.raises(TypeError):
        found.__reduce__()
