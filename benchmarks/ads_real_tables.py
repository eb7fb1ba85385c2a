"""Tables and sentences of the experiments on real advertising data.

Sentences are made from the figures, so that they stay true when the figures change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.ads_ipinyou import ESTIMATES
from benchmarks.result_tables import ResultTable

__all__ = [
    "as_tables",
    "following_table",
    "ipinyou_by_size_table",
    "ipinyou_findings",
    "ipinyou_table",
    "publisher_differences_table",
    "publisher_findings",
    "publisher_table",
    "snap_explained_table",
    "snap_findings",
    "snap_predicted_table",
    "snap_segments_table",
]

TITLES = {"kaplan_meier": "Kaplan–Meier", "paid": "paid prices", "isotonic": "isotonic"}
_SHOWN_SIZE = 10_000


def as_tables(results: dict[str, Any]) -> list[ResultTable]:
    """All tables, in the order of the page."""
    return [
        ipinyou_table(results["ipinyou"]),
        ipinyou_by_size_table(results["ipinyou"]),
        following_table(results["ipinyou"]),
        publisher_table(results["publisher"]),
        publisher_differences_table(results["publisher"]),
        snap_explained_table(results["snap"]),
        snap_predicted_table(results["snap"]),
        snap_segments_table(results["snap"]),
    ]


def ipinyou_table(part: dict[str, Any]) -> ResultTable:
    """Every advertiser and law of bids at one number of auctions."""
    n = _SHOWN_SIZE if _SHOWN_SIZE in part["sizes"] else max(part["sizes"])
    industry = {about["advertiser"]: about["industry"] for about in part["advertisers"]}
    cells = [cell for cell in part["cells"] if cell["auctions"] == n]
    rows = [
        (
            f"{cell['advertiser']} {industry[cell['advertiser']]}",
            cell["law"],
            f"{cell['win_rate']:.0%}",
            *_error_texts(cell),
        )
        for cell in cells
    ]
    title = f"Error of the win curve from {n:,} auctions, mean ± standard error"
    return _error_table(title, ("advertiser", "bids", "won"), rows, cells)


def ipinyou_by_size_table(part: dict[str, Any]) -> ResultTable:
    """The mean over the advertisers for every law and number of auctions."""
    rows, cells = [], []
    for law in (w["name"] for w in part["laws"]):
        for n in part["sizes"]:
            alike = [c for c in part["cells"] if (c["law"], c["auctions"]) == (law, n)]
            cell = {"errors": {name: _mean_errors(alike, name) for name in ESTIMATES}}
            cells.append(cell)
            rows.append((law, f"{n:,}", *_error_texts(cell)))
    title = f"Error of the win curve, mean over {len(part['advertisers'])} advertisers"
    return _error_table(title, ("bids", "auctions"), rows, cells)


def following_table(part: dict[str, Any]) -> ResultTable:
    """Bids that follow the click rate, against the same bids at random."""
    rows = [
        (
            cell["advertiser"],
            cell["law"],
            f"{round(cell['rank_correlation'], 2) + 0.0:.2f}",
            f"{cell['win_rate']:.0%}",
            *_error_texts(cell),
        )
        for cell in part["following"]
    ]
    n = max((cell["auctions"] for cell in part["following"]), default=0)
    title = f"Bids that go with the price, {n:,} auctions"
    headings = ("advertiser", "bids", "rank correlation", "won")
    return _error_table(title, headings, rows, part["following"])


def ipinyou_findings(part: dict[str, Any]) -> list[str]:
    """What the tables say, in words."""
    cells = part["cells"]
    best = sum(
        _mean_of(c, "kaplan_meier") < min(_mean_of(c, name) for name in ESTIMATES[1:])
        for c in cells
    )
    fewest, most = min(part["sizes"]), max(part["sizes"])
    few, many = ([c for c in cells if c["auctions"] == n] for n in (fewest, most))
    told = ", ".join(
        f"{TITLES[name]} {_over(few, name)} and {_over(many, name)}" for name in ESTIMATES
    )
    sentences = [
        f"Kaplan–Meier has the smallest mean error in {best} of {len(cells)} cells (advertiser × "
        f"law × number of auctions). Mean error over advertisers and laws with {fewest:,} and with "
        f"{most:,} auctions: {told}. More auctions do not mend the naive ratio: to forget the "
        "losses is a bias. The share won by bid has no such bias, but learns only from bids made "
        "nearby."
    ]
    if part["following"]:
        follow = [c for c in part["following"] if c["law"].startswith("following")]
        dealt = [c for c in part["following"] if not c["law"].startswith("following")]
        sentences.append(
            "Kaplan–Meier takes bids and prices to be independent. Where bids follow the click "
            f"rate its mean error is {_over(follow, 'kaplan_meier')}, with the same bids at random "
            f"{_over(dealt, 'kaplan_meier')} (naive ratio: {_over(follow, 'paid')} and "
            f"{_over(dealt, 'paid')}). A bidder that bids by value should have the minimum to win "
            "logged, or estimate its curves by class of value."
        )
    return sentences


def publisher_table(part: dict[str, Any]) -> ResultTable:
    """WAPE and MAPE of every source."""
    measures = ("wape", "wape_thin", "wape_totals", "mape_totals")
    rows, figures = [], []
    for source, told in part["sources"].items():
        values = [told["backtest"]]
        values += [told[name][m] for name in ("impressions", "revenue") for m in measures]
        figures.append(values)
        rows.append((source, _settings_text(told["settings"]), *map(_figure, values)))
    words = ("WAPE", "of thin orders", "of totals", "MAPE of totals")
    headings = (
        "shape of the week",
        "settings",
        "backtest",
        *(f"{name}: {word}" for name in ("impressions", "revenue") for word in words),
    )
    title = f"Errors of {part['orders']} orders over the {part['horizon']} days held out"
    return ResultTable(title, headings, rows, n_named=2, stressed=_smallest(figures, 2))


def publisher_differences_table(part: dict[str, Any]) -> ResultTable:
    """Differences of WAPE with their standard errors, over orders."""
    references = list(part["sources"]["own"]["impressions"]["difference_from"])
    rows = []
    for source, told in part["sources"].items():
        texts = [
            "" if other == source else _signed(told[name]["difference_from"][other])
            for name in ("impressions", "revenue")
            for other in references
        ]
        rows.append((source, *texts))
    headings = (
        "shape of the week",
        *(f"{name}: less {r}" for name in ("impressions", "revenue") for r in references),
    )
    return ResultTable("Difference of WAPE ± standard error, paired by order", headings, rows)


def publisher_findings(part: dict[str, Any]) -> list[str]:
    """What the tables say, in words."""
    sources, dealt = part["sources"], part["random_segments"]
    pooled, alone = sources["segment+pooled"], sources["segment"]
    agreement = ", ".join(
        f"{name} {value:.2f}" for name, value in part["segments"]["view_agreement"].items()
    )
    sentences = []
    for name in ("impressions", "revenue"):
        everyone = sources["global"][name]["wape"]
        sentences.append(
            f"WAPE of {name}: the segment's shape alone {alone[name]['wape']:.3f}, that of all "
            f"orders {everyone:.3f}, that of segments filled at random "
            f"{_with_spread(dealt['segment'][name])}. Pooled with the order's own week: with its "
            f"segment {pooled[name]['wape']:.3f}, with segments filled at random "
            f"{_with_spread(dealt['segment+pooled'][name])}. Against own the former is "
            f"{_compared(pooled[name]['difference_from']['own'])}, against pooling with all "
            f"orders {_compared(pooled[name]['difference_from']['global+pooled'])}."
        )
    return [
        *sentences,
        _verdict(pooled),
        f"Mean adjusted Rand index of each look with the {len(part['segments']['sizes'])} segments "
        f"of the last row: {agreement}. A look near 0 was outvoted.",
        "Most of the error is in the level, which no shape can mend: the totals of "
        f"{part['horizon']} days are off by {pooled['impressions']['wape_totals']:.0%} of the "
        f"impressions, single days by {pooled['impressions']['wape']:.0%}.",
    ]


def snap_explained_table(part: dict[str, Any]) -> ResultTable:
    """η² by number of segments, beside what chance gives."""
    rows = [
        (
            str(told["n_segments"]),
            f"{told['eta_squared']:.3f}",
            f"{told['sd_of_runs']:.3f}",
            f"{told['by_chance']:.3f}",
            f"{told['by_chance_95']:.3f}",
            f"{told['p']:.3f}",
        )
        for told in part["explained"]
    ]
    headings = ("text segments", "η²", "SD of runs", "by chance", "95% of chance below", "p")
    title = "Share of the variance of log eCPM between advertisers explained by text segments"
    return ResultTable(title, headings, rows)


def snap_predicted_table(part: dict[str, Any]) -> ResultTable:
    """Errors for advertisers held out."""
    figures = [[told["rmse_log"], told["wape"]] for told in part["predicted"].values()]
    rows = [
        (
            f"mean of the text segment, {name}" if name.startswith("K") else _WAYS[name],
            f"{told['rmse_log']:.3f}",
            f"{told['wape']:.3f}",
            "" if name == "global" else _signed(told["rmse_less_global"]),
        )
        for name, told in part["predicted"].items()
    ]
    headings = ("told by", "RMSE of log eCPM", "WAPE of eCPM", "RMSE less that of the mean of all")
    title = (
        f"Advertisers held out, {part['folds']}-fold cross-validation, {part['repeats']} repeats"
    )
    return ResultTable(title, headings, rows, stressed=_smallest(figures, 1))


def snap_segments_table(part: dict[str, Any]) -> ResultTable:
    """Telling words of the segments beside their prices."""
    rows = [
        (
            ", ".join(segment["words"]) or "(none)",
            str(segment["advertisers"]),
            *(f"{value:.2f}" for value in segment["quartiles"]),
        )
        for segment in part["segments"]
    ]
    headings = ("telling words", "advertisers", "lower quartile", "median eCPM", "upper quartile")
    return ResultTable("Text segments and what their impressions cost, USD", headings, rows)


def snap_findings(part: dict[str, Any]) -> list[str]:
    """What the tables say, in words."""
    clear = [told["n_segments"] for told in part["explained"] if told["p"] < 0.05]
    most = max(part["explained"], key=lambda told: told["eta_squared"] - told["by_chance"])
    segments = {name: told for name, told in part["predicted"].items() if name.startswith("K")}
    best = min(segments, key=lambda name: segments[name]["rmse_log"])
    ridge = part["predicted"]["ridge"]
    lows, medians, highs = zip(*(segment["quartiles"] for segment in part["segments"]), strict=True)
    overlap = "all their quartile ranges overlap" if max(lows) < min(highs) else "not all overlap"
    more = (
        ": the texts know more than segments of them pass on"
        if ridge["rmse_log"] < segments[best]["rmse_log"]
        else ""
    )
    return [
        f"More is explained than by chance (p < .05) with K = {_listed(clear)}; at the most "
        f"{most['eta_squared']:.1%} with K = {most['n_segments']}, where chance alone explains "
        f"{most['by_chance']:.1%}. Median eCPMs of the {len(medians)} segments shown are from "
        f"{min(medians):.2f} to {max(medians):.2f} dollars; {overlap}.",
        f"For advertisers held out, the RMSE of the best segment means ({best}) against that of "
        f"the mean of all is {_compared(segments[best]['rmse_less_global'])}; that of ridge "
        f"regression on the same text vectors is {_compared(ridge['rmse_less_global'])}{more}.",
    ]


_WAYS = {"global": "mean of all", "ridge": "ridge regression on the text vectors"}


def _error_table(
    title: str,
    named: Sequence[str],
    rows: list[tuple[str, ...]],
    cells: Sequence[dict[str, Any]],
) -> ResultTable:
    """Largest and mean errors of the three estimates; the smallest of each in bold."""
    stressed = set()
    for r, cell in enumerate(cells):
        for m, measure in enumerate(("worst", "mean")):
            values = [round(cell["errors"][name][measure]["mean"], 3) for name in ESTIMATES]
            best = min(values)
            stressed |= {
                (r, len(named) + m * len(values) + c) for c, v in enumerate(values) if v == best
            }
    headings = (
        *named,
        *(f"{word}, {TITLES[name]}" for word in ("largest", "mean") for name in ESTIMATES),
    )
    return ResultTable(title, headings, rows, n_named=len(named), stressed=stressed)


def _error_texts(cell: dict[str, Any]) -> list[str]:
    return [
        _with_error(cell["errors"][name][measure])
        for measure in ("worst", "mean")
        for name in ESTIMATES
    ]


def _with_error(value: dict[str, float | None]) -> str:
    return f"{value['mean']:.3f}" + ("" if value["se"] is None else f" ± {value['se']:.3f}")


def _mean_errors(cells: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    return {
        m: {"mean": float(np.mean([c["errors"][name][m]["mean"] for c in cells])), "se": None}
        for m in ("worst", "mean")
    }


def _mean_of(cell: dict[str, Any], name: str) -> float:
    return float(cell["errors"][name]["mean"]["mean"])


def _over(cells: Sequence[dict[str, Any]], name: str) -> str:
    return f"{np.mean([_mean_of(cell, name) for cell in cells]):.3f}"


def _settings_text(settings: dict[str, float]) -> str:
    words = {"n_segments": "K = {:g}", "strength": "strength {:g}", "half_life": "half-life {:g}"}
    return ", ".join(words[name].format(value) for name, value in settings.items())


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _smallest(figures: Sequence[Sequence[float | None]], n_named: int) -> set[tuple[int, int]]:
    """Where the smallest of each column stands, as printed."""
    table = np.round(np.array(figures, dtype=np.float64), 3)
    least = np.min(table, axis=0, initial=np.inf, where=~np.isnan(table))
    return {(int(r), int(c) + n_named) for r, c in np.argwhere(table == least)}


def _signed(difference: dict[str, float]) -> str:
    # + 0.0: no minus before nothing
    mean = round(difference["mean"], 3) + 0.0
    return f"{mean:+.3f} ± {difference['se']:.3f}".replace("-", "−")


def _with_spread(value: dict[str, float]) -> str:
    return f"{value['mean']:.3f} (standard deviation of the draws {value['sd']:.3f})"


def _beyond(difference: dict[str, float]) -> bool:
    return abs(difference["mean"]) > 2 * difference["se"]


def _compared(difference: dict[str, float]) -> str:
    """A difference in words, and whether it is beyond two standard errors."""
    place = "beyond" if _beyond(difference) else "within"
    word = "lower" if difference["mean"] < 0 else "higher"
    size = f"{abs(difference['mean']):.3f} ± {difference['se']:.3f}"
    return f"{word} by {size}, {place} two standard errors"


def _verdict(pooled: dict[str, Any]) -> str:
    """Whether segments help, by impressions: pooled with a segment against pooled with all."""
    difference = pooled["impressions"]["difference_from"]["global+pooled"]
    if not _beyond(difference):
        return (
            "So segments do not help here: whom a week is pooled with makes no difference that "
            "this month could show."
        )
    done = "helps" if difference["mean"] < 0 else "harms"
    return f"So it {done} to pool an order's week with its segment rather than with all orders."


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
