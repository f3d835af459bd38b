"""What the screen of previous contexts reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lcm_core.dag.previous import PreviousChoice, PreviousContext
from lcm_core.errors import NotFoundError
from lcm_core.records import Summary, SummaryId, SummaryText
from lcm_core.store import summaries
from lcm_core.store.database import Reader
from lcm_core.store.previous import leaves_beside
from lcm_core.summarize.source import previous_of


@dataclass(frozen=True, slots=True)
class View:
    """One of the previous contexts that can be shown."""

    title: str
    word: str  #: what it makes of a summary that is in it
    choice: PreviousChoice
    given: str  #: who is given it, and how sure that is: "the model was given"


@dataclass(frozen=True, slots=True)
class PreviousData:
    """The previous context of a summary with the rows of all summaries that it names."""

    subject: Summary | None  #: None: it is not in the database (any more)
    context: PreviousContext | None = None
    texts: Mapping[SummaryId, SummaryText] = field(default_factory=dict)
    before: SummaryId | None = None  #: the leaf that was made just before
    after: SummaryId | None = None  #: and the one just after
    has_times: bool = True  #: this version records from when to when the messages of a summary are
    has_models: bool = True  #: this version records which model wrote a summary

    @property
    def views(self) -> tuple[View, ...]:
        """What can be shown: as given, for a rewrite, and what may have been given instead."""
        if self.context is None or not self.context.applies:
            return ()
        return (
            View("as given (reconstructed)", "given", self.context.as_given, "the model was given"),
            View("for a rewrite", "taken", self.context.for_rewrite, "a rewrite would be given"),
            *(
                View(
                    "possible alternative (reconstructed)", "perhaps", other, "the model may have been given"
                )
                for other in self.context.otherwise
            ),
        )

    @property
    def nothing(self) -> str:
        """Why there is nothing to show, in one sentence."""
        if self.subject is None:
            return "This summary is not in the database."
        return (
            self.context.why_not if self.context is not None else None
        ) or "Its previous context cannot be reconstructed."


async def load_previous(reader: Reader, summary_id: SummaryId) -> PreviousData:
    """Read all that the screen shows, in one transaction."""
    try:
        subject = (await summaries.get_summary(reader, summary_id)).summary
    except NotFoundError:
        return PreviousData(None)
    data = PreviousData(subject, await previous_of(reader, summary_id))
    named: dict[SummaryId, None] = {}
    for view in data.views:
        named |= dict.fromkeys(node.summary_id for node in view.choice.nodes)
        named |= dict.fromkeys(passed.summary_id for passed in view.choice.passed_over)
    before, after = await leaves_beside(reader, subject.conversation_id, summary_id)
    texts = await summaries.texts_of(reader, list(named))
    return replace(
        data,
        before=before,
        after=after,
        texts={text.summary.summary_id: text for text in texts},
        has_times=reader.schema.has("summaries", "earliest_at"),
        has_models=reader.schema.has("summaries", "model"),
    )
