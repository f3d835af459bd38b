"""The rules by themselves: what repeats without being damage, and what texts give away."""

from __future__ import annotations

import hashlib
from array import array
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.checks import texts
from lcm_core.checks.check import Limits
from lcm_core.checks.database import SPACE, Space
from lcm_core.checks.repeats import Keys, Proof, find_clusters, find_replays
from lcm_core.checks.search import is_stale
from lcm_core.checks.structure import MessageColumns
from lcm_core.checks.texts import are_twins
from lcm_core.findings import Confidence
from lcm_core.records import ConversationId
from lcm_core.wording import agree, counted, phrase

LIMITS = Limits(datetime(2026, 3, 20, tzinfo=UTC))
MINUTE = 1 / 1_440


def conversation(
    texts_of: list[str], days: list[float], calls: list[int] | None = None
) -> tuple[MessageColumns, Keys]:
    size = len(texts_of)
    messages = MessageColumns(
        array("q", range(1, size + 1)),
        array("q", range(1, size + 1)),
        array("q", [10] * size),
        array("d", days),
        bytes(1 if place % 2 == 0 else 2 for place in range(size)),
        bytes(size),
    )
    hashes = array("Q", (int(hashlib.sha256(text.encode()).hexdigest()[:16], 16) for text in texts_of))
    weights = bytes(2 if len(text) > 24 else 1 if text else 0 for text in texts_of)
    return messages, Keys(hashes, array("Q", calls or [0] * size), weights)


def long(text: object) -> str:
    return f"A text that is long enough to mean something: {text}"


def test_a_block_that_was_stored_again_is_told_as_ranges() -> None:
    said = [long(number) for number in range(43)]
    days = [1.0 + place * MINUTE for place in range(43)]
    messages, keys = conversation(said + said[:41], days + days[:41])
    [replay] = find_replays(messages, keys)
    assert (replay.original, replay.copy, replay.length, replay.proof) == (0, 43, 41, Proof.SAME_TIMES)
    assert not list(find_clusters(messages, keys, [replay]))


def test_a_block_that_came_back_in_one_second_is_a_replay() -> None:
    said = [long(number) for number in range(5)]
    messages, keys = conversation(said + said, [1.0 + place * MINUTE for place in range(5)] + [9.0] * 5)
    [replay] = find_replays(messages, keys)
    assert (replay.copy, replay.proof) == (5, Proof.BURST)


@pytest.mark.parametrize("short", ["NO_REPLY", "HEARTBEAT_OK", "ok", "(no output)", ""])
def test_short_repeats_are_never_damage(short: str) -> None:
    messages, keys = conversation([short] * 400, [1.0] * 400)
    assert not find_replays(messages, keys)
    assert not list(find_clusters(messages, keys, []))


def test_a_timer_that_says_the_same_every_half_hour_is_no_replay() -> None:
    turn = [long("check the status"), "", long("all is well"), "HEARTBEAT_OK"]
    days = [1.0 + run * 30 * MINUTE + step * MINUTE for run in range(60) for step in range(4)]
    messages, keys = conversation(turn * 60, days)
    assert not find_replays(messages, keys)
    assert not list(find_clusters(messages, keys, []))


def test_the_same_answers_to_other_tool_calls_are_no_replay() -> None:
    said = [long(number) for number in range(20)]
    days = [1.0 + place * MINUTE for place in range(40)]
    messages, keys = conversation(said * 2, days, list(range(1, 41)))
    assert not find_replays(messages, keys)
    messages, keys = conversation(said * 2, days, list(range(1, 21)) * 2)
    assert [replay.proof for replay in find_replays(messages, keys)] == [Proof.SAME_CALLS]


def test_many_words_again_without_proof_are_suspicious_and_not_certain() -> None:
    said = [long(number) for number in range(20)]
    messages, keys = conversation(said * 2, [1.0 + place * MINUTE for place in range(40)])
    [replay] = find_replays(messages, keys)
    assert (replay.proof, replay.certain) == (Proof.LENGTH, False)


def test_three_equal_user_messages_in_one_second_are_a_flood() -> None:
    said = [long("do it"), "-", long("do it"), "-", long("do it")]
    messages, keys = conversation(said, [1.0] * 5)
    [cluster] = find_clusters(messages, keys, [])
    assert (cluster.places, cluster.flood, cluster.certain) == ((0, 2, 4), True, True)


def test_equal_messages_of_an_import_stamped_at_once_are_not_certain() -> None:
    said = [long(place if place % 10 else "do it") for place in range(40)]
    messages, keys = conversation(said, [1.0] * 40)
    assert [cluster.certain for cluster in find_clusters(messages, keys, [])] == [False]


