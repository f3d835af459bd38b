"""Settings: command line, environment and config files, resolved once into one frozen `Settings`."""

from lcm_core.settings.engine import EngineSettings
from lcm_core.settings.resolve import Options, Settings, resolve
from lcm_core.settings.summary import SummarySettings
from lcm_core.settings.values import (
    Diagnostic,
    Json,
    JsonObject,
    OutputFormat,
    Problem,
    SettingSource,
    Sourced,
)

__all__ = [
    "Diagnostic",
    "EngineSettings",
    "Json",
    "JsonObject",
    "Options",
    "OutputFormat",
    "Problem",
    "SettingSource",
    "Settings",
    "Sourced",
    "SummarySettings",
    "resolve",
]
