"""Large payloads go to files: what is taken out, what stands in its place, and where the files lie."""

from __future__ import annotations

import base64
import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from lcm_core.ingest.explore import explore, kind_of
from lcm_core.ingest.history import HostMessage
from lcm_core.ingest.payload_files import PayloadError, payload_path, remove_payloads, write_payloads
from lcm_core.ingest.payloads import Payload
from lcm_core.ingest.stored import StoredMessage, store_message
from lcm_core.ingest.storing import STORING_0_1, STORING_0_3, STORING_PRESENT, StoringRules

ID = "file_0123456789abcdef"
OTHER = "file_fedcba9876543210"
LONG = "many words of a long text. " * 400
IMAGE = base64.b64encode(b"\x89PNG....").decode()


def stored(message: dict[str, Any], rules: StoringRules = STORING_PRESENT, **more: Any) -> StoredMessage:
    ids = iter([ID, OTHER])
    found = store_message(
        HostMessage(message, datetime(2026, 3, 6, tzinfo=UTC)),
        rules,
        **{"threshold": 1000, "new_id": lambda: next(ids), **more},
    )
    assert isinstance(found, StoredMessage)
    return found


def user(content: object, **more: Any) -> StoredMessage:
    return stored({"role": "user", "content": content}, **more)


# File blocks


def test_a_large_file_block_gives_way_to_a_reference() -> None:
    message = user(f"See:\n<file name='notes.md' mime='text/markdown'>\n# One\n\n{LONG}</file>\nWell?")
    [payload] = message.payloads
    assert payload.data == f"\n# One\n\n{LONG}".encode()
    assert (payload.file_name, payload.stored_name, payload.lines) == ("notes.md", f"{ID}.md", 4)
    head = f"See:\n[LCM File: {ID} | notes.md | text/markdown | {len(payload.data):,} bytes]\n\n"
    assert message.content.startswith(f"{head}Exploration Summary:\nText exploration summary (notes.md):")
    assert message.content.endswith("\nWell?")
    assert message.large_content is None
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


def test_two_files_in_one_text() -> None:
    message = user(f"<file name='a.txt'>{LONG}</file> and <file name='b.txt'>{LONG}</file>")
    assert [payload.file_id for payload in message.payloads] == [ID, OTHER]
    assert message.content.count("[LCM File: ") == 2


def test_a_name_cannot_leave_the_folder_or_end_the_reference() -> None:
    message = user(f"<file name='../../etc/pass]wd|x.sh' mime='text/x | y]'>{LONG}</file>")
    [payload] = message.payloads
    assert payload.file_name == "pass wd x.sh"
    assert payload.stored_name == f"{ID}.sh"
    assert message.content.split("\n")[0].count("|") == 3


def test_in_0_1_an_image_beside_a_file_stays() -> None:
    blocks = [
        {"type": "text", "text": f"<file name='a'>{LONG}</file>"},
        {"type": "image", "data": IMAGE, "mimeType": "image/png"},
    ]
    message = user(blocks, rules=STORING_0_1)
    assert [part.part_type for part in message.parts] == ["text", "file"]
    assert json.loads(message.parts[1].metadata)["raw"]["data"] == IMAGE


# Images, tools, the rest


def test_an_image_becomes_a_file_and_a_line() -> None:
    block = {"type": "image", "source": {"type": "base64", "data": IMAGE, "media_type": "image/jpeg"}}
    message = user(["hello", block])
    assert message.content == f"[User image: user-image.jpg (image/jpeg, 8 bytes) | LCM file: {ID}]"
    assert message.payloads[0].summary == "Image file (JPEG, 8 bytes) — user-image.jpg"
    assert message.payloads[0].lines is None
    kept = json.loads(message.parts[1].metadata)
    assert kept["imageExternalized"] is True
    assert kept["raw"]["originalByteSize"] == 8


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "image", "data": "no base64 !!", "mimeType": "image/png"},
    ],
)
def test_an_image_whose_bytes_are_not_there_stays(block: dict[str, Any]) -> None:
    message = user([block])
    assert message.payloads == ()
    assert json.loads(message.parts[0].metadata)["raw"] == block


