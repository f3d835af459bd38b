"""Large payloads go to files: what is taken out, what stands in its place, and where the files lie."""

from __future__ import annotations

import base64
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.base.tokens import estimate_weighted
from lcm_core.base.values import replace
from lcm_core.engine.rules import RULES_PRESENT
from lcm_host.messages import HostMessage, StoredMessage, store_message
from lcm_host.payloads import (
    Payload,
    PayloadError,
    payload_path,
    remove_payloads,
    write_payloads,
)

ID = "file_0123456789abcdef"
OTHER = "file_fedcba9876543210"
LONG = "many words of a long text. " * 400
PNG = "iVBORw0KGgoA" + base64.b64encode(b"...").decode()


def stored(
    message: dict[str, Any],
    threshold: int = 1000,
    new_id=None,
) -> StoredMessage:
    ids = iter([ID, OTHER])
    found = store_message(
        HostMessage(message),
        replace(RULES_PRESENT.ingest, large_file_token_threshold=threshold),
        new_id=new_id or (lambda: next(ids)),
    )
    assert isinstance(found, StoredMessage)
    return found


def user(content: object, **more: Any) -> StoredMessage:
    return stored({"role": "user", "content": content}, **more)


def file_of(text: str, name: str | None, mime: str | None) -> Payload:
    """The file that a block of it becomes."""
    given = "".join(f" {key}='{value}'" for key, value in (("name", name), ("mime", mime)) if value)
    return user(f"<file{given}>{text}</file>", threshold=1).payloads[0]


def explore(text: str, name: str | None, mime: str | None) -> str:
    return file_of(text, name, mime).summary


# File blocks


def test_a_large_file_block_gives_way_to_a_reference() -> None:
    message = user(f"See:\n<file name='notes.md' mime='text/markdown'>\n# One\n\n{LONG}</file>\nWell?")
    [payload] = message.payloads
    assert payload.data == f"\n# One\n\n{LONG}".encode()
    assert (payload.file_name, payload.stored_name, payload.lines) == ("notes.md", f"{ID}.md", 4)
    head = f"See:\n[LCM File: {ID} | notes.md | text/markdown | {len(payload.data):,} bytes]\n\n"
    assert message.content.startswith(f"{head}Exploration Summary:\nText exploration summary (notes.md):")
    assert message.content.endswith("\nWell?")
    assert message.tokens == -(-len(message.content) // 4)
    assert json.loads(message.parts[0].metadata) == {
        "originalRole": "user",
        "externalizedFileIds": [ID],
        "fileBlocksExternalized": True,
        "externalizationReason": "large_file_block",
    }


def test_small_blocks_and_the_words_of_others_stay() -> None:
    text = "a <file name='x'>small</file> b <file name='y'>open"
    assert user(text).content == text
    block = f"<file name='x'>{LONG}</file>"
    assert stored({"role": "assistant", "content": block}).content.startswith("[LCM Raw Payload:")


def test_nothing_is_guessed_of_a_file_and_nothing_cleaned() -> None:
    message = user(f"<FILE type='x/y' NAME=../../etc/pass]wd|x.sh >{LONG}</File>")
    [payload] = message.payloads
    assert (payload.file_name, payload.mime) == ("../../etc/pass]wd|x.sh", None)
    assert payload.stored_name == f"{ID}.sh"  # the file itself lies in no other folder
    bare = user(f"<file>{LONG}</file>")
    assert (bare.payloads[0].file_name, bare.payloads[0].stored_name) == (None, f"{ID}.txt")
    assert bare.content.startswith(f"[LCM File: {ID} | unknown | unknown | ")


def test_a_first_file_may_lie_inside_a_second_one() -> None:
    message = user(f"{LONG}<file name='a.txt'>{LONG}</file>")
    assert [payload.file_name for payload in message.payloads] == ["a.txt", "raw-user-payload.txt"]
    assert f"[LCM File: {ID} | a.txt".encode() in message.payloads[1].data
    assert message.content.startswith(f"[LCM Raw Payload: {OTHER} | role=user | reason=large_raw_message | ")


def test_a_command_may_give_a_file_block_too() -> None:
    message = stored({"role": "user", "command": "cat", "output": f"<file name='a.txt'>{LONG}</file>"})
    assert [payload.file_name for payload in message.payloads] == ["a.txt"]
    assert message.content.startswith(f"$ cat\n[LCM File: {ID} | a.txt")
    assert message.parts[0].text == message.content


# Images, tools, the rest


def test_an_image_becomes_a_file_and_a_line() -> None:
    before = {"type": "text", "text": "[media attached 1/2: /tmp/a b#c.png | x]"}
    block = {"type": "image", "data": PNG, "mimeType": "IMAGE/JPEG", "fileName": "ignored.gif"}
    message = user([before, block])
    size = len(base64.b64decode(PNG))
    assert message.content.endswith(f"[User image: a (image/png, {size} bytes) | LCM file: {ID}]")
    [payload] = message.payloads
    assert (payload.summary, payload.lines) == (f"Image file (PNG, {size} bytes) — a", None)
    kept = json.loads(message.parts[1].metadata)
    assert kept["imageExternalized"] is True
    assert kept["raw"]["originalByteSize"] == size


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image", "source": {"type": "base64", "data": PNG, "media_type": "image/png"}},
        {"type": "image", "data": "no base64 !!", "mimeType": "image/png"},
        {"type": "image", "data": "AAAA", "mimeType": "image/tiff"},
        {"type": "image", "data": "", "mimeType": "image/png"},
        {"type": "image", "data": 5},
    ],
)
def test_what_is_no_picture_stays(block: dict[str, Any]) -> None:
    message = user([block])
    assert message.payloads == ()
    assert json.loads(message.parts[0].metadata)["raw"] == block


