"""How the engine writes elements and attributes around what it sends to the model.

Source: docs/engine/assembly.md, "The element of a summary".
"""

from __future__ import annotations

from datetime import tzinfo

from lcm_core.times import format_local, parse_utc


def time_attribute(name: str, stored: str | None, zone: tzinfo | None) -> str:
    """``name="YYYY-MM-DDTHH:MM:SS"`` in *zone*, which it does not name; empty for no readable time."""
    moment = parse_utc(stored)
    return f'{name}="{format_local(moment, zone).replace(" ", "T")}"' if moment else ""


def escaped(text: str) -> str:
    """*text* between the tags of an element; quotes stay (as recorded)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escaped_attribute(text: str) -> str:
    """*text* between the quotes of an attribute."""
    return escaped(text).replace('"', "&quot;")
