"""What the checks go by, from the settings: the same for the command line and the health screen."""

from __future__ import annotations

from typing import Final

from lcm_core.base.records import ConversationId
from lcm_core.base.setting_values import SettingSource
from lcm_core.base.settings import Settings
from lcm_core.base.values import replace
from lcm_core.checks.check import Folders, Limits
from lcm_core.checks.check import limits_of as limits_of_engine
from lcm_core.store.schema import Schema

#: Larger files are not read whole unless that is asked for (bytes).
WHOLE_BYTES: Final = 1_000_000_000


def limits_of(settings: Settings, schema: Schema) -> Limits:
    """What the checks measure against, as the file's engine is configured, and how long one is waited for."""
    return replace(limits_of_engine(settings.engine, schema), seconds=settings.check_seconds.value)


def reads_whole_file(conversation: ConversationId | None, size: int) -> bool:
    """Whether what reads the whole file runs unasked: where all of a file is looked at (*size* in bytes)."""
    return conversation is None and size <= WHOLE_BYTES


def folders_of(settings: Settings) -> Folders:
    """Where the files of this database lie; none when the folders are those of another one."""
    state = settings.state_dir
    if not settings.knows_state_dir:
        files = settings.large_files_dir.value if settings.knows_large_files else None
        sessions = settings.sessions.value if settings.sessions.source is not SettingSource.DEFAULT else None
        return Folders(files, None, sessions, settings.engine)
    return Folders(settings.large_files_dir.value, state.value, settings.sessions.value, settings.engine)
