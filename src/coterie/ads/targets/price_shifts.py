"""Price shifts: how well each shift of the price level explains the auctions with one value.

With W_a the win curve of advertiser a over all its auctions, those with value v are taken to have
the curve W_a(b·e^{−δ}). The log likelihood of δ is the sum over the auctions of

=========  =================================================
auction    log likelihood
=========  =================================================
revealed   log [W_a(e_g·e^{−δ}) − W_a(e_{g−1}·e^{−δ})]
won        log W_a(m_g·e^{−δ})
lost       log [1 − W_a(m_g·e^{−δ})]
=========  =================================================

for an auction in a bin g with the upper edge e_g and the middle m_g; see
:mod:`coterie.ads.curves.auction_counts`. A small part of all auctions is taken to be unlike the
curve, so that no single auction decides. The curve of an advertiser rises in steps at the prices
that it has seen itself. Where prices are revealed it is smoothed first: otherwise these steps would
favour the shift 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coterie.ads.curves.auction_counts import log_edges
from coterie.ads.histograms.target_counts import TargetCounts

__all__ = ["SHIFTS", "ShiftLikelihood", "shift_likelihood"]

#: The shifts at which likelihoods are computed, (J,).
SHIFTS = np.linspace(-1.2, 1.2, 49)
#: Share of the auctions that are unlike the curve.
_UNLIKE = 0.02
#: Standard deviation of the smoothing of curves, in bins of the price grid: 10 of them are a factor
#: of 1.27.
_SMOOTH_BINS = 10.0
_ADVERTISERS_AT_ONCE = 1_000
_PAIRS_AT_ONCE = 100_000

Floats = NDArray[np.float64]
Curves = NDArray[np.float32]
Indices = NDArray[np.int64]


class ShiftLikelihood(NamedTuple):
    """Log likelihoods of P pairs of an advertiser and a value, at the J shifts."""

    advertiser: Indices  # (P,)
    value: Indices  # (P,)
    values: Curves  # (P, J)

    def mode(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return the most probable shift of each pair and its variance, (P,) each.

        The prior is normal, of these means and variances (P,). The variance is that of a parabola
        through the three best points.
        """
        found = np.empty((2, len(self.values)))
        for first in range(0, len(self.values), _PAIRS_AT_ONCE):
            some = slice(first, first + _PAIRS_AT_ONCE)
            found[:, some] = _modes(self.values[some], mean[some], variance[some])
        return found[0], found[1]


def shift_likelihood(
    counts: TargetCounts, win: Curves, edges: Indices, columns: Indices
) -> ShiftLikelihood:
    """Return the likelihoods of the shifts of some values, given by index.

    ``win`` (A, G) are the curves at ``edges`` (G,). Pairs without auctions are left out.
    """
    cells = counts.cells
    kept = np.flatnonzero(np.isin(cells.value, columns))
    pair = cells.advertiser[kept].astype(np.int64) * len(counts.values) + cells.value[kept]
    found, first = np.unique(pair, return_index=True)
    values = np.empty((len(found), len(SHIFTS)), dtype=np.float32)
    scale = _bids_per_weight(counts)
    for block, ends, start in _blocks(cells.advertiser[kept], len(counts.advertisers)):
        chosen = kept[ends]
        curves = win[block] if counts.revealed == "none" else _smoothed(win[block])
        tables = _log_tables(curves, edges, counts.edges)
        place = (cells.advertiser[chosen] - block.start) * len(counts.edges) + cells.bin[chosen]
        sums = np.zeros((len(chosen), len(SHIFTS)), dtype=np.float32)
        for number, table in zip(_kinds(counts, chosen), tables, strict=True):
            if number.any():
                weight = (number * scale[cells.advertiser[chosen]]).astype(np.float32)
                sums += weight[:, None] * table[place]
        pairs = slice(*np.searchsorted(first, [start, start + len(chosen)]))
        if len(chosen):
            values[pairs] = np.add.reduceat(sums, first[pairs] - start, axis=0)
    advertiser, value = np.divmod(found, len(counts.values))
    return ShiftLikelihood(advertiser, value, values)


