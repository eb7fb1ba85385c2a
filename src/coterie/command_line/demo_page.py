"""The page of ``coterie demo``: one HTML file that needs nothing but itself."""

from __future__ import annotations

import base64
import platform
from html import escape
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

import coterie
from coterie.command_line.pictures import as_png

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from coterie.command_line.demonstration import Demonstration, Recovery

__all__ = ["demo_page"]


def demo_page(demonstration: Demonstration) -> str:
    """The page as HTML text: style and pictures inline, everything inserted escaped.

    Parameters
    ----------
    demonstration : Demonstration

    Returns
    -------
    str
    """
    template = resources.files("coterie.command_line").joinpath("demo_page.html")
    texts = {name: escape(text) for name, text in _texts(demonstration).items()}
    return Template(template.read_text(encoding="utf-8")).substitute(
        texts,
        rows="\n".join(map(_row, demonstration.recoveries)),
        notes="\n".join(_notes(demonstration)),
        **_pictures(demonstration),
    )


def _texts(demonstration: Demonstration) -> dict[str, str]:
    flagship = demonstration.recoveries[-1]
    average = next(r for r in demonstration.recoveries if r.method.startswith("Least squares"))
    return {
        "n_points": f"{demonstration.n_points:,}",
        "n_clusters": str(len(demonstration.sizes)),
        "sizes": _in_words([str(size) for size in demonstration.sizes]),
        "n_partitions": str(demonstration.n_partitions),
        "noise": f"{demonstration.noise:.0%}",
        "n_bad": str(demonstration.n_bad),
        "share_bad": f"{demonstration.n_bad / demonstration.n_partitions:.0%}",
        "spoiled": _in_words(demonstration.spoiled),
        "flagship_accuracy": f"{flagship.accuracy:.1%}",
        "average_accuracy": f"{average.accuracy:.1%}",
        "verdict": demonstration.verdict,
        "seed": str(demonstration.seed),
        "version": coterie.__version__,
        "python": platform.python_version(),
    }


def _row(recovery: Recovery) -> str:
    return (
        f'<tr><th scope="row">{escape(recovery.method)}<small>{escape(recovery.idea)}</small></th>'
        f'<td class="bar"><div><span style="width:{recovery.accuracy:.1%}"></span></div></td>'
        f"<td>{recovery.accuracy:.1%}</td><td>{recovery.agreement:.2f}</td>"
        f"<td>{recovery.seconds:.2f} s</td></tr>"
    )


def _notes(demonstration: Demonstration) -> list[str]:
    return [
        f'<p class="note">{escape(recovery.method)}: {escape(note)}.</p>'
        for recovery in demonstration.recoveries
        for note in recovery.notes
    ]


def _pictures(demonstration: Demonstration) -> dict[str, str]:
    """The pictures, each as an address that holds it."""
    from coterie.displays import PartitionAgreementDisplay

    agreement = PartitionAgreementDisplay.from_estimator(
        demonstration.flagship, demonstration.names
    )
    figures = {
        "agreement": agreement.figure_,
        "coassociation": _before_and_after(demonstration),
    }
    return {
        name: "data:image/png;base64," + base64.b64encode(as_png(figure)).decode("ascii")
        for name, figure in figures.items()
    }


def _before_and_after(demonstration: Demonstration) -> Figure:
    """Co-association by all votes, beside that by the votes that decided."""
    import matplotlib.pyplot as plt

    from coterie.displays import CoassociationDisplay

    V, n_deciding = demonstration.n_partitions, int(demonstration.flagship.partition_weights_.sum())
    figure, axes = plt.subplots(1, 2, figsize=(11, 5.2), layout="constrained", sharey=True)
    for ax, title, votes in (
        (axes[0], f"All {V} votes", {"partition_weights": None}),
        (axes[1], f"The {n_deciding} votes that decide", {}),
    ):
        CoassociationDisplay.from_estimator(
            demonstration.flagship, demonstration.P, ax=ax, colorbar=False, **votes
        )
        ax.set_title(title, loc="left")
    axes[1].set_ylabel("")
    figure.colorbar(axes[1].images[0], ax=axes, label="share of votes", shrink=0.8)
    return figure


def _in_words(items: list[str]) -> str:
    return ", ".join(items[:-1]) + f" and {items[-1]}" if len(items) > 1 else items[0]
