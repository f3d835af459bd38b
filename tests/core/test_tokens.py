"""The estimators against the counts that the real engine stored."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lcm_core.base.tokens import (
    Estimator,
    TokenCheck,
    Verdict,
    blocks_json,
    check_message_tokens,
    estimate_utf16,
    estimate_weighted,
    estimator_of,
    raw_block,
)

from tests.databases import reading
from tests.support import recorded

CJK = [
    (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF), (0x2CEB0, 0x2EBEF), (0x3000, 0x303F), (0x3040, 0x30FF), (0xAC00, 0xD7AF),
    (0xFF00, 0xFFEF),
]  # fmt: skip  # docs/spec/tokens.md, "Estimators"
ANYTHING = st.characters(exclude_categories=())
TEXTS = st.text(st.sampled_from("a é数한🎉𠀀𪛟\U0002a6e0\U0002ebf0　ｆ\ud83d") | ANYTHING)


def rows(path, query: str) -> Iterator[tuple]:
    with reading(path) as connection:
        yield from connection.execute(query)


def weight(character: str) -> float:
    code = ord(character)
    if any(first <= code <= last for first, last in CJK):
        return 1.5
    return 2 if code > 0xFFFF else 0.25


def as_engine_reads(text: str) -> str:
    return "".join("\ufffd" if "\udc80" <= character <= "\udcff" else character for character in text)


@pytest.mark.long
@given(TEXTS)
def test_weighted_is_the_sum_over_code_points(text: str) -> None:
    expected = math.ceil(sum(map(weight, as_engine_reads(text))))
    escaped = sum("\udc80" <= character <= "\udcff" for character in text)
    assert expected - escaped <= estimate_weighted(text) <= expected  # bytes in a row may be one U+FFFD
    if not escaped:
        assert estimate_weighted(text) == expected


@pytest.mark.long
@given(st.text(ANYTHING))
def test_utf16_is_a_quarter_of_the_length_in_javascript(text: str) -> None:
    text = as_engine_reads(text)
    assert estimate_utf16(text) == math.ceil(len(text.encode("utf-16-le", "surrogatepass")) / 2 / 4)


@pytest.mark.parametrize(
    ("text", "utf16", "weighted"),
    [
        ("", 0, 0),
        ("a", 1, 1),
        ("abcd", 1, 1),
        ("abcde", 2, 2),
        ("数据库会话", 2, 8),
        ("🎉🎉", 1, 4),
        ("𠀀", 1, 2),
        ("\ud83d", 1, 1),
        ("昨晚的备份任务没有完成，磁盘空间不足。 👩🏽\u200d💻 ", 7, 36),
        ("abcd" + "\udce6\udc95", 2, 2),
        ("abc" + b"\xe6\x95".decode("utf-8", "surrogateescape"), 1, 1),
    ],
)
def test_known_estimates(text: str, utf16: int, weighted: int) -> None:
    assert (estimate_utf16(text), estimate_weighted(text)) == (utf16, weighted)


@pytest.mark.parametrize(
    ("version", "weighted", "utf16"),
    [("0.1.2", 98, 25), ("0.3.0", 97, 26), ("0.8.2", 110, 0), ("0.15.3", 116, 0)],
)
def test_every_stored_summary_count_is_explained(database_file, version, weighted, utf16) -> None:
    summaries = rows(database_file(version), "SELECT content, token_count FROM summaries")
    counts = Counter(estimator_of(content, tokens) for content, tokens in summaries)
    assert counts == Counter({Estimator.WEIGHTED: weighted, Estimator.UTF16: utf16})


def test_only_the_summaries_that_were_changed_do_not_fit(database_file) -> None:
    query = "SELECT summary_id, content, token_count FROM summaries"
    odd = {
        i
        for i, content, tokens in rows(database_file("0.15.3-damaged"), query)
        if estimator_of(content, tokens) is None
    }
    changes = recorded("lcm-0.15.3-damaged.changes.json")
    rewritten = {change["summary_id"] for change in changes if "summary_id" in change}
    negative = {change["params"][0] for change in changes if "negative" in change["change"]}
    assert odd == rewritten | negative


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("version", "weighted", "utf16", "lacking"),
    [
        ("0.1.2", 898, 89, {"no parts are stored": 35}),
        ("0.3.0", 898, 89, {"no parts are stored": 35}),
        ("0.8.2", 846, 0, {"no parts are stored": 33, "signed reasoning was counted in another form": 20}),
        ("0.15.3", 843, 0, {"signed reasoning was counted in another form": 22}),
        ("0.15.3-damaged", 842, 0, {"signed reasoning was counted in another form": 22}),
    ],
)
def test_every_stored_message_count_is_explained(database_file, version, weighted, utf16, lacking) -> None:
    metadata = defaultdict(list)
    path = database_file(version)
    for message_id, text in rows(
        path, "SELECT message_id, metadata FROM message_parts ORDER BY message_id, ordinal"
    ):
        metadata[message_id].append(text)
    checks = [
        check_message_tokens(tokens, content, metadata[message_id])
        for message_id, content, tokens in rows(path, "SELECT message_id, content, token_count FROM messages")
    ]
    fitting = Counter(check.estimator for check in checks if check.verdict is Verdict.FITS)
    assert fitting == Counter({Estimator.WEIGHTED: weighted, Estimator.UTF16: utf16})
    assert Counter(check.lacking for check in checks if check.verdict is Verdict.NOT_RECOMPUTABLE) == lacking
    assert [check for check in checks if check.verdict is Verdict.DIFFERS] == []


RAW = '{"originalRole":"assistant","raw":{"type":"text","text":"one two three"}}'


@pytest.mark.parametrize(
    ("stored", "content", "metadata", "check"),
    [
        (2, "abcdefg", ['{"originalRole":"user"}'], TokenCheck(Verdict.FITS, Estimator.WEIGHTED, None, 2)),
        (9, "abcdefg", ['{"originalRole":"user"}'], TokenCheck(Verdict.DIFFERS, weighted=2)),
        (10, "one two three", [RAW], TokenCheck(Verdict.FITS, Estimator.WEIGHTED, None, 10)),
        (4, "one two three", [RAW], TokenCheck(Verdict.FITS, Estimator.WEIGHTED, None, 4)),
        (5, "one two three", [RAW], TokenCheck(Verdict.DIFFERS, weighted=10)),
        (1, "数据", [], TokenCheck(Verdict.FITS, Estimator.UTF16, None, 3)),
        (9, "数据", [], TokenCheck(Verdict.NOT_RECOMPUTABLE, lacking="no parts are stored")),
        (
            9,
            "x",
            [RAW, None],
            TokenCheck(Verdict.NOT_RECOMPUTABLE, lacking="a part lacks the block that the host sent"),
        ),
        (
            9,
            "x",
            ['{"raw":{"type":"thinking","thinking":"t","thinkingSignature":"sig"}}'],
            TokenCheck(Verdict.NOT_RECOMPUTABLE, lacking="signed reasoning was counted in another form"),
        ),
        (
            9,
            "x",
            ['{"raw":{"type":"text","text":"\\"signature\\": is quoted"}}'],
            TokenCheck(Verdict.DIFFERS, weighted=13),
        ),
    ],
)
def test_what_a_message_count_is_checked_against(stored, content, metadata, check) -> None:
    assert check_message_tokens(stored, content, metadata) == check


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.long
@given(JSON, st.dictionaries(st.text(max_size=5), JSON, max_size=3), st.booleans(), st.booleans())
def test_raw_is_cut_out_as_it_was_written(raw, others, escaped, spaced) -> None:
    def written(value) -> str:
        return json.dumps(value, ensure_ascii=escaped, separators=(", ", ": ") if spaced else (",", ":"))

    others.pop("raw", None)
    assert raw_block(written({**others, "raw": raw, "later": {"raw": 1}})) == written(raw)
    assert raw_block(written({**others, "later": {"raw": 1}})) is None


@pytest.mark.long
@given(st.text() | st.text('{}[]",:raw \\', max_size=20) | st.none())
def test_raw_of_anything_is_none_or_json(metadata) -> None:
    block = raw_block(metadata)
    assert block is None or json.loads(block, strict=False) is not ...


def test_raw_keeps_what_python_would_write_otherwise() -> None:
    assert (
        raw_block('{"raw":{"n":1e-7,"big":1E400,"half":"\\ud83d"}}')
        == '{"n":1e-7,"big":1E400,"half":"\\ud83d"}'
    )
    assert raw_block('{"raw":' + "[" * 100_000) is None
    assert blocks_json(['{"a":1}', "2"]) == '[{"a":1},2]'
