"""Transcripts and messages that were made to hurt are stored, passed over, or refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lcm_core.base.jsonl import TranscriptChangedError, TranscriptError
from lcm_core.base.values import replace
from lcm_core.engine.rules import RULES_PRESENT
from lcm_host.appending import Session
from lcm_host.messages import HostMessage, StoredMessage, read_host_file, read_messages, store_message

from tests.databases import column, value
from tests.operations.ingest_replay import opened

KEY = Session("s", "agent:main:main")
DEEP = "[" * 5_000 + "]" * 5_000
#: Texts with values in them, as the engine looks for them.
FRAMED = (
    f'Conversation info (untrusted metadata):\n```json\n{{"sender":{DEEP}}}\n```\n\nhello',
    DEEP,
    f"<file name=a.json>{DEEP}</file>",
)


def nested(levels: int, name: str | None) -> Any:
    found: Any = "x"
    for _ in range(levels):
        found = [found] if name is None else {name: found}
    return found


def line(**members: object) -> str:
    return json.dumps({"type": "message", "message": {"role": "user", "content": "x"}, **members})


@pytest.mark.long
def test_what_is_nested_deeper_than_python_goes_is_stored() -> None:
    small = replace(RULES_PRESENT.ingest, large_file_token_threshold=50)
    for role in ("user", "assistant", "tool"):
        for content in FRAMED:
            assert isinstance(
                store_message(HostMessage({"role": role, "content": content}), small), StoredMessage
            )
    for name in (None, "content", "output"):
        deep = nested(1_500, name)
        block = {"type": "tool_result", "content": deep, "input": deep, "summary": deep}
        for role, content in (("user", deep), ("assistant", [block, deep]), ("tool", [block, deep])):
            message = {"role": role, "content": content, "command": deep, "output": deep}
            assert isinstance(store_message(HostMessage(message), small), StoredMessage)
        shell = {"role": "user", "command": deep, "output": deep}
        assert isinstance(store_message(HostMessage(shell), RULES_PRESENT.ingest), StoredMessage)


def test_nothing_of_what_is_nested_deeply_is_lost() -> None:
    message = {"role": "assistant", "content": [{"type": "x", "deep": nested(3_000, None)}]}
    stored = store_message(HostMessage(message), RULES_PRESENT.ingest)
    assert isinstance(stored, StoredMessage)
    assert stored.parts[0].metadata.count("[") == 3_000


async def test_lines_that_were_made_to_hurt(tmp_path: Path) -> None:
    lines = [
        line(id="a", parentId=None, timestamp=10**30),
        line(id="b", parentId="a", deep=0).replace("0}", f"{DEEP}}}"),
        line(id="c", parentId="b", big=0).replace("0}", "9" * 5_000 + "}"),
        line(id=["d"], parentId={"x": 1}),  # no id: then the order of the file counts
        line(id="e", parentId="e", message={"role": "user", "content": {"12": 0, "a": [0]}}).replace(
            '12": 0', '12": 1e400'
        ),
        '{"type":"message","message":{"role":"user","content":"NaN"},"x":NaN}',
        "\x00" * 1_000,
        "\r" * 1_000_000,
        '"' * 100_000,
        "{" * 100_000,
    ]
    path = tmp_path / "s.jsonl"
    path.write_bytes("\n".join(lines).encode() + b"\n\xff\xfe" + b"\xef\xbb\xbf")
    file = read_host_file(path)
    assert (len(file.on_path), file.bad_lines) == (5, 4)
    async with await opened(tmp_path / "lcm.db", {}) as engine:
        done = await engine.bootstrap(KEY, path)
        assert (done.imported, done.bad_lines) == (5, 4)
        again = await engine.bootstrap(KEY, path)
        assert again.imported == 0
    assert value(tmp_path / "lcm.db", "SELECT count(*) FROM message_parts") == 5
    assert column(tmp_path / "lcm.db", "SELECT content FROM messages WHERE seq = 5") == [
        '{"12":null,"a":[0]}'
    ]


def test_a_file_that_is_rewritten_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(f"{line(id='a')}\n{line(id='b', parentId='a')}\n")
    file = read_host_file(path)
    for other in (line(id="x"), "[1]", "", "{"):
        path.write_text(other)
        with pytest.raises(TranscriptChangedError, match="was rewritten while it was read"):
            list(read_messages(file, file.messages))


def test_a_list_that_is_too_large_to_be_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps([{"role": "user", "content": "x"}] * 9))
    assert len(read_host_file(path).on_path) == 9
    monkeypatch.setattr("lcm_host.messages.LIST_LIMIT", 50)
    with pytest.raises(TranscriptError, match=r"one JSON list of \d+ bytes"):
        read_host_file(path)


def test_a_line_that_is_longer_than_the_engine_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(f"{line(id='a')}\n{line(id='b', parentId='a', x='y' * 100_000)}\n{line(id='c')}\n")
    monkeypatch.setattr("lcm_host.messages.HOST_LINE_LIMIT", 70_000)
    file = read_host_file(path)
    assert ([one.node for one in file.entries], file.bad_lines) == (["a", "c"], 1)
    assert "too long (100," in file.problems[0].reason
