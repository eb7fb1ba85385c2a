"""Which targets? Regret of the value that each rule would choose, on held-out days.

Markets with planted effects of devices, countries and slots are simulated: values with similar and
with very different prices. Models see all days but the last two. For every advertiser and dimension
each rule chooses a value: the one with the most impressions, with the most clicks, or with the
cheapest click at the advertiser's usual bid. The regret is against the truly best value. Held-out
auctions say what the choices then won. How often the value ranked first is the best is compared
with the probability that was stated.
"""

from __future__ import annotations

import tempfile
import warnings
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from benchmarks.harness import FORECASTS, Context
from benchmarks.results import Result, Table, best_cells
from coterie.ads import (
    AdForecaster,
    MarketSettings,
    TargetCounts,
    open_logs,
    rank_targets,
    read_descriptions,
    read_histograms,
    read_targets,
    simulate_logs,
)
from coterie.ads.decisions.decision_answers import RankedBy
from coterie.ads.logs.simulation.simulated_logs import auction_batches, draw_day
from coterie.ads.logs.simulation.simulated_traits import DIMENSIONS, Traits, draw_traits
from coterie.errors import CoterieWarning

Floats = NDArray[np.float64]

RULES = ("own record", "everybody", "segment", "coterie")
GOALS = ("impressions", "clicks", "cost per click")
#: What values are ranked by for each goal.
_BY: dict[str, RankedBy] = dict(
    zip(GOALS, ("impressions", "clicks", "cost_per_click"), strict=True)
)
MARKETS: dict[str, dict[str, Any]] = {
    "similar prices": {},
    "far prices": {"value_prices": 0.8, "bids_per_day": 12.0},
}
STRATA = ("up to 50 bids", "51–200 bids", "more bids")
_STRATUM_ENDS = (50.0, 200.0)
#: Ends of the bins of stated probabilities.
_CHANCES = (0.0, 0.5, 0.7, 0.9, 1.0)
#: Markets of these seeds were used while the rules were written, so they are not reported.
FIRST_SEED = 10
_HELD_DAYS = 2
_SEGMENTS = 10


class Truth(NamedTuple):
    """Means of one auction with each value at the advertiser's bid, (A, V) each."""

    impressions: Floats
    cost: Floats
    clicks: Floats


MEASURES = (*FORECASTS, "ads/targets", "ads/decisions")


def run(context: Context, *, draws: int = 3, advertisers: int = 600, jobs: int = 2) -> Result:
    """Measure second and first price; a quick run has one draw of few advertisers."""
    n_draws, number = (1, 100) if context.quick else (draws, advertisers)
    kept = context.trials("ads_targets")
    seeds = range(FIRST_SEED, FIRST_SEED + n_draws)
    grid = list(product(MARKETS, ("second", "first"), seeds))
    markets = [
        {**MARKETS[kind], "auction": auction, "advertisers": number, "seed": seed}
        for kind, auction, seed in grid
    ]
    track = partial(context.track, title="choosing targets")
    outcomes = kept.run_all(markets, run_draw, jobs, track)
    cells: dict[str, list[dict[str, Any]]] = {}
    for (kind, auction, _), found in zip(grid, outcomes, strict=True):
        cells.setdefault(f"{auction}, {kind}", []).append(found)
    summary = {name: _summary(found) for name, found in cells.items()}
    tables = [_regrets(summary), _differences(summary), _chances(summary)]
    tables += [_outcomes(summary), _coverage(summary)]
    return Result("ads_targets", tables, {"summary": summary})


