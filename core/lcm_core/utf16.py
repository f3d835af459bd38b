"""Texts counted and cut by UTF-16 units, as the engine's language does."""

from __future__ import annotations


def units(text: str) -> int:
    """How long a text is for the engine."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut(text: str, length: int) -> str:
    """The first *length* units; half a pair may stand at its end."""
    if text.isascii():
        return text[:length]
    start = text[:length].encode("utf-16-le", "surrogatepass")
    return start[: length * 2].decode("utf-16-le", "surrogatepass")


def cut_end(text: str, length: int) -> str:
    """The last *length* units (more than none); half a pair may stand at its beginning."""
    if text.isascii():
        return text[-length:]
    end = text[-length:].encode("utf-16-le", "surrogatepass")
    return end[-length * 2 :].decode("utf-16-le", "surrogatepass")
