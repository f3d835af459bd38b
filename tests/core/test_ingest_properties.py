"""Messages and transcripts that nobody recorded, against a second telling of docs/spec/ingest.md."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lcm_core.base.javascript import js_json, read_json
from lcm_core.base.text import BLANKS
from lcm_core.base.tokens import estimate_weighted
from lcm_core.base.values import replace
from lcm_core.engine.rules import RULES_PRESENT
from lcm_core.engine.stored_parts import canonical, collation, content_as_text, identity_of, text_in
from lcm_host.messages import HostMessage, StoredMessage, read_host_file, read_messages, store_message

TYPES = [
    *("text", "thinking", "redacted_thinking", "reasoning", "tool_use", "toolCall", "tool-use", "tool_call"),
    *("function_call", "function_call_output", "tool_result", "toolResult", "tool_use_result", "tool"),
    *("image", "file", "document", "input_text", "patch", "step_start", "step-finish", "x", "Text", ""),
]
KEYS = [
    *("type", "rawType", "text", "thinking", "summary", "content", "output", "result", "input", "arguments"),
    *("toolInput", "tool_input", "tool_output", "toolOutput", "id", "call_id", "toolCallId", "tool_use_id"),
    *("name", "toolName", "data", "value", "items", "segments", "transcript", "message", "mimeType", "12"),
    *("externalizedFileId", "toolOutputExternalized", "originalByteSize", "isError", "is_error", "raw"),
]
TEXTS = st.one_of(
    st.sampled_from(
        ["", " ", "{}", "[1]", '{"text":"x"}', '["a",["b"]]', "\ud800", "\ufeff", "data:;base64,"]
    ),
    st.text(max_size=12),
)
LEAVES = st.one_of(
    TEXTS, st.none(), st.booleans(), st.integers(-5, 5), st.floats(allow_nan=False), st.just(1e400)
)


def blocks(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects that look like blocks, with members of the right and the wrong kind."""
    typed = st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    return st.builds(lambda kind, more: {"type": kind, **more}, st.sampled_from(TYPES), typed)


VALUES = st.recursive(
    LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=4), blocks(inner)), max_leaves=14
)
MESSAGES = st.builds(
    lambda role, more, content: {"role": role, **more, **content},
    st.sampled_from(["user", "assistant", "system", "tool", "toolResult", "developer", "User", 5]),
    st.dictionaries(
        st.sampled_from(
            [
                *("id", "toolCallId", "toolName", "isError", "provider", "api", "model", "responseModel"),
                *("reasoning_content", "command", "output", "timestamp", "createdAt", "stopReason"),
                *("responseId", "rawPayloadExternalized", "externalizedFileIds", "originalByteSize"),
            ]
        ),
        LEAVES,
        max_size=6,
    ),
    st.one_of(st.just({}), st.builds(lambda value: {"content": value}, VALUES)),
)


# -- what a value says -----------------------------------------------------------------------------------


def blank(text: str) -> bool:
    return not text.strip(BLANKS)


def tell(value: Any, level: int = 0) -> list[str]:
    """What a value says, in a list of one text, or nothing: the table of the page, read anew."""
    if level > 6 or value is None or isinstance(value, bool | int | float):
        return []
    if isinstance(value, str):
        inner = value.strip(BLANKS)
        if re.fullmatch(r"\{.*\}|\[.*\]", inner, re.DOTALL):
            try:
                return [one for one in tell(read_json(inner), level + 1) if one] or [value]
            except ValueError:
                return [value]
        return [value]
    if isinstance(value, list):
        spoken = [one for each in value for one in tell(each, level + 1) if not blank(one)]
        return ["\n".join(spoken)] if spoken else []
    return tell_object(value, level)


def tell_object(value: dict[str, Any], level: int) -> list[str]:
    kind = value.get("type")
    if kind in ("thinking", "redacted_thinking", "reasoning"):
        return []
    if kind in TYPES[4:13] or kind in ("toolUse", "functionCall"):
        found: list[str] = []
        if value.get("toolOutputExternalized") is True:
            for name in ("output", "content", "result"):
                found = found or tell(value.get(name), level + 1)
        return [one for one in found if not blank(one)]
    for name in ("text", "transcript", "transcription", "message", "summary"):
        if isinstance(value.get(name), str) and not blank(value[name]):
            return [value[name]]
    for name in ("segments", "utterances", "paragraphs", "alternatives", "words", "items", "results"):
        if isinstance(value.get(name), list) and (found := tell(value[name], level + 1)):
            return found
    for name in ("content", "output", "result", "payload", "data", "value"):
        if (found := tell(value.get(name), level + 1)) and not blank(found[0]):
            return found
    return []


