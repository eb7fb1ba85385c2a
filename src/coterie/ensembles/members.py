"""Members of an ensemble: fitted clusterings that label blocks of rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from coterie.ensembles.row_blocks import RowBlock, row_blocks
from coterie.ensembles.scalings import Labels, Scaling
from coterie.runtime.short_reprs import short_repr

__all__ = ["Member", "label_rows"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Member(Scaling):
    """A fitted clustering, with the scaling that is applied before it."""

    __repr__ = short_repr

    def predict(self, X: Any) -> Labels:
        """Return labels of the rows of ``X``, from 0 to K_v − 1; −1 is noise."""
        return label_rows([self], X)[:, 0]

    @abstractmethod
    def labels_of(self, block: RowBlock) -> Labels:
        """Return labels of the rows of a block, as :meth:`predict` does."""


def label_rows(members: Sequence[Member], X: Any, dtype: Any = np.int32) -> npt.NDArray[Any]:
    """Return the labels (n, V) of rows by V members, computed by blocks of rows.

    What members share, such as landmarks or principal axes, is computed once for each block.
    """
    labels = np.empty((X.shape[0], len(members)), dtype=dtype)
    for rows in row_blocks(*X.shape):
        block = RowBlock(X[rows])
        for column, member in enumerate(members):
            labels[rows, column] = member.labels_of(block)
    return labels
