"""What a text names: identifiers, and the people and weekdays that a draft names but its source does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from enum import StrEnum
from typing import Final

from lcm_core.base.text import late_pattern
from lcm_core.base.values import Record
from lcm_core.writers.quantities import (
    Quantity,
    Span,
    quantities,
    sentences,
    unit_behind,
    unit_of,
    word_table,
)

# -- identifiers -----------------------------------------------------------------------------------------
# What is either copied exactly or wrong, and can be found without a model.
#
# What one class took, the next do not see. Patterns rely on ASCII word boundaries, so that an identifier is
# found in the middle of Chinese or Hebrew; digits of other scripts and full-width forms are read as ASCII,
# character by character, so that places stay places in the text.


class IdentifierKind(StrEnum):
    """The class of an identifier."""

    URL = "URL"
    PATH = "path"
    BRANCH = "branch"
    TIME = "time"
    ID = "id"
    HASH = "hash"
    VERSION = "version"
    FLAG = "flag"
    VARIABLE = "variable"
    NUMBER = "number"
    NAME = "name"
    PERSON = "person"  #: only where a draft names one that its source does not
    WEEKDAY = "weekday"  #: only so too


class Identifier(Record, frozen=True):
    """One identifier of a text and where it is."""

    kind: IdentifierKind
    key: str  #: the same for two ways to write it
    text: str  #: as it is written first
    places: tuple[Span, ...]
    quantity: Quantity | None = None  #: of a number

    @property
    def count(self) -> int:
        """How often it is in the text."""
        return len(self.places)


_ZEROS: Final = (
    *(0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66),
    *(0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x17E0),
)
#: Every character to one ASCII character that means the same here.
_FOLDED: Final = {
    **{chr(zero + digit): str(digit) for zero in _ZEROS for digit in range(10)},
    **{chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)},
    "\u066a": "%",
    "\u066b": ".",
    "\u066c": ",",
    "\u2010": "-",
    "\u2011": "-",
    "\u2212": "-",
    "\u2044": "/",
}
_FOLDABLE: Final = re.compile(f"[{''.join(_FOLDED)}]+")
#: A full-width comma parts the thousands of full-width digits only, such a colon hours and minutes only.
_LISTING: Final = re.compile("(?<![０-９])，|，(?![０-９])|(?<![0-9０-９])：|：(?![0-9０-９])")
_TAKEN: Final = "\x00"

_URL: Final = re.compile(r"(?i:(?<![a-z0-9])(?:[a-z][a-z0-9+.-]{1,9}://|www\.))[!#-&(-;=?-Z_a-z~]+")
_SEGMENT: Final = r"[\w.@+%~-]"
_PATH: Final = re.compile(
    rf"(?<![A-Za-z0-9_/\\<])(?:[A-Za-z]:\\{{1,2}}|\\\\)(?:[\w.@+~$-]{{1,80}}\\{{1,2}}){{0,40}}[\w.@+~-]+"
    rf"|(?<![A-Za-z0-9_/\\<.-])(?:[\w.@+~-]{{1,80}}\\){{1,40}}[\w@+~-]{{1,80}}\.[A-Za-z0-9]{{1,8}}(?![A-Za-z0-9_\\])|(?<![\w.@+%~:/-]){_SEGMENT}*(?:/{_SEGMENT}+)+/?"
)
_EXTENSIONS: Final = (
    "py|pyi|ipynb|js|mjs|cjs|jsx|ts|tsx|vue|go|rs|rb|java|kt|swift|c|h|cc|cpp|hpp|cs|php|lua|pl|r|jl|ex|sh"
    "|bash|zsh|ps1|bat|sql|html|htm|css|scss|json|jsonl|json5|yaml|yml|toml|ini|cfg|conf|env|xml|csv|tsv|md"
    "|mdx|rst|txt|log|pdf|png|jpe?g|gif|svg|webp|mp[34]|wav|zip|tar|t?gz|xz|bz2|db|sqlite3?|lock|j2|tmpl"
    "|proto|tf|docx?|xlsx?|pptx?|pem|key"
)
_BARE_FILE: Final = re.compile(
    rf"(?<![\w/.@-])\w[\w-]*(?:\.[\w-]+)*?\.(?:{_EXTENSIONS})(?!\w|\.\w)", re.ASCII
)
#: What is longer is no path of a file system, and would take long to compare.
LONGEST_PATH: Final = 400
_EXTENSION: Final = re.compile(r"\.(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{1,8}")
_FOLDER_NAMES: Final = """
src lib tests test docs doc app apps core bin etc packages scripts config public internal cmd pkg
"""
_FOLDERS: Final = frozenset(_FOLDER_NAMES.split())
_LINE: Final = re.compile(r":[0-9]+(?::[0-9]+)?$")


#: Scripts that are written without a space beside other words.
_unspaced: Final = late_pattern("[\u0590-\u06ff\u3040-\u9fff\uac00-\ud7af]")


_BRANCH_NAME: Final = "[A-Za-z0-9][A-Za-z0-9_./+#\u0400-\u04ff\u0590-\u05ff-]*"
_BRANCH_WORD: Final = (
    r"(?:(?:[Bb]ranch(?:es|e)?|Zweig|[Rr]ama|ramo|ветк[а-я]{0,3}|ה?ענף|(?:ال)?فرع)(?!\w)"
    r"|分支|ブランチ|브랜치(?:에서|를|로)?)"
)
#: What is a branch by its name: the folders that branches are kept in.
_BRANCH_PREFIX: Final = (
    "(?:feature|feat|fix|bugfix|hotfix|release|chore|refactor|perf|wip|dependabot|renovate|topic|spike)"
)


_branch: Final = late_pattern(
    rf"(?<![\w./@:-])(?:(?:origin|upstream|refs/heads)/(?P<remote>{_BRANCH_NAME})"
    rf"|(?P<prefixed>{_BRANCH_PREFIX}/{_BRANCH_NAME}))",
    re.ASCII,
)


_branch_said: Final = late_pattern(
    rf"{_BRANCH_WORD}\s{{0,2}}(?:(?:named|called|namens|nommée)\s)?[:「“\"'`]{{0,2}}(?P<name>{_BRANCH_NAME})"
    rf"|\bgit\s(?:checkout|switch|merge|rebase|branch|pull|push|cherry-pick)(?:\s-[-\w]+)*(?:\s(?:origin|upstream))?"
    rf"\s(?P<git>{_BRANCH_NAME})",
)


_BRANCH_AFTER: Final = re.compile(
    rf"(?<![A-Za-z0-9_./@-])(?P<name>{_BRANCH_NAME})[」”\"'`]?[\s-]?(?:[Bb]ranch\b|분기|分支|ブランチ|브랜치|[Bb]ranche\b)"
)
_DEFAULT_BRANCHES: Final = frozenset({"main", "master", "develop", "trunk", "dev"})


_on_default: Final = late_pattern(
    r"(?:(?:\b(?:into|onto|to|on|from|off|against|auf|nach|von|sur|vers|dans|en|para|na|в|на|из)\s)|[到へに를在])"
    r"[`'\"]?(?P<name>main|master|develop|trunk|dev)(?![\w/-])"
    r"(?=\s{0,2}(?:[.,;:)!?`'\"]|\n|$|[^\x00-\x7f])|\s(?:and|but|or|after|before|with|when|until|und|et|y|e|и)\b)",
    re.IGNORECASE,
)


_THOUSANDS: Final = re.compile(r"\d{1,3}(?:\.\d{3})+")
_NAMED_VERSION: Final = re.compile(
    r"(?:\b(?:[A-Z][A-Za-z+#]*|[Vv]ersion|[Rr]elease|versión|versão|версия|версии|версию)|版本|バージョン|버전|גרסה|الإصدار|إصدار)"
    r"\s?(?P<version>\d{1,3}\.\d{1,4})(?![\w%]|\.\d)(?P<unit>\s?[^\W\d_]+|\s?%)?"
)
_DATE: Final = re.compile(
    r"(?<![\d.-])(?P<y>[12]\d{3})(?:[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})(?!\d)"
    r"|\s?[年년]\s?(?P<m2>\d{1,2})\s?[月월]\s?(?P<d2>\d{1,2})\s?[日일])",
    re.ASCII,
)
_CLOCK: Final = re.compile(
    r"(?<![\d:.])(?P<h>[01]?\d|2[0-3]):(?P<min>[0-5]\d)(?::[0-5]\d(?:\.\d+)?)?(?![\d:])"
    r"(?:\s?(?P<half>[ap]\.?m\b\.?))?",
    re.ASCII | re.IGNORECASE,
)
#: 02.03.2026, 2/3/2026: the day first, where that can be.
_EUROPEAN: Final = re.compile(
    r"(?<![\d./-])(?P<d>\d{1,2})([./])(?P<m>\d{1,2})\2(?P<y>[12]\d{3})(?![\d./-]\d)"
)
_MONTH_TABLE: Final = """
jan janu ja янв янва ene enero gen
feb febr fév févr fev февр фев
mar marc mär märz mars marz мар март
apr apri avr avri abr abri апр апре
may mai mayo maio mag magg мая май
jun june juni juin giu giug июн июня
jul july juli juil lug lugl июл июля
aug augu août aoû ago agos авг авгу
sep sept set sett сен сент
oct octo okt okto out outu ott окт октя
nov nove ноя нояб
dec dece dez deze déc déce dic dici дек дека
"""
_MONTHS: Final = {
    word[:4]: number
    for number, line in enumerate(_MONTH_TABLE.strip().splitlines(), 1)
    for word in line.split()
}
_MONTH: Final = (
    r"(?:jan(?:uary|uar|vier)?|janv|janeiro|gennaio|enero|feb(?:ruary|ruar|rero|braio)?|février|fevereiro"
    r"|mar(?:ch|s|zo|ço)?|märz|apr(?:il|ile)?|avril|abril|may|mai|mayo|maio|maggio|june?|juni|juin|junio|junho|giugno"
    r"|july?|juli|juillet|julio|julho|luglio|aug(?:ust)?|août|agosto|sept?(?:ember|iembre|embre)?|setembro|settembre"
    r"|oct(?:ober|obre|ubre)?|okt(?:ober)?|outubro|ottobre|nov(?:ember|embre|iembre|embro)?"
    r"|dec(?:ember)?|dez(?:ember|embro)?|décembre|diciembre|dicembre"
    r"|января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря)"
)


_in_words: Final = late_pattern(
    rf"(?<![\w.])(?:(?P<day>\d{{1,2}})(?:st|nd|rd|th|\.|º)?\s(?:de\s|of\s)?(?P<month>{_MONTH})(?!\w)"
    rf"(?:(?:,?\s|\sde\s)(?P<year>[12]\d{{3}})(?!\d))?"
    rf"|(?P<before>{_MONTH})\.?\s(?P<after>\d{{1,2}})(?:st|nd|rd|th)?(?!\d|[.:]\d)(?:,?\s(?P<year2>[12]\d{{3}})(?!\d))?)",
    re.IGNORECASE,
)


#: The letter that ties a clock to a date in an ISO stamp.
_STAMP: Final = re.compile(r"(?<=\x00)T(?=[0-9]{2}:)")


_known_ids: Final = late_pattern(
    r"(?i:(?<![0-9a-z-])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-z-]))"  # UUID
    r"|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # mail
    r"|(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d{2,5})?(?![\w.]\d)"  # IPv4
    r"|(?<![\w.-])(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+):\d{2,5}(?!\w)"  # host and port
    r"|(?<![\w.-])(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|ai|app|local|internal|example)(?![\w-])"
    # sum_0123456789abcdef
    r"|(?<![\w/.-])[A-Za-z]{2,12}[_-](?=[A-Za-z0-9]*\d[A-Za-z0-9]*\d)[A-Za-z0-9]{6,}(?![\w-])"
    r"|(?<![\w-])[A-Z][A-Z0-9]{1,9}-\d{1,7}(?![\w-])"  # OPS-1423
    r"|(?<![\w&])#\d{1,7}(?!\w)"
    r"|(?<![\w.,:-])\d{6,}(?![\w]|[.,:]\d)",
    re.ASCII,
)


_ID_LIKE: Final = re.compile(r"(?<![^\s\x00])[^\s\x00.@0-9]*[.@0-9][^\s\x00]*")
_HASH: Final = re.compile(r"(?i:(?<![0-9a-z_-])(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,64}(?![0-9a-z_-]))")
_VERSION: Final = re.compile(
    r"(?<![\w.,-])(?:[vV]\d+(?:\.\d+)*|\d+\.\d+\.\d+)(?:\.\d+)*"
    r"(?:[-+]?(?:alpha|beta|rc|dev|pre|post|b|a)[.-]?\d*)?(?!\w|\.\d)",
    re.ASCII,
)
_FLAG: Final = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*\w", re.ASCII)
_VARIABLE: Final = re.compile(r"(?<!\w)[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?!\w)", re.ASCII)
_ANY_NUMBER: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?", re.ASCII)
_QUOTED: Final = re.compile(r"`([^`\n]{1,200})`")
_NAME: Final = re.compile(
    r"(?<![\w.$])(?:"
    r"[A-Za-z_]\w*(?:(?:\.|::)[A-Za-z_]\w+)+(?:\(\))?"  # module.function
    r"|[A-Za-z_]\w+\(\)"
    r"|_*[a-z][a-z0-9]*(?:_[a-z0-9]+)+"  # snake_case
    r"|[a-z][a-z0-9]*(?:[A-Z][a-z0-9]+)+[A-Z]?"  # camelCase
    r"|(?:[A-Z][a-z0-9]+){2,}[A-Z]?"  # PascalCase
    r")(?![\w])",
    re.ASCII,
)


def folded(text: str) -> str:
    """*text* with digits and forms of other scripts as ASCII; as long as *text*."""
    if text.isascii():
        return text
    text = _LISTING.sub(";", text)
    return _FOLDABLE.sub(lambda run: "".join(map(_FOLDED.__getitem__, run[0])), text)


def numbers_in(text: str) -> frozenset[str]:
    """All numbers of a folded text, whatever they count."""
    return frozenset(map(_value, _ANY_NUMBER.findall(text)))


def written_numbers(text: str) -> frozenset[str]:
    """The same as they are written: 3.10 is not 3.1 where it is a version."""
    return frozenset(_ANY_NUMBER.findall(text))


def identifiers(text: str) -> list[Identifier]:
    """The identifiers of *text* in the order in which they are first found, class by class."""
    return read_identifiers(text)[0]


def read_identifiers(text: str) -> tuple[list[Identifier], list[Quantity]]:
    """The identifiers of *text*, and all of its numbers, also those that are no identifiers."""
    finder = _IdentifierFinder(folded(text), text)
    for take in _TAKERS:
        take(finder)
    found = [
        Identifier(kind, key, text[places[0][0] : places[0][1]], tuple(places), finder.numbers.get(key))
        if kind is IdentifierKind.NUMBER
        else Identifier(kind, key, text[places[0][0] : places[0][1]], tuple(places))
        for (kind, key), places in finder.found.items()
    ]
    return found, finder.quantities


class _IdentifierFinder:
    """A text of which parts are taken one class after the other."""

    def __init__(self, rest: str, text: str) -> None:
        self.rest = rest
        self.text = text
        self.found: dict[tuple[IdentifierKind, str], list[Span]] = {}
        self.quantities: list[Quantity] = []
        self.numbers: dict[str, Quantity] = {}

    def add(
        self, kind: IdentifierKind, key: str, start: int, end: int, quantity: Quantity | None = None
    ) -> None:
        """Note an identifier."""
        if quantity is not None:
            self.numbers.setdefault(key, quantity)
        self.found.setdefault((kind, key), []).append((start, end))

    def take(self, pattern: re.Pattern[str], judge: Callable[[re.Match[str]], Span | None]) -> None:
        """Let *judge* note what *pattern* finds; the characters that it claims are gone for later kinds."""
        self.blank(span for match in pattern.finditer(self.rest) if (span := judge(match)) is not None)

    def blank(self, spans: Iterable[Span]) -> None:
        """Take characters away from later kinds. *spans* are in order; one that overlaps the last is left."""
        pieces: list[str] = []
        at = 0
        for start, end in spans:
            if start >= at:
                pieces += (self.rest[at:start], _TAKEN * (end - start))
                at = end
        if at:
            self.rest = "".join((*pieces, self.rest[at:]))

    def take_as(self, kind: IdentifierKind, pattern: re.Pattern[str], key_of: Callable[[str], str]) -> None:
        """Note all that *pattern* finds as *kind*."""

        def judge(match: re.Match[str]) -> Span:
            self.add(kind, key_of(match[0]), *match.span())
            return match.span()

        self.take(pattern, judge)


def _urls(finder: _IdentifierFinder) -> None:
    def judge(match: re.Match[str]) -> Span | None:
        address = match[0].rstrip(".,;:!?'*")
        while address.endswith(")") and address.count("(") < address.count(")"):
            address = address[:-1].rstrip(".,;:!?'*")
        if len(address) < 8:
            return None
        finder.add(IdentifierKind.URL, address.rstrip("/"), match.start(), match.start() + len(address))
        return match.start(), match.start() + len(address)

    finder.take(_URL, judge)


def _times(finder: _IdentifierFinder) -> None:
    def note(match: re.Match[str], year: str, month: int, day: int) -> Span | None:
        if not (1 <= month <= 12 and 1 <= day <= 31):
            return None
        finder.add(IdentifierKind.TIME, f"{year}-{month:02}-{day:02}", *match.span())
        return match.span()

    def date(match: re.Match[str]) -> Span | None:
        return note(match, match["y"], int(match["m"] or match["m2"]), int(match["d"] or match["d2"]))

    def clock(match: re.Match[str]) -> Span:
        hour = int(match["h"])
        if match["half"] and 1 <= hour <= 12:
            hour = hour % 12 + 12 * (match["half"][0].lower() == "p")
        finder.add(IdentifierKind.TIME, f"{hour:02}:{match['min']}", *match.span())
        return match.span()

    def european(match: re.Match[str]) -> Span | None:
        day, month = int(match["d"]), int(match["m"])
        return note(match, match["y"], month, day) or note(match, match["y"], day, month)

    def in_words(match: re.Match[str]) -> Span | None:
        month = _MONTHS[(match["month"] or match["before"]).lower()[:4].rstrip(".")]
        year = match["year"] or match["year2"] or "-"
        return note(match, year, month, int(match["day"] or match["after"]))

    finder.take(_DATE, date)
    finder.take(_EUROPEAN, european)
    finder.take(_in_words(), in_words)
    finder.rest = _STAMP.sub(_TAKEN, finder.rest)
    finder.take(_CLOCK, clock)


def _branches(finder: _IdentifierFinder) -> None:
    def named(match: re.Match[str]) -> Span | None:
        group = next(name for name, text in match.groupdict().items() if text)
        name = match[group].rstrip(".,;:/")
        odd = re.search(r"[-/_#\d]", name) is not None
        quoted = match.string[match.start(group) - 1 : match.start(group)] in ("`", "'", '"', "「", "“")
        wanted = (
            name in _DEFAULT_BRANCHES
            or group in ("remote", "prefixed")
            or odd
            or (quoted and group == "name")
        )
        if group == "git":
            wanted = name != "HEAD" and "." not in name
        file = _EXTENSION.search(name.rpartition("/")[2]) is not None
        if not wanted or (file and not name.startswith("release/")):
            return None
        start = match.start(group)
        finder.add(IdentifierKind.BRANCH, name, start, start + len(name))
        return start, start + len(name)

    for pattern in (_branch(), _branch_said(), _BRANCH_AFTER, _on_default()):
        finder.take(pattern, named)


def _paths(finder: _IdentifierFinder) -> None:
    def judge(match: re.Match[str]) -> Span | None:
        start, end = _trimmed(match[0])
        path = match[0][start:end]
        if len(path) > LONGEST_PATH or not _is_path(path):
            return None
        start, end = match.start() + start, match.start() + end
        finder.add(IdentifierKind.PATH, path_key(path), start, end)
        return start, end

    finder.take(_PATH, judge)
    finder.take_as(IdentifierKind.PATH, _BARE_FILE, path_key)


def _trimmed(raw: str) -> Span:
    """The path in what looks like one: prose of scripts without spaces sticks to either end."""
    start, end = 0, len(raw.rstrip(".,;:=+"))
    if not raw.isascii():
        first = re.split(r"[/\\]", raw, maxsplit=1)[0]
        stuck = re.match(r".*[^\x00-\x7f](?=[!-~]|$)", first)
        if stuck and _unspaced().search(first):
            start = stuck.end()
        tail = re.search(r"(?<=[^/])\.[A-Za-z0-9]{1,8}(?=[^\x00-\x7f/])", raw)
        if tail:
            end = min(end, tail.end())
        else:
            last = raw.rfind("/", 0, end) + 1
            mixed = re.match(r"[!-~]+(?=[^\x00-\x7f])", raw[last:end])
            if mixed:
                end = last + mixed.end()
    return start, max(start, end)


def _is_path(path: str) -> bool:
    if "\\" in path:
        return True
    first, *rest = path.rstrip("/").split("/")
    if not rest or not all(rest) or not any(map(str.isalpha, path)):
        return False
    extension = _EXTENSION.search(rest[-1]) is not None and not rest[-1].startswith("-")
    if first in ("", "~", ".", ".."):
        return extension or len(rest) > 1 or first != ""
    return extension or path.endswith("/") or first in _FOLDERS


def path_key(path: str) -> str:
    """A path without what its writers leave out or add: line numbers, ``./``, a final slash."""
    plain = re.sub(r"\\+", "/", _LINE.sub("", path)) if "\\" in path else _LINE.sub("", path)
    return plain.rstrip("/").removeprefix("./")


def _ids(finder: _IdentifierFinder) -> None:
    """Only words with a digit, a dot or an @ in them are worth the many forms of an id."""

    def found() -> Iterator[Span]:
        for word in _ID_LIKE.finditer(finder.rest):
            for match in _known_ids().finditer(finder.rest, word.start(), word.end()):
                if not (match[0].isdigit() and unit_behind(finder.rest, match.end())):  # else a number
                    finder.add(IdentifierKind.ID, match[0], *match.span())
                    yield match.span()

    finder.blank(found())


def _versions(finder: _IdentifierFinder) -> None:
    def judge(match: re.Match[str]) -> Span | None:
        if _THOUSANDS.fullmatch(match[0]):
            return None
        finder.add(IdentifierKind.VERSION, match[0].lower().removeprefix("v"), *match.span())
        return match.span()

    finder.take(_VERSION, judge)


def _named_versions(finder: _IdentifierFinder) -> None:
    """Python 3.10 is no 3.1; what has a unit is a number."""

    def judge(match: re.Match[str]) -> Span | None:
        if match["unit"] and unit_of(match["unit"].strip()) is not None:
            return None
        finder.add(IdentifierKind.VERSION, match["version"], *match.span("version"))
        return match.span("version")

    finder.take(_NAMED_VERSION, judge)


def _numbers(finder: _IdentifierFinder) -> None:
    """Numbers with a unit, and those of three digits or a fraction without one."""

    def found() -> Iterator[Span]:
        for one in finder.quantities:
            digits = finder.rest[slice(*one.place)]
            if one.unit or not digits.isdigit() or len(digits) >= 3:
                finder.add(IdentifierKind.NUMBER, one.key, *one.place, one)
                yield one.place

    finder.quantities = quantities(finder.rest)
    finder.blank(found())


def _value(written: str) -> str:
    plain = written.replace(",", "")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain.lstrip("0") or "0"


def _names(finder: _IdentifierFinder) -> None:
    def quoted(match: re.Match[str]) -> Span | None:
        name = " ".join(match[1].split())
        if _TAKEN in name or not 2 <= len(name) <= 80 or not any(map(str.isalpha, name)):
            return None
        finder.add(IdentifierKind.NAME, name.removesuffix("()"), *match.span(1))
        return match.span()

    def plain(match: re.Match[str]) -> Span | None:
        if match[0].lower() in {"e.g", "i.e"}:
            return None
        finder.add(IdentifierKind.NAME, match[0].removesuffix("()"), *match.span())
        return match.span()

    finder.take(_QUOTED, quoted)
    finder.take(_NAME, plain)


def _plain(text: str) -> str:
    return text


_TAKERS: Final[tuple[Callable[[_IdentifierFinder], None], ...]] = (
    _urls,
    _times,
    _branches,
    _paths,
    _ids,
    lambda finder: finder.take_as(IdentifierKind.HASH, _HASH, str.lower),
    _versions,
    _named_versions,
    lambda finder: finder.take_as(IdentifierKind.FLAG, _FLAG, _plain),
    lambda finder: finder.take_as(IdentifierKind.VARIABLE, _VARIABLE, _plain),
    _numbers,
    _names,
)


# -- people and weekdays ---------------------------------------------------------------------------------
# Those that a draft names and its source does not (docs/spec/retention.md, "People and weekdays").
#
# Weekdays are words that can be listed. People are seen by their capital letter, so only where the script
# has capitals and the language keeps them for names: not in German, and not in scripts without them.

# Tables: a line is a day, however wide its characters are.
# ruff: noqa: E501


_WEEKDAY_TABLE: Final = """
monday mondays montag montags montage lundi lundis lunes segunda-feira lunedì понедельник* שני الاثنين الإثنين اثنين
tuesday tuesdays dienstag dienstags mardi mardis martes terça-feira martedì вторник* שלישי الثلاثاء ثلاثاء
wednesday wednesdays mittwoch mittwochs mercredi miércoles quarta-feira mercoledì сред* רביעי الأربعاء الاربعاء
thursday thursdays donnerstag donnerstags jeudi jeudis jueves quinta-feira giovedì четверг* חמישי الخميس خميس
friday fridays freitag freitags vendredi vendredis viernes sexta-feira venerdì пятниц* שישי الجمعة جمعة
saturday saturdays samstag samstags sonnabend samedi samedis sábado sábados sabato суббот* שבת السبت سبت
sunday sundays sonntag sonntags dimanche dimanches domingo domingos domenica воскресень* ראשון الأحد الاحد
"""
_DENSE_DAYS: Final = re.compile(
    "(?:星期|礼拜|禮拜|周|週)(?P<chinese>[一二三四五六日天])(?![年月个個])|(?P<japanese>[月火水木金土日])曜日?|(?P<korean>[월화수목금토일])요일"
)
_HEBREW_DAY: Final = re.compile(
    r"(?:יום|ביום|ימי|בימי)\s+(?P<day>שני|שלישי|רביעי|חמישי|שישי|שבת|ראשון)|(?<!\w)(?P<sabbath>שבת)(?!\w)"
)
_ARABIC_DAY: Final = re.compile(
    r"(?<!\w)(?:[وبل]?(?:يوم|أيام)\s+)(?P<day>ال\w+|اثنين|ثلاثاء|خميس|جمعة|سبت)|(?<!\w)[وبل]?(?P<plain>الجمعة|السبت|الخميس|الثلاثاء|الأربعاء|الاثنين|الإثنين|الأحد|الاحد)(?!\w)"
)
_NAMES: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_WORD: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*(?:'s|’s)?")
_LETTERS: Final = {
    **{sign: at for at, sign in enumerate("一二三四五六日")},
    "天": 6,
    **{sign: at for at, sign in enumerate("月火水木金土日")},
    **{sign: at for at, sign in enumerate("월화수목금토일")},
}


_WHOLE, _BEGUN = word_table(enumerate(_WEEKDAY_TABLE.strip().splitlines()))
_SEMITIC: Final = re.compile("[\u0590-\u06ff]")
_RUSSIAN_FORMS: Final = re.compile("(?:а|у|ы|е|ой|ам|ах|ами|и|ю|я|ем|ям|ях)?")

_CASED: Final = re.compile(r"[A-ZÀ-ÖØ-Þ\u0410-\u042f\u0401]")
_NAMES_NAME: Final = re.compile(
    r"(?<![\w./@#:$-])(?:[A-ZÀ-ÖØ-Þ][a-zà-öø-ÿ]+|[\u0410-\u042f\u0401][\u0430-\u044f\u0451]+)"
    r"(?:-[A-Z][a-z]+)?(?![\w@/-]|\.\w|::|\()"
)
_GERMAN: Final = frozenset(
    "der die das und ist nicht ein eine den dem des mit auf für von zu im wird werden wurde hat sind auch".split()  # noqa: SIM905
)
_NAMES_MONTHS: Final = frozenset(
    """
    January February March April May June July August September October November December Jan Feb Mar Apr Jun Jul
    Aug Sep Sept Oct Nov Dec I None Files Expand Markdown English Chinese German French Spanish Japanese Russian
    """.split()  # noqa: SIM905
)
_CYRILLIC: Final = re.compile("[\u0400-\u04ff]")
_ARTICLES: Final = frozenset("the a an this that it he she we they you i and but so then now no yes".split())  # noqa: SIM905
#: What may precede a name besides a blank.
_OPENS: Final = re.compile(r"(?:^|[\n.!?:;…\"“”(\[*•>|-]|\d[.)])\s*[\"'“*_`(]*$")
_TITLED: Final = 0.5


class SourceNames(Record, frozen=True):
    """What a text names besides identifiers."""

    weekdays: frozenset[int]  #: 0 Monday
    words: frozenset[str]  #: every word in lower case, without the ending of a genitive
    capitals: frozenset[str]  #: words with a capital inside a sentence


def read_names(text: str, days: frozenset[date] = frozenset()) -> SourceNames:
    """The words of a source; *days*: its dates, which name weekdays where it says none."""
    words = frozenset(_bare(word) for word in _WORD.findall(text.lower()))
    # Where a source never says a weekday, its dates do.
    weekdays = frozenset(day for day, _ in _weekdays(text)) or frozenset(day.weekday() for day in days)
    capitals = frozenset(
        match[0]
        for match in _NAMES_NAME.finditer(text)
        if not _OPENS.search(text[max(match.start() - 12, 0) : match.start()])
    )
    return SourceNames(weekdays, words, capitals)


def invented_names(text: str, source: SourceNames, source_text: str) -> list[Identifier]:
    """Weekdays and people of a draft that its source does not name."""
    found: dict[tuple[IdentifierKind, str], list[Span]] = {}
    for day, place in _weekdays(text):
        if day not in source.weekdays:
            found.setdefault((IdentifierKind.WEEKDAY, _NAMES[day]), []).append(place)
    for name, place in _people(text, source, source_text):
        found.setdefault((IdentifierKind.PERSON, name), []).append(place)
    return [
        Identifier(kind, key, text[slice(*places[0])], tuple(places)) for (kind, key), places in found.items()
    ]


def people_checked(text: str) -> bool:
    """Whether the people of a text can be seen: most of its letters are of a script with capitals, not German."""
    letters = sum(map(str.isalpha, text))
    cased = sum(one.lower() != one.upper() for one in text)
    return letters > 0 and 2 * cased > letters and not _is_german(text)


def _is_german(text: str) -> bool:
    words = re.findall(r"[^\W\d_]+", text.lower())
    return bool(words) and sum(word in _GERMAN for word in words) > 0.08 * len(words)


def _bare(word: str) -> str:
    return word.removesuffix("'s").removesuffix("’s")


def _weekdays(text: str) -> Iterator[tuple[int, Span]]:
    for match in _WORD.finditer(text):
        word = _bare(match[0].lower())
        if _SEMITIC.match(word):
            continue
        day = _WHOLE.get(word)
        if day is None and word[0] >= "\u0400":
            day = next(
                (
                    day
                    for begun, day in _BEGUN.items()
                    if word.startswith(begun) and _RUSSIAN_FORMS.fullmatch(word[len(begun) :])
                ),
                None,
            )
        if day is not None:
            yield day, match.span()
    if text.isascii():
        return
    for match in _DENSE_DAYS.finditer(text):
        yield _LETTERS[match["chinese"] or match["japanese"] or match["korean"]], match.span()
    for pattern in (_HEBREW_DAY, _ARABIC_DAY):
        for match in pattern.finditer(text):
            day = _WHOLE.get(match["day"] or match[2])
            if day is not None:
                yield day, match.span()


def _people(text: str, source: SourceNames, source_text: str) -> Iterator[tuple[str, Span]]:
    """Words with a capital that the source has in no form.

    Within a sentence the capital decides; at its beginning only the words behind it do, where the source has a
    name before the same words.
    """
    if not _CASED.search(text):
        return
    for first, last in sentences(text):
        sentence = text[first:last]
        if _is_title(sentence) or _is_german(sentence):
            continue
        for match in _NAMES_NAME.finditer(sentence):
            name = match[0]
            if (
                name in _NAMES_MONTHS
                or _known(name.lower(), source)
                or name.lower() in _WHOLE
                or unit_of(name)
            ):
                continue
            place = first + match.start(), first + match.end()
            behind = sentence[match.end() :]
            opens = _OPENS.search(sentence[: match.start()]) is not None
            if not opens or _in_the_place_of_a_name(name, behind, source, source_text):
                yield name, place


def _known(word: str, source: SourceNames) -> bool:
    """Whether the source has the word, or another form of it."""
    if word in source.words or _bare(word) in source.words:
        return True
    return any(
        word.endswith(ending) and word[: -len(ending)] in source.words
        for ending in ("s", "es", "а", "у", "ом", "е", "ы", "ой", "и", "ю")
    ) or any(word + ending in source.words for ending in ("s", "es", "а", "у", "ом", "е", "ы", "ой"))


def _is_title(sentence: str) -> bool:
    """A heading or a list of names: most words behind the first have a capital."""
    words = re.findall(r"[^\W\d_]+", sentence)[1:]
    return bool(words) and sum(word[0].isupper() for word in words) > _TITLED * len(words)


def _in_the_place_of_a_name(name: str, behind: str, source: SourceNames, source_text: str) -> bool:
    """Whether the source has a name of its own before the words that follow."""
    following = re.match(r"(?:'s|’s)?\s+([^\W\d_]+(?:\s+[^\W\d_]+)?)", behind)
    if following is None:
        return False
    words = r"\s+".join(map(re.escape, following[1].split()))
    found = re.finditer(rf"([^\W\d_]+)(?:'s|’s)?\s+{words}(?!\w)", source_text)
    # A subject without an article is a name in most languages with capitals, but not in Russian.
    bare = _CYRILLIC.search(following[1]) is None
    return any(
        match[1] in source.capitals
        or (
            bare
            and match[1].istitle()
            and not (match[1].endswith("s") and name.endswith("s"))
            and match[1].lower() not in _ARTICLES
        )
        for match in found
    )
