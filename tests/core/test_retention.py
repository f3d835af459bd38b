"""What a text kept, lost and invented of its source, in several languages."""

from __future__ import annotations

import time
from datetime import datetime

import pytest
from lcm_core.base.tokens import Estimator
from lcm_core.writers.acceptance import judge_text
from lcm_core.writers.identifiers import identifiers
from lcm_core.writers.quantities import Cue, has_cue, sentences, terms
from lcm_core.writers.retention import measure, read_retention_source

from tests.support import sampled

SOURCE = """[2026-03-02 09:14 UTC | user]
Never deploy on a Friday. Move /home/op/proj/src/app.py to the queue with `npm run build`.

[2026-03-02 09:40 UTC | assistant]
Done: src/app.py now uses PORT_RANGE and --max-workers 12; p95 went from 125 ms to 490 ms.
Commit a1b2c3d4e5f6: src/app.py is at v0.15.3, see https://example.com/runs/7?x=1 and OPS-1423.

[2026-03-03 17:05 UTC | user]
src/app.py again: only Ingrid may approve it, before 18:30. sum_0123456789abcdef
"""


def keys(found, kind=None) -> list[str]:
    return [one.key for one in found if kind in (None, one.kind)]


@pytest.mark.cases(26)
@pytest.mark.parametrize(
    ("text", "kind", "key"),
    [
        ("see https://example.com/a_(b)?x=1.", "URL", "https://example.com/a_(b)?x=1"),
        ("(https://example.com/a)", "URL", "https://example.com/a"),
        ("in ./src/app.py:42, or", "path", "src/app.py"),
        ("--out=/etc/app/x.conf", "path", "/etc/app/x.conf"),
        ("编辑了/src/app.py文件", "path", "/src/app.py"),
        ("在src/主页/文件.md中", "path", "src/主页/文件.md"),
        ("ערכתי את /home/dana/קובץ.txt אתמול", "path", "/home/dana/קובץ.txt"),
        (r"C:\Users\me\x.txt", "path", "C:/Users/me/x.txt"),
        ("只改app.py。", "path", "app.py"),
        ("2026-03-02T09:14:33Z", "time", "09:14"),
        ("２０２６年３月２日", "time", "2026-03-02"),
        ("f47ac10b-58cc-4372-a567-0e02b2c3d479", "id", "f47ac10b-58cc-4372-a567-0e02b2c3d479"),
        ("sum_0123456789abcdef", "id", "sum_0123456789abcdef"),
        ("at localhost:5432", "id", "localhost:5432"),
        ("mail dana@example.com!", "id", "dana@example.com"),
        ("见OPS-1423。", "id", "OPS-1423"),
        ("commit A1B2C3D4", "hash", "a1b2c3d4"),
        ("v1.2.0-rc.1", "version", "1.2.0-rc.1"),
        ("--dry-run", "flag", "--dry-run"),
        ("LCM_TUI_BUDGET", "variable", "LCM_TUI_BUDGET"),
        ("1,234.50 milliseconds", "number", "1234.5 ms"),
        ("٣٥٪", "number", "35 %"),
        ("用时12秒", "number", "12 s"),
        ("port 8080", "number", "8080"),
        ("`git rebase -i`", "name", "git rebase -i"),
        ("parseJson()", "name", "parseJson"),
        ("os.path.join", "name", "os.path.join"),
    ],
)
def test_an_identifier_is_found_in_any_script(text: str, kind, key: str):
    found = {(one.kind, one.key): one for one in identifiers(text)}
    assert (kind, key) in found
    first, last = found[kind, key].places[0]
    assert text[first:last] == found[kind, key].text


@pytest.mark.parametrize(
    "text", ["either/or", "1/2 of it", "e.g. this", "/clear", "3 retries", "Yes. No.", "-"]
)
def test_prose_is_no_identifier(text: str):
    assert identifiers(text) == []


