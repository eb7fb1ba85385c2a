"""The table of methods, which the program, the benchmarks and the documentation use.

To add a method, add an entry. Its class is imported when an estimator is made.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal

from coterie.errors import InvalidParameterError
from coterie.runtime.imports import missing_packages

Established = Literal["ours", "paper", "author code", "ports", "textbook", "reconstruction"]


@dataclass(frozen=True)
class Method:
    """A method, or a variant of one.

    ``established`` is the source of its details. "ours": this package; "paper": the source paper;
    "author code": published by the authors; "ports": published by others; "textbook": the common
    description of the cited article; "reconstruction": an abstract, completed by our choices.
    """

    key: str  # its name in the program and in results: ``coterie consensus --method KEY``
    title: str  # its name in tables and on pages
    class_name: str  # the public class
    summary: str  # what it does, in one line
    established: Established
    cost: str  # time for n points, u tuples, V partitions, m base clusters and K clusters
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the constructor
    paper_name: str | None = None  # in the tables of the source paper
    packages: tuple[str, ...] = ()  # of the extra ``partitioners`` that it uses if installed

    def estimator_class(self) -> Any:
        """Import and return the class."""
        return getattr(import_module("coterie"), self.class_name)

    def make(self, n_clusters: int | str | None, random_state: Any = None, **settings: Any) -> Any:
        """Return an unfitted estimator; parameters that the class does not have are not set."""
        estimator = self.estimator_class()(**{**self.settings, **settings})
        wanted = {"n_clusters": n_clusters, "random_state": random_state}
        known = estimator.get_params()
        return estimator.set_params(**{k: v for k, v in wanted.items() if k in known})

    def missing_packages(self) -> list[str]:
        """Return those of ``packages`` that are not installed."""
        return missing_packages(self.packages)


#: The method that estimators and the program use unless another one is given.
DEFAULT_METHOD = "robust"

# one row for each method: key, title, class; summary; source, cost, settings
# fmt: off
_CONSENSUS = (
    Method("robust", "RobustConsensus", "RobustConsensus",
        "votes of the largest camp of partitions; the answer on which most methods agree",
        "ours", "O(uV² + uVK) and a sample of 3,000 tuples"),
    Method("rcc", "RCC", "RobustConsensus",
        "the paper's robust relaxation alone: min ‖M − HDHᵀ‖₁ by ADMM, then rounding",
        "paper", "O(u²K) per step",
        {"relaxation": "admm", "refine": "relaxation", "partition_weights": None},
        paper_name="RCC"),
    Method("median", "Median partition", "RobustConsensus",
        "discrete search on the ℓ1 objective with equal weights",
        "textbook", "O(uVK) per sweep",
        {"relaxation": "l2", "refine": "search", "partition_weights": None}),
    Method("l2", "L2CC", "L2Consensus",
        "least squares: leading eigenvectors of M, then k-means",
        "paper", "O(uV² + m³)", paper_name="L2CC"),
    Method("one-hot", "One-hot k-means", "OneHotKMeans",
        "k-means on the one-hot encoded labels",
        "textbook", "O(uVK) per iteration"),
    Method("kc", "KC", "KMeansConsensus",
        "k-means on the rows of M",
        "paper", "O(um·min(u, m)) once", paper_name="KC"),
    Method("cspa", "CSPA", "CSPA",
        "balanced minimum cut of the graph of shared memberships",
        "textbook", "O(n²)", paper_name="CSPA", packages=("pymetis",)),
    Method("hgpa", "HGPA", "HGPA",
        "balanced cut of the hypergraph whose hyperedges are the base clusters",
        "textbook", "O(nV)", paper_name="HPGA", packages=("mtkahypar",)),
    Method("mcla", "MCLA", "MCLA",
        "base clusters are grouped; a point joins the group with the largest share containing it",
        "ports", "O(m² + uV)", packages=("pymetis",)),
    Method("hbgf", "HBGF", "HBGF",
        "cut of the bipartite graph of points and base clusters",
        "textbook", "O(nV)", packages=("pymetis",)),
    Method("nmf", "NMFC", "NMFConsensus",
        "M ≈ HDHᵀ with H ≥ 0 nearly orthogonal, by multiplicative updates",
        "ports", "O(uVK) per sweep", paper_name="NMFC"),
    Method("weighted", "WC", "WeightedConsensus",
        "M ≈ HDHᵀ with H ≥ 0, partition weights learned with the factor",
        "ports", "O(uVK) per sweep", paper_name="WC"),
    Method("kl", "ES-style", "KLConsensus",
        "low rank with least Kullback–Leibler divergence, a sparse error for each partition",
        "reconstruction", "O(u²K) per sweep", paper_name="ES"),
    Method("correlation", "CorC-style", "CorrelationConsensus",
        "sparse codes of each point by the others, similar in all bundles of partitions",
        "reconstruction", "O(u²m) per step", paper_name="CorC"),
    Method("eac", "EAC", "EvidenceAccumulation",
        "average linkage on 1 − M",
        "textbook", "O(u²)"),
    Method("lwea", "LWEA", "LocallyWeightedConsensus",
        "average linkage, base clusters weighted by how much the ensemble agrees on them",
        "author code", "O(u² + m²)", {"strategy": "linkage"}),
    Method("lwgp", "LWGP", "LocallyWeightedConsensus",
        "bipartite cut, base clusters weighted by how much the ensemble agrees on them",
        "author code", "O(uV + m³)", {"strategy": "graph"}),
    Method("ecpcs", "ECPCS", "PropagatedConsensus",
        "average linkage, similar base clusters count as partly the same",
        "textbook", "O(u² + m³)"),
)

_MULTIVIEW = (
    Method("rcc-views", "RCC of views", "MultiViewClusterer",
        "spectral runs and Gaussian mixtures of every view, then their consensus",
        "ours", "O(n Σ p_v) per run", paper_name="RCC"),
    Method("fc", "FC", "ConcatenatedSpectral",
        "spectral clustering of the concatenated views",
        "textbook", "O(n²·Σp_v)", paper_name="FC"),
    Method("mvkmeans", "MVKmean", "MultiViewKMeans",
        "k-means in all views together, with unsquared distances and learned view weights",
        "ports", "O(nK·Σp_v) per iteration", paper_name="MVKmean"),
    Method("ap", "AP", "MultiViewAffinityPropagation",
        "affinity propagation on the summed distances, its preference tuned to K clusters",
        "textbook", "O(n²) per round", paper_name="AP"),
    Method("lcc", "LCC-style", "LowRankConsensus",
        "low-rank and sparse decomposition of the views' co-associations",
        "reconstruction", "O(n³) per step", paper_name="LCC"),
)
# fmt: on

#: Methods whose input is labels, by key.
CONSENSUS_METHODS: Mapping[str, Method] = {method.key: method for method in _CONSENSUS}
#: Methods whose input is the features of several views, by key.
MULTIVIEW_METHODS: Mapping[str, Method] = {method.key: method for method in _MULTIVIEW}


def consensus_method(key: str) -> Method:
    """Return the consensus method with this key.

    >>> consensus_method("cspa").title
    'CSPA'
    """
    return _find(key, CONSENSUS_METHODS, "consensus method")


def multiview_method(key: str) -> Method:
    """Return the multi-view method with this key.

    >>> multiview_method("fc").class_name
    'ConcatenatedSpectral'
    """
    return _find(key, MULTIVIEW_METHODS, "multi-view method")


def make_consensus(key: str, n_clusters: int | None, random_state: Any = None) -> Any:
    """Return the unfitted consensus function with this key.

    >>> make_consensus("l2", 3, random_state=0)
    L2Consensus(n_clusters=3, random_state=0)
    """
    return consensus_method(key).make(n_clusters, random_state)


def make_multiview(key: str, n_clusters: int, random_state: Any = None) -> Any:
    """Return the unfitted multi-view clusterer with this key."""
    return multiview_method(key).make(n_clusters, random_state)


def _find(key: Any, methods: Mapping[str, Method], kind: str) -> Method:
    if isinstance(key, str) and key in methods:
        return methods[key]
    close = difflib.get_close_matches(str(key).lower(), methods, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    raise InvalidParameterError(f"{key!r} is not a {kind}: choose from {', '.join(methods)}{meant}")
