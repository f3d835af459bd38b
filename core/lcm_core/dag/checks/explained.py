"""What each check goes by and what each fix does, in words for people (docs/engine/doctor.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lcm_core.findings import Confidence, FixId

#: The rule behind each check, and why it matters.
RULES: Final[Mapping[str, str]] = {
    "A1": "Each item of a context names a stored message. The engine skips one that does not, and says "
    "nothing.",
    "A2": "Each item of a context names a stored summary. The engine skips one that does not, and says "
    "nothing.",
    "A3": "A summary stands in a context once; twice, the model reads the same text twice and pays for it.",
    "A4": "A message stands in a context once; twice, the model reads it twice.",
    "A5": "A context holds rows of its own conversation only. Others come from a merge or a copy gone wrong.",
    "A6": "A compaction puts a summary in the place of its messages in one step. Both at once: it was cut "
    "short.",
    "A7": "A condensation puts a summary in the place of its sources in one step. Both at once: it was cut "
    "short.",
    "A8": "Ordinals count up without gaps, except where a host pruned its tail; the engine reads on over a "
    "gap.",
    "A9": "Ordinals outside 0 to 10,000,000 are what a renumbering leaves that died halfway.",
    "A10": "What stands first was said first. A copy that was ordered by depth, or a merge, breaks that.",
    "A11": "Each message is in the context or below a summary, except what /new left out on purpose (all "
    "before the oldest raw message) and compaction events. One that is in neither is out of the model's "
    "sight.",
    "A12": "A summary covers what is older than the raw messages behind it. A raw message that is older than "
    "that was stored late, mostly by an import in part.",
    "A13": "An active conversation with messages has a context; none is what an import leaves that was cut "
    "short.",
    "A14": "When a context is over its budget, compaction has something to do or is noted as due. With "
    "neither, nothing will ever relieve it.",
    "A15": "An item says whether it is a message or a summary, and names one of that kind. Only other tools "
    "can write it otherwise.",
    "B1": "A leaf is linked to the messages that it was made from; without, nothing can be recalled from it.",
    "B2": "A condensed summary has edges to its sources; without, nothing can be recalled from it.",
    "B3": "Each link of a leaf names a stored message.",
    "B4": "Each link and each edge joins summaries that are stored.",
    "B5": "No summary is made from itself; a walk to its sources would not end.",
    "B6": "A summary is made from older ones, so a walk toward the sources ends. In a cycle it does not, and "
    "depths and counts cannot be true.",
    "B7": "Summaries are made from rows of their own conversation. The foreign text is recalled here too.",
    "B8": "A leaf is made from messages, a condensed summary from summaries, and never from both.",
    "B9": "A leaf has depth 0, and only a leaf.",
    "B10": "The depth is one more than that of the deepest source. Compaction chooses what to condense by "
    "it.",
    "B11": "A condensation takes summaries of one depth. Databases from before depths were recorded differ.",
    "B12": "Sources are less deep than their consumer and were made before it.",
    "B13": "A summary stands in the context or is a source of another one, except what /new left out. "
    "Nothing leads to an orphan: the model cannot reach it.",
    "B14": "A summary is condensed once. Used by two live ones, it is told twice.",
    "B15": "A message is summarised by one leaf. Used by two, it is told twice.",
    "B16": "A leaf covers an unbroken run of messages. One in between that it does not cover was passed "
    "over.",
    "B17": "Links and edges are numbered from 0 in the order of their sources; expansion reads them so.",
    "B18": "Leaves cover one run of messages after the other. Runs that overlap come from two sweeps at "
    "once.",
    "B19": "A condensation takes at least two sources: from one, nothing is gained and something is lost.",
    "B20": "The engine's ids are sum_ and 16 hexadecimal digits. Others cannot be expanded by the model.",
    "B21": "When a summary takes the place of its sources, they leave the context in the same step.",
    "B22": "More than 6 levels, or more than 64 sources: no harm, but far from what the engine does by "
    "itself.",
    "B23": "What nothing uses in an archived conversation does no harm and takes space.",
    "C1": "The engine cuts the source off and marks that ([Truncated from N tokens]) when no answer of the "
    "model is shorter than the source. What was cut off is gone for the model; it is still stored below.",
    "C2": "The mark of a cut with 0 tokens: the source was empty, and so is what the model sees of it.",
    "C3": "The engine cut the source off and marked it as [LCM fallback summary; …], because the model "
    "failed or gave nothing.",
    "C4": "Without any model the engine cuts the source off. The stand-in was meant to hold for a moment.",
    "C5": "A summary far over its target is cut at a hard cap; what stood behind it is lost to the model.",
    "C6": "The engine leaves out of a summary what looks like an order to the reader, and says so in it.",
    "C7": "An empty summary stands for its messages and says nothing of them.",
    "C8": "A summary is shorter than what it was made from; else it only adds to the context.",
    "C9": "A summary that repeats its source word for word is a cut without a mark.",
    "C10": "What a bad source lacks, a summary made from it lacks too; mend the source first.",
    "C11": "A marker counts only where the engine puts it. Elsewhere it is quoted by the text.",
    "C12": "A summary is text about the messages. Thoughts and preambles of the model are read as facts.",
    "C13": "Memory that the host injects belongs to one turn. In a summary it is told as something that was "
    "said.",
    "C14": "Encoded data in a summary costs tokens and tells nothing.",
    "C15": "A provider's error or refusal was stored as if it were the summary.",
    "C16": "The target for a leaf and for a condensed summary is set in the configuration; three times that "
    "is odd.",
    "C17": "Two summaries with one text were made from the same messages, or one took the other's place.",
    "C18": "The prompt asks for a last line on what can be expanded. A summary without it is whole all the "
    "same.",
    "C19": "Heartbeats say nothing; a summary of them costs tokens and tells nothing.",
    "C20": "A summary tells what was said. Sentences that order the reader about may come from outside.",
    "D1": "The stored count is that of one of the engine's two estimators: a quarter of the length (before "
    "0.8), or by the kind of character. Compaction and assembly go by it.",
    "D2": "The count is the sum over the sources of their count and one; 0 for a leaf.",
    "D3": "The sum is that of the sources' own tokens and what is below them; 0 for a leaf.",
    "D4": "The sum is that of the tokens of the messages at the very bottom.",
    "D5": "A summary records the time of the first and of the last message below it. Search by time needs "
    "both.",
    "D6": "A time range begins before it ends.",
    "D7": "A time range goes from the earliest to the latest of the sources.",
    "D8": "0.1 to 0.5 read stored times as local ones: ranges are off by the zone of the machine.",
    "D9": "Nothing stored lies in the future, and no summary covers what came after it was made.",
    "D10": "Times are stored as 2026-03-02 10:00:00 or 2026-03-02T10:00:00.000Z; others do not sort.",
    "D11": "The files of a summary are a JSON array of ids.",
    "D12": "The files of a summary are those that its text names and those of its sources, each of them "
    "stored.",
    "D13": "From 0.5 on the model that wrote a summary is recorded; unknown says that it was not told.",
    "D14": "Counts of tokens and of summaries begin at 0; below, sums over the context come out wrong.",
    "E1": "seq counts from 0 or 1 without gaps, except where the host deleted heartbeats. A gap without a "
    "reason means that messages were renumbered or taken away.",
    "E2": "What was stored later was said later; an import or a clock that was set back breaks that.",
    "E3": "A host that replays its transcript stores the same block again. Repeated timers and answers are "
    "no replay: it takes the same times, the same tool calls, or a burst.",
    "E4": "The same text by the same role at the same time was stored twice.",
    "E5": "Twins are one message in two forms: decorated by the host and bare, or with and without "
    "redaction.",
    "E6": "From 0.9 on a hash of role and text tells messages apart. Without it, a replay is not noticed.",
    "E7": "A tool call and its result name the same id. Half a pair is refused by providers; the engine "
    "fills in.",
    "E8": "An id belongs to one call and one result. Some models use ids again, so this need not be wrong.",
    "E9": "A tool message keeps its result in parts. Up to 0.9.3 an import stored none.",
    "E10": "The parts hold a message as it was sent; without them the model gets its plain text.",
    "E11": "Before 0.5.1 the tool call id stood in the metadata of a part only; results are paired by the "
    "column.",
    "E12": "Parts are numbered from 0, with readable metadata, and say what the message says.",
    "E13": "A part belongs to a stored message; nothing reads one that does not.",
    "E14": "0.1 to 0.6.0 stored each compaction as a system message. They are no part of the talk.",
    "E15": "Heartbeats, empty answers and mirrored replies are stored as they came; they cost tokens.",
    "E16": "Large payloads lie in files beside the database; the model reads them through the id.",
    "E17": "The size that was stored is that of the file on the disk; another one means that it was changed.",
    "E18": "A message that names a file can be expanded only when the file is known.",
    "E19": "A file that nothing names takes space and is never read.",
    "E20": "Payloads from a set size on are moved to a file; up to 0.9.3 an import left them in the message.",
    "E21": "For a tool result that is missing the engine sends a stand-in. It is never meant to be stored.",
    "E22": "A message with text has tokens; with 0 it is not counted against the budget.",
    "E23": "An entry of a transcript is stored as one message, in one conversation.",
    "E24": "Messages have the time at which they were said. A long run with one second was stamped at its "
    "import.",
    "E25": "People and the model take turns. A long run of one side alone may lack what the other said.",
    "F1": "Messages with text can be found: each has a row in the search table (blank ones only before 0.8).",
    "F2": "What was deleted is not found any more.",
    "F3": "Each summary with text has one row in the search table.",
    "F4": "The search table holds the text as it is; another one is found by words that are not there.",
    "F5": "The search table for Chinese, Japanese and Korean is filled once and then row by row; a repair of "
    "summaries by the engine forgets it.",
    "F6": "A search table is whole, and this SQLite can read it. Else the engine's search fails.",
    "G1": "One conversation of a session key is active. With two, the host writes to one and reads the "
    "other.",
    "G2": "Without a key, one conversation of a session id is active.",
    "G3": "A conversation that is not active has the time of archiving, and only such a one.",
    "G4": "When the host starts a new transcript, the engine goes on with the same conversation. Where it "
    "began a new one without a reset by the user, the model has lost what came before.",
    "G5": "A conversation without messages does no harm; failed starts leave them.",
    "G6": "Sub-agents and timers end, and their transcripts go; the conversation stays active for nothing.",
    "G7": "The engine reads a transcript on from where it stopped. Grown far past that, nothing is stored "
    "any more.",
    "G8": "The checkpoint lies within the transcript. Beyond, the engine reads from the wrong place or not "
    "at all.",
    "G9": "Compaction that is due is done or given up. Marked as running for long, it blocks all others.",
    "G10": "Telemetry is not negative and not from the future. Nothing is decided by it.",
    "G11": "One focus brief of a conversation is active, and what it covers is stored.",
    "G12": "Tables and columns are those of one version, and its migration has noted its steps.",
    "G13": "SQLite's own checks: pages that can be read, and rows that refer to rows that exist.",
    "G14": "A large WAL, or many free pages, take space; VACUUM by the host gives it back.",
    "G15": "SQLite hands out ids above its counter. Behind the largest id, ids of deleted rows come again.",
    "G16": "1.0-beta prepares compaction in the background; what is stuck there is never used.",
    "G17": "1.0-beta notes where each message stands in its transcript, and how sure that is.",
    "G18": "Two conversations with the same messages are a fork, an import done twice, or a copy.",
    "G19": "Parts name the session that they came from; several in one conversation were joined or mixed up.",
}

#: What each kind of fix does.
FIXES: Final[Mapping[FixId, str]] = {
    FixId.CLOSE_GAPS: "Number the items of the context from 0 again, in the order that they have.",
    FixId.DROP_DANGLING_ITEMS: "Take the items out of the context whose message or summary is gone. Where "
    "links and edges still tell what a summary was made from, that comes in its place.",
    FixId.DROP_FOREIGN_ITEMS: "Take the items out of the context that belong to another conversation, whose "
    "own context reaches them too.",
    FixId.REORDER: "Put the items of the context into the order of what they cover; each stays as it is.",
    FixId.DROP_DUPLICATE_ITEMS: "Leave the first item in the context and take the others for the same thing "
    "out.",
    FixId.DROP_COVERED_ITEMS: "Take out of the context what a summary in it covers, or the summary instead "
    "(a choice in the preview). The rows stay.",
    FixId.RESTORE_MESSAGES: "Put the messages back into the context, at their place.",
    FixId.RESTORE_SUMMARIES: "Put the summary back into the context, at its place.",
    FixId.DELETE_ORPHAN_LINKS: "Delete links and edges of which one end is gone.",
    FixId.DELETE_FALSE_LINES: "Delete the links and edges that the counters disprove; what they led to stays "
    "where it belongs.",
    FixId.DELETE_ORPHAN_PARTS: "Delete parts whose message is gone.",
    FixId.REBUILD_SEARCH: "Write the rows of the search table again that are missing, stale or too many. "
    "They are made from messages and summaries, so there is nothing to undo.",
    FixId.RECOMPUTE_DEPTH: "Compute the depth from the sources, and that of what was made from it.",
    FixId.RECOMPUTE_COUNTERS: "Compute the counters from the sources, and those of what was made from it.",
    FixId.RECOMPUTE_TIMES: "Compute the time range from the sources, and that of what was made from it.",
    FixId.RECOMPUTE_FILE_IDS: "List the files that the text and the sources name.",
    FixId.RECOMPUTE_TOKENS: "Count the tokens again by this version's estimator, and what is summed up from "
    "them.",
    FixId.RELINK: "Link the summary to the sources again that its own counters prove.",
    FixId.NUMBER_SOURCES: "Number the sources of the summary from 0, in the order of what they cover.",
    FixId.FILL_TOOL_COLUMNS: "Write the tool call id of the metadata into its empty column.",
    FixId.DROP_REPEATED_MESSAGES: "Take the copies out of the context whose originals are in sight. The rows "
    "stay.",
    FixId.MERGE_SPLIT: "Make one conversation of the session again (the preview of a merge).",
}

#: What a confidence means.
CONFIDENCES: Final[Mapping[Confidence, str]] = {
    Confidence.BROKEN: "No engine leaves it so.",
    Confidence.SUSPICIOUS: "Damage, or something unusual that somebody meant; the rows tell.",
    Confidence.BY_DESIGN: "It looks like damage and is none: the engine, its host or an older version does "
    "this.",
}

_OTHER_TOOL: Final = "Another tool wrote it, and only that can tell what was meant."
_RECALL_ONLY: Final = (
    "The text is whole and the model reads it; only recall from it finds nothing. A backup from before it "
    "would tell."
)
_BY_MODEL: Final = "The summary has to be written again by a model: rewrite it, or repair all that are bad."

#: Why a finding of a check may have no fix, and what somebody can do about it.
WITHOUT_FIX: Final[Mapping[str, str]] = {
    "A5": "What it names is in sight nowhere else, so nothing takes it out. Merge the two conversations when "
    "they are one session (`lcm-tui merge`); else transplant the other one, which makes copies for this one.",
    "A7": "The summaries are made from each other in a circle (B6): which one is too many cannot be told.",
    "A9": "The items cover nothing that tells their order: restore a backup, or go on as it stands.",
    "A10": "What the items cover tells no single order. Mend what overlaps, dangles or stands twice first "
    "(A1 to A7); then there may be one.",
    "A11": "Nothing tells whether it was left out on purpose or where it stood. Search and recall find it.",
    "A12": "What the items cover tells no single order: a summary before it may cover what was said on both "
    "sides of it. Mend what overlaps, dangles or stands twice first (A1 to A7).",
    "A13": "Which messages the model is to read cannot be told. The host fills the context with what comes.",
    "A14": "Nothing is wrong with the rows: give the model a larger budget, or rewrite the longest summaries "
    "(W).",
    "A15": f"{_OTHER_TOOL} The context has to be mended by it, or from a backup.",
    "B1": f"No messages can be proven to be its sources. {_RECALL_ONLY}",
    "B2": f"No summaries can be proven to be its sources. {_RECALL_ONLY}",
    "B6": f"No counter proves which edge is one too many. {_RECALL_ONLY}",
    "B7": "No counter proves that the summary was not made from it. Merge the two conversations when they "
    "are one session (`lcm-tui merge`); else nothing is lost by leaving it.",
    "B8": f"Either the kind or the line is wrong. {_OTHER_TOOL}",
    "B12": "Either the depth, the time or the edge is wrong; the sources of both (B10, D2, D7) may tell.",
    "B13": "Nothing tells where it stood. Search and recall find it, and what it covers.",
    "B14": "No counter proves either edge wrong. Nothing is lost by it; to save the tokens, rewrite one of "
    "the two (W) and take it out of the draft by hand (e).",
    "B15": "No counter proves either link wrong. Nothing is lost by it; to save the tokens, rewrite one leaf "
    "(W) and take it out of the draft by hand (e).",
    "B16": "What lies in between may have been left out on purpose. Search finds it.",
    "B17": "A number that is missing may be the trace of a lost source, and no sum of the summary disproves "
    "it; or the sources overlap. They are read in the order that they have.",
    "B18": "Both leaves were made, one after the other; what each tells is its own.",
    "B19": "What else it was made from cannot be told; where its counters prove it, B13 has the fix.",
    "B20": f"Another id would have to be chosen for all that refers to it. {_OTHER_TOOL}",
    "E11": "This version reads the metadata itself, and the migration of a later one fills the column.",
    **dict.fromkeys(("C1", "C2", "C3", "C4", "C5", "C7", "C8", "C9", "C10", "C12", "C15"), _BY_MODEL),
}
#: The same for every other check.
NOTHING_TO_FIX: Final = "It would have to guess, or there is nothing to mend."


def without_fix(check: str) -> str:
    """Why a check's findings may have no fix, and what somebody can do, in sentences."""
    return WITHOUT_FIX.get(check, NOTHING_TO_FIX)