def test_a_text_that_is_a_picture_becomes_one() -> None:
    data = PNG + "A" * 600
    for role, label in (("user", "Image"), ("system", "Image"), ("assistant", "Assistant image")):
        message = stored({"role": role, "content": [{"type": "text", "text": f" {data}\n"}]})
        assert message.content.startswith(f"[{label}: {role}-image.png (image/png, ")
        assert [part.part_type for part in message.parts] == ["text"]
    answer = stored({"role": "tool", "content": [{"type": "tool_result", "content": [data, "small"]}]})
    assert json.loads(answer.parts[0].metadata)["raw"]["content"][0].startswith("[Tool image: tool-image.png")
    assert user(f"a word {data}").payloads == ()


@given(st.binary(max_size=40), st.sampled_from(["", "\n", "-_", "é?"]))
def test_base64_is_read_leniently(data: bytes, between: str) -> None:
    def decoded(text: str) -> bytes:
        # With what makes it a picture, and long enough for one.
        head = "iVBORw0KGgoA" + "A" * 600
        [picture] = user([{"type": "text", "text": head + text}]).payloads
        return picture.data[459:]

    text = base64.b64encode(data).decode()
    assert decoded(text) == data
    if between != "-_":  # which are digits
        half = len(text) // 2
        assert decoded(text[:half] + between + text[half:]) == data
    assert decoded(text.rstrip("=")) == data


def test_a_large_answer_of_a_tool_goes_to_a_file() -> None:
    message = stored(
        {
            "role": "toolResult",
            "toolCallId": "toolu_01SZduC9r5ERPnKN3BepiG",
            "toolName": "exec",
            "isError": False,
            "content": [
                {"type": "text", "text": json.dumps({"text": LONG})},
                {"type": "text", "text": "done"},
            ],
        }
    )
    [payload] = message.payloads
    assert payload.data == LONG.encode()  # of JSON what it says
    assert (payload.file_name, payload.mime, payload.stored_name) == ("exec.txt", "text/plain", f"{ID}.txt")
    assert message.content.startswith(f"[LCM Tool Output: {ID} | tool=exec | {len(LONG):,} bytes]\n\nExplor")
    assert message.content.endswith("\ndone")
    first = json.loads(message.parts[0].metadata)["raw"]
    assert list(first)[:3] == ["type", "text", "rawType"]
    assert (first["tool_use_id"], first["isError"]) == ("toolu_01SZduC9r5ERPnKN3BepiG", False)
    assert message.tokens < estimate_weighted(LONG)
    described = {"role": "tool", "toolName": "lcm_describe", "content": LONG}
    assert stored(described).payloads == ()


def test_blocks_of_tools_and_reasoning_keep_a_message_whole() -> None:
    call = {"type": "toolCall", "id": "a", "name": "write", "arguments": {"text": LONG}}
    for block in (call, {"type": "x", "items": [{"rawType": "reasoning"}]}):
        message = stored({"role": "assistant", "content": [{"type": "text", "text": LONG}, block]})
        assert message.payloads == ()
    result = {"type": "tool_result", "tool_use_id": "x", "content": LONG}
    assert user([result]).payloads == ()


def test_what_is_large_only_beside_its_content_goes_as_a_whole() -> None:
    message = stored(
        {"role": "assistant", "content": [{"type": "text", "text": "x"}], "reasoning_content": LONG}
    )
    [payload] = message.payloads
    assert (payload.file_name, payload.mime) == ("raw-assistant-payload.json", "application/json")
    assert payload.data == b'[{"type":"text","text":"x"}]'
    assert stored({"role": "assistant", "content": LONG, "rawPayloadExternalized": True}).payloads == ()


