"""Every method by its short name: what the program offers, benchmarks compare, pages describe.

A method is added by one entry here. Its class is imported when it is first made, so that looking
at the list costs nothing.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from coterie.errors import InvalidParameterError

__all__ = [
    "CONSENSUS_METHODS",
    "FLAGSHIP",
    "MULTIVIEW_METHODS",
    "Method",
    "consensus_method",
    "make_consensus",
    "make_multiview",
    "multiview_method",
]

#: How well a method's details are known; see ``docs/method`` for what stands behind each word.
Established = Literal["ours", "paper", "author code", "ports", "textbook", "reconstruction"]


@dataclass(frozen=True)
class Method:
    """One method, or one variant of a class.

    Attributes
    ----------
    key : str
        Its name in the program and in results: ``coterie consensus --method KEY``.
    title : str
        Its name in tables and on pages.
    class_path : str
        ``module:class``.
    summary : str
        What it does, in one line.
    established : str
        Where its details come from: "ours"; "paper", the source paper; "author code"; "ports",
        somebody else's; "textbook", common knowledge of the cited article; "reconstruction",
        ingredients from an abstract, the rest our choice.
    cost : str
        Time, in n points, u tuples, V partitions, m base clusters, K clusters.
    settings : mapping
        Constructor arguments that make this variant.
    paper_name : str or None
        What the source paper calls it in its tables.
    packages : tuple of str
        Modules of the extra ``partitioners`` it prefers; without them it falls back.
    """

    key: str
    title: str
    class_path: str
    summary: str
    established: Established
    cost: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    paper_name: str | None = None
    packages: tuple[str, ...] = ()

    @property
    def class_name(self) -> str:
        """The public class."""
        return self.class_path.partition(":")[2]

    def estimator_class(self) -> Any:
        """The class, imported now."""
        module, _, name = self.class_path.partition(":")
        return getattr(import_module(module), name)

    def make(self, n_clusters: int | None, random_state: Any = None, **settings: Any) -> Any:
        """An estimator that is not fitted yet.

        The number of clusters and the seed are set where the class has such parameters.
        """
        estimator = self.estimator_class()(**{**self.settings, **settings})
        wanted = {"n_clusters": n_clusters, "random_state": random_state}
        known = estimator.get_params()
        return estimator.set_params(**{k: v for k, v in wanted.items() if k in known})

    def missing_packages(self) -> list[str]:
        """Preferred packages that are not installed."""
        return [name for name in self.packages if find_spec(name) is None]


FLAGSHIP = "robust"

_CONSENSUS = (
    Method(
        "robust",
        "RobustConsensus",
        "coterie.consensus.robust.estimator:RobustConsensus",
        "dissenters set aside; of four answers the one best separated in the remaining votes",
        "ours",
        "O(uV² + uVK); up to 500 tuples also O(u²K) a step",
    ),
    Method(
        "rcc",
        "RCC",
        "coterie.consensus.robust.estimator:RobustConsensus",
        "the paper's robust relaxation alone: min ‖M − HDHᵀ‖₁ by ADMM, then rounding",
        "paper",
        "O(u²K) a step",
        {"relaxation": "admm", "refine": False, "partition_weights": None},
        "RCC",
    ),
    Method(
        "median",
        "Median partition",
        "coterie.consensus.robust.estimator:RobustConsensus",
        "discrete search on the ℓ1 objective, all partitions heard alike",
        "textbook",
        "O(uVK) a sweep",
        {"relaxation": "l2", "refine": True, "partition_weights": None},
    ),
    Method(
        "l2",
        "L2CC",
        "coterie.consensus:L2Consensus",
        "least squares: leading eigenvectors of M, then k-means",
        "paper",
        "O(uV² + m³)",
        {},
        "L2CC",
    ),
    Method(
        "one-hot",
        "One-hot k-means",
        "coterie.consensus:OneHotKMeans",
        "k-means on the one-hot encoded labels",
        "textbook",
        "O(uVK) an iteration",
    ),
    Method(
        "kc",
        "KC",
        "coterie.consensus:KMeansConsensus",
        "k-means on the rows of M",
        "paper",
        "O(um·min(u, m)) once",
        {},
        "KC",
    ),
    Method(
        "cspa",
        "CSPA",
        "coterie.consensus:CSPA",
        "balanced minimum cut of the graph of shared memberships",
        "textbook",
        "O(n²)",
        {},
        "CSPA",
        ("pymetis",),
    ),
    Method(
        "hgpa",
        "HGPA",
        "coterie.consensus:HGPA",
        "balanced cut of the hypergraph whose hyperedges are the base clusters",
        "textbook",
        "O(nV)",
        {},
        "HPGA",
        ("mtkahypar",),
    ),
    Method(
        "mcla",
        "MCLA",
        "coterie.consensus:MCLA",
        "base clusters grouped into meta-clusters that points vote for",
        "ports",
        "O(m² + uV)",
        {},
        None,
        ("pymetis",),
    ),
    Method(
        "hbgf",
        "HBGF",
        "coterie.consensus:HBGF",
        "cut of the bipartite graph of points and base clusters",
        "textbook",
        "O(nV)",
        {},
        None,
        ("pymetis",),
    ),
    Method(
        "nmf",
        "NMFC",
        "coterie.consensus:NMFConsensus",
        "M ≈ HDHᵀ with H ≥ 0 nearly orthogonal, by multiplicative updates",
        "ports",
        "O(uVK) a sweep",
        {},
        "NMFC",
    ),
    Method(
        "weighted",
        "WC",
        "coterie.consensus:WeightedConsensus",
        "M ≈ HDHᵀ with H ≥ 0, the partitions' weights learned beside the factor",
        "ports",
        "O(uVK) a sweep",
        {},
        "WC",
    ),
    Method(
        "kl",
        "ES-style",
        "coterie.consensus:KLConsensus",
        "low rank at least Kullback–Leibler divergence, a sparse error for each partition",
        "reconstruction",
        "O(u²K) a sweep",
        {},
        "ES",
    ),
    Method(
        "correlation",
        "CorC-style",
        "coterie.consensus:CorrelationConsensus",
        "sparse self-representations of bundles of partitions, drawn to one direction",
        "reconstruction",
        "O(u²m) a step",
        {},
        "CorC",
    ),
    Method(
        "eac",
        "EAC",
        "coterie.consensus:EvidenceAccumulation",
        "average linkage on 1 − M",
        "textbook",
        "O(u²)",
    ),
    Method(
        "lwea",
        "LWEA",
        "coterie.consensus:LocallyWeightedConsensus",
        "average linkage, base clusters weighted by how much the ensemble agrees on them",
        "author code",
        "O(u² + m²)",
        {"strategy": "linkage"},
    ),
    Method(
        "lwgp",
        "LWGP",
        "coterie.consensus:LocallyWeightedConsensus",
        "bipartite cut, base clusters weighted by how much the ensemble agrees on them",
        "author code",
        "O(uV + m³)",
        {"strategy": "graph"},
    ),
)

_MULTIVIEW = (
    Method(
        "rcc-views",
        "RCC of views",
        "coterie.estimators.clusterer:MultiViewClusterer",
        "diverse runs in two looks at every view, then the robust consensus of all",
        "ours",
        "O(n² Σ p_v) up to 5,000 points, then O(nK Σ p_v) a run",
        {},
        "RCC",
    ),
    Method(
        "fc",
        "FC",
        "coterie.multiview:ConcatenatedSpectral",
        "spectral clustering of the concatenated views",
        "textbook",
        "O(n²·Σp_v)",
        {},
        "FC",
    ),
    Method(
        "mvkmeans",
        "MVKmean",
        "coterie.multiview:MultiViewKMeans",
        "k-means in all views at once with unsquared distances and learned view weights",
        "ports",
        "O(nK·Σp_v) an iteration",
        {},
        "MVKmean",
    ),
    Method(
        "ap",
        "AP",
        "coterie.multiview:MultiViewAffinityPropagation",
        "affinity propagation on the summed distances, its preference tuned to K clusters",
        "textbook",
        "O(n²) a round",
        {},
        "AP",
    ),
    Method(
        "lcc",
        "LCC-style",
        "coterie.multiview:LowRankConsensus",
        "low-rank and sparse decomposition of the views' co-associations",
        "reconstruction",
        "O(n³) a step",
        {},
        "LCC",
    ),
)

#: Consensus functions (labels in), by key.
CONSENSUS_METHODS: Mapping[str, Method] = {method.key: method for method in _CONSENSUS}
#: Methods that need the features of several views, by key.
MULTIVIEW_METHODS: Mapping[str, Method] = {method.key: method for method in _MULTIVIEW}


def consensus_method(key: str) -> Method:
    """The consensus method of that name.

    >>> consensus_method("cspa").title
    'CSPA'
    """
    return _named(key, CONSENSUS_METHODS, "consensus method")


def multiview_method(key: str) -> Method:
    """The multi-view method of that name.

    >>> multiview_method("fc").class_name
    'ConcatenatedSpectral'
    """
    return _named(key, MULTIVIEW_METHODS, "multi-view method")


def make_consensus(key: str, n_clusters: int | None, random_state: Any = None) -> Any:
    """A consensus function by its name, not fitted yet.

    >>> make_consensus("l2", 3, random_state=0)
    L2Consensus(n_clusters=3, random_state=0)
    """
    return consensus_method(key).make(n_clusters, random_state)


def make_multiview(key: str, n_clusters: int, random_state: Any = None) -> Any:
    """A multi-view clusterer by its name, not fitted yet."""
    return multiview_method(key).make(n_clusters, random_state)


def _named(key: Any, methods: Mapping[str, Method], kind: str) -> Method:
    if isinstance(key, str) and key in methods:
        return methods[key]
    near = difflib.get_close_matches(str(key).lower(), methods, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    raise InvalidParameterError(f"{key!r} is no {kind}: choose among {', '.join(methods)}{meant}")
