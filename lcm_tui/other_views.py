"""What `m` leads to, screen by screen: the names under which `:` lists it.

The command is one (`other-view`); what it shows has a name of its own on each screen, short in the key bar
and whole in the palette, and people look for each in other words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class OtherView:
    """One view that a screen has beside the one it opens with, or the way back from it."""

    word: str  #: as the key bar says it
    title: str  #: as the palette says it
    does: str  #: a sentence
    where: str  #: the screens that have it; empty: only whoever is in the other view looks for it
    phrases: tuple[str, ...] = ()  #: what people type who look for it


VIEWS: Final = (
    OtherView(
        "Map",
        "Coverage map",
        "Show the summaries as blocks over the messages that they cover.",
        "the summary DAG",
        ("coverage", "which messages are covered", "timeline", "overview", "another view", "other view"),
    ),
    OtherView(
        "Diff",
        "Diff of rows",
        "Show the rows before and after the change as a diff.",
        "previews and operations",
        ("row diff", "changed rows", "rows before and after", "other view"),
    ),
    OtherView(
        "Sent messages",
        "Messages as sent",
        "Show the messages of the request in place of the stored items.",
        "the context",
        ("raw request", "api request", "exact messages", "as sent", "other view"),
    ),
    OtherView(
        "As sent",
        "As sent to the model",
        "Show the text as the model gets it.",
        "an item of the context and focus briefs",
        ("xml", "wrapped", "exact text", "other view"),
    ),
    OtherView(
        "As text",
        "As one text",
        "Show the previous context as one text.",
        "the previous context",
        ("whole text", "plain text", "other view"),
    ),
    OtherView(
        "Facts",
        "Facts about the file",
        "Show what the database says about the file.",
        "a large file",
        ("metadata", "file details", "other view"),
    ),
    OtherView(
        "Side by side",
        "Side by side",
        "Show two texts beside each other.",
        "comparisons and reviews",
        ("beside each other", "two columns", "split view", "other view"),
    ),
    OtherView("Unified", "Unified", "Show two texts as one, changes marked with - and +.", ""),
    OtherView("Tree", "Tree of summaries", "Show the summaries as a tree.", ""),
    OtherView("As list", "List of summaries", "Show the summaries of the previous context as a list.", ""),
    OtherView("Preview", "Preview of the change", "Show what was in front before the diff.", ""),
    OtherView("Text", "Text of the file", "Show the text of the file.", ""),
    OtherView("Stored items", "Items as stored", "Show the stored items of the context.", ""),
    OtherView("As stored", "Text as stored", "Show the text as the database has it.", ""),
)


def view_called(word: str) -> OtherView | None:
    """The view that the key bar calls *word*."""
    return next((view for view in VIEWS if view.word == word), None)