def run_draw(market: dict[str, Any]) -> dict[str, Any]:
    """Return regrets by advertiser, what choices won, and the coverage of intervals."""
    settings = MarketSettings(
        segments=_SEGMENTS, days=9, newcomers=0.0, bid_move=0.0, dimensions=3, **market
    )
    traits = draw_traits(settings)
    model, counts = _fitted(settings)
    rows = np.array([int(name.removeprefix("adv-")) for name in model.advertisers_])
    held = np.datetime64(settings.start, "D") + settings.days - _HELD_DAYS
    truth, outcome = _truth(settings, traits), _held_out(settings, traits)
    figures, covered, chances = _ranked(model, traits, rows, str(held), (truth, outcome))
    stratum = np.searchsorted(_STRATUM_ENDS, model.observations_)
    found: dict[str, Any] = {"regret": {}, "outcome": {}, "covered": covered, "chances": chances}
    chosen = {
        "own record": _by_counts(*_sums(counts, np.eye(len(rows)))),
        "everybody": _by_counts(*_sums(counts, np.ones((len(rows), len(rows))))),
        "segment": _by_counts(*_sums(counts, _same(model.labels_))),
        "coterie": figures,
    }
    for goal in GOALS:
        best = _pick(_measures(truth, traits)[goal][rows], goal)
        for rule, measures in chosen.items():
            picks = _pick(measures[goal], goal)
            regret = _regret(_measures(truth, traits)[goal][rows], picks, best, goal)
            found["regret"].setdefault(goal, {})[rule] = _split(regret, stratum)
            found["outcome"].setdefault(goal, {})[rule] = _won(outcome, rows, picks)
        found["outcome"][goal]["best"] = _won(outcome, rows, best)
    return found


def _fitted(settings: MarketSettings) -> tuple[AdForecaster, TargetCounts]:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", CoterieWarning)
        made = simulate_logs(settings, Path(folder) / "market")
        logs = open_logs(
            made.bids[:-_HELD_DAYS], advertisers=made.advertisers, dimensions=list(DIMENSIONS)
        )
        histograms = read_histograms(logs)
        counts = read_targets(logs, histograms)
        model = AdForecaster(n_segments=_SEGMENTS)
        return model.fit(histograms, read_descriptions(logs), targets=counts), counts


def _columns() -> dict[str, slice]:
    """Return where the values of each dimension are, by sorted name."""
    ends = np.cumsum([0, *map(len, DIMENSIONS.values())]).tolist()
    return {name: slice(*pair) for name, pair in zip(DIMENSIONS, pairwise(ends), strict=True)}


def _truth(settings: MarketSettings, traits: Traits) -> Truth:
    """Return win rate, mean cost and clicks of an auction with each value, over the others.

    The price level is the mean of those of the held-out days. With m the log level and s the spread
    of a component, E[max(x, f); x ≤ b] of a log-normal x is f Φ(u_f) + e^{m + s²/2} (Φ(u_b − s) −
    Φ(u_f − s)), u = (log − m) / s.
    """
    bid = np.exp(traits.bid_level)
    held = range(settings.days - _HELD_DAYS, settings.days)
    level = np.mean([draw_day(settings, traits, day).level_shift for day in held], axis=0)
    parts: list[list[Floats]] = [[], [], []]
    for one in traits.effects:
        others = [other for other in traits.effects if other is not one]
        sums = [np.zeros(one.share.shape) for _ in range(3)]
        for codes in product(*(range(len(other.values)) for other in others)):
            share, shift, click = np.ones(len(bid)), level, np.ones(len(bid))
            for other, v in zip(others, codes, strict=True):
                share = share * other.share[:, v]
                shift = shift + other.shift[:, v]
                click = click * other.click[:, v]
            won, cost = _auction(settings, traits, bid, one.shift + shift[:, None])
            sums[0] += share[:, None] * won
            sums[1] += share[:, None] * cost
            sums[2] += (share * click * traits.click_rate)[:, None] * one.click * won
        for part, found in zip(parts, sums, strict=True):
            part.append(found)
    return Truth(*(np.hstack(part) for part in parts))


def _auction(
    settings: MarketSettings, traits: Traits, bid: Floats, shift: Floats
) -> tuple[Floats, Floats]:
    """Return the win rate and the mean cost of an auction, in currency per thousand, (A, V)."""
    won, cost = np.zeros(shift.shape), np.zeros(shift.shape)
    floor, top = traits.floor[:, None], bid[:, None]
    for c in (0, 1):
        m, s = traits.market_level[:, c, None] + shift, traits.market_spread[:, c, None]
        at_bid = (np.log(top) - m) / s
        at_floor = (np.log(np.maximum(floor, 1e-12)) - m) / s
        part = traits.market_share[:, c, None]
        won += part * ndtr(at_bid)
        between = np.exp(m + s**2 / 2) * (ndtr(at_bid - s) - ndtr(at_floor - s))
        cost += part * (floor * ndtr(at_floor) + between)
    reached = top >= floor
    return won * reached, (cost if settings.auction == "second" else won * top) * reached


