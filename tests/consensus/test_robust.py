"""RobustConsensus: the votes, the answers it compares, and the one it returns."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, silhouette_samples

import coterie as ct
from coterie.consensus import robust
from coterie.consensus.robust import (
    Sample,
    Votes,
    choose_answer,
    mean_agreement,
    weighted_rand_index,
)
from coterie.counts.cluster_tables import ClusterTables
from coterie.errors import DissentWarning, LabelWarning, MemoryFallbackWarning
from coterie.labels.tuples import as_label_tuples
from coterie.relaxation import divided as placement


@pytest.fixture(scope="module")
def spoiled():
    """Twenty partitions of 300 points; the last eight are wrong together."""
    return ct.planted_partitions([200, 60, 40], 20, 8, 0.2, random_state=0)


@pytest.fixture(scope="module")
def fitted(spoiled):
    """The default settings on the spoiled votes."""
    return ct.RobustConsensus(3, random_state=0).fit(spoiled[0])


def test_forty_percent_of_wrong_votes_are_ignored(spoiled, fitted):
    """The planted partition is recovered, and the wrong partitions are named."""
    assert ct.clustering_accuracy(spoiled[1], fitted.labels_) > 0.98
    assert fitted.partition_weights_.tolist() == [1.0] * 12 + [0.0] * 8
    assert fitted.partition_groups_.tolist() == [0] * 12 + [1] * 8
    assert fitted.partition_agreement_[:12].min() > 0.5
    assert fitted.partition_agreement_[12:].max() < 0.1


def test_every_promised_attribute_is_there(spoiled, fitted):
    """Attributes have their documented shapes and ranges."""
    n, V = spoiled[0].shape
    assert fitted.partition_agreement_.shape == fitted.partition_groups_.shape == (V,)
    assert fitted.embedding_.shape == (n, 3)
    assert fitted.n_tuples_ <= n and fitted.n_iter_ == len(fitted.history_["objective"])
    assert 0 <= fitted.lower_bound_ <= fitted.objective_
    assert fitted.gap_ == pytest.approx(1 - fitted.lower_bound_ / fitted.objective_)
    assert fitted.threshold_ == 0.5
    selected = fitted.selected_
    assert selected["votes"] == "the largest camp" and "answer" in selected["reason"]
    assert selected["answers"][selected["method"]]["competes"]
    assert {"relaxation", "least squares", "local linkage"} <= set(selected["answers"])
    assert fitted.partition_coverage_.tolist() == [1.0] * V
    assert fitted.n_features_in_ == V


def test_papers_method_uses_every_partition_and_no_search(spoiled):
    """relaxation="admm", refine="relaxation", partition_weights=None is the relaxation, rounded."""
    est = ct.RobustConsensus(
        3, relaxation="admm", refine="relaxation", partition_weights=None, random_state=0, tol=5e-3
    ).fit(spoiled[0])
    assert est.partition_weights_.tolist() == [1.0] * 20
    assert est.selected_["method"] == "relaxation"
    assert est.n_iter_ > 1
    gap = np.abs(ct.coassociation(spoiled[0]) - est.embedding_ @ est.embedding_.T).sum()
    assert min(est.history_["objective"]) >= gap - 1e-6


def test_learned_weights_do_not_depend_on_order_or_names(spoiled):
    """Permuting points and partitions and renaming labels only permutes the labels."""
    rng = np.random.default_rng(0)
    P = spoiled[0]
    points, partitions = rng.permutation(len(P)), rng.permutation(P.shape[1])
    names = [rng.permutation(3) * 11 + 5 for _ in range(P.shape[1])]
    renamed = np.column_stack([names[v][P[:, v]] for v in range(P.shape[1])])
    a, b = (
        ct.RobustConsensus(3, partition_weights="learned", random_state=0).fit(labels)
        for labels in (P, renamed[points][:, partitions])
    )
    assert (b.labels_ == a.labels_[points]).all()
    assert np.allclose(b.confidence_, a.confidence_[points])
    assert np.allclose(b.partition_weights_, a.partition_weights_[partitions])
    assert np.allclose(b.partition_agreement_, a.partition_agreement_[partitions])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([None, 2, 3]))
@pytest.mark.filterwarnings("ignore::coterie.errors.DissentWarning")
@pytest.mark.filterwarnings("ignore::coterie.errors.WeakEvidenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_any_labels_give_a_valid_partition(seed, missing, K):
    """Any labels give at most K clusters without gaps, and a bound below the objective."""
    rng = np.random.default_rng(seed)
    n, V = rng.integers(3, 30), rng.integers(1, 7)
    P = rng.integers(0, rng.integers(1, 5), (n, V))
    if missing:
        P[rng.random(P.shape) < 0.3] = -1
        P[:, 0] = rng.integers(0, 3, n)
        P = P[:, (P >= 0).any(axis=0)]
    est = ct.RobustConsensus(K, random_state=0).fit(P)
    assert sorted(set(est.labels_)) == list(range(est.n_clusters_))
    assert K is None or est.n_clusters_ <= K
    assert est.lower_bound_ <= est.objective_ + 1e-9
    assert (est.predict(P) == est.labels_).all()
    again = ct.RobustConsensus(K, random_state=0).fit(P)
    assert (again.labels_ == est.labels_).all()


def test_bound_from_distances_takes_over_when_tuples_are_many(spoiled, fitted, monkeypatch):
    """Above the limit the bound from distances is used, which is weaker."""
    monkeypatch.setattr(robust, "_MOST_BOUNDED_PAIRWISE", 0)
    linear = ct.RobustConsensus(3, random_state=0).fit(spoiled[0])
    assert 0 < linear.lower_bound_ <= fitted.lower_bound_ + 1e-9


def test_unanimous_partitions_are_returned_exactly():
    """Equal partitions are returned with gap 0 and full margin, and with a warning."""
    y = np.random.default_rng(5).integers(0, 5, 60)
    with pytest.warns(LabelWarning, match="all 3 partitions are the same"):
        est = ct.RobustConsensus(5, random_state=0).fit(np.column_stack([y, (y + 1) % 5, 9 - y]))
    assert est.objective_ == est.gap_ == 0
    assert est.margin_.min() == 1


def test_no_k_means_choose_k():
    """With n_clusters=None the number of clusters is that of choose_k, also under noise."""
    P, y = ct.planted_partitions([240, 150, 90, 60, 30, 30], 12, 0, 0.4, random_state=0)
    est = ct.RobustConsensus(random_state=0).fit(P)
    assert est.n_clusters_ == ct.choose_k(P, random_state=0).best_k == 6
    assert ct.clustering_accuracy(y, est.labels_) > 0.98


def test_the_free_search_is_asked_for_by_name():
    """n_clusters="free" returns the partition of least J, with any number of clusters."""
    P, y = ct.planted_partitions([80, 50, 30, 20], 15, 4, 0.1, random_state=0)
    est = ct.RobustConsensus("free", random_state=0).fit(P)
    assert est.n_clusters_ == 4 and ct.clustering_accuracy(y, est.labels_) > 0.98
    assert est.selected_["method"] == "search"
    relaxed = ct.RobustConsensus("free", refine="relaxation", random_state=0).fit(P)
    refitted = ct.RobustConsensus(4, random_state=0).fit(P).set_params(n_clusters="free").fit(P)
    for searched in (est, refitted):
        assert (searched.relaxation_, searched.n_iter_) == ("l2", 0)
    assert relaxed.n_iter_ > 0 and relaxed.selected_["method"] == "relaxation"


def test_weights_of_any_size_work():
    """Only ratios of weights count, however large or small; negligible weights become 0."""
    P, y = ct.planted_partitions([60, 40], 5, 1, 0.1, random_state=0)
    P[:5, 0] = -1
    for unit in (1e-300, 1.0, 1e300):
        weights = np.array([1.0, 1, 1, 1, 0]) * unit
        est = ct.RobustConsensus(2, partition_weights=weights, random_state=0).fit(P)
        assert ct.clustering_accuracy(y, est.labels_) > 0.95
    uneven = ct.RobustConsensus(2, partition_weights=[1, 1, 1, 1, 1e-300], random_state=0).fit(P)
    assert uneven.partition_weights_[4] == 0


def test_state_that_would_not_fit_is_replaced(spoiled, monkeypatch):
    """With too little memory for the ADMM a warning is given, and it is solved in parts."""
    monkeypatch.setattr(placement, "available_memory", lambda: 1000)
    with pytest.warns(MemoryFallbackWarning, match=r"needs .* in parts"):
        est = ct.RobustConsensus(3, relaxation="admm", random_state=0).fit(spoiled[0])
    assert est.relaxation_ == "parts"
    assert ct.clustering_accuracy(spoiled[1], est.labels_) > 0.98


def test_too_few_steps_give_a_warning(spoiled):
    """An ADMM that did not converge gives a ConvergenceWarning if its answer is returned."""
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        ct.RobustConsensus(3, refine="relaxation", max_iter=2, random_state=0).fit(spoiled[0])
    ct.RobustConsensus(3, refine="search", max_iter=2, random_state=0).fit(spoiled[0])


@pytest.mark.filterwarnings("ignore::coterie.errors.CoterieWarning")
def test_edge_sizes_work():
    """One point, one partition, one cluster and constant partitions work."""
    assert ct.RobustConsensus(1).fit([[3, 4]]).labels_.tolist() == [0]
    one = ct.RobustConsensus(2, random_state=0).fit([[0], [0], [1], [1]])
    assert one.labels_[0] == one.labels_[1] != one.labels_[2] == one.labels_[3]
    assert ct.RobustConsensus(1).fit([[0, 1], [1, 0], [1, 1]]).labels_.tolist() == [0, 0, 0]
    assert ct.RobustConsensus(random_state=0).fit(np.zeros((5, 3), int)).labels_.tolist() == [0] * 5


def test_more_clusters_than_tuples_of_the_deciding_partitions():
    """If the largest camp has too few tuples for K clusters, the votes of all decide."""
    y = np.repeat([0, 1], 50)
    other = np.random.default_rng(0).integers(0, 5, 100)
    est = ct.RobustConsensus(6, random_state=0).fit(np.column_stack([y, y, y, other]))
    assert est.dissent_.weights.tolist() == [1.0, 1.0, 1.0, 0.0]
    assert est.selected_["votes"] == "all partitions" and est.n_clusters_ == 6
    assert "has more clusters than that of the largest camp (6 against" in est.selected_["reason"]
    assert len(set(zip(est.labels_.tolist(), y.tolist(), strict=True))) == 6


def test_the_reason_compares_the_answers_of_the_camp_and_of_all(fitted):
    """It calls an answer better separated only if it is."""
    assert "; it is better separated than the answer from all votes (" in fitted.selected_["reason"]
    y = np.repeat([0, 1], 20)
    est = ct.RobustConsensus(2, random_state=0).fit(np.column_stack([y, y, y, np.zeros(40)]))
    assert est.selected_["votes"] == "the largest camp"
    assert (
        "; it is as well separated as the answer from all votes (2.00, " in est.selected_["reason"]
    )


def test_the_relaxation_is_described_for_the_votes_of_the_answer():
    """It is that of the largest camp, although the votes of all were relaxed after it."""
    y = np.repeat([0, 1, 2], 400)
    noise = np.random.default_rng(0).integers(0, 9, (1200, 3))
    est = ct.RobustConsensus(3, random_state=0).fit(np.column_stack([y, y, y, y, noise]))
    assert est.selected_["votes"] == "the largest camp" and est.n_tuples_ > 500
    assert est.relaxation_ == "cpu" and est.n_iter_ == len(est.history_["objective"]) > 0


@pytest.mark.filterwarnings("ignore::coterie.errors.DissentWarning")
@pytest.mark.parametrize(
    ("weights", "n_camps", "voters"),
    [
        ("agreement", 1, "the largest camp"),
        ("agreement", 2, "the largest camps"),
        ([1.0] * 6 + [0.0], 1, "the partitions of positive weight"),
        (None, 2, "all partitions"),
    ],
)
def test_it_is_said_whose_votes_decide(weights, n_camps, voters):
    """The largest camp, several of them, the partitions that the user chose, or all."""
    camps = np.random.default_rng(0).integers(0, 3, (2, 90))
    P = np.column_stack([camps[v * n_camps // 6] for v in range(6)])
    P = np.column_stack([P, np.random.default_rng(1).integers(0, 3, 90)])
    est = ct.RobustConsensus(3, refine="search", partition_weights=weights, random_state=0).fit(P)
    assert est.selected_["votes"] == voters


def test_most_labels_may_be_missing():
    """With 85% of the labels missing the planted clusters are found."""
    P, y = ct.planted_partitions([80, 50, 30], 40, 0, 0.1, random_state=0)
    P[np.random.default_rng(0).random(P.shape) < 0.85] = -1
    est = ct.RobustConsensus(3, random_state=0).fit(P)
    labelled = (P >= 0).any(axis=1)
    assert ct.clustering_accuracy(y[labelled], est.labels_[labelled]) > 0.95
    assert np.allclose(est.partition_coverage_, (P >= 0).sum(axis=0) / labelled.sum())


@pytest.mark.slow
def test_crossed_factors_are_found_from_all_votes():
    """Two crossed factors are two camps; their product needs the votes of both."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 3, (2, 600))
    columns = [
        np.where(rng.random(600) < 0.1, rng.integers(0, 3, 600), factor)
        for factor in [a] * 6 + [b] * 5
    ]
    with pytest.warns(DissentWarning, match="6 of 11 partitions agree"):
        est = ct.RobustConsensus(9, random_state=0).fit(columns)
    assert est.selected_["votes"] == "all partitions" and est.partition_weights_.min() == 1
    assert ct.clustering_accuracy(3 * a + b, est.labels_) > 0.97