@pytest.mark.long
@given(VALUES)
def test_a_value_says_what_the_table_says(value: Any) -> None:
    told = tell(value)
    assert text_in(value) == (told[0] if told else None)
    if told:
        assert content_as_text(value) == told[0]


@given(st.integers(0, 12), st.booleans())
def test_below_six_levels_nothing_is_said(depth: int, listed: bool) -> None:
    value: Any = "deep"
    for _ in range(depth):
        value = [value] if listed else {"content": value}
    assert text_in(value) == ("deep" if depth <= 6 else None)


# -- rows ------------------------------------------------------------------------------------------------


@pytest.mark.long
@settings(max_examples=300)
@given(MESSAGES, st.sampled_from([1, 40, 25_000]))
def test_any_message_is_stored_whole_or_not_at_all(message: dict[str, Any], threshold: int) -> None:
    stored = store_message(
        HostMessage(message), replace(RULES_PRESENT.ingest, large_file_token_threshold=threshold)
    )
    if not isinstance(stored, StoredMessage):
        assert message["role"] not in ("user", "system", "tool", "toolResult")
        return
    texts = [stored.content, stored.event_key or "", stored.sender or ""]
    for part in stored.parts:
        texts += [part.text or "", part.tool_call_id or "", part.tool_name or "", part.tool_input or ""]
        texts += [part.tool_output or "", part.metadata]
        assert json.loads(part.metadata)["originalRole"] == message["role"]
    assert all(text.encode() is not None for text in texts)  # a database can keep each of them
    assert stored.identity == identity_of(stored.role, stored.content)
    assert stored.tokens >= 0
    content = message.get("content")
    if not stored.payloads and isinstance(content, list) and content:
        assert len(stored.parts) == len(content)
        raws = [js_json(read_json(part.metadata)["raw"]) for part in stored.parts]
        renamed = [isinstance(one, dict) and isinstance(one.get("rawType"), str) for one in content]
        kept = [
            (raw, js_json(one)) for raw, one, other in zip(raws, content, renamed, strict=True) if not other
        ]
        assert all(raw == one for raw, one in kept)
    for payload in stored.payloads:
        assert payload.summary
        assert re.fullmatch(r"file_[0-9a-f]{16}\.[a-z0-9]{1,10}", payload.stored_name)


@given(st.text(max_size=60), st.sampled_from(["user", "system"]))
def test_a_text_of_a_user_weighs_what_it_says(text: str, role: str) -> None:
    for content in (text, [{"type": "text", "text": text}]):
        stored = store_message(HostMessage({"role": role, "content": content}), RULES_PRESENT.ingest)
        assert isinstance(stored, StoredMessage)
        assert stored.tokens == estimate_weighted(text)


# -- decorated messages ----------------------------------------------------------------------------------

INFO = st.dictionaries(
    st.sampled_from(["sender", "chat_id", "message_id", "timestamp", "history_count", "z", "B", "a_b", "é"]),
    st.one_of(TEXTS, st.integers(0, 2), st.dictionaries(TEXTS, TEXTS, max_size=2)),
    min_size=1,
    max_size=5,
)


@pytest.mark.long
@given(INFO, st.sampled_from(["", "Delivery: x\n\n"]), st.text(max_size=20), st.permutations(range(5)))
def test_what_a_host_varies_does_not_change_a_hash(
    info: dict[str, Any], prelude: str, rest: str, order: list[int]
) -> None:
    def decorated(given: dict[str, Any], indent: int | None, ending: str) -> str:
        told = json.dumps(given, indent=indent, ensure_ascii=False)
        frame = f"Conversation info (untrusted metadata):\n```json\n{told}\n```"
        return f"{prelude}{frame}".replace("\n", ending) + f"{ending}{ending}{rest}"

    names = [name for _, name in sorted(zip(order, info, strict=False))]
    again = {name: info[name] for name in names} | {"message_id": "other"} if "message_id" in info else info
    one, other = decorated(info, 2, "\n"), decorated(again, None, "\r\n" if not prelude else "\n")
    if "\r" not in rest and canonical("user", one) != one and canonical("user", other) != other:
        assert canonical("user", one) == canonical("user", other)
    assert canonical("user", canonical("user", one)) == canonical("user", one)


