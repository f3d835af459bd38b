"""Regular expressions in the dialect of the engine's language, matched unit by unit (docs/engine/recall.md,
"Regular expressions").

A pattern is translated into one of the `regex` package, which alone can give up after a time. Where the two
dialects differ in what they *mean*, the translation says it in full: blanks, line ends, classes, references
to groups that took no part. Text and pattern are compared in UTF-16 units: a dot stands for one.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

import regex

from lcm_core.blanks import BLANKS
from lcm_core.javascript import paired
from lcm_core.tokens import as_engine_read

#: The longest pattern that is tried.
MAX_PATTERN: Final = 500
#: Beyond this a count means "more than any text has".
_MAX_COUNT: Final = 2**24

_QUANTIFIED: Final = r"(?:[+*?]|\{\d+(?:,\d*)?\})"
#: A quantifier, a closing parenthesis, a quantifier.
_NESTED: Final = re.compile(rf"{_QUANTIFIED}\)(?:[+*?]|\{{\d)")
#: A group that holds alternatives, and a quantifier behind it.
_ALTERNATED: Final = re.compile(r"\([^)]*\|[^)]*\)(?:[+*?]|\{\d)")

_COUNT: Final = re.compile(r"\{(\d+)(?:(,)(\d*))?\}")
_LINE_ENDS: Final = r"\n\r\u2028\u2029"
_SPACE: Final = "".join(f"\\u{ord(one):04x}" for one in BLANKS)
_CLASSES: Final = {
    "d": "0-9",
    "w": "A-Za-z0-9_",
    "s": _SPACE,
}
_CONTROLS: Final = {"t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"}
_SYNTAX: Final = "^$\\.*+?()[]{}|/"


#: Elements of a pattern when what is counted is written out: a larger one takes a second and more to compile.
MAX_ELEMENTS: Final = 500_000


def elements_in(pattern: str) -> int:
    """How many elements a pattern has, about, when what is counted is written out; by either dialect."""
    sizes = [[0, 0]]  # of each open group: all of it, and its last element
    at = 0
    while at < len(pattern):
        sign = pattern[at]
        counted = _COUNT.match(pattern, at) if sign == "{" else None
        if counted is not None:
            times = max(int(counted[1][:9]), 1)  # only so many are written out, the others are counted
            sizes[-1][0] += sizes[-1][1] * (times - 1)
            sizes[-1][1] *= times
            at = counted.end()
            continue
        if sign == "(":
            sizes.append([0, 0])
        elif sign == ")" and len(sizes) > 1:
            size = sizes.pop()[0] + 1
            sizes[-1] = [sizes[-1][0] + size, size]
        else:
            if sign == "[":
                at = _end_of_class(pattern, at)
            sizes[-1] = [sizes[-1][0] + 1, 1]
        at += 2 if sign == "\\" else 1
    return sum(size for size, _ in sizes)


def _end_of_class(pattern: str, at: int) -> int:
    """Where the class that begins at a place ends; the end of the pattern if it does not."""
    at += 1
    while at < len(pattern) and pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at


class PatternError(ValueError):
    """A pattern that the engine's language does not compile; the text says why."""


@dataclass(frozen=True, slots=True)
class Match:
    """Where a pattern matched."""

    start: int  #: in characters of the text that was searched
    end: int
    text: str  #: what matched; half a surrogate pair may stand at an end


class EnginePattern:
    """A compiled pattern of the engine's language: case matters, and a line is nothing special."""

    def __init__(self, pattern: str) -> None:
        """Compile *pattern*.

        Raises:
            PatternError: the language would not compile it.
        """
        translated = _Translator(units(pattern)).translated()
        if elements_in(pattern) > MAX_ELEMENTS:
            raise PatternError("Regular expression too large")
        try:
            self._compiled = regex.compile(translated, regex.VERSION0)
        except (regex.error, RecursionError, MemoryError, OverflowError) as error:
            raise PatternError(str(error)) from None

    def first(self, text: str, seconds: float | None = None) -> Match | None:
        """The first match in *text*.

        Raises:
            TimeoutError: *seconds* were not enough.
        """
        return next(self.all(text, seconds), None)

    def all(self, text: str, seconds: float | None = None) -> Iterator[Match]:
        """All matches, one behind the other; after an empty one the next is looked for a unit further on.

        Raises:
            TimeoutError: *seconds* were not enough for one of them.
        """
        searched = units(text)
        at = 0
        while at <= len(searched):
            found = self._compiled.search(searched, at, timeout=seconds, concurrent=True)
            if found is None:
                return
            start, end = found.span()
            matched = searched[start:end]
            yield Match(start, end, paired(matched))
            at = end if end > start else end + 1


def is_accepted(pattern: str) -> bool:
    """Whether the engine tries a pattern at all: it refuses long, doubly repeated and broken ones."""
    return compiled(pattern) is not None


