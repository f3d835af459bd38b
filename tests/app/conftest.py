"""Fixtures for every test of the app."""

from __future__ import annotations

import pytest
from textual.notifications import Notification, Notifications

from tests.app.support import NOTED


@pytest.fixture(autouse=True)
def _notifications_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what was said: on a busy machine its time is over before a test looks at it."""
    add = Notifications.add

    def noted(self: Notifications, notification: Notification) -> Notifications:
        vars(self).setdefault(NOTED, []).append(notification)
        return add(self, notification)

    monkeypatch.setattr(Notifications, "add", noted)