# What is said of a payload


@pytest.mark.parametrize(
    ("name", "mime", "ending"),
    [
        ("a.JSON", None, ".json"),
        ("x/.hidden", "text/x-python", ".py"),
        ("a.", " Application/JSON ", ".json"),
        ("a.verylongending", "text/plain; charset=utf-8", ".txt"),
        (None, "text/javascript", ".txt"),
        ("a.t-s", None, ".txt"),
        ("C:\\x\\y.Go", None, ".go"),
    ],
)
def test_endings(name: str | None, mime: str | None, ending: str) -> None:
    assert file_of("x" * 9, name, mime).ending == ending


def test_json() -> None:
    shape = "array(len=4, sample=[object(keys=2: a, b), array(len=1, sample=[...]), number])"
    shape = f"Structured summary (JSON):\nTop-level type: array.\nShape: {shape}."
    assert explore('[{"a":1,"b":{}},[[1]],2,3]', "a.json", None) == shape
    assert explore("null", None, "application/json").endswith("Top-level type: object.\nShape: object.")
    assert explore("{}", "a.json", "").endswith("Shape: object(keys=0).")
    failed = "Structured summary (JSON): failed to parse as valid JSON."
    assert explore("[1,]", "a.json", None) == explore("NaN", "x", "application/json; x") == failed


def test_tables() -> None:
    assert explore('name,"the, note"\n\nMira,"a\nb"\n', "a.csv", "") == (
        'Structured summary (CSV):\nRows: 2.\nColumns (3): name, "the, note".\nFirst row sample: Mira,"a.'
    )
    assert explore(" \n", "a.tsv", None) == "Structured summary (TSV): no rows found."


def test_yaml_and_xml_are_read_by_their_lines() -> None:
    assert explore("a:\nb: 1\nc: # note\n  d:\na:\n", "a.yml", None) == (
        "Structured summary (YAML):\nTop-level keys (2): a, c."
    )
    assert explore("<feed><e a='1'/><e><br/></e><title>t</title></feed>", "a.xml", "") == (
        "Structured summary (XML):\nRoot element: feed.\nChild elements seen: e, title."
    )
    hostile = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'
    assert "Root element: a." in explore(hostile, "a.xml", "")


def test_code_lists_what_it_imports_and_defines() -> None:
    code = "import os\nfrom a import b\n\nclass C(D):\n    def m(self):\n        pass\n\nasync def f(x):\n"
    assert explore(code, "c.py", "") == (
        "Code exploration summary (c.py):\nLines: 9.\n"
        "Imports/dependencies (2): import os | from a import b.\n"
        "Top-level definitions (3): class C(D): | def m(self): | async def f(x):."
    )
    script = "const a = require('x');\nexport function go() {\n}\nexport const h = (a) => a;\ntyped\n"
    assert "Top-level definitions (3)" in explore(script, "c.js", "")


@pytest.mark.long
@given(
    st.text(max_size=400), st.sampled_from([None, "a.json", "a.csv", "a.xml", "a.yml", "a.py", "a", "a.tsv"])
)
def test_anything_has_a_summary(text: str, name: str | None) -> None:
    assert "summary" in explore(text, name, None)
    deep = explore("[" * 100_000, name, None)
    assert "summary" in deep


# Where it is written


def payload(data: bytes = b"x", ending: str = ".txt") -> Payload:
    return Payload(ID, "a.txt", "text/plain", data, 1, "s", ending)


def test_files_are_private_and_where_their_row_says(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "lcm-files"
    [path] = write_payloads(folder, 7, [payload(b"data")])
    assert path == folder / "7" / f"{ID}.txt" == payload_path(folder, 7, payload())
    assert path.read_bytes() == b"data"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    remove_payloads([path])
    assert not path.parent.exists()


def test_nothing_is_written_over_or_through_a_link(tmp_path: Path) -> None:
    folder = tmp_path / "lcm-files"
    [path] = write_payloads(folder, 7, [payload(b"first")])
    with pytest.raises(PayloadError):
        write_payloads(folder, 7, [Payload(OTHER, "b", "x", b"", None, "", ".bin"), payload(b"second")])
    assert [one.name for one in (folder / "7").iterdir()] == [path.name]
    assert path.read_bytes() == b"first"
    (folder / "8").symlink_to(tmp_path)
    with pytest.raises(PayloadError, match="not a folder"):
        write_payloads(folder, 8, [payload()])
    assert os.listdir(tmp_path) == ["lcm-files"]
