"""``prompts``: what a model is asked when it summarises, and the operator's own versions of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from lcm_core.base.diff import compare_texts, unified_text
from lcm_core.base.errors import FileMissingError, RefusedError, UsageError
from lcm_core.base.files import make_private
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

from lcm_tui.cli import options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import argument, command, flag, option
from lcm_tui.cli.documents import Document
from lcm_tui.cli.kinds import Completed, FilePath, Pair, WholeNumber
from lcm_tui.tables.blocks import (
    Facts,
    ListColumn,
    Note,
    OutputBlock,
    OutputColumn,
    Prose,
    Table,
    json_of,
    list_table,
)

_MAX_TARGET = 1_000_000
#: What a prompt is filled with, beside what is in it.
_FILLED: Final = ("aggressive", "tokens", "source", "previous")
_SAMPLE = f"""[2026-03-02 09:14 UTC]
Move the importer to the new queue. It must never drop a message, not even on a restart.

[2026-03-02 09:21 UTC]
Done in src/importer.py; 214 tests pass. The retry limit is still 3, which we wanted to discuss.
{FILES} src/importer.py (changed)
{CLOSING} the tests"""


# fmt: off
#: What is said of each prompt.
PROMPT_COLUMNS: Final[tuple[ListColumn[PromptTemplate, None], ...]] = (
    ListColumn("name", heading="Prompt", json="name", value="name"),
    ListColumn("version", right=True, heading="Version", json="version", value="version"),
    ListColumn("built_in", right=True, heading="Built in", json="builtInVersion", value="built_in_version"),
    ListColumn("path", json="path", value=lambda one: None if one.path is None else str(one.path)),
    ListColumn("from", grows=True, heading="From", value=lambda one: str(one.path or "built in")),
    ListColumn("warning", json="warning", value="warning"),
)
# fmt: on


@command(
    "prompts",
    forms=("csv",),
    examples=(
        "prompts",
        "prompts leaf --diff",
        "prompts condensed-d1 --with aggressive=yes",
        "prompts leaf --to prompts",
    ),
)
@argument(
    "prompt", Completed(*TEMPLATES), "[PROMPT]", f"One of {', '.join(TEMPLATES)}; else all.", required=False
)
@options.prompt_folder
@flag("--diff", "Show how your version differs from the built-in one.")
@option(
    "--with",
    Pair(*_FILLED),
    "NAME=VALUE",
    "Show it as a model would receive it; nothing is sent. The values: aggressive=yes (the prompt "
    "used after an answer that was too long), tokens=N (the target; 1200 by default), source=FILE (default: "
    "a sample), previous=FILE (the previous context; default: none); may be given several times.",
    into="given",
    multiple=True,
)
@option(
    "--to",
    FilePath(text=True),
    "DIR",
    "Write it as it is built in to a file in this folder, for editing; without a PROMPT, all of them.",
)
@flag("--force", "With --to: replace existing files.")
def prompts(
    run: Run,
    *,
    prompt: str | None,
    prompt_dir: Path | None,
    diff: bool,
    given: tuple[tuple[str, str], ...],
    to: Path | None,
    force: bool,
) -> Answer:
    """List the prompts, their versions, and which of them are yours; or show one, your version of it."""
    if to is not None:
        options.alone("--to", "--force")
        return _export(run, TEMPLATES if prompt is None else [prompt], to, replace=force)
    if force:
        raise UsageError("--force requires --to.", details={"option": "force"})
    if diff and given:
        raise UsageError("--diff and --with exclude each other.", details={"option": "diff"})
    if (diff or given) and prompt is None:
        raise UsageError("prompts needs a PROMPT with --diff and --with.", details={"option": "PROMPT"})
    own = run.settings.user_config_file.value
    known = operators_prompts(own) if prompt_dir is None else prompts_at(prompt_dir)
    if prompt is None:
        return _listed(run, known)
    if given:
        return _sent(run, known, prompt, dict(given))
    if diff:
        return _compared(run, known, prompt)
    template = known.template(prompt)
    data: Document = {**json_of(PROMPT_COLUMNS, template), "text": template.text}
    blocks: list[OutputBlock] = [Prose(template.text.rstrip("\n")), *map(Note, _warnings([template]))]
    return run.answer("prompts", data, blocks)


def _listed(run: Run, prompts: PromptTemplates) -> Answer:
    templates = prompts.all()
    warnings = _warnings(templates)
    data: Document = {
        "folder": str(prompts.folder or prompts.file),
        "items": [json_of(PROMPT_COLUMNS, one) for one in templates],
        "variables": dict(VARIABLES),
        "warnings": list(warnings),
    }
    variables = Facts([(name, words) for name, words in VARIABLES.items()], title="Placeholders of a prompt")
    table = list_table(PROMPT_COLUMNS, templates, run.time)
    place = Note(f"Prompts of yours are read from {data['folder']}.")
    return run.answer("prompts", data, [table, place, variables, *map(Note, warnings)])


def _sent(run: Run, prompts: PromptTemplates, prompt: str, given: Mapping[str, str]) -> Answer:
    built_in_template(prompt)  # refuses an unknown name
    files = {name: _file(name, given[name]) for name in ("source", "previous") if name in given}
    request = SummaryRequest(
        text=files.get("source", _SAMPLE),
        aggressive=given.get("aggressive", "no") == "yes",
        depth=TEMPLATES.index(prompt),
        target_tokens=WholeNumber(1, _MAX_TARGET).read("with", given.get("tokens", "1200")),
        previous=files.get("previous"),
        instructions=run.settings.engine.custom_instructions.value,
    )
    made = prompts.render(request)
    data: Document = {**json_of(PROMPT_COLUMNS, made.template), "system": made.system, "user": made.user}
    blocks: list[OutputBlock] = [
        Prose(made.system, title="System"),
        Prose(made.user, title="Request"),
        *map(Note, _warnings([made.template])),
    ]
    return run.answer("prompts", data, blocks)


def _compared(run: Run, prompts: PromptTemplates, prompt: str) -> Answer:
    template, built_in = prompts.template(prompt), built_in_template(prompt)
    lines = list(unified_text(compare_texts(built_in.text, template.text)))
    data: Document = {**json_of(PROMPT_COLUMNS, template), "lines": list(lines)}
    if template.path is None:
        blocks: list[OutputBlock] = [
            Note(f"There is no {prompts.path_of(prompt)}: the built-in prompt is used.")
        ]
    elif lines:
        head = [f"--- built-in, version {built_in.version}", f"+++ {template.path}"]
        blocks = [Prose("\n".join([*head, *lines]))]
    else:
        blocks = [Note(f"{template.path} is the same as the built-in prompt.")]
    return run.answer("prompts", data, [*blocks, *map(Note, _warnings([template]))])


def _export(run: Run, names: Sequence[str], folder: Path, *, replace: bool) -> Answer:
    """Write built-in prompts to files."""
    chosen = [built_in_template(name) for name in names]
    targets = [(folder / (template.name + SUFFIX), template) for template in chosen]
    there = [path for path, _ in targets if path.exists() or path.is_symlink()]
    if there and not replace:
        raise RefusedError(
            f"{', '.join(map(str, there))} {'is' if len(there) == 1 else 'are'} there already, and nothing "
            "was written: add --force to replace, or --to to write elsewhere.",
            details={"path": str(there[0]), "existing": len(there)},
        )
    for path, template in targets:
        _write(path, template.text, replace=replace)
    data: Document = {"folder": str(folder), "written": [str(path) for path, _ in targets]}
    note = Note(
        "Files in the folder of your prompts are used from now on; remove a file to use the built-in prompt "
        "again."
    )
    return run.answer(
        "prompts",
        data,
        [Table((OutputColumn("Written"),), [(str(path),) for path, _ in targets]), note],
    )


def _warnings(templates: Sequence[PromptTemplate]) -> list[str]:
    return [warning for template in templates if (warning := template.warning)]


def _file(option: str, name: str) -> str:
    try:
        return Path(name).expanduser().read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        raise FileMissingError("file", Path(name), f"Check --with {option}=FILE.") from None
    except OSError as error:
        raise PromptError(
            f"The file {name} of --with {option}= cannot be read ({error.strerror}).",
            code="FILE_UNREADABLE",
            details={"option": "with", "path": name},
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
