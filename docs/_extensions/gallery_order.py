"""Order of the pages in the gallery: common questions first."""

from __future__ import annotations

__all__ = ["QuestionOrder"]

_QUESTIONS = (
    "plot_spoiled_votes.py",
    "plot_who_dissents.py",
    "plot_what_it_looks_like.py",
    "plot_how_many_clusters.py",
    "plot_missing_labels.py",
    "plot_several_views.py",
    "plot_the_relaxation.py",
    "plot_ads_thin_advertisers.py",
    "plot_ads_ipinyou.py",
)


class QuestionOrder:
    """Sort key for sphinx-gallery; unlisted pages come last."""

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> tuple[int, str]:
        """Return the sort key of a page."""
        place = _QUESTIONS.index(filename) if filename in _QUESTIONS else len(_QUESTIONS)
        return place, filename
