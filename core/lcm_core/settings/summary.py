"""Which model summarises: flags, ``LCM_TUI_SUMMARY_*``, ``LCM_SUMMARY_*``, then the config files.

Only what was said is resolved here. Whether provider and model fit, and which key belongs to them, is decided
in `lcm_core.summarize.models`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from lcm_core.settings.engine import EngineSettings, Key, first_valid
from lcm_core.settings.host_config import MASK, HostVariables, PluginConfig
from lcm_core.settings.values import (
    LARGEST_NUMBER,
    Diagnostic,
    Json,
    Problem,
    SettingSource,
    Sourced,
    integer,
    invalid_value,
    parsed,
    plain_text,
    real_number,
)

#: The table of our config file.
TABLE: Final = "summary"


def address(value: Json) -> str:
    """A URL. What may be a secret in it is masked, since settings are shown; a masked one is never used."""
    masked = re.sub(r"(?<=//)[^/@\s]*@", f"{MASK}@", plain_text(value))
    return re.sub(r"(?<=[?#]).*", MASK, masked).rstrip("/")


_PROVIDER: Final = Key((), ("LCM_TUI_SUMMARY_PROVIDER", "LCM_SUMMARY_PROVIDER"), plain_text)
_MODEL: Final = Key((), ("LCM_TUI_SUMMARY_MODEL", "LCM_SUMMARY_MODEL"), plain_text)
_BASE_URL: Final = Key((), ("LCM_TUI_SUMMARY_BASE_URL", "LCM_SUMMARY_BASE_URL"), address)
#: The operator's own key; it belongs to the provider that ``LCM_TUI_SUMMARY_PROVIDER`` names.
API_KEY_VARIABLE: Final = "LCM_TUI_SUMMARY_API_KEY"
ENV_NAMES: Final = frozenset((*_PROVIDER.env, *_MODEL.env, *_BASE_URL.env, API_KEY_VARIABLE))
_FIELDS: Final = {
    "provider": plain_text,
    "model": plain_text,
    "base_url": address,
    "input_price": real_number(0),
    "output_price": real_number(0),
    "max_calls": integer(1, LARGEST_NUMBER),
    "max_cost": real_number(0),
}


@dataclass(frozen=True, slots=True)
class SummarySettings:
    """What was said about the model that summarises; an empty text or None: nothing."""

    provider: Sourced[str] = field(default=Sourced(""))
    model: Sourced[str] = field(default=Sourced(""))
    base_url: Sourced[str] = field(default=Sourced(""))
    input_price: Sourced[float | None] = field(default=Sourced(None))  #: USD for a million tokens
    output_price: Sourced[float | None] = field(default=Sourced(None))
    max_calls: Sourced[int | None] = field(default=Sourced(None))
    max_cost: Sourced[float | None] = field(default=Sourced(None))  #: USD
    timeout: float = 60.0  #: s, for one call

    def with_flags(
        self,
        *,
        provider: str | None = None,
        model: str | None = None,
        base_url: str | None = None,
        max_calls: int | None = None,
        max_cost: float | None = None,
    ) -> SummarySettings:
        """These settings under what the command line gave; None is "not given"."""
        flags = {
            "provider": provider,
            "model": model,
            "base_url": base_url if base_url is None else address(base_url),
            "max_calls": max_calls,
            "max_cost": max_cost,
        }
        given: dict[str, Any] = {
            name: Sourced(value, SettingSource.COMMAND_LINE, f"--{name.replace('_', '-')}")
            for name, value in flags.items()
            if value is not None
        }
        return replace(self, **given)


def read_summary(
    environ: Mapping[str, str], table: Json, engine: EngineSettings, diagnostics: list[Diagnostic]
) -> SummarySettings:
    """Resolve what environment, our config file (its table *table*) and the plugin's config say."""
    ours = _table(table, diagnostics)
    found: dict[str, Any] = dict(ours)
    for name, key in (("provider", _PROVIDER), ("model", _MODEL), ("base_url", _BASE_URL)):
        value = first_valid(key, HostVariables(environ), PluginConfig(), diagnostics)
        if value is not None:
            found[name] = value
    if "provider" not in found and engine.summary_provider.is_set:
        found["provider"] = engine.summary_provider
    if "model" not in found and engine.summary_model.is_set:
        found["model"] = engine.summary_model
    return SummarySettings(
        timeout=engine.summary_timeout_ms.value / 1000,
        **found,
    )


def _table(table: Json, diagnostics: list[Diagnostic]) -> Mapping[str, Sourced[Any]]:
    if table is None:
        return {}
    if not isinstance(table, Mapping):
        diagnostics.append(invalid_value(TABLE, table, "which is not a table"))
        return {}
    found: dict[str, Sourced[Any]] = {}
    for name, value in table.items():
        where = f"{TABLE}.{name}"
        parse = _FIELDS.get(name)
        if parse is None:
            known = ", ".join(_FIELDS)
            message = f"{where} is not a known setting; known are {known}."
            diagnostics.append(Diagnostic(Problem.UNKNOWN_KEY, where, message))
        elif one := parsed(where, value, parse, SettingSource.USER_CONFIG, diagnostics):
            found[name] = one
    return found
