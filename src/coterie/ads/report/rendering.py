"""Rendering of a report as one self-contained HTML file.

Python writes every table and figure into the page as text. The scripts in the page draw the
charts and compute forecasts at other bids. Text from a log (ids, descriptions, segment names) may
be hostile: it is escaped here, and the scripts only ever set it as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from os import PathLike
from typing import Any, TypeVar

from coterie.ads.curves.day_levels import WEEKDAYS
from coterie.ads.page.parts import SHARED_SCRIPTS, STYLE, page_file
from coterie.ads.report.contents import AdvertiserRow, Report, SegmentCard
from coterie.ads.report.evaluation_tables import OWN, figure_in
from coterie.runtime import wording as words
from coterie.runtime.atomic_files import write_text
from coterie.runtime.html_pages import content_policy, embedded_json, page_templates

SCRIPTS = (*SHARED_SCRIPTS, "evaluation_charts.js", "report.js")

_SOURCE_NAMES = {
    "dictionary": "market curves",
    "own": "own curve",
    "global": "one curve for all",
    "text": "segments by text",
    "win": "segments by win rate",
    "cost": "segments by cost",
    "l2": "averaged consensus",
    "robust": "robust consensus",
    "lognormal": "log-normal prices",
    "boosting": "gradient boosting",
}
_POOLED = "+pooled"
#: These always use each advertiser's own auctions too.
_ALWAYS_POOLED = ("dictionary", "lognormal", "boosting")
#: The curves of the page and their units: percent, and currency units per thousand.
_CURVES = {
    "win": 100,
    "win_low": 100,
    "win_high": 100,
    "own": 100,
    "cost": 1,
    "spend_low": 1000,
    "spend_high": 1000,
}
#: Shares that rise to 1, kept as steps in thousandths.
_RISING = ("wins_below", "cost_below")
_SEGMENT_FACTS = ("name", "median_price")
_ADVERTISER_FACTS = [f.name for f in fields(AdvertiserRow) if f.name not in {*_CURVES, *_RISING}]
_TARGETS = ("impressions", "spend")
# The page lists this many of each; it states the number of the others.
_MOST_DOUBTFUL = 100
_MOST_EXAMPLES = 5

_Value = TypeVar("_Value")


def write_report(payload: Report, path: str | PathLike[str]) -> None:
    """Write a report to an HTML file; if writing fails, an existing file stays as it was.

    Parameters
    ----------
    payload : Report
        From :func:`~coterie.ads.report_payload`.
    path : path
        The HTML file.

    Raises
    ------
    TypeError
        If the payload is not a :class:`~coterie.ads.report.contents.Report`.
    OutputError
        If the file cannot be written.
    """
    write_text(path, render_report(payload))


def render_report(payload: Report) -> str:
    """Return the report as HTML.

    The page loads nothing from the network: style, scripts and numbers are inside. Its
    Content-Security-Policy allows only these scripts, identified by their SHA-256.
    """
    if not isinstance(payload, Report):
        raise TypeError(
            f"payload must be the Report that report_payload returns, got {type(payload).__name__}"
        )
    # The grid is not rounded: two neighbouring bids could become equal.
    report = replace(_plain(payload), grid=payload.grid)
    errors = _errors(report.evaluation)
    scripts, style = [page_file(name) for name in SCRIPTS], page_file(STYLE)
    symbol = words.currency_symbol(report.currency)
    filters: dict[str, Callable[..., Any]] = {
        "money": lambda amount: words.money(amount, symbol),
        "figure_in": figure_in,
        "numeric_columns": _numeric_columns,
        "source_label": _source_label,
    }
    return (
        page_templates("coterie.ads", filters)
        .get_template("report.html")
        .render(
            report=report,
            policy=content_policy(scripts, style),
            style=style,
            scripts=scripts,
            data=embedded_json(_page_data(report, symbol, errors)),
            weekdays=WEEKDAYS,
            period=words.period(report.first_day, report.last_day),
            doubtful=_doubtful(report),
            errors=errors,
            headline=_headline(report.evaluation),
            most_examples=_MOST_EXAMPLES,
        )
    )


def _plain(value: _Value) -> _Value:
    """Copy a value, with numbers rounded and control characters made visible."""
    plain: Any = value
    if isinstance(value, float):  # first, because most values are floats
        plain = _rounded(value)
    elif isinstance(value, str):
        plain = words.visible(value)
    elif is_dataclass(value) and not isinstance(value, type):
        plain = replace(value, **{f.name: _plain(getattr(value, f.name)) for f in fields(value)})
    elif isinstance(value, Mapping):
        plain = {words.visible(name): _plain(one) for name, one in value.items()}
    elif isinstance(value, Sequence):
        plain = [_plain(one) for one in value]
    return plain


def _rounded(number: float, digits: int = 7) -> float:
    """Round to some significant digits; whole numbers are kept."""
    whole = int(number)
    return whole if whole == number else float(f"{number:.{digits}g}")


def _page_data(report: Report, symbol: str, errors: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what the scripts read: each distinct curve once, advertisers column by column.

    Curves are in the units of ``_CURVES``, where four digits take less space, or as the steps of
    ``_RISING``.
    """
    curves: dict[tuple[float, ...], int] = {}

    def row(one: SegmentCard | AdvertiserRow, names: Iterable[str]) -> dict[str, Any]:
        numbered = {name: getattr(one, name) for name in names}
        for name in (*_CURVES, *_RISING):
            curve = getattr(one, name, None)
            if curve is None:
                numbered[name] = None
                continue
            if name in _RISING:  # the rises from 0 add up to the curve
                thousandths = [0, *(round(1000 * value) for value in curve)]
                stored = tuple(high - low for low, high in pairwise(thousandths))
            else:
                stored = tuple(_rounded(_CURVES[name] * value, 4) for value in curve)
            numbered[name] = curves.setdefault(stored, len(curves))
        return numbered

    segments = [row(one, _SEGMENT_FACTS) for one in report.segments]
    advertisers = [row(one, _ADVERTISER_FACTS) for one in report.advertisers]
    return {
        "symbol": symbol,
        "interval": report.interval,
        "grid": report.grid,
        "curves": list(curves),
        "prices_by_weekday": report.prices_by_weekday,
        "segments": segments,
        "advertisers": {k: [one[k] for one in advertisers] for k in advertisers[0]},
        "left_out": report.left_out,
        "errors": errors and errors["by_source"],
        "days": report.days,
        "points": report.evaluation and report.evaluation["points"],
        "coverage": report.evaluation and report.evaluation["coverage"],
    }