def _modes(values: Curves, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
    total = values - (SHIFTS - mean[:, None]) ** 2 / (2 * variance[:, None])
    best = np.clip(total.argmax(axis=1), 1, len(SHIFTS) - 2)
    rows = np.arange(len(best))
    left, middle, right = (total[rows, best + step] for step in (-1, 0, 1))
    step = SHIFTS[1] - SHIFTS[0]
    # never flatter than the prior alone: rounding and kinks of the curve may suggest it
    curvature = np.maximum((2 * middle - left - right) / step**2, 1 / variance)
    move = (right - left) / (2 * step) / curvature
    return SHIFTS[best] + np.clip(move, -step, step), 1 / curvature


def _blocks(advertiser: Indices, n: int) -> Iterator[tuple[slice, slice, int]]:
    """Yield ranges of advertisers, of their cells, and the first cell."""
    for first in range(0, n, _ADVERTISERS_AT_ONCE):
        block = slice(first, min(first + _ADVERTISERS_AT_ONCE, n))
        start, stop = np.searchsorted(advertiser, [block.start, block.stop])
        yield block, slice(int(start), int(stop)), int(start)


def _smoothed(win: Curves) -> Curves:
    # imported here because it is slow and forecasts do not need it
    from scipy.ndimage import gaussian_filter1d

    return np.asarray(gaussian_filter1d(win, _SMOOTH_BINS, axis=1, mode="nearest"))


def _bids_per_weight(counts: TargetCounts) -> Floats:
    """Return Σw / Σw² of each advertiser, (A,); 1 without weights."""
    A = len(counts.advertisers)
    number, square = (
        np.bincount(counts.cells.advertiser, getattr(counts.cells, name), A)
        for name in ("bids", "squares")
    )
    return np.divide(number, square, out=np.zeros(A), where=square > 0)


def _kinds(counts: TargetCounts, chosen: Indices) -> tuple[Floats, Floats, Floats]:
    """Return the numbers of revealed, won and lost auctions of some cells."""
    bids, wins, prices = (
        getattr(counts.cells, name)[chosen] for name in ("bids", "wins", "prices")
    )
    nothing, losses = np.zeros(len(chosen)), np.maximum(bids - wins, 0.0)
    if counts.revealed == "none":
        return nothing, wins, losses
    return prices, nothing, losses if counts.revealed == "paid" else nothing


def _log_tables(win: Curves, edges: Indices, wide: Indices) -> tuple[Curves, Curves, Curves]:
    """Return log likelihoods of revealed, won and lost auctions, (A · bins, J) each."""
    x = log_edges(edges)
    upper = np.log(wide.astype(np.float64))
    width = upper[-1] - upper[-2] if len(upper) > 1 else 4 * (x[1] - x[0])
    lower = np.concatenate([[upper[0] - width], upper[:-1]])
    curves = np.concatenate([np.zeros((len(win), 1), np.float32), win], axis=1)

    def at(amount: Floats) -> Curves:
        """Return W of all advertisers at shifted amounts, (A · bins, J)."""
        place = np.interp(amount[:, None] - SHIFTS, x, np.arange(len(x)))
        below = np.minimum(place.astype(np.int64), len(x) - 2)
        part = (place - below).astype(np.float32)
        found = curves[:, below] * (1 - part) + curves[:, below + 1] * part
        return np.asarray(found.reshape(-1, len(SHIFTS)))

    whole = np.float32(1 - _UNLIKE)
    middle = whole * at((lower + upper) / 2) + np.float32(_UNLIKE / 2)
    top, bottom = at(upper), at(lower)
    bottom.reshape(len(win), -1, len(SHIFTS))[:, 0] = 0.0  # the first bin has no lower end
    revealed = whole * np.maximum(top - bottom, 0.0) + np.float32(_UNLIKE / len(wide))
    return np.log(revealed), np.log(middle), np.log1p(-middle)
