"""Results of the experiments on real advertising data as JSON and as a page."""

from __future__ import annotations

from typing import Any

from benchmarks import ads_real_tables as tables
from benchmarks.environment import in_words
from benchmarks.result_tables import ResultTable
from coterie.ads.histograms.public_data import IPINYOU, PUBLISHER, SNAP

__all__ = ["as_json", "as_page", "summary_lines"]

COMMAND = "COTERIE_DATA=FOLDER python -m benchmarks ads-real -o docs/benchmarks"


def as_json(results: dict[str, Any], described: dict[str, Any]) -> dict[str, Any]:
    """Everything that was measured, ready for :func:`json.dumps`, less what is only drawn."""
    ipinyou = {name: value for name, value in results["ipinyou"].items() if name != "curves"}
    snap = dict(results["snap"])
    snap["segments"] = [
        {name: value for name, value in segment.items() if name != "ecpm"}
        for segment in snap["segments"]
    ]
    return {
        "ipinyou": ipinyou,
        "publisher": results["publisher"],
        "snap": snap,
        "environment": described,
    }


def summary_lines(results: dict[str, Any]) -> list[str]:
    """What came out, a sentence or two for each experiment."""
    return [
        *tables.ipinyou_findings(results["ipinyou"]),
        *tables.publisher_findings(results["publisher"]),
        *tables.snap_findings(results["snap"]),
    ]


def as_page(results: dict[str, Any], described: dict[str, Any]) -> str:
    """A page in Markdown, with the pictures beside it."""
    parts = [
        "# Real advertising data",
        "No public log has bids, wins, costs and texts together. Three public datasets have a "
        "part each, and each tests the part of the library it can: prices for the win curves, "
        "thirty days of orders for forecasts, texts for the text view. Each says something on "
        "one dataset, no more. To have all figures again:",
        f"```\n{COMMAND}\n```",
        "The data may not be passed on with this package. `FOLDER` has, each in a folder of its "
        "own, " + "; ".join(_where(dataset) for dataset in (IPINYOU, PUBLISHER, SNAP)) + ".",
        *_ipinyou_section(results["ipinyou"]),
        *_publisher_section(results["publisher"]),
        *_snap_section(results["snap"]),
        f"Measured {in_words(described)}.",
    ]
    return "\n\n".join(parts) + "\n"


def _where(dataset: Any) -> str:
    return f"`{dataset.name}` ({dataset.how_to_get})"


def _titled(table: ResultTable) -> list[str]:
    return [f"{table.title}:", table.markdown()]


def _ipinyou_section(part: dict[str, Any]) -> list[str]:
    total = sum(about["auctions"] for about in part["advertisers"])
    following = _titled(tables.following_table(part)) if part["following"] else []
    return [
        "## Lost auctions hide their price: iPinYou",
        f"The market prices of all {total:,} training impressions of "
        f"{len(part['advertisers'])} advertisers (2013, second price) are known, so the true win "
        "curve *W(b)*, the share of prices up to *b*, is known too. A bidder is made up who sees "
        "less. It bids anywhere from 1 fen to the highest price, each alike, or log-normally "
        "around the median price (σ = 0.5), or around half of it (σ = 0.3). Where the price is at "
        "most its bid it wins and learns the price; otherwise it learns only that the price was "
        "above the bid. From what it saw, *W* is estimated by Kaplan–Meier (the library's curve), "
        "by the distribution of the prices it paid (the naive ratio: losses are forgotten), and "
        "by the share of bids won at each bid, made monotone (isotonic: prices are forgotten). "
        "The error is |estimate − *W*| at each fen up to the largest bid made: the largest, and "
        f"the mean. {part['seeds']} bidders for each cell; in bold, the smallest error.",
        *_titled(tables.ipinyou_table(part)),
        *_titled(tables.ipinyou_by_size_table(part)),
        "![Win curves of nine advertisers and three estimates](ads_real_ipinyou.png)",
        "A bidder whose bids depend on what it knows of the impression sees prices that depend "
        "on its bids. For two advertisers single impressions are public, with a predicted click "
        "rate. Here the bid is the median price times the click rate over its median, and, for "
        "comparison, the same bids are dealt to the impressions at random.",
        *following,
        *tables.ipinyou_findings(part),
        "Where this falls short: the contest has only the impressions its own bidder won, so "
        "the curves are those of a market without its dearest auctions. All days are one, and "
        "the laws of the bids are ours. Where bids are log-normal, the largest error mostly lies "
        "at prices that fewer than one bid in a hundred reaches.",
    ]


