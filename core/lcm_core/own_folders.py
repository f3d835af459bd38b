"""The folders of this program for this user: private, also those that an earlier version made otherwise."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import platformdirs

PROGRAM = "lcm-tui"
#: Only this user.
PRIVATE = 0o700


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
    """Make a folder, with those above it, and give it back.

    Those of `roots`, and what lies in them down to *folder*, are this user's alone afterwards (0700),
    existing ones too where they belong to this user and are no symbolic link. Another existing folder stays
    as it is.

    Raises:
        OSError: it cannot be made.
    """
    root = next((one for one in roots() if folder == one or one in folder.parents), None)
    if root is None:
        folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        return folder
    root.parent.mkdir(parents=True, exist_ok=True)
    inner = [one for one in (folder, *folder.parents) if one == root or root in one.parents]
    for one in reversed(inner):
        one.mkdir(mode=PRIVATE, exist_ok=True)
        _close(one)
    return folder


def _close(folder: Path) -> None:
    found = folder.lstat()
    if (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid == os.geteuid()
        and stat.S_IMODE(found.st_mode) != PRIVATE
    ):
        folder.chmod(PRIVATE)