def test_what_is_kept_lost_and_invented():
    source = read_retention_source(SOURCE)
    result = measure(
        source, "Moved app.py (a1b2c3d) to the queue for OPS-1423, 490ms, commit deadbeef99, port 9999."
    )
    assert set(keys(result.kept)) == {
        "a1b2c3d4e5f6",
        "OPS-1423",
        "490 ms",
        "src/app.py",
        "/home/op/proj/src/app.py",
    }
    assert sorted(keys(result.invented)) == ["9999", "deadbeef99"]
    assert {"PORT_RANGE", "--max-workers", "125 ms", "0.15.3", "18:30", "npm run build"} <= set(
        keys(result.lost)
    )
    counts = {one.kind: (one.in_source, one.kept, one.lost, one.invented) for one in result.classes}
    assert counts["hash"] == (1, 1, 0, 1)
    assert counts["flag"] == (1, 0, 1, 0)


def test_the_most_frequent_losses_come_first_then_the_latest():
    result = measure(read_retention_source("b.py a.py\nc.py b.py\n"), "nothing")
    assert keys(result.lost) == ["b.py", "c.py", "a.py"]
    assert result.lost[0].places == ((0, 4), (15, 19))
    assert result.share == 0.0
    assert measure(read_retention_source("b.py"), "b.py").share == 1.0
    assert measure(read_retention_source("no names at all"), "b.py").share is None


def test_places_are_places_in_the_source():
    for one in measure(read_retention_source(SOURCE), "").lost:
        for first, last in one.places:
            assert SOURCE[first:last]
        assert SOURCE[one.places[0][0] : one.places[0][1]] == one.text


def test_the_time_above_a_message_is_no_loss_and_no_invention():
    result = measure(read_retention_source(SOURCE), "On 2026-03-02 at 09:40 it was done; at 09:41 nothing.")
    assert "09:14" not in keys(result.lost)
    assert keys(result.invented) == ["09:41"]


def test_what_the_previous_context_says_is_not_invented():
    text = "As with OPS-77, run tools/x.sh"
    assert keys(measure(read_retention_source(SOURCE), text).invented) == ["tools/x.sh", "OPS-77"]
    assert not measure(read_retention_source(SOURCE, previous="OPS-77 ran tools/x.sh"), text).invented


@pytest.mark.parametrize(
    ("rule", "told", "lost"),
    [
        (
            "The importer must never drop a message.",
            "The importer never drops messages.",
            "The importer is fast.",
        ),
        (
            "Only Ingrid may approve the rollout.",
            "Rollout: only Ingrid approves.",
            "Ingrid may approve the rollout.",
        ),
        ("部署前必须运行全部测试。", "必须先运行全部测试再部署。", "已经部署。"),
        ("設定ファイルを削除してはいけない。", "設定ファイルは削除してはいけない", "設定ファイルを削除した"),
    ],
)
def test_a_rule_comes_through_or_does_not(rule: str, told: str, lost: str):
    source = read_retention_source(f"[2026-03-02 09:14 UTC]\nHello.\n{rule} Thanks.")
    assert source.rulebook.rules[0].text == rule
    assert source.text[slice(*source.rulebook.rules[0].place)] == rule
    assert not measure(source, told).constraints_lost
    assert [one.text for one in measure(source, lost).constraints_lost] == [rule]


def test_the_file_list_is_compared_with_the_paths():
    source = read_retention_source("Changed a/x.py and a/y.py, a/y.py again.")
    listed = measure(source, "Text.\nFiles: x.py (changed), b/z.py (made)\nExpand for details about: y").files
    assert (listed.stated, listed.says_none) == (True, False)
    assert keys(listed.missing) == ["a/y.py"]
    assert keys(listed.unknown) == ["b/z.py"]
    assert measure(source, "Files: none").files.says_none
    assert not measure(source, "No list.").files.stated