FENCE_END = st.sampled_from(["\n", "\n\n", "\r\n\r\n", " \t\n", "\n \n", "", "  ", "\n\n\n", "\t"])
BODIES = st.sampled_from(
    ["", "Ledger", "  indented", "Grüße\n\nzwei", "账本", "```\ncode\n```", "\u3000x", " "]
)
PRELUDES = st.sampled_from(
    ["", "Delivery: now\n\n", "Delivery:\n\na\n\n\nb\r\n\r\n", "Delivery: x\n \n", "Delivery: x\n"]
)
#: Headings of blocks of context with a value that may stand there.
CONTEXT = [
    ("Thread starter (untrusted, for context):", "{}"),
    ("Reply chain of current user message (untrusted, nearest first):", '[ {"b":1} ]'),
    ("Reply target of current user message (untrusted, for context):", '{"z": 1,\n"a": 2}'),
    ("Forwarded message context (untrusted metadata):", "[]"),
    ("Location (untrusted metadata):", '{"lat": 1.50}'),
]
RECAP_LINES = [
    ("#m1 Ana: hello", True),
    ("#m1 Tue 2026-02-03 04:05:06 UTC Ana: hello", True),
    ("tUE 2026-02-03 04:05:06 GMT+05:30 Ana B.: 你好: x", True),
    ("#1 SUN 2026-02-03 04:05:06 Z é: .", True),
    ("Tue 2026-02-03 04:05:06 U T C Ana: hello", True),
    ("Tue 2026-02-03 04:05 UTC Ana: hello", False),
    ("Dienstag 2026-02-03 04:05:06 UTC Ana: hello", False),
    ("#m1 Ana: ", False),
    ("#m1 : hello", False),
    ("Ana: hello", False),
]


def framed(heading: str, value: str, ending: str = "\n") -> str:
    return f"{heading}{ending}```json{ending}{value}{ending}```"


def without_separator(text: str) -> str:
    for _ in range(2):
        line, found, following = text.partition("\n")
        if not found or line.strip(" \t\r") or line.rstrip("\r").count("\r"):
            break
        text = following
    return text


@pytest.mark.long
@given(
    st.sampled_from(["", "\n", " \ufeff"]),
    PRELUDES,
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(CONTEXT), FENCE_END), max_size=3),
    st.lists(st.sampled_from(RECAP_LINES), max_size=3),
    st.tuples(FENCE_END, BODIES, st.sampled_from(["\n", "\r\n"])),
)
def test_decorated_messages_are_hashed_as_the_page_says(
    lead: str,
    prelude: str,
    has_sender: bool,
    contexts: list[tuple[tuple[str, str], str]],
    recap: list[tuple[str, bool]],
    ends: tuple[str, str, str],
) -> None:
    gap, body, ending = ends
    heading = "Conversation info (untrusted metadata):"
    info = framed(heading, '{"sender": "Ana", "message_id": 7, "history_count": 2}', ending)
    text, blocks = lead + prelude + info, [framed(heading, '{"sender":"Ana"}')]
    if has_sender:
        sender = "Sender (untrusted metadata):"
        text += gap + framed(sender, '{"name": "Ana", "id": 1}', ending)
        blocks.append(framed(sender, '{"id":1,"name":"Ana"}'))
    between = gap + "".join(framed(*block, ending) + behind for block, behind in contexts)
    text += between
    if recap:
        history = "Chat history since last reply (untrusted, for context):"
        lines = ending.join([history, *(line for line, _ in recap)])
        behind = f"{ending}{ending}{body}"
        text += lines + behind
        if all(good for _, good in recap):
            kept = without_separator(between).rstrip(BLANKS)
            bodies = [one for one in (kept, without_separator(f"{ending}{body}")) if one.strip(BLANKS)]
        else:
            bodies = [without_separator(between + lines + behind)]
    else:
        text += body
        bodies = [one for one in [without_separator(between + body)] if one.strip(BLANKS)]
    is_prelude = not prelude or prelude.endswith(("\n\n", "\r\n\r\n"))
    expected = prelude + "\n\n".join([*blocks, *bodies]) if bodies and is_prelude else text
    assert canonical("user", text) == expected


