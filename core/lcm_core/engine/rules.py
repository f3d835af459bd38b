"""What the engine of a file does: one record of rules, chosen once by what its schema can do.

docs/spec/versions.md, "Which rules a file follows". Nothing here compares versions, and nothing else asks
which engine wrote a file. Which tables and columns are there to be read and written, a `Schema` says.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from lcm_core.base.engine_settings import INJECTED_TAGS, EngineSettings
from lcm_core.base.errors import RefusedError
from lcm_core.base.tokens import Estimator
from lcm_core.base.values import Record, replace

R = TypeVar("R", bound=Record)


class Tables(Protocol):
    """What is asked of a schema; `lcm_core.store.schema.Schema` answers."""

    @property
    def is_1x(self) -> bool:
        """Whether an engine of the 1.x line has opened the file."""

    @property
    def version(self) -> str:
        """The engine versions that leave such a file, for people."""

    def has(self, table: str, column: str | None = None) -> bool:
        """Whether the file has the table (and, when named, the column)."""


class TailRules(Record, frozen=True):
    """The newest messages, which compaction may not touch (docs/spec/compaction.md, "Fresh tail")."""

    fresh_tail_count: int  #: raw messages
    fresh_tail_max_tokens: int | None  #: None: no cap
    keeps_turn_whole: bool  #: it begins at the newest user message at the latest


class WrapperRules(Record, frozen=True):
    """What is put around a summary that is sent."""

    has_trust: bool  #: ``trust="untrusted"``
    escapes: bool  #: the text is XML-escaped


class ClampRules(Record, frozen=True):
    """The last cut before a host gets the messages (docs/spec/assembly.md, "The final clamp")."""

    share: float  #: of the budget, to which the newest messages are packed
    acts_above_share: bool  #: what weighs more than that share is cut; else what weighs more than the budget
    keeps_turns: bool  #: calls and results go or stay together, and none stands before the first user

    def limit(self, budget: int) -> int:
        """Tokens up to which nothing is cut for its weight."""
        return math.floor(budget * self.share) if self.acts_above_share else budget


class AssemblyRules(Record, frozen=True):
    """What the assembler does, step by step (docs/spec/assembly.md)."""

    tail_of_items: bool  #: the fresh tail counts items, summaries among them; else raw messages
    trusts_stored_tokens: bool  #: a stored count above 0 is used; else everything sent is estimated anew
    estimator: Estimator  #: of what is sent
    prompt_aware: bool  #: it can choose by the prompt
    stubs_payloads: bool  #: it can send a reference for a large tool result; a setting, too
    drops_unusable: bool  #: what says nothing, calls without a result and repeated calls go; else they stay
    rebuilds_tools: bool  #: calls and results are made anew from columns; else the host's block is sent
    names_results: bool  #: what metadata say of a result counts: its call, its tool, whether that failed
    names_authors: bool  #: the model that wrote an answer, and who in a group said something, are sent
    counts_senders: bool  #: who in a group said something is weighed by the last cut
    skips_void_answers: bool  #: an answer with neither text nor parts is not there
    restores_reasoning_items: bool  #: OpenAI's, which the host keeps as a signature
    signatures_need_identity: bool  #: of reasoning: sent only when the message names its model
    answers_in_turn: bool  #: a summary of nothing but this turn's tool exchanges is an assistant's message
    clamp: ClampRules | None  #: None: nothing is cut at the end
    counts_serialized: bool  #: the engine reports the size of whole messages as JSON
    weighs_results: bool  #: a tool's result by a measure of its own, where that is larger
    follows_forks: bool  #: what a host holds of a fork alone is sent behind the context
    recall_cue: bool  #: what history says of identifiers in the prompt may stand before the context
    sends_static_policy: bool  #: the same system prompt addition always; else one that fits the summaries


class SourceRules(Record, frozen=True):
    """How what a summary is made from becomes text (docs/spec/texts.md, "Leaf source text")."""

    names_role: bool  #: the header of a message says its role
    names_sender: bool  #: and who sent it
    meaningful_only: bool  #: payloads, injected context and blank lines go, and messages that are left empty
    reads_structure: bool  #: parts replace blank content, and JSON is reduced to what it says
    strip_injected_context_tags: tuple[str, ...]  #: elements that memory plugins inject, to be left out


class EscalationRules(Record, frozen=True):
    """What becomes of an answer that is too long, or empty (docs/spec/texts.md, "Escalation")."""

    accepts_empty: bool  #: an empty answer is a summary; else it is replaced by the fallback
    trims: bool  #: blanks around an answer are taken off before it is counted
    fallback_units: int | None  #: UTF-16 units that the fallback keeps; None: as many tokens as set
    omits_directives: bool  #: sentences shaped like instructions are left out of the fallback
    caps: bool  #: an answer over target times `summary_max_overage_factor` is cut
    aggressive_leaf_cap: int | None  #: highest target of the second attempt; None: 0.55 of the leaf target
    summary_max_overage_factor: float
    fallback_max_tokens: int | None  #: None: not set (docs/spec/texts.md, "Fallback")
    custom_instructions: str


class CompactionRules(Record, frozen=True):
    """Which passes are made, from how much, and when they stop (docs/spec/compaction.md).

    Tokens are estimates, ``_ms`` milliseconds.
    """

    leaf_trigger: bool  #: raw tokens outside the tail set off a sweep that is not forced, not only the total
    bounded: bool  #: by iterations and time
    has_prefix_target: bool  #: condensation goes on only while the summaries are over a target
    skips_empty: bool  #: a chunk that says nothing is passed over; else a mark of zero tokens takes its place
    meaningful_fanout: bool  #: leaves that say nothing do not count towards the fan-out
    running_total: bool  #: each pass is reckoned with its weights; else the database is added up each time
    outlives_refusal: bool  #: a refused key ends a phase of a sweep; else it ends the operation
    endless_depth: bool  #: a negative depth of what is condensed by itself is no limit, not none
    writes_events: bool  #: a message is stored for each pass
    compacts_current_turn: bool  #: after an overflow, finished tool calls behind the newest user message
    reports_stored: bool  #: an operation that ends early reports what the database holds
    sweeps_only: bool  #: the engine by itself makes no leaf pass of its own
    context_threshold: float
    leaf_min_fanout: int
    condensed_min_fanout: int
    condensed_min_fanout_hard: int
    sweep_max_depth: int  #: of what is condensed by itself: 0 leaves only, -1 without limit
    leaf_chunk_tokens: int
    leaf_target_tokens: int
    condensed_target_tokens: int
    summary_prefix_target_tokens: int | None  #: None: derived, see `prefix_target`
    max_rounds: int
    max_sweep_iterations: int
    sweep_deadline_ms: int
    compact_until_under_deadline_ms: int

    @property
    def smallest_condensation(self) -> int:
        """Tokens that a condensed chunk must have (docs/spec/compaction.md, "Condensed chunk")."""
        return max(self.condensed_target_tokens, self.leaf_chunk_tokens // 10)

    def threshold(self, budget: int) -> int:
        """Tokens above which a context of this *budget* is compacted."""
        return math.floor(self.context_threshold * budget)

    def prefix_target(self, budget: int) -> int:
        """Tokens that the summaries of a context should come down to (docs/spec/compaction.md, "Sweep")."""
        if self.summary_prefix_target_tokens is not None:
            return self.summary_prefix_target_tokens
        half = math.floor(max(1, self.threshold(budget)) * 0.5)
        return max(self.condensed_target_tokens, min(self.leaf_chunk_tokens, half))


class IngestRules(Record, frozen=True):
    """What becomes of a host's message (docs/spec/ingest.md)."""

    as_present: bool  #: messages are stored and counted as that page says; else nothing is stored
    large_file_token_threshold: int  #: tokens from which on a payload goes to a file
    prune_heartbeat_ok: bool  #: turns of the host's timer in which nothing was to be done go again
    preserve_heartbeat_poll: bool  #: of these only the acknowledgement does; what the timer asked stays
    bootstrap_max_tokens: int  #: of the newest messages that the engine's own first import keeps