def _held_out(settings: MarketSettings, traits: Traits) -> Truth:
    """Return impressions, spend and clicks of the held-out days at the advertiser's bid, (A, V)."""
    bid = np.exp(traits.bid_level)
    places = _columns()
    V = sum(len(values) for values in DIMENSIONS.values())
    sums = np.zeros((3, len(bid), V))
    for day in range(settings.days - _HELD_DAYS, settings.days):
        rng = np.random.default_rng((settings.seed, day))
        for batch in auction_batches(settings, traits, day):
            who = batch["advertiser"]
            minimum = batch["minimum"] / 1e6
            won = minimum <= bid[who]
            rate = traits.click_rate[who].copy()
            for one in traits.effects:
                rate *= one.click[who, batch[one.name]]
            click = won & (rng.random(len(who)) < rate)
            price = np.where(won, minimum if settings.auction == "second" else bid[who], 0) / 1000
            for one in traits.effects:
                at = who * V + places[one.name].start + batch[one.name]
                for part, values in enumerate((won, price, click)):
                    sums[part] += np.bincount(at, values, len(bid) * V).reshape(len(bid), V)
    return Truth(*sums)


def _measures(truth: Truth, traits: Traits) -> dict[str, Floats]:
    """Return what is chosen by, (A, V) each, from means of one auction."""
    share = np.hstack([one.share for one in traits.effects])
    return {
        "impressions": share * truth.impressions,
        "clicks": share * truth.clicks,
        "cost per click": truth.cost / np.maximum(truth.clicks, 1e-300),
    }


def _ranked(
    model: AdForecaster,
    traits: Traits,
    rows: NDArray[np.int64],
    day: str,
    actual: tuple[Truth, Truth],
) -> tuple[dict[str, Floats], dict[str, list[float]], dict[str, list[tuple[float, bool]]]]:
    """Return what the model chooses by, which intervals covered, and chances of first values.

    Values are in planted order. A chance is what was stated of the value that is ranked first, and
    whether it is the best.
    """
    truth, outcome = actual
    places = {
        (name, value): at.start + v
        for name, at in _columns().items()
        for v, value in enumerate(DIMENSIONS[name])
    }
    shape = len(rows), len(places)
    found = {goal: np.full(shape, -np.inf if goal != GOALS[2] else np.inf) for goal in GOALS}
    covered: dict[str, list[float]] = {}
    chances: dict[str, list[tuple[float, bool]]] = {goal: [] for goal in GOALS}
    best = {goal: _pick(each[rows], goal) for goal, each in _measures(truth, traits).items()}
    for a, (name, row) in enumerate(zip(model.advertisers_, rows, strict=True)):
        bid = float(np.exp(traits.bid_level[row]))
        for goal, by in _BY.items():
            ranked = rank_targets(model, str(name), bid, by=by, day=day, days=_HELD_DAYS).targets
            for d, dimension in enumerate(DIMENSIONS):
                first = next(one for one in ranked if one.dimension == dimension)
                is_best = bool(places[dimension, first.value] == best[goal][a, d])
                chances[goal].append((first.chance_best or 0.0, is_best))
        for one in ranked:
            v = places[one.dimension, one.value]
            found["impressions"][a, v] = one.impressions
            found["clicks"][a, v] = one.clicks
            found["cost per click"][a, v] = one.cost_per_click
            per_click = truth.cost[row, v] / max(truth.clicks[row, v], 1e-300) / 1000
            ecpm = truth.cost[row, v] / max(truth.impressions[row, v], 1e-300)
            for what, ends, value in (
                ("impressions", one.impressions_interval, outcome.impressions[row, v]),
                ("spend", one.spend_interval, outcome.cost[row, v]),
                ("clicks", one.clicks_interval, outcome.clicks[row, v]),
                # in first price it is the bid
                ("true eCPM", one.cost_interval if model.auction_ == "second" else None, ecpm),
                ("true cost per click", one.cost_per_click_interval, per_click),
            ):
                if ends is not None:
                    covered.setdefault(what, []).append(float(ends[0] <= value <= ends[1]))
    means = {what: [float(np.mean(each)), len(each)] for what, each in covered.items()}
    return found, means, chances


