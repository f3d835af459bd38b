"""The operator's own editor: what it leaves becomes a draft; whatever it does, the terminal comes back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from lcm_tui.app import LcmApp
from tests.app.support import NARROW, open_app, settled, wait_for, wait_for_text, wait_until_said
from tests.app.test_editing import walk_to_summary
from tests.app.test_review import LEAF, review_of
from tests.conftest import DatabaseFactory
from tests.databases import value

pytestmark = pytest.mark.usefixtures("no_offer")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What became of the terminal; like Textual's own, it comes back at the end of the block alone."""
    seen: list[str] = []

    @contextlib.contextmanager
    def suspend(app: LcmApp) -> Iterator[None]:
        seen.append("given away")
        yield
        seen.append("back")

    monkeypatch.setattr(LcmApp, "suspend", suspend)
    return seen


def editor(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Set an editor that is a shell script; its file is ``$1``."""
    path = folder / "my editor"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    monkeypatch.setenv("EDITOR", f"'{path}'")


@pytest.mark.long
async def test_what_the_editor_leaves_is_a_draft(
    terminal: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_copy: DatabaseFactory
):
    editor(tmp_path, monkeypatch, "echo 'By another hand.' > \"$1\"")
    async with open_app(database_copy("0.15.3")) as pilot:
        screen = await review_of(pilot, LEAF, 8)
        await pilot.press("E")
        await wait_for(pilot, lambda: len(screen.subject.item.drafts) == 2, "a draft by hand")
        await settled(pilot)
        assert screen.subject.draft is not None
        assert screen.subject.draft.text == "By another hand."
    assert terminal == ["given away", "back"]


@pytest.mark.long
@pytest.mark.parametrize("where", ["s", "c", "c enter", "H", "F"])
async def test_the_editor_is_opened_wherever_a_summary_is_listed(
    where: str,
    terminal: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    database_copy: DatabaseFactory,
):
    editor(tmp_path, monkeypatch, f'cp "$1" {tmp_path}/present; echo "By another hand." > "$1"')
    path = database_copy("0.15.3-damaged")
    async with open_app(path, size=NARROW) as pilot:
        await walk_to_summary(pilot, where)
        await pilot.press("E")
        await wait_for_text(pilot, "Review sum_", "by hand · 4 tokens")
    assert terminal == ["given away", "back"]
    present = (tmp_path / "present").read_text()
    assert value(path, "SELECT count(*) FROM summaries WHERE trim(content) = trim(?)", present)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('echo half > "$1"; exit 3', "The editor ended with 3; the draft is unchanged."),
        ('rm "$1"', "The editor left no readable file"),
        pytest.param(
            "kill -9 $$", "The editor ended with -9; the draft is unchanged.", marks=pytest.mark.long
        ),
    ],
)
async def test_an_editor_that_fails_gives_no_draft(
    script: str,
    said: str,
    terminal: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    database_copy: DatabaseFactory,
):
    editor(tmp_path, monkeypatch, script)
    async with open_app(database_copy("0.15.3")) as pilot:
        screen = await review_of(pilot, LEAF, 8)
        await pilot.press("E")
        await wait_until_said(pilot, said)
        assert len(screen.subject.item.drafts) == 1
    assert terminal == ["given away", "back"]


@pytest.mark.parametrize(
    ("command", "said", "given"),
    [
        ("no-such-editor --wait", "The editor no-such-editor cannot be started", True),
        pytest.param("vi 'unfinished", "cannot be understood", False, marks=pytest.mark.long),
        pytest.param("  ", "No editor is set", False, marks=pytest.mark.long),
    ],
)
async def test_an_editor_that_cannot_be_started_leaves_the_terminal_as_it_was(
    command: str,
    said: str,
    given: bool,
    terminal: list[str],
    monkeypatch: pytest.MonkeyPatch,
    database_copy: DatabaseFactory,
):
    monkeypatch.setenv("EDITOR", command)
    async with open_app(database_copy("0.15.3")) as pilot:
        screen = await review_of(pilot, LEAF, 8)
        await pilot.press("E")
        await wait_until_said(pilot, said)
        assert len(screen.subject.item.drafts) == 1
    assert terminal == (["given away", "back"] if given else [])


@pytest.mark.long
async def test_an_emptied_text_is_a_draft_that_cannot_stand(
    terminal: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database_copy: DatabaseFactory
):
    editor(tmp_path, monkeypatch, ': > "$1"')
    async with open_app(database_copy("0.15.3")) as pilot:
        screen = await review_of(pilot, LEAF, 8)
        await pilot.press("E")
        await wait_for(pilot, lambda: len(screen.subject.item.drafts) == 2, "a draft by hand")
        await settled(pilot)
        assert screen.subject.draft is not None
        assert not screen.subject.draft.text
        await wait_for_text(pilot, "Advised against: The text is empty.")
    assert terminal == ["given away", "back"]
