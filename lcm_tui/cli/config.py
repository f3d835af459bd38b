"""``config``: the settings in effect, all or one; none is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lcm_core.base.errors import RefusedError
from lcm_core.base.setting_values import Json, SettingSource
from lcm_core.base.settings import Settings
from lcm_core.base.settings_listed import config_value, config_view, sourced_settings

from lcm_tui.cli.answer import OURS, Answer, Run
from lcm_tui.cli.command import argument, command
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.kinds import SettingPath, StoredText
from lcm_tui.tables.blocks import Cell, Facts, OutputBlock, Prose, list_table
from lcm_tui.tables.settings import SETTING_COLUMNS, all_settings, effect_note, setting_text

#: Where a setting comes from, in the words of the engine's command.
_ENGINE_WORDS: Final = {
    SettingSource.ENVIRONMENT: "env",
    SettingSource.PLUGIN_CONFIG: "plugin-config",
    SettingSource.DEFAULT: "default",
}
#: Settings that the engine's command does not print, as it does none that nothing sets.
_NOT_THEIRS: Final = frozenset(
    ("largeFileThresholdTokens", "preserveHeartbeatPoll", "dbPath", "stateDir", "sessions", "tui")
)


@command("config", examples=("config", "config freshTailCount"))
@argument(
    "path",
    SettingPath(),
    "[PATH]",
    "Only this setting: a dotted path such as freshTailCount or raw.summaryModel.",
    required=False,
)
@argument(
    "value",
    StoredText(),
    "[VALUE]",
    "Refused, with what to do instead: lcm-tui does not write the host's configuration.",
    required=False,
)
def config(run: Run, *, path: str | None, value: str | None) -> Answer:
    """Show the settings, or one of them: values in the files (secrets masked), effective values, sources."""
    if path is None:
        return _all(run)
    found = config_value(run.settings, path)
    if value is not None:
        raise _refused(run.settings, path)
    note = effect_note(has_effect=found.has_effect, retired=found.retired)
    facts: list[tuple[str, Cell]] = [
        (found.path, setting_text(found.value)),
        ("from", f"{found.source or found.origin}{note}"),
    ]
    data = {
        **some_of(found, "path is_set raw effective"),
        OURS: some_of(found, "value origin source has_effect retired"),
    }
    return run.answer("config.get", data, [Facts(facts)])


def _all(run: Run) -> Answer:
    view = config_view(run.settings)
    found = sourced_settings(run.settings)
    sources = {name: found[name].source for name in ("ignoreSessionPatterns", "statelessSessionPatterns")}
    patterns: Document = {f"{name}Source": _ENGINE_WORDS[source] for name, source in sources.items()}
    for name, source in sources.items():
        overrules = source is SettingSource.ENVIRONMENT and name in view.raw
        patterns[f"{name}EnvOverridesPluginConfig"] = overrules
    effective, beside = _divided(view.effective)
    data: Document = {
        "configPath": str(run.settings.config_file.value),
        "raw": view.raw,
        "effective": effective,
        "diagnostics": patterns,
        **some_of(view, "overriding"),
        OURS: {
            "effective": beside,
            **some_of(view, "sources diagnostics active_env without_effect retired"),
        },
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
    rows = list(all_settings(settings))
    blocks: list[OutputBlock] = [Facts(facts), list_table(SETTING_COLUMNS, rows, run.time)]
    if view.diagnostics:
        blocks.append(Prose("\n".join(note.message for note in view.diagnostics), title="Skipped"))
    return run.answer("config.show", data, blocks)


def _refused(settings: Settings, path: str) -> RefusedError:
    """The refusal to write a setting."""
    key = path.removeprefix("raw.").removeprefix("effective.")
    place = settings.plugin_place or "plugins.entries.lossless-claw.config"
    return RefusedError(
        "lcm-tui does not write the host's configuration: the file is the host's, and writing it anew would "
        f"lose its comments. Set {place}.{key} in {settings.config_file.value} yourself, or with the "
        f"engine's own command (from 0.14.0): lcm config set {key} VALUE. `lcm-tui config {key}` then "
        "shows what applies.",
        details={"path": path},
    )


def _divided(tree: Mapping[str, Json]) -> tuple[Document, Document]:
    """Settings as the engine's command has them, and those that it leaves out."""
    theirs: Document = {}
    ours: Document = {}
    for name, value in tree.items():
        if isinstance(value, Mapping) and name not in _NOT_THEIRS:
            theirs[name], rest = _divided(value)
            if rest:
                ours[name] = rest
        else:
            (ours if value is None or name in _NOT_THEIRS else theirs)[name] = value
    return theirs, ours
