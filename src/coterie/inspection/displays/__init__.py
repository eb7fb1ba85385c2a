"""Pictures of a consensus, in the style of the displays of scikit-learn.

A display holds the numbers that it draws: ``from_…`` computes and draws them, ``plot`` draws.
"""

from coterie.inspection.displays.coassociation import (
    ClusterConsensusDisplay,
    ClustermapDisplay,
    CoassociationDisplay,
)
from coterie.inspection.displays.numbers_of_clusters import (
    ChooseKDisplay,
    ConsensusCDFDisplay,
    TrackingDisplay,
)
from coterie.inspection.displays.partitions import ConvergenceDisplay, PartitionAgreementDisplay
from coterie.inspection.displays.points import PointsDisplay

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