@given(st.lists(st.sampled_from([long("a"), long("b"), long("c"), "ok", ""]), max_size=60), st.data())
def test_replays_are_equal_do_not_overlap_and_lie_behind_their_originals(
    said: list[str], data: st.DataObject
) -> None:
    days = sorted(data.draw(st.lists(st.floats(1, 2), min_size=len(said), max_size=len(said))))
    messages, keys = conversation(said, days)
    end = 0
    for replay in find_replays(messages, keys):
        assert replay.original + replay.length <= replay.copy
        assert replay.copy >= end
        end = replay.copy + replay.length
        for step in range(replay.length):
            assert said[replay.original + step] == said[replay.copy + step]


@given(st.text(min_size=1), st.integers(0, 400))
def test_a_text_and_its_beginning_are_told_as_copies(text: str, cut: int) -> None:
    source = ["[2026-03-02 14:37 UTC | user]\n" + "word " * 60, text]
    whole_text = "\n\n".join(source)
    assert texts.copied(whole_text, source) is texts.Copy.WHOLE
    beginning = whole_text[: len(whole_text) - cut]
    assert texts.copied(beginning, source) in (texts.Copy.WHOLE, texts.Copy.CUT, None)
    assert texts.copied("Something else. " + whole_text, source) is None


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't assist with that request.",
        "I cannot summarize this conversation.",
        "As an AI language model, I have no access.",
        "Error: 529 overloaded",
    ],
)
def test_refusals(text: str) -> None:
    assert texts.is_refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "I traced the error to commit 12ab, and I'm sure it was the lease table.",
        "The user asked for help; unfortunately the build failed twice.",
        "I'm sorry to say that is what they wrote. " * 60,
        "Errors were found in the log of 2026.",
    ],
)
def test_what_is_no_refusal(text: str) -> None:
    assert not texts.is_refusal(text)


@pytest.mark.parametrize(
    ("text", "binary"),
    [
        ("MEDIA: /tmp/a.png", True),
        ("see data:image/png;base64,iVBOR", True),
        ("x" * 500, True),
        ("/very/long/path/" * 10, False),
        ("The word MEDIA stands here", False),
        ("字" * 600, False),
    ],
)
def test_binary(text: str, binary: bool) -> None:
    assert texts.has_binary(text) is binary


@pytest.mark.parametrize(
    ("one", "other", "twins"),
    [
        ("the quick brown fox  jumps over it", "the quick brown\nfox jumps over it", True),
        ("the key is abc123 for the cluster here", "the key is *** for the cluster here", True),
        ("[Telegram Mira id:4242] please look at the lease table", "please look at the lease table", True),
        ("please look at the lease table", "please look at the lease table again", False),
        ("the quick brown fox jumps over it", "the quick brown fox jumps over it", False),
        ("ok  then", "ok then", False),
        ("* * * and then *** nothing else at all here", "quite another text that ends at all here", False),
    ],
)
def test_twins(one: str, other: str, twins: bool) -> None:
    assert are_twins(one, other) is twins
    assert are_twins(other, one) is twins


def test_of_a_message_that_refers_to_a_file_only_the_summary_is_searched() -> None:
    text = "[LCM Tool Output: file_0123456789abcdef | tool=read | 9 bytes]\nmore\nExploration Summary:\nJSON"
    assert not is_stale(text, "[LCM Tool Output: file_0123456789abcdef | tool=read | 9 bytes]\nJSON")
    assert is_stale(text, "something else")
    assert is_stale("a text", "another")


def test_a_large_wal_and_free_pages_are_told() -> None:
    [check] = SPACE
    space = Space(pages=20_000, free_pages=10_000, page_size=4_096, wal=200 * 1024 * 1024)
    findings = list(check.findings(space, LIMITS))
    assert [(one.check, one.confidence) for one in findings] == [("G14", Confidence.BY_DESIGN)] * 2
    assert "200 MiB" in findings[0].sentence
    assert not list(check.findings(Space(20_000, 900, 4_096, 1_000), LIMITS))


def test_sentences_agree_with_their_numbers() -> None:
    assert counted(1, "summary") == "1 summary"
    assert counted(1_200, "summary") == "1,200 summaries"
    assert agree(1, "are gone") == "is gone"
    assert agree(2, "are gone") == "are gone"
    assert (
        phrase(1, "message", ConversationId(7), "have no parts.")
        == "1 message of conversation 7 has no parts."
    )
    assert phrase(2, "leaf", None, "went away.") == "2 leaves went away."
    assert phrase(1, "leaf", None, "cannot be found.") == "1 leaf cannot be found."
