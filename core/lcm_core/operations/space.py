"""What takes the space of a database file: tables, conversations, ages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from lcm_core.operations.prune import Criteria, select
from lcm_core.store.database import Reader
from lcm_core.store.opening import sidecar
from lcm_core.store.sizes import ConversationSize, FileSize, file_size
from lcm_core.times import parse_utc

#: Bands of age, each up to so many days since the newest message; then all that is older.
_BANDS: Final = (("under 7 days", 7), ("7 to 30 days", 30), ("30 to 90 days", 90), ("90 days to 1 year", 365))
_OLDER: Final = "over 1 year"
_UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class AgeBand:
    """The conversations of one age."""

    title: str
    conversations: int
    messages: int
    bytes: int  #: of their texts


@dataclass(frozen=True, slots=True)
class Space:
    """What takes the space."""

    file: FileSize
    wal_bytes: int
    conversations: Sequence[ConversationSize]  #: the largest first
    ages: Sequence[AgeBand]  #: the newest first


async def space_of(reader: Reader, path: Path, now: datetime | None = None) -> Space:
    """Measure everything: two scans of the file."""
    moment = now or datetime.now(UTC)
    conversations = await select(reader, Criteria(), moment)
    wal = await asyncio.to_thread(_size, sidecar(path, "-wal"))
    return Space(await file_size(reader), wal, conversations, tuple(_ages(conversations, moment)))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _ages(found: Sequence[ConversationSize], now: datetime) -> Iterable[AgeBand]:
    titles = [*(title for title, _ in _BANDS), _OLDER, _UNKNOWN]
    members: dict[str, list[ConversationSize]] = {title: [] for title in titles}
    for one in found:
        members[_band(one, now)].append(one)
    for title, those in members.items():
        if those:
            texts = sum(one.bytes or 0 for one in those)
            yield AgeBand(title, len(those), sum(one.messages for one in those), texts)


def _band(one: ConversationSize, now: datetime) -> str:
    at = parse_utc(one.at)
    if at is None:
        return _UNKNOWN
    return next((title for title, days in _BANDS if now - at < timedelta(days=days)), _OLDER)
