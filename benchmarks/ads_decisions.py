"""Are decisions right? Goals, budgets and portfolios of simulated markets, against what happened.

A model is fitted to two weeks. The third week is simulated with the price that every auction would
have cost, so that what any bid wins and pays there is known exactly. In markets with floors, half
of the auctions have one of seven reserve prices.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog

from benchmarks.ads import simulate
from benchmarks.harness import FORECASTS, Context
from benchmarks.results import Result, Table, figure_text, seconds_text
from benchmarks.true_curves import day_shifts, true_win_rates
from coterie.ads import AdForecaster, MarketSettings, bid_for, plan_budget, split_budget
from coterie.ads.decisions.decision_answers import BudgetSplit
from coterie.ads.decisions.portfolios import allocate
from coterie.ads.forecasts.forecast_figures import COLUMNS
from coterie.ads.logs.simulation.simulated_logs import auction_batches
from coterie.ads.logs.simulation.simulated_traits import COMMON_FLOORS, Traits

Floats = NDArray[np.float64]
TRAINING, PLANNED = 14, 7
#: Budgets, in parts of the expected spend at the mean bid.
PARTS = (0.5, 1.0)
_MICROS, _DAY = 1e6, 86_400e6
#: Markets by name: settings of each.
MARKETS: dict[str, dict[str, Any]] = {
    "second": {"auction": "second"},
    "first": {"auction": "first"},
    "second, floors": {"auction": "second", "common_floors": 0.5},
    "first, floors": {"auction": "first", "common_floors": 0.5},
}
#: Goals are the means at bids up to so far from the mean bid, in log units.
_FAR = 0.5
#: Goals of advertisers with so many bids count, if they are larger than this.
_GOAL_BIDS, _LEAST_GOAL = 200, 5.0
#: So many goals are asked for, and budgets planned, in a market.
_PLANS = 300
_FEWEST_BIDS = 50
#: Points of a curve between two edges of the grid, for the solver.
_BETWEEN = 5
#: The solver takes minutes for more advertisers.
_SOLVED = 20

MEASURES = (*FORECASTS, "ads/decisions")


def run(context: Context, *, draws: int = 3, advertisers: int = 1000, jobs: int = 1) -> Result:
    """Measure every kind of market; a quick run has one draw of each."""
    kept = context.trials("ads_decisions")
    n_draws = 1 if context.quick else draws
    markets = [
        {**MARKETS[name], "advertisers": advertisers, "seed": 100 + draw}
        for name in MARKETS
        for draw in range(n_draws)
    ]
    outcomes = kept.run_all(markets, run_market, jobs, partial(context.track, title="deciding"))
    found = {
        name: outcomes[place * n_draws : (place + 1) * n_draws]
        for place, name in enumerate(MARKETS)
    }
    means = {name: _means(trials) for name, trials in found.items()}
    tables = [_goal_table(means), _budget_table(means), _portfolio_table(means)]
    tables.append(_speed_table(means))
    data = {"means": means, "trials": found}
    return Result("ads_decisions", tables, data)


def run_market(market: dict[str, Any]) -> dict[str, Any]:
    """Fit two weeks of a market, decide for the third, and compare."""
    settings = MarketSettings(
        **market,
        days=TRAINING + PLANNED,
        newcomers=0.0,
        bid_move=0.0,
    )
    histograms, texts, traits, rows = simulate(settings)
    model = AdForecaster().fit(histograms.for_days(range(TRAINING)), texts)
    week = _Week.of(settings, traits, rows, len(model.advertisers_))
    shift = day_shifts(settings, traits)[TRAINING:].mean(axis=0)

    def true_rates(bids: Floats) -> Floats:
        return true_win_rates(settings, traits, shift, bids * _MICROS)[rows[: len(week.starts) - 1]]

    return {
        **_goals(model, week, true_rates),
        **_budgets(model, week),
        **_portfolio(model, week),
        **_speed(model),
    }


class _Week(NamedTuple):
    """All auctions of the planned week, by advertiser and time."""

    starts: NDArray[np.int64]  # (A + 1,), of each advertiser
    minimum: Floats  # (N,), the least bid that wins, in currency units
    day: Floats  # (N,), time in days from the start of the week
    pays_bid: bool

    @classmethod
    def of(cls, settings: MarketSettings, traits: Traits, rows: Any, n: int) -> _Week:
        parts = [
            (batch["advertiser"], batch["minimum"], batch["ts"])
            for day in range(TRAINING, TRAINING + PLANNED)
            for batch in auction_batches(settings, traits, day)
        ]
        who, minimum, when = (np.concatenate(column) for column in zip(*parts, strict=True))
        place = np.full(settings.advertisers, -1)
        place[rows[:n]] = np.arange(n)
        who, known = place[who], place[who] >= 0
        order = np.lexsort((when[known], who[known]))
        start = np.datetime64(settings.start, "us").astype(np.int64) + TRAINING * _DAY
        return cls(
            np.searchsorted(who[known][order], np.arange(n + 1)),
            minimum[known][order] / _MICROS,
            (when[known][order] - start) / _DAY,
            settings.auction == "first",
        )

    def won(self, row: int, bid: float) -> tuple[Floats, Floats]:
        """Return the costs of the auctions that a bid wins, and their times."""
        some = slice(self.starts[row], self.starts[row + 1])
        minimum, day = self.minimum[some], self.day[some]
        wins = minimum <= bid
        cost = np.full(wins.sum(), bid) if self.pays_bid else minimum[wins]
        return cost / 1000.0, day[wins]


def _goals(model: AdForecaster, week: _Week, true_rates: Any) -> dict[str, float | None]:
    """Return how often goals were met at the bid and at the safe bid.

    Goals "at floors" lie strictly between what is won in truth just below a floor and at it, not
    farther than :data:`_FAR` from the mean bid. The floor is then the least bid that reaches the
    goal, and more is won there on average: it is met more often than not even if the market is
    known. "floor known" is how often.
    """
    rng = np.random.default_rng(0)
    busy = np.flatnonzero(model.observations_ >= _GOAL_BIDS)
    chosen = rng.choice(busy, min(_PLANS, len(busy)), replace=False)
    jumps = true_rates(COMMON_FLOORS) - true_rates(0.999 * COMMON_FLOORS)
    kinds = ("goal", "safe", "floor", "floor safe", "floor known")
    met: dict[str, list[bool]] = {name: [] for name in kinds}
    for row in chosen.tolist():
        name, bid = str(model.advertisers_[row]), float(model.bid_[row]) / _MICROS
        prepared = model.prepare_forecast(name, days=PLANNED)
        asked = bid * float(np.exp(rng.uniform(-_FAR, _FAR)))
        goals = [("goal", "safe", float(prepared.figures(asked)[0, COLUMNS["impressions"]]))]
        near = (np.abs(np.log(COMMON_FLOORS / bid)) < _FAR) & (jumps[row] > 0.01)
        if near.any():
            k = int(rng.choice(np.flatnonzero(near)))
            rate = true_rates(COMMON_FLOORS)[row, k] - rng.uniform(0.2, 0.8) * jumps[row, k]
            amount = prepared.supply * float(rate)
            goals.append(("floor", "floor safe", amount))
            if amount > _LEAST_GOAL:
                won = len(week.won(row, float(COMMON_FLOORS[k]))[0])
                met["floor known"].append(won >= amount)
        for at_bid, at_safe, amount in goals:
            found = bid_for(model, name, impressions=max(amount, 1e-9), days=PLANNED)
            for kind, chosen_bid in ((at_bid, found.bid), (at_safe, found.safe_bid)):
                if chosen_bid is not None and amount > _LEAST_GOAL:
                    met[kind].append(len(week.won(row, chosen_bid)[0]) >= amount)
    return {f"{kind} met": float(np.mean(each)) if each else None for kind, each in met.items()}


def _budgets(model: AdForecaster, week: _Week) -> dict[str, float]:
    """Return how often intervals contain what happened, at 90%."""
    rng = np.random.default_rng(0)
    busy = np.flatnonzero(model.observations_ >= _FEWEST_BIDS)
    chosen = rng.choice(busy, min(_PLANS, len(busy)), replace=False)
    inside: dict[str, list[bool]] = {"impressions": [], "spend": [], "until": [], "lasted": []}
    stated = []
    for number, row in enumerate(chosen.tolist()):
        name, bid = str(model.advertisers_[row]), float(model.bid_[row]) / _MICROS
        expected = model.forecast(name, bid, days=PLANNED).spend
        budget = PARTS[number % 2] * expected
        plan = plan_budget(model, name, budget, bid=bid, days=PLANNED)
        cost, day = week.won(row, bid)
        spent = np.cumsum(cost)
        n_bought = int(np.searchsorted(spent, budget, side="right"))
        lasted = n_bought == len(cost)
        inside["impressions"].append(_within(n_bought, plan.impressions_interval, 1.0))
        paid = float(spent[n_bought - 1]) if n_bought else 0.0
        # the last auction bought may leave less than its price
        inside["spend"].append(_within(paid, plan.spend_interval, float(cost.max(initial=0.0))))
        inside["lasted"].append(lasted)
        stated.append(plan.lasts)
        if not lasted and plan.days_until_empty_interval is not None:
            until = float(day[n_bought])
            inside["until"].append(_within(until, plan.days_until_empty_interval, 0.0))
    found = {f"{name} inside": float(np.mean(each)) for name, each in inside.items()}
    return {**found, "lasts stated": float(np.mean(stated))}


def _portfolio(model: AdForecaster, week: _Week) -> dict[str, float]:
    """Return what divisions of a budget bought: ours, the log's, and the best in hindsight."""
    budget = split_budget(model, days=PLANNED).budget / 2
    found = split_budget(model, budget, days=PLANNED)
    row_of = {str(name): row for row, name in enumerate(model.advertisers_)}
    ours = {row_of[one.advertiser]: one.bid or 0.0 for one in found.allocations}
    log = {
        row_of[one.advertiser]: _bid_spending(model, one.advertiser, one.log_spend)
        for one in found.allocations
    }
    bought = {name: _bought(week, bids) for name, bids in (("ours", ours), ("log", log))}
    best = _in_hindsight(week, list(ours), budget)
    return {
        "gain stated": float(found.gain or 0.0),
        # for equal money: both spend what they were given only on average
        **{
            f"{name} amount": impressions * min(budget / spend, 1.0)
            for name, (impressions, spend) in bought.items()
        },
        **{f"{name} spend": spend / budget for name, (_, spend) in bought.items()},
        "best amount": best,
    }


