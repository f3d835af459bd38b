"""Finding the sessions of a host on disk, on the real state folder and on broken ones."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import pytest
from lcm_core.base.jsonl import open_regular
from lcm_host.backfill import find_to_import
from lcm_host.sessions import (
    FilePlace,
    Storage,
    find_session,
    find_sessions,
    list_sessions,
    unknown_to,
)

from tests.databases import reading

HEAD_BYTES = 65_536

TOPIC = "2b8481de-5074-498f-a26c-a4ecc47a74b7"
UNKNOWN = {TOPIC, "4361652a-c630-427f-a157-12eb5ff25efa", "ce98a067-e9e5-403f-a6d5-7ded87bb123a"}


def header(session_id: str) -> str:
    return json.dumps({"type": "session", "version": 3, "id": session_id, "cwd": "/w"}) + "\n"


def write(path: Path, text: str | bytes, modified: float = 1_000_000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    os.utime(path, (modified, modified))
    return path


def named(folder: Path):
    return {file_of(session).path.name: session for session in find_sessions(folder).sessions}


def known_in(database: Path) -> tuple[list[str], list[str]]:
    with reading(database) as db:
        rows = db.execute("SELECT session_id, session_key FROM conversations").fetchall()
    return [row[0] for row in rows], [row[1] for row in rows if row[1]]


def file_of(session) -> FilePlace:
    assert isinstance(session.place, FilePlace)
    return session.place


def test_all_sessions_of_all_agents_are_found(openclaw_home: Path) -> None:
    listing = find_sessions(openclaw_home / "agents")
    agents = [session.agent for session in listing.sessions]
    assert (agents.count("main"), agents.count("ops"), agents.count("research")) == (6, 3, 2)
    assert listing.problems == ()
    assert all(session.storage is Storage.JSONL for session in listing.sessions)
    one = next(session for session in listing.sessions if session.session_id.startswith("27046938"))
    file = file_of(one)
    assert (one.session_key, file.size, file.topic) == ("agent:main:main", 301743, None)
    assert file.header is not None
    assert (file.header.cwd, file.header.started_at) == (
        "/home/dev/work/main",
        datetime(2026, 3, 2, 8, 37, 10, tzinfo=UTC),
    )


def test_three_sessions_are_unknown_to_the_database(openclaw_home: Path) -> None:
    sessions = list_sessions(openclaw_home / "agents").sessions
    unknown = [file_of(one) for one in unknown_to(sessions, *known_in(openclaw_home / "lcm.db"))]
    assert {session.file_id for session in unknown} == UNKNOWN
    assert {session.topic for session in unknown} == {"1234", None}


def test_a_session_is_known_by_id_by_file_name_by_the_id_without_topic_and_by_key(
    openclaw_home: Path,
) -> None:
    sessions = list_sessions(openclaw_home / "agents").sessions
    topic = [session for session in sessions if file_of(session).topic]
    main = [session for session in sessions if session.session_key == "agent:main:main"]
    assert unknown_to(topic, [TOPIC], []) == []
    assert unknown_to(topic, [f"{TOPIC}-topic-1234"], []) == []
    assert unknown_to(main, ["another"], ["agent:main:main"]) == []
    assert unknown_to(main, ["another"], []) == main


@pytest.mark.parametrize("folder", ["agents/main/sessions", "agents/main"])
def test_one_agents_folder_knows_its_agent_by_its_place(openclaw_home: Path, folder: str) -> None:
    sessions = find_sessions(openclaw_home / folder).sessions
    assert [session.agent for session in sessions] == ["main"] * 6


def test_a_copied_folder_takes_the_agent_from_the_key_or_says_none(
    openclaw_home: Path, tmp_path: Path
) -> None:
    copied = tmp_path / "copied"
    (openclaw_home / "agents" / "main" / "sessions").rename(copied)
    found = named(copied)
    assert found["27046938-a735-4a93-a971-f4fe747bb833.jsonl"].agent == "main"
    assert found["4361652a-c630-427f-a157-12eb5ff25efa.jsonl"].agent is None


def test_an_agent_called_sessions_is_an_agent(tmp_path: Path) -> None:
    write(tmp_path / "sessions" / "sessions" / "a.jsonl", header("a"))
    assert [session.agent for session in find_sessions(tmp_path).sessions] == ["sessions"]


def test_newest_first_then_by_path(tmp_path: Path) -> None:
    for name, modified in (("b", 100), ("a", 100), ("c", 300), ("d", 200)):
        write(tmp_path / f"{name}.jsonl", header(name), modified)
    found = find_sessions(tmp_path).sessions
    assert [session.session_id for session in found] == ["c", "d", "a", "b"]
    assert found[0].newest_at == datetime(1970, 1, 1, 0, 5, tzinfo=UTC)


def test_the_state_is_in_the_name(tmp_path: Path) -> None:
    stamp = "2026-03-02T09-25-49.000Z"
    for name in (
        "a.jsonl",
        f"a.jsonl.reset.{stamp}",
        f"b.jsonl.deleted.{stamp}",
        f"c.jsonl.deleted.{stamp}.zst",
    ):
        write(tmp_path / name, header("from-header"))
    for name in ("a.jsonl.lock", "a.jsonl.codex-app-server.json", "notes.txt", "sessions.json.deleted.1"):
        write(tmp_path / name, "{}")
    found = named(tmp_path)
    assert {
        name: (each.storage.value, file_of(each).packed, each.session_id) for name, each in found.items()
    } == {
        "a.jsonl": ("jsonl", False, "from-header"),
        f"a.jsonl.reset.{stamp}": ("archived", False, "from-header"),
        f"b.jsonl.deleted.{stamp}": ("deleted", False, "from-header"),
        f"c.jsonl.deleted.{stamp}.zst": ("deleted", True, "c"),
    }


@pytest.mark.parametrize(
    ("text", "session_id"),
    [
        ("\n  \r\n" + header("after-blank-lines"), "after-blank-lines"),
        (header("unterminated").rstrip("\n"), "unterminated"),
        ("\ufeff" + header("marked"), "marked"),
        ("", "stem"),
        ("not json\n" + header("late"), "stem"),
        ('{"type":"message","id":"x"}\n', "stem"),
        ('{"type":"session","id":"  "}\n', "stem"),
        ('{"type":"session","id":7}\n', "stem"),
        (b"\xff\xfe\x00\n", "stem"),
        ("[" * 100_000, "stem"),
        ('{"type":"session","pad":"' + "x" * HEAD_BYTES + '","id":"far"}\n', "stem"),
    ],
)
def test_without_a_header_the_id_is_the_stem(tmp_path: Path, text: str | bytes, session_id: str) -> None:
    write(tmp_path / "stem.jsonl", text)
    listing = find_sessions(tmp_path)
    assert [session.session_id for session in listing.sessions] == [session_id]
    assert listing.problems == ()


def test_a_topic_is_digits_or_what_follows_the_headers_id(tmp_path: Path) -> None:
    write(tmp_path / "a-topic-12.jsonl", "")
    write(tmp_path / "my-topic-notes.jsonl", "")
    write(tmp_path / "b-topic-x%3A1.jsonl", header("b"))
    found = named(tmp_path)
    assert [file_of(found[name]).topic for name in sorted(found)] == ["12", "x%3A1", None]


def test_a_key_belongs_to_the_file_that_the_registry_names(tmp_path: Path) -> None:
    for name in ("s.jsonl", "s-topic-1.jsonl", "s.jsonl.reset.1", "gone.jsonl.deleted.1"):
        write(tmp_path / name, header(name.split(".")[0].split("-")[0]))
    registry = {
        "agent:m:topic": {"sessionId": "s", "sessionFile": "C:\\home\\s-topic-1.jsonl"},
        "agent:m:main": {"sessionId": "s", "sessionFile": "/elsewhere/s.jsonl"},
        "agent:m:gone": {"sessionId": "gone", "sessionFile": "/elsewhere/gone.jsonl"},
        "agent:m:odd": ["no", "object"],
        " ": {"sessionId": "s"},
    }
    write(tmp_path / "sessions.json", json.dumps(registry))
    assert {name: each.session_key for name, each in named(tmp_path).items()} == {
        "s.jsonl": "agent:m:main",
        "s-topic-1.jsonl": "agent:m:topic",
        "s.jsonl.reset.1": None,  # the session went on in the live file
        "gone.jsonl.deleted.1": "agent:m:gone",
    }


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00", '{"a": NaN}'])
def test_a_broken_registry_is_a_problem_and_no_more(tmp_path: Path, text: str) -> None:
    write(tmp_path / "sessions.json", text)
    write(tmp_path / "a.jsonl", header("a"))
    listing = find_sessions(tmp_path)
    assert [session.session_key for session in listing.sessions] == [None]
    assert [problem.path.name for problem in listing.problems] == ["sessions.json"]


def test_a_second_listing_opens_only_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def noted(path: Path) -> BinaryIO:
        opened.append(path.name)
        return open_regular(path)

    monkeypatch.setattr("lcm_host.sessions.open_regular", noted)
    write(tmp_path / "a.jsonl", header("a"))
    write(tmp_path / "b.jsonl", header("b"))
    write(tmp_path / "sessions.json", '{"k": {"sessionId": "a"}}')
    first = find_sessions(tmp_path)
    again = find_sessions(tmp_path, first)
    assert sorted(opened) == ["a.jsonl", "b.jsonl", "sessions.json"]
    assert again.sessions == first.sessions
    write(tmp_path / "b.jsonl", header("c"), 2_000_000)
    changed = find_sessions(tmp_path, again)
    assert opened[3:] == ["b.jsonl"]
    assert {session.session_id for session in changed.sessions} == {"a", "c"}
    (tmp_path / "a.jsonl").unlink()
    last = find_sessions(tmp_path, changed)
    assert sorted(last.files) == [str(tmp_path / name) for name in ("b.jsonl", "sessions.json")]


def test_links_that_leave_the_folder_are_not_followed(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside" / "secret.jsonl", header("secret"))
    write(tmp_path / "outside" / "sessions" / "x.jsonl", header("x"))
    home = tmp_path / "home"
    inside = write(home / "agent" / "sessions" / "a.jsonl", header("a"))
    (home / "agent" / "sessions" / "b.jsonl").symlink_to(inside)
    (home / "agent" / "sessions" / "c.jsonl").symlink_to(outside)
    (home / "agent" / "sessions" / "d.jsonl").symlink_to("nowhere")
    (home / "agent" / "sessions" / "e.jsonl").symlink_to("e.jsonl")
    (home / "linked").symlink_to(tmp_path / "outside")
    (home / "other").mkdir()
    (home / "other" / "sessions").symlink_to(tmp_path / "outside" / "sessions")
    listing = find_sessions(home)
    assert [file_of(session).path.name for session in listing.sessions] == ["a.jsonl"]
    assert [str(problem.path.relative_to(home)) for problem in listing.problems] == [
        "agent/sessions/b.jsonl",
        "agent/sessions/c.jsonl",
        "agent/sessions/d.jsonl",
        "agent/sessions/e.jsonl",
        "linked",
        "other/sessions",
    ]


CHECKPOINT = "{}.checkpoint.0d9f1c6e-1111-4222-8333-94444444444{}.jsonl"
#: Files of session `a` in the order of their times, newest first; the index's entry; files that count; keys.
SEVERAL: dict[str, tuple[list[str], object, list[str], list[str | None]]] = {
    "newer checkpoints": (
        [CHECKPOINT.format("a", 1), CHECKPOINT.format("a", 2), "a.jsonl"],
        {"k": {"sessionId": "a", "sessionFile": "/x/a.jsonl"}},
        ["a.jsonl"],
        ["k"],
    ),
    "checkpoints alone": ([CHECKPOINT.format("a", 1)], {}, [], []),
    "a checkpoint that the index names": (
        ["a.jsonl", CHECKPOINT.format("a", 1)],
        {"k": {"sessionId": "a", "sessionFile": CHECKPOINT.format("a", 1)}},
        [CHECKPOINT.format("a", 1)],
        ["k"],
    ),
    "a newer conflicted copy": (
        ["a (conflicted copy).jsonl", "a.sync-conflict-20260302-090000-ABC.jsonl", "a.jsonl"],
        {"k": {"sessionId": "a", "sessionFile": "C:\\x\\a.jsonl"}},
        ["a.jsonl"],
        ["k"],
    ),
    "a copy without an index": (["a copy.jsonl", "a.jsonl"], {}, ["a.jsonl"], [None]),
    "copies alone": (["a 2.jsonl", "a 3.jsonl"], {}, ["a 2.jsonl"], [None]),
    "an index without names of files": (
        ["a (1).jsonl", "a.jsonl"],
        {"k": {"sessionId": "a"}},
        ["a.jsonl"],
        ["k"],
    ),
    "the index names a copy": (
        ["a.jsonl", "a (1).jsonl"],
        {"k": {"sessionId": "a", "sessionFile": "a (1).jsonl"}},
        ["a (1).jsonl"],
        ["k"],
    ),
    "a topic that the index names": (
        ["a.jsonl", "a-topic-12.jsonl"],
        {"k": {"sessionId": "a", "sessionFile": "a-topic-12.jsonl"}},
        ["a-topic-12.jsonl"],
        ["k"],
    ),
    "a newer topic that it does not name": (
        ["a-topic-12.jsonl", "a.jsonl"],
        {"k": {"sessionId": "a", "sessionFile": "a.jsonl"}},
        ["a.jsonl"],
        ["k"],
    ),
    "two topics that it names": (
        ["a-topic-1.jsonl", "a.jsonl", "a-topic-2.jsonl"],
        {
            "k1": {"sessionId": "a", "sessionFile": "a-topic-1.jsonl"},
            "k2": {"sessionId": "a", "sessionFile": "a-topic-2.jsonl"},
        },
        ["a-topic-1.jsonl", "a-topic-2.jsonl"],
        ["k1", "k2"],
    ),
    "topics without an index": (
        ["a-topic-1.jsonl", "a-topic-2.jsonl", "a.jsonl", "a (1).jsonl"],
        {},
        ["a-topic-1.jsonl", "a-topic-2.jsonl", "a.jsonl"],
        [None, None, None],
    ),
    "a file of the index that is not there": (
        ["a.jsonl", "a (1).jsonl"],
        {"k": {"sessionId": "a", "sessionFile": "/elsewhere/gone.jsonl"}},
        ["a.jsonl"],
        ["k"],
    ),
}


@pytest.mark.cases(11)
@pytest.mark.parametrize(("files", "index", "counting", "keys"), SEVERAL.values(), ids=SEVERAL)
def test_of_several_files_of_a_session_that_of_the_index_counts(
    files: list[str], index: object, counting: list[str], keys: list[str | None], tmp_path: Path
) -> None:
    folder = tmp_path / "agents" / "main" / "sessions"
    for age, name in enumerate(files):
        write(folder / name, header("a") + "{}\n" * age, 1_000_000 - age)
    write(folder / "a.jsonl.reset.2026-03-02T09-00-00.000Z", header("a"), 2_000_000)
    write(folder / "sessions.json", json.dumps(index))
    listing = find_sessions(tmp_path / "agents")
    live = [one for one in listing.sessions if one.storage is Storage.JSONL]
    assert [file_of(one).path.name for one in live] == counting
    assert [one.session_key for one in live] == keys
    assert listing.checkpoints == sum(".checkpoint." in name for name in files if name not in counting)
    left = {name for name in files if name not in counting and ".checkpoint." not in name}
    assert {problem.path.name for problem in listing.problems} == left
    assert all(problem.is_remark and "session a" in problem.sentence for problem in listing.problems)
    ends = ("the index names {}.", "{} is the one that counts.")
    said = {end.format(name) for end in ends for name in counting}
    assert all(problem.reason.partition(": ")[2] in said for problem in listing.problems)
    of_host = list_sessions(tmp_path / "agents")
    assert [file_of(one).path.name for one in of_host.sessions if one.storage is Storage.JSONL] == counting
    assert of_host.checkpoints == listing.checkpoints
    if counting:
        assert file_of(find_to_import(tmp_path / "agents", "main", "a")).path.name in counting
    if len(counting) == 1:
        assert file_of(find_session(of_host, "a")).path.name == counting[0]


def test_the_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    write(tmp_path / "real" / "a.jsonl", header("a"))
    (tmp_path / "link").symlink_to("real")
    assert [file_of(each).path for each in find_sessions(tmp_path / "link").sessions] == [
        tmp_path / "link" / "a.jsonl"
    ]


def test_a_pipe_is_reported_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    os.mkfifo(tmp_path / "sessions.json")
    (tmp_path / "b.jsonl").mkdir()
    listing = find_sessions(tmp_path)
    assert listing.sessions == ()
    assert [problem.path.name for problem in listing.problems] == ["a.jsonl", "sessions.json"]


def test_a_folder_that_is_none_is_a_problem(tmp_path: Path) -> None:
    write(tmp_path / "file", "text")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("missing", "file", "loop"):
        listing = find_sessions(tmp_path / name)
        assert listing.sessions == ()
        assert [problem.path for problem in listing.problems] == [tmp_path / name]


def test_what_may_not_be_read_is_a_problem_beside_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "a" / "sessions" / "a.jsonl", header("a"))
    closed = write(tmp_path / "a" / "sessions" / "closed.jsonl", header("b"))
    write(tmp_path / "b" / "sessions" / "b.jsonl", header("c"))
    scandir, opened = os.scandir, os.open

    def scan(folder: str | Path) -> object:  # a text from Python 3.13 on
        if Path(folder).parent.name == "b":
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    def open_(path: Path, flags: int, *rest: int) -> int:
        if path == closed:
            raise PermissionError(13, "Permission denied")
        return opened(path, flags, *rest)

    monkeypatch.setattr(os, "scandir", scan)  # root may read everything: modes would not do
    monkeypatch.setattr(os, "open", open_)
    listing = find_sessions(tmp_path)
    assert {session.session_id for session in listing.sessions} == {"a", "closed"}
    assert [problem.reason for problem in listing.problems] == [
        "This file cannot be read (Permission denied).",
        "This folder cannot be read (Permission denied).",
    ]


def test_a_name_that_is_not_text_is_listed(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.jsonl")
    write(tmp_path / name, "")
    assert [session.session_id for session in find_sessions(tmp_path).sessions] == ["caf\udce9"]
