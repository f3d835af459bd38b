"""``config show``, ``config get`` and the refusal of ``config set``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from lcm_core.settings import Json, SettingSource
from lcm_core.settings.show import config_value, config_view, sourced_settings

from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document
from lcm_tui.cli.machine import json_text
from lcm_tui.views.blocks import Block, Cell, Column, Facts, Prose, Table

#: Where a setting comes from, in the words of the engine's command.
_ENGINE_WORDS: Final = {
    SettingSource.ENVIRONMENT: "env",
    SettingSource.PLUGIN_CONFIG: "plugin-config",
    SettingSource.DEFAULT: "default",
}


def show(run: Run) -> Answer:
    """Show the settings: as they stand in the file (secrets masked), as they apply, and where from."""
    view = config_view(run.settings)
    found = sourced_settings(run.settings)
    patterns: Document = {}
    for name in ("ignoreSessionPatterns", "statelessSessionPatterns"):
        patterns[f"{name}Source"] = _ENGINE_WORDS[found[name].source]
    for name in ("ignoreSessionPatterns", "statelessSessionPatterns"):
        overrules = found[name].source is SettingSource.ENVIRONMENT and name in view.raw
        patterns[f"{name}EnvOverridesPluginConfig"] = overrules
    data: Document = {
        "configPath": str(run.settings.config_file.value),
        "raw": view.raw,
        "effective": view.effective,
        "diagnostics": patterns,
        "environmentOverrides": list(view.overriding),
        "sources": dict(view.sources),
        "problems": [
            {"problem": note.problem, "where": note.where, "message": note.message}
            for note in view.diagnostics
        ],
        "activeEnv": list(view.active_env),
        "withoutEffect": list(view.without_effect),
        "retired": dict(view.retired),
    }
    settings = run.settings
    missing = " (cannot be used)" if settings.config_unusable else ""
    if not settings.config_found:
        missing = " (does not exist)"
    facts: list[tuple[str, Cell]] = [
        ("Host's config", f"{settings.config_file.value}{missing}"),
        ("Plugin's block", settings.plugin_place or None),
        ("Our config", str(settings.user_config_file.value)),
        ("Environment", ", ".join(view.active_env) or None),
    ]
    columns = (Column("Setting"), Column("Value", grows=True), Column("From"))
    rows = [
        (
            name,
            _shown(value),
            _from(
                view.sources.get(name, ""),
                has_effect=name not in view.without_effect,
                retired=view.retired.get(name),
            ),
        )
        for name, value in _leaves(view.effective, view.sources)
    ]
    blocks: list[Block] = [Facts(facts), Table(columns, rows)]
    if view.diagnostics:
        blocks.append(Prose("\n".join(note.message for note in view.diagnostics), title="Skipped"))
    return run.answer("config.show", data, blocks)


def get(run: Run, path: str) -> Answer:
    """Show one setting by its path."""
    found = config_value(run.settings, path)
    data: Document = {
        "path": found.path,
        "isSet": found.is_set,
        "rawValue": found.raw,
        "effectiveValue": found.effective,
        "value": found.value,
        "origin": found.origin,
        "source": found.source,
        "hasEffect": found.has_effect,
        "retired": found.retired,
    }
    facts: list[tuple[str, Cell]] = [
        (found.path, _shown(found.value)),
        ("from", _from(found.source or found.origin, has_effect=found.has_effect, retired=found.retired)),
    ]
    return run.answer("config.get", data, [Facts(facts)])


def _from(source: str, *, has_effect: bool, retired: str | None) -> str:
    """Where a setting comes from, and that it is the engine's alone where nothing here goes by it."""
    if retired:
        return f"{source}; retired in {retired}"
    return source if has_effect else f"{source}; no effect here"


def _leaves(
    tree: Mapping[str, Json], sources: Mapping[str, str], place: str = ""
) -> Iterator[tuple[str, Json]]:
    for name, value in tree.items():
        dotted = f"{place}{name}"
        if isinstance(value, Mapping) and dotted not in sources:
            yield from _leaves(value, sources, f"{dotted}.")
        else:
            yield dotted, value


def _shown(value: Json) -> Cell:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
        return ", ".join(map(str, value)) or None
    return json_text(value)
