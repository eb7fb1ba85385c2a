"""The order of the gallery's pages: from what everybody asks to what few do."""

from __future__ import annotations

__all__ = ["QuestionOrder"]

_QUESTIONS = (
    "plot_spoiled_votes.py",
    "plot_who_dissents.py",
    "plot_how_many_clusters.py",
    "plot_missing_labels.py",
    "plot_several_views.py",
    "plot_the_relaxation.py",
)


class QuestionOrder:
    """Sort key of sphinx-gallery: a page that is not listed comes last."""

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> tuple[int, str]:
        """Place of a page in the gallery."""
        place = _QUESTIONS.index(filename) if filename in _QUESTIONS else len(_QUESTIONS)
        return place, filename