def test_the_time_that_is_covered():
    times = measure(
        read_retention_source(SOURCE), "From 2026-03-02 09:14 to 2026-03-02 20:00 it went on."
    ).times
    assert times.source == (datetime(2026, 3, 2, 9, 14), datetime(2026, 3, 3, 17, 5))
    assert times.text == (datetime(2026, 3, 2, 9, 14), datetime(2026, 3, 2, 20, 0))
    assert times.share == pytest.approx(646 / 1911)
    assert measure(read_retention_source(SOURCE), "On 2026-03-02 and 2026-03-03.").times.share == 1.0
    assert measure(read_retention_source(SOURCE), "No time.").times.share is None
    one_day = read_retention_source("[2026-03-02 09:00 UTC]\na\n\n[2026-03-02 11:00 UTC]\nb")
    assert measure(one_day, "From 09:00 to 10:00.").times.share == 0.5
    condensed = read_retention_source("[2026-03-02 09:00 UTC - 2026-03-02 11:00 UTC]\na")
    assert condensed.span == one_day.span


def test_the_closing_line_and_the_compression():
    result = measure(read_retention_source("word " * 400), "Short.\nExpand for details about: the words")
    assert result.closing == "the words"
    assert result.compression == 500 / result.tokens
    assert measure(read_retention_source("x"), "Expand for details about: a\n" + "b\n" * 300).closing is None
    assert measure(read_retention_source("x"), "").compression is None


@pytest.mark.parametrize(("behind", "closing"), [(199, "a"), (200, None)])
def test_a_closing_line_stands_within_200_characters_of_the_end(behind: int, closing: str | None):
    text = "Expand for details about: a\n" + "b" * (behind - 1)
    assert measure(read_retention_source("x"), text).closing == closing


@pytest.mark.parametrize(("count", "copied"), [(7, 0.0), (8, 1.0), (9, 1.0)])
def test_what_is_copied_is_told_by_runs_of_eight_words(count: int, copied: float):
    words = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliett"]
    assert measure(read_retention_source(" ".join(words)), " ".join(words[:count])).copied == copied


def test_pasted_text_is_told_from_a_summary():
    source = read_retention_source(SOURCE)
    assert measure(source, SOURCE[100:500]).copied > 0.9
    assert (
        measure(
            source, "Someone moved the application over, with much slower answers since then, alas."
        ).copied
        == 0
    )


def test_sentences_end_in_every_script():
    text = "One. Two? 三。四！\nخمسة؟ ستة\n[2026-03-02 09:14 UTC]\nv1.2 is out"
    assert [text[a:b] for a, b in sentences(text)] == [
        "One.",
        "Two?",
        "三。",
        "四！",
        "خمسة؟",
        "ستة",
        "v1.2 is out",
    ]


def test_terms_agree_where_words_are_inflected_or_prefixed():
    assert set(terms("deployment")) == set(terms("Deployments"))
    assert set(terms("הקובץ")) & set(terms("קובץ"))
    assert set(terms("运行测试")) & set(terms("测试运行"))
    assert has_cue("Wir haben beschlossen zu warten", Cue.DECISION)
    assert has_cue("まだ決まっていない", Cue.OPEN)


PIECES = "/a|\n|?!|(\n|a.|@a|`|a\u3002|Files:\n- |a/|a\\\\|Bob |feature/|v1.|9|9,|9 |1k |-9|9-|三|周"


@pytest.mark.long
@pytest.mark.parametrize("piece", sampled(PIECES.split("|"), ("/a", "\n", "a.", "`", "9,", "Bob ")))
def test_a_text_of_nothing_but_the_same_is_read_in_passing(piece: str):
    """Each of these made some pattern go over the whole text from every place of it: minutes, not seconds."""
    text, short = piece * (15_000 // len(piece)), "a/b.py must stay; it takes 30 s."
    before = time.thread_time()
    assert measure(read_retention_source(short), text).tokens > 0
    assert measure(read_retention_source(text), short).tokens > 0
    assert judge_text(text, source=text * 2, target_tokens=1, estimator=Estimator.WEIGHTED).tokens > 0
    assert time.thread_time() - before < 10, "of the thread's own time, which others do not lengthen"