def test_coarse_partitions_do_not_hide_fine_ones():
    """Three fine partitions decide about eight clusters next to seventeen coarse ones."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(8), 50)
    fine = [np.where(rng.random(400) < 0.1, rng.integers(0, 8, 400), y) for _ in range(3)]
    coarse = [np.where(rng.random(400) < 0.1, rng.integers(0, 2, 400), y // 4) for _ in range(17)]
    est = ct.RobustConsensus(8, random_state=0).fit(fine + coarse)
    assert ct.clustering_accuracy(y, est.labels_) > 0.95


def test_rows_without_any_label_get_none():
    """Such rows get −1 and confidence 0, and change nothing for the others."""
    P, _ = ct.planted_partitions([60, 40], 6, 0, 0.1, random_state=0)
    holes = np.insert(P, [0, 50, 100], -1, axis=0)
    est = ct.RobustConsensus(2, random_state=0).fit(holes)
    none = (holes < 0).all(axis=1)
    assert est.labels_[none].tolist() == [-1] * 3 and est.confidence_[none].tolist() == [0.0] * 3
    np.testing.assert_array_equal(
        est.labels_[~none], ct.RobustConsensus(2, random_state=0).fit(P).labels_
    )
    assert est.predict(holes).tolist() == est.labels_.tolist()


def test_the_search_minimises_the_objective_under_noise():
    """With the threshold 1/2 the objective is lower than with a calibrated threshold."""
    P, y = ct.planted_partitions([100, 60, 40], 20, 0, 0.6, random_state=0)
    half, calibrated = (
        ct.RobustConsensus(3, refine="search", threshold=threshold, random_state=0).fit(P)
        for threshold in (0.5, "calibrated")
    )
    assert half.threshold_ == 0.5 > calibrated.threshold_
    assert half.objective_ < calibrated.objective_
    assert ct.clustering_accuracy(y, calibrated.labels_) > 0.95


def sample_of(P, seed=0, **limit):
    """The sample of the votes of all partitions alike."""
    votes = Votes.from_tuples(as_label_tuples(P), None)
    return Sample.draw(votes, np.random.RandomState(seed), **limit)


def truth_of(sample, y):
    """The planted labels of the tuples of the votes."""
    truth = np.empty(sample.votes.tuples.n_tuples, dtype=np.int64)
    truth[sample.votes.tuples.inverse] = y
    return truth


@pytest.fixture(scope="module")
def planted():
    """Nine noisy partitions of four unequal clusters."""
    return ct.planted_partitions([60, 30, 20, 10], 9, 0, 0.3, random_state=0)


def test_answers_are_those_of_the_methods(planted, monkeypatch):
    """Every answer is that of the method alone."""
    P = planted[0]
    seen = {}
    monkeypatch.setattr(
        robust,
        "mean_agreement",
        lambda found, w: seen.update(found) or mean_agreement(found, w),
    )
    sample = sample_of(P)
    choose_answer(sample, 4, {}, np.random.RandomState(0))
    methods = {
        "local linkage": ct.LocallyWeightedConsensus(4),
        "local cut": ct.LocallyWeightedConsensus(4, strategy="graph", random_state=0),
        "profiles": ct.KMeansConsensus(4, random_state=0),
        "propagated linkage": ct.PropagatedConsensus(4),
        "meta-clusters": ct.MCLA(4, partitioner="linkage", random_state=0),
    }
    assert set(seen) <= set(methods)
    for name, labels in seen.items():
        alone = methods[name].fit(P).labels_
        assert adjusted_rand_score(alone, sample.votes.tuples.expand(labels)) > 0.97, name


def test_separation_is_the_mean_silhouette_plus_that_of_the_worst_cluster(planted):
    """Silhouettes are those of scikit-learn for the distance 1 − M of the points."""
    sample = sample_of(planted[0])
    labels = truth_of(sample, planted[1])
    points = sample.votes.tuples.expand(labels)
    each = silhouette_samples(1 - ct.coassociation(planted[0]), points, metric="precomputed")
    worst = min(each[points == k].mean() for k in range(4))
    assert sample.separation(labels) == pytest.approx(each.mean() + worst)


def test_the_answer_in_the_middle_wins(planted):
    """The chosen answer has the largest mean agreement of those with the most clusters."""
    sample = sample_of(planted[0])
    wrong = np.arange(sample.tuples.n_tuples) % 4
    merged = np.minimum(truth_of(sample, planted[1]), 1)
    found = choose_answer(sample, 4, {"wrong": wrong, "merged": merged}, np.random.RandomState(0))
    competing = {name: one for name, one in found.compared.items() if one["competes"]}
    assert found.compared["merged"] == {"clusters": 2, "competes": False, "agreement": None}
    assert found.method == max(competing, key=lambda name: round(competing[name]["agreement"], 9))
    assert min(competing, key=lambda name: competing[name]["agreement"]) == "wrong"
    assert "merged (2)" in found.reason and found.method in found.reason


@pytest.mark.parametrize(("noise", "are_equal"), [(0.02, True), (0.5, False)])
def test_equal_answers_are_said_to_be_equal(noise, are_equal):
    """The reason lists the agreements only if they differ."""
    P, _ = ct.planted_partitions([60, 30, 20, 10], 9, 0, noise, random_state=0)
    found = choose_answer(sample_of(P), 4, {}, np.random.RandomState(0))
    agreements = [one["agreement"] for one in found.compared.values()]
    assert (min(agreements) == pytest.approx(1)) == are_equal
    assert found.reason.startswith(f"all {len(agreements)} methods") == are_equal


def test_an_answer_with_the_most_clusters_needs_no_agreement(planted):
    """The reason says so if all other answers have fewer clusters."""
    sample = sample_of(planted[0])
    finer = np.arange(sample.votes.tuples.n_tuples) % 5
    found = choose_answer(sample, 4, {"finer": finer}, np.random.RandomState(0))
    assert found.method == "finer" and found.labels is finer
    assert found.reason.startswith("only this answer has 5 clusters; with fewer clusters, ")


def test_much_finer_partitions_are_left_to_local_linkage():
    """If the partitions have many more than K clusters, locally weighted linkage decides."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 100)
    P = np.column_stack([y * 7 + rng.integers(0, 7, 300) for _ in range(8)])
    sample = sample_of(P)
    wrong = {"least squares": np.arange(sample.tuples.n_tuples) % 3}
    found = choose_answer(sample, 3, wrong, np.random.RandomState(0))
    assert set(found.compared) == {"local linkage"}
    assert "21 clusters (median), more than 2.3 times the 3 asked for" in found.reason
    assert ct.clustering_accuracy(y, sample.votes.tuples.expand(found.labels)) == 1