def _doubtful(report: Report) -> list[dict[str, Any]]:
    """Return the advertisers to look at: outliers, and members with low confidence."""
    groups = {
        "Outliers": (
            "Advertisers whose market is unlike that of any segment. Read their forecasts with "
            "care.",
            report.outliers,
        ),
        "Low confidence": (
            "Advertisers on which the views disagree, or with too few bids for a clear segment.",
            report.low_confidence,
        ),
    }
    found = []
    for title, (meaning, members) in groups.items():
        busiest = sorted(members, key=lambda i: -report.advertisers[i].observations)
        listed = busiest[:_MOST_DOUBTFUL]
        found.append({"title": title, "meaning": meaning, "count": len(members), "members": listed})
    return found


def _errors(evaluation: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Arrange the errors of every source of curves for tables and charts.

    ``by_source`` has a row for each source: its error alone and pooled, None where not measured.
    ``differences`` are those of the default's error from that of each source, by target; ``z`` is
    the difference in standard errors, None where it is not known.
    """
    if evaluation is None:
        return None
    sources, by_source = evaluation["sources"], []
    for base in dict.fromkeys(name.removesuffix(_POOLED) for name in sources):
        names = ("", base) if base in _ALWAYS_POOLED else (base, base + _POOLED)
        errors = [sources.get(name) for name in names]
        row = {t: [one and one[t]["wape"] for one in errors] for t in _TARGETS}
        is_default = base == evaluation["default"]
        by_source.append({"label": _source_label(base), "chosen": is_default, **row})
    differences: dict[str, dict[str, Any]] = {}
    for one in evaluation["differences"]:
        is_known = one["difference"] is not None and one["standard_error"]
        z = one["difference"] / one["standard_error"] if is_known else None
        differences.setdefault(one["b"], {})[one["target"]] = {**one, "z": z}
    return {
        "by_source": by_source,
        "top": {
            t: max((one[t]["wape"] or 0 for one in sources.values()), default=0)
            for t in evaluation["targets"]
        },
        "best": [
            {
                t: min(_known(one[t]["wape"] for one in stratum["sources"].values()), default=None)
                for t in _TARGETS
            }
            for stratum in evaluation["strata"]
        ],
        "differences": differences,
    }


def _headline(evaluation: Mapping[str, Any] | None) -> dict[str, float] | None:
    """Return the impression errors of the default and of own curves, if both are known."""
    if evaluation is None:
        return None
    sources = [evaluation["sources"].get(name) for name in (evaluation["default"], OWN)]
    errors = _known(one and one["impressions"]["wape"] for one in sources)
    if len(errors) < len(sources):
        return None
    bias = evaluation["sources"][evaluation["default"]]["impressions"]["bias"]
    return {"default": errors[0], "own": errors[1], "bias": bias}


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def _source_label(name: str) -> str:
    base = name.removesuffix(_POOLED)
    label = _SOURCE_NAMES.get(base, base)
    return f"{label}, pooled" if name.endswith(_POOLED) else label


def _numeric_columns(table: Mapping[str, Any]) -> list[bool]:
    """Tell for each column whether it holds numbers, which are aligned on the right."""
    return [
        any(isinstance(row[place], int | float) for row in table["rows"])
        for place in range(len(table["columns"]))
    ]
