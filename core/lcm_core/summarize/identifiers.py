"""The identifiers in a text: what is either copied exactly or wrong, and can be found without a model.

What one class took, the next do not see. Patterns stand on ASCII word boundaries, so that an identifier is
found in the middle of Chinese or Hebrew; digits of other scripts and full-width forms are read as ASCII,
character by character, so that places stay places in the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from lcm_core.summarize.language import Span


class Kind(StrEnum):
    """The class of an identifier."""

    URL = "URL"
    PATH = "path"
    TIME = "time"
    ID = "id"
    HASH = "hash"
    VERSION = "version"
    FLAG = "flag"
    VARIABLE = "variable"
    NUMBER = "number"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Identifier:
    """One identifier of a text and where it stands there."""

    kind: Kind
    key: str  #: the same for two ways to write it
    text: str  #: as it is written first
    places: tuple[Span, ...]

    @property
    def count(self) -> int:
        """How often it stands in the text."""
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
_TAKEN: Final = "\x00"

_URL: Final = re.compile(r"(?i:(?<![a-z0-9])(?:[a-z][a-z0-9+.-]{1,9}://|www\.))[!#-&(-;=?-Z_a-z~]+")
_SEGMENT: Final = r"[\w.@+%~-]"
_PATH: Final = re.compile(
    rf"(?<![\w/\\<])[A-Za-z]:\\(?:[\w.@+~-]+\\)*[\w.@+~-]+|(?<![\w.@+%~:/-]){_SEGMENT}*(?:/{_SEGMENT}+)+/?"
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
_LONGEST_PATH: Final = 400
_EXTENSION: Final = re.compile(r"\.(?=[A-Za-z0-9]*[A-Za-z])[A-Za-z0-9]{1,8}")
_FOLDER_NAMES: Final = """
src lib tests test docs doc app apps core bin etc packages scripts config public internal cmd pkg
"""
_FOLDERS: Final = frozenset(_FOLDER_NAMES.split())
_LINE: Final = re.compile(r":[0-9]+(?::[0-9]+)?$")
_DATE: Final = re.compile(
    r"(?<![\d.-])(?P<y>[12]\d{3})(?:[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})(?!\d)"
    r"|\s?[年년]\s?(?P<m2>\d{1,2})\s?[月월]\s?(?P<d2>\d{1,2})\s?[日일])",
    re.ASCII,
)
_CLOCK: Final = re.compile(
    r"(?<![\d:.])(?P<h>[01]?\d|2[0-3]):(?P<min>[0-5]\d)(?::[0-5]\d(?:\.\d+)?)?(?![\d:])",
    re.ASCII,
)
#: The letter that ties a clock to a date in an ISO stamp.
_STAMP: Final = re.compile(r"(?<=\x00)T(?=[0-9]{2}:)")
_IDS: Final = re.compile(
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
_UNITS: Final[Mapping[str, str]] = {
    alias: name
    for name, aliases in {
        "%": "% percent prozent",
        "ms": "ms msec millisecond milliseconds millis",
        "µs": "µs us microseconds",
        "s": "s sec secs second seconds",
        "min": "min mins minute minutes",
        "h": "h hr hrs hour hours",
        "d": "d day days",
        "week": "week weeks",
        "month": "month months",
        "year": "year years",
        "B": "b byte bytes",
        "KB": "kb kib",
        "MB": "mb mib",
        "GB": "gb gib",
        "TB": "tb tib",
        "k": "k",
        "m": "m",
        "px": "px",
        "Hz": "hz",
        "kHz": "khz",
        "MHz": "mhz",
        "GHz": "ghz",
        "kg": "kg",
        "g": "g",
        "km": "km",
        "cm": "cm",
        "mm": "mm",
        "V": "v",
        "W": "w",
        "°C": "°c",
        "x": "x",
        "token": "token tokens",
        "line": "line lines",
        "row": "row rows",
        "file": "file files",
        "test": "test tests",
        "message": "message messages",
        "user": "user users",
        "request": "request requests",
        "time": "times",
    }.items()
    for alias in aliases.split()
}
_NUMBER: Final = re.compile(
    r"(?P<money>[$€£¥₪₩])?\s?(?<![\w.,:/#-])(?P<value>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
    r"(?:[ \u00a0]?(?P<unit>%|°[Cc]|[A-Za-zµ]{1,12})(?!\w)"
    r"|(?P<dense>[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af])"
    r"|[ \u00a0](?P<word>[\u0590-\u06ff]{2,}))?",
    re.ASCII,
)
_ANY_NUMBER: Final = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?", re.ASCII)
_QUOTED: Final = re.compile(r"`([^`\n\x00]{2,80})`")
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
    return _FOLDABLE.sub(lambda run: "".join(map(_FOLDED.__getitem__, run[0])), text)


def numbers_in(text: str) -> frozenset[str]:
    """All numbers of a folded text, whatever they count."""
    return frozenset(map(_value, _ANY_NUMBER.findall(text)))


def identifiers(text: str) -> list[Identifier]:
    """The identifiers of *text* in the order in which they are first found, class by class."""
    finder = _Finder(folded(text), text)
    for take in _TAKERS:
        take(finder)
    return [
        Identifier(kind, key, text[places[0][0] : places[0][1]], tuple(places))
        for (kind, key), places in finder.found.items()
    ]


class _Finder:
    """A text of which parts are taken one class after the other."""

    def __init__(self, rest: str, text: str) -> None:
        self.rest = rest
        self.text = text
        self.found: dict[tuple[Kind, str], list[Span]] = {}

    def add(self, kind: Kind, key: str, start: int, end: int) -> None:
        """Note an identifier."""
        self.found.setdefault((kind, key), []).append((start, end))

    def take(self, pattern: re.Pattern[str], judge: Callable[[re.Match[str]], Span | None]) -> None:
        """Let *judge* note what *pattern* finds; the characters that it claims are gone for later classes."""
        pieces: list[str] = []
        at = 0
        for match in pattern.finditer(self.rest):
            span = judge(match)
            if span is not None and span[0] >= at:
                pieces += (self.rest[at : span[0]], _TAKEN * (span[1] - span[0]))
                at = span[1]
        if at:
            self.rest = "".join((*pieces, self.rest[at:]))

    def take_as(self, kind: Kind, pattern: re.Pattern[str], key_of: Callable[[str], str]) -> None:
        """Note all that *pattern* finds as *kind*."""

        def judge(match: re.Match[str]) -> Span:
            self.add(kind, key_of(match[0]), *match.span())
            return match.span()

        self.take(pattern, judge)


def _urls(finder: _Finder) -> None:
    def judge(match: re.Match[str]) -> Span | None:
        address = match[0].rstrip(".,;:!?'*")
        while address.endswith(")") and address.count("(") < address.count(")"):
            address = address[:-1].rstrip(".,;:!?'*")
        if len(address) < 8:
            return None
        finder.add(Kind.URL, address.rstrip("/"), match.start(), match.start() + len(address))
        return match.start(), match.start() + len(address)

    finder.take(_URL, judge)


def _times(finder: _Finder) -> None:
    def date(match: re.Match[str]) -> Span | None:
        month, day = int(match["m"] or match["m2"]), int(match["d"] or match["d2"])
        if not (1 <= month <= 12 and 1 <= day <= 31):
            return None
        finder.add(Kind.TIME, f"{match['y']}-{month:02}-{day:02}", *match.span())
        return match.span()

    def clock(match: re.Match[str]) -> Span:
        finder.add(Kind.TIME, f"{int(match['h']):02}:{match['min']}", *match.span())
        return match.span()

    finder.take(_DATE, date)
    finder.rest = _STAMP.sub(_TAKEN, finder.rest)
    finder.take(_CLOCK, clock)


def _paths(finder: _Finder) -> None:
    def judge(match: re.Match[str]) -> Span | None:
        start, end = _trimmed(match[0])
        path = match[0][start:end]
        if len(path) > _LONGEST_PATH or not _is_path(path):
            return None
        start, end = match.start() + start, match.start() + end
        finder.add(Kind.PATH, path_key(path), start, end)
        return start, end

    finder.take(_PATH, judge)
    finder.take_as(Kind.PATH, _BARE_FILE, path_key)


def _trimmed(raw: str) -> Span:
    """The path in what looks like one: prose of scripts without spaces sticks to either end."""
    start, end = 0, len(raw.rstrip(".,;:=+"))
    if not raw.isascii():
        head = re.match(r"[^\x00-\x7f]+(?=[!-~])", raw)
        first = raw.partition("/")[0]
        if head and (not first.isascii()):
            start = head.end()
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
    if re.match(r"[A-Za-z]:\\", path):
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
    return _LINE.sub("", path).replace("\\", "/").rstrip("/").removeprefix("./")


def _ids(finder: _Finder) -> None:
    """Only words with a digit, a dot or an @ in them are worth the many forms of an id."""
    pieces: list[str] = []
    at = 0
    for word in _ID_LIKE.finditer(finder.rest):
        for match in _IDS.finditer(finder.rest, word.start(), word.end()):
            finder.add(Kind.ID, match[0], *match.span())
            pieces += (finder.rest[at : match.start()], _TAKEN * len(match[0]))
            at = match.end()
    finder.rest = "".join((*pieces, finder.rest[at:]))


def _hashes(finder: _Finder) -> None:
    finder.take_as(Kind.HASH, _HASH, str.lower)


def _numbers(finder: _Finder) -> None:
    def judge(match: re.Match[str]) -> Span | None:
        value = _value(match["value"])
        unit = _UNITS.get((match["unit"] or "").lower(), "") or match["money"] or match["dense"] or ""
        if match["word"]:
            unit = match["word"][-4:]
        bare = value.isdigit() and len(value) < 3
        if not unit and bare:
            return None
        end = match.end() if unit and not match["money"] else match.end("value")
        start = match.start("money") if match["money"] else match.start("value")
        finder.add(Kind.NUMBER, f"{value} {unit}".rstrip(), start, end)
        return start, end

    finder.take(_NUMBER, judge)


def _value(written: str) -> str:
    plain = written.replace(",", "")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain.lstrip("0") or "0"


def _names(finder: _Finder) -> None:
    def quoted(match: re.Match[str]) -> Span | None:
        name = " ".join(match[1].split())
        if not any(map(str.isalpha, name)):
            return None
        finder.add(Kind.NAME, name.removesuffix("()"), *match.span(1))
        return match.span()

    def plain(match: re.Match[str]) -> Span | None:
        if match[0].lower() in {"e.g", "i.e"}:
            return None
        finder.add(Kind.NAME, match[0].removesuffix("()"), *match.span())
        return match.span()

    finder.take(_QUOTED, quoted)
    finder.take(_NAME, plain)


def _plain(text: str) -> str:
    return text


_TAKERS: Final[tuple[Callable[[_Finder], None], ...]] = (
    _urls,
    _times,
    _paths,
    _ids,
    _hashes,
    lambda finder: finder.take_as(Kind.VERSION, _VERSION, lambda text: text.lower().removeprefix("v")),
    lambda finder: finder.take_as(Kind.FLAG, _FLAG, _plain),
    lambda finder: finder.take_as(Kind.VARIABLE, _VARIABLE, _plain),
    _numbers,
    _names,
)
