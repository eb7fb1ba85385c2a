"""The report: one HTML file that needs nothing but itself, for reading, asking and printing.

Python writes every table and figure in words into the page; the page's own scripts draw the
charts and answer "what if the bid were". Whatever comes from a log (ids, texts, names of
segments) may be hostile: it is escaped here, and the page only ever shows it as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from coterie.ads.page.parts import (
    SHARED_SCRIPTS,
    STYLE,
    WEEKDAYS,
    environment,
    fingerprint,
    page_file,
)
from coterie.ads.report.contract import check_payload
from coterie.runtime import wording as words
from coterie.runtime.atomic_files import atomic_file

if TYPE_CHECKING:
    import jinja2

__all__ = ["check_payload", "render_report", "write_report"]

SCRIPTS = (*SHARED_SCRIPTS, "report.js")
SOURCE_NAMES = {
    "own": "own curve",
    "global": "one curve for all",
    "text": "segments by text",
    "win": "segments by win rate",
    "cost": "segments by cost",
    "l2": "averaged consensus",
    "robust": "robust consensus",
    "true": "true segments",
}
POOLED = "+pooled"
ADVERTISER_FACTS = (
    "id",
    "segment",
    "confidence",
    "observations",
    "bid",
    "supply",
    "supply_by_weekday",
    "click_rate",
    "outlier",
    "dissent",
    "source",
)
TARGETS = ("impressions", "spend")
# What one section lists; the rest is counted.
MOST_DOUBTFUL = 100
MOST_EXAMPLES = 5


def write_report(payload: Mapping[str, Any], path: str | PathLike[str]) -> None:
    """Write a report to a file, whole or not at all.

    Parameters
    ----------
    payload : mapping
        See :mod:`coterie.ads.report.contract`.
    path : path
        The HTML file.

    Raises
    ------
    InvalidParameterError
        If the payload cannot be shown.
    OutputError
        If the file cannot be written.
    """
    page = render_report(payload)
    with atomic_file(path) as unfinished:
        unfinished.write_text(page, encoding="utf-8", newline="\n")


def render_report(payload: Mapping[str, Any]) -> str:
    """The report as HTML text.

    The page asks nothing of the network: style, scripts and numbers are inside, and its
    Content-Security-Policy lets only these very scripts run, known by their SHA-256.

    Parameters
    ----------
    payload : mapping
        See :mod:`coterie.ads.report.contract`.

    Returns
    -------
    str

    Examples
    --------
    >>> render_report({"title": "Week 10"})
    Traceback (most recent call last):
        ...
    coterie.errors.InvalidParameterError: payload['grid'] is missing
    """
    check_payload(payload)
    # two bids of the grid must not become one
    grid = [float(bid) for bid in payload["grid"]]
    report = {"interval": None, **_plain(payload), "grid": grid}
    errors = _errors(report["evaluation"])
    scripts, style = [page_file(name) for name in SCRIPTS], page_file(STYLE)
    template = _templates(words.currency_symbol(report["currency"])).get_template("report.html")
    return template.render(
        report=report,
        policy=_policy(scripts, style),
        style=style,
        scripts=scripts,
        data=_embedded(_page_data(report, errors)),
        weekdays=WEEKDAYS,
        period=words.period(report["first_day"], report["last_day"]),
        doubtful=_doubtful(report),
        errors=errors,
        headline_errors=_headline_errors(report["evaluation"], errors),
        most_examples=MOST_EXAMPLES,
    )


def _policy(scripts: Sequence[str], style: str) -> str:
    """What the page may do: run these scripts, use this style, and nothing else."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(fingerprint, scripts))}",
            f"style-src {fingerprint(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _embedded(data: Any) -> str:
    """JSON that no parser of HTML or JavaScript takes for anything else."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _plain(value: Any) -> Any:
    """A copy with numbers of four significant digits and characters that can be shown."""
    if isinstance(value, float):  # almost all there is
        return _rounded(value)
    if isinstance(value, str):
        return words.visible(value)
    if isinstance(value, Mapping):
        return {words.visible(name): _plain(one) for name, one in value.items()}
    if isinstance(value, Sequence):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, bool) else _rounded(value)


def _rounded(number: float) -> float:
    """Whole numbers as they are, others to four significant digits."""
    whole = int(number)
    return whole if whole == number else float(f"{number:.4g}")


def _page_data(report: Mapping[str, Any], errors: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the scripts read: every different curve once, one list a column of advertisers.

    Win rates are in percent: four digits of them take less room.
    """
    curves: dict[tuple[float, ...], int] = {}

    def numbered(one: Mapping[str, Any]) -> dict[str, int | None]:
        numbers: dict[str, int | None] = {}
        for name in ("win", "win_low", "win_high", "own", "cost"):
            curve = one.get(name)
            if curve is not None and name != "cost":
                curve = [_rounded(100 * share) for share in curve]
            numbers[name] = curve and curves.setdefault(tuple(curve), len(curves))
        return numbers

    segments = [
        {k: one[k] for k in ("name", "median_price")} | numbered(one) for one in report["segments"]
    ]
    advertisers = [
        {k: one[k] for k in ADVERTISER_FACTS} | numbered(one) for one in report["advertisers"]
    ]
    return {
        "symbol": words.currency_symbol(report["currency"]),
        "interval": report["interval"],
        "grid": report["grid"],
        "curves": list(curves),
        "segments": segments,
        "advertisers": {k: [one[k] for one in advertisers] for k in advertisers[0]},
        "errors": errors and errors["by_source"],
    }


