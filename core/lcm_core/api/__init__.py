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

from lcm_core.api.database import LcmDatabase, limits_of
from lcm_core.base.errors import (
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
from lcm_core.base.records import (
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
    from lcm_core.base.engine_settings import EngineSettings
    from lcm_core.base.findings import Confidence, Finding, Report
    from lcm_core.base.settings import Options, Settings, resolve
    from lcm_core.change.backup import Backup, Restored, RestorePreview, preview_restore, restore
    from lcm_core.change.commit import Committed
    from lcm_core.change.journal import Operation
    from lcm_core.change.migrate import Migrated, Migration, migrate
    from lcm_core.change.plan import Plan, StalePlanError
    from lcm_core.change.preview import Planned, Preview
    from lcm_core.change.undo import plan_redo, plan_undo, plan_undo_batch, plan_undo_with_later
    from lcm_core.checks.check import Folders, Limits
    from lcm_core.engine.assembly import Assembled
    from lcm_core.engine.graph import SummaryGraph
    from lcm_core.engine.sent import api_request
    from lcm_core.operations.dissolve import plan_dissolve
    from lcm_core.operations.drafting import Draft
    from lcm_core.operations.export import Exported
    from lcm_core.operations.focus import (
        BriefEntry,
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
    from lcm_core.writers.cost import Model
    from lcm_core.writers.extractive import ExtractiveSummarizer
    from lcm_core.writers.request import Summarizer
    from lcm_core.writers.writer import named_model

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
    "lcm_core.engine.sent": "api_request",
    "lcm_core.engine.assembly": "Assembled",
    "lcm_core.change.backup": "Backup RestorePreview Restored preview_restore restore",
    "lcm_core.change.commit": "Committed",
    "lcm_core.change.plan": "Plan StalePlanError",
    "lcm_core.change.journal": "Operation",
    "lcm_core.change.migrate": "Migrated Migration migrate",
    "lcm_core.change.preview": "Planned Preview",
    "lcm_core.change.undo": "plan_redo plan_undo plan_undo_batch plan_undo_with_later",
    "lcm_core.checks.check": "Folders Limits",
    "lcm_core.engine.graph": "SummaryGraph",
    "lcm_core.base.findings": "Confidence Finding Report",
    "lcm_core.operations.focus": (
        "BriefEntry BriefText plan_activate_brief plan_clear_brief plan_create_brief plan_delete_brief"
    ),
    "lcm_core.operations.export": "Exported",
    "lcm_core.operations.dissolve": "plan_dissolve",
    "lcm_core.operations.drafting": "Draft",
    "lcm_core.operations.merge": "plan_merge",
    "lcm_core.operations.prune": "plan_archive",
    "lcm_core.operations.repair": "BadKind RepairList",
    "lcm_core.operations.transplant": "plan_transplant",
    "lcm_core.base.engine_settings": "EngineSettings",
    "lcm_core.base.settings": "Options Settings resolve",
    "lcm_core.writers.extractive": "ExtractiveSummarizer",
    "lcm_core.writers.writer": "named_model",
    "lcm_core.writers.cost": "Model",
    "lcm_core.writers.request": "Summarizer",
}
_MODULE_OF: Final = {name: module for module, names in _LATER.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """A public name, loaded at its first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = found
    return found