class SearchRules(Record, frozen=True):
    """What of a message is in ``messages_fts`` (docs/spec/search.md)."""

    indexes_blank: bool  #: messages without text have a row
    shortens_references: bool  #: of a reference to a stored payload its first line and its summary
    trims_references: bool  #: of those, no blank lines and no advice


class LockRules(Record, frozen=True):
    """How the engine works beside another writer (docs/spec/versions.md, "Locks")."""

    waits: bool  #: for a lock; else its own write fails at once
    notes_compactions: bool  #: while it compacts, the file says so


class EngineRules(Record, frozen=True):
    """How the engine of a file treats it; an operator's settings override that (`configured`)."""

    name: str  #: for people, and for ``--rules``
    estimator: Estimator  #: by which rows are counted that are written: always that of the file
    tail: TailRules
    wrapper: WrapperRules
    assembly: AssemblyRules
    source: SourceRules
    escalation: EscalationRules
    compaction: CompactionRules
    ingest: IngestRules
    search: SearchRules
    locks: LockRules
    is_migrated: bool  #: the present engine brings the file to its own schema; else that is of another line


class _Marks(Record, frozen=True):
    """What the engine's versions left in a schema, oldest first; tags show where each was first seen."""

    bootstrap_state: bool = False  #: 0.5.0
    active: bool = False  #: 0.6.0, the first after most defaults changed in 0.5.3
    migration_state: bool = False  #: 0.8.1
    maintenance: bool = False  #: 0.9.0
    prompt_telemetry: bool = False  #: 0.9.2
    large_content: bool = False  #: 0.10.0
    focus_briefs: bool = False  #: 0.11.0
    retry_attempts: bool = False  #: 0.12.0
    archive_cause: bool = False  #: 0.14.0, the last before 0.15.0, which looks alike
    sender: bool = False  #: 0.15.2, and 1.0.0 of the 1.x line
    event_key: bool = False  #: 0.15.2, with the other columns by which a stored message is known again
    signed: bool = False  #: 0.15.2, by the same column as `sender`; never in the 1.x line
    prepared: bool = False  #: 1.0-beta, which left the line before 0.15.2
    whole_turns: bool = False  #: 1.1.0, whose schema is that of 1.0.0
    cursors: bool = False  #: after 1.1.1
    other_line: bool = False  #: the 1.x line, whatever else the file has


