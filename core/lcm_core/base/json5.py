"""JSON5 in, Python values out: OpenClaw's config may hold comments, trailing commas and bare keys.

Strict JSON goes through the standard library untouched. Anything else is cut into tokens, each token is
turned into strict JSON, and the standard library parses the result: one pass, no recursion of our own.
"""

from __future__ import annotations

import json
import re

from lcm_core.base.setting_values import Json

_TOKEN = re.compile(
    r"""
      (?P<space> [\s\ufeff]+ | //[^\n\r\u2028\u2029]* | /\*.*?\*/ )
    | (?P<string> "(?:[^"\\\n\r]|\\(?:\r\n|.))*" | '(?:[^'\\\n\r]|\\(?:\r\n|.))*' )
    | (?P<mark> [{}\[\]:,] )
    | (?P<word> [^\s\ufeff{}\[\]:,"'/]+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_STRING = re.compile(r'\\(?:x([0-9a-fA-F]{2})|(u[0-9a-fA-F]{4})|(\r\n|.))|"', re.DOTALL)
_NUMBER = re.compile(r"([+-]?)(?:(0[xX][0-9a-fA-F]+)|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)")
#: After these a comma is an error, not a trailing comma.
_OPEN = frozenset("[{,:")
_KEPT_ESCAPES = frozenset('bfnrt"\\/')
_OWN_ESCAPES = {"v": "\\u000b", "0": "\\u0000"}
_LINE_BREAKS = frozenset(("\n", "\r", "\r\n", "\u2028", "\u2029"))


def loads(document: str) -> Json:
    """The value of a JSON or JSON5 document; NaN and infinities become text.

    Raises:
        ValueError: it is neither; the message says on which line.
    """
    try:
        return _strict(document)
    except ValueError:
        pass
    try:
        return _strict(_to_json(document))
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg.lower()} on line {error.lineno}") from None


def _strict(document: str) -> Json:
    try:
        value: Json = json.loads(document, strict=False, parse_constant=str)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value


def _to_json(document: str) -> str:
    """The same document as strict JSON, line for line."""
    out: list[str] = []
    significant: list[int] = []  # where in `out` the tokens are that are not white space
    words: dict[int, str] = {}  # bare words: keys when a colon follows, else literals
    position = 0
    while position < len(document):
        match = _TOKEN.match(document, position)
        if match is None:
            raise ValueError(f"unexpected {document[position]!r} on line {_line(document, position)}")
        position = match.end()
        token = match.group()
        if match.lastgroup == "space":
            out.append("\n" * token.count("\n") or " ")
            continue
        if match.lastgroup == "mark":
            _before_mark(token, out, significant, words)
        elif match.lastgroup == "word":
            words[len(out)] = token
            token = _literal(token)
        else:
            token = f'"{_IN_STRING.sub(_escape, token[1:-1])}"'
        significant.append(len(out))
        out.append(token)
    return "".join(out)


def _before_mark(mark: str, out: list[str], significant: list[int], words: dict[int, str]) -> None:
    """Quote the bare word before a colon; drop the comma before a closing bracket."""
    if not significant:
        return
    last = significant[-1]
    if mark == ":" and last in words:
        out[last] = json.dumps(words[last])
    elif mark in "}]" and out[last] == "," and len(significant) > 1 and out[significant[-2]] not in _OPEN:
        out[last] = ""
        significant.pop()


def _literal(word: str) -> str:
    """A bare word as JSON: number, constant, or itself, which the parser then refuses."""
    match = _NUMBER.fullmatch(word)
    if match is None:
        return json.dumps(word) if word.lstrip("+-") in {"Infinity", "NaN"} else word
    sign, hexadecimal, decimal, exponent = match.groups()
    sign = sign.replace("+", "")
    if hexadecimal:
        return f"{sign}{int(hexadecimal, 16)}"
    whole, dot, fraction = decimal.partition(".")
    return f"{sign}{whole or '0'}{dot and '.' + (fraction or '0')}{exponent or ''}"


def _escape(match: re.Match[str]) -> str:
    two_digits, four_digits, other = match.groups()
    if two_digits:
        return f"\\u00{two_digits}"
    if four_digits:
        return f"\\{four_digits}"
    if other is None:
        return '\\"'
    if other in _LINE_BREAKS:
        return ""
    return f"\\{other}" if other in _KEPT_ESCAPES else _OWN_ESCAPES.get(other, other)


def _line(document: str, position: int) -> int:
    return document.count("\n", 0, position) + 1
