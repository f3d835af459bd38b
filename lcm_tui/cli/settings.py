"""``config`` and ``prompts``: the settings in effect, and the prompts with the operator's own versions."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from lcm_core.base.diff import compare_texts, unified_text
from lcm_core.base.errors import FileMissingError, RefusedError
from lcm_core.base.files import make_private
from lcm_core.base.setting_values import Json, SettingSource
from lcm_core.base.settings_listed import config_value, config_view, sourced_settings
from lcm_core.base.values import to_json
from lcm_core.writers.prompts import (
    CLOSING,
    FILES,
    VARIABLES,
    PromptError,
    PromptTemplate,
    PromptTemplates,
    built_in_template,
    operators_prompts,
    prompts_at,
)
from lcm_core.writers.request import SummaryRequest
from lcm_prompts import SUFFIX, TEMPLATES

from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.machine import json_text
from lcm_tui.tables.blocks import Cell, Facts, Note, OutputBlock, OutputColumn, Prose, Table

# -- config ----------------------------------------------------------------------------------------------
# ``config show``, ``config get`` and the refusal of ``config set``.

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
        **some_of(view, "raw effective"),
        "diagnostics": patterns,
        **some_of(view, "overriding sources diagnostics active_env without_effect retired"),
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
    columns = (OutputColumn("Setting"), OutputColumn("Value", grows=True), OutputColumn("From"))
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
    blocks: list[OutputBlock] = [Facts(facts), Table(columns, rows)]
    if view.diagnostics:
        blocks.append(Prose("\n".join(note.message for note in view.diagnostics), title="Skipped"))
    return run.answer("config.show", data, blocks)


def get(run: Run, path: str) -> Answer:
    """Show one setting by its path."""
    found = config_value(run.settings, path)
    facts: list[tuple[str, Cell]] = [
        (found.path, _shown(found.value)),
        ("from", _from(found.source or found.origin, has_effect=found.has_effect, retired=found.retired)),
    ]
    return run.answer("config.get", to_json(found), [Facts(facts)])


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


# -- prompts ---------------------------------------------------------------------------------------------
# The prompts for summaries, and the operator's own versions of them.

#: What is answered of each prompt.
_SHOWN: Final = "name version built_in_version path warning"
_SAMPLE = f"""[2026-03-02 09:14 UTC]
Move the importer to the new queue. It must never drop a message, not even on a restart.

