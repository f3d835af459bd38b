"""Other words for commands, as people say them who do not know ours; `:` finds a command by them, too.

One table: a phrase belongs to what a stranger who types it looks for. Words of a command's title and sentence
need no entry.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

#: Words that say nothing about what is looked for.
EMPTY: Final = frozenset(
    {
        *("a", "an", "and", "are", "be", "can", "could", "do", "does", "for", "have", "how", "i", "in"),
        *("is", "it", "its", "me", "my", "of", "on", "please", "show", "that", "the", "this", "to"),
        *("want", "what's", "where", "which", "with", "you", "your"),
    }
)

#: Phrases, separated by semicolons, by the id of a command or of a goal that is none.
_TABLE: Final[Mapping[str, str]] = {
    "context": "what did the model see; what does the model see; what it sees; seen by the model; "
    "prompt sent; why full; why is the context full; full context; context window; what is in the context; "
    "token usage; tokens used; what fills the context; left out; what was left out; dropped; "
    "missing from the context; forgotten; evicted; not sent; working memory",
    "summaries": "dag; tree; summary tree; graph; memory; summary; condensed; what was summarized; "
    "what was summarised; nodes; levels; hierarchy",
    "search-everywhere": "what was said; who said; where was it said; find text; grep; search; look for; "
    "find message; full text; remember; recall; when did we talk about; mentioned",
    "ask": "question; question and answer; ask the memory; answer",
    "compact": "shrink; smaller; make smaller; reduce; free tokens; compress; summarize now; summarise now; "
    "too big; too long; reduce tokens; make room; context smaller; shorten",
    "under": "shrink to; how small; reduce to",
    "repair": "broken; broken summaries; fix summaries; bad summaries; truncated; corrupt summaries; heal; "
    "fallback; summary failed",
    "rewrite": "new summary; regenerate; summarize again; summarise again; improve; redo summary; "
    "better summary; wrong summary",
    "dissolve": "unsummarize; uncondense; expand back; give back details; detail back; restore messages; "
    "undo compaction; split summary; bring back",
    "expand": "read details; drill down; zoom into summary; unfold levels; original messages",
    "transplant": "carry over; new session; copy memory; move summaries; transfer; migrate conversation; "
    "clone; import summaries",
    "merge": "rejoin; join sessions; combine; split session; unite; put together",
    "archive": "hide; put away; retire",
    "delete": "remove; forget; erase; privacy; purge; free space; free disk; clean up; cleanup; prune; "
    "delete conversation; get rid of",
    "backfill": "import session; missing session; not in the database; ingest; load session; bootstrap; sync",
    "mark-by-cleaner": "cleaner; junk; heartbeat; garbage",
    "sort": "disk; disk usage; disk space; biggest; largest; what eats the disk; space used; size; bytes; "
    "which is largest; order; most tokens",
    "history": "undo last; undo last change; revert; roll back; rollback; undo changes; what changed; log; "
    "what did i do; journal; audit; take back; changes; operations",
    "undo": "undo last; undo last change; revert; roll back; rollback; take back; undo that; oops; redo",
    "health": "doctor; check; checks; sound; is it ok; is the database ok; is it sound; integrity; errors; "
    "problems; diagnose; corrupt; damaged; verify; validate; status; warnings",
    "fix": "repair the database; fix errors; fix findings; solve; fix problems",
    "whole-file": "slow checks; integrity check; deep check; complete check",
    "briefs": "focus; topic; focus brief; lossless focus; unfocus",
    "new-brief": "focus on; new focus; write brief",
    "files": "attachments; large files; uploads; documents; pictures; images",
    "messages": "transcript; chat; original text; raw messages; conversation text",
    "open": "transcript; chat; messages; read conversation; look into; raw messages; conversation text",
    "previous": "previous context; earlier summaries; what the summarizer saw",
    "snapshots": "what was sent; sent earlier; sent then; past requests; saved contexts",
    "compare": "diff; difference; versus; what differs",
    "export": "save as; write to file; dump; markdown; json; download; save context",
    "budget": "token limit; limit; max tokens; window size; context size; bigger budget",
    "prompt": "what if; simulate; test message",
    "clamp": "ninety percent; 90 percent; final trim",
    "other-view": "another view; other view; switch view",
    "engine": "debt; pending; background; worker; prepared; turns; waiting compaction; queue",
    "copy-id": "copy; clipboard; yank",
    "reload": "refresh; update; read again",
    "help": "keys; shortcuts; key bindings; manual; how does this work; what is this",
    "palette": "commands; menu; go to",
    "back": "return; close; leave screen; previous screen",
    "quit": "exit; leave; close app; stop",
    "pane": "other pane; switch focus; next pane",
    "mark": "select; choose several; tick; multiple",
    "search": "filter; narrow list; find in list",
    "narrow": "only messages; only summaries; by time; by date; by conversation; scope of the search",
    "jump": "go to message; go to time; go to date; line number",
    "proceed": "start drafting; run; pause; resume; go on",
    "accept-rest": "accept all; approve all; accept everything; all drafts",
    "leave-out": "ignore; reject; leave as it is",
    "apply": "save; write; commit; accept; confirm; yes",
    "edit": "change text; correct; type",
    "edit-outside": "vim; editor; external editor; nano",
    # Goals that are no commands of a screen.
    "backup": "backup; back up; back up the database; copy of the database; safety copy; save the database",
    "restore": "restore; restore backup; go back to a backup; from backup",
    "reindex": "search index; rebuild index; full text index; fts; reindex",
    "migrate": "upgrade schema; new version; migrate; old database",
    "report": "bug report; anonymous copy; share database; support; report",
    "models": "which model; api key; provider; configure model; model settings; openai; anthropic; ollama",
    "themes": "dark mode; light mode; colours; colors; theme; appearance",
}

SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {name: tuple(one.strip() for one in phrases.split(";")) for name, phrases in _TABLE.items()}
)

#: What a match by the words as they were typed scores at least; one that is only alike scores less.
EXACT: Final = 0.85
#: How alike a title or a phrase must be to what was typed, of 100.
ALIKE: Final = 75


def telling(text: str) -> list[str]:
    """The words of what was typed that say something; all of them if none does."""
    words = text.casefold().replace("?", " ").split()
    return [word for word in words if word not in EMPTY] or words


def match_phrases(asked: str, phrases: Collection[str]) -> float:
    """How well what was typed matches phrases, 0 to 1: as they are, their words, how they begin, alike.

    `EXACT` and more: by the words as they were typed.
    """
    from rapidfuzz import fuzz

    words = telling(asked)
    if not words or not phrases:
        return 0.0
    typed = " ".join(words)
    best = 0.0
    for phrase in phrases:
        held = telling(phrase)
        said = " ".join(held)
        if typed == said:
            return 1.0
        if set(held) <= set(words):  # one word among others may mean something else
            best = max(best, 0.92 + 0.01 * min(len(held), 6) if len(held) > 1 else 0.84)
        elif set(words) <= set(held):
            best = max(best, 0.9)
        elif len(typed) > 2 and all(any(one.startswith(word) for one in held) for word in words):
            best = max(best, EXACT)
        elif len(typed) > 3 and (alike := fuzz.ratio(typed, said)) >= ALIKE:
            best = max(best, 0.8 * alike / 100)
    return best
