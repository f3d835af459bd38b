"""Text of a chosen length, its JSON form and its token estimate, at the price of a slice.

A database of a gigabyte needs 300 MB of text. It is cut from a pool of paragraphs whose weights are known,
so that the stored token counts are the engine's estimates (docs/spec/tokens.md, "Estimators") without
counting anew.
"""

from __future__ import annotations

import json
import random
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

_PARAGRAPHS = 3_000
#: Code points that the engine counts as CJK; adjacent blocks are joined.
_WIDE = (
    (0x3000, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
    (0xAC00, 0xD7AF), (0xFF00, 0xFFEF), (0x20000, 0x2EBEF),
)  # fmt: skip
_QUARTERS_WIDE = 6  #: quarters of a token for a CJK code point
_QUARTERS_ASTRAL = 8  #: and for a code point above U+FFFF

_THINGS = (
    "the importer", "the billing queue", "the nightly export", "the session store", "the retry loop",
    "the metrics page", "the token bucket", "the mail worker", "the search index", "the upload endpoint",
    "the config loader", "the lease table",
)  # fmt: skip
_ACTS = (
    "drops the last row when", "holds its lock while", "times out as soon as", "reads a stale value after",
    "doubles its memory once", "logs nothing although", "runs twice whenever", "keeps a file open until",
)  # fmt: skip
_CAUSES = (
    "two workers start within the same second", "the clock steps back", "the page size is above {n}",
    "the cache holds {n} entries", "somebody restarts host-{n}", "the payload is larger than {n} kB",
    "the certificate is renewed", "step {n} of the migration is skipped",
)  # fmt: skip
_ASIDES = (
    "Measured on run {n}: {m} ms before, {n} ms after.",
    "We agreed to keep it for {n} days and then to look again.",
    "The owner is 田中さん; 迁移脚本在第 {n} 行。",
    "That is open question {n}; see notes/{m}.md for the numbers.",
    "Nothing else in the log around 0x{n:04x}.",
    "Please don't touch \"rules-{m}.yaml\" before that 🙏",
    "Tests {n} to {m} pass; the one for the naïve path is still slow.",
)  # fmt: skip
_LINES = (
    "2026-04-{d:02d}T{h:02d}:14:{m:02d}Z INFO  worker-{n} took {m} jobs in {n} ms",
    "2026-04-{d:02d}T{h:02d}:51:{m:02d}Z WARN  queue depth {n}, oldest {m} s",
    "    at handle (/srv/app/lib/step_{n}.js:{m}:17)",
    "src/part_{n}.py:{m}: in run_{d}",
    "-    limit = {n}",
    "+    limit = {m}  # was {n}",
    "drwxr-xr-x  {d} app  app  {n} Apr {d:02d} {h:02d}:{m:02d} cache-{n}",
    '{{"id": {n}, "ok": true, "ms": {m}, "path": "/v1/items/{n}"}}',
)  # fmt: skip


def quarters(text: str) -> int:
    """The weight of *text* in quarters of a token, as the engine counts since 0.8.

    Source: docs/spec/tokens.md, "Estimators".
    """
    total = 0
    for character in text:
        code = ord(character)
        if code < 0x3000:
            total += 1
        elif (
            0x3000 <= code <= 0x30FF
            or 0x3400 <= code <= 0x4DBF
            or 0x4E00 <= code <= 0x9FFF
            or 0xAC00 <= code <= 0xD7AF
            or 0xFF00 <= code <= 0xFFEF
            or 0x20000 <= code <= 0x2EBEF
        ):
            total += _QUARTERS_WIDE
        else:
            total += _QUARTERS_ASTRAL if code > 0xFFFF else 1
    return total


def tokens(weight: int) -> int:
    """Whole tokens of a *weight* in quarters."""
    return -(-weight // 4)


@dataclass(frozen=True, slots=True)
class Passage:
    """A text, the same inside the quotes of a JSON string, and the weights of both in quarters of a token."""

    text: str
    escaped: str
    weight: int
    escaped_weight: int


class Pool:
    """Paragraphs in a fixed order; a passage is a run of them."""

    def __init__(self, paragraphs: list[str]) -> None:
        self._plain = paragraphs
        self._escaped = [json.dumps(text, ensure_ascii=False)[1:-1] for text in paragraphs]
        self._length = list(accumulate((len(text) + 1 for text in paragraphs), initial=0))
        self._weight = list(accumulate((quarters(text) + 1 for text in paragraphs), initial=0))
        self._escaped_weight = list(accumulate((quarters(text) + 2 for text in self._escaped), initial=0))

    def passage(self, rng: random.Random, length: float) -> Passage:
        """A passage of about *length* characters, and of one paragraph at least."""
        length = min(length, self._length[-1] / 2)
        latest = bisect_left(self._length, self._length[-1] - length) - 1
        first = int(rng.random() * max(1, latest))
        last = max(first + 1, bisect_left(self._length, self._length[first] + length) - 1)
        return Passage(
            "\n".join(self._plain[first:last]),
            "\\n".join(self._escaped[first:last]),
            self._weight[last] - self._weight[first] - 1,
            self._escaped_weight[last] - self._escaped_weight[first] - 2,
        )


def prose(rng: random.Random) -> Pool:
    """Paragraphs as people and models write them, a few of them not in ASCII."""
    return Pool([_paragraph(rng) for _ in range(_PARAGRAPHS)])


def output(rng: random.Random) -> Pool:
    """Lines as tools print them."""
    return Pool([_numbered(rng, rng.choice(_LINES)) for _ in range(_PARAGRAPHS)])


def _numbered(rng: random.Random, template: str) -> str:
    return template.format(
        n=rng.randrange(2, 4000), m=rng.randrange(60), d=rng.randrange(1, 29), h=rng.randrange(24)
    )


def _paragraph(rng: random.Random) -> str:
    sentences = []
    for _ in range(rng.randrange(1, 4)):
        thing, cause = rng.choice(_THINGS), _numbered(rng, rng.choice(_CAUSES))
        sentences.append(f"{thing.capitalize()} {rng.choice(_ACTS)} {cause}.")
        if rng.random() < 0.3:
            sentences.append(_numbered(rng, rng.choice(_ASIDES)))
    return " ".join(sentences)
