"""What a search is narrowed to, in the words that an operator types."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Final

from lcm_core.errors import UsageError
from lcm_core.records import ConversationId
from lcm_core.store.searched import DocumentKind, Filter
from lcm_core.times import iso_z, span_of, typed_moment

_KINDS: Final = {
    "messages": DocumentKind.MESSAGE,
    "summaries": DocumentKind.SUMMARY,
    "briefs": DocumentKind.BRIEF,
    "files": DocumentKind.FILE,
}
#: Between a date and the time of that day.
_CLOCK: Final = re.compile(r"(?<=[0-9]{4}-[0-9]{2}-[0-9]{2}) +(?=[0-9]{2}:)", re.ASCII)
_CONVERSATION: Final = re.compile(r"#?([0-9]{1,18})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Kinds, one conversation and a time, each of them or none."""

    text: str = ""  #: as it was typed, with single blanks
    filter: Filter = field(default_factory=Filter)


def parse_narrowing(text: str, zone: tzinfo | None, now: datetime | None = None) -> Narrowing:
    """What words such as ``messages 3 7d`` narrow a search to; the last 7 days end *now*.

    A time that names no zone is one of *zone* (None: that of this machine).

    Raises:
        UsageError: one of them is no kind, no conversation and no time, there are two of one
            sort, or *zone* has a time twice or skips it.
    """
    kinds: list[DocumentKind] = []
    conversation: ConversationId | None = None
    since = before = None
    words = _CLOCK.sub("T", re.sub(r"\blast +(?=[0-9])", "last_", text)).split()
    for joined in words:
        word = joined.replace("last_", "last ", 1)
        kind = next((one for name, one in _KINDS.items() if name.startswith(word.lower())), None)
        number = _CONVERSATION.fullmatch(word)
        if kind is not None:
            kinds.append(kind)
        elif number is not None and conversation is None:
            conversation = ConversationId(int(number[1]))
        elif number is None and since is None and before is None:
            since, before = _times(word, zone, now or datetime.now(UTC))
        else:
            raise UsageError(f"{word} is one too many: give at most one conversation and one time.")
    return Narrowing(
        " ".join(text.split()),
        Filter(
            conversations=None if conversation is None else (conversation,),
            kinds=tuple(dict.fromkeys(kinds)) or tuple(DocumentKind),
            since=since,
            before=before,
        ),
    )


def _times(word: str, zone: tzinfo | None, now: datetime) -> tuple[str | None, str | None]:
    """From when on, and before when."""
    first, dots, last = word.partition("..")
    start, end = (_moment(one, zone, now) if one else None for one in (first, last))
    if (first and start is None) or (last and end is None) or (dots and not first and not last):
        raise UsageError(
            f"{word} is not one of messages, summaries, briefs, files, a conversation such as 3, "
            "a time such as 7d, last 3h, 2026-03-02 or 2026-03-02..2026-03-09."
        )
    if start is not None and end is not None and start >= end:
        raise UsageError(f"{word} ends before it begins: give the earlier time first.")
    return None if start is None else iso_z(start), None if end is None else iso_z(end)


def _moment(word: str, zone: tzinfo | None, now: datetime) -> datetime | None:
    span = span_of(word)
    try:
        return typed_moment(word, zone) if span is None else now - span
    except OverflowError:
        return None
