"""The settings that recall goes by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from lcm_core.settings import Settings


@dataclass(frozen=True, slots=True)
class RecallSettings:
    """What a call is answered by, besides its parameters. Tokens are estimates."""

    large_files_dir: Path
    state_dir: Path
    zone: tzinfo | None  #: None: that of this machine
    max_expand_tokens: int = 4_000
    delegation_timeout_ms: int = 120_000
    expansion_provider: str = ""
    expansion_model: str = ""


def recall_settings(settings: Settings) -> RecallSettings:
    """Those of an operator."""
    engine = settings.engine
    name = engine.timezone.value
    return RecallSettings(
        large_files_dir=settings.large_files_dir.value,
        state_dir=settings.state_dir.value,
        zone=None if name is None else ZoneInfo(name),
        max_expand_tokens=engine.max_expand_tokens.value,
        delegation_timeout_ms=engine.delegation_timeout_ms.value,
        expansion_provider=engine.expansion_provider.value,
        expansion_model=engine.expansion_model.value,
    )