def _publisher_section(part: dict[str, Any]) -> list[str]:
    notes, (first, last, end) = part["notes"], part["days"]
    share = notes["impressions_repeated"] / notes["impressions"]
    return [
        "## Five days ahead: a publisher's orders, June 2019",
        f"Impressions and revenue of {part['orders']} orders a day; {first} to {last} are known, "
        f"the days to {end} are forecast. There are no bids. A forecast is the order's own recent "
        "level times a weekday factor; revenue, that times the order's own eCPM times a weekday "
        "factor of eCPM. What orders can share is the shape of the week, so the sources differ in "
        "where the factors come from: nowhere (*flat*), the order itself (*own*), all orders "
        "(*global*), its *segment*, or itself *pooled* with one of these, which counts for some "
        "days. *Last week* repeats the same weekday. Segments are the robust consensus of three "
        "looks with as many votes each: the mix of sites and ad units, the mix of countries and "
        "devices, and the Kolmogorov–Smirnov similarity of the distributions of eCPM. The number "
        "of segments, the strength of pooling and one half-life of the level for all sources are "
        f"chosen by forecasting {part['horizon']} days from {len(part['origins'])} origins inside "
        "the known days (*backtest*: mean WAPE of impressions and revenue); looks are taken anew "
        "at each origin.",
        f"Of {notes['rows']:,} rows, {notes['rows_without_impressions']:,} have no impressions "
        f"and are left out, with {notes['revenue_without_impressions']:.4f} of revenue; so "
        f"is {_rows(notes['rows_with_negative_revenue'])} with negative revenue. "
        f"{notes['rows_repeated']:,} rows equal another. They are kept: rows that agree in all "
        "but their figures are common here, so an equal one is no sign of a fault; they carry "
        f"{share:.2%} of the impressions.",
        *_titled(tables.publisher_table(part)),
        f"WAPE is Σ|error| / Σ truth over order-days; *thin* orders ({part['thin_orders']} of "
        f"{part['orders']}) have fewer than 500 impressions a day; *totals* are an order's "
        f"{part['horizon']} days together, MAPE over the "
        f"{part['sources']['own']['impressions']['orders_in_mape']} orders that had any "
        f"impressions ({part['sources']['own']['revenue']['orders_in_mape']} any revenue).",
        *_titled(tables.publisher_differences_table(part)),
        "![WAPE by where the week's shape comes from](ads_real_publisher.png)",
        *tables.publisher_findings(part),
        "Where this falls short: one publisher, one month, one holdout of five days, orders that "
        "start and end within it, and no bids, so that nothing is said of win curves. The settings "
        "were chosen without the holdout, but the experiment was designed by people who had seen "
        "the month. Strengths count in days of one weekday, half-lives in days.",
    ]


def _rows(number: int) -> str:
    return "one row" if number == 1 else f"{number:,} rows"


def _snap_section(part: dict[str, Any]) -> list[str]:
    notes = part["notes"]
    return [
        "## Text and price: political ads on Snap, 2018 to 2020",
        f"{notes['ads']:,} ads, of which {notes['ads_in_dollars']:,} were paid in US dollars, by "
        f"{notes['advertisers_in_dollars']} advertisers; the {notes['advertisers']} that spent at "
        f"least {notes['least_spend']} dollars are used (spend is in whole dollars). An "
        "advertiser's text is every organisation, candidate, advertiser name and interest of its "
        "ads; its price is the eCPM of all its ads together, median "
        f"{part['median_ecpm']:.2f} dollars, standard deviation of the logarithm "
        f"{part['sd_log_ecpm']:.2f}. Segments are k-means clusters of the text vectors "
        f"(`TextView`), η² the mean of {part['runs']} runs; *by chance* is what the same segments "
        f"explain of prices dealt at random, {part['permutations']:,} times.",
        *_titled(tables.snap_explained_table(part)),
        "An advertiser held out is put into the segment with the nearest centre and gets its "
        "mean log eCPM, drawn to the mean of all with a strength chosen by leaving out one "
        "training advertiser at a time. Terms, vectors and segments are learned on the training "
        "advertisers alone. Standard errors are over advertisers.",
        *_titled(tables.snap_predicted_table(part)),
        *_titled(tables.snap_segments_table(part)),
        "![eCPM of advertisers by text segment](ads_real_snap.png)",
        *tables.snap_findings(part),
        "Where this falls short: an advertiser's price also depends on when, where and at what "
        "ages it aims, and on its creative, none of which is in the text; three years are "
        "one; an organisation is often an agency, so that some segments are the clients of one "
        "firm. Bids and lost auctions are not public, so this is about prices paid, not about win "
        "curves.",
    ]