def _bid_spending(model: AdForecaster, name: str, money: float) -> float:
    if money <= 0:
        return 0.0
    found = bid_for(model, name, spend=money * (1 - 1e-9), days=PLANNED)
    return found.forecast.bid


def _bought(week: _Week, bids: dict[int, float]) -> tuple[float, float]:
    costs = [week.won(row, bid)[0] for row, bid in bids.items()]
    return float(sum(map(len, costs))), float(sum(cost.sum() for cost in costs))


def _in_hindsight(week: _Week, rows: list[int], budget: float) -> float:
    """Return the most impressions that one bid for each advertiser could have bought."""
    grid = np.exp(np.linspace(np.log(0.05), np.log(60.0), 400))
    spend, amount = np.zeros((2, len(rows), len(grid)))
    for place, row in enumerate(rows):
        minimum = np.sort(week.minimum[week.starts[row] : week.starts[row + 1]])
        number = np.searchsorted(minimum, grid, side="right")
        paid = np.append(0.0, np.cumsum(minimum))[number]
        amount[place], spend[place] = number, (number * grid if week.pays_bid else paid) / 1000.0
    return float(allocate(spend, amount, budget).amount.sum())


def _speed(model: AdForecaster) -> dict[str, float]:
    """Return seconds of each question, and how near a portfolio is to a solver's optimum."""
    name = str(model.advertisers_[int(np.argmax(model.observations_))])
    spend = model.forecast(name, float(model.bid_.max()) / _MICROS, days=PLANNED).spend
    seconds = {
        "goal": _seconds(lambda: bid_for(model, name, spend=spend / 2, days=PLANNED)),
        "budget": _seconds(lambda: plan_budget(model, name, spend / 2, days=PLANNED)),
        "portfolio": _seconds(lambda: split_budget(model, days=PLANNED)),
    }
    found = split_budget(model, days=PLANNED)
    few = [one.advertiser for one in found.allocations[:_SOLVED]]
    some = split_budget(model, None, few, days=PLANNED)
    return {
        **{f"{question} seconds": taken for question, taken in seconds.items()},
        "below the solver": 1.0 - some.amount / _solver_optimum(model, few, some.budget),
        "below the bound": 1.0 - found.amount / _upper_bound(model, found),
    }


