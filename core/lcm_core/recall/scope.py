"""Which conversations a call is about (docs/engine/recall.md, "Scope")."""

from __future__ import annotations

from dataclasses import dataclass

from lcm_core.recall.answer import ToolError
from lcm_core.recall.grants import Grant, Grants
from lcm_core.recall.parameters import Parameters
from lcm_core.records import Conversation, ConversationId
from lcm_core.store.recalled import RecalledRows

NOTHING_FOUND = (
    "No LCM conversation found for this session. Provide conversationId or set allConversations=true."
)
NO_GRANT = (
    "Delegated LCM retrieval requires a valid grant. "
    "This sub-agent session has no propagated expansion grant."
)
_SUBAGENT = "subagent:"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: the session as the host names it, and the grants of this process."""

    session_key: str | None = None
    session_id: str | None = None
    grants: Grants | None = None

    @property
    def is_delegated(self) -> bool:
        """Whether it is a sub-agent, which may only what it was granted."""
        return self.session_key is not None and is_subagent_key(self.session_key)

    @property
    def grant(self) -> Grant | None:
        """Its live grant."""
        if self.grants is None or self.session_key is None:
            return None
        return self.grants.of_session(self.session_key)


@dataclass(frozen=True, slots=True)
class Scope:
    """The conversations of a call."""

    conversations: tuple[ConversationId, ...] | None  #: None: all of them; else the first is the root
    everything: bool = False  #: all conversations were asked for, whatever a grant left of them
    family: bool = False  #: the conversations of one session

    @property
    def single(self) -> ConversationId | None:
        """The only conversation, when there is one."""
        found = self.conversations
        return found[0] if found is not None and len(found) == 1 else None

    def covers(self, conversation_id: ConversationId) -> bool:
        """Whether a conversation is among them."""
        return self.conversations is None or conversation_id in self.conversations

    @property
    def label(self) -> str:
        """The scope as answers name it."""
        if self.conversations is None or (self.everything and len(self.conversations) != 1):
            return "all conversations"
        if len(self.conversations) == 1:
            return str(self.conversations[0])
        return f"session family rooted at {self.conversations[0]} ({len(self.conversations)} segments)"


def is_subagent_key(session_key: str) -> bool:
    """Whether a session key is that of a sub-agent: ``agent:<agent>:subagent:...``."""
    lower = session_key.strip().lower()
    parts = lower.split(":", 2)
    return lower.startswith(_SUBAGENT) or (
        len(parts) == 3 and parts[0] == "agent" and parts[2].startswith(_SUBAGENT)
    )


def is_cron_key(session_key: str) -> bool:
    """Whether a session key is that of a run by the clock, which is never joined with others."""
    parts = session_key.strip().lower().split(":")
    return len(parts) >= 4 and parts[0] == "agent" and parts[2] == "cron"


def resolve_scope(
    rows: RecalledRows, parameters: Parameters, caller: Caller, *, no_grant: str = NO_GRANT
) -> Scope:
    """The scope of a call: what it names, all conversations, or the family of the caller's session.

    Raises:
        ToolError: the caller's session has no conversation, or its grant does not reach so far.
    """
    named = parameters.number("conversationId")
    everything = parameters.flag("allConversations")
    if caller.is_delegated:
        return _delegated(rows, named, everything, caller.grant, no_grant)
    if named is not None:
        return Scope((ConversationId(named),))
    if everything:
        return Scope(None, everything=True)
    current = current_conversation(rows, caller)
    if current is None:
        raise ToolError(NOTHING_FOUND)
    if current.session_key and is_cron_key(current.session_key):
        return Scope((current.conversation_id,))
    family = [one.conversation_id for one in rows.family(current)]
    others = [one for one in family if one != current.conversation_id]
    return Scope((current.conversation_id, *others), family=bool(others))


def current_conversation(rows: RecalledRows, caller: Caller) -> Conversation | None:
    """The conversation that the caller's session is in.

    A session id counts only where it belongs to an active one; another one than that of the key is newer.
    """
    key, session = (caller.session_key or "").strip(), (caller.session_id or "").strip()
    of_key = rows.active_of_key(key) if key else None
    of_session = rows.of_session(session) if session else None
    return of_session if of_session is not None and of_session.active else of_key


def granted(rows: RecalledRows, grant: Grant) -> tuple[ConversationId, ...]:
    """The conversations that a grant covers now."""
    family = [] if grant.family is None else rows.family_of_key(grant.family)
    return tuple(dict.fromkeys([*grant.conversations, *(one.conversation_id for one in family)]))


def _delegated(
    rows: RecalledRows, named: int | None, everything: bool, grant: Grant | None, no_grant: str
) -> Scope:
    if grant is None:
        raise ToolError(no_grant)
    covered = granted(rows, grant)
    if named is not None:
        if named not in covered:
            raise ToolError(f"Conversation {named} is outside delegated conversation scope.")
        return Scope((ConversationId(named),))
    return Scope(covered, everything=everything)