_IDENTITIES: Final = ("identity_hash", "transcript_entry_id", "stable_event_key")


def _marks_of(schema: Tables) -> _Marks:
    newer, has = schema.is_1x, schema.has
    maintenance, telemetry = "conversation_compaction_maintenance", "conversation_compaction_telemetry"
    oldest = _Marks(
        bootstrap_state=newer or has("conversation_bootstrap_state"),
        other_line=newer,
    )
    if not has("conversations", "active"):
        return oldest  # what is newer was not left by an engine that went on with the file
    return replace(
        oldest,
        active=True,
        migration_state=newer or has("lcm_migration_state"),
        maintenance=newer or has(maintenance),
        prompt_telemetry=newer or has(telemetry, "last_observed_prompt_token_count"),
        large_content=newer or has("messages", "large_content"),
        focus_briefs=newer or has("focus_briefs"),
        retry_attempts=newer or has(maintenance, "retry_attempts"),
        archive_cause=newer or has("conversations", "archive_cause"),
        sender=has("messages", "openclaw_sender_metadata"),
        event_key=all(has("messages", column) for column in _IDENTITIES),
        signed=not newer and has("messages", "openclaw_sender_metadata"),
        prepared=newer,
        whole_turns=newer and has("messages", "openclaw_sender_metadata"),
        cursors=newer and has("conversation_transcript_cursors"),
    )


def _name(marks: _Marks) -> str:
    """What the rules are called: by the oldest mark that is missing."""
    named = (
        (marks.active, "0.1"),
        (marks.migration_state, "0.6"),
        (marks.prompt_telemetry, "0.8"),
        (marks.large_content, "0.9"),
        (marks.focus_briefs, "0.10"),
        (marks.retry_attempts, "0.11"),
        (marks.archive_cause, "0.13"),
        (marks.prepared, "0.15"),
        (marks.sender, "1.0-beta"),
        (marks.whole_turns, "1.0"),
    )
    return next((name for is_there, name in named if not is_there), "1.1")


def _rules(marks: _Marks) -> EngineRules:
    """Each value beside the mark that it depends on; how else versions between differed is not known."""
    estimator = Estimator.WEIGHTED if marks.migration_state else Estimator.UTF16
    return EngineRules(
        name=_name(marks),
        estimator=estimator,
        tail=TailRules(
            fresh_tail_count=64 if marks.active else 32,
            fresh_tail_max_tokens=None,
            keeps_turn_whole=marks.archive_cause,
        ),
        wrapper=WrapperRules(has_trust=marks.retry_attempts, escapes=marks.retry_attempts),
        assembly=_assembly(marks, estimator),
        source=SourceRules(
            names_role=marks.sender or marks.prepared,
            names_sender=marks.sender,
            meaningful_only=marks.active,
            reads_structure=marks.large_content,
            strip_injected_context_tags=INJECTED_TAGS if marks.retry_attempts else (),
        ),
        escalation=EscalationRules(
            accepts_empty=not marks.active,
            trims=marks.active,
            fallback_units=None if marks.active else 2_048,
            omits_directives=marks.retry_attempts,
            caps=marks.active,
            aggressive_leaf_cap=None if marks.active else 640,
            summary_max_overage_factor=3.0,
            fallback_max_tokens=None,
            custom_instructions="",
        ),
        compaction=_compaction(marks),
        ingest=_ingest(marks),
        search=SearchRules(
            indexes_blank=not marks.bootstrap_state,
            shortens_references=marks.large_content,
            trims_references=marks.event_key,
        ),
        locks=LockRules(
            waits=marks.bootstrap_state,
            notes_compactions=marks.maintenance,
        ),
        is_migrated=not marks.other_line,
    )


