"""Stored paths on the recorded state folder, and on folders that somebody prepared to get out of them."""

import os
from pathlib import Path

import pytest
from lcm_core.api import NotFoundError
from lcm_core.base.paths import read_head, resolve_stored, resolve_transcript

from tests.databases import query

STORED_PYTHON = "/home/operator/.openclaw/lcm-files/3/file_9bcd3a4617dc4952.py"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with one large file of conversation 7."""
    folder = tmp_path / "state"
    (folder / "lcm-files" / "7").mkdir(parents=True)
    (folder / "lcm-files" / "7" / "file_a.txt").write_text("inside")
    return folder


def find(stored: str, state: Path, *, conversation: int = 7, files: Path | None = None):
    folder = files or state / "lcm-files"
    return resolve_stored(stored, conversation_id=conversation, large_files_dir=folder, state_dir=state)


def test_every_recorded_file_is_found_in_the_copied_state_folder(openclaw_home: Path):
    stored = query(openclaw_home / "lcm.db", "SELECT conversation_id, storage_uri FROM large_files")
    assert len(stored) == 11
    for conversation, uri in stored:
        assert uri.startswith("/home/operator/.openclaw/lcm-files/")
        found = find(uri, openclaw_home, conversation=conversation)
        assert found.state == "found"
        assert found.path == openclaw_home / "lcm-files" / str(conversation) / Path(uri).name
        assert found.size == found.path.stat().st_size


def test_every_recorded_transcript_is_found_in_the_copied_state_folder(openclaw_home: Path):
    stored = query(
        openclaw_home / "lcm.db",
        "SELECT conversation_id, session_file_path FROM conversation_bootstrap_state",
    )
    assert len(stored) == 8
    for _, path in stored:
        agent = Path(path).parts[-3]
        here = openclaw_home / "agents" / agent / "sessions" / Path(path).name
        for sessions in (openclaw_home / "agents", here.parent, here.parent.parent):
            found = resolve_transcript(path, sessions=sessions, state_dir=Path("/nowhere"))
            assert found.path == here
        found = resolve_transcript(path, sessions=Path("/nowhere"), state_dir=openclaw_home)
        assert found.path == here


def test_a_stored_path_that_still_holds_is_taken_first(state: Path):
    (state / "lcm-files" / "8").mkdir()
    (state / "lcm-files" / "8" / "file_a.txt").write_text("of another conversation")
    kept = state / "lcm-files" / "7" / "file_a.txt"
    assert find(str(kept), state, conversation=8).path == kept


def test_the_state_folder_is_mapped_when_conversation_and_name_do_not_lead_there(state: Path):
    found = find("/old/lcm-files/home/lcm-files/7/file_a.txt", state, conversation=99)
    assert found.path == state / "lcm-files" / "7" / "file_a.txt"


def test_files_from_before_another_folder_was_configured_are_still_found(state: Path, tmp_path: Path):
    found = find("/old/.openclaw/lcm-files/7/file_a.txt", state, files=tmp_path / "elsewhere")
    assert found.path == state / "lcm-files" / "7" / "file_a.txt"


@pytest.mark.parametrize(
    "stored",
    [
        "file:///old/lcm-files/7/file_a.txt",
        "file://localhost/old/lcm-files/7/file%5Fa.txt",
        r"C:\Users\op\.openclaw\lcm-files\7\file_a.txt",
        "file:///C:/Users/op/.openclaw/lcm-files/7/file_a.txt",
        "lcm-files/7/file_a.txt",
    ],
)
def test_other_spellings_of_a_path_mean_the_same_file(state: Path, stored: str):
    assert find(stored, state).path == state / "lcm-files" / "7" / "file_a.txt"


@pytest.mark.parametrize(
    "stored",
    ["", "  ", "\0", "/x/\0y", "https://example.org/file_a.txt", "file://host/7/file_a.txt", "file://[",
     "file:", "..", "/", "\ud800", "/x/" + "n" * 5000, "/x/lcm-files/7/gone.txt"],
)  # fmt: skip
def test_what_leads_nowhere_is_missing(state: Path, stored: str):
    result = find(stored, state)
    assert result.path is None
    # "/" and ".." do exist, but not inside the folder.
    assert result.state == ("outside the configured folder" if stored in {"/"} else "missing")


def test_a_relative_path_is_never_looked_up_in_the_current_folder(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(state / "lcm-files" / "7")
    assert find("file_a.txt", state, conversation=99).state == "missing"


def test_files_outside_and_ways_out_are_refused(state: Path, tmp_path: Path):
    secret = tmp_path / "secret.txt"
    secret.write_text("password")
    (state / "lcm-files" / "7" / "link.txt").symlink_to(secret)
    (state / "lcm-files" / "out").symlink_to(tmp_path)
    for stored in (
        str(secret),
        str(state / "lcm-files" / ".." / ".." / "secret.txt"),
        "/old/lcm-files/../../secret.txt",
        "/old/lcm-files/7/link.txt",
        "/old/lcm-files/out/secret.txt",
        f"file://{secret}",
    ):
        result = find(stored, state)
        assert (result.state, result.path, result.size) == ("outside the configured folder", None, None), (
            stored
        )


def test_a_folder_that_only_begins_with_the_same_letters_is_outside(state: Path):
    (state / "lcm-files-evil").mkdir()
    (state / "lcm-files-evil" / "x.txt").write_text("x")
    assert find(str(state / "lcm-files-evil" / "x.txt"), state).state == "outside the configured folder"


def test_links_that_stay_inside_and_a_linked_folder_are_fine(state: Path, tmp_path: Path):
    (state / "lcm-files" / "7" / "alias.txt").symlink_to("file_a.txt")
    assert find("/old/lcm-files/7/alias.txt", state).path == state / "lcm-files" / "7" / "file_a.txt"
    (tmp_path / "linked").symlink_to(state)
    stored = str(tmp_path / "linked" / "lcm-files" / "7" / "file_a.txt")
    assert find(stored, tmp_path / "linked").path == state / "lcm-files" / "7" / "file_a.txt"


def test_what_is_no_readable_file_is_unreadable(state: Path, monkeypatch: pytest.MonkeyPatch):
    os.mkfifo(state / "lcm-files" / "7" / "pipe")
    (state / "lcm-files" / "7" / "loop").symlink_to("loop")
    (state / "lcm-files" / "7" / "folder").mkdir()
    for name in ("pipe", "loop", "folder"):
        assert find(f"/old/lcm-files/7/{name}", state).state == "unreadable"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    result = find("/old/lcm-files/7/file_a.txt", state)
    assert (result.state, result.path) == ("unreadable", None)


def test_the_result_says_where_it_looked(state: Path):
    result = find("/old/lcm-files/3/gone.txt", state)
    assert result.tried == (
        Path("/old/lcm-files/3/gone.txt"),
        state / "lcm-files" / "7" / "gone.txt",
        state / "lcm-files" / "3" / "gone.txt",
    )
    assert str(state / "lcm-files") in result.message


def test_credentials_beside_the_sessions_are_no_transcripts(openclaw_home: Path):
    folder = openclaw_home / "agents" / "main"
    (folder / "agent").mkdir()
    secret = folder / "agent" / "auth-profiles.json"
    secret.write_text("{}")
    (folder / "sessions" / "link.jsonl").symlink_to(secret)
    for stored in (str(secret), str(folder / "sessions" / "link.jsonl")):
        result = resolve_transcript(stored, sessions=openclaw_home / "agents", state_dir=openclaw_home)
        assert (result.state, result.path) == ("outside the configured folder", None)


def test_the_head_of_a_recorded_file_is_its_text(openclaw_home: Path):
    path = find(STORED_PYTHON, openclaw_home, conversation=3).path
    assert path is not None
    whole = read_head(path)
    assert (whole.text, whole.binary, whole.complete) == (path.read_text(), False, True)
    assert (whole.bytes_read, whole.size) == (10_473, 10_473)
    head = read_head(path, 100)
    assert (head.text, head.bytes_read, head.size) == (whole.text[:100], 100, 10_473)
    assert not head.complete


def test_a_character_cut_by_the_limit_is_left_out_and_a_broken_one_replaced(tmp_path: Path):
    path = tmp_path / "text"
    path.write_bytes("äöü€".encode())
    assert read_head(path, 8).text == "äöü"
    path.write_bytes(b"an old caf\xe9 in Paris")
    assert read_head(path).text == "an old caf\ufffd in Paris"
    path.write_bytes(b"cut at the end \xe2\x82")
    assert read_head(path).text == "cut at the end \ufffd"


@pytest.mark.parametrize(
    ("content", "description"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\2\x80\0\0\1\xe0", "PNG image, 640 x 480"),
        (b"GIF89a\x80\x02\xe0\x01", "GIF image, 640 x 480"),
        (b"\xff\xd8\xff\xe0..", "JPEG image"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "WebP image"),
        (b"%PDF-1.7\nplain", "PDF document"),
        (b"SQLite format 3\0", "SQLite database"),
        ("text".encode("utf-16"), "UTF-16 text"),
        (b"BM\0\0\0\0", "BMP image"),
        (b"\0\1\2", "binary data"),
        (bytes(range(128, 256)), "binary data"),
    ],
)
def test_what_is_no_text_is_described_and_not_dumped(tmp_path: Path, content: bytes, description: str):
    path = tmp_path / "file"
    path.write_bytes(content)
    described = read_head(path)
    assert (described.binary, described.text, described.description) == (True, "", description)
    assert described.size == len(content)


@pytest.mark.parametrize("content", [b"BMW is a car", b"ID3 tags", b"\x1b[31mred\x1b[0m", b"a\tb\r\n", b""])
def test_text_is_not_taken_for_something_else(tmp_path: Path, content: bytes):
    path = tmp_path / "file"
    path.write_bytes(content)
    assert read_head(path).text == content.decode()
    assert not read_head(path).binary


def test_a_file_that_changed_into_something_else_is_not_opened(tmp_path: Path):
    (tmp_path / "target").write_text("x")
    (tmp_path / "link").symlink_to("target")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "folder/none", "\0"):
        with pytest.raises(NotFoundError, match="cannot be read") as caught:
            read_head(tmp_path / name)
        assert caught.value.code == "FILE_UNREADABLE"
    with pytest.raises(NotFoundError):
        read_head(tmp_path)


def test_a_file_is_missing_only_where_its_folder_is_known(tmp_path: Path) -> None:
    found = resolve_stored(
        "/elsewhere/lcm-files/3/a.txt",
        conversation_id=3,
        large_files_dir=tmp_path,
        state_dir=tmp_path,
        known=False,
    )
    assert found.state == "not looked for"
    assert "--openclaw-dir" in found.message
