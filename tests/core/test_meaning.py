"""What a text says (docs/spec/texts.md): examples, the rule told again in other words, hostile texts."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.base.javascript import trimmed
from lcm_core.base.text import BLANKS
from lcm_core.engine.meaning import message_says, plain, summary_says, value_says

BASE64 = "QUJD" * 64


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("one\r\ntwo\r\n\r\nthree  \n", "one\ntwo\nthree"),
        ("a lone\rreturn", "a lone\rreturn"),
        ("  indented\n\u3000\n  stays\x85", "indented\n  stays\x85"),
        ("see data:image/png;base64,iVBORw0KGgo= and more\nlines. End", "see [embedded media omitted]. End"),
        ("DATA:x;BASE64,QQ== tail", "[embedded media omitted]"),
        ("data:a'b;base64,QQ== data:;base64,QQ==", "data:a'b;base64,QQ== data:;base64,QQ=="),
        ("data:image/png,QUJD", "data:image/png,QUJD"),
        ("data:data:x;base64,QQ!", "[embedded media omitted]!"),
        ("see xxdata:a;base64,QQ!", "see xx[embedded media omitted]!"),
        ("x data:a;b;base64,QQ", "x data:a;b;base64,QQ"),
        ("a;base64,QQ! data:a;base64,QQ!", "a;base64,QQ! [embedded media omitted]!"),
        ("data:a;base64,data:b;base64,QQ", "[embedded media omitted]:b;base64,QQ"),
        ("data:a;base64,!", ""),
        ("x data:a;base64,!", "x data:a;base64,!"),
        ("look\n \tMEDIA:/a \nhere", "look\nhere"),
        ("MEDIA:/\nMEDIA:a.png\nmedia:/x\nsee MEDIA:/a", "MEDIA:/\nMEDIA:a.png\nmedia:/x\nsee MEDIA:/a"),
        (f"a\n{BASE64}\nb", "a\nb"),
        (f"a\n{BASE64[:255]}\n{BASE64}QU", f"a\n{BASE64[:255]}\n{BASE64}QU"),
        (f"{BASE64[:9]} {BASE64[9:]}", f"{BASE64[:9]} {BASE64[9:]}"),
        (f"{BASE64[:9]}\t\u3000{BASE64[9:]}", ""),
        ("<think>kept in messages</think>", "<think>kept in messages</think>"),
    ],
)
def test_plain_texts(text: str, left: str) -> None:
    assert plain(text) == left
    assert message_says(text) == left


@pytest.mark.cases(20)
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"status":200,"title":"A page","body":"long"}', "A page"),
        (' [{"text":" a\\n\\nb "},{"text":"b"},"c",5]\n', "a\nb\nb\nc"),
        ('{"data":1}', ""),
        ("{}", ""),
        ("[[]]", ""),
        ("[not JSON]", "[not JSON]"),
        ('{"title": "A\npage"}', '{"title": "A\npage"}'),
        ('{"title": "A page", "size": NaN}', '{"title": "A page", "size": NaN}'),
        ("{" * 5000, "{" * 5000),
        ("[" * 5000 + "]" * 5000, ""),
        ('["seen",' + "[" * 5000 + "]" * 5000 + "]", "seen"),
        ("[[[[[[['seven']]]]]]]".replace("'", '"'), "seven"),
        ("[[[[[[[['eight']]]]]]]]".replace("'", '"'), ""),
        ('{"summary":"s","title":"ti","alt":"a","caption":"c","text":"te"}', "te\nc\na\nti\ns"),
        ('{"command":"b","value":"a","text":["no text"]}', "a\nb"),
        ('{"type":" Thinking ","text":"no"}', ""),
        ('{"rawType":"redacted_thinking","content":"no"}', ""),
        ('{"type":"IMAGE","alt":"a","content":"no"}', "a"),
        ('{"type":["image"],"content":"yes"}', "yes"),
        ('{"text":"{\\"text\\":1}"}', '{"text":1}'),
        ('{"text":"MEDIA:/x\\ny"}', "y"),
        ('{"thinking":"no","name":"no","path":"no","stdout":"no","Text":"no"}', ""),
        ('{"text":"a","text":"b"}', "b"),
    ],
    ids=itertools.count(),
)
def test_texts_that_are_json(text: str, left: str) -> None:
    assert message_says(text) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("<think>a</think>\n <thinking x='1'>b</Thinking >rest", "rest"),
        ("< reasoning >a< / reasoning >", ""),
        ("<think></think>b", "b"),
        ("<think>a</thinking>b</think>c", "c"),
        ("a\n \t<think>b\nc</think> \nd", "a\n\nd"),
        ("a\n<think>b</think> c", "a"),
        ("a\n<think>b</think> c\nd</think>\ne", "a\n\ne"),
        ("a <think>b</think>\nc", "a <think>b</think>\nc"),
        ("a\n<think>never closed\nb", "a"),
        ("a\n<|start_of_think|>b", "a"),
        ("a\n[ Thinking ]b", "a"),
        ("a\n<| reasoning |>b", "a"),
        ("a\n[thinker]\n<thinks>\n<think\n[think", "a\n[thinker]\n<thinks>\n<think\n[think"),
        ("<thought>a</thought><analysis>b</analysis>", "<thought>a</thought><analysis>b</analysis>"),
        ("<th\u0130nk>a</th\u0130nk>", "<th\u0130nk>a</th\u0130nk>"),
        ("\u3000[think] a", ""),
        ("<think>a</think>\u3000<think>b", ""),
        ('{"text":"<think>a</think>b","content":["<reasoning>"]}', "b"),
    ],
)
def test_reasoning_in_summaries(text: str, left: str) -> None:
    assert summary_says(text) == left


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "null"),
        (True, "true"),
        (5, "5"),
        (1.0, "1"),
        (1e21, "1e+21"),
        (float("inf"), "null"),
        ("[1]", ""),
        ("5", "5"),
        ([5], ""),
        ({}, ""),
        ([{"type": "toolCall", "arguments": {"command": "ls", "timeout": 5}}], "ls"),
    ],
)
def test_values(value: Any, says: str) -> None:
    assert value_says(value) == says


# -- the rule, told again --------------------------------------------------------------------------------

_PIECES = (
    "data:",
    "DATA:",
    ";base64,",
    ";BASE64,",
    "image/png",
    "MEDIA:/",
    BASE64,
    BASE64[:200],
    "QUJD",
    "\r\n",
)
_SOUP = st.lists(st.sampled_from([*_PIECES, *"abQ=+/,.;:'! \t\n\r\u3000\u2028\x85"]), max_size=30).map(
    "".join
)


@pytest.mark.long
@given(_SOUP)
def test_plain_texts_as_one_pattern_tells_them(text: str) -> None:
    blank = "[" + BLANKS + "]"
    run = rf"data:[^;\"'`{BLANKS}]+;base64,[A-Za-z0-9+/={BLANKS}]+"
    text_left = re.sub(run, "[embedded media omitted]", text, flags=re.IGNORECASE | re.ASCII)
    kept = []
    for line in re.split(r"\r?\n", text_left):
        bare = line.strip(BLANKS)
        base64 = re.sub(blank, "", bare)
        payload = re.match(rf"data:[^;\"'`{BLANKS}]+;base64,", bare, re.IGNORECASE | re.ASCII) or (
            len(base64) >= 256
            and len(base64) % 4 == 0
            and re.fullmatch("[A-Za-z0-9+/=]*", base64)
            and not set(bare) & set(" .,:;!?()[]{}")
        )
        if bare and not payload and not re.match("MEDIA:/(?s:.)", bare):
            kept.append(line.rstrip(BLANKS))
    assert plain(text) == "\n".join(kept).strip(BLANKS)


_TAGS = ("<think>", "</think>", "<THINKING x>", "</thinking>", "< reasoning\n>", "</ reasoning>", "[think]")
_TAGS += ("<|start_of_thinking|>", "<think", "</think", "\n<think>", "</think> \n", "\n\n")
_TAG_SOUP = st.lists(st.sampled_from([*_TAGS, *"ab>\n\t /\u3000"]), max_size=25).map("".join)


@pytest.mark.long
@given(_TAG_SOUP)
def test_reasoning_as_patterns_tell_it(text: str) -> None:
    b, names, flags = f"[{BLANKS}]*", "think|thinking|reasoning", re.IGNORECASE | re.ASCII
    opening = rf"<{b}({names})(?:[{BLANKS}][^>]*)?>"
    barred = rf"<\|{b}(?:start_of_)?(?:{names}){b}\|>|\[{b}(?:{names}){b}\]"
    any_opening = rf"(?:<{b}(?:{names})(?:[{BLANKS}][^>]*)?>|{barred})"
    wanted = plain(text)
    while match := re.match(rf"{opening}(?s:.)*?<{b}/{b}\1{b}>{b}", wanted, flags):
        wanted = wanted[match.end() :]
    whole = rf"(?:\A|(?<=\n))[ \t]*{opening}(?s:.)*?<{b}/{b}\1{b}>[ \t]*(?=\n|\Z)"
    wanted = re.sub(whole, "", wanted, flags=flags)
    wanted = trimmed(re.sub(rf"(?:\A|(?<=\n))[ \t]*{any_opening}(?s:.)*", "", wanted, flags=flags))
    assert summary_says(text) == ("" if re.match(any_opening, wanted, flags) else wanted)


TEXTS = ("text", "caption", "alt", "title", "summary")
NESTED = (
    "value",
    "content",
    "parts",
    "items",
    "message",
    "messages",
    "input",
    "arguments",
    "output",
    "result",
)
NESTED += ("results", "data", "query", "command")
Shape = tuple[Any, list[str]]
_WORD = st.sampled_from(["one", "two words", " padded ", "", "\u3000", "[1]", "null", "MEDIA:/x"])


def _said(word: str) -> list[str]:
    return [found] if (found := plain(word)) else []


@st.composite
def shapes(draw: st.DrawFn, depth: int = 0) -> Shape:
    """A value that stands at a depth, and the fragments that it gives there."""
    if depth > 9 or draw(st.integers(0, 5)) == 0:
        leaf = draw(st.one_of(st.none(), st.booleans(), st.integers(0, 9), _WORD, _WORD))
        return leaf, _said(leaf) if isinstance(leaf, str) and depth < 8 else []
    if draw(st.booleans()):
        entries = [draw(shapes(depth + 1)) for _ in range(draw(st.integers(1, 2)))]
        told = [one for _, found in entries for one in found]
        return [value for value, _ in entries], told if depth < 8 else []
    return draw(objects(depth))


_MEMBER = st.one_of(_WORD.map(lambda word: (word, _said(word))), st.just(([5], [])))


@st.composite
def objects(draw: st.DrawFn, depth: int) -> Shape:
    """An object with keys in any order, some of which are not read."""
    kind = draw(st.sampled_from(["", "", "", "text", " Reasoning", "image", "snapshot "]))
    members: dict[str, Any] = {"Text": "no", "name": "no"}
    told: dict[str, list[str]] = {}
    for key in draw(st.lists(st.sampled_from(TEXTS + NESTED), max_size=3, unique=True)):
        members[key], told[key] = draw(_MEMBER if key in TEXTS else shapes(depth + 1))
    if kind:
        members[draw(st.sampled_from(["type", "rawType"]))] = kind
    read = TEXTS if kind.strip() in ("image", "snapshot") else TEXTS + NESTED
    silent = depth >= 8 or kind.strip() == "Reasoning"
    return members, [] if silent else [one for key in read for one in told.get(key, [])]


@pytest.mark.long
@given(st.one_of(objects(0), shapes()))
def test_fragments_of_nested_json(shape: Shape) -> None:
    value, fragments = shape
    if isinstance(value, dict | list):
        assert message_says(json.dumps(value, ensure_ascii=False)) == "\n".join(fragments)
        assert value_says(value) == "\n".join(fragments)


# -- hostile texts ---------------------------------------------------------------------------------------

MILLION = 1_000_000
#: Each would keep a pattern that looks from the beginning busy for minutes or hours.
HOSTILE = {
    "data without an end": "data:" * 200_000,
    "data and a colon": "data:x;" * 140_000,
    "data of no type": "data:;base64," * 77_000,
    "payload after payload": "data:x;base64,QQ==!" * 52_000,
    "blanks": " \t\u3000" * 330_000 + "x",
    "blanks in base64": "QUJD\t" * 200_000 + ":",
    "openings": "<think>" * 140_000,
    "openings on lines": "<think \n" * 125_000 + ">",
    "elements": "<think>a</think>\n" * 58_000,
    "elements on lines": "x\n" + "<think>a</think>\n" * 58_000,
    "closings": "x\n<think>" + "</think>x" * 110_000,
    "elements that do not end a line": "x\n" + "<think>a</think>b\n" * 55_000,
    "other tags": "x\n<thinking>" + "<think></think>\n" * 62_000,
    "blank tags": "<" + " " * MILLION + "think>",
    "many blank tags": ("\n<" + " " * 1000) * 1000,
    "spaces before tags": ("\n" + " " * 1000) * 1000 + "<",
    "lists": "[" * (MILLION // 2) + "]" * (MILLION // 2),
    "objects": '{"content":' * 90_000 + "1" + "}" * 90_000,
    "a long list": "[" + ",".join(['"word"'] * 140_000) + "]",
}


#: What both readings have in common is tried with one of them.
JSON_TEXTS = ("lists", "objects", "a long list")
HOSTILE_READINGS = [
    pytest.param(reading, text, id=f"{reading.__name__}-{name}")
    for name, text in HOSTILE.items()
    for reading in (message_says, summary_says)
    if reading is message_says or name not in JSON_TEXTS
]


@pytest.mark.cases(1)
@pytest.mark.parametrize(("reading", "text"), HOSTILE_READINGS)
def test_no_text_takes_more_than_time_in_proportion(reading: Callable[[str], str], text: str) -> None:
    """Of the thread's own time: what is linear takes a tenth of a second, what is not takes minutes."""
    before = time.thread_time()
    reading(text)
    assert time.thread_time() - before < 20
