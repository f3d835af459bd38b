"""What a summary kept of its source, what it lost and what it invented; no model, no network, no I/O.

All of it is lexical: an identifier that is not in the text word for word counts as lost, one that is not in
the source as invented. That is an upper bound on what the text is worth (docs/retention.md): a kept number
may be told of the wrong thing, and a rule told in other words looks lost.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Final

from lcm_core.summarize.identifiers import Identifier, Kind, identifiers, read_identifiers
from lcm_core.summarize.language import HEADER, terms
from lcm_core.summarize.matching import Index, ends_of
from lcm_core.summarize.modality import RULES
from lcm_core.summarize.names import Named, invented_names, people_checked, read_names
from lcm_core.summarize.rulebook import Reversal, Rulebook, Sentence
from lcm_core.tokens import Estimator, estimate

#: The identifiers that the share is taken of: those named most often and last.
TOP: Final = 50
#: Words in a row that are no coincidence.
_SHINGLE: Final = 8

_FILES: Final = re.compile(
    r"^[^\w\n]{0,20}files?\b[^:\n]{0,40}:[ \t]*(?P<rest>.*(?:\n[ \t]*[-*•][^\n]*)*)", re.I | re.M
)
_NONE: Final = re.compile(r"[^\w\n]{0,20}(?:none|no files?\b.*|n/a|-)\W*", re.I)
_CLOSING: Final = re.compile(
    r"^[^\w\n]{0,20}expand for details\b[^:\n]{0,20}:?[ \t]*(?P<rest>.*)", re.I | re.M
)


@dataclass(frozen=True, slots=True)
class ClassCount:
    """Identifiers of one class: how many different ones."""

    kind: Kind
    in_source: int
    kept: int
    invented: int

    @property
    def lost(self) -> int:
        """How many of the source are not in the text."""
        return self.in_source - self.kept


@dataclass(frozen=True, slots=True)
class FileList:
    """The line that names the files."""

    stated: bool  #: there is such a line
    says_none: bool
    missing: tuple[Identifier, ...]  #: paths of the source that the line does not name, the worst first
    unknown: tuple[Identifier, ...]  #: paths in the line that the source does not name; places in the text


@dataclass(frozen=True, slots=True)
class TimeCoverage:
    """From when to when: by the headers of the source, and by what the text says."""

    source: tuple[datetime, datetime] | None  #: as written, without a zone
    text: tuple[datetime, datetime] | None

    @property
    def share(self) -> float | None:
        """How much of the source's time lies within what the text names; None when either names none."""
        if self.source is None or self.text is None:
            return None
        first, last = max(self.source[0], self.text[0]), min(self.source[1], self.text[1])
        if first > last:
            return 0.0
        whole = self.source[1] - self.source[0]
        return (last - first) / whole if whole else 1.0


@dataclass(frozen=True, slots=True)
class Retention:
    """A text against its source."""

    tokens: int
    source_tokens: int
    classes: tuple[ClassCount, ...]  #: those that either side has
    kept: tuple[Identifier, ...]  #: places in the source
    lost: tuple[Identifier, ...]  #: places in the source; the most frequent first, then the most recent
    invented: tuple[Identifier, ...]  #: places in the text
    share: float | None  #: of the weight of the `TOP` identifiers; None: the source has none
    constraints_lost: tuple[Sentence, ...]  #: rules that did not come through, the latest first
    constraints: int  #: rules in the source
    reversed: tuple[Reversal, ...]  #: rules told as their opposite; they are not among those lost
    files: FileList
    times: TimeCoverage
    people_checked: bool  #: whether names of people could be compared: capitals tell them
    closing: str | None  #: what can be expanded; None: the closing line is missing
    copied: float  #: share of the text that stands word for word in the source, in runs of eight words

    @property
    def constraints_kept(self) -> int:
        """Rules that came through."""
        counted = {one.rule.text for one in self.reversed if one.was in RULES}
        return self.constraints - len(self.constraints_lost) - len(counted)

    @property
    def compression(self) -> float | None:
        """How many tokens of the source one token of the text stands for; None for an empty text."""
        return self.source_tokens / self.tokens if self.tokens else None


@dataclass(frozen=True, slots=True)
class Source:
    """A source text, read once for any number of summaries of it."""

    text: str
    tokens: int
    estimator: Estimator
    identifiers: tuple[Identifier, ...]
    rulebook: Rulebook
    span: tuple[datetime, datetime] | None
    shingles: frozenset[int]
    names: Named
    _index: Index
    _before: Index | None  #: the previous context, which no summary invents


def read_source(text: str, *, previous: str = "", estimator: Estimator = Estimator.WEIGHTED) -> Source:
    """Find what there is to keep in a source text; *previous* is the previous context it was given with."""
    body = HEADER.sub(lambda header: "\x00" * len(header[0]), text)
    found, numbers = read_identifiers(body)
    headers = list(HEADER.finditer(text))
    moments = [moment for header in headers if (moment := _moment(header["first"]))]
    moments += [moment for header in headers if (moment := _moment(header["last"]))]
    return Source(
        text=text,
        tokens=estimate(text, estimator),
        estimator=estimator,
        identifiers=tuple(found),
        rulebook=Rulebook(text, previous),
        span=(min(moments), max(moments)) if moments else None,
        shingles=frozenset(_shingles(text)),
        names=read_names(
            f"{text}\n{previous}",
            frozenset(day for one in found if one.kind is Kind.TIME and (day := _day(one.key)))
            | {moment.date() for moment in moments},
        ),
        _index=Index(
            text,
            [*found, *identifiers("\n".join(dict.fromkeys(header[0] for header in headers)))],
            numbers,
        ),
        _before=Index.of(previous) if previous else None,
    )


