"""``prompts``: what a model is asked when it summarises, and the operator's own versions of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
from lcm_core.base.diff import compare_texts, unified_text
from lcm_core.base.errors import FileMissingError, RefusedError
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
from lcm_tui.cli.command import command
from lcm_tui.cli.documents import Document
from lcm_tui.cli.kinds import FilePath, Raw, RawPath, WholeNumber
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
prompt_argument = click.argument(
    "prompt", type=Raw(), metavar="PROMPT", help=f"One of {', '.join(TEMPLATES)}."
)


@command("prompts list", forms=("csv",))
@options.prompt_folder
def list_(run: Run, *, prompt_dir: Path | None) -> Answer:
    """List the prompts, their versions, and which of them are yours."""
    prompts = prompts_of(run, prompt_dir)
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
    return run.answer("prompts.list", data, [table, variables, *map(Note, warnings)])


@command("prompts show", examples=("prompts show leaf",))
@prompt_argument
@options.prompt_folder
def show(run: Run, *, prompt: str, prompt_dir: Path | None) -> Answer:
    """Show the text of a prompt: your version if you have one."""
    template = prompts_of(run, prompt_dir).template(prompt)
    data: Document = {**json_of(PROMPT_COLUMNS, template), "text": template.text}
    blocks: list[OutputBlock] = [Prose(template.text.rstrip("\n")), *map(Note, _warnings([template]))]
    return run.answer("prompts.show", data, blocks)


@command("prompts render", examples=("prompts render condensed-d1 --aggressive",))
@prompt_argument
@options.prompt_folder
@click.option("--aggressive", is_flag=True, help="The prompt used after an answer that was too long.")
@click.option(
    "--target-tokens",
    type=WholeNumber(1, _MAX_TARGET),
    metavar="N",
    default=1_200,
    help="The target size in tokens; 1200 by default.",
)
@click.option("--source", type=RawPath(), metavar="FILE", help="The text to summarise (default: a sample).")
@click.option(
    "--previous-context", type=RawPath(), metavar="FILE", help="The previous context (default: none)."
)
def render(
    run: Run,
    *,
    prompt: str,
    prompt_dir: Path | None,
    aggressive: bool,
    target_tokens: int,
    source: str | None,
    previous_context: str | None,
) -> Answer:
    """Show a prompt as a model would receive it. Nothing is sent."""
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
    data: Document = {**json_of(PROMPT_COLUMNS, made.template), "system": made.system, "user": made.user}
    blocks: list[OutputBlock] = [
        Prose(made.system, title="System"),
        Prose(made.user, title="Request"),
        *map(Note, _warnings([made.template])),
    ]
    return run.answer("prompts.render", data, blocks)


@command("prompts diff", examples=("prompts diff leaf",))
@prompt_argument
@options.prompt_folder
def diff(run: Run, *, prompt: str, prompt_dir: Path | None) -> Answer:
    """Show how your version of a prompt differs from the built-in one."""
    prompts = prompts_of(run, prompt_dir)
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
    return run.answer("prompts.diff", data, [*blocks, *map(Note, _warnings([template]))])


@command("prompts export", examples=("prompts export leaf --to prompts",))
@click.argument(
    "prompt",
    type=Raw(),
    nargs=-1,
    required=False,
    metavar="[PROMPT...]",
    help=f"Of {', '.join(TEMPLATES)}; else all.",
)
@options.prompt_folder
@click.option(
    "--to",
    type=FilePath(text=True),
    metavar="DIR",
    help="The folder to write to (default: the folder of your prompts).",
)
@click.option("--force", is_flag=True, help="Replace existing files.")
def export(
    run: Run, *, prompt: tuple[str, ...], prompt_dir: Path | None, to: Path | None, force: bool
) -> Answer:
    """Write built-in prompts to files for editing. Existing files stay unless --force is given."""
    folder = to or prompt_dir or operators_prompts(run.settings.user_config_file.value).folder
    assert folder is not None
    chosen = [built_in_template(name) for name in dict.fromkeys(prompt or TEMPLATES)]
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
