"""Output files of a command: checked before the work, written after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.cli.terminal.streams import (
    check_table,
    is_stream,
    output_name,
    write_output,
)
from coterie.errors import InvalidParameterError, OutputError
from coterie.runtime.atomic_files import atomic_file, check_writable
from coterie.runtime.imports import require_extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["RESULT_COLUMNS", "Outputs", "consensus_picture", "write_all"]

#: Columns of the table beside the ids.
RESULT_COLUMNS = ("label", "confidence")
_PICTURES = (".png", ".svg", ".pdf")
_PAGES = (".html", ".htm")
_DOTS_PER_INCH = 160


@dataclass(frozen=True)
class Outputs:
    """Paths of the requested outputs: table of labels and confidences, picture, model, report."""

    table: Path | None = None
    picture: Path | None = None
    model: Path | None = None
    report: Path | None = None

    @property
    def paths(self) -> dict[str, Path]:
        """The requested outputs by kind."""
        return {kind: path for kind, path in vars(self).items() if path is not None}

    @property
    def to_stdout(self) -> bool:
        """Whether the table goes to standard output, which then has nothing else."""
        return is_stream(self.table)

    @property
    def written(self) -> dict[str, str]:
        """The requested outputs by kind, ready for JSON."""
        return {kind: output_name(path) for kind, path in self.paths.items()}

    def check(self, source: Path, ids: Sequence[str] = ()) -> None:
        """Refuse outputs that cannot be written or would overwrite the source."""
        self.check_apart([] if is_stream(source) else [source])
        for kind in ("model", "report"):
            if is_stream(getattr(self, kind)):
                raise OutputError(f"cannot write the {kind} to standard output; name a file")
        for path in self._files.values():
            check_writable(path)
        if self.table is not None:
            _check_table(self.table, ids)
        if self.picture is not None:
            _check_picture(self.picture)
        if self.report is not None:
            _check_report(self.report)

    def check_apart(self, sources: Iterable[Path]) -> None:
        """Refuse two outputs with one path, and an output that is an input or inside one."""
        # Paths are resolved, because a link to an input would overwrite it too.
        read = [source.resolve() for source in sources]
        taken = dict.fromkeys(read, "the input")
        for kind, path in self._files.items():
            target, output = path.resolve(), f"the {kind}"
            if (other := taken.setdefault(target, output)) != output:
                raise OutputError(f"cannot write {output} to {path}: this path is {other}")
            folder = next((source for source in read if source in target.parents), None)
            if folder is not None and folder.is_dir():
                raise OutputError(
                    f"cannot write {output} to {path}: it is inside the input folder {folder}; "
                    "choose another path"
                )

    def write_consensus(
        self,
        estimator: Any,
        P: Any,
        names: Sequence[str],
        ids: Mapping[str, Any],
        features: Any = None,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        """Write a fitted consensus function, or a clusterer with one as ``consensus_``.

        It was fitted on the partitions P (n, V) with V names; ``ids`` are columns of length n. The
        report compares the clusters by the ``features`` (n, p), if they are given.
        """
        consensus = getattr(estimator, "consensus_", estimator)
        columns = {**ids, "label": estimator.labels_, "confidence": estimator.confidence_}
        self.write(
            columns,
            estimator,
            lambda: consensus_picture(consensus, P, names),
            lambda: _report(estimator, names, ids, features, feature_names),
        )

    def write(
        self,
        columns: Mapping[str, Any],
        estimator: Any,
        draw: Callable[[], Figure],
        render: Callable[[], str] | None = None,
    ) -> None:
        """Write the requested files; picture and report are made before anything is written."""
        # The table is last: if it exists, so do the other files.
        steps: dict[Path, Callable[[Path], None]] = {}
        if self.picture is not None:
            figure = draw()
            steps[self.picture] = lambda path: _write_picture(figure, path)
        if self.report is not None and render is not None:
            page = render()
            steps[self.report] = lambda path: _write_text(page, path)
        if self.model is not None:
            from coterie.models import save_model

            steps[self.model] = lambda path: save_model(estimator, path)
        if self.table is not None:
            steps[self.table] = lambda path: write_output(path, columns)
        write_all(steps)

    @property
    def _files(self) -> dict[str, Path]:
        return {kind: path for kind, path in self.paths.items() if not is_stream(path)}


def write_all(
    steps: Mapping[Path, Callable[[Path], None]], before: Callable[[Path], None] | None = None
) -> None:
    """Write files in order; the arguments of a KeyboardInterrupt are the complete files.

    ``before`` is called with each path before it is written.
    """
    written: list[Path] = []
    try:
        for path, write in steps.items():
            if before is not None:
                before(path)
            write(path)
            written.append(path)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*written) from None


def consensus_picture(consensus: Any, P: Any, names: Sequence[str]) -> Figure:
    """Draw the co-association of the points beside the agreement of the partitions."""
    import matplotlib.pyplot as plt

    from coterie.inspection.displays import CoassociationDisplay, PartitionAgreementDisplay

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(14, 5.6), layout="constrained", width_ratios=(1, 1.3)
    )
    CoassociationDisplay.from_estimator(consensus, P, ax=left)
    PartitionAgreementDisplay.from_estimator(consensus, names, ax=right)
    return figure


def _check_picture(path: Path) -> None:
    if path.suffix.lower() not in _PICTURES:
        raise OutputError(
            f"{path}: the name of a picture must end in one of {', '.join(_PICTURES)}"
        )
    require_extra("plots", "pictures need", "matplotlib")
    import matplotlib as mpl

    mpl.use("Agg")  # draws to files without a display


def _check_report(path: Path) -> None:
    if path.suffix.lower() not in _PAGES:
        raise OutputError(f"{path}: the name of a report must end in one of {', '.join(_PAGES)}")


def _check_table(path: Path, ids: Sequence[str]) -> None:
    check_table(path)
    for name in ids:
        if name in RESULT_COLUMNS:
            raise InvalidParameterError(
                f"the id column {name!r} has the name of a result column; rename it in the input"
            )


def _write_picture(figure: Figure, path: Path) -> None:
    """Write the figure in the format of the path's suffix and close it."""
    import matplotlib.pyplot as plt

    with atomic_file(path) as unfinished:
        figure.savefig(unfinished, format=path.suffix[1:], dpi=_DOTS_PER_INCH)
    plt.close(figure)


def _report(
    estimator: Any,
    names: Sequence[str],
    ids: Mapping[str, Any],
    features: Any,
    feature_names: Sequence[str] | None,
) -> str:
    """Return the report as HTML; several id columns make one name."""
    from coterie.inspection.report.consensus_contents import consensus_contents
    from coterie.inspection.report.consensus_page import render_report

    index = list(zip(*(values.tolist() for values in ids.values()), strict=True)) or None
    contents = consensus_contents(
        estimator, features, feature_names=feature_names, names=names, index=index
    )
    return render_report(contents)


def _write_text(text: str, path: Path) -> None:
    with atomic_file(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8", newline="\n")