def measure(source: Source, text: str) -> Retention:
    """What *text* kept, lost and invented of *source*."""
    found, numbers = read_identifiers(text)
    index = Index(text, found, numbers)
    kept = [one for one in source.identifiers if index.keeps(one)]
    there = {(one.kind, one.key) for one in kept}
    lost = [one for one in source.identifiers if (one.kind, one.key) not in there]
    invented = [one for one in found if not _is_known(one, source)]
    invented += invented_names(text, source.names, source.text)
    shingles = list(_shingles(text))
    rules = source.rulebook.compare(text)
    return Retention(
        tokens=estimate(text, source.estimator),
        source_tokens=source.tokens,
        classes=tuple(_counts(source.identifiers, kept, invented)),
        kept=tuple(kept),
        lost=tuple(sorted(lost, key=_worst_first)),
        invented=tuple(invented),
        share=_share(source, there),
        constraints_lost=rules.lost,
        constraints=len(source.rulebook.rules),
        reversed=rules.reversed,
        files=_file_list(source, text),
        times=TimeCoverage(source.span, _span_of(text, source.span)),
        people_checked=people_checked(text),
        closing=_closing(text),
        copied=sum(one in source.shingles for one in shingles) / len(shingles) if shingles else 0.0,
    )


def _is_known(one: Identifier, source: Source) -> bool:
    return source._index.knows(one) or (source._before is not None and source._before.knows(one))


def _counts(
    all_: Iterable[Identifier], kept: Iterable[Identifier], invented: Iterable[Identifier]
) -> Iterable[ClassCount]:
    there, here, new = (Counter(one.kind for one in group) for group in (all_, kept, invented))
    return (ClassCount(kind, there[kind], here[kind], new[kind]) for kind in Kind if there[kind] or new[kind])


def _worst_first(one: Identifier) -> tuple[int, int]:
    return -one.count, -one.places[-1][0]


def _share(source: Source, kept: set[tuple[Kind, str]]) -> float | None:
    """Of the weight of the identifiers that count most; what stands at the end weighs double."""
    size = max(len(source.text), 1)
    weighed = sorted(
        ((one.count * (1 + one.places[-1][0] / size), (one.kind, one.key)) for one in source.identifiers),
        reverse=True,
    )[:TOP]
    whole = sum(weight for weight, _ in weighed)
    return sum(weight for weight, key in weighed if key in kept) / whole if whole else None


def _file_list(source: Source, text: str) -> FileList:
    lines = list(_FILES.finditer(text))
    listed: list[Identifier] = []
    for line in lines:
        # Blanked before it, so that places are places in the text.
        blanked = "\x00" * line.start("rest") + text[line.start("rest") : line.end("rest")]
        listed += [one for one in identifiers(blanked) if one.kind is Kind.PATH]
    named = frozenset(end for one in listed for end in ends_of(one.key))
    paths = [one for one in source.identifiers if one.kind is Kind.PATH]
    return FileList(
        stated=bool(lines),
        says_none=bool(lines) and all(_NONE.fullmatch(line["rest"]) for line in lines),
        missing=tuple(sorted((one for one in paths if named.isdisjoint(ends_of(one.key))), key=_worst_first)),
        unknown=tuple(one for one in listed if not _is_known(one, source)),
    )


def _closing(text: str) -> str | None:
    """The last closing line; what stands long before the end is quoted."""
    lines = list(_CLOSING.finditer(text))
    return lines[-1]["rest"].strip() if lines and len(text) - lines[-1].end() < 200 else None


def _moment(stamp: str | None) -> datetime | None:
    """The time at the beginning of a header, without its zone: all headers of a source have the same."""
    try:
        return datetime.fromisoformat(stamp[:16].rstrip()) if stamp else None
    except ValueError:
        return None


def _day(key: str) -> date | None:
    try:
        return date.fromisoformat(key)
    except ValueError:
        return None


def _moments(text: str, only_day: datetime | None) -> list[datetime]:
    """The times that *text* names, in order; a clock belongs to the date before it, or to *only_day*."""
    times = sorted(
        (place, one.key) for one in identifiers(text) if one.kind is Kind.TIME for place in one.places
    )
    day = only_day
    found: list[datetime] = []
    for at, (_, key) in enumerate(times):
        if ":" not in key:
            try:
                day = datetime.fromisoformat(key)
            except ValueError:  # 30 February
                continue
            if at + 1 == len(times) or ":" not in times[at + 1][1]:
                found += [day, day + timedelta(days=1, minutes=-1)]
        elif day is not None:
            hour, minute = map(int, key.split(":"))
            found.append(day.replace(hour=hour, minute=minute))
    return found


def _span_of(text: str, source: tuple[datetime, datetime] | None) -> tuple[datetime, datetime] | None:
    one_day = source is not None and source[0].date() == source[1].date()
    day = source[0].replace(hour=0, minute=0) if source is not None and one_day else None
    moments = _moments(text, day)
    return (min(moments), max(moments)) if moments else None


def _shingles(text: str) -> Iterable[int]:
    """Runs of words, or of characters where words are not separated, as numbers."""
    words = terms(text)
    return (hash(tuple(words[at : at + _SHINGLE])) for at in range(len(words) - _SHINGLE + 1))
