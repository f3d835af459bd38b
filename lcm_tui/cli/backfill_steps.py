"""What ``backfill`` does behind the import when asked: compact, and transplant what came of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeAlias

import typer
from lcm_core.change.plan import Plan
from lcm_core.compaction_rules import CompactionSettings
from lcm_core.errors import RefusedError
from lcm_core.operations.backfill import Backfill
from lcm_core.operations.compaction.reading import Loaded, load_context
from lcm_core.operations.compaction.selection import Context, Standing
from lcm_core.operations.compaction.sweep import Compaction
from lcm_core.operations.transplant import plan_transplant
from lcm_core.records import ConversationId
from lcm_core.settings import JsonObject
from lcm_core.store import conversations as conversation_store
from lcm_core.store.database import Reader

from lcm_tui.cli import changing, compact_report, modelling, options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.change_flags import ChangeFlags
from lcm_tui.cli.compact import CompactWork
from lcm_tui.cli.failures import NobodyToAskError
from lcm_tui.cli.readable import Block, Note
from lcm_tui.cli.selecting import Selector

_PANEL = "Compaction"

Recompact: TypeAlias = Annotated[
    bool,
    typer.Option("--recompact", metavar="", help="Compact it after the import, also when it had all of it."),
]
SingleRoot: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--single-root",
        metavar="",
        help="Compact it down to one summary, with no fresh tail unless --fresh-tail names one.",
    ),
]
TransplantTo: TypeAlias = Annotated[
    str | None,
    typer.Option("--transplant-to", metavar="CONV", help="Then copy its summaries in front of another one."),
]


def _number(name: str, metavar: str, words: str) -> Any:
    return typer.Option(name, metavar=metavar, help=words, rich_help_panel=_PANEL)


LeafChunk: TypeAlias = Annotated[
    str | None, _number("--leaf-chunk-tokens", "N", "Source tokens of a leaf at most.")
]
LeafTarget: TypeAlias = Annotated[
    str | None, _number("--leaf-target-tokens", "N", "Tokens that a leaf is to have at most.")
]
CondensedTarget: TypeAlias = Annotated[
    str | None, _number("--condensed-target-tokens", "N", "Tokens that a condensed summary is to have.")
]
LeafFanout: TypeAlias = Annotated[
    str | None, _number("--leaf-fanout", "N", "Leaves that are condensed together at least.")
]
CondensedFanout: TypeAlias = Annotated[
    str | None, _number("--condensed-fanout", "N", "Condensed summaries that are condensed further at least.")
]
HardFanout: TypeAlias = Annotated[str | None, _number("--hard-fanout", "N", "The same under pressure.")]
FreshTail: TypeAlias = Annotated[str | None, _number("--fresh-tail", "N", "Newest messages to leave alone.")]

#: The least that each number may be.
_LEAST = {
    "leaf_chunk_tokens": 1,
    "leaf_target_tokens": 1,
    "condensed_target_tokens": 1,
    "leaf_min_fanout": 2,
    "condensed_min_fanout": 2,
    "condensed_min_fanout_hard": 2,
    "fresh_tail_count": 0,
}
_OPTIONS = {
    "leaf_min_fanout": "leaf-fanout",
    "condensed_min_fanout": "condensed-fanout",
    "condensed_min_fanout_hard": "hard-fanout",
    "fresh_tail_count": "fresh-tail",
}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is to be done behind the import."""

    compact: bool
    single_root: bool
    transplant_to: ConversationId | None
    settings: dict[str, int]  #: by the names of `CompactionSettings`


