"""What the host has packed with zstd: entries in a table, and archives (docs/host.md, "Packed entries").

Nothing is unpacked beyond a limit that the caller gives, and no archive is held as a whole.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator
from typing import Any, Final, Protocol, cast

from lcm_core.errors import ConfigurationError
from lcm_core.ingest.jsonl import BadLineError, TranscriptError

#: How a zstd frame begins.
MAGIC: Final = b"\x28\xb5\x2f\xfd"
#: Bytes that one call unpacks at most.
_PIECE: Final = 256 * 1024


class _Decompressor(Protocol):
    """As ``compression.zstd`` has it."""

    eof: bool
    needs_input: bool
    unused_data: bytes

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Zstd(Protocol):
    """The part of ``compression.zstd`` that is used."""

    ZstdError: type[Exception]

    def ZstdDecompressor(self) -> _Decompressor: ...  # noqa: N802

    def get_frame_info(self, frame_buffer: bytes) -> Any: ...


def _zstd() -> _Zstd:
    """The standard library's module, or its copy for Python below 3.14."""
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return cast(_Zstd, importlib.import_module(name))
        except ImportError:
            continue
    raise ConfigurationError(
        "Sessions of this host are compressed with zstd, which this Python cannot read: install "
        "backports.zstd into its environment.",
        code="ZSTD_MISSING",
    )


def unpacked_entry(data: bytes, size: int | None, limit: int) -> bytes:
    """An entry of the table: one frame that says how long it is, as the table does.

    Raises:
        BadLineError: the bytes are no such frame, or sizes differ.
        ConfigurationError: this Python cannot unpack it.
    """
    zstd = _zstd()
    if not data.startswith(MAGIC):
        raise BadLineError("compressed, but not a zstd frame")
    if size is None or not 0 <= size <= limit:
        said = "none" if size is None else f"{size:,}"
        raise BadLineError(f"compressed, with a recorded size of {said}; it must be 0 to {limit:,} bytes")
    try:
        said = zstd.get_frame_info(data).decompressed_size
        if said is not None and said != size:
            raise BadLineError(f"compressed; its frame says {said:,} bytes, its row {size:,}")
        unpacking = zstd.ZstdDecompressor()
        text = unpacking.decompress(data, size + 1)
    except zstd.ZstdError as error:
        raise BadLineError(f"compressed, and its zstd frame is damaged ({error})") from error
    if len(text) != size or not unpacking.eof or unpacking.unused_data:
        raise BadLineError(f"compressed, and its frame does not contain the {size:,} bytes that its row says")
    return text


def unpacked(name: str, packed: Iterator[bytes], limit: int) -> Iterator[bytes]:
    """What pieces of a packed file hold, in pieces; *name* is how the file is called in a sentence.

    Raises:
        TranscriptError: the frame is damaged or cut off, or it holds more than *limit* bytes.
        ConfigurationError: this Python cannot unpack it.
    """
    zstd = _zstd()
    held = 0
    try:
        for piece in _unpack(zstd, name, packed):
            held += len(piece)
            if held > limit:
                raise _damaged(name, f"it has more than the {limit:,} bytes that the host may have written")
            yield piece
    except zstd.ZstdError as error:
        raise _damaged(name, f"its zstd frame is damaged: {error}") from error


def _unpack(zstd: _Zstd, name: str, packed: Iterator[bytes]) -> Iterator[bytes]:
    unpacking: _Decompressor | None = None
    for data in packed:
        while data:
            if unpacking is None or unpacking.eof:
                unpacking = zstd.ZstdDecompressor()
            yield unpacking.decompress(data, _PIECE)
            while not unpacking.eof and not unpacking.needs_input:
                yield unpacking.decompress(b"", _PIECE)
            data = unpacking.unused_data if unpacking.eof else b""
    if unpacking is None or not unpacking.eof:
        raise _damaged(name, "its zstd frame ends too early")


def _damaged(name: str, reason: str) -> TranscriptError:
    return TranscriptError(
        f"{name} cannot be read: {reason}. Copy it again, or restore it from a backup of the host.",
        code="ARCHIVE_DAMAGED",
    )


class Pieces(io.RawIOBase):
    """Pieces of bytes as a file that is read once, from its beginning."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """It can be read, and not written or moved in."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill *buffer* as far as one piece goes; 0 at the end."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(self._rest), len(buffer))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count
