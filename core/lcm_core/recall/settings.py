"""The settings that recall goes by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from lcm_core.settings import Settings, SettingSource
from lcm_core.settings.engine import EngineSettings


@dataclass(frozen=True, slots=True)
class RecallSettings:
    """What a call is answered by, besides its parameters. Tokens are estimates."""

    large_files_dir: Path
    state_dir: Path
    zone: tzinfo | None  #: in which answers show times; None: that of this machine
    max_expand_tokens: int = 4_000
    delegation_timeout_ms: int = 120_000
    expansion_provider: str = ""
    expansion_model: str = ""
    #: In which a time without a zone is read: that of the process, which `timezone` does not change.
    local: tzinfo | None = None


def recall_settings(settings: Settings) -> RecallSettings:
    """Those of an operator."""
    return engine_recall(settings.engine, settings.large_files_dir.value, settings.state_dir.value)


def engine_recall(engine: EngineSettings, large_files_dir: Path, state_dir: Path) -> RecallSettings:
    """Those of an engine whose files are in these folders."""
    zone = None if engine.timezone.value is None else ZoneInfo(engine.timezone.value)
    return RecallSettings(
        large_files_dir=large_files_dir,
        state_dir=state_dir,
        zone=zone,
        max_expand_tokens=engine.max_expand_tokens.value,
        delegation_timeout_ms=engine.delegation_timeout_ms.value,
        expansion_provider=engine.expansion_provider.value,
        expansion_model=engine.expansion_model.value,
        local=zone if engine.timezone.source is SettingSource.ENVIRONMENT else None,
    )
