"""The report: every number is the estimator's; hostile names, a strict policy, whole files."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from dataclasses import replace
from importlib import resources

import numpy as np
import pandas as pd
import pytest

import coterie as ct
from consensus_pages import HOSTILE_NAMES, clustered_features, fitted, read_page
from coterie.consensus.results import runner_up_clusters
from coterie.errors import InvalidLabelsError, InvalidParameterError, OutputError
from coterie.inspection.report import consensus_page as module
from coterie.inspection.report.consensus_page import (
    MOST_QUOTED,
    cluster_words,
    consensus_contents,
    render_report,
)
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
    est.k_choice_ = ct.choose_k(P, range(2, 6), random_state=0)
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
    assert numbers(clusters, 3) == [row.confidence for row in contents["clusters"]]
    assert numbers(partitions, 1) == sorted(est.partition_agreement_.tolist(), reverse=True)
    assert numbers(partitions, 2) == [row.coverage for row in contents["partitions"]]
    assert numbers(criteria, 0) == [2, 3, 4, 5]
    assert numbers(points, 3) == [one.confidence for one, _ in contents["points"]]
    assert numbers(points, 1) == [one.cluster for one, _ in contents["points"]]
    assert [row[0][0] for row in points[1:]] == [one.name for one, _ in contents["points"]]
    assert numbers(separation, 1) == [row["separation"] for row in contents["features"]["rows"]]
    for card, table in zip(contents["features"]["clusters"], cards, strict=True):
        assert numbers(table, 2) == [one["difference"] for one in card["features"]]
        assert numbers(table, 3) == [one["cluster_mean"] for one in card["features"]]
    for row in clusters[1:]:
        assert row[3][0].strip() == f"{float(row[3][1]):.2f}"


@pytest.mark.parametrize(
    ("confidence", "word"), [(0.9, "clear"), (0.75, "mostly clear"), (0.7, "mixed"), (0.3, "weak")]
)
def test_confidence_is_put_into_words(case, confidence, word):
    """The mean confidence has a word for people."""
    _, est = case
    contents = consensus_contents(est)
    contents["facts"] = replace(contents["facts"], mean_confidence=confidence)
    text = " ".join(read_page(render_report(contents)).text.split())
    assert f"The votes are {word}: mean confidence {confidence:.2f}" in text


def test_embedded_numbers_are_those_of_the_pictures(case, page):
    """The script draws the co-association and the points of the contents."""
    X, est = case
    contents = consensus_contents(est, X)
    data = json.loads(page.raw["script"][0])
    assert data["coassociation"]["names"] == contents["coassociation"]["names"]
    assert data["points"]["names"] == contents["features"]["map"]["names"]
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
    est = ct.EvidenceAccumulation(2).fit([[0, 0], [0, 0], [1, 1], [1, 0]])
    text = " ".join(read_page(render_report(consensus_contents(est))).text.split())
    assert "This report has no features" in text
    assert "The number of clusters, 2, was given." in text
    assert "coterie.choose_k(P)" in text
    assert "No partition" not in text


def test_weak_partitions_are_named(case):
    """A partition that hardly agrees with its camp is marked in the table."""
    contents = consensus_contents(case[1])
    weak = [replace(row, weak=row.name == "rater 2") for row in contents["partitions"]]
    page = read_page(render_report(contents | {"partitions": weak}))
    marked = [row[0][0] for row in page.tables[1] if row[-1][0] == "decides, hardly agrees"]
    assert marked == ["rater 2"]


def test_hostile_names_stay_text(tmp_path):
    """Names from data are shown as text, and never become markup or code."""
    X, P, _ = clustered_features()
    names = list(HOSTILE_NAMES)
    path = tmp_path / "report.html"
    ct.write_report(
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
    est = ct.EvidenceAccumulation(n_clusters).fit(P)
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
    est = ct.EvidenceAccumulation(2).fit([[0, 0], [0, 0], [1, 1]])
    with pytest.raises(InvalidParameterError, match="X has 2 rows"):
        ct.write_report(est, path, [[1.0], [2.0]])
    with pytest.raises(OutputError, match="does not exist"):
        ct.write_report(est, tmp_path / "none" / "report.html")
    monkeypatch.setattr("pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OutputError, match="full"):
        ct.write_report(est, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_the_report_needs_partitions_but_not_matplotlib(tmp_path, monkeypatch):
    """A spectral clusterer of a similarity has no partitions to report on."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    X, P, _ = clustered_features()
    ct.write_report(fitted(P), tmp_path / "report.html", X)
    assert (tmp_path / "report.html").stat().st_size > 10_000
    est = ct.RobustSpectral(2, random_state=0).fit(np.kron(np.eye(2), np.ones((4, 4))))
    with pytest.raises(InvalidParameterError, match="not a consensus of partitions"):
        ct.write_report(est, tmp_path / "report.html")


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


