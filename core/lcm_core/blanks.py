"""What the engine's language takes for blank (docs/engine/words.md); apart for the first screen's sake."""

from collections.abc import Container
from typing import Final

#: What counts as blank there: `trim` takes these off, and ``\\s`` of its patterns means them. All of them are
#: single characters that may be used in a class of a pattern.
BLANKS: Final = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)


def as_typed(key: str, known: Container[str | None]) -> str:
    """A key that somebody typed: with the blanks around it where one of those that are *known* has them."""
    return key if key in known else key.strip(BLANKS)
