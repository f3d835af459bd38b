"""``python -m benchmarks.recall --seed N``: planted needles, looked for by our search and by the engine's.

Ten kinds of needles, each among ten near-duplicates that lack or change what is asked for. Printed is the
share that stands among the first 1, 5 and 20 hits. Exit code 0 when ours has 90 % of every kind among the
first five, 1 when not.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lcm_core.store.database import Database, Reader
from lcm_core.store.search import Filter
from lcm_recall.queries import RecallSettings
from lcm_recall.search import respelled, search
from lcm_recall.terms import KnownWords, parse
from lcm_recall.tools import RecallTools

from benchmarks.generate import stamp, write
from benchmarks.shapes import TINY

_KINDS: Final = (
    "words", "identifiers", "paths", "numbers", "tool inputs", "tool outputs", "glued CJK", "misspelt",
    "archived", "large files",
)  # fmt: skip
_DUPLICATES: Final = 10
_AT: Final = (1, 5, 20)
_BAR: Final = 0.9
_OLD: Final = 1_700_000_000
_SYLLABLES: Final = (
    "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "qui", "ro", "su", "ta", "ve",
    "wi", "xo", "yu", "zar", "ner", "lin", "mot", "pra", "stel",
)  # fmt: skip
_GLUE: Final = "修改更新检查删除创建配置服务日志缓存"
_ID: Final = re.compile(r"msg#\d+|file_[0-9a-f]+|sum_[0-9a-z_]+")


@dataclass(frozen=True, slots=True)
class Needle:
    """What was planted, and how it is asked for."""

    kind: str
    id: str
    query: str


class _Planting:
    """Writes needles and their near-duplicates beside what a database holds."""

    def __init__(self, db: sqlite3.Connection, files: Path, seed: int) -> None:
        self._db, self._files, self._rng = db, files, random.Random(seed)
        self._conversations = [row[0] for row in db.execute("SELECT conversation_id FROM conversations")]
        self._archived = [
            row[0] for row in db.execute("SELECT conversation_id FROM conversations WHERE active = 0")
        ] or self._conversations
        self._next = db.execute("SELECT max(message_id) FROM messages").fetchone()[0] + 1

    def needles(self, count: int) -> list[Needle]:
        return [self._plant(kind) for kind in _KINDS for _ in range(count)]

    def word(self, syllables: int = 3) -> str:
        return "".join(self._rng.choice(_SYLLABLES) for _ in range(syllables))

    def _plant(self, kind: str) -> Needle:
        """One needle at any place among its near-duplicates."""
        make = self._makers()[kind]
        query, text, others = make()
        texts = [text, *others]
        self._rng.shuffle(texts)
        ids = {one: self._store(kind, one) for one in texts}
        return Needle(kind, ids[text], query)

    def _makers(self) -> dict[str, Callable[[], tuple[str, str, list[str]]]]:
        return {
            "words": self._words,
            "identifiers": lambda: self._one_of(
                lambda: f"{self.word(2)}_{self.word(2)}_{self._rng.randrange(100, 999)}", "call {} before it"
            ),
            "paths": lambda: self._one_of(
                lambda: f"src/{self.word(2)}/{self.word(1)}{self._rng.randrange(99)}/{self.word(2)}.ts",
                "the fix is in {} since",
            ),
            "numbers": lambda: self._one_of(
                lambda: str(self._rng.randrange(10**5, 10**7)), "it took {} ms in"
            ),
            "tool inputs": self._words,
            "tool outputs": self._words,
            "glued CJK": self._glued,
            "misspelt": self._misspelt,
            "archived": self._words,
            "large files": self._words,
        }

    def _words(self) -> tuple[str, str, list[str]]:
        """Three words; each near-duplicate has two of them and another one."""
        words = [self.word() for _ in range(3)]
        frame = f"We said that {{}} of {{}} waits for {{}} at {self.word(2)}."
        others = []
        for _ in range(_DUPLICATES):
            changed = list(words)
            changed[self._rng.randrange(3)] = self.word()
            others.append(f"{frame.format(*changed)} {self.word(4)}")
        return " ".join(words), frame.format(*words), others

    def _one_of(self, name: Callable[[], str], frame: str) -> tuple[str, str, list[str]]:
        """One name; the near-duplicates differ in a few signs of it."""
        wanted, about = name(), self.word(2)
        others: dict[str, None] = {}
        while len(others) < _DUPLICATES:
            signs = list(wanted)
            places = [at for at, sign in enumerate(signs) if sign.isalnum()]
            for at in self._rng.sample(places, 2):
                signs[at] = self._rng.choice("0123456789" if signs[at].isdigit() else "abcdefghij")
            if (other := "".join(signs)) != wanted:
                others[f"{frame.format(other)} {about}"] = None
        return wanted, f"{frame.format(wanted)} {about}", list(others)

    def _glued(self) -> tuple[str, str, list[str]]:
        before, after = ("".join(self._rng.sample(_GLUE, 3)) for _ in range(2))
        word = self.word()
        others = [f"{before}{self.word()}{after}{number}" for number in range(_DUPLICATES)]
        return word, f"{before}{word}{after}", others

    def _misspelt(self) -> tuple[str, str, list[str]]:
        """A word of at least eight letters is asked for with one letter left out, doubled or swapped."""
        _, text, others = self._words()
        word = max(re.findall(r"[a-z]{8,}", text) or [self.word(4)], key=len)
        unique = f"{word}{self.word(2)}"
        text = text.replace(word, unique) if word in text else f"{text} {unique}"
        at = self._rng.randrange(1, len(unique) - 2)
        wrong = self._rng.choice(
            (
                unique[:at] + unique[at + 1 :],
                unique[:at] + unique[at] + unique[at:],
                unique[:at] + unique[at + 1] + unique[at] + unique[at + 2 :],
            )
        )
        return wrong, text, others

    def _store(self, kind: str, text: str) -> str:
        owner = self._rng.choice(self._archived if kind == "archived" else self._conversations)
        at = stamp(_OLD + self._rng.randrange(10**7))
        if kind == "large files":
            name = f"file_{self._rng.getrandbits(64):016x}"
            filler = "\n".join(self.word(4) for _ in range(400))
            (self._files / f"{name}.txt").write_text(f"{filler}\n{text}\n{filler}")
            self._db.execute(
                """INSERT INTO large_files (file_id, conversation_id, file_name, mime_type, byte_size,
                storage_uri, exploration_summary, created_at) VALUES (?,?,?,?,?,?,?,?)""",
                (name, owner, f"{name}.txt", "text/plain", 1, str(self._files / f"{name}.txt"), "A log.", at),
            )
            return name
        number, self._next = self._next, self._next + 1
        tool = kind in {"tool inputs", "tool outputs"}
        seq = self._db.execute(
            "SELECT coalesce(max(seq), 0) + 1 FROM messages WHERE conversation_id = ?", (owner,)
        ).fetchone()[0]
        self._db.execute(
            """INSERT INTO messages (message_id, conversation_id, seq, role, content, token_count,
            identity_hash, created_at) VALUES (?,?,?,?,?,?,?,?)""",
            (number, owner, seq, "tool" if tool else "user", "" if tool else text, 20, f"{number:064x}", at),
        )
        if tool:
            column = "tool_input" if kind == "tool inputs" else "tool_output"
            self._db.execute(
                f"""INSERT INTO message_parts (part_id, message_id, session_id, part_type, ordinal, tool_name,
                {column}) VALUES (?,?,?,?,?,?,?)""",
                (f"needle-{number}", number, "s", "tool", 0, "exec", f'{{"text": "{text}"}}'),
            )
        return f"msg#{number}"


def planted(folder: Path, seed: int, count: int) -> tuple[Path, list[Needle]]:
    """A database with needles, its own search tables filled as the engine fills them."""
    path, files = folder / "lcm.db", folder / "files"
    files.mkdir()
    write(TINY, path)
    with closing(sqlite3.connect(path)) as db, db:
        needles = _Planting(db, files, seed).needles(count)
        db.execute("DELETE FROM messages_fts")
        db.execute("INSERT INTO messages_fts (rowid, content) SELECT message_id, content FROM messages")
        db.execute("DELETE FROM summaries_fts")
        db.execute(
            "INSERT INTO summaries_fts (summary_id, content) SELECT summary_id, content FROM summaries"
        )
    return path, needles


async def ours(database: Database, settings: RecallSettings, needle: Needle, words: KnownWords) -> list[str]:
    """What our search finds; where it finds nothing, what its suggestions find, in their order."""

    async def ask(query: str) -> tuple[list[str], list[str]]:
        async def load(reader: Reader) -> tuple[list[str], list[str]]:
            found = await reader.run(
                search, reader.schema, parse(query), Filter(), settings, limit=_AT[-1], words=words
            )
            return [hit.citation for hit in found.hits], list(respelled(query, found.near))

        return await database.read(load)

    found, suggested = await ask(needle.query)
    if not found:
        for query in suggested:
            found += (await ask(query))[0]
    return list(dict.fromkeys(found))


async def engines(database: Database, settings: RecallSettings, needle: Needle) -> list[str]:
    """What the engine's search finds by words, over all conversations, in files where a file is wanted."""
    answer = await RecallTools(database, settings).call(
        "lcm_grep",
        {
            "pattern": needle.query,
            "mode": "full_text",
            "sort": "relevance",
            "scope": "files" if needle.kind == "large files" else "both",
            "allConversations": True,
            "limit": _AT[-1],
        },
    )
    return list(dict.fromkeys(_ID.findall(answer.text.partition("**Total")[2])))


