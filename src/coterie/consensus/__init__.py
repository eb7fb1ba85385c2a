"""Consensus functions, imported when first used.

``base`` has the base class, ``registry`` the table of all methods, ``robust`` the default method.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.runtime.imports import lazy_names

# lazy_names reads this list, so each public name is written once
if TYPE_CHECKING:
    from coterie.consensus.cuts import CSPA as CSPA
    from coterie.consensus.cuts import HBGF as HBGF
    from coterie.consensus.cuts import HGPA as HGPA
    from coterie.consensus.cuts import MCLA as MCLA
    from coterie.consensus.factors import KLConsensus as KLConsensus
    from coterie.consensus.factors import NMFConsensus as NMFConsensus
    from coterie.consensus.factors import WeightedConsensus as WeightedConsensus
    from coterie.consensus.linkage import EvidenceAccumulation as EvidenceAccumulation
    from coterie.consensus.linkage import LocallyWeightedConsensus as LocallyWeightedConsensus
    from coterie.consensus.linkage import PropagatedConsensus as PropagatedConsensus
    from coterie.consensus.spectral import CorrelationConsensus as CorrelationConsensus
    from coterie.consensus.spectral import KMeansConsensus as KMeansConsensus
    from coterie.consensus.spectral import L2Consensus as L2Consensus
    from coterie.consensus.spectral import OneHotKMeans as OneHotKMeans
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
