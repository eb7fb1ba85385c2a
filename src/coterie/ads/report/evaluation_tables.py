"""Tables of an evaluation: errors, coverage of intervals, and the source to compare with.

Most functions take what :meth:`~coterie.ads.evaluation.evaluation.Evaluation.as_dict` returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress
from typing import TYPE_CHECKING, Any

from coterie.runtime.wording import format_cell

if TYPE_CHECKING:
    from coterie.ads.evaluation.evaluation import Evaluation

#: The source that uses each advertiser's own auctions alone.
OWN = "own"
_ALL = "all"
#: Columns of the paper's tables that are shown in percent begin with these.
_IN_PERCENT = ("MAPE", "WAPE", "TPN", "FPN")
_MODES = ("given", "forecast")
#: A chart has at most so many advertisers.
_MOST_POINTS = 2_000


def evaluation_contents(evaluation: Evaluation, level: float) -> dict[str, Any]:
    """Return what a report shows of an evaluation; ``level`` is that of its intervals."""
    facts = evaluation.as_dict()
    default, sources = facts["default"], facts["sources"]
    chosen = facts["chosen"][default]
    strength = chosen["strength"]
    return {
        "holdout": facts["holdout"],
        "default": default,
        "targets": shown_targets(facts),
        "sources": {default: sources[default]} | sources,  # the default comes first
        "placed": facts.get("placed"),
        "strata": errors_by_stratum(facts),
        "coverage": coverage_by_level(facts),
        "coverage_by_stratum": coverage_by_stratum(facts, level),
        "differences": facts["differences"],
        "points": forecast_points(evaluation, level),
        "chosen": {
            "number of segments": chosen["k"],
            "strength of the market curves": "infinite"
            if isinstance(strength, str)
            else f"{strength:g} own auctions",
            "half-life of days": chosen["half_life"] or "none: all days count alike",
            "backtest days": chosen["backtest_days"],
        },
    }


def forecast_points(evaluation: Evaluation, level: float) -> dict[str, Any]:
    """Return the forecast, its interval and the actual value of each advertiser.

    They are those of the default source, with the number of auctions given. Of very many
    advertisers every n-th by actual impressions is kept, so that all sizes are there.

    Keys are ``advertisers``, their ids; ``of``, how many there were; ``outside``, how many of these
    were outside the interval; and for each target ``forecast``, ``low``, ``high`` and ``actual``,
    in the order of the ids.
    """
    import numpy as np

    from coterie.ads.evaluation.evaluation import DEFAULT

    known = np.flatnonzero((evaluation.observations > 0) & (evaluation.bids > 0))
    by_size = known[np.argsort(-evaluation.truth.impressions[known], kind="stable")]
    n_points = min(_MOST_POINTS, len(by_size))
    rows = by_size[np.linspace(0, len(by_size) - 1, n_points).round().astype(np.int64)]
    points: dict[str, Any] = {
        "advertisers": evaluation.advertisers[rows].tolist(),
        "of": len(by_size),
        "outside": {},
    }
    [ends] = [one for one in evaluation.intervals if (one.level, one.supply) == (level, "given")]
    for target in ("impressions", "spend"):
        figures = {
            "forecast": getattr(evaluation.forecasts[DEFAULT], target),
            "low": ends.low[target],
            "high": ends.high[target],
            "actual": getattr(evaluation.truth, target),
        }
        low, high, actual = (figures[name][known] for name in ("low", "high", "actual"))
        points["outside"][target] = int(((actual < low) | (actual > high)).sum())
        points[target] = {name: column[rows].tolist() for name, column in figures.items()}
    return points


def shown_targets(evaluation: Mapping[str, Any]) -> list[str]:
    """Return the targets of the error tables; clicks only if the held-out days have some."""
    errors = evaluation["sources"].get(evaluation["default"], {})
    return [name for name, one in errors.items() if name != "clicks" or one["wape"] is not None]


def errors_by_stratum(evaluation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return WAPE and bias of every source and target by number of bids before.

    Errors are None where a source forecasts nothing: most do not forecast new advertisers.
    """
    return [
        {
            "name": stratum["name"],
            "advertisers": stratum["advertisers"],
            "sources": {
                name: {target: _error(one) for target, one in targets.items()}
                for name, targets in stratum["sources"].items()
            },
        }
        for stratum in evaluation["strata"]
        if stratum["advertisers"]
    ]


def coverage_by_level(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the levels, and a row for each target of the log with the coverage at each level."""
    stated = [row for row in evaluation["intervals"] if row["stratum"] == _ALL]
    levels = sorted({row["level"] for row in stated})
    at = {(row["target"], row["supply"], row["level"]): row["coverage"] for row in stated}
    rows = [
        {"target": target} | {mode: [at.get((target, mode, x)) for x in levels] for mode in _MODES}
        for target in dict.fromkeys(row["target"] for row in stated)
    ]
    is_known = [any(share is not None for share in row["given"]) for row in rows]
    return {"levels": levels, "rows": list(compress(rows, is_known))}


def coverage_by_stratum(evaluation: Mapping[str, Any], level: float = 0.9) -> list[dict[str, Any]]:
    """Return the coverage of impressions and spend by number of bids before, at one level."""
    at = {
        (row["stratum"], row["target"], row["supply"]): row["coverage"]
        for row in evaluation["intervals"]
        if row["level"] == level
    }
    return [
        {"name": one["name"], "advertisers": one["advertisers"]}
        | {
            target: {mode: at.get((one["name"], target, mode)) for mode in _MODES}
            for target in ("impressions", "spend")
        }
        for one in evaluation["strata"]
        if one["advertisers"]
    ]


def best_other(evaluation: Mapping[str, Any], target: str) -> str | None:
    """Return the source with the smallest error, other than the default and own curves."""
    errors = {
        name: one[target]["wape"]
        for name, one in evaluation["sources"].items()
        if name not in {evaluation["default"], OWN} and one[target]["wape"] is not None
    }
    return min(errors, key=lambda name: errors[name]) if errors else None


def figure_in(value: Any, column: str) -> str:
    """Return the text of a cell of the paper's tables; errors and shares of pairs in percent."""
    if value is not None and column.startswith(_IN_PERCENT):
        return f"{value:.1%}"
    is_share = isinstance(value, float) and not value.is_integer()
    return f"{value:.3f}" if is_share else format_cell(value)


def _error(measures: Mapping[str, Any]) -> dict[str, float | None]:
    """Return WAPE and bias; None if all forecasts are 0, which is a bias of −1."""
    is_forecast = measures["bias"] != -1.0
    return {name: measures[name] if is_forecast else None for name in ("wape", "bias")}