@lru_cache(maxsize=64)
def compiled(pattern: str) -> EnginePattern | None:
    """The pattern, or None where the engine finds nothing with it and says nothing."""
    if len(units(pattern)) > MAX_PATTERN or _NESTED.search(pattern) or _ALTERNATED.search(pattern):
        return None
    try:
        return EnginePattern(pattern)
    except PatternError:
        return None


def units(text: str) -> str:
    """A text in which every character is one UTF-16 unit; bytes that are no UTF-8 are U+FFFD."""
    text = as_engine_read(text)
    if text.isascii() or max(text) <= "\uffff":
        return text
    return "".join(map(chr, array("H", text.encode("utf-16-le", "surrogatepass"))))


class _Translator:
    """One pass over a pattern, by the grammar that the language has for the web (its Annex B)."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._groups, self._names = _groups_of(pattern)
        self._closed: set[int] = set()  # groups that a reference may repeat
        self._opened = 0

    def translated(self) -> str:
        text = self._alternatives()
        if self._at < len(self._pattern):
            raise PatternError("Unmatched ')'")
        return text

    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self, wanted: str) -> bool:
        if self._pattern.startswith(wanted, self._at):
            self._at += len(wanted)
            return True
        return False

    def _alternatives(self) -> str:
        branches = [self._sequence()]
        while self._take("|"):
            branches.append(self._sequence())
        return "|".join(branches)

    def _sequence(self) -> str:
        pieces: list[str] = []
        while (sign := self._next()) and sign not in "|)":
            piece, repeatable = self._term()
            pieces.append(piece + self._quantifier(repeatable))
        return "".join(pieces)

    def _term(self) -> tuple[str, bool]:
        """A piece of the pattern, and whether a quantifier may follow."""
        sign = self._next()
        if sign in "*+?" or (sign == "{" and _COUNT.match(self._pattern, self._at)):
            raise PatternError("Nothing to repeat")
        self._at += 1
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._class(), True
        if sign == "\\":
            return self._escape()
        simple = {"^": (r"\A", False), "$": (r"\Z", False), ".": (f"[^{_LINE_ENDS}]", True)}
        return simple.get(sign) or (_literal(sign), True)

    def _quantifier(self, repeatable: bool) -> str:
        sign = self._next()
        counted = _COUNT.match(self._pattern, self._at) if sign == "{" else None
        if counted is not None:
            self._at = counted.end()
            least = min(int(counted[1]), _MAX_COUNT)
            most = min(int(counted[3]), _MAX_COUNT) if counted[3] else None
            if most is not None and most < least:
                raise PatternError("numbers out of order in {} quantifier")
            text = f"{{{least},{'' if most is None else most}}}" if counted[2] else f"{{{least}}}"
        elif sign and sign in "*+?":
            self._at += 1
            text = sign
        else:
            return ""
        if not repeatable:
            raise PatternError("Nothing to repeat")
        return text + ("?" if self._take("?") else "")

    def _group(self) -> tuple[str, bool]:
        repeatable, number = True, 0
        if self._take("?"):
            for opening in (":", "=", "!", "<=", "<!"):
                if self._take(opening):
                    head, repeatable = f"(?{opening}", not opening.startswith("<")
                    break
            else:
                if not re.compile(r"<[^>]*>").match(self._pattern, self._at):
                    raise PatternError("Invalid group")
                self._at = self._pattern.index(">", self._at) + 1
                head, number = "(", self._opened + 1
        else:
            head, number = "(", self._opened + 1
        self._opened = number or self._opened
        inside = self._alternatives()
        if not self._take(")"):
            raise PatternError("Unterminated group")
        self._closed.add(number)
        return f"{head}{inside})", repeatable

    def _escape(self) -> tuple[str, bool]:
        sign = self._next()
        if not sign:
            raise PatternError("\\ at end of pattern")
        if sign in "bB":
            self._at += 1
            return _BOUNDARY[sign], False
        if sign in "dws":
            self._at += 1
            return f"[{_CLASSES[sign]}]", True
        if sign in "DWS":
            self._at += 1
            return f"[^{_CLASSES[sign.lower()]}]", True
        if sign == "k" and self._names:
            return self._named(), True
        if sign in "123456789":
            digits = re.compile(r"\d+").match(self._pattern, self._at)
            if digits is not None and int(digits[0][:9]) <= self._groups:
                self._at = digits.end()
                return self._reference(int(digits[0])), True
        return _literal(self._character()), True

    def _named(self) -> str:
        found = re.compile(r"k<([^>]*)>").match(self._pattern, self._at)
        if found is None or found[1] not in self._names:
            raise PatternError("Invalid named reference")
        self._at = found.end()
        return self._reference(self._names[found[1]])

    def _reference(self, number: int) -> str:
        """A reference to a group; to one that took no part, or is not over, it matches nothing at all."""
        return f"(?({number})\\g<{number}>|)" if number in self._closed else "(?:)"

    def _character(self, in_class: bool = False) -> str:
        """The one character that an escape stands for."""
        sign = self._next()
        self._at += 1
        if sign in _CONTROLS:
            return _CONTROLS[sign]
        if sign == "c":
            letter = self._next()
            if letter and (letter.isascii() and (letter.isalpha() or (in_class and letter in "0123456789_"))):
                self._at += 1
                return chr(ord(letter) % 32)
            self._at -= 1  # the backslash stands for itself
            return "\\"
        for name, length in (("x", 2), ("u", 4)):
            if sign == name:
                digits = self._pattern[self._at : self._at + length]
                if re.fullmatch(rf"[0-9A-Fa-f]{{{length}}}", digits):
                    self._at += length
                    return chr(int(digits, 16))
                return sign
        if sign in "01234567":
            return self._octal(sign)
        return sign

    def _octal(self, sign: str) -> str:
        digits = sign
        while len(digits) < 3 and (one := self._next()) and one in "01234567" and int(digits + one, 8) < 256:
            digits += one
            self._at += 1
        return chr(int(digits, 8))

    def _class(self) -> str:
        negated = self._take("^")
        pieces: list[str] = []
        while not self._take("]"):
            if not self._next():
                raise PatternError("Unterminated character class")
            first, single = self._member()
            if self._pattern.startswith("-", self._at) and self._pattern[self._at + 1 : self._at + 2] != "]":
                if not self._pattern[self._at + 1 :]:
                    raise PatternError("Unterminated character class")
                self._at += 1
                last, also_single = self._member()
                if single and also_single:
                    if first > last:
                        raise PatternError("Range out of order in character class")
                    pieces.append(f"{_in_class(first)}-{_in_class(last)}")
                else:  # a class at either end makes the dash a dash
                    pieces += [_in_class(first) if single else first, _in_class("-")]
                    pieces.append(_in_class(last) if also_single else last)
            else:
                pieces.append(_in_class(first) if single else first)
        if not pieces:
            return r"[\s\S]" if negated else "(?!)"
        return f"[{'^' if negated else ''}{''.join(pieces)}]"

    def _member(self) -> tuple[str, bool]:
        """A character of a class, or what a class inside it stands for, and which of the two it is."""
        if not self._take("\\"):
            self._at += 1
            return self._pattern[self._at - 1], True
        sign = self._next()
        if not sign:
            raise PatternError("\\ at end of pattern")
        if sign in "dws":
            self._at += 1
            return _CLASSES[sign], False
        if sign in "DWS":
            self._at += 1
            return _complement(_CLASSES[sign.lower()]), False
        if sign == "b":
            self._at += 1
            return "\b", True
        return self._character(in_class=True), True


_BOUNDARY: Final = {
    "b": r"(?:(?<![A-Za-z0-9_])(?=[A-Za-z0-9_])|(?<=[A-Za-z0-9_])(?![A-Za-z0-9_]))",
    "B": r"(?:(?<![A-Za-z0-9_])(?![A-Za-z0-9_])|(?<=[A-Za-z0-9_])(?=[A-Za-z0-9_]))",
}
_RANGE: Final = re.compile(r"\\u([0-9a-f]{4})|(.)-(.)|(.)")


@lru_cache(maxsize=8)
def _complement(listed: str) -> str:
    """All units that a list of units and ranges leaves out, as ranges."""
    inside: set[int] = set()
    for one in _RANGE.finditer(listed):
        if one[1]:
            inside.add(int(one[1], 16))
        elif one[2]:
            inside.update(range(ord(one[2]), ord(one[3]) + 1))
        else:
            inside.add(ord(one[4]))
    bounds = [-1, *sorted(inside), 0x10000]
    gaps = [(low + 1, high - 1) for low, high in pairwise(bounds) if high - low > 1]
    return "".join(f"\\u{low:04x}-\\u{high:04x}" for low, high in gaps)


def _groups_of(pattern: str) -> tuple[int, dict[str, int]]:
    """How many groups a pattern captures, and the numbers of those with a name."""
    count, names, in_class, at = 0, dict[str, int](), False, 0
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\":
            at += 1
        elif in_class:
            in_class = sign != "]"
        elif sign == "[":
            in_class = True
        elif sign == "(":
            named = re.compile(r"\(\?<([^=!>][^>]*)>").match(pattern, at)
            if named is not None:
                count += 1
                if not re.fullmatch(r"[^\W\d]\w*|[$_][\w$]*|[^\W\d][\w$]*", named[1]) or named[1] in names:
                    raise PatternError("Invalid capture group name")
                names[named[1]] = count
            elif not pattern.startswith("(?", at):
                count += 1
        at += 1
    return count, names


def _literal(sign: str) -> str:
    return sign if sign.isascii() and sign.isalnum() else f"\\u{ord(sign):04x}"


_in_class = _literal
