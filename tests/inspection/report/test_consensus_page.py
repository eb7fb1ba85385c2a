"""Tests of the page: numbers of the estimator, hostile names, a strict policy, whole files."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from importlib import resources

import numpy as np
import pandas as pd
import pytest

from consensus_pages import HOSTILE_NAMES, clustered_features, fitted, read_page
from coterie import EvidenceAccumulation, RobustSpectral, choose_k, write_report
from coterie.errors import InvalidParameterError, OutputError
from coterie.inspection.report.consensus_page import consensus_contents, render_report
from coterie.runtime.html_pages import fingerprint

FILES = sorted(
    one.name for one in resources.files("coterie.inspection.report").joinpath("page").iterdir()
)


@pytest.fixture(scope="module")
def case():
    """Return a table of features, and the consensus of partitions with names."""
    X, P, _ = clustered_features()
    rows = [f"point {i}" for i in range(len(X))]
    table = pd.DataFrame(X, columns=["height", "width", "noise", "constant"], index=rows)
    P = pd.DataFrame(P, columns=[f"rater {v}" for v in range(8)], index=rows)
    est = fitted(P)
    est.k_choice_ = choose_k(P, range(2, 6), random_state=0)
    return table, est


@pytest.fixture(scope="module")
def page(case):
    """Return the page of this consensus as a parser reads it."""
    X, est = case
    return read_page(render_report(consensus_contents(est, X, title="Raters")))


def numbers(table, column):
    """Return the exact numbers of a column of a table, without its header."""
    return [float(row[column][1]) for row in table[1:]]


def test_every_table_has_the_numbers_of_the_estimator(case, page):
    """Cells hold exact numbers, and show them rounded."""
    X, est = case
    contents = consensus_contents(est, X)
    clusters, partitions, _, criteria, points, *cards, separation = page.tables
    assert numbers(clusters, 1) == np.bincount(est.labels_).tolist()
    assert numbers(clusters, 3) == [row.confidence for row in contents.clusters]
    assert numbers(partitions, 1) == sorted(est.partition_agreement_.tolist(), reverse=True)
    assert numbers(partitions, 2) == [row.coverage for row in contents.partitions]
    assert numbers(criteria, 0) == [2, 3, 4, 5]
    assert numbers(points, 3) == [one.confidence for one, _ in contents.points]
    assert numbers(points, 1) == [one.cluster for one, _ in contents.points]
    assert [row[0][0] for row in points[1:]] == [one.name for one, _ in contents.points]
    assert numbers(separation, 1) == [row.separation for row in contents.features.rows]
    for card, table in zip(contents.features.clusters, cards, strict=True):
        assert numbers(table, 2) == [one.difference for one in card.features]
        assert numbers(table, 3) == [one.cluster_mean for one in card.features]
    for row in clusters[1:]:
        assert row[3][0].strip() == f"{float(row[3][1]):.2f}"


@pytest.mark.parametrize(
    ("confidence", "word"), [(0.9, "clear"), (0.75, "mostly clear"), (0.7, "mixed"), (0.3, "weak")]
)
def test_confidence_is_put_into_words(case, confidence, word):
    """The mean confidence has a word for people."""
    _, est = case
    contents = consensus_contents(est)
    contents = replace(contents, facts=replace(contents.facts, mean_confidence=confidence))
    text = " ".join(read_page(render_report(contents)).text.split())
    assert f"The votes are {word}: mean confidence {confidence:.2f}" in text


def test_embedded_numbers_are_those_of_the_pictures(case, page):
    """The script draws the co-association and the points of the contents."""
    X, est = case
    contents = consensus_contents(est, X)
    data = json.loads(page.raw["script"][0])
    assert data["coassociation"]["names"] == contents.coassociation.names
    assert data["points"]["names"] == contents.features.map.names
    assert data["points"]["cluster"] == est.labels_.tolist()
    np.testing.assert_allclose(data["points"]["confidence"], est.confidence_, atol=1e-3)
    assert 0 <= min(data["points"]["x"]) < max(data["points"]["x"]) <= 1


def test_the_page_loads_nothing_and_runs_only_its_script(page):
    """The policy allows the one script and the one style; no element names another file."""
    policy = next(one for one in page.named("meta") if "http-equiv" in one)["content"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    _, script = page.raw["script"]
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == fingerprint(script)
    assert rules["style-src"] == fingerprint(page.raw["style"][0])
    for tag, attributes in page.tags:
        assert not any(name.startswith("on") or name == "style" for name in attributes), tag
        address = attributes.get("src") or attributes.get("href") or "#"
        assert address.startswith(("#", "data:"))


def test_sections_are_in_order_and_linked(case, page):
    """Every link of the navigation leads to a section, in the order of the page."""
    links = [one["href"][1:] for one in page.named("a") if one.get("class") != "skip"]
    assert links == [one["id"] for one in page.named("section")]
    assert links == ["decided", "partitions", "certainty", "number", "doubtful", "features"]
    text, est = " ".join(page.text.split()), case[1]
    assert f"60 points in 3 clusters, decided by {int(est.partition_weights_.sum())}" in text
    assert "Raters" in text and est.k_choice_.reason in text
    assert {float(one["value"]) for one in page.named("data")} == {est.objective_, est.gap_}


def test_parts_without_data_say_so():
    """Without features and without a choice of K the page says how to get them."""
    est = EvidenceAccumulation(2).fit([[0, 0], [0, 0], [1, 1], [1, 0]])
    text = " ".join(read_page(render_report(consensus_contents(est))).text.split())
    assert "This report has no features" in text
    assert "The number of clusters, 2, was given." in text
    assert "coterie.choose_k(P)" in text
    assert "No partition" not in text


def test_weak_partitions_are_named(case):
    """A partition that hardly agrees with its camp is marked in the table."""
    contents = consensus_contents(case[1])
    weak = [replace(row, weak=row.name == "rater 2") for row in contents.partitions]
    page = read_page(render_report(replace(contents, partitions=weak)))
    marked = [row[0][0] for row in page.tables[1] if row[-1][0] == "decides, hardly agrees"]
    assert marked == ["rater 2"]


def test_hostile_names_stay_text(tmp_path):
    """Names from data are shown as text, and never become markup or code."""
    X, P, _ = clustered_features()
    names = list(HOSTILE_NAMES)
    path = tmp_path / "report.html"
    write_report(
        fitted(P),
        path,
        X,
        names=names,
        feature_names=names[:4],
        title=names[0],
        index=[names[i % len(names)] for i in range(len(X))],
    )
    page = read_page(path.read_text(encoding="utf-8"))
    assert not page.named("b")
    assert not page.named("img")
    assert len(page.named("script")) == 2
    assert not any(name.startswith("on") for _, found in page.tags for name in found)
    for name in HOSTILE_NAMES[:6]:
        assert name in page.text
    assert "{{ 7 * 7 }}" in page.text
    assert json.loads(page.raw["script"][0])["points"]["names"][0] == HOSTILE_NAMES[0]


@pytest.mark.parametrize("n_clusters", [1, 2, 40])
def test_any_number_of_clusters_has_a_page(n_clusters):
    """One cluster, single points and more clusters than are drawn give a whole page."""
    rng = np.random.default_rng(0)
    P = np.column_stack([np.arange(60) % 40, np.arange(60) % 40, rng.integers(0, 40, 60)])
    est = EvidenceAccumulation(n_clusters).fit(P)
    html = render_report(consensus_contents(est, rng.normal(size=(60, 3))))
    page = read_page(html)
    assert not re.search(r"\b(nan|None|inf)\b", page.text)
    if n_clusters == 40:
        assert "… points." in page.text
    assert f"60 points in {n_clusters} cluster" in " ".join(page.text.split())


def test_an_existing_file_survives_a_failure(tmp_path, monkeypatch):
    """If the page cannot be made or written, the old file is as it was and no other is left."""
    path = tmp_path / "report.html"
    path.write_text("old")
    est = EvidenceAccumulation(2).fit([[0, 0], [0, 0], [1, 1]])
    with pytest.raises(InvalidParameterError, match="X has 2 rows"):
        write_report(est, path, [[1.0], [2.0]])
    with pytest.raises(OutputError, match="does not exist"):
        write_report(est, tmp_path / "none" / "report.html")
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OutputError, match="full"):
        write_report(est, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_report_needs_partitions_but_not_matplotlib(tmp_path, monkeypatch):
    """A spectral clusterer of a similarity has no partitions to report on."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    X, P, _ = clustered_features()
    write_report(fitted(P), tmp_path / "report.html", X)
    assert (tmp_path / "report.html").stat().st_size > 10_000
    est = RobustSpectral(2, random_state=0).fit(np.kron(np.eye(2), np.ones((4, 4))))
    with pytest.raises(InvalidParameterError, match="not a consensus of partitions"):
        write_report(est, tmp_path / "report.html")


@pytest.mark.parametrize("name", FILES)
def test_files_set_text_only(name):
    """No file makes markup from text, evaluates text, names another host or ends its element."""
    folder = resources.files("coterie.inspection.report").joinpath("page")
    text = folder.joinpath(name).read_text(encoding="utf-8")
    dangers = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
    assert not re.search(dangers, text)
    assert set(re.findall(r"https?://[^\"' ]+", text)) <= {"http://www.w3.org/2000/svg"}
    if not name.endswith(".html"):
        assert not re.search(r"</script|</style|<!--", text, re.IGNORECASE)
