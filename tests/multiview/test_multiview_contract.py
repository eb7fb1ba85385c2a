"""Contract of every multi-view method in the registry."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import coterie as ct
from all_partitions import same_partition
from coterie.consensus.registry import MULTIVIEW_METHODS, make_multiview
from coterie.errors import InvalidParameterError, TooManyPointsError

SIZES = (16, 12, 8)
#: Settings that each method refuses.
REFUSED = [
    *((key, {"n_clusters": 99}) for key in MULTIVIEW_METHODS),
    *(("mvkmeans", setting) for setting in ({"gamma": 1.0}, {"max_iter": 0}, {"tol": -1.0})),
    *(("lcc", setting) for setting in ({"error_weight": 0.0}, {"cut_weight": -1.0})),
    *(("lcc", setting) for setting in ({"tol": -1.0}, {"max_points": 0})),
    ("fc", {"n_neighbors": 0}),
]
#: Methods that can label new points.
PREDICTING = {"rcc-views", "mvkmeans"}


@pytest.fixture(params=MULTIVIEW_METHODS)
def key(request):
    """The short name of a method."""
    return request.param


@pytest.fixture(scope="module")
def blobs():
    """Three clear groups in three views of different scale and width, and the groups."""
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


@pytest.fixture(scope="module")
def fitted(blobs):
    """The methods by key, fitted once."""
    return {key: make(key).fit(blobs[0]) for key in MULTIVIEW_METHODS}


def test_clear_groups_are_found(key, blobs, fitted):
    """Groups that are clear in every view are found, and numbered by decreasing size."""
    views, y = blobs
    est = fitted[key]
    assert same_partition(y, est.labels_)
    assert np.bincount(est.labels_).tolist() == sorted(SIZES, reverse=True)
    assert est.n_clusters_ == 3 and est.labels_.dtype == np.int32
    assert est.view_names_ == ["plane", "tiny", "wide"]
    assert hasattr(est, "predict") == (key in PREDICTING)
    if key in PREDICTING:
        assert (est.predict(views) == est.labels_).all()


def test_order_of_points_and_views_changes_nothing(key, blobs, fitted):
    """A permutation of points and views permutes the labels; a clone has the same parameters."""
    views, _ = blobs
    rng = np.random.default_rng(1)
    points = rng.permutation(sum(SIZES))
    shuffled = {name: views[name][points] for name in ("wide", "plane", "tiny")}
    copy = clone(fitted[key])
    assert copy.get_params() == make(key).get_params() and not hasattr(copy, "labels_")
    assert (copy.fit_predict(shuffled) == fitted[key].labels_[points]).all()


def test_views_may_be_sparse(key, blobs):
    """A list of views, one of them sparse, gives the same groups."""
    views, y = blobs
    mixed = [views["plane"], views["tiny"], csr_array(np.maximum(views["wide"], 0))]
    est = make(key).fit(mixed)
    assert same_partition(y, est.labels_)
    assert est.view_names_ == ["view 0", "view 1", "view 2"]


@pytest.mark.filterwarnings("ignore::coterie.errors.DissentWarning")
def test_one_cluster_and_as_many_as_points(key, blobs):
    """K = 1 puts all points together, K = n separates all points."""
    assert not make(key, 1).fit(blobs[0]).labels_.any()
    X = np.arange(5.0)[:, None] ** 2
    settings = {"error_weight": 1.0} if key == "lcc" else {}
    assert len(set(make(key, 5, **settings).fit([X]).labels_)) == 5


# MultiViewClusterer warns that two views of noise disagree.
@pytest.mark.filterwarnings("ignore::coterie.errors.DissentWarning")
def test_the_seed_fixes_the_answer(key):
    """The same seed gives the same labels, even of noise."""
    rng = np.random.default_rng(3)
    noise = [rng.normal(size=(30, 3)), rng.normal(size=(30, 2))]
    a, b = (make(key, random_state=seed) for seed in (5, np.random.RandomState(5)))
    assert (a.fit(noise).labels_ == b.fit(noise).labels_).all()


@pytest.mark.parametrize(("name", "setting"), REFUSED, ids=str)
def test_bad_settings_are_refused(name, setting, blobs):
    ((parameter, value),) = setting.items()
    with pytest.raises(InvalidParameterError, match=f"{parameter}={value}"):
        make(name, **setting).fit(blobs[0])


@pytest.mark.parametrize(
    ("name", "setting"), [("rcc-views", {"consensus": "cpsa"}), ("mvkmeans", {"gamma": 0.5})]
)
def test_a_fit_that_fails_leaves_the_earlier_fit(name, setting, blobs):
    """predict gives the labels of the earlier fit, by its scalings and weights."""
    views, _ = blobs
    est = make(name, standardize=True).fit(views)
    before = est.predict(views)
    with pytest.raises(InvalidParameterError):
        est.set_params(**setting).fit({view: 5 + 9 * X for view, X in views.items()})
    np.testing.assert_array_equal(est.predict(views), before)


def test_bad_input_is_refused(key, blobs, fitted):
    """Every method checks its views, their number of points, and at prediction who they are."""
    with pytest.raises(InvalidParameterError, match="the same number of rows"):
        make(key, 2).fit([np.ones((4, 2)), np.ones((5, 2))])
    if key in PREDICTING:
        with pytest.raises(NotFittedError):
            make(key).predict(blobs[0])
        with pytest.raises(InvalidParameterError, match="those of the fit were"):
            fitted[key].predict({"plane": blobs[0]["plane"]})
    else:  # the others have a limit of points
        with pytest.raises(TooManyPointsError, match="max_points=4"):
            make(key, max_points=4).fit(blobs[0])


def test_a_fitted_method_can_be_saved(key, blobs, fitted, tmp_path):
    """A saved and loaded method has the same parameters, labels and predictions."""
    est = fitted[key]
    ct.save_model(est, tmp_path / "m.coterie")
    loaded = ct.load_model(tmp_path / "m.coterie")
    assert type(loaded) is type(est) and loaded.get_params() == est.get_params()
    assert (loaded.labels_ == est.labels_).all()
    if key in PREDICTING:
        new = {name: X * 1.01 for name, X in blobs[0].items()}
        assert (loaded.predict(new) == est.predict(new)).all()


def test_verbose_shows_progress(key, blobs, fitted, capsys):
    """With verbose something is written to the standard error stream; the labels are the same."""
    assert capsys.readouterr() == ("", "")
    shown = make(key, verbose=True).fit(blobs[0])
    printed = capsys.readouterr()
    assert printed.err and printed.out == ""
    np.testing.assert_array_equal(shown.labels_, fitted[key].labels_)
