"""Which screen shows a place: the one module that knows all screens, and imports each when it is opened."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Final, assert_never

from lcm_tui import places

if TYPE_CHECKING:
    from textual.screen import Screen

    from lcm_tui.session import Session

log = logging.getLogger(__name__)


def screen_for(place: places.Place, session: Session) -> Screen[None]:
    """The screen that shows *place*, not mounted yet."""
    match place:
        case places.Preview() | places.Import() | places.Deletion() | places.Earlier():
            return _by_another(place, session)
        case places.TransplantTarget():
            from lcm_tui.screens.transplanting.screen import TargetScreen

            return TargetScreen(place.source, place.done)
        case places.Compaction():
            from lcm_tui.screens.compacting.screen import CompactingScreen

            return CompactingScreen(place.conversation, place.batch)
        case places.Drafting() | places.Review() | places.BriefDraft() | places.Editor() | places.Source():
            return _drafting(place)
        case places.Health():
            from lcm_tui.screens.health.screen import HealthScreen

            return HealthScreen(place.conversation, only=place.only)
        case places.History():
            from lcm_tui.screens.history.screen import HistoryScreen

            return HistoryScreen(place.conversation, only=place.only)
        case places.Engine():
            from lcm_tui.screens.engine.screen import EngineScreen

            return EngineScreen(place.conversation)
        case places.OneOperation():
            from lcm_tui.screens.history.operation import OperationScreen

            return OperationScreen(place.operation)
        case (
            places.Messages()
            | places.Context()
            | places.Summaries()
            | places.CoverageMap()
            | places.Expansion()
            | places.Previous()
            | places.Files()
            | places.Briefs()
            | places.Snapshots()
        ):
            return _of_conversation(place)
        case _:
            return _of_one_thing(place)


def _by_another(
    place: places.Preview | places.Import | places.Deletion | places.Earlier, session: Session
) -> Screen[None]:
    """A change that is previewed, and a place as it was."""
    match place:
        case places.Preview():
            from lcm_tui.screens.preview.screen import PlanScreen

            return PlanScreen(place.change)
        case places.Import():
            from lcm_tui.changes.backfill import importing

            return screen_for(places.Preview(importing(place.session, session.settings)), session)
        case places.Deletion():
            from lcm_tui.changes.delete import deleting

            change = deleting(place.conversations, session.database.path, place.then)
            return screen_for(places.Preview(change), session)
        case places.Earlier():
            from lcm_tui import frame

            screen = screen_for(place.place, session)
            if isinstance(screen, frame.CommandScreen):
                screen.look_at(session, place.place.conversation.conversation_id, place.point)
            return screen
        case _:
            assert_never(place)


Drafted = places.Drafting | places.Review | places.BriefDraft | places.Editor | places.Source


def _drafting(place: Drafted) -> Screen[None]:
    match place:
        case places.Drafting():
            from lcm_tui.screens.drafting.screen import DraftingScreen

            return DraftingScreen(place.wanted, place.title)
        case places.Review():
            from lcm_tui.screens.review.screen import ReviewScreen

            return ReviewScreen(place.work, place.summary_id, own=place.own)
        case places.BriefDraft():
            from lcm_tui.screens.brief_draft.screen import BriefDraftScreen

            return BriefDraftScreen(place.work)
        case places.Editor():
            from lcm_tui.screens.editor.screen import EditScreen

            return EditScreen(place.name, place.text, place.then)
        case places.Source():
            from lcm_tui.screens.source.screen import SourceScreen

            return SourceScreen(place.title, place.text, place.start, place.end)
        case _:
            assert_never(place)


OfConversation = (
    places.Messages
    | places.Context
    | places.Summaries
    | places.CoverageMap
    | places.Expansion
    | places.Previous
    | places.Files
    | places.Briefs
    | places.Snapshots
)


def _of_conversation(place: OfConversation) -> Screen[None]:
    match place:
        case places.Messages():
            from lcm_tui.screens.conversation.screen import ConversationScreen

            return ConversationScreen(place.conversation, seq=place.seq, find=place.find)
        case places.Context():
            from lcm_tui.screens.context.screen import ContextScreen

            return ContextScreen(place.conversation, select=place.select)
        case places.Summaries():
            from lcm_tui.screens.dag.screen import DagScreen

            return DagScreen(place.conversation, select=place.select, find=place.find)
        case places.CoverageMap():
            from lcm_tui.screens.coverage.screen import CoverageScreen

            return CoverageScreen(place.conversation, select=place.select)
        case places.Expansion():
            from lcm_tui.screens.expansion.screen import ExpansionScreen

            return ExpansionScreen(place.conversation, place.summary_id)
        case places.Previous():
            from lcm_tui.screens.previous.screen import PreviousScreen

            return PreviousScreen(place.conversation, place.summary_id)
        case places.Files():
            from lcm_tui.screens.files.screen import FilesScreen

            return FilesScreen(place.conversation, select=place.select)
        case places.Briefs():
            from lcm_tui.screens.briefs.screen import BriefsScreen

            return BriefsScreen(place.conversation, select=place.select, find=place.find)
        case places.Snapshots():
            from lcm_tui.screens.snapshots.screen import SnapshotsScreen

            return SnapshotsScreen(place.conversation)
        case _:
            assert_never(place)


OfOneThing = (
    places.Item
    | places.Sent
    | places.FileText
    | places.OneSnapshot
    | places.Comparison
    | places.CodexComparison
    | places.PreviousComparison
    | places.DiskSessionText
    | places.Search
)


def _of_one_thing(place: OfOneThing) -> Screen[None]:
    match place:
        case places.Item():
            from lcm_tui.screens.context.item import ItemScreen

            return ItemScreen(place.conversation, place.item, wrapped=place.wrapped, fate=place.fate)
        case places.Sent():
            from lcm_tui.screens.context.sent import SentScreen

            return SentScreen(
                place.conversation, place.name, place.document, place.item, place.seq, place.note
            )
        case places.FileText():
            from lcm_tui.screens.files.text import FileScreen

            return FileScreen(place.file, find=place.find)
        case places.OneSnapshot():
            from lcm_tui.screens.snapshots.one import SnapshotScreen

            return SnapshotScreen(place.conversation, place.snapshot)
        case places.Comparison():
            from lcm_tui.screens.comparison.comparing import Contexts
            from lcm_tui.screens.comparison.screen import CompareScreen

            return CompareScreen(Contexts(place.left, place.right))
        case places.CodexComparison():
            from lcm_tui.screens.comparison.codex import CodexSession
            from lcm_tui.screens.comparison.screen import CompareScreen

            return CompareScreen(CodexSession(place.conversation))
        case places.PreviousComparison():
            from lcm_tui.screens.comparison.previous import PreviousTexts
            from lcm_tui.screens.comparison.screen import CompareScreen

            return CompareScreen(PreviousTexts(place.summary_id))
        case places.Search():
            from lcm_tui.screens.search.screen import SearchScreen

            return SearchScreen()
        case places.DiskSessionText():
            from lcm_tui.screens.disk_session.screen import DiskSessionScreen

            return DiskSessionScreen(place.session)
        case _:
            assert_never(place)


#: What most operators open first, each behind the largest parts of it. A key may wait for one of these, never
#: for several.
FIRST: Final = (
    *("lcm_tui.screens.conversation.screen", "lcm_tui.screens.dag.screen"),
    *("lcm_core.assemble.ledger", "lcm_core.context_view", "lcm_tui.screens.context.screen"),
    *("lcm_core.thresholds", "lcm_core.assembly", "lcm_core.operations.stale"),
)
#: What comes after that, and what drafts need; model libraries come only with a call.
LATER: Final = (
    *("lcm_tui.screens.coverage.screen", "lcm_tui.screens.context.item", "lcm_tui.screens.files.screen"),
    *("lcm_tui.screens.previous.screen", "lcm_tui.drafts", "lcm_tui.screens.search.screen"),
    *("lcm_core.checks.host", "lcm_core.change.commit", "lcm_core.change.planning", "lcm_tui.actions.change"),
    *("lcm_tui.screens.preview.screen", "lcm_tui.screens.history.screen", "lcm_tui.screens.health.screen"),
    *("lcm_tui.screens.context.sent", "lcm_core.recall.find", "lcm_core.summarize.identifiers"),
    *("lcm_core.operations.compaction.run", "lcm_core.summarize.models.writer", "lcm_core.recall.asking"),
    *("lcm_tui.screens.expansion.screen", "lcm_tui.screens.comparison.screen"),
    *("lcm_tui.screens.review.screen", "lcm_tui.screens.drafting.screen", "lcm_tui.screens.editor.screen"),
)


def import_ahead(name: str) -> None:
    """Import a module before a screen needs it; an error is reported when such a screen is opened."""
    try:
        importlib.import_module(name)
    except Exception:
        log.exception("%s cannot be imported", name)
