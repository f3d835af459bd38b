"""Pictures in a message: what is one, of which type and name (docs/engine/ingest.md, "Pictures")."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Final

from lcm_core.frozen import dataclass
from lcm_core.ingest.jsonl import Json
from lcm_core.ingest.shapes import first_text, type_of
from lcm_core.ingest.speech import is_blank
from lcm_core.javascript import BLANKS
from lcm_core.utf16 import units


@dataclass(frozen=True, slots=True)
class Picture:
    """The bytes of a picture and what is said of them."""

    data: bytes
    ending: str  #: without its dot
    mime: str


#: How the base64 of a kind of picture begins: its ending and type.
_BEGINNINGS: Final = (
    ("/9j/", "jpg", "image/jpeg"),
    ("iVBOR", "png", "image/png"),
    ("R0lGOD", "gif", "image/gif"),
    ("UklGR", "webp", "image/webp"),
    ("PHN2Zy", "svg", "image/svg+xml"),
)
_DECLARED: Final[Mapping[str, str]] = {
    "jpeg": "jpg",
    "jpg": "jpg",
    "png": "png",
    "gif": "gif",
    "webp": "webp",
    "svg+xml": "svg",
    "heic": "heic",
    "avif": "avif",
    "bmp": "bmp",
}
_BLANK_RUN: Final = re.compile(rf"[{BLANKS}]+")
_STRICT: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_DIGITS: Final = re.compile(rf"[A-Za-z0-9+/={BLANKS}]+")
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9+/]+")
_URL: Final = re.compile(r"data:([^;,]+);base64,", re.IGNORECASE)
_ATTACHED: Final = re.compile(
    rf"\[media attached(?:[{BLANKS}]+[0-9]+/[0-9]+)?:[{BLANKS}]*([^{BLANKS}\]|()]+)", re.IGNORECASE
)
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9_.@-]+")
_TYPES: Final = ("mimeType", "mime_type", "mediaType", "media_type")
#: What an inline text must have to be taken for a picture.
_PURE: Final = 0.8


def native_picture(block: Json) -> Picture | None:
    """The picture that a block of type image holds in base64; None when it stays as it is."""
    if not isinstance(block, dict) or type_of(block) != "image":
        return None
    data = block.get("data")
    if not isinstance(data, str) or not data:
        return None
    declared = first_text(block, _TYPES)
    if (url := _URL.match(data.strip(BLANKS))) is not None:
        declared, data = url[1], data.strip(BLANKS)[url.end() :]
    digits = _BLANK_RUN.sub("", data)
    if _STRICT.fullmatch(digits) is None:
        return None
    kind = _kind_by_beginning(digits) or _declared_kind(declared)
    return None if kind is None else Picture(decoded(digits), *kind)


def inline_picture(text: str) -> Picture | None:
    """The picture whose base64 a text begins with; None when it begins with none that is known."""
    kind = _kind_by_beginning(text)
    return None if kind is None else Picture(decoded(text), *kind)


def is_pure(text: str) -> bool:
    """Whether a trimmed text is mostly base64."""
    digits = sum(len(run) for run in _DIGITS.findall(text))
    return digits >= _PURE * units(text)


def attached_name(blocks: list[Json], before: int) -> str | None:
    """The name in the text block nearest before a picture that says what was attached."""
    for block in reversed(blocks[:before]):
        text = block.get("text") if isinstance(block, dict) and type_of(block) == "text" else None
        found = _ATTACHED.search(text) if isinstance(text, str) else None
        if found is not None and (name := re.split(r"[/\\]", found[1])[-1]):
            return _UNUSUAL.sub("_", name)
    return None


def decoded(text: str) -> bytes:
    """The bytes of base64 as the engine's platform reads it: what is no digit is skipped, ``=`` ends it."""
    digits = text.partition("=")[0].replace("-", "+").replace("_", "/")
    digits = _FOREIGN.sub("", digits)
    if len(digits) % 4 == 1:  # six bits make no byte
        digits = digits[:-1]
    return base64.b64decode(digits + "=" * (-len(digits) % 4))


def _kind_by_beginning(digits: str) -> tuple[str, str] | None:
    return next(((ending, mime) for start, ending, mime in _BEGINNINGS if digits.startswith(start)), None)


def _declared_kind(mime: str | None) -> tuple[str, str] | None:
    family, _, kind = (mime or "").strip(BLANKS).partition("/")
    ending = _DECLARED.get(kind.lower()) if family.lower() == "image" else None
    return None if ending is None or mime is None or is_blank(mime) else (ending, mime)