async def measure(seed: int, count: int) -> dict[str, tuple[list[int], list[int]]]:
    """For each kind at which place ours and the engine's search have each needle; 0: nowhere."""
    places: dict[str, tuple[list[int], list[int]]] = {kind: ([], []) for kind in _KINDS}
    with tempfile.TemporaryDirectory() as folder:
        path, needles = planted(Path(folder), seed, count)
        settings = RecallSettings(Path(folder) / "files", Path(folder), None)
        words = KnownWords()
        async with await Database.open(path) as database:
            for needle in needles:
                for side, found in enumerate(
                    (await ours(database, settings, needle, words), await engines(database, settings, needle))
                ):
                    at = found.index(needle.id) + 1 if needle.id in found else 0
                    places[needle.kind][side].append(at)
    return places


def share(places: list[int], among: int) -> float:
    """How many of all stand among the first."""
    return sum(0 < at <= among for at in places) / max(len(places), 1)


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recall")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--needles", type=int, default=50, help="of each kind")
    given = parser.parse_args()
    places = asyncio.run(measure(given.seed, given.needles))
    head = [f"{who} at {at}" for who in ("ours", "engine") for at in _AT]
    print(f"| kind | {' | '.join(head)} |\n|---{'|---:' * len(head)}|")
    for kind, sides in places.items():
        shares = [f"{share(side, at):.0%}" for side in sides for at in _AT]
        print(f"| {kind} | {' | '.join(shares)} |")
    return 0 if all(share(mine, 5) >= _BAR for mine, _ in places.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
