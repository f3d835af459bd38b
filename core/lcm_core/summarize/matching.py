"""Whether an identifier of one text is told in another (docs/retention.md, "Facts and inventions").

Keeping and knowing differ. A text keeps ``/srv/app/x.py`` when it names ``x.py``; it invents
``/tmp/x.py`` when its source names only ``/srv/app/x.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

from lcm_core.summarize.identifiers import (
    LONGEST_PATH,
    Identifier,
    Kind,
    folded,
    numbers_in,
    read_identifiers,
    written_numbers,
)
from lcm_core.summarize.quantities import Known, Quantity

_SHORTEST_HASH: Final = 7
#: What could be a path, or the name of a branch, whatever else it is.
_RUN: Final = re.compile(r"(?<![\w.@+%~#-])[\w.@+%~#-]*(?:[/\\]+[\w.@+%~#-]+)+")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_]+")
_NAME: Final = re.compile(r"[\w.#+-]+")
_URL_END: Final = re.compile(r"[/?#&]")
#: Folders of a path that are looked at from every place; longer ones only from both ends.
_MOST_FOLDERS: Final = 24
#: The default branch where it is named without the word branch.
_DEFAULT: Final = re.compile(
    r"(?<![\w./-])(main|master|develop|trunk|dev)(?![\w-])"
    r"(?=\s{0,2}(?:[.,;:)!?`'\"|]|\n|$|[^\x00-\x7f])|\s(?:is|was|has|got|and|or|branch|after|before|again)\b)"
)
_DEFAULTS: Final = frozenset({"main", "master", "develop", "trunk", "dev"})


class Index:
    """A text to look identifiers up in."""

    def __init__(self, text: str, found: Sequence[Identifier], numbers: Iterable[Quantity]) -> None:
        self._text = folded(text)
        self._keys = frozenset((one.kind, one.key) for one in found)
        self._known = Known(numbers)
        self._numbers = numbers_in(self._text)
        self._written = written_numbers(self._text)
        self._tokens = frozenset(_TOKEN.findall(self._text))
        self._hashes = sorted({one.key for one in found if one.kind is Kind.HASH})
        self._paths = frozenset(one.key for one in found if one.kind is Kind.PATH)
        self._ends = frozenset(end for path in self._paths for end in ends_of(path))
        self._by_kind = {
            kind: frozenset(one.key for one in found if one.kind is kind) for kind in (Kind.URL, Kind.BRANCH)
        }

    @staticmethod
    def of(text: str) -> Index:
        """Read a text."""
        return Index(text, *read_identifiers(text))

    def keeps(self, one: Identifier) -> bool:
        """Whether this text tells *one* of its source, be it in short."""
        if (one.kind, one.key) in self._keys:
            return True
        match one.kind:
            case Kind.TIME:
                return False
            case Kind.NUMBER:
                return self._has_number(one)
            case Kind.PATH:
                return one.key in self._ends or any(end in self._paths for end in ends_of(one.key))
            case Kind.HASH:
                return any(_begins(one.key, other) or _begins(other, one.key) for other in self._hashes)
            case _:
                return self._says(one.key)

    def knows(self, one: Identifier) -> bool:
        """Whether this text, a source, has what a draft of it names as *one*."""
        if (one.kind, one.key) in self._keys:
            return True
        match one.kind:
            case Kind.TIME:
                return self._knows_time(one.key)
            case Kind.NUMBER:
                return self._has_number(one)
            case Kind.PATH:
                return self._knows_path(one.key)
            case Kind.HASH:
                return any(_begins(other, one.key) for other in self._hashes) or self._says(one.text)
            case Kind.URL:
                return one.key in self._beginnings
            case Kind.BRANCH:
                return self._knows_branch(one.key)
            case Kind.VERSION:
                return self._knows_version(one)
            case Kind.FLAG:
                return self._says(one.key, whole=True)
            case _:
                return self._says(one.key)

    def _has_number(self, one: Identifier) -> bool:
        if one.quantity is None:
            return one.key in self._numbers
        if self._known.holds(one.quantity):
            return True
        plain = one.key.partition(" ")[0]
        return not one.quantity.unit and plain in self._numbers

    def _knows_time(self, key: str) -> bool:
        """A day without a year is known by any year."""
        return key.startswith("--") and any(
            kind is Kind.TIME and known.endswith(key[1:]) for kind, known in self._keys
        )

    def _knows_version(self, one: Identifier) -> bool:
        series = f"{one.key}."
        if one.key in self._written:
            return True
        return any(kind is Kind.VERSION and key.startswith(series) for kind, key in self._keys)

    def _knows_path(self, key: str) -> bool:
        """A run of the folders of a path of the source; or such a run below a folder that it names."""
        runs = self._path_runs
        if key in runs:
            return True
        parts = key.split("/")
        for at in range(1, len(parts)):
            above, below = "/".join(parts[:at]), "/".join(parts[at:])
            if above in self._whole and below in self._whole and below not in self._inner:
                return True
        return False

    def _knows_branch(self, name: str) -> bool:
        if name in self._by_kind[Kind.BRANCH]:
            return True
        if name in _DEFAULTS:
            return name in self._default_branches
        return name in self._path_runs or name in self._names

    def _says(self, key: str, *, whole: bool = False) -> bool:
        """Whether *key* is in the text and no part of a longer word; *whole*: nor of one with hyphens."""
        if not self._tokens.issuperset(_TOKEN.findall(key)) or key not in self._text:
            return False
        before, after = ("[A-Za-z0-9_-]", "[A-Za-z0-9_-]") if whole else ("[A-Za-z0-9_]", "[A-Za-z0-9_]")
        if key[:1].isdigit():
            before = r"[A-Za-z0-9_.]"
        if key[-1:].isdigit():
            after = r"[A-Za-z0-9_]|\.[0-9]"
        return re.search(rf"(?<!{before}){re.escape(key)}(?!{after})", self._text) is not None

    @cached_property
    def _path_runs(self) -> frozenset[str]:
        return frozenset(run for path in self._whole for run in _runs_of(path))

    @cached_property
    def _whole(self) -> frozenset[str]:
        """All that could be a path."""
        found = {
            re.sub(r"[/\\]+", "/", match[0]).rstrip("./").removeprefix("./")
            for match in _RUN.finditer(self._text)
        }
        return frozenset(found) | self._paths

    @cached_property
    def _default_branches(self) -> frozenset[str]:
        return frozenset(match[1] for match in _DEFAULT.finditer(self._text))

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(name.rstrip(".") for name in _NAME.findall(self._text))

    @cached_property
    def _inner(self) -> frozenset[str]:
        """Ends of longer paths: where they are is known."""
        whole = (path for path in self._whole if len(path) <= LONGEST_PATH)
        return frozenset(end for path in whole for end in ends_of(path)[1:])

    @cached_property
    def _beginnings(self) -> frozenset[str]:
        """The URLs, and what is left when they are cut at a sign that parts them."""
        return frozenset(begun for url in self._by_kind[Kind.URL] for begun in _cut(url))


def _cut(url: str) -> Iterator[str]:
    yield url
    for match in _URL_END.finditer(url, url.find("://") + 3):
        yield url[: match.start()]


def _runs_of(path: str) -> Iterator[str]:
    if len(path) > LONGEST_PATH:
        return
    parts = path.split("/")
    if len(parts) > _MOST_FOLDERS:
        yield from ("/".join(parts[:at]) for at in range(1, len(parts) + 1))
        yield from ("/".join(parts[at:]) for at in range(len(parts)))
        return
    for first in range(len(parts)):
        for last in range(first + 1, len(parts) + 1):
            yield "/".join(parts[first:last])


def ends_of(path: str) -> list[str]:
    """A path and what is left when folders are dropped from its front; a bare name counts."""
    parts = [part for part in path.split("/") if part not in ("", "~", ".", "..")]
    return ["/".join(parts[at:]) for at in range(len(parts))]


def _begins(longer: str, shorter: str) -> bool:
    return len(shorter) >= _SHORTEST_HASH and longer.startswith(shorter)
