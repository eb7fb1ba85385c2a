"""What every method of several views in the registry promises."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

import coterie as ct
from coterie.consensus.registry import MULTIVIEW_METHODS, make_multiview
from coterie.errors import InvalidParameterError, TooManyPointsError

SIZES = (24, 18, 12)
#: Methods linear in the points.
WITHOUT_LIMIT = {"rcc-views", "mvkmeans"}


@pytest.fixture(params=MULTIVIEW_METHODS)
def key(request):
    """The short name of a method."""
    return request.param


@pytest.fixture(scope="module")
def blobs():
    """Three clear groups seen in three views of different scale and width; and the groups."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1, 2], SIZES))
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    wide = np.hstack([10 * np.eye(3)[y], np.zeros((len(y), 2))])
    views = {
        "plane": 8 * corners[y] + rng.normal(size=(len(y), 2)),
        "tiny": 1e-3 * (8 * corners[y] + rng.normal(size=(len(y), 2))),
        "wide": wide + rng.normal(size=wide.shape),
    }
    return views, y


def make(key, n_clusters=3, **settings):
    """An estimator that is not fitted yet."""
    return make_multiview(key, n_clusters, random_state=0).set_params(**settings)


def same_partition(a, b):
    """Whether two labellings differ in names alone."""
    return ct.clustering_accuracy(a, b) == 1 and ct.clustering_accuracy(b, a) == 1


def test_clear_groups_are_found(key, blobs):
    """Groups that every view shows are found, and numbered by falling size."""
    views, y = blobs
    est = make(key).fit(views)
    assert same_partition(y, est.labels_)
    assert np.bincount(est.labels_).tolist() == sorted(SIZES, reverse=True)
    assert est.n_clusters_ == 3 and est.labels_.dtype == np.int32
    assert est.view_names_ == ["plane", "tiny", "wide"]


def test_order_of_points_and_views_changes_nothing(key, blobs):
    """Points and views may come in any order."""
    views, _ = blobs
    rng = np.random.default_rng(1)
    points = rng.permutation(sum(SIZES))
    shuffled = {name: views[name][points] for name in ("wide", "plane", "tiny")}
    a, b = make(key).fit(views), make(key).fit(shuffled)
    assert (b.labels_ == a.labels_[points]).all()


def test_lists_and_dicts_are_the_same(key, blobs):
    """A list of views gives the labels a dict of them gives."""
    views, _ = blobs
    named, listed = make(key).fit(views), make(key).fit(list(views.values()))
    assert (named.labels_ == listed.labels_).all()
    assert listed.view_names_ == ["view 0", "view 1", "view 2"]


def test_one_view_will_do(key, blobs):
    """A single view is a case like any other."""
    views, y = blobs
    assert same_partition(y, make(key).fit({"plane": views["plane"]}).labels_)


def test_views_may_be_sparse(key, blobs):
    """A sparse view among dense ones is understood."""
    views, y = blobs
    mixed = {**views, "wide": csr_array(np.maximum(views["wide"], 0))}
    assert same_partition(y, make(key).fit(mixed).labels_)


def test_one_cluster(key, blobs):
    """K = 1 puts all points together."""
    est = make(key, 1).fit(blobs[0])
    assert est.n_clusters_ == 1 and not est.labels_.any()


def test_parameters_survive_cloning(key, blobs):
    """A clone has the same parameters, is not fitted, and gives the same labels."""
    est = make(key)
    before = est.get_params()
    assert est.fit(blobs[0]) is est and est.get_params() == before
    copy = clone(est)
    assert copy.get_params() == before and not hasattr(copy, "labels_")
    assert (copy.fit_predict(blobs[0]) == est.labels_).all()


# two views of noise are two camps, and MultiViewClusterer says so
@pytest.mark.filterwarnings("ignore:2 camps:coterie.errors.DissentWarning")
def test_the_seed_fixes_the_answer(key):
    """The same seed gives the same labels even where there is nothing to be found."""
    rng = np.random.default_rng(3)
    noise = [rng.normal(size=(30, 3)), rng.normal(size=(30, 2))]
    a, b = (make(key, random_state=seed) for seed in (5, np.random.RandomState(5)))
    assert (a.fit(noise).labels_ == b.fit(noise).labels_).all()


def test_what_can_predict_predicts_as_fitted(key, blobs):
    """predict, where there is one, returns the fitted labels for the fitted points."""
    est = make(key).fit(blobs[0])
    assert hasattr(est, "predict") == (key in PREDICTING)
    if key in PREDICTING:
        assert (est.predict(blobs[0]) == est.labels_).all()


#: Methods that can label new things; the others know only those they were fitted on.
PREDICTING = {"rcc-views", "mvkmeans"}


def test_too_many_points_are_refused(key, blobs):
    """A method with a limit of size names it; one without accepts what there is."""
    if "max_points" not in make(key).get_params():
        assert key in WITHOUT_LIMIT
        return
    with pytest.raises(TooManyPointsError, match="max_points=4"):
        make(key, max_points=4).fit(blobs[0])


@pytest.mark.parametrize(
    ("views", "message"),
    [
        (np.ones((4, 2)), "a list of arrays or a dict"),
        ([], "no views"),
        ([np.ones((4, 2)), np.ones((5, 2))], "the same rows"),
        ({"a": np.full((4, 2), np.nan)}, "a cannot be used"),
    ],
    ids=["an array", "none", "lengths", "not numbers"],
)
def test_bad_views_are_told(key, views, message):
    """What is no list of views of the same things is refused, and named."""
    with pytest.raises(InvalidParameterError, match=message):
        make(key, 2).fit(views)


def test_a_fitted_method_can_be_kept(key, blobs, tmp_path):
    """What is saved and loaded has the same parameters and labels."""
    est = make(key).fit(blobs[0])
    ct.save_model(est, tmp_path / "m.coterie")
    loaded = ct.load_model(tmp_path / "m.coterie")
    assert type(loaded) is type(est) and loaded.get_params() == est.get_params()
    assert (loaded.labels_ == est.labels_).all()
