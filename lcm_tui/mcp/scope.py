"""Which conversations a server may read: given at its start, and never widened by an argument.

Source: docs/mcp.md, "Scope".
"""

from __future__ import annotations

from dataclasses import dataclass

from lcm_core.errors import NotFoundError, UsageError
from lcm_core.records import Conversation, ConversationId
from lcm_core.store.conversations import ConversationEntry, list_conversations
from lcm_core.store.database import Reader
from lcm_core.text import safe_line
from lcm_core.wording import counted

_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Allowed:
    """What was given at the start; neither: all conversations."""

    conversations: tuple[int, ...] = ()
    session_keys: tuple[str, ...] = ()  #: the conversations of a session, also those that begin later

    @property
    def everything(self) -> bool:
        """Whether nothing was named."""
        return not self.conversations and not self.session_keys

    def holds(self, one: Conversation) -> bool:
        """Whether a conversation may be read."""
        named = one.conversation_id in self.conversations or one.session_key in self.session_keys
        return self.everything or named

    @property
    def name(self) -> str:
        """As answers name it."""
        if self.everything:
            return "all conversations"
        names = [f"conversation {one}" for one in self.conversations]
        return ", ".join(names + [f"session {safe_line(key)[:_SHOWN]}" for key in self.session_keys])


@dataclass(frozen=True, slots=True)
class Scope:
    """The conversations of one call."""

    entries: tuple[ConversationEntry, ...]  #: the newest activity first
    name: str

    @property
    def ids(self) -> tuple[ConversationId, ...]:
        """Their ids."""
        return tuple(one.conversation.conversation_id for one in self.entries)


async def scope_of(reader: Reader, allowed: Allowed, narrowed_to: int | None = None) -> Scope:
    """The conversations that may be read now, or the one of them that a call names.

    Raises:
        UsageError: it names another one.
    """
    entries = [one for one in await list_conversations(reader) if allowed.holds(one.conversation)]
    if narrowed_to is None:
        return Scope(tuple(entries), f"{allowed.name} ({counted(len(entries), 'conversation')})")
    chosen = tuple(one for one in entries if one.conversation.conversation_id == narrowed_to)
    if not chosen:
        raise UsageError(
            f"Conversation {narrowed_to} is not in the scope of this server ({allowed.name}); "
            "the tool `conversations` lists those that are.",
            code="OUTSIDE_SCOPE",
        )
    return Scope(chosen, f"conversation {narrowed_to} of {allowed.name}")


async def check_allowed(reader: Reader, allowed: Allowed) -> None:
    """See to it that what was given at the start is there.

    Raises:
        NotFoundError: a conversation or a session is not.
    """
    known = [one.conversation for one in await list_conversations(reader)]
    for number in allowed.conversations:
        if not any(one.conversation_id == number for one in known):
            raise NotFoundError(f"There is no conversation {number}; `lcm-tui conversations list` shows all.")
    for key in allowed.session_keys:
        if not any(one.session_key == key for one in known):
            raise NotFoundError(
                f"There is no conversation of the session {safe_line(key)[:_SHOWN]}; "
                "`lcm-tui conversations list` shows all."
            )