def test_a_large_answer_of_a_tool_goes_to_a_file() -> None:
    rows = json.dumps([{"id": number, "name": "x" * 20} for number in range(400)])
    message = stored(
        {
            "role": "toolResult",
            "toolCallId": "toolu_01SZduC9r5ERPnKN3BepiG",
            "toolName": "exec",
            "isError": False,
            "content": [{"type": "text", "text": rows}, {"type": "text", "text": "done"}],
        }
    )
    assert message.large_content == ID
    assert message.content.startswith(f"[LCM Tool Output: {ID} | tool=exec | {len(rows):,} bytes]\n\nExplor")
    assert message.content.endswith("\ndone")
    assert "Top-level type: array.\nShape: array(length=400, first=object(keys=2: id, name))." in (
        message.content
    )
    assert (message.parts[0].tool_call_id, message.parts[0].tool_name) == (
        "toolu_01SZduC9r5ERPnKN3BepiG",
        "exec",
    )
    kept = json.loads(message.parts[0].metadata)
    assert (kept["toolOutputExternalized"], kept["externalizedFileId"]) == (True, ID)
    assert message.payloads[0].stored_name == f"{ID}.json"


def test_arguments_of_a_call_stay_beside_a_payload() -> None:
    call = {"type": "toolCall", "id": "a", "name": "write", "arguments": {"text": LONG}}
    message = stored({"role": "assistant", "content": [{"type": "text", "text": LONG}, call]})
    assert message.content.startswith(
        f"[LCM Raw Payload: {ID} | role=assistant | reason=large_raw_payload | {len(LONG):,} bytes]"
    )
    assert json.loads(message.parts[1].tool_input or "")["text"] == LONG


def test_before_0_5_answers_of_tools_stay() -> None:
    message = stored({"role": "toolResult", "content": LONG}, rules=STORING_0_3)
    assert (message.content, message.payloads) == (LONG, ())


# What is said of a payload


@pytest.mark.parametrize(
    ("name", "mime", "kind"),
    [
        ("a.json", "", "json"),
        ("a", "application/ld+json", "json"),
        ("a.TSV", "text/plain", "tsv"),
        ("a.yml", "", "yaml"),
        ("a.svg", "", "xml"),
        ("a.rs", "text/plain", "code"),
        ("a", "text/x-script.python", "code"),
        ("a", "text/plain", "text"),
    ],
)
def test_kinds(name: str, mime: str, kind: str) -> None:
    assert kind_of(name, mime) == kind


def test_tables() -> None:
    summary = explore('name,"the, note"\n\nMira,"a\nb"\nYuki,x\n', "a.csv", "")
    assert summary == (
        "Structured summary (CSV):\nRows: 2.\nColumns (2): name, the, note.\nFirst row: Mira, a b."
    )


def test_yaml_is_read_without_expanding_or_making_anything() -> None:
    bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n? {k: v}\n: 1\nd: !!python/object:os.system x\n"
    assert explore(bomb, "a.yaml", "") == (
        "Structured summary (YAML):\nTop-level type: mapping.\nTop-level keys (4): a, b, c, d."
    )
    assert "Entries: 3." in explore("- a\n- {b: c}\n- [d, e]\n", "a.yaml", "")


def test_xml_opens_no_entity() -> None:
    found = explore("<feed><e a='1'/><e><x/></e><title>t</title></feed>", "a.xml", "")
    assert found == (
        "Structured summary (XML):\nRoot element: feed.\nChild elements (3): e ×2, title.\nElements: 5."
    )
    hostile = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'
    assert explore(hostile, "a.xml", "").startswith("Text exploration summary")


def test_code_lists_what_it_imports_and_defines() -> None:
    code = "import os\nfrom a import b\n\nclass C(D):\n    def m(self):\n        pass\n\nasync def f(x):\n"
    assert explore(code, "c.py", "") == (
        "Code exploration summary (c.py):\nLines: 9.\n"
        "Imports/dependencies (2): import os | from a import b.\n"
        "Top-level definitions (2): class C(D): | async def f(x):."
    )
    script = "const a = require('x');\nexport function go() {\n}\nexport const h = (a) => a;\n"
    assert "Top-level definitions (2)" in explore(script, "c.js", "")


def test_what_is_not_what_it_is_called_is_text() -> None:
    for name in ("a.json", "a.yaml", "a.xml"):
        assert explore("[" * 100_000, name, "").startswith(f"Text exploration summary ({name}):")


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
    with pytest.raises(PayloadError, match="no folder of its own"):
        write_payloads(folder, 8, [payload()])
    assert os.listdir(tmp_path) == ["lcm-files"]
