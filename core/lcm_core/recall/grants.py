"""Grants: what a delegated session may expand, for how long, and how much (docs/engine/recall.md, "Grants").

They live in the memory of one process and are never stored. A grant is given at its creation; no argument of
a call widens it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from lcm_core.records import ConversationId, SummaryId

DEFAULT_DEPTH: Final = 3
DEFAULT_CAP: Final = 4_000
DEFAULT_LIFE: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Grant:
    """What one delegated session may do."""

    grant_id: str
    issuer: str  #: the session that gave it
    conversations: tuple[ConversationId, ...]
    summaries: tuple[SummaryId, ...]  #: roots that may be expanded; empty: all of the conversations
    max_depth: int
    token_cap: int
    created_at: datetime
    expires_at: datetime
    revoked: bool = False
    family: str | None = None  #: a session key: all of its conversations, also those that begin later


class GrantError(Exception):
    """A call that its grant does not cover; the text is the answer."""


def _now() -> datetime:
    return datetime.now(UTC)


class Grants:
    """The grants of one process, and the sessions that they are bound to."""

    def __init__(self, clock: Callable[[], datetime] = _now) -> None:
        self._clock = clock
        self._grants: dict[str, Grant] = {}
        self._consumed: dict[str, int] = {}
        self._by_session: dict[str, str] = {}

    # -- life ----------------------------------------------------------------------------------------------

    def create(
        self,
        issuer: str,
        conversations: Iterable[ConversationId],
        *,
        summaries: Iterable[SummaryId] = (),
        max_depth: int = DEFAULT_DEPTH,
        token_cap: int = DEFAULT_CAP,
        life: timedelta = DEFAULT_LIFE,
        session: str | None = None,
        family: str | None = None,
    ) -> Grant:
        """Give a grant, and bind it to the key of a *session* when one is named.

        It covers *conversations*, and those of the session key *family* as they are when it is used.
        """
        now = self._clock()
        grant = Grant(
            f"grant_{str(uuid.uuid4())[:12]}",
            issuer,
            tuple(conversations),
            tuple(summaries),
            max(1, max_depth),
            max(1, token_cap),
            now,
            now + life,
            family=family,
        )
        self._grants[grant.grant_id] = grant
        if session is not None:
            self._by_session[session] = grant.grant_id
        return grant

    def inherit(
        self,
        parent_session: str,
        child_session: str,
        *,
        max_expand_tokens: int,
        current: ConversationId | None,
    ) -> Grant | None:
        """Give a session that a granted one started its share; None when that one has no live grant.

        The cap is what is left of it, the depth one less, the roots are the same; *current* is the
        conversation that the parent is in, which becomes the only one when the grant covers it.
        """
        parent = self.of_session(parent_session)
        if parent is None:
            return None
        covered = current is not None and current in parent.conversations
        return self.create(
            parent_session,
            (current,) if covered and current is not None else parent.conversations,
            summaries=parent.summaries,
            max_depth=parent.max_depth - 1,
            token_cap=min(self.remaining(parent.grant_id) or 0, max_expand_tokens),
            life=parent.expires_at - self._clock(),
            session=child_session,
            family=None if covered else parent.family,
        )

    def revoke(self, grant_id: str) -> bool:
        """Take a grant back; a session that is bound to it hears that it was revoked."""
        grant = self._grants.get(grant_id)
        if grant is None:
            return False
        self._grants[grant_id] = replace(grant, revoked=True)
        return True

    def revoke_session(self, session: str, *, unbind: bool) -> bool:
        """Take back the grant of a session, and forget which one it was when *unbind*."""
        grant_id = self._by_session.get(session)
        revoked = grant_id is not None and self.revoke(grant_id)
        if unbind:
            self._by_session.pop(session, None)
        return revoked

    def unbind(self, session: str) -> None:
        """Forget which grant a session has; the grant lives on."""
        self._by_session.pop(session, None)

    def cleanup(self) -> int:
        """Remove the grants that were revoked or are over; how many there were."""
        now = self._clock()
        over = [one.grant_id for one in self._grants.values() if one.revoked or one.expires_at <= now]
        for grant_id in over:
            del self._grants[grant_id]
            self._consumed.pop(grant_id, None)
        return len(over)

    # -- asking --------------------------------------------------------------------------------------------

    def get(self, grant_id: str) -> Grant | None:
        """A live grant."""
        grant = self._grants.get(grant_id)
        return None if grant is None or grant.revoked or grant.expires_at <= self._clock() else grant

    def id_of_session(self, session: str) -> str | None:
        """The grant that a session is bound to, also one that is over."""
        return self._by_session.get(session)

    def of_session(self, session: str) -> Grant | None:
        """The live grant of a session."""
        grant_id = self._by_session.get(session)
        return None if grant_id is None else self.get(grant_id)

    def remaining(self, grant_id: str) -> int | None:
        """The tokens that are left of a live grant."""
        grant = self.get(grant_id)
        return None if grant is None else max(0, grant.token_cap - self._consumed.get(grant_id, 0))

    def problem(
        self,
        grant_id: str,
        conversation: ConversationId,
        summaries: Sequence[SummaryId],
        family: Collection[ConversationId] = (),
    ) -> str | None:
        """Why a grant does not cover a call; None when it does. *family*: what its session key covers."""
        grant = self._grants.get(grant_id)
        if grant is None:
            return "Grant not found"
        if grant.revoked:
            return "Grant has been revoked"
        if grant.expires_at <= self._clock():
            return "Grant has expired"
        if conversation not in grant.conversations and conversation not in family:
            return f"Conversation {conversation} is not in the allowed set"
        others = [one for one in summaries if one not in grant.summaries] if grant.summaries else []
        return f"Summary IDs not authorized: {', '.join(others)}" if others else None

    def permitted(
        self,
        grant_id: str,
        conversation: ConversationId,
        summaries: Sequence[SummaryId],
        *,
        max_depth: int | None,
        token_cap: int | None,
        family: Collection[ConversationId] = (),
    ) -> tuple[int, int]:
        """The depth and the cap that a call may go to: what it asks for, at most what is left.

        Raises:
            GrantError: the grant does not cover it, or nothing is left.
        """
        problem = self.problem(grant_id, conversation, summaries, family)
        if problem is not None:
            raise GrantError(f"Expansion authorization failed: {problem}")
        grant, rest = self._grants[grant_id], self.remaining(grant_id) or 0
        if rest <= 0:
            raise GrantError("Expansion authorization failed: Grant token budget exhausted")
        depth = grant.max_depth if max_depth is None else min(max(1, max_depth), grant.max_depth)
        return depth, rest if token_cap is None else max(1, min(token_cap, rest))

    def consume(self, grant_id: str, tokens: int) -> None:
        """Count the tokens of a result, never more than the cap."""
        grant = self._grants.get(grant_id)
        if grant is not None:
            spent = self._consumed.get(grant_id, 0) + max(0, tokens)
            self._consumed[grant_id] = min(grant.token_cap, spent)
