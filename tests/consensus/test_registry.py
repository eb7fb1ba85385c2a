"""The registry: every method has a key, a public class and a documented docstring."""

import re

import pytest
from sklearn.base import BaseEstimator

import coterie
from coterie.consensus import registry
from coterie.consensus.registry import CONSENSUS_METHODS, DEFAULT_METHOD, MULTIVIEW_METHODS
from coterie.errors import InvalidParameterError
from coterie.models import STORABLE_TYPES

METHODS = {**CONSENSUS_METHODS, **MULTIVIEW_METHODS}


@pytest.fixture(params=METHODS)
def method(request):
    """One entry."""
    return METHODS[request.param]


def test_keys_titles_and_variants_are_unique():
    """Keys are lower-case letters, digits and hyphens; no two methods share key, title or class."""
    assert len(METHODS) == len(registry._CONSENSUS) + len(registry._MULTIVIEW)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key) for key in METHODS)
    assert all(method.key == key for key, method in METHODS.items())
    assert next(iter(CONSENSUS_METHODS)) == DEFAULT_METHOD
    assert len({method.title for method in METHODS.values()}) == len(METHODS)
    variants = {(m.class_name, str(dict(m.settings))) for m in METHODS.values()}
    assert len(variants) == len(METHODS)


def test_the_class_is_public(method):
    """Every class is exported by the package and can be stored in a model file."""
    assert method.class_name in STORABLE_TYPES
    assert method.class_name in coterie.__all__
    assert getattr(coterie, method.class_name) is method.estimator_class()


def test_the_docstring_is_a_page(method):
    """The notes of every class have the three parts of its page."""
    docstring = method.estimator_class().__doc__
    notes = docstring.partition("Notes\n")[2]
    for part in ("**Established.**", "**Limits.**", "**When to use.**"):
        assert part in notes
    assert "Parameters\n" in docstring and "Examples\n" in docstring


def test_an_estimator_is_made_by_name(method):
    """make returns an unfitted estimator with K, the settings of the variant, and the seed."""
    estimator = method.make(5, random_state=3)
    assert isinstance(estimator, BaseEstimator) and not hasattr(estimator, "labels_")
    settings = estimator.get_params()
    assert settings["n_clusters"] == 5
    assert settings.get("random_state", 3) == 3
    assert {name: settings[name] for name in method.settings} == dict(method.settings)


def test_makers_by_name():
    """make_consensus and make_multiview make the entries; settings of the call come on top."""
    assert isinstance(registry.make_consensus("l2", 4, 1), coterie.L2Consensus)
    assert isinstance(registry.make_multiview("rcc-views", 4, 1), coterie.MultiViewClusterer)
    estimator = registry.consensus_method("rcc").make(3, max_iter=7, refine="search")
    assert (estimator.max_iter, estimator.refine, estimator.relaxation) == (7, "search", "admm")


@pytest.mark.parametrize("key", ["cpsa", "CSPA", 7, None, ""])
def test_an_unknown_name_is_refused(key):
    """The message lists the keys, and suggests the closest one."""
    with pytest.raises(InvalidParameterError, match="is not a consensus method") as refused:
        registry.make_consensus(key, 3)
    assert ", ".join(CONSENSUS_METHODS) in str(refused.value)
    near = isinstance(key, str) and key.lower() in {"cpsa", "cspa"}
    assert ("did you mean 'cspa'?" in str(refused.value)) == near
    with pytest.raises(InvalidParameterError, match="'cspa' is not a multi-view method"):
        registry.make_multiview("cspa", 3)
