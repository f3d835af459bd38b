"""Messages as lines: what is shown folded and open, and how calls find their results."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.base.text import cell_width, safe_line
from lcm_core.engine.content import ContentPart, PartKind
from rich.style import Style

from lcm_tui.kit.drawn import strip_of
from lcm_tui.kit.spans import text_of
from lcm_tui.tables.messages import MessageView, message_lines, pair

FOLDED_LINES = 3
INDENT = "      "

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)


def view(number: int, *parts: ContentPart, **others: object) -> MessageView:
    return MessageView(number, "user", NOON, "", 12, parts, **others)


def text(said: str) -> ContentPart:
    return ContentPart(PartKind.TEXT, "text", said)


def call(call_id: str, arguments: str = '{"path":"a"}') -> ContentPart:
    return ContentPart(PartKind.TOOL_CALL, "toolCall", call_id=call_id, tool_name="read", arguments=arguments)


def result(call_id: str, said: str, *, failed: bool = False) -> ContentPart:
    return ContentPart(PartKind.TOOL_RESULT, "text", said, call_id=call_id, tool_name="read", is_error=failed)


def lines(one: MessageView, *others: MessageView, width: int = 80, opened: bool = False):
    views = sorted((one, *others), key=lambda found: found.number)
    return message_lines(one, width, opened=opened, pairing=pair(views), zone=UTC)


def shown(one: MessageView, *others: MessageView, width: int = 80, opened: bool = False) -> list[str]:
    return [safe_line(text_of(line)) for line in lines(one, *others, width=width, opened=opened)]


def test_the_header_names_seq_role_time_tokens_and_where_the_message_went():
    one = view(7, covered_by=("sum_a", "sum_b"), in_context=True)
    assert shown(one) == ["    7 user      2026-03-02 12:00:00      12 tok  in context leaf sum_a +1"]
    unread = MessageView(7, "tool", None, "half past", None, ())
    assert shown(unread)[0].split() == ["7", "tool", "half", "past"]


def test_a_long_text_is_folded_to_its_first_lines():
    one = view(1, text("first\nsecond\nthird\nfourth"))
    assert shown(one)[1:] == [f"{INDENT}first", f"{INDENT}second", f"{INDENT}third …"]
    assert shown(one, opened=True)[1:] == [
        f"{INDENT}{said}" for said in ("first", "second", "third", "fourth")
    ]
    assert shown(view(1, text("one\ntwo\nthree")))[1:] == [f"{INDENT}one", f"{INDENT}two", f"{INDENT}three"]
    assert shown(view(1, text("  \n ")))[1:] == []


def test_a_call_names_its_result_and_shows_it_when_opened():
    asked, answered = view(3, call("c1")), view(5, result("c1", "the answer"))
    assert shown(asked, answered)[1].split() == ["▸", "read", '{"path":"a"}', "→", "#5"]
    assert shown(answered, asked)[1].strip() == "▸ read ← #3: the answer"
    opened = shown(asked, answered, opened=True)
    assert opened[1].split() == ["▾", "read", "c1", "→", "#5"]
    assert f'{INDENT}  "path": "a"' in opened
    assert opened[-2:] == [f"{INDENT}result (#5)", f"{INDENT}the answer"]


def test_a_result_that_is_cut_says_where_the_rest_is():
    asked, answered = view(3, call("c1")), view(5, result("c1", "the an"), complete=False)
    assert shown(asked, answered, opened=True)[-1].strip() == "… the rest is in #5"


def test_halves_that_are_not_in_sight_are_said_to_be_missing():
    assert "→ no result found" in shown(view(3, call("c1")))[1]
    assert "← no call found" in shown(view(3, result("c1", "x")))[1]


def test_an_id_that_is_used_again_pairs_each_call_with_the_result_after_it():
    views = [view(1, call("0")), view(2, result("0", "a")), view(3, call("0")), view(4, result("0", "b"))]
    assert [
        shown(one, *(other for other in views if other is not one))[1].split("#")[1][0] for one in views
    ] == [
        "2",
        "1",
        "4",
        "3",
    ]


def test_a_call_and_its_result_may_stand_in_one_message():
    one = view(1, call("c"), result("c", "said"))
    assert "→ #1" in shown(one)[1]
    assert "← #1" in shown(one)[2]


def test_a_failed_result_is_told_in_the_colour_of_errors():
    [_, line] = lines(view(2, result("c", "no such file", failed=True)))
    assert "read failed" in text_of(line)
    assert {span.style for span in line if span.text.strip()} == {"error"}


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (ContentPart(PartKind.REASONING, "thinking", "because"), "▸ reasoning: because"),
        (ContentPart(PartKind.REASONING, "redactedThinking"), "▸ reasoning: (no text)"),
        (
            ContentPart(PartKind.IMAGE, "image", mime="image/png", byte_size=12345),
            "▣ image · image/png · 12,345 bytes",
        ),
        (ContentPart(PartKind.FILE, "file", name="a.pdf", url="https://x"), "▣ a.pdf · https://x"),
        (ContentPart(PartKind.OTHER, "server_event", '{"a":1}'), '▸ server_event: {"a":1}'),
    ],
)
def test_parts_of_other_kinds_take_one_line(part: ContentPart, said: str):
    assert shown(view(1, part))[1].strip() == said


def test_a_file_that_carries_text_shows_it():
    one = view(1, ContentPart(PartKind.FILE, "document", "its text", name="a.md"))
    assert shown(one)[1:] == [f"{INDENT}▣ a.md", f"{INDENT}its text"]


def test_an_open_message_shows_its_columns_above_its_text():
    one = view(1, text("short"), columns="message_id 7 · token_count 12")
    assert shown(one)[1:] == [f"{INDENT}short"]
    assert shown(one, opened=True)[1:] == [f"{INDENT}message_id 7 · token_count 12", f"{INDENT}short"]


def test_what_is_still_being_read_is_said():
    assert shown(view(1, text("x"), complete=False), opened=True)[-1].strip() == "reading the rest …"
    assert shown(view(1, text("x"), complete=False))[-1].strip() == "x"


_ANY = st.one_of(
    st.characters(),
    st.sampled_from(" \n\t\x1b\x9b[]/日本\u0301\u202e\u200d\ufe0f⚠\U0001f468\U0001f1e6\udcff"),
)
_REPEATED = st.sampled_from(["\u0301", "\ufe0f", "⚠\ufe0f", "\r", "日"])
HOSTILE = st.one_of(
    st.text(_ANY, max_size=100), st.builds(lambda mark, count: mark * count, _REPEATED, st.integers(0, 1000))
)
PARTS = st.builds(
    ContentPart,
    st.sampled_from(PartKind),
    HOSTILE,
    HOSTILE,
    call_id=st.none() | st.sampled_from("ab") | HOSTILE,
    tool_name=st.none() | HOSTILE,
    arguments=st.none() | HOSTILE | st.sampled_from(['{"a":[1,{}]}', "[" * 5000]),
    is_error=st.none() | st.booleans(),
    name=st.none() | HOSTILE,
    url=st.none() | HOSTILE,
    byte_size=st.none() | st.integers(0, 10**9),
)


@pytest.mark.long
@given(
    parts=st.lists(PARTS, max_size=3),
    width=st.integers(1, 100),
    opened=st.booleans(),
    complete=st.booleans(),
    role=HOSTILE,
)
def test_nothing_that_a_message_can_hold_breaks_its_lines(
    parts: list[ContentPart], width: int, opened: bool, complete: bool, role: str
):
    one = MessageView(1, role, None, role, 5, tuple(parts), title=role, complete=complete, note=role)
    drawn = message_lines(one, width, opened=opened, pairing=pair([one]), zone=None)
    if not opened:
        assert len(drawn) <= 2 + len(parts) * (FOLDED_LINES + 1)
    for line in drawn:
        strip = strip_of(line, lambda _: Style(), width)
        assert cell_width(strip.text) == width
        assert "\n" not in strip.text