[2026-03-02 09:21 UTC]
Done in src/importer.py; 214 tests pass. The retry limit is still 3, which we wanted to discuss.
{FILES} src/importer.py (changed)
{CLOSING} the tests"""


def list_(run: Run, prompt_dir: Path | None) -> Answer:
    """List the prompts, their versions, and which of them are yours."""
    prompts = prompts_of(run, prompt_dir)
    templates = prompts.all()
    columns = (
        OutputColumn("Prompt"),
        OutputColumn("Version", right=True),
        OutputColumn("Built in", right=True),
        OutputColumn("From", grows=True),
    )
    rows = [(one.name, one.version, one.built_in_version, _origin(one)) for one in templates]
    warnings = _warnings(templates)
    data: Document = {
        "folder": str(prompts.folder or prompts.file),
        "items": [some_of(one, _SHOWN) for one in templates],
        "variables": dict(VARIABLES),
        "warnings": list(warnings),
    }
    variables = Facts([(name, words) for name, words in VARIABLES.items()], title="Placeholders of a prompt")
    return run.answer("prompts.list", data, [Table(columns, rows), variables, *map(Note, warnings)])


def show_prompt(run: Run, prompt: str, prompt_dir: Path | None) -> Answer:
    """Show a prompt as it is written, yours when you have one."""
    template = prompts_of(run, prompt_dir).template(prompt)
    data: Document = some_of(template, f"{_SHOWN} text")
    blocks: list[OutputBlock] = [Prose(template.text.rstrip("\n")), *map(Note, _warnings([template]))]
    return run.answer("prompts.show", data, blocks)


def render(
    run: Run,
    prompt: str,
    prompt_dir: Path | None,
    aggressive: bool,
    target_tokens: int,
    source: str | None,
    previous_context: str | None,
) -> Answer:
    """Show a prompt as a model would get it. Nothing is sent."""
    built_in_template(prompt)  # refuses an unknown name
    request = SummaryRequest(
        text=_SAMPLE if source is None else _file("source", source),
        aggressive=aggressive,
        depth=TEMPLATES.index(prompt),
        target_tokens=target_tokens,
        previous=None if previous_context is None else _file("previous-context", previous_context),
        instructions=run.settings.engine.custom_instructions.value,
    )
    made = prompts_of(run, prompt_dir).render(request)
    data: Document = {**some_of(made.template, _SHOWN), "system": made.system, "user": made.user}
    blocks: list[OutputBlock] = [
        Prose(made.system, title="System"),
        Prose(made.user, title="Request"),
        *map(Note, _warnings([made.template])),
    ]
    return run.answer("prompts.render", data, blocks)


def diff(run: Run, prompt: str, prompt_dir: Path | None) -> Answer:
    """Show how your version of a prompt differs from the built-in one."""
    prompts = prompts_of(run, prompt_dir)
    template, built_in = prompts.template(prompt), built_in_template(prompt)
    lines = list(unified_text(compare_texts(built_in.text, template.text)))
    data: Document = {**some_of(template, _SHOWN), "lines": list(lines)}
    if template.path is None:
        blocks: list[OutputBlock] = [
            Note(f"There is no {prompts.path_of(prompt)}: the built-in prompt is used.")
        ]
    elif lines:
        head = [f"--- built-in, version {built_in.version}", f"+++ {template.path}"]
        blocks = [Prose("\n".join([*head, *lines]))]
    else:
        blocks = [Note(f"{template.path} is the same as the built-in prompt.")]
    return run.answer("prompts.diff", data, [*blocks, *map(Note, _warnings([template]))])


def export(run: Run, prompts: Sequence[str], to: Path | None, *, force: bool) -> Answer:
    """Write built-in prompts to files in *to*, or in the folder beside our config."""
    folder = operators_prompts(run.settings.user_config_file.value).folder if to is None else to
    assert folder is not None
    chosen = [built_in_template(name) for name in dict.fromkeys(prompts or TEMPLATES)]
    targets = [(folder / (template.name + SUFFIX), template) for template in chosen]
    there = [path for path, _ in targets if path.exists() or path.is_symlink()]
    if there and not force:
        raise RefusedError(
            f"{', '.join(map(str, there))} {'is' if len(there) == 1 else 'are'} there already, and nothing "
            "was written: add --force to replace, or --to to write elsewhere.",
            details={"path": str(there[0]), "existing": len(there)},
        )
    for path, template in targets:
        _write(path, template.text, replace=force)
    data: Document = {"folder": str(folder), "written": [str(path) for path, _ in targets]}
    note = Note(
        "Files in the folder of your prompts are used from now on; remove a file to use the built-in prompt "
        "again."
    )
    return run.answer(
        "prompts.export",
        data,
        [Table((OutputColumn("Written"),), [(str(path),) for path, _ in targets]), note],
    )


def prompts_of(run: Run, given: Path | None) -> PromptTemplates:
    """The prompts in force: *given* by an option, else the folder beside our config file."""
    if given is None:
        return operators_prompts(run.settings.user_config_file.value)
    return prompts_at(given)


def _origin(template: PromptTemplate) -> str:
    return "built in" if template.path is None else str(template.path)


def _warnings(templates: Sequence[PromptTemplate]) -> list[str]:
    return [warning for template in templates if (warning := template.warning)]


def _file(option: str, name: str) -> str:
    try:
        return Path(name).expanduser().read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        raise FileMissingError("file", Path(name), f"Check --{option}.") from None
    except OSError as error:
        raise PromptError(
            f"The file {name} of --{option} cannot be read ({error.strerror}).",
            code="FILE_UNREADABLE",
            details={"option": option, "path": name},
        ) from None


def _write(path: Path, text: str, *, replace: bool) -> None:
    """Write a file; a link in its place is replaced and not followed."""
    written = path.with_name(f".{path.name}.{os.getpid()}") if replace else path
    begun = False
    try:
        make_private(path.parent)
        with written.open("x", encoding="utf-8", newline="\n") as file:
            begun = True
            file.write(text)
        if replace:
            written.replace(path)
    except OSError as error:
        if begun:
            written.unlink(missing_ok=True)  # half a prompt would be taken for a whole one
        raise RefusedError(
            f"The prompt could not be written to {path} ({error.strerror}); choose another folder with --to.",
            code="FILE_NOT_WRITTEN",
            details={"path": str(path)},
        ) from None
