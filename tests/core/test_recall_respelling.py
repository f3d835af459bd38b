"""What is tried when a term is nowhere."""

from __future__ import annotations

from lcm_recall.search import Near, respelled


def test_only_terms_that_are_nowhere_are_replaced() -> None:
    near = (Near("leese", 0, ("lease", "leash")), Near("table", 3, ()))
    assert list(respelled("the Leese table", near)) == ["the lease table", "the leash table"]


def test_nothing_is_tried_where_nothing_looks_alike_or_the_terms_only_do_not_meet() -> None:
    assert list(respelled("xyzzy", (Near("xyzzy", 0, ()),))) == []
    assert list(respelled("lease table", (Near("lease", 2, ()), Near("table", 3, ())))) == []