def test_a_text_on_the_line_of_the_closing_fence_is_the_body() -> None:
    info = framed("Conversation info (untrusted metadata):", '{"message_id":"m","sender":"Ana"}')
    frame = framed("Conversation info (untrusted metadata):", '{"sender":"Ana"}')
    assert canonical("user", f"{info}Ledger") == f"{frame}\n\nLedger"
    assert canonical("user", f"{info}  Ledger") == f"{frame}\n\n  Ledger"


def test_a_recap_that_is_a_list_is_removed_and_the_context_before_it_is_not() -> None:
    info = framed("Conversation info (untrusted metadata):", '{"sender":"Ana","history_count":1}')
    starter = framed(*CONTEXT[0])
    chosen = "Conversation context (untrusted, chronological, selected for current message):"
    recap = framed(chosen, '[{"body":"b"}]')
    frame = framed("Conversation info (untrusted metadata):", '{"sender":"Ana"}')
    for behind in ("", "\n\n", " \n"):
        text = f"{info}\n\n{starter}\n\n\n{recap}{behind}"
        assert canonical("user", text) == f"{frame}\n\n{starter}"
    assert canonical("user", f"{info}\n\n{starter}{recap}x") == f"{frame}\n\n{starter}\n\nx"


def test_names_are_sorted_as_the_hosts_locale_sorts_them() -> None:
    names = ["b", "A", "a", "_x", "1", "ä", "az", "Z", "a_b", "ab", "é", "e"]
    assert sorted(names, key=collation) == ["_x", "1", "a", "A", "ä", "a_b", "ab", "az", "b", "e", "é", "Z"]


# -- transcripts -----------------------------------------------------------------------------------------

LINES = st.lists(
    st.one_of(
        st.builds(
            lambda node, parent, text, kind: {
                **({"type": "message"} if kind else {}),
                **({"id": node} if node else {}),
                "parentId": parent,
                "message": {"role": "user", "content": text},
            },
            st.sampled_from(["a", "b", "c", "d", "e", " f "] * 4 + [None]),
            st.sampled_from([None, "a", "b", "c", "d", "f", "x"]),
            st.text(st.sampled_from("xyz\u2028\u2029\r"), max_size=3),
            st.booleans(),
        ),
        st.builds(
            lambda node, parent: {"type": "custom", "id": node, "parentId": parent},
            *[st.sampled_from("abc")] * 2,
        ),
        st.sampled_from(["{bad", "[1]", "null", " ", '{"type":"session","id":"s"}', '{"id":5}', "\u2028"]),
        st.builds(lambda text: {"role": "user", "content": text, "id": "m"}, st.sampled_from("xy")),
    ),
    max_size=9,
)


def walk(text: str) -> list[Any]:
    """The texts of the messages that the host sees: the page, read anew."""
    found: list[tuple[str | None, str | None, Any]] = []
    for line in re.split(r"\r\n|[\n\r\u2028\u2029]", text):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if not isinstance(value, dict) or value.get("type") == "session":
            continue
        node = value.get("id")
        node = node.strip() or None if isinstance(node, str) else None
        message = value if "role" in value else value.get("message")
        if node or message:
            found.append((node, value.get("parentId"), message and message["content"]))
    everything = [content for _, _, content in found if content is not None]
    if any(node is None and content is not None for node, _, content in found):
        return everything
    last = {node: at for at, (node, _, _) in enumerate(found)}
    at: int | None = len(found) - 1 if found else None
    steps: list[int] = []
    while at is not None:
        if at in steps:
            return everything
        steps.append(at)
        parent = found[at][1]
        if parent is not None and parent not in last:
            return everything
        at = None if parent is None else last[parent]
    return [found[step][2] for step in reversed(steps) if found[step][2] is not None]


@pytest.mark.long
@settings(max_examples=300)
@given(LINES, st.sampled_from(["\n", "\r\n", "\r", "\u2028"]), st.booleans())
def test_any_tree_is_followed_as_the_page_says(
    tmp_path_factory: Any, lines: list[Any], ending: str, ended: bool
) -> None:
    told = [one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in lines]
    text = ending.join(told) + ending * ended
    path: Path = tmp_path_factory.getbasetemp() / "tree.jsonl"
    path.write_bytes(text.encode())
    file = read_host_file(path)
    assert [one.message["content"] for one in read_messages(file, file.messages)] == walk(text)
