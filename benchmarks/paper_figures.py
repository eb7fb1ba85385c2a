"""Accuracies printed in tables 2 and 3 of the source paper, as far as they are available.

The paper is D. Kong, M. Lu, K. Shmakov, J. Yang: Robust Consensus Clustering and its Applications
for Advertising Forecasting, arXiv:2301.00717. Of table 2 the columns k-means and RCC are available,
of table 3 three single views and one figure of RCC. A figure that is not available is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["TABLE2", "TABLE3", "PaperTable"]


class PaperTable(NamedTuple):
    """A table of the paper: accuracies of methods (columns) on datasets."""

    #: The benchmark.
    name: str
    #: The methods as the paper names and orders them, and their keys here.
    columns: Mapping[str, str]
    #: The name of a dataset in this package, and its name in the paper, in the paper's order.
    titles: Mapping[str, str]
    #: Of the columns that are available, one accuracy per dataset.
    figures: Mapping[str, tuple[float | None, ...]]

    def printed(self) -> dict[str, dict[str, float | None]]:
        """Return ``{column: {dataset: accuracy or None}}`` for every column.

        >>> TABLE2.printed()["RCC"]["wine"], TABLE2.printed()["CSPA"]["wine"]
        (0.96, None)
        """
        unknown = (None,) * len(self.titles)
        return {
            column: dict(zip(self.titles, self.figures.get(column, unknown), strict=True))
            for column in self.columns
        }


TABLE2 = PaperTable(
    "table2",
    {
        "k-means": "k-means",  # the mean of the single runs
        "KC": "kc",
        "CSPA": "cspa",
        "HPGA": "hgpa",
        "NMFC": "nmf",
        "WC": "weighted",
        "L2CC": "l2",
        "ES": "kl",
        "CorC": "correlation",
        "RCC": "rcc",
    },
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
        "k-means": (0.38, 0.70, 0.83, 0.72, 0.68, 0.61, 0.45, 0.45),
        "RCC": (0.52, 0.72, 0.89, 1.00, 0.96, 0.84, 0.65, 0.45),
    },
)
TABLE3 = PaperTable(
    "table3",
    {
        "LBP": "lbp",
        "HOG": "hog",
        "GIST": "gist",
        "Classemes": "",  # these features are not available
        "FC": "fc",
        "MVKmean": "mvkmeans",
        "AP": "ap",
        "LCC": "lcc",
        "RCC": "rcc",
    },
    {
        "msrc_v1": "MSRC-v1",
        "caltech101_7": "Caltech101-7",
        "caltech101_20": "Caltech101-20",
    },
    {
        "LBP": (0.47, 0.52, 0.34),
        "HOG": (0.64, 0.56, 0.37),
        "GIST": (0.63, 0.55, 0.39),
        "RCC": (0.80, None, None),
    },
)
