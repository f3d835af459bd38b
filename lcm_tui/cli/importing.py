"""``backfill``: import a session of the host."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lcm_core.base.errors import RefusedError
from lcm_core.base.records import ConversationId
from lcm_core.base.setting_values import JsonObject
from lcm_core.base.text import counted
from lcm_core.base.times import iso_or_none, parse_utc
from lcm_core.base.values import Record, replace
from lcm_core.change.plan import Plan
from lcm_core.engine.rules import configured
from lcm_core.operations.compact import forecast_passes
from lcm_core.operations.compact_pass import load_for_compaction
from lcm_core.operations.selection import Mode, WeighedContext, WeighedItem
from lcm_core.operations.transplant import plan_transplant
from lcm_core.store.database import Reader
from lcm_core.store.summaries import context_ordinals
from lcm_host.appending import Session
from lcm_host.backfill import Backfill, ImportSource, file_source, find_to_import, host_source
from lcm_host.messages import read_host_file

from lcm_tui.cli import changing
from lcm_tui.cli import compacting as compact_report
from lcm_tui.cli import drafts as modelling
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.documents import Document, some_of
from lcm_tui.cli.options import AfterImport, ChangeFlags, ModelOptions, SqlFlags
from lcm_tui.cli.presentation import NobodyToAskError
from lcm_tui.cli.selecting import chosen, number_of
from lcm_tui.flows.changes import Importing, import_rules
from lcm_tui.flows.compaction import CompactionWish, PlannedCompaction
from lcm_tui.kit.session import budget_for
from lcm_tui.tables.blocks import Cell, Facts, Note, OutputBlock, Prose
from lcm_tui.tables.compaction import planned_compaction

# -- after the import ------------------------------------------------------------------------------------
# What ``backfill`` does then when requested: compact, and transplant the result.


class Steps(Record, frozen=True):
    """The steps behind the import of one run."""

    run: Run
    after: AfterImport
    model: ModelOptions

    async def forecast(self, reader: Reader, shown: Backfill) -> tuple[Document, list[OutputBlock]]:
        """What would follow, for programs and for people; nothing is imported and no call is made.

        Raises:
            NotFoundError: the conversation to transplant to is not there.
            RefusedError: it is the one that is imported to, or there would be no summary to copy.
        """
        data, blocks, makes_some = Document(), list[OutputBlock](), False
        if self.after.compact:
            owner, wish = shown.conversation_id, self._wish
            setting = wish.setting(reader.schema, self.run.settings)
            context = await load_for_compaction(reader, owner, setting.rendering)
            forecast = forecast_passes(_with_import(context, shown), setting, wish.operation)
            makes_some = bool(forecast.passes)
            model = modelling.modelling(self.run, self.model)
            seen = PlannedCompaction(owner, wish, setting, forecast, model)
            data["compaction"] = compact_report.document(seen)
            blocks += planned_compaction(seen)
        if self.after.transplant_to is not None:
            target = (await chosen(reader, self.after.transplant_to)).conversation_id
            if target == shown.conversation_id:
                raise RefusedError(
                    f"Conversation {target} cannot be transplanted into itself: name another target."
                )
            if not makes_some and not await context_ordinals(reader, shown.conversation_id):
                how = "" if self.after.compact else ": add --recompact"
                raise RefusedError(
                    f"Conversation {shown.conversation_id} would have no summary to transplant{how}."
                )
            data["transplantTo"] = target
            words = f"Then the summaries of its context are copied to the front of conversation {target}."
            blocks.append(Note(words))
        return data, blocks

    def go_on(self, told: Answer, conversation_id: ConversationId, flags: ChangeFlags) -> Answer:
        """Do what follows the import, when it was to be done and was agreed to."""
        if not flags.apply:
            return told
        # The question before the import showed this too; where nothing was to import, nobody was asked.
        agreed = replace(flags, yes=flags.yes or bool(told.data.get("applied")))
        if self.after.compact:
            model = modelling.modelling(self.run, self.model)
            done = compact_report.compact_conversation(self.run, conversation_id, self._wish, model, agreed)
            told = _joined(told, "compaction", done)
        if self.after.transplant_to is not None and told.failed is None:
            target = self.after.transplant_to

            async def plan(reader: Reader) -> Plan:
                into = await number_of(reader, target)
                return await plan_transplant(reader, conversation_id, into, skip_duplicates=True)

            try:
                told = _joined(told, "transplant", changing.run_change(self.run, "backfill", plan, agreed))
            except NobodyToAskError:
                raise
            except RefusedError as error:  # there is nothing (left) to copy; the import stays
                document: JsonObject = {"applied": False, "reason": error.message}
                told = replace(
                    told,
                    data={**told.data, "transplant": document},
                    blocks=[*told.blocks, Note(error.message)],
                )
        return told

    @property
    def _wish(self) -> CompactionWish:
        return CompactionWish(
            Mode.SINGLE_ROOT if self.after.single_root else Mode.SWEEP,
            budget_for(self.run.settings),
            rules=self.after.rules,
            adjust=lambda rules: configured(rules, self.after.settings()),
        )


def _with_import(context: WeighedContext, shown: Backfill) -> WeighedContext:
    """The context as it will be behind the import."""
    weights = zip(shown.weights.tokens, shown.weights.of_user, strict=True)
    numbered = enumerate(weights, shown.present + 1)
    new = (WeighedItem(number, tokens, is_user=bool(of_user)) for number, (tokens, of_user) in numbered)
    return WeighedContext.of([*context.items, *new])


def _joined(told: Answer, name: str, more: Answer) -> Answer:
    """One answer of the import and of what followed it."""
    return replace(
        told,
        data={**told.data, name: more.data},
        blocks=[*told.blocks, *more.blocks],
        exit_code=more.exit_code or told.exit_code,
        failed=more.failed,
    )


# -- backfill --------------------------------------------------------------------------------------------
# A session that the database does not know, or knows in part, from its transcript.

#: Lines of the transcript that are named at most.
_PROBLEMS = 20


def backfill(
    run: Run,
    file: Path | None,
    session: tuple[str, str],
    key: str | None,
    title: str | None,
    after: AfterImport,
    model: ModelOptions,
    flags: SqlFlags,
) -> Answer:
    """Show what an import and what follows it would do, or do it.

    It is of a *file*, a transcript of the host or a rollout of Codex; None: of a *session* of the host by its
    agent and id, wherever it lies.
    """
    run.read(import_rules, run.settings)
    if after.compact and flags.apply and flags.yes:
        modelling.modelling(run, model, unasked=True)  # refused before anything is imported
    with tempfile.TemporaryDirectory(prefix="lcm-tui-") as folder:
        if file is None:
            source = host_source(find_to_import(run.settings.sessions.value, *session), Path(folder))
        else:
            source = file_source(file, Path(folder))
        if key is not None:
            source = replace(source, session=Session(source.session.session_id, key))
        more = Steps(run, after, model)
        work = _Work(source, title, more)
        told = changing.run_change(run, "backfill", work, flags)
        if told.failed is not None or work.conversation_id is None:
            return told
        return more.go_on(told, work.conversation_id, flags)


class _Work(Importing):
    """One run of the command: what is planned, and the files that were written for it."""

    def __init__(self, source: ImportSource, title: str | None, more: Steps) -> None:
        super().__init__(self._plan, more.run.settings)
        self._source = source
        self._session_title = title
        self._transcript = read_host_file(source.path, whole_records=True)
        self._more = more
        #: What follows the import, as it was shown.
        self._after: tuple[Document, list[OutputBlock]] | None = None
        self.conversation_id: ConversationId | None = None  #: None: nothing is imported, nothing is there

    async def _plan(self, reader: Reader) -> changing.Proposal:
        """What is left to import."""
        source, place = self._source, self._source.place
        rules = await import_rules(reader, self._more.run.settings)
        work = self._work or self._begin(rules, source, self._transcript, self._session_title)
        shown = await work.plan(reader)
        if shown.doubtful:
            raise RefusedError(
                f"Conversation {shown.conversation_id} contains {counted(shown.present, 'message')}, but "
                f"none of the newest is in {place}: where the file's messages belong is unknown. Nothing was "
                "changed; give the transcript of this conversation.",
                code="NO_ANCHOR",
            )
        self._files.expect(shown.appends)
        self.conversation_id = shown.conversation_id if shown.appends or not shown.is_new else None
        if self._after is None or not shown.goes_on:
            self._after = await self._more.forecast(reader, shown)
        data, blocks = self._after
        return changing.Proposal(
            tuple(append.plan for append in shown.appends),
            data={**_document(source, shown), **data},
            blocks=[*_blocks(self._more.run, place, shown), *blocks],
            nothing=shown.nothing_text,
            brief=True,
            more=shown.more,
        )


def _document(source: ImportSource, shown: Backfill) -> Document:
    index, tally, header = shown.transcript, shown.tally, shown.transcript.header
    return {
        "session": {
            "agent": source.agent,
            **some_of(shown.session, "session_id session_key"),
            "startedAt": iso_or_none(header.started_at) if header else None,
        },
        "transcript": {
            "path": str(source.place),
            "bytes": index.stamp.size,
            "entries": index.entry_count,
            "messages": len(shown.transcript.on_path),
            "abandoned": index.abandoned,
            "badLines": index.bad_lines,
            "problems": [some_of(one, "line reason") for one in index.problems[:_PROBLEMS]],
        },
        "conversation": {
            "conversationId": shown.conversation_id,
            "new": shown.is_new,
            "messages": shown.present,
        },
        "import": {
            "messages": tally.stored,
            "tokens": tally.tokens,
            "roles": dict(sorted(tally.roles.items())),
            "skipped": {reason.value: count for reason, count in sorted(tally.skipped.items())},
            "leftOut": shown.anchor.left_out,
            "provenBy": shown.anchor.proof.value,
            "engineKeeps": shown.engine_keeps,
            "files": tally.payloads,
            "fileBytes": tally.payload_bytes,
            "earliestAt": iso_or_none(parse_utc(tally.first)),
            "latestAt": iso_or_none(parse_utc(tally.last)),
            "parts": shown.parts,
            "modelCalls": 0,
        },
        "importWarnings": list(shown.warnings),
    }


def _blocks(run: Run, place: Path, shown: Backfill) -> list[OutputBlock]:
    index, tally = shown.transcript, shown.tally
    into = f"conversation {shown.conversation_id}"
    where = f"{into}, new" if shown.is_new else f"{into}, which has {counted(shown.present, 'message')}"
    facts: list[tuple[str, Cell]] = [
        ("Transcript", str(place)),
        (
            "Read",
            f"{counted(index.entry_count, 'entry')}, {counted(len(index.on_path), 'message')} the host sees",
        ),
        ("Into", where),
        ("Session key", shown.session.session_key),
    ]
    if tally.stored:
        payloads = f"{tally.payloads:,} ({tally.payload_bytes:,} bytes)"
        if tally.payloads:  # the folder is the host's also when the database is a copy
            payloads += f", in {run.settings.large_files_dir.value}"
        roles = ", ".join(f"{count:,} {role}" for role, count in sorted(tally.roles.items()))
        facts += [
            ("To import", f"{counted(tally.stored, 'message')} ({roles}), {tally.tokens:,} tokens"),
            ("From", run.time(tally.first)),
            ("To", run.time(tally.last)),
            ("Payloads to files", payloads),
            ("Model calls", "none for the import"),
        ]
    blocks: list[OutputBlock] = [Facts(facts, title="Backfill")]
    lines = [f"line {problem.line:,}: {problem.reason}" for problem in index.problems[:_PROBLEMS]]
    if len(index.problems) > _PROBLEMS:
        lines.append(f"and {index.problem_count - _PROBLEMS:,} more")
    if lines or shown.warnings:
        blocks.append(Prose("\n".join([*shown.warnings, *lines]), title="What is not imported, and why"))
    return blocks
