"""Consensus functions beside the flagship, all with the contract of ``consensus_contract``.

Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.lazy_names import imported_name

_HOME = {
    "L2Consensus": "least_squares",
    "OneHotKMeans": "one_hot",
    "KMeansConsensus": "coassociation_profiles",
    "CSPA": "graph_cuts",
    "HGPA": "hypergraph_cut",
    "MCLA": "meta_clusters",
    "HBGF": "graph_cuts",
    "NMFConsensus": "nonnegative_factor",
    "WeightedConsensus": "weighted_factor",
    "KLConsensus": "divergence_fit",
    "CorrelationConsensus": "self_representation",
    "EvidenceAccumulation": "evidence_accumulation",
    "LocallyWeightedConsensus": "locally_weighted",
}

__all__ = [  # noqa: RUF022 (in the order of the registry of methods)
    "L2Consensus",
    "OneHotKMeans",
    "KMeansConsensus",
    "CSPA",
    "HGPA",
    "MCLA",
    "HBGF",
    "NMFConsensus",
    "WeightedConsensus",
    "KLConsensus",
    "CorrelationConsensus",
    "EvidenceAccumulation",
    "LocallyWeightedConsensus",
]

if TYPE_CHECKING:
    from coterie.consensus.coassociation_profiles import KMeansConsensus
    from coterie.consensus.divergence_fit import KLConsensus
    from coterie.consensus.evidence_accumulation import EvidenceAccumulation
    from coterie.consensus.graph_cuts import CSPA, HBGF
    from coterie.consensus.hypergraph_cut import HGPA
    from coterie.consensus.least_squares import L2Consensus
    from coterie.consensus.locally_weighted import LocallyWeightedConsensus
    from coterie.consensus.meta_clusters import MCLA
    from coterie.consensus.nonnegative_factor import NMFConsensus
    from coterie.consensus.one_hot import OneHotKMeans
    from coterie.consensus.self_representation import CorrelationConsensus
    from coterie.consensus.weighted_factor import WeightedConsensus


def __getattr__(name: str) -> object:
    return imported_name(name, __name__, _HOME, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
