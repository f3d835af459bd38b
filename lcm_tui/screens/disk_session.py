"""A session that only the disk knows: its transcript, read-only."""

from __future__ import annotations

from collections.abc import Iterable

from lcm_core.ingest.sessions import DiskSession
from lcm_core.records import Conversation
from lcm_core.settings import Settings


def unknown_sessions(settings: Settings, known: Iterable[Conversation]) -> list[DiskSession]:
    """Sessions on disk that the database does not know. Reads the folder: not for the event loop."""
    return []