def test_many_tuples_are_sampled():
    """Above the limit a sample is clustered, and the other tuples join by vote."""
    P, y = ct.planted_partitions([300, 200, 100], 12, 0, 0.3, random_state=1)
    sample = sample_of(P, most=100)
    assert sample.votes.tuples.n_tuples > sample.tuples.n_tuples == 100
    assert sample.tuples.weights.sum() == pytest.approx(600)
    found = choose_answer(sample, 3, {}, np.random.RandomState(0))
    assert ct.clustering_accuracy(y, sample.votes.tuples.expand(found.labels)) > 0.97


def test_many_base_clusters_leave_the_cubic_methods_out(planted, monkeypatch):
    """Above the limit of base clusters only methods without their eigenvectors take part."""
    monkeypatch.setattr(robust, "_MOST_COLUMNS", 10)
    found = choose_answer(sample_of(planted[0]), 4, {}, np.random.RandomState(0))
    assert set(found.compared) == {"local cut", "local linkage"}


@pytest.mark.parametrize(
    ("sizes", "n_partitions", "method", "reason"),
    [
        ([100, 60, 40], 8, "search", "find them"),
        ([110, 60, 30], 8, "local linkage", "of different size (evenness 0.88)"),
        # random partitions: clusters of similar size that other partitions do not confirm
        (None, 8, "local linkage", "halves of the partitions find other clusters"),
        # halves of fewer than four partitions are not compared
        ([30] * 3, 3, "search", "adjusted Rand index 1.00"),
    ],
)
def test_sizes_and_stability_choose_between_search_and_linkage(sizes, n_partitions, method, reason):
    """refine="sizes" returns the search if its clusters are of similar size and stable."""
    P, y = np.random.default_rng(0).integers(0, 3, (200, 8)), None
    if sizes is not None:
        P, y = ct.planted_partitions(sizes, n_partitions, 0, 0.1, random_state=0)
    est = ct.RobustConsensus(3, refine="sizes", partition_weights=None, random_state=0).fit(P)
    assert est.selected_["method"] == method and reason in est.selected_["reason"]
    assert y is None or ct.clustering_accuracy(y, est.labels_) > 0.97