def _same(labels: NDArray[np.int64]) -> Floats:
    return (labels[:, None] == labels).astype(np.float64)


def _sums(counts: TargetCounts, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Return wins, cost and clicks of groups of advertisers, in the planted order of values."""
    order = []
    for name, at in _columns().items():
        columns = np.flatnonzero(counts.dimension == counts.dimensions.index(name))
        names = counts.values[columns].tolist()
        assert at.stop - at.start == len(DIMENSIONS[name])
        order += [
            int(columns[names.index(value)]) if value in names else -1 for value in DIMENSIONS[name]
        ]
    wins, cost, clicks = (
        weights @ np.pad(counts.totals(name), ((0, 0), (0, 1)))[:, order]
        for name in ("wins", "cost", "clicks")
    )
    return wins, cost, clicks


def _by_counts(wins: Floats, cost: Floats, clicks: Floats) -> dict[str, Floats]:
    """Return what a record chooses by; its click rates are drawn to its own mean by one click."""
    device = slice(0, len(DIMENSIONS["device"]))
    overall = clicks[:, device].sum() / max(wins[:, device].sum(), 1.0)
    total, number = (part[:, device].sum(axis=1, keepdims=True) for part in (clicks, wins))
    mean = (total + 1) / (number + 1 / overall)
    rate = (clicks + 1) / (wins + 1 / mean)
    paid = cost[:, device].sum(axis=1, keepdims=True) / np.maximum(number, 1.0)
    price = np.where(wins > 0, cost / np.maximum(wins, 1.0), paid)
    return {"impressions": wins, "clicks": wins * rate, "cost per click": price / rate}


def _pick(measure: Floats, goal: str) -> NDArray[np.int64]:
    """Return the chosen value of each advertiser and dimension, (A, dimensions)."""
    best = np.argmin if goal == "cost per click" else np.argmax
    return np.column_stack(
        [at.start + best(measure[:, at], axis=1) for at in _columns().values()]
    ).astype(np.int64)


def _regret(truth: Floats, picks: Any, best: Any, goal: str) -> Floats:
    """Return the relative loss of the choice, mean over dimensions, (A,)."""
    chosen, most = (np.take_along_axis(truth, places, axis=1) for places in (picks, best))
    loss = chosen / most - 1 if goal == "cost per click" else 1 - chosen / np.maximum(most, 1e-300)
    return np.asarray(loss.mean(axis=1))


def _split(regret: Floats, stratum: NDArray[np.int64]) -> dict[str, list[float]]:
    return {name: regret[stratum == place].tolist() for place, name in enumerate(STRATA)}


def _won(outcome: Truth, rows: NDArray[np.int64], picks: Any) -> list[float]:
    """Return held-out impressions, spend and clicks of the choices of all advertisers."""
    return [float(np.take_along_axis(part[rows], picks, axis=1).sum()) for part in outcome]


def _summary(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Return means over the advertisers of all draws, and paired differences from own records."""
    regret: dict[str, Any] = {}
    for goal, stratum, rule in product(GOALS, STRATA, RULES):
        own, found = (
            np.concatenate([cell["regret"][goal][one][stratum] for cell in cells])
            for one in (RULES[0], rule)
        )
        less = own - found
        regret.setdefault(goal, {}).setdefault(stratum, {})[rule] = {
            "mean": float(found.mean()),
            "less": float(less.mean()),
            "error": float(less.std(ddof=1) / np.sqrt(len(less))),
            "advertisers": len(found),
        }
    outcome = {
        goal: {
            rule: np.sum([cell["outcome"][goal][rule] for cell in cells], axis=0).tolist()
            for rule in (*RULES, "best")
        }
        for goal in GOALS
    }
    kinds = cells[0]["covered"]
    covered = {
        kind: float(
            np.average(
                [cell["covered"][kind][0] for cell in cells],
                weights=[cell["covered"][kind][1] for cell in cells],
            )
        )
        for kind in kinds
    }
    chances = {}
    for goal in GOALS:
        stated, is_best = np.concatenate([cell["chances"][goal] for cell in cells]).T
        place = np.clip(np.digitize(stated, _CHANCES) - 1, 0, len(_CHANCES) - 2)
        chances[goal] = [
            [float(part[place == i].mean()) for part in (stated, is_best)]
            if any(place == i)
            else None
            for i in range(len(_CHANCES) - 1)
        ] + [[float(stated.mean()), float(is_best.mean())]]
    return {"regret": regret, "outcome": outcome, "covered": covered, "chances": chances}


def _rows_of(summary: dict[str, Any]) -> list[tuple[str, str, str, dict[str, Any]]]:
    return [
        (market, goal, stratum, summary[market]["regret"][goal][stratum])
        for market, goal, stratum in product(summary, GOALS, STRATA)
    ]


def _regrets(summary: dict[str, Any]) -> Table:
    cells = _rows_of(summary)
    figures = [[100 * found[rule]["mean"] for rule in RULES] for *_, found in cells]
    rows = [
        (market, goal, stratum, str(found[RULES[0]]["advertisers"]), *(f"{x:.1f}" for x in each))
        for (market, goal, stratum, found), each in zip(cells, figures, strict=True)
    ]
    return Table(
        "Regret of the chosen value against the truly best one, in percent",
        ("market", "goal", "advertisers with", "number", *RULES),
        rows,
        n_named=3,
        bold=best_cells(figures, 4, lowest=True, digits=1),
    )


def _differences(summary: dict[str, Any]) -> Table:
    rows = [
        (
            *(market, goal, stratum),
            f"{100 * found['coterie']['less']:+.1f} ± {100 * found['coterie']['error']:.1f}",
        )
        for market, goal, stratum, found in _rows_of(summary)
    ]
    return Table(
        "Regret of own records minus regret of coterie, in points, ± paired standard error",
        ("market", "goal", "advertisers with", "difference"),
        rows,
        n_named=3,
    )


def _chances(summary: dict[str, Any]) -> Table:
    rows = [
        (
            *(market, goal),
            *(
                "" if pair is None else f"{pair[0]:.2f} / {pair[1]:.2f}"
                for pair in summary[market]["chances"][goal]
            ),
        )
        for market, goal in product(summary, GOALS)
    ]
    bins = [f"{low:g} to {high:g}" for low, high in pairwise(_CHANCES)]
    return Table(
        "Probability that the value ranked first is the best: stated / true, by what was stated",
        ("market", "goal", *bins, "all"),
        rows,
        n_named=2,
    )


def _outcomes(summary: dict[str, Any]) -> Table:
    rows = []
    for market, goal in product(summary, GOALS):
        found = summary[market]["outcome"][goal]
        amounts = {rule: _amount(won, goal) for rule, won in found.items()}
        texts = [f"{amounts[rule] / amounts['best']:.3f}" for rule in RULES]
        rows.append((market, goal, *texts))
    return Table(
        "Held-out outcome of the choices over that of the truly best ones",
        ("market", "goal", *RULES),
        rows,
        n_named=2,
    )


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _amount(won: list[float], goal: str) -> float:
    impressions, spend, clicks = won
    return {"impressions": impressions, "clicks": clicks}.get(goal, spend / max(clicks, 1.0))


def _coverage(summary: dict[str, Any]) -> Table:
    kinds = list(next(iter(summary.values()))["covered"])
    rows = [
        (market, *(_share(summary[market]["covered"].get(kind)) for kind in kinds))
        for market in summary
    ]
    return Table("Coverage of intervals of 90%, over all values", ("market", *kinds), rows)
