"""coterie: robust consensus clustering.

The input is many partitions of the same points, some of them noisy or wrong. The result is the
partition that most of them agree on. The public names, in the order of the data flow:

=============  =============================================================================
data           :func:`load_dataset`, :func:`load_views`, :func:`planted_partitions`
partitions     :func:`make_partitions`; soft ones to labels: :func:`hard_labels`
consensus      :class:`RobustConsensus`; for a similarity matrix :class:`RobustSpectral`
… by spectra   :class:`L2Consensus`, :class:`KMeansConsensus`, :class:`OneHotKMeans`,
               :class:`CorrelationConsensus`
… by cuts      :class:`CSPA`, :class:`HGPA`, :class:`MCLA`, :class:`HBGF`
… by factors   :class:`NMFConsensus`, :class:`WeightedConsensus`, :class:`KLConsensus`
… by linkage   :class:`EvidenceAccumulation`, :class:`LocallyWeightedConsensus`,
               :class:`PropagatedConsensus`
… of trees     :func:`consensus_linkage`
from features  :class:`ConsensusClusterer`
several views  :class:`MultiViewClusterer`, :class:`SpectralView`, :class:`ConcatenatedSpectral`,
               :class:`MultiViewKMeans`, :class:`MultiViewAffinityPropagation`,
               :class:`LowRankConsensus`
tables         :func:`consensus_table`, :class:`TableConsensus`: labels in a database
choosing K     :func:`choose_k`
reports        :func:`summary`, :func:`partition_report`, :func:`point_report`;
               as an HTML page: :func:`write_report`
displays       :class:`PointsDisplay`, :class:`CoassociationDisplay`,
               :class:`ClustermapDisplay`, :class:`ClusterConsensusDisplay`,
               :class:`PartitionAgreementDisplay`, :class:`ConvergenceDisplay`,
               :class:`ChooseKDisplay`, :class:`ConsensusCDFDisplay`,
               :class:`TrackingDisplay`
… in numbers   :func:`coassociation`, :func:`cluster_consensus`, :func:`item_consensus`
known factors  :func:`factor_tests`
scores         :func:`clustering_accuracy`, :func:`mirkin_objective`,
               :mod:`coterie.inspection.scores`
model files    :func:`save_model`, :func:`load_model`
=============  =============================================================================

Every method also has a short name, see :mod:`coterie.consensus.registry`. A name is imported when
it is first used, so ``import coterie`` is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.runtime.imports import lazy_names

__version__ = "0.1.0"

# lazy_names reads this list, so each public name is written once
if TYPE_CHECKING:
    from coterie.consensus import CSPA as CSPA
    from coterie.consensus import HBGF as HBGF
    from coterie.consensus import HGPA as HGPA
    from coterie.consensus import MCLA as MCLA
    from coterie.consensus import CorrelationConsensus as CorrelationConsensus
    from coterie.consensus import EvidenceAccumulation as EvidenceAccumulation
    from coterie.consensus import KLConsensus as KLConsensus
    from coterie.consensus import KMeansConsensus as KMeansConsensus
    from coterie.consensus import L2Consensus as L2Consensus
    from coterie.consensus import LocallyWeightedConsensus as LocallyWeightedConsensus
    from coterie.consensus import NMFConsensus as NMFConsensus
    from coterie.consensus import OneHotKMeans as OneHotKMeans
    from coterie.consensus import PropagatedConsensus as PropagatedConsensus
    from coterie.consensus import WeightedConsensus as WeightedConsensus
    from coterie.consensus.hierarchies import consensus_linkage as consensus_linkage
    from coterie.consensus.results import cluster_consensus as cluster_consensus
    from coterie.consensus.results import item_consensus as item_consensus
    from coterie.consensus.results import partition_report as partition_report
    from coterie.consensus.results import point_report as point_report
    from coterie.consensus.results import summary as summary
    from coterie.consensus.robust import RobustConsensus as RobustConsensus
    from coterie.counts.coassociation import coassociation as coassociation
    from coterie.datasets.loading import load_dataset as load_dataset
    from coterie.datasets.loading import load_views as load_views
    from coterie.ensembles.generate import make_partitions as make_partitions
    from coterie.ensembles.generate import planted_partitions as planted_partitions
    from coterie.estimators.clusterer import ConsensusClusterer as ConsensusClusterer
    from coterie.estimators.robust_spectral import RobustSpectral as RobustSpectral
    from coterie.estimators.view_clusterer import MultiViewClusterer as MultiViewClusterer
    from coterie.inspection.choose_k import choose_k as choose_k
    from coterie.inspection.displays import ChooseKDisplay as ChooseKDisplay
    from coterie.inspection.displays import ClusterConsensusDisplay as ClusterConsensusDisplay
    from coterie.inspection.displays import ClustermapDisplay as ClustermapDisplay
    from coterie.inspection.displays import CoassociationDisplay as CoassociationDisplay
    from coterie.inspection.displays import ConsensusCDFDisplay as ConsensusCDFDisplay
    from coterie.inspection.displays import ConvergenceDisplay as ConvergenceDisplay
    from coterie.inspection.displays import PartitionAgreementDisplay as PartitionAgreementDisplay
    from coterie.inspection.displays import PointsDisplay as PointsDisplay
    from coterie.inspection.displays import TrackingDisplay as TrackingDisplay
    from coterie.inspection.factor_tests import factor_tests as factor_tests
    from coterie.inspection.report.consensus_page import write_report as write_report
    from coterie.inspection.scores import clustering_accuracy as clustering_accuracy
    from coterie.inspection.scores import mirkin_objective as mirkin_objective
    from coterie.labels.soft import hard_labels as hard_labels
    from coterie.models import load_model as load_model
    from coterie.models import save_model as save_model
    from coterie.multiview import ConcatenatedSpectral as ConcatenatedSpectral
    from coterie.multiview import LowRankConsensus as LowRankConsensus
    from coterie.multiview import MultiViewAffinityPropagation as MultiViewAffinityPropagation
    from coterie.multiview import MultiViewKMeans as MultiViewKMeans
    from coterie.multiview import SpectralView as SpectralView
    from coterie.tables import TableConsensus as TableConsensus
    from coterie.tables import consensus_table as consensus_table
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