def _seconds(ask: Any) -> float:
    """Return the least time of three calls, after one that compiles."""
    ask()
    taken = []
    for _ in range(3):
        started = time.perf_counter()
        ask()
        taken.append(time.perf_counter() - started)
    return min(taken)


def _solver_optimum(model: AdForecaster, names: list[str], budget: float) -> float:
    """Return the optimum of the linear programme over many points of every curve."""
    spend, amount = _curves(model, names)
    alone = sp.kron(sp.eye_array(len(names)), np.ones((1, spend.shape[1])), format="csr")
    limits = sp.vstack([sp.csr_array(spend.reshape(1, -1)), alone], format="csr")
    found = linprog(-amount.ravel(), A_ub=limits, b_ub=[budget] + [1.0] * len(names))
    return -float(found.fun)


def _upper_bound(model: AdForecaster, found: BudgetSplit) -> float:
    """Return what no division exceeds: the dual value μ·B + Σ max (v − μ·s), for any μ ≥ 0."""
    spend, amount = _curves(model, [one.advertiser for one in found.allocations])
    worth = 1000.0 / (found.marginal_cost or np.inf)
    surplus = np.maximum((amount - worth * spend).max(axis=1), 0.0)
    return worth * found.budget + float(surplus.sum())


def _curves(model: AdForecaster, names: list[str]) -> tuple[Floats, Floats]:
    """Return spend and impressions at many bids, (A, P) each."""
    edges = np.append(0.0, model.edges_ / _MICROS)
    parts = np.arange(1, _BETWEEN + 1) / _BETWEEN
    bids = (edges[:-1, None] + np.diff(edges)[:, None] * parts).ravel()
    figures = np.array([model.prepare_forecast(name, days=PLANNED).figures(bids) for name in names])
    return figures[:, :, COLUMNS["spend"]], figures[:, :, COLUMNS["impressions"]]


