"""What is asked of a database with hostile values, and what comes of it that must never come."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lcm_core.api import ExitCode

from tests.cli.support import readings, run
from tests.databases import connect
from tests.values.planting import fullest

#: What asking may end with: an answer, findings, or an id that the value took away. Nothing else is right.
_READS = frozenset({ExitCode.DONE, ExitCode.NOT_FOUND, ExitCode.FINDINGS})
#: A change may be refused beside that: the reason is a sentence.
_PLANS = _READS | {ExitCode.REFUSED, ExitCode.USAGE}


@dataclass(frozen=True, slots=True)
class Case:
    """A command line and the exit codes that are right for it, whatever the value is."""

    words: tuple[str, ...]
    codes: frozenset[ExitCode]


class Watch(logging.Handler):
    """Keeps the tracebacks that were logged: each is a place that a value took down."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.seen.append("".join(traceback.format_exception(record.exc_info[1])))


def cases(path: Path) -> list[Case]:
    """Everything that is read or planned, for the fullest conversation of a file as it was recorded."""
    conversation = fullest(path)
    with connect(path) as database:

        def first(query: str) -> str | None:
            found = database.execute(query, (conversation,)).fetchone()
            return None if found is None else str(found[0])

        top = first("SELECT summary_id FROM summaries WHERE conversation_id = ? ORDER BY depth DESC LIMIT 1")
        leaf = first("SELECT summary_id FROM summaries WHERE conversation_id = ? ORDER BY depth LIMIT 1")
        file = first("SELECT file_id FROM large_files WHERE conversation_id = ? LIMIT 1")
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
        brief = done = None
        if "focus_briefs" in tables:
            brief = first("SELECT brief_id FROM focus_briefs WHERE conversation_id = ? LIMIT 1")
        if "lcm_tui_operations" in tables:
            done = first("SELECT id FROM lcm_tui_operations WHERE ? > 0 LIMIT 1")
        other = first("SELECT conversation_id FROM conversations WHERE conversation_id <> ? LIMIT 1")
    chosen = str(conversation)
    ids = {
        "CONVERSATION": [chosen],
        "SUMMARY_ID": [one for one in (top, leaf) if one],
        "FILE_ID": [one for one in (file,) if one],
        "BRIEF_ID": [one for one in (brief,) if one],
        "OPERATION_ID": [one for one in (done,) if one],
        "ID": [one for one in (top, file) if one],
        "QUERY": ["the"],
    }
    reads = [
        *map(tuple, readings(ids)),
        ("context", chosen, "--assembled", "--budget", "20000"),
        ("context", chosen, "--assembled", "--budget", "20000", "--prompt", "what was decided"),
        ("context", chosen, "--assembled", "--export", "json"),
        *(("show", one) for one in (top, leaf, file, brief, done) if one),
        ("engine",),
        ("doctor",),
        ("doctor", chosen),
    ]
    plans = [
        ("doctor", "--fix", "all"),
        ("compact", chosen),
        ("compact", chosen, "--rules", "0.1"),
        ("compact", chosen, "--single-root", "--set", "freshTailCount=0"),
        *(((("dissolve", chosen, "--summary", top)),) if top else ()),
        ("rewrite", chosen, "--all"),
        ("repair", chosen),
        ("rewrite", "--broken", chosen, "--rules", "0.1"),
        ("repair",),
        *(((("transplant", chosen, other)),) if other else ()),
        *(((("transplant", other, chosen)),) if other else ()),
        ("merge",),
        ("disk",),
        ("conversations", "delete", "--max-messages", "1000000"),
        ("conversations", "archive", "--until", "1d"),
        ("reindex",),
        ("migrate",),
        *((("history", "undo", one)) for one in (done,) if one),
    ]
    return [*(Case(words, _READS) for words in reads), *(Case(words, _PLANS) for words in plans)]


def faults(path: Path, case: Case, *, json: bool) -> list[str]:
    """Run a command on a file; what was wrong with how it ended, a text for a person each."""
    words = (*case.words, "--db", path, *(("--json",) if json else ()))
    with _watched() as watch:
        result = run(*words)
    found = list(watch.seen)
    if result.code not in case.codes:
        found.append(f"exit code {result.code}: {result.err.strip()[:500]}")
    if "Traceback" in result.err:
        found.append(result.err)
    if result.code not in (0, 6) and not json and result.err.count("\n") != 1:
        found.append(f"not one sentence: {result.err[:500]}")
    if "does not know how to read" in result.out:
        found.append("a check was stopped by an internal error")
    return [f"{' '.join(map(str, case.words))}: {one}" for one in found]


@contextmanager
def _watched() -> Iterator[Watch]:
    watch = Watch()
    loggers = [logging.getLogger(name) for name in ("lcm_core", "lcm_tui")]
    for logger in loggers:
        logger.addHandler(watch)
    try:
        yield watch
    finally:
        for logger in loggers:
            logger.removeHandler(watch)
