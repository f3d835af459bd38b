"""Private folders and files: our own folders, files that an operator names, files that are being written.

A partial file has a name of its own until it is complete. Its writer holds a lock (``flock``) on it for as
long as it lives, so a file that can be locked belongs to nobody any more and is removed. The lock is taken
before the file has the name by which it would be found.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import stat
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

import platformdirs

from lcm_core.base.errors import FileMissingError, RefusedError

PROGRAM = "lcm-tui"
#: What a link is whose target was moved or removed.
DEAD_LINK: Final = "a link to something that is not there"
#: Only this user.
_PRIVATE = 0o700


def drafts_folder() -> Path:
    """Where drafts of this user are kept unless a caller says otherwise."""
    return Path(platformdirs.user_state_dir(PROGRAM, appauthor=False)) / "drafts"


def any_drafts() -> bool:
    """Whether any batch left drafts there, of whichever database."""
    folder = drafts_folder()
    return folder.is_dir() and any(folder.iterdir())


def roots() -> tuple[Path, ...]:
    """The folders that are wholly ours, whether or not they are there: data, state, settings, cache, log."""
    named = (
        platformdirs.user_data_dir,
        platformdirs.user_state_dir,
        platformdirs.user_config_dir,
        platformdirs.user_cache_dir,
        platformdirs.user_log_dir,
    )
    return tuple(dict.fromkeys(Path(folder(PROGRAM, appauthor=False)) for folder in named))


def make_private(folder: Path) -> Path:
    """Make a folder, with those above it, and give it back. What is made is this user's alone (0700).

    Those of `roots`, and what is in them down to *folder*, are this user's alone afterwards (0700),
    existing ones too where they belong to this user and are no symbolic link. Another existing folder stays
    as it is.

    Raises:
        OSError: it cannot be made.
    """
    root = next((one for one in roots() if folder == one or one in folder.parents), None)
    for one in reversed((folder, *folder.parents)):
        if not one.is_dir():
            one.mkdir(mode=_PRIVATE, exist_ok=True)
        if root is not None and (one == root or root in one.parents):
            _close(one)
    return folder


def _close(folder: Path) -> None:
    found = folder.lstat()
    if (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.geteuid()
        and stat.S_IMODE(found.st_mode) != _PRIVATE
    ):
        folder.chmod(_PRIVATE)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last, whatever happens to the machine.

    Raises:
        OSError: it cannot be read, or its file system has no such thing.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- what is kept about a database ---------------------------------------------------------------------------
# In the cache folder of an operator; all of it may be deleted at any time.

#: The private index, recent searches, what was worked out at earlier starts, and what the checks have judged.
INDEX, RECENT, FIGURES, VERIFIED = ".index", ".recent", ".figures", ".verified"


def cache_folder() -> Path:
    """Where it is kept unless a caller says otherwise, whether or not it is there yet."""
    return Path(platformdirs.user_cache_dir(PROGRAM, appauthor=False)) / "search"


def cache_path(source: Path, suffix: str, folder: Path | None = None) -> Path:
    """The file of one kind about a database."""
    digest = hashlib.sha256(os.fsencode(os.path.realpath(source))).hexdigest()[:24]
    return (folder or cache_folder()) / f"{digest}{suffix}"


def forget_cache(source: Path, folder: Path | None = None, *, searches: bool = True) -> int:
    """Remove what is kept about a database, and (*searches*) what was searched; how many files there were.

    Raises:
        OSError: one cannot be removed.
    """
    kept = cache_path(source, "", folder)
    suffixes = (INDEX, f"{INDEX}-journal", FIGURES, VERIFIED, *([RECENT] if searches else []))
    drafts = [  # of a run that was killed while it wrote
        draft for kind in (FIGURES, VERIFIED) for draft in kept.parent.glob(f".{kept.name}{kind}.*")
    ]
    removed = 0
    for path in (*(kept.with_name(kept.name + suffix) for suffix in suffixes), *drafts):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
            removed += 1
    return removed


# -- reading a small file --------------------------------------------------------------------------------


def read_limited(path: Path, most: int, *, regular_only: bool = True) -> bytes:
    """A whole file of at most *most* bytes (a whole number of KB or MB); blocks.

    Raises:
        OSError: it cannot be read.
        ValueError: it is larger, or a pipe, a device or a folder where *regular_only* files are read.
    """
    try:
        if regular_only and not stat.S_ISREG(path.stat().st_mode):
            raise ValueError("it is not a regular file")
        with path.open("rb") as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        if path.is_symlink():
            raise OSError(errno.ENOLINK, f"it is {DEAD_LINK}") from None
        raise
    if len(content) > most:
        size = f"{most >> 20} MB" if most >> 20 else f"{most >> 10} KB"
        raise ValueError(f"it is larger than {size}")
    return content


def reason_of(error: OSError | ValueError | RecursionError) -> str:
    """Why a file cannot be used, in the words of the system or of who read it."""
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


# -- a text to a file that an operator named ---------------------------------------------------------------


class FileThereError(RefusedError):
    """A file of that name is there already."""

    default_code = "FILE_EXISTS"


class FileNotWrittenError(RefusedError):
    """The file cannot be written."""

    default_code = "FILE_NOT_WRITTEN"


def write_private(path: Path, text: str, *, replace: bool = False, never: Collection[Path] = ()) -> Path:
    """Write *text* as UTF-8 to a file that only this user can read (0600); gives the whole path.

    An existing file at *path* stays unless *replace* says otherwise; then it is replaced at once.
    *never*: files that are not replaced in any case, such as the open database.

    Raises:
        FileThereError: something of that name is there.
        FileMissingError: its folder is missing.
        FileNotWrittenError: it cannot be written.
    """
    whole = checked_target(path, never=never, replace=replace)
    draft = whole.with_name(f".{whole.name}.{os.urandom(4).hex()}") if replace else whole
    try:
        _create(draft, as_utf8(text))
        if replace:
            os.replace(draft, whole)
    except FileExistsError as error:
        raise FileThereError(f"{whole} already exists; nothing was written.") from error
    except OSError as error:
        if replace:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
        problem = error.strerror or "it is not a path"
        raise FileNotWrittenError(f"{whole} cannot be written ({problem}); give another name.") from error
    except ValueError as error:  # a name with a NUL
        raise FileNotWrittenError("That is not a file name; give another one.") from error
    return whole


def checked_target(path: Path, *, never: Collection[Path] = (), replace: bool = False) -> Path:
    """The whole path of a file that may be written, as `write_private` says.

    Raises:
        FileThereError: something of that name is there, which nobody asked to *replace*.
        FileMissingError: its folder is missing.
        FileNotWrittenError: it is a folder, or one of *never*.
    """
    whole = Path(os.path.abspath(path))
    # `os.path` says no where `Path` raises: of a name that no file can have.
    if os.path.exists(whole) and any(os.path.exists(kept) and whole.samefile(kept) for kept in never):
        raise FileNotWrittenError(f"{whole} is the open database and is not replaced; give another name.")
    if os.path.isdir(whole):
        raise FileNotWrittenError(f"{whole} is a folder; give the name of a file in it.")
    if not os.path.isdir(whole.parent):
        raise FileMissingError(
            "folder", whole.parent, "Create it, or give another name.", code="FOLDER_NOT_FOUND"
        )
    if not replace and os.path.lexists(whole):
        raise FileThereError(f"{whole} already exists; nothing was written.")
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


# -- partial files ------------------------------------------------------------------------------------


_NAME: Final = re.compile(r".+\.lcm-tui-[0-9a-f]{8}\.partial")
#: Names of 0.1, which held no lock: ``<backup>.<hex>.partial`` and ``.conversation-<id>-<hex>.partial``.
_OLD_NAME: Final = re.compile(r"(?:.+\.[0-9a-f]{8}|\.conversation-[0-9]+-[0-9a-f]{8})\.partial")
#: Seconds for which such a file must not have been written.
_OLD_SECONDS: Final = 3_600
#: Files of a folder that are looked at.
_MOST: Final = 10_000


class PartialFile:
    """An empty private file that nobody else is named like, locked until `close`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def create(cls, folder: Path, name: str) -> PartialFile:
        """Make one, after those that killed runs left in *folder* are removed.

        Raises:
            OSError: it cannot be made.
        """
        remove_dead(folder)
        mark = os.urandom(4).hex()
        unnamed = folder / f".{name}.{mark}"
        path = folder / f"{name}.lcm-tui-{mark}.partial"
        descriptor = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with contextlib.suppress(OSError):  # a file system without locks: then nobody removes it either
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unnamed.rename(path)
        except BaseException:
            os.close(descriptor)
            unnamed.unlink(missing_ok=True)
            raise
        return cls(path, descriptor)

    def close(self) -> None:
        """Remove it, unless it was given another name, and let go of it."""
        if self._descriptor < 0:
            return
        try:
            self.path.unlink(missing_ok=True)
        finally:
            os.close(self._descriptor)
            self._descriptor = -1


def remove_dead(folder: Path) -> list[Path]:
    """Remove the partial files of ours in *folder* whose writer is gone; never an error."""
    removed = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for _, entry in zip(range(_MOST), entries, strict=False):
            with contextlib.suppress(OSError):
                if entry.name.endswith(".partial") and _is_dead(Path(entry.path)):
                    os.unlink(entry.path)
                    removed.append(Path(entry.path))
    return removed


def _is_dead(path: Path) -> bool:
    """Whether a file is one of ours that nobody writes any more.

    Raises:
        OSError: it cannot be looked at, or somebody holds it.
    """
    old = not _NAME.fullmatch(path.name)
    if old and not _OLD_NAME.fullmatch(path.name):
        return False
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
        if not ours or (old and time.time() - found.st_mtime < _OLD_SECONDS):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    finally:
        os.close(descriptor)
