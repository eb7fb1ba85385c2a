"""Consensus functions beside the flagship, all with the contract of ``consensus_contract``.

Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.runtime.lazy_names import import_name

_HOME = {
    "L2Consensus": "spectral.l2",
    "OneHotKMeans": "spectral.one_hot",
    "KMeansConsensus": "spectral.coassociation_profiles",
    "CSPA": "cuts.graph_cuts",
    "HGPA": "cuts.hypergraph_cut",
    "MCLA": "cuts.meta_clusters",
    "HBGF": "cuts.graph_cuts",
    "NMFConsensus": "factors.nonnegative_factor",
    "WeightedConsensus": "factors.weighted_factor",
    "KLConsensus": "factors.divergence_fit",
    "CorrelationConsensus": "spectral.self_representation",
    "EvidenceAccumulation": "linkage.evidence_accumulation",
    "LocallyWeightedConsensus": "linkage.locally_weighted",
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
    from coterie.consensus.cuts.graph_cuts import CSPA, HBGF
    from coterie.consensus.cuts.hypergraph_cut import HGPA
    from coterie.consensus.cuts.meta_clusters import MCLA
    from coterie.consensus.factors.divergence_fit import KLConsensus
    from coterie.consensus.factors.nonnegative_factor import NMFConsensus
    from coterie.consensus.factors.weighted_factor import WeightedConsensus
    from coterie.consensus.linkage.evidence_accumulation import EvidenceAccumulation
    from coterie.consensus.linkage.locally_weighted import LocallyWeightedConsensus
    from coterie.consensus.spectral.coassociation_profiles import KMeansConsensus
    from coterie.consensus.spectral.l2 import L2Consensus
    from coterie.consensus.spectral.one_hot import OneHotKMeans
    from coterie.consensus.spectral.self_representation import CorrelationConsensus


def __getattr__(name: str) -> object:
    return import_name(name, __name__, _HOME, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