@pytest.mark.parametrize(("agreement", "method"), [(0.71, "search"), (0.69, "local linkage")])
def test_searches_of_halves_must_agree_by_seven_tenths(agreement, method, monkeypatch):
    """Below, linkage decides, although the clusters are of similar size."""
    monkeypatch.setattr(robust, "weighted_rand_index", lambda *_: agreement)
    P, _ = ct.planted_partitions([30] * 3, 8, 0, 0.1, random_state=0)
    est = ct.RobustConsensus(3, refine="sizes", partition_weights=None, random_state=0).fit(P)
    assert est.selected_["method"] == method


def test_halves_are_searched_with_the_weights_of_their_partitions():
    """Partitions of little weight that agree on other clusters do not make the search unstable."""
    rng, y = np.random.default_rng(0), np.repeat([0, 1, 2], 40)
    other = rng.permutation(y)
    P = np.column_stack([np.where(rng.random(120) < 0.1, 0, x) for x in [y] * 6 + [other] * 6])
    weights = np.repeat([1.0, 1e-6], 6)
    est = ct.RobustConsensus(3, refine="sizes", partition_weights=weights, random_state=0).fit(P)
    assert est.selected_["method"] == "search" and ct.clustering_accuracy(y, est.labels_) == 1


@pytest.fixture(scope="module")
def mixed():
    """Ten partitions, of which the last four are wrong in the same way."""
    return ct.planted_partitions([60, 40, 20], 10, 4, 0.1, random_state=0)


