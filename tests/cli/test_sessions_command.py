"""``sessions`` on what a living host left, and on rollouts of Codex."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from lcm_core.api import ExitCode

from tests.cli.support import run
from tests.conftest import DatabaseFactory
from tests.core.host_home import AgentFolder, Story
from tests.core.rollouts import as_rollout, message
from tests.support import DATA, recorded, unpack_database

REWOUND = "cb1e768d-0637-49c2-bdce-783f85bf661b"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    with tarfile.open(DATA / "openclaw-sqlite-living.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    unpack_database("0.15.3", folder / "openclaw-sqlite-living" / "lcm.db")
    return folder / "openclaw-sqlite-living"


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    return {one["sessionId"]: one for one in recorded("openclaw-sqlite-living.expected.json.xz")}


def listed(home: Path, *more: object) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = run("sessions", "--openclaw-dir", home, "--json", *more).data["items"]
    return items


@pytest.mark.long
def test_the_list_says_where_each_session_is(home: Path, expected: dict[str, Any]) -> None:
    items = {item["sessionId"]: item for item in listed(home)}
    assert set(items) == set(expected)
    for name, item in items.items():
        one = expected[name]
        assert {key: item[key] for key in ("agent", "storage", "current", "previousSessionId")} == {
            key: one[key] for key in ("agent", "storage", "current", "previousSessionId")
        }
        assert (item["sessionKey"], item["entries"]) == (one["key"], one["events"] - 1)
    assert (items[REWOUND]["newestAt"], items[REWOUND]["conversationId"]) == ("2026-11-22T19:01:28.247Z", 2)
    newest = [item["newestAt"] for item in listed(home)]
    assert newest == sorted(newest, reverse=True)


@pytest.mark.long
def test_pages_of_the_list_are_the_list(home: Path) -> None:
    whole, pages, more = listed(home), [], ()
    while True:
        document = run("sessions", "--openclaw-dir", home, "--json", "--limit", 5, *more).document
        pages += document["data"]["items"]
        if not document["pagination"]["hasMore"]:
            break
        more = ("--cursor", document["pagination"]["nextCursor"])
    assert pages == whole


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        (("--agent", "ops"), lambda one: one["agent"] == "ops"),
        (("--only", "hot"), lambda one: one["storage"] == "hot"),
        (("--only", "hot", "--only", "cold"), lambda one: True),
        (("--only", "current", "--only", "hot"), lambda one: one["current"] and one["storage"] == "hot"),
        (("--session-key", "agent:main:main"), lambda one: one["key"] == "agent:main:main"),
        (("--agent", "nobody"), lambda one: False),
    ],
)
def test_filters(home: Path, expected: dict[str, Any], filters: tuple[str, ...], wanted: Any) -> None:
    found = {item["sessionId"] for item in listed(home, *filters)}
    assert found == {name for name, one in expected.items() if wanted(one)}


def test_times_filter_by_the_newest_entry(home: Path) -> None:
    assert len(listed(home, "--since", "2026-11-01")) == 2
    assert len(listed(home, "--until", "2026-11-01")) == 10


@pytest.mark.long
def test_a_session_is_shown_as_its_host_sees_it(home: Path, expected: dict[str, Any]) -> None:
    for name, one in expected.items():
        data = run("show", name, "--openclaw-dir", home, "--json").data
        messages = [(each["entryId"], each["role"], each["text"]) for each in data["messages"]]
        assert messages == [(each["id"], each["role"], each["text"]) for each in one["messages"]]
        assert (data["path"], data["offPath"]) == (one["path"], one["offPath"])
        assert all(each["createdAt"].endswith("Z") for each in data["messages"])


@pytest.mark.long
def test_pages_of_a_session_go_back_from_the_newest(home: Path, expected: dict[str, Any]) -> None:
    pages: list[Any] = []
    more: tuple[str, ...] = ()
    while True:
        document = run("show", REWOUND, "--openclaw-dir", home, "--json", "--limit", 25, *more).document
        pages = document["data"]["path"] + pages
        if not document["pagination"]["hasMore"]:
            break
        more = ("--cursor", document["pagination"]["nextCursor"])
    assert pages == expected[REWOUND]["path"]


def test_people_get_a_table(home: Path) -> None:
    out = run("show", REWOUND[:6], "--limit", 3, "--openclaw-dir", home).out
    assert "104 entries that the host sees, 19 between them that it does not" in out
    assert "bb32e733" in out


def test_what_is_not_there_is_said(home: Path) -> None:
    unknown = run("show", "nobody", "--openclaw-dir", home, "--json")
    assert (unknown.code, unknown.error["code"]) == (ExitCode.NOT_FOUND, "SESSION_NOT_FOUND")
    bad = run("sessions", "--only", "warm", "--openclaw-dir", home, "--json")
    assert (bad.code, bad.error["details"]["option"]) == (ExitCode.USAGE, "only")


def test_a_cursor_of_another_session_is_refused(home: Path) -> None:
    document = run("show", REWOUND, "--limit", 3, "--openclaw-dir", home, "--json").document
    cursor = document["pagination"]["nextCursor"]
    refused = run("show", "27046938", "--cursor", cursor, "--openclaw-dir", home, "--json")
    assert (refused.code, refused.error["code"]) == (ExitCode.USAGE, "INVALID_CURSOR")


def test_a_path_that_became_shorter_is_stale(tmp_path: Path) -> None:
    agent = AgentFolder(tmp_path / "agents" / "main")
    agent.hot(Story("one", 1).tell(30), "k")
    words = ("show", "one", "--limit", 3, "--openclaw-dir", tmp_path, "--json")
    cursor = run(*words).document["pagination"]["nextCursor"]
    shutil.rmtree(tmp_path / "agents")
    AgentFolder(tmp_path / "agents" / "main").hot(Story("one", 1).tell(6), "k")
    assert run(*words, "--cursor", cursor).code == ExitCode.STALE


def test_lines_that_cannot_be_read_are_shown(tmp_path: Path) -> None:
    folder = tmp_path / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    entry = {"type": "message", "id": "e1", "parentId": None, "message": {"role": "user", "content": "hello"}}
    whole = json.dumps(entry)
    lines = [
        '{"type":"session","id":"one"}',
        whole[:40] + whole,
        whole + whole.replace("e1", "e2"),
        "{bad",
        "",
    ]
    (folder / "one.jsonl").write_text("\n".join(lines))
    data = run("sessions", "--openclaw-dir", tmp_path, "--json").data
    assert [(item["entries"], item["badLines"]) for item in data["items"]] == [(3, 2)]
    assert "2 lines of session one cannot be read: lcm-tui show one" in (
        run("sessions", "--openclaw-dir", tmp_path).out
    )
    shown = run("show", "one", "--openclaw-dir", tmp_path, "--json").data
    assert shown["problemCount"] == len(shown["problems"])
    assert {problem["line"] for problem in shown["problems"]} == {2, 3, 4}
    assert {entry for entry, _ in shown["path"]} == {"e2"}


def test_places_that_cannot_be_read_are_named_beside_the_rest(tmp_path: Path) -> None:
    AgentFolder(tmp_path / "agents" / "main").hot(Story("one", 1).tell(5), "k")
    AgentFolder(tmp_path / "agents" / "ops").database.write_bytes(b"x" * 5000)
    data = run("sessions", "--openclaw-dir", tmp_path, "--json").data
    assert [item["sessionId"] for item in data["items"]] == ["one"]
    assert "its first page is" in data["problems"][0]["reason"]
    assert data["items"][0]["conversationId"] is None


def test_a_conversation_beside_its_codex_session(database_file: DatabaseFactory, tmp_path: Path) -> None:
    path, rollout = database_file("0.15.3"), tmp_path / "rollout.jsonl"
    lines = as_rollout(path, 7)
    rollout.write_text("\n".join([*lines[2:], message("user", "\x1b[31mnew"), '{"type": "resp']))
    arguments = ("sessions", "--compare", "7", "--file", rollout, "--db", path)
    data = run(*arguments, "--json").data
    assert [one["text"] for one in data["onlyCodex"]] == ["\x1b[31mnew"]
    assert [(one["role"], one["where"]) for one in data["onlyConversation"]] == [("user", "seq 1")]
    assert data["same"] == data["rows"] - 1
    assert [one["line"] for one in data["rollout"]["problems"]] == [len(lines)]
    told = run(*arguments)
    assert (told.code, "Only in Codex" in told.out, "\x1b" in told.out) == (0, True, False)
    assert f"Line {len(lines)} is skipped: unfinished" in told.out
    nowhere = run("sessions", "--compare", "7", "--db", path, "--openclaw-dir", tmp_path)
    assert (nowhere.code, "`lcm-tui sessions --compare 7 --file PATH`" in nowhere.err) == (3, True)
