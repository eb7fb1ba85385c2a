"""Pictures of a consensus, in the style of the displays of scikit-learn.

A display holds the numbers that it draws: ``from_…`` computes and draws them, ``plot`` draws.
"""

from coterie.inspection.displays.agreement_map import PartitionAgreementDisplay
from coterie.inspection.displays.coassociation_map import CoassociationDisplay
from coterie.inspection.displays.convergence_curves import ConvergenceDisplay
from coterie.inspection.displays.k_criteria import ChooseKDisplay

__all__ = [
    "ChooseKDisplay",
    "CoassociationDisplay",
    "ConvergenceDisplay",
    "PartitionAgreementDisplay",
]