@pytest.fixture
def counted(monkeypatch):
    """Labels of all cluster tables that the votes count."""
    counted = []

    class CountingTables:
        @staticmethod
        def of(tuples, labels, weights):
            counted.append(labels.tobytes())
            return ClusterTables.of(tuples, labels, weights)

    monkeypatch.setattr(robust, "ClusterTables", CountingTables)
    return counted


def test_only_partitions_of_positive_weight_are_kept(mixed):
    """Tuples and tables are those of the deciding partitions; weights are in the given order."""
    tuples = as_label_tuples(mixed[0])
    votes = Votes.from_tuples(tuples, np.arange(10.0))
    assert tuples.in_given_order(votes.all_weights).tolist() == list(range(10))
    assert votes.weights.min() > 0 and len(votes.weights) == 9
    votes = Votes.from_tuples(tuples, "agreement")
    alone = as_label_tuples(mixed[0][:, :6])
    assert tuples.in_given_order(votes.all_weights).tolist() == [1.0] * 6 + [0.0] * 4
    assert votes.tuples.n_tuples == alone.n_tuples < tuples.n_tuples
    assert np.sort(votes.contingencies.diagonal()).tolist() == sorted(
        np.concatenate([np.bincount(column) for column in mixed[0][:, :6].T]).tolist()
    )