# ---- Contents


@pytest.fixture(scope="module")
def plain():
    """Return features, partitions of which two are wrong, and their consensus."""
    X, P, _ = clustered_features()
    return X, P, fitted(P)


def test_clusters_have_the_confidence_of_their_points(plain):
    """Mean, histogram and consensus of a cluster are those of its points."""
    _, _, est = plain
    firmness = ct.cluster_consensus(est)
    report = consensus_contents(est)
    for row, histogram in zip(report["clusters"], report["histograms"], strict=True):
        own = est.confidence_[est.labels_ == row.cluster]
        assert row.confidence == pytest.approx(own.mean())
        assert histogram == np.histogram(own.round(6), np.arange(11) / 10)[0].tolist()
        assert row.consensus == pytest.approx(firmness[row.cluster])


def test_partitions_are_those_of_the_partition_report(plain):
    """The rows are those of the partition report; camps and their sizes are those of the fit."""
    _, _, est = plain
    names = [f"rater {v}" for v in range(8)]
    part = consensus_contents(est, names=names)
    assert part["partitions"] == ct.partition_report(est, names)
    assert [len(camp.partitions) for camp in part["facts"].camps] == [6, 2]
    assert part["facts"].dissent == est.dissent_.in_words(names)
    order = [names.index(name) for name in part["agreement"]["names"]]
    np.testing.assert_array_equal(
        part["agreement"]["matrix"], np.clip(est.dissent_.agreement[np.ix_(order, order)], 0, 1)
    )
    assert sum(length for _, length in part["agreement"]["blocks"]) == 8


def test_the_coassociation_is_that_of_the_points(plain, monkeypatch):
    """The heat map has the co-association of a sample, with the blocks of its clusters."""
    _, P, est = plain
    monkeypatch.setattr(module, "_MOST_COASSOCIATED", 25)
    heat = consensus_contents(est)["coassociation"]
    rows = [int(name) for name in heat["names"]]
    M = ct.coassociation(P, est.partition_weights_)
    np.testing.assert_allclose(heat["matrix"], M[np.ix_(rows, rows)], atol=1e-12)
    assert (len(rows), heat["total"]) == (25, len(P))
    ends = np.cumsum([length for _, length in heat["blocks"]])
    clusters = [set(est.labels_[part]) for part in np.split(rows, ends[:-1])]
    assert clusters == [{0}, {1}, {2}]


def test_many_partitions_are_compared_by_some(plain, monkeypatch):
    """Of many partitions some of every large camp are compared."""
    _, _, est = plain
    monkeypatch.setattr(module, "_MOST_COMPARED", 4)
    heat = consensus_contents(est)["agreement"]
    assert (len(heat["names"]), heat["total"]) == (4, 8)
    assert heat["matrix"].shape == (4, 4)


def test_doubtful_points_are_the_least_certain(plain):
    """They are listed by rising confidence, with their cluster and the next best."""
    _, _, est = plain
    report = consensus_contents(est)
    assert report["n_doubtful"] == (est.confidence_ < module._DOUBTFUL_BELOW).sum() > 0
    runner_up = runner_up_clusters(est)
    shown = [one.confidence for one, _ in report["points"]]
    doubtful = est.confidence_[est.confidence_ < module._DOUBTFUL_BELOW]
    assert shown == sorted(doubtful.tolist())[:100]
    for one, next_best in report["points"]:
        assert one.cluster == est.labels_[one.row]
        assert next_best == runner_up[one.row]
        assert one.name == str(one.row)
    assert not report["facts"].has_index


