"""The iPinYou loader: counts of prices without censoring, and files of public data."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from coterie.ads.curves.landscapes import (
    evidence_of,
    own_curves,
    share_of_cost,
    share_of_wins,
    spend_curves,
)
from coterie.ads.histograms.ipinyou import (
    FEN,
    IPINYOU,
    PublicData,
    files_of,
    load_ipinyou_histograms,
    price_edges,
    price_histograms,
    read_columns,
)
from coterie.errors import DatasetUnavailableError, InvalidParameterError, TableError

REAL_DATA = os.environ.get("COTERIE_DATA")

COUNTS = {"20": [0, 3, 1, 0], "3": [2, 0, 0, 5]}


def written(folder: Path, counts=COUNTS, prices=None, about=None) -> Path:
    """A folder with the two files, made of counts by advertiser."""
    home = folder / IPINYOU.name
    home.mkdir(parents=True)
    prices = range(4) if prices is None else prices
    rows = [",".join(map(str, row)) for row in zip(prices, *counts.values(), strict=True)]
    header = ",".join(["price", *(f"adv{name}" for name in counts)])
    (home / "market_price_hist.csv").write_text("\n".join([header, *rows]) + "\n")
    if about is None:
        about = [
            f"{name},2,Trade of {name},{7 * sum(n)},{sum(p * c for p, c in enumerate(n))},{sum(n)}"
            for name, n in COUNTS.items()
        ]
    lines = ["advertiser,season,industry,clk_train,cost_train,imp_train", *about]
    (home / "advertisers.csv").write_text("\n".join(lines) + "\n")
    return folder


def test_counts_become_histograms(tmp_path):
    """Advertisers are sorted as texts; counts, prices in micros and clicks are kept."""
    histograms, industries = load_ipinyou_histograms(written(tmp_path))
    assert histograms.advertisers.tolist() == ["20", "3"]
    assert industries == {"20": "Trade of 20", "3": "Trade of 3"}
    assert (histograms.revealed, histograms.auction, histograms.currency) == (
        "minimum", "second", "CNY",
    )  # fmt: skip
    assert histograms.shape == (2, 1, 4)
    counts = histograms.dense()
    assert counts.prices.tolist() == [COUNTS["20"], COUNTS["3"]]
    assert counts.price.sum(axis=1).tolist() == [5 * FEN, 15 * FEN]
    assert counts.observations.tolist() == [4, 7]
    assert counts.clicks.tolist() == pytest.approx([28, 49])


@settings(deadline=None, max_examples=50)
@given(
    arrays(np.int64, st.tuples(st.integers(1, 4), st.integers(2, 9)), elements=st.integers(0, 9))
)
def test_curves_are_the_empirical_ones(counts):
    """W is the share of prices up to b, and C is the mean price up to b."""
    histograms = price_histograms([f"a{i}" for i in range(len(counts))], counts)
    evidence = evidence_of(histograms)
    win = own_curves(evidence)
    fen = np.arange(counts.shape[1])
    for row, n in enumerate(counts):
        if not n.any():
            assert not win[row].any()
            continue
        assert win[row] == pytest.approx(np.cumsum(n) / n.sum())
        spend = np.cumsum(n * fen * FEN) / n.sum()
        assert spend_curves(win, evidence)[row] == pytest.approx(spend)
        assert share_of_wins(histograms.dense())[row] == pytest.approx(win[row])
        if spend[-1]:
            assert share_of_cost(histograms.dense())[row] == pytest.approx(spend / spend[-1])


def test_the_grid_has_a_bin_for_each_price():
    """Edges increase, are above 0, and every price in micros has a separate bin."""
    edges = price_edges(301)
    assert edges[0] > 0
    assert (np.diff(edges) > 0).all()
    assert np.searchsorted(edges, np.arange(301) * FEN).tolist() == list(range(301))


def test_counts_need_a_row_for_each_advertiser():
    """Another number of rows is refused."""
    with pytest.raises(InvalidParameterError, match="one row for each of 2 advertisers"):
        price_histograms(["a", "b"], [[1, 2]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts": {"20": [0, 3, 1, 0]}}, r"\['adv3'\] missing, none unknown"),
        ({"counts": {**COUNTS, "9": [1, 1, 1, 1]}}, r"none missing, \['adv9'\] unknown"),
        ({"counts": {**COUNTS, "3": [2, -1, 1, 5]}}, r"column 'adv3', row 1: -1"),
        ({"counts": {**COUNTS, "3": [2, 0.5, 0, 5]}}, "'adv3', row 1: 0.5 is not a whole"),
        ({"counts": {**COUNTS, "3": [2, "x", 0, 5]}}, "'adv3', row 1: x is not a whole"),
        ({"prices": [0, 1, 1, 3]}, "column 'price': it must count 0, 1, 2"),
        ({"counts": {**COUNTS, "3": [2, 0, 0, 6]}}, "'imp_train', advertiser 3: 7, but .* has 8"),
        ({"counts": {**COUNTS, "3": [2, 0, 5, 0]}}, "'cost_train', advertiser 3: 15, .* has 10"),
        ({"about": ["20,2,Oil,1,many,4"]}, "advertisers.csv cannot be read"),
    ],
)  # fmt: skip
def test_damaged_files_are_refused(tmp_path, change, message):
    """The message says what is wrong, where, and what to do."""
    with pytest.raises(TableError, match=message) as caught:
        load_ipinyou_histograms(written(tmp_path, **change))
    assert "again" in str(caught.value)


def test_missing_files_are_named(tmp_path, monkeypatch):
    """The message says which files are missing, how to get them, and where to put them."""
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("COTERIE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(DatasetUnavailableError, match="make-ipinyou-data") as caught:
        load_ipinyou_histograms()
    assert "COTERIE_DATA to a folder that has ipinyou_market_price/market_price_hist.csv" in str(
        caught.value
    )


@pytest.mark.skipif(not REAL_DATA, reason="COTERIE_DATA is not set")
def test_the_real_prices():
    """Nine advertisers, 15,395,258 impressions, prices up to 300 fen."""
    histograms, industries = load_ipinyou_histograms(REAL_DATA)
    assert histograms.shape == (9, 1, 301)
    assert histograms.dense().prices.sum() == 15_395_258
    assert industries["3427"] == "Oil"
    assert own_curves(evidence_of(histograms))[:, -1] == pytest.approx(1.0)


TOY = PublicData("toy", ("a.csv", "b.csv"), "a shop for toys")


def put(folder, *names):
    """Empty files of the toy dataset."""
    home = folder / "toy"
    home.mkdir(parents=True, exist_ok=True)
    for name in names:
        (home / name).write_text("")
    return folder


def test_all_files_must_be_in_one_folder(tmp_path, monkeypatch):
    """The folder of COTERIE_DATA comes first, if it has all files of the dataset."""
    monkeypatch.setenv("COTERIE_DATA", str(put(tmp_path / "mine", "a.csv")))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache = put(tmp_path / "cache" / "coterie", "a.csv", "b.csv")
    assert files_of(TOY) == [cache / "toy" / "a.csv", cache / "toy" / "b.csv"]
    assert files_of(TOY, names=["a.csv"]) == [tmp_path / "mine" / "toy" / "a.csv"]


def test_a_folder_given_is_the_only_one_searched(tmp_path, monkeypatch):
    """A given folder replaces those of the environment."""
    monkeypatch.setenv("COTERIE_DATA", str(put(tmp_path / "mine", "a.csv", "b.csv")))
    with pytest.raises(DatasetUnavailableError, match="a shop for toys") as caught:
        files_of(TOY, tmp_path / "other")
    assert str(tmp_path / "other") in str(caught.value)
    assert str(tmp_path / "mine") not in str(caught.value)


def test_columns_are_read_from_plain_and_gzipped_files(tmp_path):
    """Given columns are read in their types; commas and line breaks in quotes are text."""
    text = 'id,word,n\n007,"a, b",1\n8,"c\nd",2\n'
    (tmp_path / "t.csv").write_text(text)
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("t.csv", "t.csv.gz"):
        found = read_columns(tmp_path / name, {"id": "string", "word": "string"})
        assert {k: v.tolist() for k, v in found.items()} == {
            "id": ["007", "8"],
            "word": ["a, b", "c\nd"],
        }
    assert read_columns(tmp_path / "t.csv")["n"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("text", "types", "message"),
    [
        ("a\n1\nx\n", {"a": "int64"}, "t.csv cannot be read"),
        ("a\n1\n", {"b": "int64"}, "t.csv cannot be read"),
        ("a,b\n1,2\n,3\n", {"a": "int64"}, "column 'a': a value is missing"),
        ("a,b\n1\n", None, "t.csv cannot be read"),
    ],
)
def test_unreadable_files_are_refused(tmp_path, text, types, message):
    """A wrong type, a missing column, a missing value or a short row is an error."""
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(TableError, match=message):
        read_columns(tmp_path / "t.csv", types)


def test_an_incomplete_file_is_refused(tmp_path):
    """Half of a gzipped file cannot be read."""
    whole = gzip.compress(b"a\n" + b"123\n" * 5000)
    (tmp_path / "t.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TableError, match="cannot be read"):
        read_columns(tmp_path / "t.csv.gz")
