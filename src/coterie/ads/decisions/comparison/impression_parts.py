"""Impression parts: why the impressions of an advertiser changed.

Impressions per day are N = n · W̄(level, bids): auctions per day times the share of the bids that
win at a price level. Five factors change between two periods: the auctions and the price level,
each by what the market has in common and by the advertiser's own, and the advertiser's bids. The
part of a factor is its Shapley value: the mean of what changing it does, over all orders in which
the factors can change. The parts add up to the change that the factors explain.
"""

from __future__ import annotations

from math import factorial

import numpy as np
from numpy.typing import NDArray

__all__ = ["FACTORS", "impression_parts", "shapley_values"]

Floats = NDArray[np.float64]

#: The factors, in the order of the axes of values.
FACTORS = ("market_supply", "own_supply", "market_price", "own_price", "own_bid")


def shapley_values(values: Floats) -> Floats:
    """Compute the Shapley values of k factors with two states each, (k, …).

    Parameters
    ----------
    values : (2, …, 2, …) array
        Index i of axis j is the state of factor j, 0 before and 1 after; k leading axes of
        length 2, and any further axes of other lengths.

    Examples
    --------
    Two factors that multiply, 2·3 = 6 before and 4·5 = 20 after:

    >>> shapley_values(np.outer([2.0, 4.0], [3.0, 5.0])[..., None])[:, 0].tolist()
    [8.0, 6.0]
    """
    k = values.ndim - 1
    others = np.indices((2,) * (k - 1)).sum(axis=0)
    # the share of orders in which exactly these other factors changed before
    orders = np.array([factorial(n) * factorial(k - 1 - n) / factorial(k) for n in range(k)])
    weight = orders[others][..., None]
    axes = tuple(range(k - 1))
    return np.stack(
        [(np.diff(values, axis=j).squeeze(j) * weight).sum(axis=axes) for j in range(k)]
    )


def impression_parts(
    impressions: Floats, supply: Floats, market_supply: float, win_rates: Floats
) -> dict[str, Floats]:
    """Divide the change of impressions per day of A advertisers, (A,) each.

    Parameters
    ----------
    impressions, supply : (2, A) arrays
        Impressions and auctions per day before and after; auctions above 0.
    market_supply : float
        Factor of the auctions that is common to all advertisers.
    win_rates : (2, 2, 2, A) array
        Share of bids won, by state of the market's price level, the advertiser's own, and its bids.

    Returns
    -------
    dict of str to (A,) array
        The part of each factor and ``unexplained``: chance, and changes of the shape of a curve.
    """
    first, last = impressions
    own = supply[1] / (supply[0] * market_supply)
    auctions = supply[0] * np.array([1.0, market_supply])[:, None, None]
    auctions = auctions * np.stack([np.ones_like(own), own])[None]
    explained = auctions[:, :, None, None, None] * win_rates
    # the curves explain the mean of both periods exactly, so that only changes are left over
    mean = explained[0, 0, 0, 0, 0] + explained[1, 1, 1, 1, 1]
    scale = np.divide(first + last, mean, out=np.ones_like(mean), where=mean > 0)
    parts = dict(zip(FACTORS, shapley_values(explained * scale), strict=True))
    return parts | {"unexplained": last - first - sum(parts.values())}
