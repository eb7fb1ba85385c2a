"""Simulated dimensions: device, country and slot of auctions, with known effects.

A value of a dimension changes, for each advertiser, the share of its auctions, the log price level,
the click rate and the conversion rate. The effects are those of the advertiser's segment with a
separate variation. Averages over an advertiser's auctions stay as they are without dimensions:
shifts have the mean 0, factors the mean 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["DIMENSIONS", "DimensionEffects", "draw_effects", "draw_values", "effects_table"]

#: The values of each dimension.
DIMENSIONS = {
    "device": ("phone", "desktop", "tablet", "tv"),
    "country": ("DE", "ES", "FR", "GB", "IT", "NL", "PL", "SE"),
    "slot": ("banner", "inline", "native", "popup", "side", "video"),
}
#: Standard deviations between segments, and between the advertisers of a segment: of the log share,
#: the log price level, and the logarithms of the factors of clicks and conversions.
_BETWEEN_SEGMENTS = (0.6, 0.25, 0.5, 0.4)
_WITHIN_SEGMENTS = (0.3, 0.08, 0.15, 0.15)
#: Of the log share of a value in general.
_BETWEEN_VALUES = 0.5

Floats = NDArray[np.float64]


class DimensionEffects(NamedTuple):
    """Effects of the V values of a dimension on A advertisers, (A, V) each."""

    name: str
    values: tuple[str, ...]
    share: Floats  # of auctions; rows sum to 1
    shift: Floats  # of the log price level
    click: Floats  # factor of the click rate
    conversion: Floats  # factor of the conversion rate


class DrawnValues(NamedTuple):
    """Values of n auctions, and what all dimensions together change there; (n,) each."""

    codes: dict[str, NDArray[np.int32]]  # by dimension, indices into its values
    shift: Floats
    click: Floats
    conversion: Floats


def draw_effects(
    segment: NDArray[np.int64], n_dimensions: int, seed: int
) -> tuple[DimensionEffects, ...]:
    """Draw the effects of the first ``n_dimensions`` of :data:`DIMENSIONS`.

    >>> [device] = draw_effects(np.array([0, 0, 1]), 1, seed=0)
    >>> device.name, device.share.shape, np.allclose((device.share * device.click).sum(1), 1)
    ('device', (3, 4), True)
    """
    # a separate stream, so that dimensions change nothing else
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1_000_000,)))
    a, k = len(segment), int(segment.max(initial=0)) + 1
    found = []
    for name, values in list(DIMENSIONS.items())[:n_dimensions]:
        v = len(values)
        popular = _BETWEEN_VALUES * rng.standard_normal(v)
        share, shift, click, conversion = (
            between * rng.standard_normal((k, v))[segment] + within * rng.standard_normal((a, v))
            for between, within in zip(_BETWEEN_SEGMENTS, _WITHIN_SEGMENTS, strict=True)
        )
        share = np.exp(popular + share)
        share /= share.sum(axis=1, keepdims=True)
        shift -= (share * shift).sum(axis=1, keepdims=True)
        click, conversion = (
            factor / (share * factor).sum(axis=1, keepdims=True)
            for factor in (np.exp(click), np.exp(conversion))
        )
        found.append(DimensionEffects(name, values, share, shift, click, conversion))
    return tuple(found)


def draw_values(
    effects: Sequence[DimensionEffects], who: NDArray[np.int64], rng: np.random.Generator
) -> DrawnValues:
    """Draw the values of the auctions of advertisers ``who`` (n,), independent by dimension."""
    n = len(who)
    drawn = DrawnValues({}, np.zeros(n), np.ones(n), np.ones(n))
    for one in effects:
        upto = np.cumsum(one.share, axis=1)[:, :-1]
        value = (rng.random(n)[:, None] > upto[who]).sum(axis=1)
        drawn.codes[one.name] = value.astype(np.int32)
        drawn.shift[:] += one.shift[who, value]
        drawn.click[:] *= one.click[who, value]
        drawn.conversion[:] *= one.conversion[who, value]
    return drawn


def effects_table(names: pa.Array, effects: Sequence[DimensionEffects]) -> pa.Table:
    """Return the effects, one row for each advertiser, dimension and value."""
    tables = []
    for one in effects:
        a, v = one.share.shape
        columns: dict[str, Any] = {
            "advertiser_id": names.take(pa.array(np.repeat(np.arange(a), v))),
            "dimension": np.repeat(one.name, a * v),
            "value": np.tile(one.values, a),
            "share": one.share.ravel(),
            "price_shift": one.shift.ravel(),
            "click_factor": one.click.ravel(),
            "conversion_factor": one.conversion.ravel(),
        }
        tables.append(pa.table(columns))
    return pa.concat_tables(tables)
