"""Writes a text to a file that an operator named: private, whole, and over another one only when told."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Collection
from pathlib import Path

from lcm_core.errors import RefusedError


class FileThereError(RefusedError):
    """A file of that name is there already."""

    default_code = "FILE_EXISTS"


class FileNotWrittenError(RefusedError):
    """The file cannot be written."""

    default_code = "FILE_NOT_WRITTEN"


def write_private(path: Path, text: str, *, replace: bool = False, never: Collection[Path] = ()) -> Path:
    """Write *text* as UTF-8 to a file that only this user can read (0600); gives the whole path.

    What stands at *path* stays unless *replace* says otherwise; then the new file takes its place at once.
    *never*: files that are not replaced in any case, such as the open database.

    Raises:
        FileThereError: something of that name is there.
        FileNotWrittenError: the folder is missing or cannot be written.
    """
    whole = Path(os.path.abspath(path))
    # `os.path` says no where `Path` raises: of a name that no file can have.
    if os.path.exists(whole) and any(os.path.exists(kept) and whole.samefile(kept) for kept in never):
        raise FileNotWrittenError(f"{whole} is the open database and is not replaced; give another name.")
    if os.path.isdir(whole):
        raise FileNotWrittenError(f"{whole} is a folder; give the name of a file in it.")
    draft = whole.with_name(f".{whole.name}.{secrets.token_hex(4)}") if replace else whole
    try:
        _create(draft, as_utf8(text))
        if replace:
            os.replace(draft, whole)
    except FileExistsError as error:
        raise FileThereError(f"{whole} is there already; nothing was written.") from error
    except OSError as error:
        if replace:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
        problem = error.strerror or "it is no path"
        raise FileNotWrittenError(f"{whole} cannot be written ({problem}); give another name.") from error
    except ValueError as error:  # a name with a NUL
        raise FileNotWrittenError("That is no name of a file; give another one.") from error
    return whole


def _create(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        raise


def as_utf8(text: str) -> bytes:
    """A text of the database as UTF-8 for every reader: what was none is U+FFFD, as the engine reads it."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
