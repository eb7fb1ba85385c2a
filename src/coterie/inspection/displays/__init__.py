"""Pictures of a consensus, in the style of the displays of scikit-learn.

A display holds the numbers that it draws: ``from_…`` computes and draws them, ``plot`` draws.
"""

from coterie.inspection.displays.agreement_map import PartitionAgreementDisplay
from coterie.inspection.displays.cdf_curves import ConsensusCDFDisplay
from coterie.inspection.displays.clustermap import ClustermapDisplay
from coterie.inspection.displays.coassociation_map import CoassociationDisplay
from coterie.inspection.displays.consensus_bars import ClusterConsensusDisplay
from coterie.inspection.displays.convergence_curves import ConvergenceDisplay
from coterie.inspection.displays.k_criteria import ChooseKDisplay
from coterie.inspection.displays.points_plot import PointsDisplay
from coterie.inspection.displays.tracking_plot import TrackingDisplay

__all__ = [
    "ChooseKDisplay",
    "ClusterConsensusDisplay",
    "ClustermapDisplay",
    "CoassociationDisplay",
    "ConsensusCDFDisplay",
    "ConvergenceDisplay",
    "PartitionAgreementDisplay",
    "PointsDisplay",
    "TrackingDisplay",
]