def _within(value: float, interval: tuple[float, float], slack: float) -> bool:
    return interval[0] - slack <= value <= interval[1] + slack


def _means(trials: list[dict[str, Any]]) -> dict[str, Any]:
    known = {name: [one[name] for one in trials if one[name] is not None] for name in trials[0]}
    return {name: float(np.mean(each)) if each else None for name, each in known.items()}


def _goal_table(means: dict[str, dict[str, Any]]) -> Table:
    def share(name: str) -> Any:
        return lambda market: figure_text(means[market][f"{name} met"], ".3f")

    columns = {
        "market": str,
        "at the bid": share("goal"),
        "at the safe bid": share("safe"),
        "at floors, at the bid": share("floor"),
        "at floors, the floor bid": share("floor known"),
        "at floors, at the safe bid": share("floor safe"),
    }
    return Table.of("Goals: share that is met in the week", means, columns)


def _budget_table(means: dict[str, dict[str, float]]) -> Table:
    def share(name: str) -> Any:
        return lambda auction: f"{means[auction][name]:.3f}"

    columns = {
        "market": str,
        "impressions": share("impressions inside"),
        "spend": share("spend inside"),
        "day it runs out": share("until inside"),
        "it lasts, stated": share("lasts stated"),
        "it lasted": share("lasted inside"),
    }
    return Table.of("Budgets: share of outcomes inside intervals of 90%", means, columns)


def _portfolio_table(means: dict[str, dict[str, float]]) -> Table:
    def gain(auction: str) -> str:
        found = means[auction]
        return f"{found['ours amount'] / found['log amount'] - 1:+.1%}"

    columns: dict[str, Any] = {
        "market": str,
        "gain stated": lambda auction: f"{means[auction]['gain stated']:+.1%}",
        "gain in the week": gain,
        "of the best in hindsight": lambda auction: (
            f"{means[auction]['ours amount'] / means[auction]['best amount']:.3f}"
        ),
        "the log's division": lambda auction: (
            f"{means[auction]['log amount'] / means[auction]['best amount']:.3f}"
        ),
        "spent of the budget": lambda auction: f"{means[auction]['ours spend']:.3f}",
    }
    return Table.of("Portfolios: half the budget of the log, all advertisers", means, columns)


def _speed_table(means: dict[str, dict[str, float]]) -> Table:
    def taken(name: str) -> Any:
        return lambda auction: seconds_text(means[auction][f"{name} seconds"])

    def below(name: str) -> Any:
        return lambda auction: f"{max(means[auction][f'below the {name}'], 0.0):.4%}"

    columns = {
        "market": str,
        "goal": taken("goal"),
        "budget": taken("budget"),
        "portfolio": taken("portfolio"),
        f"below a solver ({_SOLVED} advertisers)": below("solver"),
        "below the bound (all)": below("bound"),
    }
    return Table.of("Seconds of one question, warm", means, columns)
