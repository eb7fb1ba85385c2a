"""The table of methods, by short name, for the program, the benchmarks and the documentation.

One entry adds a method. Its class is imported when an estimator is made.
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

#: Where the details of a method come from.
Established = Literal["ours", "paper", "author code", "ports", "textbook", "reconstruction"]


@dataclass(frozen=True)
class Method:
    """A method, or a variant of one.

    Attributes
    ----------
    key : str
        Its name in the program and in results: ``coterie consensus --method KEY``.
    title : str
        Its name in tables and on pages.
    class_name : str
        The public class.
    summary : str
        What it does, in one line.
    established : str
        Where its details come from: "ours"; "paper", the source paper; "author code"; "ports" by
        others; "textbook", the common description of the cited article; "reconstruction",
        ingredients from an abstract and our choices.
    cost : str
        Time, in n points, u tuples, V partitions, m base clusters, K clusters.
    settings : mapping
        Constructor arguments of this variant.
    paper_name : str or None
        Its name in the tables of the source paper.
    packages : tuple of str
        Modules of the extra ``partitioners`` that it uses if they are installed.
    """

    key: str
    title: str
    class_name: str
    summary: str
    established: Established
    cost: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    paper_name: str | None = None
    packages: tuple[str, ...] = ()

    def estimator_class(self) -> Any:
        """Import and return the class."""
        return getattr(import_module("coterie"), self.class_name)

    def make(self, n_clusters: int | None, random_state: Any = None, **settings: Any) -> Any:
        """Return an unfitted estimator.

        The number of clusters and the seed are set if the class has such parameters.
        """
        estimator = self.estimator_class()(**{**self.settings, **settings})
        wanted = {"n_clusters": n_clusters, "random_state": random_state}
        known = estimator.get_params()
        return estimator.set_params(**{k: v for k, v in wanted.items() if k in known})

    def missing_packages(self) -> list[str]:
        """Return the packages that are not installed."""
        return [name for name in self.packages if find_spec(name) is None]


FLAGSHIP = "robust"

_CONSENSUS = (
    Method(
        "robust",
        "RobustConsensus",
        "RobustConsensus",
        "votes of the largest camp; of four answers, the one whose clusters are best separated",
        "ours",
        "O(uV² + uVK); up to 500 tuples also O(u²K) a step",
    ),
    Method(
        "rcc",
        "RCC",
        "RobustConsensus",
        "the paper's robust relaxation alone: min ‖M − HDHᵀ‖₁ by ADMM, then rounding",
        "paper",
        "O(u²K) a step",
        {"relaxation": "admm", "refine": False, "partition_weights": None},
        "RCC",
    ),
    Method(
        "median",
        "Median partition",
        "RobustConsensus",
        "discrete search on the ℓ1 objective with equal weights",
        "textbook",
        "O(uVK) a sweep",
        {"relaxation": "l2", "refine": True, "partition_weights": None},
    ),
    Method(
        "l2",
        "L2CC",
        "L2Consensus",
        "least squares: leading eigenvectors of M, then k-means",
        "paper",
        "O(uV² + m³)",
        paper_name="L2CC",
    ),
    Method(
        "one-hot",
        "One-hot k-means",
        "OneHotKMeans",
        "k-means on the one-hot encoded labels",
        "textbook",
        "O(uVK) an iteration",
    ),
    Method(
        "kc",
        "KC",
        "KMeansConsensus",
        "k-means on the rows of M",
        "paper",
        "O(um·min(u, m)) once",
        paper_name="KC",
    ),
    Method(
        "cspa",
        "CSPA",
        "CSPA",
        "balanced minimum cut of the graph of shared memberships",
        "textbook",
        "O(n²)",
        paper_name="CSPA",
        packages=("pymetis",),
    ),
    Method(
        "hgpa",
        "HGPA",
        "HGPA",
        "balanced cut of the hypergraph whose hyperedges are the base clusters",
        "textbook",
        "O(nV)",
        paper_name="HPGA",
        packages=("mtkahypar",),
    ),
    Method(
        "mcla",
        "MCLA",
        "MCLA",
        "base clusters grouped into meta-clusters that the points choose among",
        "ports",
        "O(m² + uV)",
        packages=("pymetis",),
    ),
    Method(
        "hbgf",
        "HBGF",
        "HBGF",
        "cut of the bipartite graph of points and base clusters",
        "textbook",
        "O(nV)",
        packages=("pymetis",),
    ),
    Method(
        "nmf",
        "NMFC",
        "NMFConsensus",
        "M ≈ HDHᵀ with H ≥ 0 nearly orthogonal, by multiplicative updates",
        "ports",
        "O(uVK) a sweep",
        paper_name="NMFC",
    ),
    Method(
        "weighted",
        "WC",
        "WeightedConsensus",
        "M ≈ HDHᵀ with H ≥ 0, partition weights learned with the factor",
        "ports",
        "O(uVK) a sweep",
        paper_name="WC",
    ),
    Method(
        "kl",
        "ES-style",
        "KLConsensus",
        "low rank with least Kullback–Leibler divergence, a sparse error for each partition",
        "reconstruction",
        "O(u²K) a sweep",
        paper_name="ES",
    ),
    Method(
        "correlation",
        "CorC-style",
        "CorrelationConsensus",
        "sparse self-representations of bundles of partitions, drawn to a common direction",
        "reconstruction",
        "O(u²m) a step",
        paper_name="CorC",
    ),
    Method(
        "eac",
        "EAC",
        "EvidenceAccumulation",
        "average linkage on 1 − M",
        "textbook",
        "O(u²)",
    ),
    Method(
        "lwea",
        "LWEA",
        "LocallyWeightedConsensus",
        "average linkage, base clusters weighted by how much the ensemble agrees on them",
        "author code",
        "O(u² + m²)",
        {"strategy": "linkage"},
    ),
    Method(
        "lwgp",
        "LWGP",
        "LocallyWeightedConsensus",
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
        "MultiViewClusterer",
        "diverse runs on two kinds of features of every view, then their robust consensus",
        "ours",
        "O(n² Σ p_v) up to 5,000 points, then O(nK Σ p_v) a run",
        paper_name="RCC",
    ),
    Method(
        "fc",
        "FC",
        "ConcatenatedSpectral",
        "spectral clustering of the concatenated views",
        "textbook",
        "O(n²·Σp_v)",
        paper_name="FC",
    ),
    Method(
        "mvkmeans",
        "MVKmean",
        "MultiViewKMeans",
        "k-means in all views together, with unsquared distances and learned view weights",
        "ports",
        "O(nK·Σp_v) an iteration",
        paper_name="MVKmean",
    ),
    Method(
        "ap",
        "AP",
        "MultiViewAffinityPropagation",
        "affinity propagation on the summed distances, its preference tuned to K clusters",
        "textbook",
        "O(n²) a round",
        paper_name="AP",
    ),
    Method(
        "lcc",
        "LCC-style",
        "LowRankConsensus",
        "low-rank and sparse decomposition of the views' co-associations",
        "reconstruction",
        "O(n³) a step",
        paper_name="LCC",
    ),
)

#: Consensus functions (labels in), by key.
CONSENSUS_METHODS: Mapping[str, Method] = {method.key: method for method in _CONSENSUS}
#: Methods that need the features of several views, by key.
MULTIVIEW_METHODS: Mapping[str, Method] = {method.key: method for method in _MULTIVIEW}


def consensus_method(key: str) -> Method:
    """Return the consensus method of a key.

    >>> consensus_method("cspa").title
    'CSPA'
    """
    return _named(key, CONSENSUS_METHODS, "consensus method")


def multiview_method(key: str) -> Method:
    """Return the multi-view method of a key.

    >>> multiview_method("fc").class_name
    'ConcatenatedSpectral'
    """
    return _named(key, MULTIVIEW_METHODS, "multi-view method")


def make_consensus(key: str, n_clusters: int | None, random_state: Any = None) -> Any:
    """Return an unfitted consensus function by its key.

    >>> make_consensus("l2", 3, random_state=0)
    L2Consensus(n_clusters=3, random_state=0)
    """
    return consensus_method(key).make(n_clusters, random_state)


def make_multiview(key: str, n_clusters: int, random_state: Any = None) -> Any:
    """Return an unfitted multi-view clusterer by its key."""
    return multiview_method(key).make(n_clusters, random_state)


def _named(key: Any, methods: Mapping[str, Method], kind: str) -> Method:
    if isinstance(key, str) and key in methods:
        return methods[key]
    close = difflib.get_close_matches(str(key).lower(), methods, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    raise InvalidParameterError(f"{key!r} is not a {kind}: choose from {', '.join(methods)}{meant}")
