"""What a text says to whom it is summarised for (docs/spec/texts.md, "What a text says").

Whatever goes to a summariser passes through here, and so does what counts as meaningful. There are two
readings: of messages, which keep their reasoning, and of summaries, which do not. All of it takes time in
proportion to the text, also where the text is hostile.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from lcm_core.base.javascript import Json, JsonObject, js_json, read_json, trimmed
from lcm_core.base.text import BLANKS

#: What replaces a payload that was embedded in a text.
_MEDIA_OMITTED: Final = "[embedded media omitted]"
#: What is nested so deep is not read.
_DEEPEST: Final = 8
#: Types of blocks that say nothing at all, and of those whose texts alone are read.
_REASONING: Final = frozenset({"reasoning", "thinking", "redacted_thinking"})
MEDIA: Final = frozenset({"file", "image", "snapshot"})
_TEXTS: Final = ("text", "caption", "alt", "title", "summary")
_NESTED: Final = (
    "value", "content", "parts", "items", "message", "messages", "input", "arguments", "output", "result",
    "results", "data", "query", "command",
)  # fmt: skip

_IGNORE_CASE: Final = re.IGNORECASE | re.ASCII


def message_says(text: str) -> str:
    """What a text of a message says; maybe nothing."""
    return _says(text, plain)


def summary_says(text: str) -> str:
    """What the text of a summary says, without reasoning that a model left in it; maybe nothing."""
    return _says(text, _plain_without_reasoning)


def value_says(value: Json) -> str:
    """What a value says that need not be a text: a number or a word of JSON gives itself."""
    if isinstance(value, str):
        return message_says(value)
    found = _joined(value, plain)
    return found if found or isinstance(value, list | dict) else message_says(js_json(value))


def normalised_type(block: JsonObject, key: str) -> str:
    """The type that an object names under *key*, as types are compared; empty when that is no text."""
    value = block.get(key)
    return trimmed(value).lower() if isinstance(value, str) else ""


# -- texts that are JSON ---------------------------------------------------------------------------------

Reading = Callable[[str], str]


def _says(text: str, reading: Reading) -> str:
    bare = trimmed(text)
    if bare[:1] + bare[-1:] in ("{}", "[]"):
        try:
            value = read_json(bare)
        except ValueError:
            pass
        else:
            return _joined(value, reading)
    return reading(text)


def _joined(value: Json, reading: Reading) -> str:
    fragments = (trimmed(one) for one in _fragments(value, 0, reading))
    return trimmed("\n".join(filter(None, fragments)))


def _fragments(value: Json, depth: int, reading: Reading) -> Iterator[str]:
    if depth >= _DEEPEST:
        return
    if isinstance(value, str):
        yield reading(value)
    elif isinstance(value, list):
        for each in value:
            yield from _fragments(each, depth + 1, reading)
    elif isinstance(value, Mapping):
        types = {normalised_type(value, "type"), normalised_type(value, "rawType")}
        if types & _REASONING:
            return
        for key in _TEXTS:
            if isinstance(text := value.get(key), str):
                yield reading(text)
        if types & MEDIA:
            return
        for key in _NESTED:
            if key in value:
                yield from _fragments(value[key], depth + 1, reading)


# -- plain texts -----------------------------------------------------------------------------------------

_MEDIA_TYPE: Final = rf"[^;{BLANKS}\"'`]"
_BASE64: Final = re.compile(rf";base64,(?=[A-Z0-9+/={BLANKS}])", _IGNORE_CASE)
_PAYLOAD: Final = re.compile(rf"[A-Za-z0-9+/={BLANKS}]+")
_DATA: Final = re.compile(r"data:", _IGNORE_CASE)
_NO_TYPE: Final = re.compile(rf"[;{BLANKS}\"'`]")
#: A line that begins so is nothing but a payload.
_EMBEDDED: Final = re.compile(rf"data:{_MEDIA_TYPE}+;base64,", _IGNORE_CASE)
_MEDIA_LINE: Final = "MEDIA:/"
_BARE_BASE64: Final = re.compile(r"[A-Za-z0-9+/=]+")
_NO_BASE64: Final = re.compile(r"[ .,:;!?()\[\]{}]")
_LEAST_BASE64: Final = 256
_BLANK: Final = re.compile(f"[{BLANKS}]+")


def plain(text: str) -> str:
    """A plain text without payloads, lines that name media, blank lines and blanks at the ends of lines."""
    lines = (line.rstrip(BLANKS) for line in _without_embedded(text).split("\n"))
    return trimmed("\n".join([line for line in lines if line and not _is_media(line.lstrip(BLANKS))]))


def _without_embedded(text: str) -> str:
    """A text with a note for every ``data:<type>;base64,<payload>`` in it.

    Looked for from the middle: from the beginning, each ``data:`` without an end would be followed far. No
    payload holds a semicolon, so the next middle is never within one.
    """
    kept: list[str] = []
    done = 0  #: up to here all is dealt with
    for middle in _BASE64.finditer(text):
        start = _start_of_embedded(text, done, middle.start())
        if start is None:
            continue
        kept += (text[done:start], _MEDIA_OMITTED)
        payload = _PAYLOAD.match(text, middle.end())
        done = payload.end() if payload else middle.end()
    return "".join([*kept, text[done:]]) if done else text


def _start_of_embedded(text: str, first: int, end: int) -> int | None:
    """Where a ``data:`` begins whose type, of at least one character, reaches up to *end*."""
    first = max(first, text.rfind(";", first, end) + 1)
    types = _NO_TYPE.split(text[first:end])[-1]
    found = _DATA.search(types, 0, max(len(types) - 1, 0))
    return None if found is None else end - len(types) + found.start()


def _is_media(line: str) -> bool:
    """Whether a trimmed line is the name of a medium, or a payload."""
    if line.startswith(_MEDIA_LINE) and len(line) > len(_MEDIA_LINE):
        return True
    if _EMBEDDED.match(line):
        return True
    if len(line) < _LEAST_BASE64 or _NO_BASE64.search(line):
        return False
    bare = _BLANK.sub("", line)
    return len(bare) >= _LEAST_BASE64 and len(bare) % 4 == 0 and _BARE_BASE64.fullmatch(bare) is not None


# -- reasoning in a summary ------------------------------------------------------------------------------

_TAGS: Final = "think|thinking|reasoning"
#: An opening tag up to its name; it goes on to the next ``>``.
_OPENING: Final = re.compile(rf"<[{BLANKS}]*(?P<tag>{_TAGS})(?=[{BLANKS}>])", _IGNORE_CASE)
_BARRED: Final = re.compile(
    rf"<\|[{BLANKS}]*(?:start_of_)?(?:{_TAGS})[{BLANKS}]*\|>|\[[{BLANKS}]*(?:{_TAGS})[{BLANKS}]*\]",
    _IGNORE_CASE,
)
_LINE_BEGINS: Final = re.compile(r"^[ \t]*(?=[<\[])", re.MULTILINE)
_LINE_ENDS: Final = re.compile(r"[ \t]*(?=\n|\Z)")
_CLOSING: Final = {
    tag: re.compile(rf"<[{BLANKS}]*/[{BLANKS}]*{tag}[{BLANKS}]*>", _IGNORE_CASE) for tag in _TAGS.split("|")
}


def _plain_without_reasoning(text: str) -> str:
    text = plain(text)
    if "<" not in text and "[" not in text:
        return text
    text = _without_elements(_without_leading_elements(text))
    return _without_open_end(text)


def _opening(text: str, at: int) -> tuple[str, int] | None:
    """The tag that opens at a place, in lower case, and where it ends."""
    match = _OPENING.match(text, at)
    end = text.find(">", match.end()) if match else -1
    return (match["tag"].lower(), end + 1) if match and end >= 0 else None


def _without_leading_elements(text: str) -> str:
    at = 0
    while found := _opening(text, at):
        tag, end = found
        closing = _CLOSING[tag].search(text, end)
        if closing is None:
            break
        blank = _BLANK.match(text, closing.end())
        at = blank.end() if blank else closing.end()
    return text[at:]


def _without_elements(text: str) -> str:
    """A text without the elements that begin a line and end one."""
    kept: list[str] = []
    done = 0
    closings: dict[str, tuple[list[int], list[int]]] = {}
    bracket = -1  #: the last end of a tag that was looked for; the next one is no earlier
    for line in _LINE_BEGINS.finditer(text):
        match = _OPENING.match(text, line.end()) if line.start() >= done else None
        if match is None:
            continue
        if bracket < match.end():
            bracket = text.find(">", match.end())
            if bracket < 0:
                break
        tag = match["tag"].lower()
        if tag not in closings:
            closings[tag] = _closings(text, tag)
        starts, ends = closings[tag]
        place = bisect_left(starts, bracket + 1)
        if place < len(starts):
            kept.append(text[done : line.start()])
            done = ends[place]
    return "".join([*kept, text[done:]]) if done else text


def _closings(text: str, tag: str) -> tuple[list[int], list[int]]:
    """Where closing tags begin behind which their line has nothing more, and where that line ends."""
    starts, ends = [], []
    for closing in _CLOSING[tag].finditer(text):
        if line := _LINE_ENDS.match(text, closing.end()):
            starts.append(closing.start())
            ends.append(line.end())
    return starts, ends


def _without_open_end(text: str) -> str:
    """A text up to the line that begins with an opening; nothing when all of it does."""
    last = text.rfind(">")

    def opens(at: int) -> bool:
        match = _OPENING.match(text, at)
        return (match is not None and match.end() <= last) or _BARRED.match(text, at) is not None

    cut = next((line.start() for line in _LINE_BEGINS.finditer(text) if opens(line.end())), len(text))
    rest = trimmed(text[:cut])
    return "" if _opening(rest, 0) or _BARRED.match(rest) else rest
