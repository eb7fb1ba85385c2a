"""What the source paper prints in its tables 2 and 3, as far as it is at hand.

The paper is D. Kong, M. Lu, K. Shmakov, J. Yang: Robust Consensus Clustering and its Applications
for Advertising Forecasting, arXiv:2301.00717. Of table 2 the columns k-means and RCC are known
here, of table 3 three single views and one figure of RCC. What is not known is None, never a
guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["TABLE2", "TABLE3", "PaperTable"]


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper: accuracies of methods (columns) on sets (rows).

    Attributes
    ----------
    name : str
        What its program and its files are called.
    columns : tuple of str
        The methods, named and ordered as printed.
    sets : mapping of str to str
        The name of a dataset here, and what the paper calls it; in the paper's order.
    figures : mapping of str to mapping
        Known accuracies: ``figures[column][dataset]``.
    """

    name: str
    columns: tuple[str, ...]
    sets: Mapping[str, str]
    figures: Mapping[str, Mapping[str, float]]

    def figure(self, dataset: str, column: str) -> float | None:
        """The accuracy printed, or None where it is not at hand.

        >>> TABLE2.figure("wine", "RCC"), TABLE2.figure("wine", "CSPA")
        (0.96, None)
        """
        return self.figures.get(column, {}).get(dataset)


TABLE2 = PaperTable(
    "table2",
    ("k-means", "KC", "CSPA", "HPGA", "NMFC", "WC", "L2CC", "ES", "CorC", "RCC"),
    {
        "glass": "Glass",
        "ionosphere": "Ionosphere",
        "iris": "Iris",
        "soybean_small": "Soybean",
        "wine": "Wine",
        "zoo": "Zoo",
        "cstr": "CSTR",
        "reuters": "Reuters",
    },
    {
        "k-means": {
            "glass": 0.38,
            "ionosphere": 0.70,
            "iris": 0.83,
            "soybean_small": 0.72,
            "wine": 0.68,
            "zoo": 0.61,
            "cstr": 0.45,
            "reuters": 0.45,
        },
        "RCC": {
            "glass": 0.52,
            "ionosphere": 0.72,
            "iris": 0.89,
            "soybean_small": 1.00,
            "wine": 0.96,
            "zoo": 0.84,
            "cstr": 0.65,
            "reuters": 0.45,
        },
    },
)

TABLE3 = PaperTable(
    "table3",
    ("LBP", "HOG", "GIST", "Classemes", "FC", "MVKmean", "AP", "LCC", "RCC"),
    {
        "msrc_v1": "MSRC-v1",
        "caltech101_7": "Caltech101-7",
        "caltech101_20": "Caltech101-20",
    },
    {
        "LBP": {"msrc_v1": 0.47, "caltech101_7": 0.52, "caltech101_20": 0.34},
        "HOG": {"msrc_v1": 0.64, "caltech101_7": 0.56, "caltech101_20": 0.37},
        "GIST": {"msrc_v1": 0.63, "caltech101_7": 0.55, "caltech101_20": 0.39},
        "RCC": {"msrc_v1": 0.80},
    },
)
