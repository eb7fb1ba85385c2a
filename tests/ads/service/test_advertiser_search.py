"""Search: advertisers by any part of their id, in a fixed order, page by page."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.ads.service.advertiser_search import AdvertiserSearch

letters = st.text(
    st.sampled_from("aAbB-ßſΣσς\n\0/é\ud800") | st.characters(codec="utf-8"), max_size=6
)
markets = st.lists(
    st.tuples(letters, st.sampled_from([0.0, 1.0, 2.5]), st.integers(-1, 2)), max_size=12
)


def searched(market):
    """Return a search over ids, spends and segments."""
    return AdvertiserSearch(*([one[i] for one in market] for i in range(3)))


def folded(text):
    """Return a text as ids are compared; what UTF-8 cannot encode is a question mark."""
    return text.casefold().encode("utf-8", "replace").decode()


def slowly_found(market, text, segment):
    """Return the rows found by looking at each id, in the defined order."""
    needle = folded(text)

    def order(row):
        name = folded(market[row][0])
        kind = 0 if not needle else (name != needle) + (not name.startswith(needle))
        return kind, -market[row][1], row

    rows = [
        row
        for row, (name, _, label) in enumerate(market)
        if needle in folded(name) and segment in {None, label}
    ]
    return sorted(rows, key=order)


@given(markets, letters, st.none() | st.integers(0, 2))
@settings(max_examples=120)
def test_finds_what_looking_at_every_id_finds(market, text, segment):
    """Ids equal to the text, then those that begin with it, then others; by spend in each group."""
    rows, total = searched(market).page(text, segment=segment, page_size=100)
    assert rows.tolist() == slowly_found(market, text, segment)
    assert total == len(rows)


@given(markets, letters, st.sampled_from(["id", "spend", "size"]), st.booleans())
def test_sorts_by_a_column(market, text, name, is_falling):
    """Rows come in the order of the column, and equal ones in the usual order."""
    size = [len(one[0]) for one in market]
    ids, spend, _ = zip(*market, strict=True) if market else ((), (), ())
    columns = {"id": [folded(one).encode() for one in ids], "spend": spend, "size": size}
    search = AdvertiserSearch(*([one[i] for one in market] for i in range(3)), {"size": size})
    rows, _ = search.page(text, sort=f"-{name}" if is_falling else name, page_size=100)
    usual = slowly_found(market, text, None)
    # sorted() keeps equal rows in order also in reverse
    assert rows.tolist() == sorted(usual, key=columns[name].__getitem__, reverse=is_falling)


@given(markets, letters, st.integers(1, 5))
def test_pages_follow_one_another(market, text, size):
    """All pages together are all that was found, in order, and a page beyond is empty."""
    search = searched(market)
    whole, total = search.page(text, page_size=100)
    pages = -(-total // size)
    parts = [search.page(text, page=page + 1, page_size=size)[0] for page in range(pages)]
    assert [row for part in parts for row in part.tolist()] == whole.tolist()
    for page in (pages + 1, 10**9):
        rows, found = search.page(text, page=page, page_size=size)
        assert (len(rows), found) == (0, total)


def test_a_hundred_thousand_ids_are_told_apart():
    """Ids that differ in their last character alone are found one by one."""
    ids = [f"adv-{i:05d}" for i in range(100_000)]
    search = AdvertiserSearch(ids, np.zeros(len(ids)), np.zeros(len(ids), dtype=int))
    assert search.page("ADV-04711")[0].tolist() == [4711]
    assert search.page("adv")[1] == len(ids)
    assert search.page("adv-99", page_size=3)[0].tolist() == [99_000, 99_001, 99_002]
