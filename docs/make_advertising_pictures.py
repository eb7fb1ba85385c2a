"""Draw the pictures of the advertising pages: bid_log, landscape, intervals, budget and targets.

All are of simulated markets. Run ``python docs/make_advertising_pictures.py``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from PIL import Image

from coterie import ads

IMAGES = Path(__file__).parent / "images"
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#808080"
#: The market of the pages, an advertiser with a thousand bids, a thin and a large one.
MARKET = ads.MarketSettings(advertisers=120, segments=4, seed=1)
USUAL, THIN, LARGE = "adv-00033", "adv-00101", "adv-00106"
#: The market with dimensions, and its advertiser.
TARGETED = ads.MarketSettings(
    advertisers=150, segments=4, days=5, bids_per_day=200, dimensions=2, seed=3
)
AIMING = "adv-00007"


def main(images: Path = IMAGES) -> None:
    """Fit the two markets and draw everything."""
    with tempfile.TemporaryDirectory() as folder:
        histograms, texts, _ = read(MARKET, f"{folder}/market", [])
        model = ads.AdForecaster(n_segments=4).fit(histograms, texts)
        save(draw_log(histograms), images / "bid_log.png")
        save(draw_landscape(model), images / "landscape.png")
        save(draw_intervals(model, histograms, texts), images / "intervals.png")
        save(draw_budget(model), images / "budget.png")
        histograms, texts, targets = read(TARGETED, f"{folder}/targeted", ["device", "hour"])
        model = ads.AdForecaster(n_segments=4).fit(histograms, texts, targets=targets)
        save(draw_targets(model), images / "targets.png")


def read(settings: ads.MarketSettings, folder: str, dimensions: list[str]) -> Any:
    """Simulate a market; return its histograms, texts and counts by dimension."""
    ads.simulate_logs(settings, folder)
    logs = ads.open_logs(folder, dimensions=dimensions)
    histograms = ads.read_histograms(logs)
    targets = ads.read_targets(logs, histograms) if dimensions else None
    return histograms, ads.read_descriptions(logs), targets


def draw_log(histograms: ads.BidHistograms) -> Figure:
    """Draw the bids of an advertiser, and the share of auctions that a bid wins."""
    figure, (left, right) = panels()
    row = histograms.advertisers.tolist().index(USUAL)
    counts, evidence = histograms.dense(), ads.evidence_of(histograms)
    bid = histograms.edges / 1e6
    edges = np.geomspace(0.8, 9, 36)
    won, bids = counts.wins[row], counts.bids[row]
    left.hist(
        [bid, bid], edges, weights=[won, bids - won], stacked=True, color=[BLUE, "#c0c8d0"],
        label=["won", "lost"],
    )  # fmt: skip
    left.set(title="the bids of one advertiser, counted", ylabel="bids")
    left.legend(frameon=False)
    own = ads.own_curves(evidence)[row]
    right.step(bid, own, where="post", color=BLUE)
    right.set(title="its win rate: share of auctions that a bid wins", ylim=(0, 1))
    right.yaxis.set_major_formatter(percent)
    for axes in (left, right):
        bid_axis(axes, 0.8, 9)
    return figure


def draw_landscape(model: ads.AdForecaster) -> Figure:
    """Draw win rate and cost by bid of an advertiser with few bids."""
    figure, (left, right) = panels()
    curve = model.curve(THIN)
    left.fill_between(curve.bid, curve.low, curve.high, color=BLUE, alpha=0.2, lw=0)
    left.plot(curve.bid, curve.segment, "--", color=GREEN, label="segment alone")
    left.step(curve.bid, curve.own, where="post", color=GREY, lw=1, label="own auctions alone")
    left.plot(curve.bid, curve.win, color=BLUE, label="forecast, 90% interval")
    left.set(title="share of auctions won", ylim=(0, 1))
    left.yaxis.set_major_formatter(percent)
    left.legend(frameon=False, loc="upper left")
    # the cost of a few wins is noise
    known = curve.win > 0.01
    right.plot(curve.bid[known], curve.cost[known], color=BLUE, label="mean of all impressions")
    right.plot(
        curve.bid[known], curve.marginal[known], color=ORANGE, label="marginal: the next thousand"
    )
    right.plot(curve.bid, curve.bid, ":", color=GREY, label="the bid itself")
    right.set(title="cost of a thousand impressions", ylim=(0, 7))
    right.legend(frameon=False, loc="upper left")
    for axes in (left, right):
        bid_axis(axes, 1, 9)
    return figure


def draw_intervals(model: ads.AdForecaster, histograms: Any, texts: Any) -> Figure:
    """Draw a forecast of a week by bid, and forecasts of a day that was held out."""
    figure, (left, right) = panels()
    bids = np.geomspace(1, 9, 80)
    for level, alpha in ((0.95, 0.12), (0.8, 0.18), (0.5, 0.28)):
        found = model.forecast(USUAL, bids, days=7, level=level)
        ends = np.array([one.impressions_interval for one in found]).T
        left.fill_between(bids, *ends, color=BLUE, alpha=alpha, lw=0, label=f"{level:.0%} interval")
    left.plot(bids, [one.impressions for one in found], color=BLUE, label="mean")
    left.set(title="impressions of the next seven days", ylim=0)
    left.legend(frameon=False, loc="upper left")
    bid_axis(left, 1, 9)

    settings = ads.SegmentSettings(n_segments=4, origins=2)
    tested = ads.evaluate(histograms, texts, settings=settings)
    stated = next(one for one in tested.intervals if (one.level, one.supply) == (0.9, "forecast"))
    shown = (tested.truth.impressions > 0) & (tested.observations > 0)
    truth = tested.truth.impressions[shown]
    low, high = (ends["impressions"][shown] for ends in (stated.low, stated.high))
    inside = (truth >= low) & (truth <= high)
    for chosen, colour, label in (
        (inside, BLUE, f"{inside.sum()} inside"), (~inside, ORANGE, f"{(~inside).sum()} outside"),
    ):  # fmt: skip
        right.vlines(
            truth[chosen], np.maximum(low[chosen], 0.8), high[chosen], color=colour, lw=1.2,
            label=label,
        )  # fmt: skip
    right.plot([1, 1e4], [1, 1e4], color=GREY, lw=0.8)
    right.set(
        xscale="log", yscale="log", xlim=(1, 1e4), ylim=(1, 1e4), xlabel="actual impressions",
        title="a held-out day: 90% intervals by advertiser",
    )  # fmt: skip
    right.legend(frameon=False, loc="upper left")
    return figure


def draw_budget(model: ads.AdForecaster) -> Figure:
    """Draw what is spent day by day, at the bid that uses the budget and at a higher one."""
    figure, axes = panels()
    using = ads.plan_budget(model, LARGE, 20, days=7)
    high = ads.plan_budget(model, LARGE, 20, bid=4, days=7)
    for one, plan, colour in zip(axes, (using, high), (BLUE, ORANGE), strict=True):
        spent = np.array([0, *(day.spent for day in plan.by_day)])
        ends = np.array([(0, 0), *(day.spent_interval for day in plan.by_day)]).T
        one.fill_between(range(8), *ends, color=colour, alpha=0.2, lw=0, label="90% interval")
        one.plot(range(8), spent, marker="o", ms=3.5, color=colour, label="mean")
        one.axhline(20, color=GREY, lw=1, ls="--")
        one.text(0.05, 20.3, "budget", color=GREY, va="bottom")
        one.set(
            title=f"bid {plan.bid:.2f}: {plan.impressions:,.0f} impressions", xlabel="day",
            ylabel="USD spent until its end", ylim=(0, 23), xlim=(0, 7.1),
        )  # fmt: skip
        one.legend(frameon=False, loc="lower right")
    return figure


def draw_targets(model: ads.AdForecaster) -> Figure:
    """Draw the cost of a click on each device, how large it is, and how sure its rank."""
    figure, (left, right) = panels()
    ranked = ads.rank_targets(model, AIMING, dimension="device", by="cost_per_click").targets[::-1]
    cost = np.array([one.cost_per_click for one in ranked])
    ends = np.array([one.cost_per_click_interval for one in ranked]).T
    left.errorbar(
        cost, range(len(ranked)), xerr=np.abs(ends - cost), fmt="o", color=BLUE, capsize=3
    )
    left.set(
        yticks=range(len(ranked)), yticklabels=[one.value for one in ranked], xlim=0,
        ylim=(-0.5, len(ranked) - 0.5), title="cost of a click by device, USD",
    )  # fmt: skip
    left.grid(axis="y", visible=False)
    share = [one.share for one in ranked]
    chance = [one.chance_best for one in ranked]
    places = np.arange(len(ranked))
    right.barh(places + 0.2, share, 0.36, color="#c0c8d0", label="share of its auctions")
    right.barh(places - 0.2, chance, 0.36, color=BLUE, label="probability of being the best")
    right.set(
        yticks=places, yticklabels=[one.value for one in ranked], xlim=(0, 1),
        ylim=(-0.6, len(ranked) - 0.4), title="how large it is, and how sure",
    )  # fmt: skip
    right.xaxis.set_major_formatter(percent)
    right.legend(frameon=False, loc="lower right")
    right.grid(axis="y", visible=False)
    return figure


def panels() -> tuple[Figure, Any]:
    """Return a figure with two panels."""
    figure, axes = plt.subplots(1, 2, figsize=(9.2, 3.3), layout="constrained")
    for one in axes:
        one.grid(color="0.92", linewidth=0.8)
        one.set_axisbelow(True)
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def bid_axis(axes: Axes, low: float, high: float) -> None:
    """Make the axis of bids logarithmic."""
    axes.set(xscale="log", xlim=(low, high), xlabel="bid, USD per thousand impressions")
    axes.set_xticks([tick for tick in (1, 2, 3, 5, 8) if low <= tick <= high])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def percent(value: float, _: int) -> str:
    """Write a share as the label of an axis."""
    return f"{value:.0%}"


def save(figure: Figure, path: Path) -> None:
    """Write a small PNG."""
    figure.savefig(path, dpi=110, facecolor="white")
    plt.close(figure)
    # a palette needs a third of the space
    picture = Image.open(path).convert("RGB").quantize(96, dither=Image.Dither.NONE)
    picture.save(path, optimize=True)


if __name__ == "__main__":
    main()
