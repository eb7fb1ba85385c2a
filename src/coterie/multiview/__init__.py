"""Clusterers of points described by several views, each with ``fit(views)``.

=============  ===================================================================================
one view       :class:`SpectralView`
all views      :class:`ConcatenatedSpectral`, :class:`MultiViewKMeans`,
               :class:`MultiViewAffinityPropagation`, :class:`LowRankConsensus`
=============  ===================================================================================

:class:`~coterie.MultiViewClusterer` computes the consensus of runs in all views.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.runtime.imports import lazy_names

# Each public name is listed once, here; lazy_names reads the list.
if TYPE_CHECKING:
    from coterie.multiview.affinity_propagation import (
        MultiViewAffinityPropagation as MultiViewAffinityPropagation,
    )
    from coterie.multiview.kmeans_views import MultiViewKMeans as MultiViewKMeans
    from coterie.multiview.low_rank import LowRankConsensus as LowRankConsensus
    from coterie.multiview.low_rank import low_rank_consensus as low_rank_consensus
    from coterie.multiview.spectral_views import ConcatenatedSpectral as ConcatenatedSpectral
    from coterie.multiview.spectral_views import SpectralView as SpectralView
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
