"""What ``backfill`` does behind the import when asked: compact, and transplant what came of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lcm_core.change.plan import Plan
from lcm_core.engine_rules import configured
from lcm_core.errors import RefusedError
from lcm_core.operations.backfill import Backfill
from lcm_core.operations.compaction.reading import LoadedContext, load_for_compaction
from lcm_core.operations.compaction.selection import WeighedContext, WeighedItem
from lcm_core.operations.compaction.sweep import Compaction
from lcm_core.operations.transplant import plan_transplant
from lcm_core.records import ConversationId
from lcm_core.settings import JsonObject
from lcm_core.store import conversations as conversation_store
from lcm_core.store.database import Reader

from lcm_tui.cli import changing, compact_report, modelling
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.backfill_options import AfterImport
from lcm_tui.cli.compact import CompactWork
from lcm_tui.cli.failures import NobodyToAskError
from lcm_tui.cli.options import ChangeFlags, ModelOptions, Selector
from lcm_tui.session import budget_for
from lcm_tui.views.blocks import Block, Note
from lcm_tui.views.compaction import planned_compaction


@dataclass(frozen=True, slots=True)
class AfterImportForecast:
    """What would follow the import, for programs and for people."""

    data: JsonObject = field(default_factory=dict)
    blocks: Sequence[Block] = ()


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps behind the import of one run."""

    run: Run
    after: AfterImport
    model: ModelOptions

    async def forecast(self, reader: Reader, shown: Backfill) -> AfterImportForecast:
        """What would follow, before anything is imported and without a call.

        Raises:
            NotFoundError: the conversation to transplant to is not there.
            RefusedError: it is the one that is imported to.
        """
        data: dict[str, Any] = {}
        blocks: list[Block] = []
        if self.after.compact:
            work = self._compaction(shown.conversation_id)
            setting = work.setting(reader.schema)
            loaded = await load_for_compaction(reader, shown.conversation_id, setting.rendering)
            seen = work.shown(_with_import(loaded, shown), setting)
            data["compaction"] = compact_report.document(seen)
            blocks += planned_compaction(seen)
        if self.after.transplant_to is not None:
            target = self.after.transplant_to
            await conversation_store.get_conversation(reader, target)
            if target == shown.conversation_id:
                raise RefusedError(
                    f"Conversation {target} cannot be transplanted into itself: name another target."
                )
            data["transplantTo"] = target
            words = f"Then the summaries of its context are copied to the front of conversation {target}."
            blocks.append(Note(words))
        return AfterImportForecast(data, blocks)

    def go_on(self, told: Answer, conversation_id: ConversationId, flags: ChangeFlags) -> Answer:
        """Do what follows the import, when it was to be done and was agreed to."""
        if not flags.apply:
            return told
        # The question before the import showed this too; where nothing was to import, nobody was asked.
        agreed = replace(flags, yes=flags.yes or bool(told.data.get("applied")))
        if self.after.compact:
            work = self._compaction(conversation_id)
            shown = work.forecast()
            done = work.apply(shown, agreed=agreed.yes) if shown.forecast.passes else work.planned(shown)
            told = _joined(told, "compaction", done)
        if self.after.transplant_to is not None and told.failed is None:
            target = self.after.transplant_to

            async def plan(reader: Reader) -> Plan:
                return await plan_transplant(reader, conversation_id, target, skip_duplicates=True)

            try:
                told = _joined(told, "transplant", changing.run_change(self.run, "backfill", plan, agreed))
            except NobodyToAskError:
                raise
            except RefusedError as error:  # there is nothing (left) to copy; the import stays
                document: JsonObject = {"applied": False, "reason": error.message}
                told = dataclasses.replace(
                    told,
                    data={**told.data, "transplant": document},
                    blocks=[*told.blocks, Note(error.message)],
                )
        return told

    def _compaction(self, conversation_id: ConversationId) -> CompactWork:
        single = self.after.single_root
        return CompactWork(
            self.run,
            Selector(conversation_id, None),
            "single-root" if single else "sweep",
            Compaction.single_root if single else lambda compaction: compaction.sweep(),
            modelling.modelling(self.run, self.model),
            budget_for(self.run.settings),
            tail=None,
            chunk=None,
            no_fallback=False,
            rules=self.after.rules,
            adjust=lambda rules: configured(rules, self.after.settings()),
        )


def _with_import(loaded: LoadedContext, shown: Backfill) -> LoadedContext:
    """The context as it will be behind the import."""
    items = list(loaded.context.items)
    weights = shown.weights
    for number, (tokens, of_user) in enumerate(
        zip(weights.tokens, weights.of_user, strict=True), shown.present + 1
    ):
        items.append(WeighedItem(number, tokens, is_user=bool(of_user)))
    return LoadedContext(shown.conversation_id, WeighedContext.of(items))


def _joined(told: Answer, name: str, more: Answer) -> Answer:
    """One answer of the import and of what followed it."""
    return dataclasses.replace(
        told,
        data={**told.data, name: more.data},
        blocks=[*told.blocks, *more.blocks],
        exit_code=more.exit_code or told.exit_code,
        failed=more.failed,
    )
