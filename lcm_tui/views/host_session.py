"""A session of the host in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # sessions are looked for behind the first rows
    from lcm_core.host.listing import HostSession

ON_DISK = "on disk"


def session_state(session: HostSession) -> str:
    """Where it lies: ``on disk`` (a file), ``living``, ``earlier``, ``cold``, ``deleted`` or ``archived``.

    ``earlier`` is a window of the host's database that its key does not go on with.
    """
    stored = session.storage.value
    if stored == "hot":
        return "living" if session.current else "earlier"
    return ON_DISK if stored == "jsonl" else stored


def session_name(session: HostSession) -> str:
    """Agent and channel as its key has them, as a conversation is called; without a key its id."""
    agent, _, lane = (session.session_key or "").removeprefix("agent:").partition(":")
    if not lane or not (session.session_key or "").startswith("agent:"):
        return session.session_key or session.session_id
    return lane if lane == agent else f"{agent} {lane}"
