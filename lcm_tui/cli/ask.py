"""``ask``: a question to the memory."""

from __future__ import annotations

from lcm_core.base.errors import UsageError
from lcm_core.base.records import ConversationId
from lcm_recall.ask import AskLimits

from lcm_tui.cli import options
from lcm_tui.cli.answer import Answer, Run
from lcm_tui.cli.command import argument, command, flag, option
from lcm_tui.cli.kinds import Raw, Tokens, WholeNumber
from lcm_tui.cli.recall import agent, whole_session

_LIMITS = AskLimits()
_MAX_QUESTION, _MOST_CALLS = 4_000, 20


@command(
    "ask",
    examples=('ask "Why is the lease 45 s?"', 'ask "Which port?" --model claude-haiku-4-5 --max-cost 0.05'),
)
@argument("question", Raw(), "QUESTION", "Your question.")
@options.by_conversation_id()
@whole_session
@agent
@option(
    "--budget",
    Tokens(100, 200_000),
    "TOKENS",
    f"Maximum tokens of evidence; {_LIMITS.tokens:,} by default.",
    into="tokens",
    default=_LIMITS.tokens,
)
@option(
    "--timeout",
    WholeNumber(1, 3_600),
    "SECONDS",
    f"Time limit for the model in seconds; {_LIMITS.seconds:g} by default.",
    default=int(_LIMITS.seconds),
)
@flag("--fail-empty", "Exit with code 3 if there is no evidence.")
@options.model_options
@options.yes
def ask(
    run: Run,
    *,
    question: str,
    conversation_id: ConversationId | None,
    session_key: str | None,
    agent: str | None,
    tokens: int,
    timeout: int,
    fail_empty: bool,
    model: options.ModelOptions,
    yes: bool,
) -> Answer:
    """Answer a question from the memory, with citations; a model is called only if you name one and
    confirm.

    Without --max-calls it makes 4 calls at most, the last one for the answer.
    """
    # With all that writes a text, 90 ms that help need not take.
    from lcm_tui.cli.asking import AskWork, flagged_model

    if not question.strip() or len(question) > _MAX_QUESTION:
        raise UsageError(
            f"A question has from 1 to {_MAX_QUESTION:,} characters, not {len(question.strip()):,}.",
            details={"option": "QUESTION"},
        )
    calls = min(model.max_calls or _LIMITS.calls, _MOST_CALLS)
    limits = AskLimits(tokens, calls, seconds=float(timeout))
    work = AskWork(
        run, question.strip(), (conversation_id, session_key, agent), limits, flagged_model(run, model), yes
    )
    return work.do(fail_empty=fail_empty)