def _assembly(marks: _Marks, estimator: Estimator) -> AssemblyRules:
    return AssemblyRules(
        tail_of_items=not marks.migration_state,
        trusts_stored_tokens=not marks.active,
        estimator=estimator,
        prompt_aware=marks.active,
        stubs_payloads=marks.large_content,
        drops_unusable=marks.active,
        rebuilds_tools=marks.active,
        names_results=marks.active,
        names_authors=marks.active,
        counts_senders=not (marks.prepared and marks.sender),
        skips_void_answers=marks.active,
        restores_reasoning_items=marks.active,
        signatures_need_identity=marks.signed,
        answers_in_turn=marks.whole_turns,
        clamp=ClampRules(share=0.9, acts_above_share=marks.prepared, keeps_turns=marks.whole_turns)
        if marks.retry_attempts
        else None,
        counts_serialized=marks.retry_attempts,
        weighs_results=marks.prepared,
        follows_forks=marks.retry_attempts and not marks.prepared,
        recall_cue=marks.retry_attempts,
        sends_static_policy=marks.active,
    )


def _compaction(marks: _Marks) -> CompactionRules:
    return CompactionRules(
        leaf_trigger=not marks.large_content,
        bounded=marks.focus_briefs,
        has_prefix_target=marks.large_content,
        # Up to 0.14 a chunk that says nothing became a summary that says nothing: a fault, not repeated here.
        skips_empty=marks.active,
        meaningful_fanout=marks.archive_cause,
        running_total=marks.active,
        outlives_refusal=marks.active,
        endless_depth=marks.active,
        writes_events=not marks.active,
        compacts_current_turn=marks.whole_turns,
        reports_stored=marks.whole_turns,
        sweeps_only=marks.large_content,
        context_threshold=0.75,
        leaf_min_fanout=8,
        condensed_min_fanout=4,
        condensed_min_fanout_hard=2,
        sweep_max_depth=1 if marks.active else 0,
        leaf_chunk_tokens=20_000,
        leaf_target_tokens=2_400 if marks.active else 1_200,
        condensed_target_tokens=2_000,
        summary_prefix_target_tokens=None,
        max_rounds=10,
        max_sweep_iterations=12,
        sweep_deadline_ms=120_000,
        compact_until_under_deadline_ms=300_000,
    )


def _ingest(marks: _Marks) -> IngestRules:
    return IngestRules(
        as_present=marks.event_key,
        large_file_token_threshold=25_000,
        prune_heartbeat_ok=False,
        preserve_heartbeat_poll=False,
        bootstrap_max_tokens=6_000,
    )


_OF_0_15 = _Marks(
    bootstrap_state=True,
    active=True,
    migration_state=True,
    maintenance=True,
    prompt_telemetry=True,
    large_content=True,
    focus_briefs=True,
    retry_attempts=True,
    archive_cause=True,
    sender=True,
    event_key=True,
    signed=True,
)
_OF_1_0 = replace(_OF_0_15, signed=False, prepared=True, other_line=True)

#: Those of the first engine, 0.1.2 to 0.5; of the newest of the 0.x line, 0.15.3 and later; of the 1.x line.
RULES_0_1 = _rules(_Marks())
RULES_PRESENT = _rules(_OF_0_15)
RULES_1_0_BETA = _rules(replace(_OF_1_0, sender=False))
RULES_1_0 = _rules(_OF_1_0)
RULES_1_1 = _rules(replace(_OF_1_0, whole_turns=True, cursors=True))

#: Rules that an operator can ask for by name, whatever wrote the file.
NAMED: Mapping[str, EngineRules] = {
    rules.name: rules for rules in (RULES_0_1, RULES_PRESENT, RULES_1_0_BETA, RULES_1_0, RULES_1_1)
}


def engine_rules(schema: Tables, name: str | None = None) -> EngineRules:
    """The rules of the engine that left this schema, or those called *name*.

    What is stored by rules of another engine is counted as in the rest of the file all the same.

    Raises:
        KeyError: no rules have that name.
    """
    own = _rules(_marks_of(schema))
    return own if name is None else replace(NAMED[name], estimator=own.estimator)


