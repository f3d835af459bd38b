"""Who said a message in a group (``messages.openclaw_sender_metadata``, since 0.15.2).

One reading for what is sent (docs/engine/assembly.md, "Messages") and for the header of a source text
(docs/engine/texts.md, "The block of a message").
"""

from __future__ import annotations

from typing import Final

from lcm_core.assemble.js import parsed_object
from lcm_core.javascript import BLANKS, JsonObject

#: What is sent and said of a sender, in this order.
_MEMBERS: Final = ("senderId", "senderName", "senderUsername")


def sender_of(recorded: str | None) -> JsonObject | None:
    """The members of a recorded sender that say something, unchanged; None without any.

    docs/engine/assembly.md, "Messages".
    """
    if not recorded:
        return None
    value = parsed_object(recorded)
    found = {
        name: said for name in _MEMBERS if isinstance(said := value.get(name), str) and said.strip(BLANKS)
    }
    return found or None
