"""What a model is asked: templates, the operator's own versions of them, and how a request becomes a prompt.

The built-in texts are `lcm_prompts`. An operator may put a file of the same name into the folder ``prompts``
beside our ``config.toml``; it may extend ``builtin/base.j2`` (or ``builtin/leaf.j2`` ...), or be a text of
its own, and then the built-in system prompt goes before it. Templates run in Jinja2's sandbox.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lcm_prompts import BASE, SUFFIX, TEMPLATES, template_source

from lcm_core.base.errors import ConfigurationError, FileMissingError, NotFoundError
from lcm_core.base.files import read_limited
from lcm_core.base.tokens import estimate
from lcm_core.base.values import Record
from lcm_core.writers.request import SummaryRequest

if TYPE_CHECKING:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

#: How the last line of every summary begins (docs/spec/settings.md, "Asking a summariser"); after it comes
#: what expanding would show.
CLOSING: Final = "Expand for details about:"
#: How the line begins that names the files that were touched.
FILES: Final = "Files:"
#: The names that a template may use, and what they hold.
VARIABLES: Final[Mapping[str, str]] = {
    "source": "the text to be summarised",
    "previous_context": "what was summarised before it; empty when nothing is given",
    "target_tokens": "the size that the answer should stay under",
    "source_tokens": "the size of the source, estimated as the database counts",
    "mode": '"normal", or "aggressive" for the attempt after an answer that was too long',
    "depth": "0 for a leaf, 1 for a summary of leaves, and so on",
    "instructions": "the operator's own (LCM_CUSTOM_INSTRUCTIONS); may be empty",
    "boundary": "a word that occurs nowhere in the source; the tags around it end in it",
    "closing": f'"{CLOSING}"',
    "user_part": "print it where the system prompt ends and the request begins",
}
#: The folder of the operator's own, beside our config file.
_FOLDER: Final = "prompts"
#: A template larger than this is none.
_MAX_BYTES: Final = 256 * 1024
_VERSION: Final = re.compile(r"lcm-tui prompt: *(?P<name>[\w.-]+), *version (?P<version>[0-9]{1,6})")
_SPLIT: Final = "\x00user\x00"


class PromptError(ConfigurationError):
    """A template of the operator's that cannot be used."""

    default_code = "PROMPT_INVALID"


class PromptTemplate(Record, frozen=True):
    """One template as it is used."""

    name: str
    text: str
    version: int | None  #: as its first lines say; None: they say none
    built_in_version: int
    path: Path | None = None  #: the operator's file; None: built in

    @property
    def warning(self) -> str | None:
        """What is wrong with the age of an operator's template: one sentence, or None."""
        if self.path is None or (self.version or 0) >= self.built_in_version:
            return None
        age = f"is of version {self.version}" if self.version is not None else "says no version"
        return (
            f"The prompt {self.path} {age}, and the built-in one is version {self.built_in_version}: compare "
            f"them with `lcm-tui prompts {self.name} --diff`, then write the new version into its first "
            "line."
        )


class SummaryPrompt(Record, frozen=True):
    """What is sent: a system prompt and one user message."""

    system: str
    user: str
    template: PromptTemplate


class PromptTemplates(Record, frozen=True):
    """The templates in force; *folder* may hold the operator's own, or *file* is the one for all depths."""

    folder: Path | None = None
    file: Path | None = None

    def template(self, name: str) -> PromptTemplate:
        """The template *name*: the operator's when there is one.

        Raises:
            NotFoundError: no template has that name.
            PromptError: the operator's file cannot be read.
        """
        built_in = built_in_template(name)
        path = self.path_of(name)
        if path is None:
            return built_in
        try:
            content = read_limited(path, _MAX_BYTES, regular_only=False).decode("utf-8-sig")
            text = content.replace("\r\n", "\n").replace("\r", "\n")
        except (OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError) and self.file is None:
                return built_in
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise PromptError(
                f"The prompt {path} cannot be read ({reason}): fix or remove it.",
                details={"path": str(path)},
            ) from None
        version = _version_of(text)
        if version is None and self.file is not None:  # made for the occasion, it replaces nothing
            version = built_in.version
        return PromptTemplate(name, text, version, built_in.built_in_version, path)

    def path_of(self, name: str) -> Path | None:
        """Where the operator's version of *name* would be."""
        if self.file is not None:
            return self.file
        return None if self.folder is None else self.folder / (name + SUFFIX)

    def all(self) -> tuple[PromptTemplate, ...]:
        """The four templates as they are used."""
        return tuple(map(self.template, TEMPLATES))

    def notes(self) -> tuple[str, ...]:
        """What is to be known of the operator's own templates: which are used, and which are old."""
        own = {one.path: one for one in self.all() if one.path is not None}
        used = f"Your own prompts are used: {', '.join(map(str, own))}."
        return (used, *(one.warning for one in own.values() if one.warning)) if own else ()

    def render(self, request: SummaryRequest) -> SummaryPrompt:
        """The prompt for *request*.

        Raises:
            PromptError: the operator's template is broken or uses a name that is not known.
        """
        template = self.template(TEMPLATES[min(max(request.depth, 0), len(TEMPLATES) - 1)])
        values = _values(request)
        system, user = _rendered(template, values)
        if not system:
            system, _ = _rendered(built_in_template(template.name), values)
        return SummaryPrompt(system, user, template)