def _doubtful(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The advertisers to look at: outliers and members placed with little confidence."""
    groups = (
        (
            "Outliers",
            "outliers",
            "Advertisers whose market is like no segment’s. Read their forecasts with care.",
        ),
        (
            "Low confidence",
            "low_confidence",
            "Advertisers the views disagree on, or that have too few bids to be placed firmly.",
        ),
    )
    found = []
    for title, name, meaning in groups:
        members = sorted(report[name], key=lambda i: -report["advertisers"][i]["observations"])
        found.append(
            {
                "title": title,
                "meaning": meaning,
                "count": len(members),
                "members": members[:MOST_DOUBTFUL],
            }
        )
    return found


def _errors(evaluation: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The errors of every source of curves, arranged for tables and charts."""
    if evaluation is None:
        return None
    sources = evaluation["sources"]
    chosen = f"{evaluation['chosen'].get('consensus', 'robust')}{POOLED}"
    return {
        "chosen": chosen if chosen in sources else None,
        "by_source": _alone_and_pooled(sources, chosen),
        "top": {
            t: max((one[t]["wape"] or 0 for one in sources.values()), default=0) for t in TARGETS
        },
        "best": [
            {
                t: min(_known(one[t] for one in stratum["sources"].values()), default=None)
                for t in TARGETS
            }
            for stratum in evaluation["strata"]
        ],
        "in_standard_errors": [
            one["difference"] / one["standard_error"]
            if one["difference"] is not None and one["standard_error"]
            else None
            for one in evaluation["differences"]
        ],
    }


def _alone_and_pooled(sources: Mapping[str, Any], chosen: str) -> list[dict[str, Any]]:
    """One row a source: its error alone and pooled with the own curve, null where not measured."""
    rows = []
    for base in dict.fromkeys(name.removesuffix(POOLED) for name in sources):
        errors = [sources.get(name) for name in (base, base + POOLED)]
        row = {t: [one and one[t]["wape"] for one in errors] for t in TARGETS}
        rows.append({"label": _source_label(base), "chosen": base + POOLED == chosen, **row})
    return rows


def _headline_errors(
    evaluation: Mapping[str, Any] | None, errors: Mapping[str, Any] | None
) -> list[float] | None:
    """The errors of impressions of the chosen source and of own curves, where both are known."""
    if evaluation is None or errors is None:
        return None
    sources = [evaluation["sources"].get(name) for name in (errors["chosen"], "own")]
    found = _known(one and one["impressions"]["wape"] for one in sources)
    return found if len(found) == 2 else None


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _source_label(name: str) -> str:
    base = name.removesuffix(POOLED)
    label = SOURCE_NAMES.get(base, base)
    return f"{label}, pooled" if name.endswith(POOLED) else label


def _templates(symbol: str) -> jinja2.Environment:
    return environment(
        {
            "money": lambda amount: words.money(amount, symbol),
            "numeric_columns": _numeric_columns,
            "source_label": _source_label,
        }
    )


def _numeric_columns(table: Mapping[str, Any]) -> list[bool]:
    """Which columns hold numbers, and so are aligned at their ends."""
    return [
        any(isinstance(row[place], int | float) for row in table["rows"])
        for place in range(len(table["columns"]))
    ]
