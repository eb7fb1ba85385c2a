"""Marginal costs: what a further thousand impressions cost when a bid is raised."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["marginal_costs"]


def marginal_costs(spend: ArrayLike, impressions: ArrayLike) -> NDArray[np.float64]:
    """Compute the cost of a thousand further impressions between neighbouring bids, (…, G).

    With spend S and impressions N at G increasing bids, the marginal cost of bid g is

        1000 · (S_g − S_{g−1}) / (N_g − N_{g−1}),

    and S = N = 0 before the first bid. It is NaN where a higher bid brings no further
    impressions.

    Parameters
    ----------
    spend, impressions : (…, G) array-like
        At increasing bids; any common factor of the impressions may be left out of both, so that
        they may also be the mean cost and the share won of one auction.

    Examples
    --------
    The second bid brings 500 impressions more and costs 3 more; the third brings none.

    >>> marginal_costs([2.0, 5.0, 5.0], [1000.0, 1500.0, 1500.0]).tolist()
    [2.0, 6.0, nan]
    """
    paid, won = (
        np.diff(np.asarray(part, dtype=np.float64), axis=-1, prepend=0.0)
        for part in (spend, impressions)
    )
    return np.divide(1000.0 * paid, won, out=np.full(won.shape, np.nan), where=won > 0)