def operators_prompts(config_file: Path) -> PromptTemplates:
    """The templates in force when the operator's own are beside our *config_file*."""
    return PromptTemplates(config_file.parent / _FOLDER)


def prompts_at(path: Path) -> PromptTemplates:
    """The templates in force when the operator names a folder of them, or one file.

    Raises:
        FileMissingError: there is neither.
    """
    if path.is_dir():
        return PromptTemplates(path)
    if path.is_file():
        return PromptTemplates(file=path)
    raise FileMissingError("prompt", path, "Check --prompt-dir.", code="PROMPT_NOT_FOUND")


def built_in_template(name: str) -> PromptTemplate:
    """The built-in template *name*.

    Raises:
        NotFoundError: no template has that name.
    """
    if name not in TEMPLATES:
        raise NotFoundError(
            f"There is no prompt {name!r}; there are {', '.join(TEMPLATES)}.",
            code="PROMPT_NOT_FOUND",
            details={"prompt": name},
        )
    text = template_source(name)
    version = _version_of(text)
    return PromptTemplate(name, text, version, version or 0)


def own_prompt(name: str, values: Mapping[str, object]) -> tuple[str, str]:
    """System prompt and request by a template that operators have no version of (`lcm_prompts.OWN`)."""
    text = template_source(name)
    version = _version_of(text)
    return _rendered(PromptTemplate(name, text, version, version or 0), {**values, "user_part": _SPLIT})


def sendable(text: str) -> str:
    """*text* as UTF-8 can carry it: what were no characters in the database become U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _version_of(text: str) -> int | None:
    match = _VERSION.search(text, 0, 1_000)
    return int(match["version"]) if match else None


def _values(request: SummaryRequest) -> dict[str, str | int]:
    source = sendable(request.text)
    previous = sendable(request.previous or "").strip() if request.depth <= 1 else ""
    return {
        "source": source,
        "previous_context": previous,
        "target_tokens": request.target_tokens,
        "source_tokens": estimate(source, request.estimator),
        "mode": "aggressive" if request.aggressive else "normal",
        "depth": request.depth,
        "instructions": sendable(request.instructions).strip(),
        "boundary": boundary_for(source, previous),
        "closing": CLOSING,
        "user_part": _SPLIT,
    }


def boundary_for(*texts: str) -> str:
    """A word that none of *texts* holds, the same for the same texts: nothing in them can close our tags."""
    digest = hashlib.sha256("\x00".join(texts).encode("utf-8", "replace"))
    while True:
        word = "r" + digest.hexdigest()[:10]
        if not any(word in text for text in texts):
            return word
        digest.update(b"again")


def _rendered(template: PromptTemplate, values: Mapping[str, object]) -> tuple[str, str]:
    """System prompt (empty when the template has none) and request."""
    from jinja2 import TemplateError, TemplateSyntaxError

    try:
        text = _environment().from_string(template.text).render(values)
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, RecursionError) as error:
        line = f" in line {error.lineno}" if isinstance(error, TemplateSyntaxError) else ""
        known, why = ", ".join(VARIABLES), str(error).rstrip(".")
        raise PromptError(
            f"The prompt {template.path or template.name} cannot be used{line}: {why}. It may use {known}.",
            details={"path": str(template.path or template.name)},
        ) from None
    system, found, user = text.partition(_SPLIT)
    if not found:
        system, user = "", text
    if not user.strip():
        raise PromptError(
            f"The prompt {template.path or template.name} is empty: fix or remove it.",
            details={"path": str(template.path or template.name)},
        )
    return system.strip(), user.strip()


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    from jinja2 import FunctionLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    built_in = {f"builtin/{name}{SUFFIX}": name for name in (BASE, *TEMPLATES)}

    def load(path: str) -> str | None:
        return template_source(built_in[path]) if path in built_in else None

    return ImmutableSandboxedEnvironment(
        loader=FunctionLoader(load),
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=False,
    )
