"""Which conversation a command is about."""

from __future__ import annotations

from dataclasses import dataclass

from lcm_core.errors import UsageError
from lcm_core.records import Conversation
from lcm_core.store.conversations import find_by_session_key, get_conversation
from lcm_core.store.database import Reader

from lcm_tui.cli.options import invalid, readable_text, whole_number
from lcm_tui.cli.stored import as_text


@dataclass(frozen=True, slots=True)
class Selector:
    """A conversation by one of its names."""

    conversation_id: int | None
    session_key: str | None

    @property
    def given(self) -> bool:
        """Whether a conversation was named at all."""
        return self.conversation_id is not None or self.session_key is not None


def selector(
    command: str,
    argument: str | None,
    conversation_id: str | None,
    session_key: str | None,
    *,
    needed: bool = True,
) -> Selector:
    """The conversation that an argument or an option names; they exclude each other."""
    if argument is not None and (conversation_id is not None or session_key is not None):
        raise UsageError(
            f"{command} takes the conversation once: as an argument or as an option.",
            details={"command": command},
        )
    if conversation_id is not None and session_key is not None:
        raise invalid("conversation-id", "cannot be combined with --session-key")
    if session_key is not None:
        return Selector(None, readable_text("--session-key", session_key))
    given = argument if argument is not None else conversation_id
    if given is not None:
        return Selector(whole_number("conversation-id", given, 1), None)
    if needed:
        raise UsageError(
            f"{command} needs a conversation: --conversation-id ID or --session-key KEY.",
            details={"command": command},
        )
    return Selector(None, None)


async def chosen(reader: Reader, named: Selector) -> Conversation:
    """The conversation that was named.

    Raises:
        NotFoundError: there is none of that name.
    """
    if named.session_key is not None:
        return as_text(await find_by_session_key(reader, named.session_key))
    return as_text(await get_conversation(reader, named.conversation_id or 0))