def wishes(*, recompact: bool, single_root: bool, transplant_to: str | None, **numbers: str | None) -> Wishes:
    """The options, checked.

    Raises:
        UsageError: a number does not fit.
    """
    settings = {}
    for name, value in numbers.items():
        if value is not None:
            option = _OPTIONS.get(name, name.replace("_", "-"))
            settings[name] = options.whole_number(option, value, _LEAST[name])
    if single_root:
        settings.setdefault("fresh_tail_count", 0)
    target = None
    if transplant_to is not None:
        target = ConversationId(options.whole_number("transplant-to", transplant_to, 1))
    return Wishes(recompact or single_root, single_root, target, settings)


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What would follow the import, for programs and for people."""

    data: JsonObject = field(default_factory=dict)
    blocks: Sequence[Block] = ()


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps behind the import of one run."""

    run: Run
    wishes: Wishes
    model: modelling.ModelFlags

    async def foresee(self, reader: Reader, shown: Backfill) -> Foreseen:
        """What would follow, before anything is imported and without a call.

        Raises:
            NotFoundError: the conversation to transplant to is not there.
            RefusedError: it is the one that is imported to.
        """
        data: dict[str, Any] = {}
        blocks: list[Block] = []
        if self.wishes.compact:
            work = self._compaction(shown.conversation_id)
            setting = work.setting(reader.schema)
            loaded = await load_context(reader, ConversationId(shown.conversation_id), setting.rendering)
            seen = work.shown(_with_import(loaded, shown), setting)
            data["compaction"] = compact_report.document(seen)
            blocks += compact_report.planned_blocks(seen)
        if self.wishes.transplant_to is not None:
            target = self.wishes.transplant_to
            await conversation_store.get_conversation(reader, target)
            if target == shown.conversation_id:
                raise RefusedError(
                    f"Conversation {target} cannot be transplanted into itself: name another one."
                )
            data["transplantTo"] = target
            words = f"Then the summaries of its context are copied in front of conversation {target}."
            blocks.append(Note(words))
        return Foreseen(data, blocks)

    def go_on(self, told: Answer, conversation_id: int, flags: ChangeFlags) -> Answer:
        """Do what follows the import, when it was to be done and was agreed to."""
        if not flags.apply:
            return told
        # The question before the import showed this too; where nothing was to import, nobody was asked.
        agreed = replace(flags, yes=flags.yes or bool(told.data.get("applied")))
        if self.wishes.compact:
            work = self._compaction(conversation_id)
            shown = work.foresee()
            done = work.apply(shown, agreed=agreed.yes) if shown.foresight.passes else work.planned(shown)
            told = _joined(told, "compaction", done)
        if self.wishes.transplant_to is not None and told.failed is None:
            target = self.wishes.transplant_to

            async def plan(reader: Reader) -> Plan:
                return await plan_transplant(
                    reader, ConversationId(conversation_id), target, skip_duplicates=True
                )

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

    def _compaction(self, conversation_id: int) -> CompactWork:
        single = self.wishes.single_root
        return CompactWork(
            self.run,
            Selector(conversation_id, None),
            "single-root" if single else "sweep",
            Compaction.single_root if single else lambda compaction: compaction.sweep(),
            modelling.modelling(self.run, self.model),
            changing.budget_of(self.run, None),
            tail=None,
            chunk=None,
            no_fallback=False,
            adjust=self._adjusted,
        )

    def _adjusted(self, settings: CompactionSettings) -> CompactionSettings:
        numbers: dict[str, Any] = dict(self.wishes.settings)
        return replace(settings, **numbers)


def _with_import(loaded: Loaded, shown: Backfill) -> Loaded:
    """The context as it will be behind the import."""
    items = list(loaded.context.items)
    number = shown.present
    for message in shown.messages:
        number += 1
        items.append(Standing(number, message.tokens, is_user=message.role == "user"))
    return Loaded(ConversationId(shown.conversation_id), Context.of(items))


def _joined(told: Answer, name: str, more: Answer) -> Answer:
    """One answer of the import and of what followed it."""
    return dataclasses.replace(
        told,
        data={**told.data, name: more.data},
        blocks=[*told.blocks, *more.blocks],
        exit_code=more.exit_code or told.exit_code,
        failed=more.failed,
    )
