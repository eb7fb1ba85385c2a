"""The program's pictures: the library's displays on figures, and figures in files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.errors import MissingExtraError
from coterie.runtime.atomic_files import atomic_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["consensus_picture", "prepare_to_draw", "write_picture"]

_DOTS_PER_INCH = 160


def prepare_to_draw() -> None:
    """Make matplotlib draw to files, no screen needed; refuse where it is not installed."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise MissingExtraError(
            "pictures need matplotlib, which is not installed: pip install 'coterie[plots]'"
        ) from error
    mpl.use("Agg")


def consensus_picture(consensus: Any, P: Any, names: Sequence[str]) -> Figure:
    """Which points the partitions put together, beside which partitions agree.

    Parameters
    ----------
    consensus : fitted consensus function
    P : (n, V) labels
        What it was fitted on.
    names : sequence of V str
        The names of the partitions.
    """
    import matplotlib.pyplot as plt

    from coterie.inspection.displays import CoassociationDisplay, PartitionAgreementDisplay

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(14, 5.6), layout="constrained", width_ratios=(1, 1.3)
    )
    CoassociationDisplay.from_estimator(consensus, P, ax=left)
    PartitionAgreementDisplay.from_estimator(consensus, names, ax=right)
    return figure


def write_picture(figure: Figure, path: Path) -> None:
    """Write the figure to a file in the format of its suffix; it is closed then."""
    import matplotlib.pyplot as plt

    with atomic_file(path) as unfinished:
        figure.savefig(unfinished, format=path.suffix[1:], dpi=_DOTS_PER_INCH)
    plt.close(figure)
