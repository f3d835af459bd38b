"""A text in which every character that is not safe on a terminal gives way to a harmless one, and back."""

from __future__ import annotations

from typing import Final

from lcm_core.text import safe_text

#: What stands for a character that cannot be shown, when its own picture is taken: private use, one cell.
_POOL: Final = range(0xE000, 0xF8FF)
#: Characters at which an editor would break lines, and the tab, which it keeps.
KEPT: Final = frozenset("\n\t")
_ENDS: Final = frozenset("\x85\u2028\u2029")


def stand_ins(text: str) -> dict[int, str]:
    """For every character of *text* that is not safe to show (by code point) one that stands for it.

    None of those occurs in the text, and no two are alike, so they can be put back.
    """
    used = set(text)
    unsafe = sorted(one for one in used - KEPT if is_unsafe(one))
    free = (chr(code) for code in _POOL if chr(code) not in used)
    table: dict[int, str] = {}
    for one in unsafe:
        picture = chr(0x2400 + ord(one)) if ord(one) < 0x20 else "␡" if one == "\x7f" else ""
        if not picture or picture in used:
            picture = next(free)
        used.add(picture)
        table[ord(one)] = picture
    return table


def is_unsafe(one: str) -> bool:
    """Whether a terminal could take it for more than a character, or a text area for the end of a line."""
    if one.isascii():
        return not one.isprintable()
    blank = one.isspace() and one not in _ENDS
    return safe_text(f"a{one}") != f"a{one}" or not (one.isprintable() or blank)


def put_back(text: str, table: dict[int, str]) -> str:
    """The text with its own characters again."""
    return text.translate({ord(stand_in): code for code, stand_in in table.items()})
