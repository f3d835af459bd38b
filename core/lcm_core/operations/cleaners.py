"""What the engine's own cleaners would delete (docs/engine/doctor.md, "Its cleaners").

They select by what a session was for: sub-agents that have ended, jobs on a clock. What is done with the
selection is done by `prune`: it has a preview and can be undone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from lcm_core.javascript import first_units
from lcm_core.records import Conversation, ConversationId
from lcm_core.store.conversations import first_texts
from lcm_core.store.database import Reader
from lcm_core.store.statistics import ConversationSize
from lcm_core.tokens import utf16_length


class Cleaner(StrEnum):
    """A filter of the engine's ``doctor clean``, by its id there and in its order."""

    ARCHIVED_SUBAGENTS = "archived_subagents"
    CRON_SESSIONS = "cron_sessions"
    NULL_SUBAGENT_CONTEXT = "null_subagent_context"


#: What each selects, in a phrase.
MEANINGS: Final[Mapping[Cleaner, str]] = MappingProxyType(
    {
        Cleaner.ARCHIVED_SUBAGENTS: "archived conversations of sub-agents",
        Cleaner.CRON_SESSIONS: "conversations of scheduled jobs, active ones too",
        Cleaner.NULL_SUBAGENT_CONTEXT: "archived conversations without a session key that begin with "
        "[Subagent Context]",
    }
)
#: How the first message of a sub-agent without a key begins.
SUBAGENT_CONTEXT: Final = "[Subagent Context]"
#: The lane, behind the agent's name in a key, by which a cleaner knows its conversations.
_LANES: Final = MappingProxyType({Cleaner.ARCHIVED_SUBAGENTS: "subagent", Cleaner.CRON_SESSIONS: "cron"})
#: UTF-16 units of a first message that the engine shows.
_PREVIEW: Final = 120
_CUT: Final = "..."


@dataclass(frozen=True, slots=True)
class Cleaning:
    """Which of the cleaners are meant: a conversation is when one of them selects it."""

    cleaners: tuple[Cleaner, ...] = tuple(Cleaner)
    agents: tuple[str, ...] = ("main",)  #: ids of the host's agents


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What the cleaners select."""

    cleaning: Cleaning
    chosen: Mapping[ConversationId, Sequence[Cleaner]]  #: who selects each
    previews: Mapping[ConversationId, str]  #: how their first messages begin, in one line
    others: Mapping[str, int]  #: agents that are not the host's, and how many of theirs would be selected


async def cleaned(reader: Reader, counts: Sequence[ConversationSize], cleaning: Cleaning) -> Cleaned:
    """What *cleaning* selects of the conversations in *counts*; reads first messages, and only of these."""
    keyless = [one.id for one in counts if _may_be_keyless(one.conversation)]
    wanted = Cleaner.NULL_SUBAGENT_CONTEXT in cleaning.cleaners
    begins = await first_texts(reader, keyless, len(SUBAGENT_CONTEXT)) if wanted else {}
    agents = frozenset(agent.strip().lower() for agent in cleaning.agents)
    chosen: dict[ConversationId, Sequence[Cleaner]] = {}
    others: dict[str, int] = {}
    for one in counts:
        known = one.conversation
        by = [cleaner for cleaner in cleaning.cleaners if _is_of(known, cleaner, agents)]
        if not by and known.agent is not None and any(_in_lane(known, one) for one in cleaning.cleaners):
            others[known.agent] = others.get(known.agent, 0) + 1
        if begins.get(one.id, "") == SUBAGENT_CONTEXT:
            by.append(Cleaner.NULL_SUBAGENT_CONTEXT)
        if by:
            chosen[one.id] = by
    texts = await first_texts(reader, list(chosen), 2 * _PREVIEW)
    previews = {one: preview_of(text) for one, text in texts.items()}
    return Cleaned(cleaning, chosen, previews, others)


def _is_of(one: Conversation, cleaner: Cleaner, agents: Collection[str]) -> bool:
    """Whether the key begins with that of one of the *agents*, in lower case, and a cleaner's lane."""
    lane, key = _LANES.get(cleaner), one.session_key or ""
    if lane is None or (cleaner is Cleaner.ARCHIVED_SUBAGENTS and one.active is not False):
        return False
    agent, found, _ = key.removeprefix("agent:").partition(f":{lane}:")
    return bool(found and agent) and key.startswith("agent:") and agent.lower() in agents


def _in_lane(one: Conversation, cleaner: Cleaner) -> bool:
    """Whether the key is of a cleaner's lane, whoever the agent is."""
    lane = _LANES.get(cleaner)
    if lane is None or one.agent is None or not one.lane.startswith(f"{lane}:"):
        return False
    return cleaner is not Cleaner.ARCHIVED_SUBAGENTS or one.active is False


def _may_be_keyless(one: Conversation) -> bool:
    return one.session_key is None and one.active is False and one.archived_at is not None


def preview_of(text: str) -> str:
    """The beginning of a message as the engine shows it: one line of 120 UTF-16 units at most."""
    line = " ".join(text.split())
    return line if utf16_length(line) <= _PREVIEW else first_units(line, _PREVIEW - len(_CUT)) + _CUT
