"""coterie: robust consensus clustering.

Many partitions of the same things, some of them noisy or plain wrong, in; the one
partition they agree on out. The map, in the order in which data flows:

=============  =============================================================================
data           :func:`load_dataset`, :func:`load_views`, :func:`planted_partitions`
partitions     :func:`make_partitions`; of soft ones :func:`hard_labels`
consensus      :class:`RobustConsensus`; of a similarity :class:`RobustSpectral`
… by spectra   :class:`L2Consensus`, :class:`KMeansConsensus`, :class:`OneHotKMeans`,
               :class:`CorrelationConsensus`
… by cuts      :class:`CSPA`, :class:`HGPA`, :class:`MCLA`, :class:`HBGF`
… by factors   :class:`NMFConsensus`, :class:`WeightedConsensus`, :class:`KLConsensus`
… by linkage   :class:`EvidenceAccumulation`, :class:`LocallyWeightedConsensus`
features in    :class:`ConsensusClusterer`
several views  :class:`MultiViewClusterer`, :class:`SpectralView`, :class:`ConcatenatedSpectral`,
               :class:`MultiViewKMeans`, :class:`MultiViewAffinityPropagation`,
               :class:`LowRankConsensus`
tables         :func:`consensus_table`, :class:`TableConsensus`: labels that stay in an engine
choosing K     :func:`choose_k`
looking        :func:`coassociation`, :class:`CoassociationDisplay`,
               :class:`PartitionAgreementDisplay`, :class:`ConvergenceDisplay`,
               :class:`ChooseKDisplay`
scores         :func:`clustering_accuracy`, :func:`mirkin_objective`,
               :mod:`coterie.inspection.scores`
keeping        :func:`save_model`, :func:`load_model`
=============  =============================================================================

Every method has a short name too: :mod:`coterie.consensus.registry`. Names are imported when first
used, so ``import coterie`` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.runtime.lazy_names import import_name

__version__ = "0.1.0"

_HOME = {
    "load_dataset": "datasets.loading",
    "load_views": "datasets.loading",
    "planted_partitions": "ensembles.planted",
    "make_partitions": "ensembles.making",
    "hard_labels": "labels.soft_memberships",
    "RobustConsensus": "consensus.robust.estimator",
    "L2Consensus": "consensus",
    "OneHotKMeans": "consensus",
    "KMeansConsensus": "consensus",
    "CSPA": "consensus",
    "HGPA": "consensus",
    "MCLA": "consensus",
    "HBGF": "consensus",
    "NMFConsensus": "consensus",
    "WeightedConsensus": "consensus",
    "KLConsensus": "consensus",
    "CorrelationConsensus": "consensus",
    "EvidenceAccumulation": "consensus",
    "LocallyWeightedConsensus": "consensus",
    "RobustSpectral": "estimators.robust_spectral",
    "ConsensusClusterer": "estimators.clusterer",
    "MultiViewClusterer": "estimators.clusterer",
    "SpectralView": "multiview",
    "ConcatenatedSpectral": "multiview",
    "MultiViewKMeans": "multiview",
    "MultiViewAffinityPropagation": "multiview",
    "LowRankConsensus": "multiview",
    "consensus_table": "engines.label_tables",
    "TableConsensus": "engines.label_tables",
    "choose_k": "inspection.choosing_k",
    "coassociation": "counts.coassociation",
    "mirkin_objective": "inspection.scores",
    "clustering_accuracy": "inspection.scores",
    "CoassociationDisplay": "inspection.displays",
    "PartitionAgreementDisplay": "inspection.displays",
    "ConvergenceDisplay": "inspection.displays",
    "ChooseKDisplay": "inspection.displays",
    "save_model": "files.model_files",
    "load_model": "files.model_files",
}

__all__ = [  # noqa: RUF022 (in the order in which data flows)
    "load_dataset",
    "load_views",
    "planted_partitions",
    "make_partitions",
    "hard_labels",
    "RobustConsensus",
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
    "RobustSpectral",
    "ConsensusClusterer",
    "MultiViewClusterer",
    "SpectralView",
    "ConcatenatedSpectral",
    "MultiViewKMeans",
    "MultiViewAffinityPropagation",
    "LowRankConsensus",
    "consensus_table",
    "TableConsensus",
    "choose_k",
    "coassociation",
    "mirkin_objective",
    "clustering_accuracy",
    "CoassociationDisplay",
    "PartitionAgreementDisplay",
    "ConvergenceDisplay",
    "ChooseKDisplay",
    "save_model",
    "load_model",
]

if TYPE_CHECKING:
    from coterie.consensus import (
        CSPA,
        HBGF,
        HGPA,
        MCLA,
        CorrelationConsensus,
        EvidenceAccumulation,
        KLConsensus,
        KMeansConsensus,
        L2Consensus,
        LocallyWeightedConsensus,
        NMFConsensus,
        OneHotKMeans,
        WeightedConsensus,
    )
    from coterie.consensus.robust.estimator import RobustConsensus
    from coterie.counts.coassociation import coassociation
    from coterie.datasets.loading import load_dataset, load_views
    from coterie.engines.label_tables import TableConsensus, consensus_table
    from coterie.ensembles.making import make_partitions
    from coterie.ensembles.planted import planted_partitions
    from coterie.estimators.clusterer import ConsensusClusterer, MultiViewClusterer
    from coterie.estimators.robust_spectral import RobustSpectral
    from coterie.files.model_files import load_model, save_model
    from coterie.inspection.choosing_k import choose_k
    from coterie.inspection.displays import (
        ChooseKDisplay,
        CoassociationDisplay,
        ConvergenceDisplay,
        PartitionAgreementDisplay,
    )
    from coterie.inspection.scores import clustering_accuracy, mirkin_objective
    from coterie.labels.soft_memberships import hard_labels
    from coterie.multiview import (
        ConcatenatedSpectral,
        LowRankConsensus,
        MultiViewAffinityPropagation,
        MultiViewKMeans,
        SpectralView,
    )


def __getattr__(name: str) -> object:
    return import_name(name, __name__, _HOME, globals())


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