def test_if_no_point_is_doubtful_a_few_are_listed_unless_all_are_certain(plain, monkeypatch):
    """Points above the limit are not counted as doubtful; those of confidence 1 are not listed."""
    est = ct.EvidenceAccumulation(2).fit(np.repeat([[0], [1]], 5, axis=0).repeat(3, axis=1))
    est.confidence_ = np.ones(10)
    report = consensus_contents(est)
    assert (report["points"], report["n_doubtful"]) == ([], 0)
    est = plain[2]
    monkeypatch.setattr(module, "_DOUBTFUL_BELOW", 0.0)
    report = consensus_contents(est)
    assert report["n_doubtful"] == 0
    assert [one.confidence for one, _ in report["points"]] == np.sort(est.confidence_)[:10].tolist()


def test_unlabelled_points_are_counted_and_not_listed():
    """Points without a label are in no cluster, no histogram and no list of doubtful points."""
    P = np.array([[0, 0], [0, 0], [0, 1], [1, 1], [1, 1], [-1, -1]])
    est = ct.KMeansConsensus(2, random_state=0).fit(P)
    X = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [99.0]])
    report = consensus_contents(est, X)
    assert report["facts"].unlabelled == 1
    assert sum(row.size for row in report["clusters"]) == 5
    assert 5 not in [one.row for one, _ in report["points"]]
    assert report["features"]["rows"][0]["mean"] == pytest.approx(X[:5].mean())


def test_points_have_the_names_of_the_table(plain):
    """Names come from the argument, the fitted table or the features, in this order."""
    X, P, est = plain
    rows = [f"p{i}" for i in range(len(P))]
    from_fit = consensus_contents(fitted(pd.DataFrame(P, index=rows)))
    from_X = consensus_contents(est, pd.DataFrame(X, index=rows))
    given = consensus_contents(est, index=list(zip(rows, range(len(rows)), strict=True)))
    for report in (from_fit, from_X):
        assert all(one.name == f"p{one.row}" for one, _ in report["points"])
        assert report["facts"].has_index
    first, _ = given["points"][0]
    assert first.name == f"p{first.row} · {first.row}"


def test_features_of_other_rows_are_refused(plain):
    """Features whose index is another one describe other points."""
    X, P, _ = plain
    est = fitted(pd.DataFrame(P, index=[f"p{i}" for i in range(len(P))]))
    with pytest.raises(InvalidLabelsError, match="the rows of X are not those of the fit"):
        consensus_contents(est, pd.DataFrame(X, index=[f"q{i}" for i in range(len(P))]))
    with pytest.raises(InvalidParameterError, match="index has 2 names for 60 points"):
        consensus_contents(est, index=["a", "b"])


def test_clusterers_name_their_runs_and_kinds(plain):
    """The partitions of a clusterer have the names of its runs, and are counted by kind."""
    X, _, _ = plain
    est = ct.ConsensusClusterer(
        3, n_partitions=6, ensemble=["diverse", "subspaces"], random_state=0
    ).fit(X)
    report = consensus_contents(est, X)
    assert {row.name for row in report["partitions"]} == set(est.ensemble_.names)
    assert {row["kind"]: row["size"] for row in report["kinds"]} == {"diverse": 3, "subspaces": 3}
    deciding = sum(vote.weight > 0 for vote in report["facts"].votes)
    assert sum(row["deciding"] for row in report["kinds"]) == deciding
    assert report["estimator"] == "ConsensusClusterer"
    np.testing.assert_array_equal(report["features"]["map"]["confidence"], est.confidence_)
    assert len(report["features"]["rows"]) == 4


@pytest.mark.parametrize(("ensemble", "is_finer"), [("mixed", True), ("kmeans", False)])
def test_only_the_default_ensemble_has_finer_runs(ensemble, is_finer):
    """The runs of k-means have as many clusters as the consensus."""
    X = np.random.default_rng(0).normal(size=(200, 2))
    est = ct.ConsensusClusterer(3, n_partitions=4, ensemble=ensemble, random_state=0).fit(X)
    assert consensus_contents(est)["has_finer_runs"] == is_finer