def ingest_rules(schema: Tables, settings: EngineSettings) -> IngestRules:
    """By what a host's messages are stored in a file with this schema.

    Raises:
        RefusedError: an engine before 0.15.2 wrote it (docs/spec/versions.md, "Rules of storing").
    """
    rules = configured(engine_rules(schema), settings).ingest
    if not rules.as_present:
        raise RefusedError(
            f"An older engine wrote this file (LCM {schema.version}), and messages are stored only in files "
            "of 0.15.2 and later: bring it to the current schema with `lcm-tui migrate`, then try again.",
            code="FILE_NOT_MIGRATED",
            details={"version": schema.version},
        )
    return rules


def configured(rules: EngineRules, given: EngineSettings) -> EngineRules:
    """*rules* with what an operator set in place of their own values; every setting has the same name there.

    docs/spec/settings.md, "Settings and defaults"; what is in no rule is read where it is used.
    """
    ingest, chunk = _with_settings(rules.ingest, given), given.leaf_chunk_tokens
    derived = max(6_000, int(0.3 * chunk.value)) if chunk.is_set else rules.ingest.bootstrap_max_tokens
    return replace(
        rules,
        tail=_with_settings(rules.tail, given),
        source=_with_settings(rules.source, given),
        escalation=_with_settings(rules.escalation, given),
        compaction=_with_settings(rules.compaction, given),
        ingest=replace(ingest, bootstrap_max_tokens=given.bootstrap_max_tokens.value or derived),
    )


def _with_settings(rules: R, given: EngineSettings) -> R:
    """Rules of one kind with the settings of the same names that an operator set."""
    settings = {name: getattr(given, name) for name in rules.__struct_fields__ if hasattr(given, name)}
    return replace(rules, **{name: one.value for name, one in settings.items() if one.is_set})


# -- fresh tail ------------------------------------------------------------------------------------------
# Where the fresh tail of a context begins: the newest messages, which compaction does not touch.


class TailItem(Protocol):
    """What the rule needs to know of a context item, in order of ordinal."""

    @property
    def ordinal(self) -> int:
        """Place in the context."""

    @property
    def is_message(self) -> bool:
        """Whether it is a raw message whose row exists."""

    @property
    def role(self) -> str | None:
        """Role of the message."""

    @property
    def tokens(self) -> int:
        """Its weight: as stored for compaction, as sent for assembly."""


class FreshTail(Record, frozen=True):
    """The protected end of a context."""

    count: int  #: messages that the rule protects at most, before the turn is kept whole
    max_tokens: int | None  #: cap on its tokens; the newest message is protected in any case
    first_ordinal: int | None  #: None: the context holds no raw message, nothing is protected
    messages: int  #: raw messages from there on
    tokens: int  #: what they weigh together


def protected(
    newest_first: Iterable[tuple[int, bool]], *, count: int, max_tokens: int | None, whole_turn: bool
) -> int:
    """How many raw messages of a context are protected, counted from its end.

    *newest_first*: the weight of each raw message in tokens, and whether its role is user; no more of them is
    looked at than the rule needs. With *whole_turn* (0.15 on) everything up to the newest user message is
    protected whatever the limits say, and counts against both (docs/spec/compaction.md, "Fresh tail").
    """
    if count <= 0:
        return 0
    taken, spent = 0, 0
    waiting = whole_turn  # for the newest user message
    without_user: int | None = None  # how many they are if there is none
    for tokens, is_user in newest_first:
        if taken and (taken >= count or (max_tokens is not None and spent + tokens > max_tokens)):
            if not waiting:
                return taken
            if without_user is None:
                without_user = taken
        taken += 1
        spent += tokens
        waiting = waiting and not is_user
    return without_user if waiting and without_user is not None else taken


def fresh_tail(items: Sequence[TailItem], rules: TailRules) -> FreshTail:
    """The fresh tail of a context (docs/spec/compaction.md, "Fresh tail")."""
    messages = [item for item in items if item.is_message]
    size = protected(
        ((item.tokens, item.role == "user") for item in reversed(messages)),
        count=rules.fresh_tail_count,
        max_tokens=rules.fresh_tail_max_tokens,
        whole_turn=rules.keeps_turn_whole,
    )
    tail = messages[len(messages) - size :]
    return FreshTail(
        count=rules.fresh_tail_count,
        max_tokens=rules.fresh_tail_max_tokens,
        first_ordinal=tail[0].ordinal if tail else None,
        messages=len(tail),
        tokens=sum(item.tokens for item in tail),
    )
