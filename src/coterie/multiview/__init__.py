"""Clusterers of things seen in several views, each with ``fit(views)``.

=============  ===================================================================================
one view       :class:`SpectralView`
all views      :class:`ConcatenatedSpectral`, :class:`MultiViewKMeans`,
               :class:`MultiViewAffinityPropagation`, :class:`LowRankConsensus`
=============  ===================================================================================

The consensus of runs in every view is :class:`~coterie.MultiViewClusterer`. Names are imported
when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.runtime.lazy_names import import_name

_HOME = {
    "SpectralView": "spectral_views",
    "ConcatenatedSpectral": "spectral_views",
    "MultiViewKMeans": "kmeans_views",
    "MultiViewAffinityPropagation": "affinity_propagation",
    "LowRankConsensus": "low_rank",
    "low_rank_consensus": "low_rank",
}

__all__ = [  # noqa: RUF022 (in the order of the table)
    "SpectralView",
    "ConcatenatedSpectral",
    "MultiViewKMeans",
    "MultiViewAffinityPropagation",
    "LowRankConsensus",
    "low_rank_consensus",
]

if TYPE_CHECKING:
    from coterie.multiview.affinity_propagation import MultiViewAffinityPropagation
    from coterie.multiview.kmeans_views import MultiViewKMeans
    from coterie.multiview.low_rank import LowRankConsensus, low_rank_consensus
    from coterie.multiview.spectral_views import ConcatenatedSpectral, SpectralView


def __getattr__(name: str) -> object:
    return import_name(name, __name__, _HOME, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
