"""Members of the documents in files of drafts: of the type that is expected, or the document is damaged."""

from __future__ import annotations

from collections.abc import Mapping

from lcm_core.javascript import Json, JsonObject


class DamagedError(Exception):
    """A document that is not what it should be: the name of what is wrong."""


def text_member(document: Mapping[str, Json], key: str) -> str:
    """A text of a document. Raises DamagedError where there is none."""
    value = document.get(key)
    if not isinstance(value, str):
        raise DamagedError(key)
    return value


def number_member(document: Mapping[str, Json], key: str) -> int:
    """A whole number of a document. Raises DamagedError where there is none."""
    value = document.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise DamagedError(key)
    return value


def texts_member(document: Mapping[str, Json], key: str) -> list[str]:
    """The texts in a list of a document. Raises DamagedError where there is no list."""
    return [one for one in _list(document, key) if isinstance(one, str)]


def objects_member(document: Mapping[str, Json], key: str) -> list[JsonObject]:
    """A list of objects. Raises DamagedError where there is none, or it holds anything else."""
    found = _list(document, key)
    objects: list[JsonObject] = [one for one in found if isinstance(one, dict)]
    if len(objects) < len(found):
        raise DamagedError(key)
    return objects


def _list(document: Mapping[str, Json], key: str) -> list[Json]:
    value = document.get(key)
    if not isinstance(value, list):
        raise DamagedError(key)
    return value
