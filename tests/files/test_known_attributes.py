"""Known attributes follow from the class: what fitting sets is kept, the rest is not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from coterie import planted_partitions
from coterie.files.known_attributes import known_attributes
from coterie.files.storable_types import STORABLE_TYPES, class_of
from fitted_models import small_model

ESTIMATORS = [name for name in STORABLE_TYPES if hasattr(class_of(name), "get_params")]
X = np.random.default_rng(0).random((60, 4))
P = planted_partitions([30, 20, 10], n_partitions=8, n_bad=2, noise=0.1, random_state=0)[0]


def fitted(name: str):
    """Return a fitted estimator of a storable type."""
    kind, home = class_of(name), STORABLE_TYPES[name]
    if name == "AdForecaster":
        return small_model()
    if name == "TextView":
        return kind().fit(["beach hotel", "used cars"])
    if home.startswith("sklearn."):
        return kind().fit(X)
    if name == "ConsensusClusterer":
        return kind(3, n_partitions=5, random_state=0).fit(X)
    if name == "MultiViewAffinityPropagation":
        return kind(random_state=0).fit([X, X[:, :2]])
    views = ".multiview" in home or name == "MultiViewClusterer"
    return kind(3).fit([X, X[:, :2]] if views else P)


@pytest.mark.filterwarnings("ignore")  # some do not converge on noise
@pytest.mark.parametrize("name", ESTIMATORS)
def test_everything_that_fitting_sets_is_known(name):
    """A fitted estimator has no attribute that loading would drop."""
    estimator = fitted(name)
    assert vars(estimator).keys() <= known_attributes(type(estimator))
    assert estimator.get_params(deep=False).keys() <= known_attributes(type(estimator))


@pytest.mark.parametrize("name", STORABLE_TYPES)
def test_methods_and_properties_are_never_attributes(name):
    """No known attribute of a storable type hides a method, a property or a special name."""
    kind = class_of(name)
    for attribute in known_attributes(kind):
        default = getattr(kind, attribute, None)
        assert not callable(default) and not isinstance(default, property), attribute
        assert not attribute.startswith("__")


def test_a_record_knows_its_fields_alone():
    """Methods of a dataclass that is no estimator may assign what they like."""

    @dataclasses.dataclass
    class Record:
        width: int

        def widen(self):
            self.wide = True

    assert known_attributes(Record) == {"width"}
