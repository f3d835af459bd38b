"""The names of what each list holds, in order: the header of its CSV, also where nothing is listed.

`tests/cli/test_forms.py` compares them with what the lists hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_NAMES: Final[Mapping[str, str]] = {
    "conversations.list": """
    conversationId sessionId sessionKey active archivedAt title bootstrappedAt createdAt updatedAt
    messageCount messageTokens earliestMessageAt latestMessageAt summaryCount summaryTokens
    summarizedSourceTokens earliestSummaryAt latestSummaryAt maxSummaryDepth contextItems contextTokens
    freshTailMessages freshTailTokens
    """,
    "messages.list": "messageId conversationId seq role tokenCount createdAt largeContent preview",
    "summaries.list": """
    summaryId conversationId kind depth tokenCount earliestAt latestAt coverageAt descendantCount
    descendantTokenCount sourceMessageTokenCount createdAt fileIds model parentCount childCount
    sourceMessageCount preview
    """,
    "files.list": """
    fileId conversationId fileName mimeType byteSize lineCount storageUri explorationSummary createdAt state
    resolvedPath message
    """,
    "sessions.list": """
    agent sessionKey sessionId storage current previousSessionId entries badLines newestAt conversationId
    behind
    """,
    "history.list": """
    operationId kind title conversationId createdAt tokens rows batch undoes undoneBy exportPath toolVersion
    inEffect
    """,
    "focus.list": """
    briefId conversationId status active prompt tokenCount targetTokens coveredLatestAt coveredMessageSeq
    generatorRunId error createdAt updatedAt supersededAt replaces state sources
    """,
    "context.snapshots": """
    id createdAt rules timezone budget selection messages evicted sentTokens messagesHash metadata damaged
    """,
}
COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    command: tuple(names.split()) for command, names in _NAMES.items()
}
