"""Pictures of the experiments on real advertising data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.ads_real_tables import TITLES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["as_pictures", "ipinyou_picture", "publisher_picture", "snap_picture"]

# Okabe and Ito's colours, which colour-blind readers tell apart
_COLOURS = {"kaplan_meier": "#0072B2", "paid": "#E69F00", "isotonic": "#999999"}
_AMOUNTS = {"impressions": ("#0072B2", "o"), "revenue": ("#D55E00", "s")}


def as_pictures(results: dict[str, Any]) -> dict[str, Figure]:
    """The pictures by the name of their file."""
    return {
        "ads_real_ipinyou.png": ipinyou_picture(results["ipinyou"]),
        "ads_real_publisher.png": publisher_picture(results["publisher"]),
        "ads_real_snap.png": snap_picture(results["snap"]),
    }


def ipinyou_picture(part: dict[str, Any]) -> Figure:
    """Small multiples: for each advertiser the true win curve and three estimates of it."""
    from matplotlib.figure import Figure

    about = part["advertisers"]
    rows = -(-len(about) // 3)
    figure = Figure(figsize=(9.5, 0.6 + 2.5 * rows), layout="constrained")
    panels = figure.subplots(rows, 3, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, advertiser in zip(panels, about, strict=False):
        drawn = part["curves"][advertiser["advertiser"]]
        fen = np.arange(len(drawn["truth"]))
        axes.axvspan(drawn["largest_bid"], fen[-1], color="#f4f4f4", zorder=0)
        axes.step(fen, drawn["truth"], where="post", color="black", lw=2, label="all prices")
        for name, title in TITLES.items():
            axes.step(fen, drawn[name], where="post", color=_COLOURS[name], lw=1.2, label=title)
        axes.set_title(f"{advertiser['advertiser']} {advertiser['industry']}", fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set(xlim=(0, fen[-1]), ylim=(0, 1.02))
    for axes in panels[len(about) :]:
        axes.set_axis_off()
    auctions = part["curves"][about[0]["advertiser"]]["auctions"]
    figure.supxlabel("bid, fen CPM (grey: above the largest bid made)", fontsize=9)
    figure.supylabel(f"share of auctions won; {auctions:,} auctions seen", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure


def publisher_picture(part: dict[str, Any]) -> Figure:
    """A dot plot: WAPE of impressions and of revenue by where the week's shape comes from."""
    from matplotlib.figure import Figure

    sources = part["sources"]
    figure = Figure(figsize=(7.5, 0.9 + 0.42 * len(sources)), layout="constrained")
    axes = figure.subplots()
    for lane, (name, (colour, marker)) in enumerate(_AMOUNTS.items()):
        height = 0.18 * (2 * lane - 1)
        axes.errorbar(
            [told[name]["wape"] for told in sources.values()],
            np.arange(len(sources)) + height,
            xerr=[told[name]["difference_from"]["own"]["se"] for told in sources.values()],
            fmt=marker,
            color=colour,
            markersize=5,
            elinewidth=1,
            label=name,
        )
    for lane, name in enumerate(_AMOUNTS):
        axes.plot(
            [random[name]["mean"] for random in part["random_segments"].values()],
            [list(sources).index(s) + 0.18 * (2 * lane - 1) for s in part["random_segments"]],
            "x",
            color="black",
            label=None if lane else "segments filled at random",
        )
    axes.set_yticks(range(len(sources)), list(sources))
    axes.invert_yaxis()
    axes.set_xlabel("WAPE of order-days held out (bars ± one standard error of the step from own)")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return figure


def snap_picture(part: dict[str, Any]) -> Figure:
    """Every advertiser's eCPM by text segment, with median and quartiles, the dearest on top."""
    from matplotlib.figure import Figure

    segments = part["segments"]
    figure = Figure(figsize=(8.5, 0.9 + 0.5 * len(segments)), layout="constrained")
    axes = figure.subplots()
    rng = np.random.default_rng(0)
    for place, segment in enumerate(segments):
        ecpm = np.array(segment["ecpm"])
        axes.plot(
            ecpm, place + rng.uniform(-0.25, 0.25, len(ecpm)), ".", color="#BBBBBB", markersize=4
        )
        low, middle, high = segment["quartiles"]
        axes.plot([low, high], [place, place], color="#0072B2", lw=3, solid_capstyle="butt")
        axes.plot(middle, place, "o", color="#0072B2", markersize=7)
    axes.axvline(part["median_ecpm"], color="#666666", lw=0.8, ls="--")
    names = [f"{', '.join(s['words'][:3])} ({s['advertisers']})" for s in segments]
    axes.set_yticks(range(len(segments)), names, fontsize=8.5)
    axes.invert_yaxis()
    axes.set_xscale("log")
    ticks = [0.5, 1, 2, 5, 10, 20, 50]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("eCPM, USD (dots: advertisers; blue: median and quartiles; dashed: all)")
    axes.tick_params(length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return figure
