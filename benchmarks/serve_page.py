"""Results of the benchmark of the service as a page and as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.environment import in_words
from benchmarks.serve_report import (
    TARGET_FORECASTS,
    TARGET_RATIO,
    as_tables,
    method,
    notes,
    summary_lines,
)
from benchmarks.serve_results import BATCH, ServeResults

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["as_page", "as_picture"]

# Okabe and Ito's colours, which colour-blind readers tell apart
_OURS, _BARE, _AIM = "#0072B2", "#E69F00", "#333333"
_WEAK = (
    "- The load shares the cores with the service: on a machine with more of them, or over a "
    "network, rates and times are others. The ratio to the bare service suffers less, since both "
    "were measured in turn.",
    "- A load that asks again as soon as it is answered shows how much a service can do, not how "
    "long answers take at the rate of an ordinary day.",
    "- Every question is about an advertiser the model knows. Texts of new ones are placed among "
    "all others, which takes longer and is not measured here.",
    "- Advertisers are copies of few with counts drawn anew; a real market of that size has more "
    "variety, though no more figures an advertiser.",
    "- Model files have just been written, so the system has them in its cache: from a cold disk "
    "a start takes longer by the time to read them.",
)


def as_page(results: ServeResults, described: dict[str, Any], command: str) -> str:
    """A page in Markdown, with the picture ``serve.png`` beside it."""
    parts = [
        "# The forecast service under load",
        method(results),
        f"`{command}`",
        "![Requests and forecasts a second over connections](serve.png)",
        "\n".join(f"- {line}" for line in summary_lines(results)),
    ]
    for table in as_tables(results):
        parts += [f"## {table.title}", table.markdown()]
    told = [f"- {note}" for note in notes(results)]
    parts += ["## Notes", "\n".join(told)] if told else []
    parts += ["## What is weak", "\n".join(_WEAK), f"Measured {in_words(described)}."]
    return "\n\n".join(parts) + "\n"


def as_picture(results: ServeResults) -> Figure:
    """Single forecasts beside the bare service, and batched ones beside their aim."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 4.2), layout="constrained")
    singles, batches = figure.subplots(1, 2)
    _draw_singles(singles, results)
    _draw_batches(batches, results)
    for axes in (singles, batches):
        axes.set(xlabel="connections", ylim=(0, None))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.grid(axis="y", color="#e4e4e4", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(
            frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3
        )
    return figure


def _draw_singles(axes: Axes, results: ServeResults) -> None:
    """Bars of both services, every round as a dot, and the aim as a line over each pair."""
    places = range(len(results.singles))
    sides = (("service", -0.19, _OURS, "service"), ("bare", 0.19, _BARE, "bare FastAPI"))
    for side, shift, colour, title in sides:
        rounds = [getattr(cell, side) for cell in results.singles]
        at = [place + shift for place in places]
        axes.bar(at, [one.a_second for one in rounds], 0.36, color=colour, label=title)
        for x, one in zip(at, rounds, strict=True):
            each = [run.a_second for run in one.runs]
            axes.plot([x] * len(each), each, ".", color="black", markersize=3, alpha=0.6)
    for place, cell in zip(places, results.singles, strict=True):
        aim = TARGET_RATIO * cell.bare.a_second
        label = f"aim: {TARGET_RATIO:g} × bare" if place == 0 else None
        ends = [place - 0.4, place + 0.02]
        axes.plot(ends, [aim, aim], color=_AIM, linewidth=2.0, linestyle=":", label=label)
    axes.set_xticks(list(places), [str(cell.connections) for cell in results.singles])
    axes.set_title("Single forecasts: requests a second", loc="left", fontsize=11)


def _draw_batches(axes: Axes, results: ServeResults) -> None:
    places = range(len(results.batches))
    reached = [cell.forecasts_a_second for cell in results.batches]
    axes.bar(places, reached, 0.5, color=_OURS, label="service")
    for place, cell in zip(places, results.batches, strict=True):
        each = [run.a_second * BATCH for run in cell.service.runs]
        axes.plot([place] * len(each), each, ".", color="black", markersize=3, alpha=0.6)
    aim = f"aim: {TARGET_FORECASTS:,}"
    axes.axhline(TARGET_FORECASTS, color=_AIM, linewidth=2.0, linestyle=":", label=aim)
    axes.set_xticks(list(places), [str(cell.connections) for cell in results.batches])
    axes.set_title(f"Batches of {BATCH:,}: forecasts a second", loc="left", fontsize=11)
