"""Fixtures for every test of the app."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.css.stylesheet import Stylesheet

from lcm_tui.kit import terminal
from lcm_tui.kit.bars import Notice, Notices
from lcm_tui.screens import conversation_panel as outlook
from lcm_tui.screens import frame
from tests.app.support import NOTED, PATIENCE_SECONDS

_parsed: dict[object, Any] = {}


@pytest.fixture(autouse=True)
def _styles_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Textual makes of the same styles and variables is the same for every app; it changes no rule."""
    parse = Stylesheet._parse_rules

    def remembered(self: Stylesheet, *arguments: Any, **named: Any) -> Any:
        key = (arguments, *sorted(named.items()), frozenset(self._variables.items()))
        if key not in _parsed:
            _parsed[key] = parse(self, *arguments, **named)
        return _parsed[key]

    monkeypatch.setattr(Stylesheet, "_parse_rules", remembered)


@pytest.fixture(autouse=True)
def _nothing_is_checked_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first screen checks a database by itself: every test would pay for it, few look at it."""
    monkeypatch.setattr(outlook, "FIRST_SECONDS", 3600.0)
    monkeypatch.setattr(outlook, "REST_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def _keys_wait_for_what_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may read for longer than a key waits; the screen below would get it then, and say so."""
    monkeypatch.setattr(terminal, "HOLD_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(frame, "HOLD_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def no_offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is asked about backups."""
    own = tmp_path / "own.toml"
    own.write_text("backup_offer_mb = 0\n")
    monkeypatch.setenv("LCM_TUI_CONFIG", str(own))


@pytest.fixture(autouse=True)
def _notifications_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what was said: on a busy machine its time is over before a test looks at it."""
    add = Notices.add

    def noted(self: Notices, notice: Notice) -> None:
        vars(self).setdefault(NOTED, []).append(notice)
        add(self, notice)

    monkeypatch.setattr(Notices, "add", noted)


@pytest.fixture(autouse=True)
def _nothing_fails_behind_the_screen(caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest) -> Any:
    """A screen may look right while work behind it failed; who provokes a failure looks at the log itself."""
    yield
    if "caplog" not in request.function.__code__.co_varnames:
        failed = [one.getMessage() for one in caplog.get_records("call") if one.levelname == "ERROR"]
        assert not failed
