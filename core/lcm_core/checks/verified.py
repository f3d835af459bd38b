"""What was verified before: equal texts need not be judged again.

What the checks found in them is kept in a private file in the cache folder, which may be deleted, damaged or
of another program at any time: then all texts are judged. It holds digests, findings and places, and no text
(docs/spec/doctor.md, "What was verified before").
"""

from __future__ import annotations

import asyncio
import logging
import marshal
from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from lcm_core import __version__
from lcm_core.base.errors import LcmError
from lcm_core.base.files import VERIFIED, cache_path, make_private, read_limited, write_private
from lcm_core.base.findings import VerifiedMessages
from lcm_core.base.values import replace
from lcm_core.store.database import Database
from lcm_core.store.remembered import MOST_BYTES, mark_of

log = logging.getLogger(__name__)


#: Smaller files are judged as a whole each time: that takes no second.
LEAST_BYTES: Final = 16 * 1024 * 1024
_FORMAT: Final = 1


def digest_of(rows: Any) -> bytes:
    """Equal rows have equal digests: no check finds anything else in them."""
    return sha256(marshal.dumps(rows, 2)).digest()


def digest_of_batches(digests: Iterable[bytes]) -> str:
    """The digest of rows that were digested in batches."""
    return sha256(b"".join(digests)).hexdigest()


class VerifiedTexts:
    """What was verified of an open file, and what of it holds for a run of the checks."""

    def __init__(
        self, source: Path, access: str, *, judge_all: bool = False, folder: Path | None = None
    ) -> None:
        """*judge_all*: use nothing of earlier runs; remember what this one finds."""
        self._path, self._source, self._access = cache_path(source, VERIFIED, folder), source, access
        self._judge_all = judge_all
        self._begun = ""
        self._records: dict[int, VerifiedMessages] = {}
        self._confirmed: set[int] = set()
        self._taken: dict[int, int] = {}  #: messages by conversation
        self._changed = False

    @classmethod
    def of(cls, database: Database, *, allowed: bool, judge_all: bool = False) -> VerifiedTexts | None:
        """What was verified of an open database; None: without leave, or it is too small to matter."""
        state = database.state
        large = state is not None and state.size >= LEAST_BYTES
        return cls(database.path, database.access.value, judge_all=judge_all) if allowed and large else None

    async def begin(self) -> None:
        """Read what is remembered."""
        known = await asyncio.to_thread(_read, self._path)
        self._records = {one.conversation: one for one in known}
        self._begun = self._now()

    def _now(self) -> str:
        """The state of the file; empty: it is being written. Two looks at it take no time."""
        mark = mark_of(self._source, self._access)
        return "" if mark is None else msgspec.json.encode(mark).decode()

    def of_conversation(
        self, conversation: int, about: str, asked: Collection[str]
    ) -> VerifiedMessages | None:
        """What was found in a conversation when it had these rows, whatever their texts were."""
        known = None if self._judge_all else self._records.get(conversation)
        return known if known is not None and known.about == about and known.checks >= set(asked) else None

    def holds(self, known: VerifiedMessages) -> bool:
        """Whether nothing was written to the file since, so that the texts need not even be read."""
        return known.mark != "" and known.mark == self._now()

    def take(self, known: VerifiedMessages) -> None:
        """Note that a conversation still is as it was."""
        self._taken[known.conversation] = known.messages
        self._confirmed.add(known.conversation)

    @property
    def taken(self) -> tuple[int, int]:
        """How many messages were taken as verified, of how many conversations."""
        return sum(self._taken.values()), len(self._taken)

    def note(self, judged: VerifiedMessages) -> None:
        """Note what was found in a conversation."""
        self._records[judged.conversation] = judged
        self._confirmed.add(judged.conversation)
        self._changed = True

    def forget_others(self, conversations: Collection[int]) -> None:
        """Forget what was found in conversations that are gone."""
        for gone in self._records.keys() - set(conversations):
            del self._records[gone]
            self._changed = True

    async def keep(self) -> None:
        """Remember it all for the next run; that this cannot be is no error."""
        now = self._now()
        if now and now == self._begun:  # nothing was written while the texts were read
            for conversation in self._confirmed & self._records.keys():
                if self._records[conversation].mark != now:
                    self._records[conversation] = replace(self._records[conversation], mark=now)
                    self._changed = True
        if self._changed:
            await asyncio.to_thread(_write, self._path, list(self._records.values()))


def _read(path: Path) -> Sequence[VerifiedMessages]:
    try:
        head, _, body = read_limited(path, MOST_BYTES).partition(b"\n")
        if head != _head(body):
            return ()
        return msgspec.json.decode(body, type=list[VerifiedMessages], strict=True)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        if not isinstance(error, FileNotFoundError):
            log.debug("%s cannot be used: %s", path, error)
        return ()


def _head(body: bytes) -> bytes:
    """What stands before the rest: another program may judge otherwise, and damage must not look right."""
    return f"{_FORMAT} {__version__} {sha256(body).hexdigest()}".encode()


def _write(path: Path, records: Sequence[VerifiedMessages]) -> None:
    kept, size = list[bytes](), 0
    for one in sorted(records, key=lambda one: -one.messages):  # the long ones, if there is no room for all
        try:
            encoded = msgspec.json.encode(one)
        except (UnicodeEncodeError, OverflowError):  # it is judged again each time
            continue
        if size + len(encoded) < MOST_BYTES - 1_000:
            kept.append(encoded)
            size += len(encoded) + 1
    body = b"[" + b",".join(kept) + b"]"
    try:
        make_private(path.parent)
        write_private(path, f"{_head(body).decode()}\n{body.decode()}", replace=True)
    except (OSError, ValueError, LcmError) as error:
        log.debug("%s cannot be written: %s", path, error)
