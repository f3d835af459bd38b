"""The list of focus briefs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lcm_core.focus_view import BriefEntry

from lcm_tui.panes.listing import ListPane
from lcm_tui.screens.briefs.reads import Briefs, ListedBrief
from lcm_tui.views.units import moment_text
from lcm_tui.widgets.spans import Column, Span, StyleName

COLUMNS = (
    Column("mark", "", 1, keep=99),
    Column("status", "status", 10, keep=98),
    Column("created", "created", 16, keep=80, timed="at"),
    Column("covers", "covers to", 16, keep=50),
    Column("tokens", "tokens/target", 13, right=True, keep=60),
    Column("saves", "saves", 9, right=True, keep=70),
    Column("state", "state", 7, keep=85),
    Column("prompt", "prompt", 16, grows=True, keep=90),
    Column("id", "id", 22, keep=30),
)

#: What is shown in place of what has not been read yet.
LATER = Span("…", "dim")
STATUS_STYLES: Mapping[str, StyleName] = {"active": "ok", "failed": "error", "draft": "warn"}


class BriefList(ListPane[str]):
    """Briefs, newest first; a dot marks the one in force."""

    def __init__(self) -> None:
        super().__init__(id="chosen")
        self.briefs: Briefs | None = None
        self.recorded = True  #: whether this version of the engine has briefs

    def show(self, briefs: Briefs) -> None:
        """List what was read; the cursor stays on its brief, and new ones are marked."""
        before, self.briefs = self.briefs, briefs
        self.relist()
        if before is not None:
            known = {key: entry.brief for key, entry in before.by_id.items()}
            fresh = (key for key, entry in briefs.by_id.items() if known.get(key) != entry.brief)
            self.table.mark_fresh(list(fresh))

    @property
    def selected(self) -> ListedBrief | None:
        """The brief under the cursor."""
        key = self.table.selected
        return self.briefs.by_id.get(key) if self.briefs is not None and key is not None else None

    def why_none(self) -> str | None:
        """Why nothing can be done with what is selected."""
        return "no brief is selected" if self.selected is None else None

    # -- listing -----------------------------------------------------------------------------------------

    def matching(self, words: Sequence[str]) -> Sequence[str]:
        """All of them: they are few, so nothing filters them."""
        del words
        return list(self.briefs.by_id) if self.briefs is not None else ()

    def why_empty(self) -> str:
        """There are none, or this version knows none."""
        if not self.recorded:
            return "Focus briefs: not recorded by this version (added in 0.11.0)."
        return "This conversation has no focus briefs."

    def columns(self) -> Sequence[Column]:
        """What is said of a brief."""
        return COLUMNS

    def cells(self, key: str) -> Mapping[str, Span]:
        """A brief in a line."""
        assert self.briefs is not None  # it has been listed
        one = self.briefs.by_id[key]
        brief, entry = one.brief, one.entry
        saves, state = (LATER, LATER) if entry is None else _around(entry)
        return {
            "mark": Span("●" if one.is_active else " ", "ok"),
            "status": Span(brief.status, STATUS_STYLES.get(brief.status, "dim")),
            "created": Span(moment_text(brief.created_at, self.zone)[:16]),
            "covers": Span(moment_text(brief.covered_latest_at, self.zone)[:16]),
            "tokens": Span(f"{brief.tokens:,}/{brief.target_tokens:,}"),
            "saves": saves,
            "state": state if brief.content.strip() else Span("no text", "dim"),
            "prompt": Span(brief.prompt),
            "id": Span(brief.brief_id, "key"),
        }


def _around(entry: BriefEntry) -> tuple[Span, Span]:
    """What a brief saves, and whether it is stale."""
    effect = entry.effect
    saves = Span(f"{effect.saved:,}" if effect.covered else "–", "text" if effect.covered else "dim")
    return saves, Span("stale", "warn") if entry.state.outdated else Span("current", "ok")
