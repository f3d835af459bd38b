"""Who said a message in a group (``messages.openclaw_sender_metadata``, since 0.15.2).

One reading for what is sent and for the source text of a summary: engine.md 2.3 and 2.5 know one label, and
no recorded message has one that could tell two readings apart.
"""

from __future__ import annotations

import re
from typing import Final

from lcm_core.assemble.js import parsed_object
from lcm_core.dag.markers import BLANKS
from lcm_core.javascript import JsonObject

_BLANK_RUN: Final = re.compile(rf"[{BLANKS}]+")

#: What is sent and said of a sender, in this order.
_MEMBERS: Final = ("senderId", "senderName", "senderUsername")


def sender_of(recorded: str | None) -> JsonObject | None:
    """The members of a recorded sender that say something, unchanged; None without any.

    docs/engine/assembly.md, Messages.
    """
    if not recorded:
        return None
    value = parsed_object(recorded)
    found = {
        name: said for name in _MEMBERS if isinstance(said := value.get(name), str) and said.strip(BLANKS)
    }
    return found or None


def sender_label(recorded: str | None) -> str:
    """The sender's name, user name or id, the first that is recorded; empty when none is."""
    if not recorded:
        return ""
    value = parsed_object(recorded)
    names = (value.get(key) for key in ("senderName", "senderUsername", "senderId"))
    labels = (_BLANK_RUN.sub(" ", name).strip(" ") for name in names if isinstance(name, str))
    return next(filter(None, labels), "")
