"""The first line of a transcript and the times in it (docs/host.md, "Lines of a transcript")."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from lcm_core.ingest.jsonl import Json, JsonObject, string

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TranscriptHeader:
    """What the host wrote down when the session began. Source: the line of type ``session``."""

    session_id: str | None
    version: int  #: 1 when the host did not say; entries form a tree since 2
    started_at: datetime | None  #: UTC
    cwd: str | None  #: the folder in which the agent worked
    parent_session: str | None  #: the transcript that this one was forked from


def read_header(line: JsonObject) -> TranscriptHeader | None:
    """The header, when the line is one."""
    if line.get("type") != "session":
        return None
    version = line.get("version")
    return TranscriptHeader(
        session_id=string(line.get("id")),
        version=version if isinstance(version, int) else 1,
        started_at=read_moment(line.get("timestamp")),
        cwd=string(line.get("cwd")),
        parent_session=string(line.get("parentSession")),
    )


def read_moment(value: Json) -> datetime | None:
    """A time in UTC from ISO text (no zone means UTC) or epoch milliseconds; None when it is neither."""
    try:
        if isinstance(value, str):
            moment = datetime.fromisoformat(value.strip())
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return EPOCH + timedelta(milliseconds=value)
    except (ValueError, OverflowError):
        return None
    return None