def test_labels_are_no_features():
    """The label table of the fit is refused as X, as numbers and as words."""
    P, _ = ct.planted_partitions([60, 30, 10], 5, n_bad=0, noise=0.1, random_state=0)
    for labels in (P, np.array(list("abcdefgh"))[P]):
        est = ct.RobustConsensus(3, random_state=0).fit(labels)
        with pytest.raises(InvalidParameterError, match="X has the labels of the fit"):
            consensus_contents(est, labels)
        for X in (np.arange(500.0).reshape(100, 5), P[:, :4] + 1, P[::-1]):
            assert consensus_contents(est, X)["features"]["n_features"] == X.shape[1]


def test_views_are_kinds_of_partitions(plain):
    """The runs of several views are counted by view, and features are named by view."""
    X, _, _ = plain
    views = {"left": X[:, :2], "right": X[:, :2] + 0.1 * X[:, [2]]}
    est = ct.MultiViewClusterer(3, n_partitions=3, ensemble="diverse", random_state=0).fit(views)
    report = consensus_contents(est, views)
    agreement = {row["kind"]: row["agreement"] for row in report["kinds"]}
    assert agreement == pytest.approx(est.view_agreement_)
    assert {row["name"] for row in report["features"]["rows"]} == {
        f"{view}: feature {j}" for view in views for j in range(2)
    }


WORDS = np.array(["red", "green", "blue", ""])


def labelled(n_partitions):
    """Return labels of noisy partitions, as words and with gaps, and the names of the columns."""
    P, _ = ct.planted_partitions([30, 20, 10], n_partitions, 1, noise=0.2, random_state=0)
    P[::7, 0] = -1
    return WORDS[P], [f"rater {v}" for v in range(n_partitions)]


def test_words_are_the_most_common_labels_of_voting_partitions():
    """They are those that a count over the points finds; a partition without labels has none."""
    P, names = labelled(5)
    est = ct.EvidenceAccumulation(3, partition_weights=[1, 2, 0, 1, 1]).fit(P)
    for cluster, words in enumerate(cluster_words(est, names)):
        rows = P[est.labels_ == cluster]
        assert [name for name, _ in words] == ["rater 0", "rater 1", "rater 3", "rater 4"]
        for name, label in words:
            counts = Counter(rows[:, names.index(name)].tolist())
            del counts[""]
            assert counts[label] == max(counts.values())
    P = [["a", "x"], ["a", "x"], ["b", ""], ["b", ""]]
    assert cluster_words(ct.EvidenceAccumulation(2).fit(P), ["p", "q"])[1] == [("p", "b")]


def test_of_many_partitions_those_that_agree_most_are_quoted():
    """At most six partitions are quoted, and the page says which."""
    P, names = labelled(9)
    est = ct.EvidenceAccumulation(3).fit(P)
    best = np.sort(np.argsort(-est.partition_agreement_, kind="stable")[:MOST_QUOTED])
    assert [name for name, _ in cluster_words(est, names)[0]] == [names[v] for v in best]
    page = render_report(consensus_contents(est, names=names))
    assert "each of the 6 deciding partitions that agree most" in page


@pytest.mark.parametrize(
    "P", [[[0, 1], [0, 1], [1, 0]], [np.eye(3)[[0, 1, 1]], np.full((3, 2), 0.5)]]
)
def test_numbers_and_memberships_have_no_words(P):
    """Labels that are numbers say nothing, and soft partitions have no labels: no column."""
    est = ct.EvidenceAccumulation(2).fit(P)
    assert cluster_words(est, ["p", "q"]) == [[], []]
    assert "Most common labels" not in render_report(consensus_contents(est))


def test_words_are_text_in_the_page():
    """Words appear escaped, with visible control characters."""
    P = [["<b>red\a", 1], ["<b>red\a", 1], ["blue", 2], ["blue", 2]]
    page = render_report(
        consensus_contents(ct.EvidenceAccumulation(2).fit(P), names=["anna", "ben"])
    )
    assert "<bdi>anna</bdi> <strong><bdi>&lt;b&gt;red␇</bdi></strong>, <bdi>ben</bdi>" in page
    assert "each deciding partition gives most often" in page
