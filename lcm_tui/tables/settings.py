"""The settings in words: what each is now, where that comes from, and how to change it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, Final, cast

from lcm_core.base.engine_settings import KEYS, EngineSettings
from lcm_core.base.settings import Settings
from lcm_core.base.settings_listed import config_view, sourced_settings
from lcm_core.base.text import safe_line
from lcm_core.base.values import Record

from lcm_tui.kit.spans import Block, Document, Span, heading
from lcm_tui.tables.blocks import ListColumn
from lcm_tui.tables.machine import json_text

#: What people type who look for all of them.
SETTINGS_WORDS: Final = ("settings", "configuration", "config", "options", "preferences")
#: The cells before a value.
NAME: Final = 32


class SettingLine(Record, frozen=True):
    """A setting."""

    name: str  #: dotted
    value: str
    source: str  #: what set it; empty: the default
    default: str  #: of one that is set, when it is known; else empty
    change: str  #: a sentence
    note: str  #: that nothing here goes by it, or engines no longer; else empty

    @property
    def origin(self) -> str:
        """What set it, and whether that matters."""
        return f"{self.source or 'default'}{self.note}"

    @property
    def said(self) -> str:
        """The value, and where it comes from."""
        default = f"; the default is {self.default}" if self.default else ""
        said = f"set by {self.source}{default}" if self.source else "the default"
        return f"{self.value}, {said}{self.note}"


SETTING_COLUMNS: Final[tuple[ListColumn[SettingLine, None], ...]] = (
    ListColumn("name", heading="Setting", value="name"),
    ListColumn("value", heading="Value", grows=True, value="value"),
    ListColumn("from", heading="From", value="origin"),
)


#: How paths are set that no block of a file holds alone (docs/configuration.md, the first table).
_WAYS: Final = {
    "stateDir": "--openclaw-dir or LCM_OPENCLAW_DIR",
    "dbPath": "--db or LCM_DATABASE_PATH",
    "largeFilesDir": "LCM_LARGE_FILES_DIR",
    "sessions": "--sessions",
}


def setting_text(value: object) -> str:
    """A value as the files write it; what is empty in words."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return safe_line(json_text(value))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(setting_text, value)) or "none"
    return "not set" if value is None or value == "" else safe_line(str(value))


def effect_note(*, has_effect: bool, retired: str | None) -> str:
    """That a setting is the engine's alone because nothing here goes by it, or that engines no longer do."""
    if retired:
        return f"; retired in {retired}"
    return "" if has_effect else "; no effect here"


def all_settings(settings: Settings) -> Iterator[SettingLine]:
    """Every setting, as it is now."""
    usual, view = EngineSettings(), config_view(settings)
    by_name = {key.name: (getattr(usual, attribute).value, key) for attribute, key in KEYS.items()}
    for name, held in sourced_settings(settings).items():
        default, change = "", f"Change it with {_WAYS[name]}." if name in _WAYS else ""
        if name in by_name:
            default, key = setting_text(by_name[name][0]), by_name[name][1]
            variable = f", or set {key.env[0]}" if key.env else ""
            change = f"Change {name} in the plugin's block of {settings.config_file.value}{variable}."
        elif name.startswith("tui."):
            change = f"Change it in {settings.user_config_file.value}."
        source = safe_line(held.name or str(held.source)) if held.is_set else ""
        value = reduce(lambda tree, step: tree[step], name.split("."), cast(Any, view.effective))
        note = effect_note(has_effect=name not in view.without_effect, retired=view.retired.get(name))
        yield SettingLine(
            name, setting_text(value), source, default if source else "", safe_line(change), note
        )


def settings_document(settings: Settings) -> Document:
    """All of them below each other, and above them how to change one."""
    block = settings.plugin_place or "plugins.entries.lossless-claw.config"
    return (
        heading("Settings"),
        Block("lcm-tui reads its settings when it starts; nothing here changes them. To change one:"),
        Block(
            safe_line(
                f"tui.…: in {settings.user_config_file.value}, or with an option or LCM_TUI_… variable."
            ),
            indent=2,
        ),
        Block(
            safe_line(
                f"the others: in {settings.config_file.value} under {block}, or with an LCM_… variable."
            ),
            indent=2,
        ),
        Block("lcm-tui config prints the same list."),
        Block(),
        *(
            Block(
                spans=(
                    Span(f"{one.name:<{NAME}} ", "key"),
                    Span(one.value, "text"),
                    Span(one.said.removeprefix(one.value), "text" if one.source else "dim"),
                ),
                indent=NAME + 1,
            )
            for one in all_settings(settings)
        ),
    )
