"""The types that a model file may hold, by names that never change."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["STORABLE_TYPES", "class_of", "stable_name"]

#: The types that a model file may hold: the stable name in files, and where the class is now.
#: Classes and modules may move and change names; the names on the left never change.
STORABLE_TYPES = {
    "RobustConsensus": "coterie.consensus.robust.estimator:RobustConsensus",
    "L2Consensus": "coterie.consensus:L2Consensus",
    "OneHotKMeans": "coterie.consensus:OneHotKMeans",
    "KMeansConsensus": "coterie.consensus:KMeansConsensus",
    "CSPA": "coterie.consensus:CSPA",
    "HGPA": "coterie.consensus:HGPA",
    "MCLA": "coterie.consensus:MCLA",
    "HBGF": "coterie.consensus:HBGF",
    "NMFConsensus": "coterie.consensus:NMFConsensus",
    "WeightedConsensus": "coterie.consensus:WeightedConsensus",
    "KLConsensus": "coterie.consensus:KLConsensus",
    "CorrelationConsensus": "coterie.consensus:CorrelationConsensus",
    "EvidenceAccumulation": "coterie.consensus:EvidenceAccumulation",
    "LocallyWeightedConsensus": "coterie.consensus:LocallyWeightedConsensus",
    "PropagatedConsensus": "coterie.consensus:PropagatedConsensus",
    "ConsensusClusterer": "coterie.estimators.clusterer:ConsensusClusterer",
    "MultiViewClusterer": "coterie.estimators.view_clusterer:MultiViewClusterer",
    "SpectralView": "coterie.multiview:SpectralView",
    "ConcatenatedSpectral": "coterie.multiview:ConcatenatedSpectral",
    "MultiViewKMeans": "coterie.multiview:MultiViewKMeans",
    "MultiViewAffinityPropagation": "coterie.multiview:MultiViewAffinityPropagation",
    "LowRankConsensus": "coterie.multiview:LowRankConsensus",
    "Scaling": "coterie.ensembles.scalings:Scaling",
    "DistanceEmbedding": "coterie.ensembles.distance_embedding:DistanceEmbedding",
    "Ensemble": "coterie.ensembles.making:Ensemble",
    "CentroidMember": "coterie.ensembles.nearest_rows:CentroidMember",
    "SpectralMember": "coterie.ensembles.landmark_spectral:SpectralMember",
    "MixtureMember": "coterie.ensembles.gaussian_mixtures:MixtureMember",
    "NearestRowMember": "coterie.ensembles.nearest_rows:NearestRowMember",
    "EstimatorMember": "coterie.ensembles.given_clusterers:EstimatorMember",
    "LabelMatrix": "coterie.labels.label_matrix:LabelMatrix",
    "Memberships": "coterie.labels.soft_memberships:Memberships",
    "LabelTuples": "coterie.labels.tuples:LabelTuples",
    "ClusterTables": "coterie.counts.cluster_tables:ClusterTables",
    "KChoice": "coterie.consensus.robust.k_choice:KChoice",
    "Dissent": "coterie.consensus.robust.camps:Dissent",
    "AdForecaster": "coterie.ads.fitting.forecaster:AdForecaster",
    "Choice": "coterie.ads.forecasts.fitted_market:Choice",
    "Calibration": "coterie.ads.forecasts.calibration:Calibration",
    "DayLevels": "coterie.ads.curves.day_levels:DayLevels",
    "StoredDays": "coterie.ads.histograms.stored_days:StoredDays",
    "StoredTargets": "coterie.ads.histograms.target_counts:StoredTargets",
    "SegmentProfile": "coterie.ads.segments.segment_profiles:SegmentProfile",
    "Supply": "coterie.ads.curves.supply:Supply",
    "TargetEffects": "coterie.ads.targets.target_effects:TargetEffects",
    "TextView": "coterie.ads.segments.text_view:TextView",
    "ViewAgreement": "coterie.ads.segments.view_agreement:ViewAgreement",
    "sklearn.KMeans": "sklearn.cluster:KMeans",
    "sklearn.MiniBatchKMeans": "sklearn.cluster:MiniBatchKMeans",
    "sklearn.MinMaxScaler": "sklearn.preprocessing:MinMaxScaler",
    "sklearn.StandardScaler": "sklearn.preprocessing:StandardScaler",
}


def class_of(name: str) -> Any:
    """Return the class of a stable name."""
    module, _, attribute = STORABLE_TYPES[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def stable_name(kind: type) -> str | None:
    """Return the stable name of a class, or None if it cannot be stored."""
    for name, home in STORABLE_TYPES.items():
        # compare the names first: importing every module would be slow
        if home.endswith(f":{kind.__name__}") and class_of(name) is kind:
            return name
    return None
