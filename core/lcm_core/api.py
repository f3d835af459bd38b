"""The interface for programs (docs/python.md): what that page names is documented; all else may change.

`LcmDatabase` reads a database, shows what a model receives, and plans, previews, commits and undoes changes.
It needs no terminal. Each name is loaded when it is first used.

Units: tokens are the engine's estimates (docs/engine/tokens.md), times are UTC, ordinals count from 0 and
``seq`` from 1 (docs/format.md, "Numbering"). Every error is an `LcmError`: one sentence, a ``code`` for
scripts, ``details``, and the exit code of a command.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from lcm_core.errors import (
    ConfigurationError,
    DatabaseBusyError,
    DatabaseError,
    DatabaseMissingError,
    ExitCode,
    LcmError,
    NotFoundError,
    RefusedError,
    UsageError,
)
from lcm_core.lcm_database import LcmDatabase, limits_of
from lcm_core.records import (
    ContextItem,
    Conversation,
    ConversationId,
    Message,
    MessageId,
    MessagePart,
    Summary,
    SummaryId,
    SummaryText,
)

if TYPE_CHECKING:
    from lcm_core.assemble.export import api_request
    from lcm_core.assemble.result import Assembled
    from lcm_core.change.backup import Backup
    from lcm_core.change.commit import Committed
    from lcm_core.change.errors import StalePlanError
    from lcm_core.change.journal import Operation
    from lcm_core.change.migrate import Migrated, Migration, migrate
    from lcm_core.change.plan import Plan
    from lcm_core.change.planning import Planned
    from lcm_core.change.preview import Preview
    from lcm_core.change.restore import Restored, RestorePreview, preview_restore, restore
    from lcm_core.change.undo import plan_redo, plan_undo, plan_undo_batch, plan_undo_with_later
    from lcm_core.checks import Folders, Limits
    from lcm_core.dag.graph import SummaryGraph
    from lcm_core.findings import Confidence, Finding, Report
    from lcm_core.focus_view import BriefEntry
    from lcm_core.operations.conversation_file import Exported
    from lcm_core.operations.dissolve import plan_dissolve
    from lcm_core.operations.drafting.draft import Draft
    from lcm_core.operations.focus import (
        BriefText,
        plan_activate_brief,
        plan_clear_brief,
        plan_create_brief,
        plan_delete_brief,
    )
    from lcm_core.operations.merge import plan_merge
    from lcm_core.operations.prune import plan_archive
    from lcm_core.operations.repair import BadKind, RepairList
    from lcm_core.operations.transplant import plan_transplant
    from lcm_core.settings.engine import EngineSettings
    from lcm_core.settings.resolve import Options, Settings, resolve
    from lcm_core.summarize.models.extractive import ExtractiveSummarizer
    from lcm_core.summarize.models.writer import named_model
    from lcm_core.summarize.replies import Model
    from lcm_core.summarize.request import Summarizer

__all__ = [
    "Assembled",
    "Backup",
    "BadKind",
    "BriefEntry",
    "BriefText",
    "Committed",
    "Confidence",
    "ConfigurationError",
    "ContextItem",
    "Conversation",
    "ConversationId",
    "DatabaseBusyError",
    "DatabaseError",
    "DatabaseMissingError",
    "Draft",
    "EngineSettings",
    "ExitCode",
    "Exported",
    "ExtractiveSummarizer",
    "Finding",
    "Folders",
    "LcmDatabase",
    "LcmError",
    "Limits",
    "Message",
    "MessageId",
    "MessagePart",
    "Migrated",
    "Migration",
    "Model",
    "NotFoundError",
    "Operation",
    "Options",
    "Plan",
    "Planned",
    "Preview",
    "RefusedError",
    "RepairList",
    "Report",
    "RestorePreview",
    "Restored",
    "Settings",
    "StalePlanError",
    "Summarizer",
    "Summary",
    "SummaryGraph",
    "SummaryId",
    "SummaryText",
    "UsageError",
    "api_request",
    "limits_of",
    "migrate",
    "named_model",
    "plan_activate_brief",
    "plan_archive",
    "plan_clear_brief",
    "plan_create_brief",
    "plan_delete_brief",
    "plan_dissolve",
    "plan_merge",
    "plan_redo",
    "plan_transplant",
    "plan_undo",
    "plan_undo_batch",
    "plan_undo_with_later",
    "preview_restore",
    "resolve",
    "restore",
]

#: Where names are loaded from when they are first used: reading a database needs none of them.
_LATER: Final = {
    "lcm_core.assemble.export": "api_request",
    "lcm_core.assemble.result": "Assembled",
    "lcm_core.change.backup": "Backup",
    "lcm_core.change.commit": "Committed",
    "lcm_core.change.errors": "StalePlanError",
    "lcm_core.change.journal": "Operation",
    "lcm_core.change.migrate": "Migrated Migration migrate",
    "lcm_core.change.plan": "Plan",
    "lcm_core.change.planning": "Planned",
    "lcm_core.change.preview": "Preview",
    "lcm_core.change.restore": "RestorePreview Restored preview_restore restore",
    "lcm_core.change.undo": "plan_redo plan_undo plan_undo_batch plan_undo_with_later",
    "lcm_core.checks": "Folders Limits",
    "lcm_core.dag.graph": "SummaryGraph",
    "lcm_core.findings": "Confidence Finding Report",
    "lcm_core.focus_view": "BriefEntry",
    "lcm_core.operations.conversation_file": "Exported",
    "lcm_core.operations.dissolve": "plan_dissolve",
    "lcm_core.operations.drafting.draft": "Draft",
    "lcm_core.operations.focus": (
        "BriefText plan_activate_brief plan_clear_brief plan_create_brief plan_delete_brief"
    ),
    "lcm_core.operations.merge": "plan_merge",
    "lcm_core.operations.prune": "plan_archive",
    "lcm_core.operations.repair": "BadKind RepairList",
    "lcm_core.operations.transplant": "plan_transplant",
    "lcm_core.settings.engine": "EngineSettings",
    "lcm_core.settings.resolve": "Options Settings resolve",
    "lcm_core.summarize.models.extractive": "ExtractiveSummarizer",
    "lcm_core.summarize.models.writer": "named_model",
    "lcm_core.summarize.replies": "Model",
    "lcm_core.summarize.request": "Summarizer",
}
_MODULE_OF: Final = {name: module for module, names in _LATER.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """A public name, loaded at its first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = found
    return found