@pytest.mark.parametrize("share_missing", [0.0, 0.2])
@pytest.mark.parametrize("refine", ["auto", "search", "relaxation"])
def test_the_tables_of_a_labelling_are_counted_once(mixed, counted, refine, share_missing):
    """A fit counts the cluster tables of each candidate labelling once, for all its measures."""
    P = np.where(np.random.default_rng(0).random(mixed[0].shape) < share_missing, -1, mixed[0])
    P[:, 0] = mixed[0][:, 0]
    ct.RobustConsensus(3, refine=refine, random_state=0).fit(P)
    assert 0 < len(counted) == len(set(counted))


def test_answers_are_among_the_starts(mixed):
    """A search that starts from an answer too ends no worse than it."""
    votes = Votes.from_tuples(as_label_tuples(mixed[0]), None)
    first = votes.search(3)
    again = votes.search(3, {"known": first.labels})
    assert again.n_starts == first.n_starts + 1
    assert again.tables.objective() <= first.tables.objective() + 1e-9


def test_doubtful_decisions_give_a_warning():
    """Equal camps, no agreement at all, and a close second camp give a warning."""
    equal, close = (ct.planted_partitions([120, 80], V, 4, 0.1, random_state=0)[0] for V in (8, 9))
    noise = np.random.default_rng(0).integers(0, 3, (200, 3))
    for P, words in (
        (equal, "2 camps of 4"),
        (noise, "no two of the 3 partitions agree"),
        (close, r"5 of 9 .* dissent \(5, 6, 7, 8\).*with each other"),
    ):
        with pytest.warns(DissentWarning, match=words):
            votes = Votes.from_tuples(as_label_tuples(P), "agreement")
        assert P is close or votes.all_weights.all()


def test_the_rand_index_is_over_the_points_that_both_label():
    """It equals scikit-learn's on repeated points; −1 in either is left out, 0 if none is left."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(-1, 3, (2, 60))
    weights = rng.integers(1, 4, 60)
    both = (a >= 0) & (b >= 0)
    expected = adjusted_rand_score(*(np.repeat(x[both], weights[both]) for x in (a, b)))
    assert weighted_rand_index(a, b, weights.astype(float)) == pytest.approx(expected)
    assert weighted_rand_index(np.array([0, -1]), np.array([-1, 0]), np.ones(2)) == 0


@pytest.mark.parametrize(("sizes", "is_close"), [((6, 4), False), ((9, 6), False), ((10, 7), True)])
def test_a_decision_is_close_if_the_second_camp_has_more_than_two_thirds(sizes, is_close):
    """Only then there is a warning."""
    P, _ = ct.planted_partitions([120, 80], sum(sizes), sizes[1], 0.1, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        votes = Votes.from_tuples(as_label_tuples(P), "agreement")
    assert np.bincount(votes.dissent.groups).tolist() == list(sizes)
    assert [("the decision is close" in str(one.message)) for one in caught] == [True] * is_close
