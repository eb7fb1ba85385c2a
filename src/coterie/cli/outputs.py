"""What a command writes: checked before the work, written after it; ``-`` is a standard stream."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from coterie.errors import InvalidParameterError, OutputError
from coterie.runtime.atomic_files import atomic_file, check_writable, write_text
from coterie.runtime.imports import require_extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from coterie.arrays import Bools, Floats, Ints

#: Columns of the table next to the ids.
RESULT_COLUMNS = ("label", "word", "confidence")
_SUFFIXES = {"picture": (".png", ".svg", ".pdf"), "report": (".html", ".htm")}
_DOTS_PER_INCH = 160


def is_stream(path: Path | str | None) -> bool:
    return str(path) == "-"


def input_name(path: Path | str) -> str:
    return "standard input" if is_stream(path) else str(path)


def output_name(path: Path | str) -> str:
    """Return what the summary says was written."""
    return "the table to standard output" if is_stream(path) else str(path)


def refuse_json(as_json: bool, table: Path | None, option: str = "-o -") -> None:
    """Refuse to print a JSON object and a table to the same stream."""
    if as_json and is_stream(table):
        raise typer.BadParameter(
            f"it prints to standard output, as {option} does; leave out one of them, or write the "
            "table to a file",
            param_hint="'--json'",
        )


def check_table(path: Path) -> None:
    from coterie.tables.writing import check_table_output

    if not is_stream(path):
        check_table_output(path)
    elif sys.stdout is None:
        raise OutputError("cannot write the table: standard output is closed; name a file")


def write_output(path: Path, columns: Mapping[str, Any]) -> None:
    """Write a table to a file, or as CSV to standard output; nothing before it is complete."""
    from coterie.tables.writing import csv_text, write_table

    if not is_stream(path):
        write_table(path, columns)
        return
    text = csv_text(columns)
    try:
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # the reader has read enough; the program ends without a message
        raise
    except OSError as error:
        raise OutputError(f"cannot write standard output: {error.strerror or error}") from error


def write_all(steps: Mapping[Path, Callable[[Path], None]]) -> None:
    """Write files in order; the arguments of a KeyboardInterrupt are the complete files."""
    written: list[Path] = []
    try:
        for path, write in steps.items():
            write(path)
            written.append(path)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*written) from None


def result_columns(
    estimator: Any, labels: Ints, confidence: Floats, kept: Bools | None = None
) -> dict[str, Any]:
    """Return the columns of the result: the label, its word if labels are words, the confidence.

    With ``kept`` (n₀,), labels and confidences are of the kept rows; the others get label −1.
    """
    import numpy as np

    if kept is not None:
        clustered = labels, confidence
        labels, confidence = np.full(len(kept), -1), np.zeros(len(kept))
        labels[kept], confidence[kept] = clustered
    words = getattr(estimator, "label_names_", None)
    named = {} if words is None else {"word": np.array([*words, ""], dtype=object)[labels]}
    return {"label": labels, **named, "confidence": confidence}


def index_of(ids: Mapping[str, Any], kept: Bools | None = None) -> list[tuple[Any, ...]] | None:
    """Return the ids of the ``kept`` rows, several columns making one name; None without ids."""
    columns = [(v if kept is None else v[kept]).tolist() for v in ids.values()]
    return list(zip(*columns, strict=True)) or None


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
        for kind, path in self.paths.items():
            if not is_stream(path):
                check_writable(path)
            elif kind in ("model", "report"):
                raise OutputError(f"cannot write the {kind} to standard output; name a file")
        for kind, endings in _SUFFIXES.items():
            requested = self.paths.get(kind)
            if requested is not None and requested.suffix.lower() not in endings:
                raise OutputError(
                    f"{requested}: the name of a {kind} must end in one of {', '.join(endings)}"
                )
        if self.picture is not None:
            require_extra("plots", "pictures need", "matplotlib")
            import matplotlib as mpl

            mpl.use("Agg")  # draws to files without a display
        if self.table is not None:
            check_table(self.table)
            if taken := [name for name in ids if name in RESULT_COLUMNS]:
                raise InvalidParameterError(
                    f"the id column {taken[0]!r} has the name of a result column; rename it in the "
                    "input"
                )

    def check_apart(self, sources: Iterable[Path]) -> None:
        """Refuse two outputs with one path, and an output that is an input or inside one."""
        # Paths are resolved, because a link to an input would overwrite it too.
        read = [source.resolve() for source in sources]
        taken = dict.fromkeys(read, "the input")
        for kind, path in self.paths.items():
            if is_stream(path):
                continue
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
        ids: Mapping[str, Any],
        *,
        P: Any = None,
        features: tuple[Any, Sequence[str]] | None = None,
        kept: Bools | None = None,
    ) -> None:
        """Write a consensus function that was fitted on P (n, V), or a clusterer with its own runs.

        ``ids`` are columns of length n. The report compares the clusters by the ``features`` (n, p)
        and their names, if given. With ``kept`` (n₀,), the ids are of n₀ rows, of which n were
        clustered; the others get label −1.
        """
        figure = page = None
        if self.picture is not None:
            import matplotlib.pyplot as plt
            import numpy as np

            from coterie.inspection.displays import CoassociationDisplay, PartitionAgreementDisplay

            consensus = getattr(estimator, "consensus_", estimator)
            if P is None:
                runs = getattr(estimator, "ensembles_", None) or {"": estimator.ensemble_}
                P = np.hstack([one.labels for one in runs.values()])
            figure, (left, right) = plt.subplots(
                1, 2, figsize=(14, 5.6), layout="constrained", width_ratios=(1, 1.3)
            )
            CoassociationDisplay.from_estimator(consensus, P, random_state=0, ax=left)
            PartitionAgreementDisplay.from_estimator(consensus, ax=right)
        if self.report is not None:
            from coterie.inspection.report.consensus_page import consensus_contents, render_report

            X, feature_names = features or (None, None)
            index = index_of(ids, kept)
            contents = consensus_contents(estimator, X, feature_names=feature_names, index=index)
            page = render_report(contents)
        columns = result_columns(estimator, estimator.labels_, estimator.confidence_, kept)
        self.write({**ids, **columns}, estimator, figure, page)

    def write(
        self,
        columns: Mapping[str, Any],
        estimator: Any,
        figure: Figure | None = None,
        page: str | None = None,
    ) -> None:
        """Write the requested files. The table is last: if it exists, so do the others."""
        steps: dict[Path, Callable[[Path], None]] = {}
        if self.picture is not None and figure is not None:

            def write_picture(path: Path) -> None:
                import matplotlib.pyplot as plt

                with atomic_file(path) as unfinished:
                    figure.savefig(unfinished, format=path.suffix[1:], dpi=_DOTS_PER_INCH)
                plt.close(figure)

            steps[self.picture] = write_picture
        if self.report is not None and page is not None:
            steps[self.report] = lambda path: write_text(path, page)
        if self.model is not None:
            from coterie.models import save_model

            steps[self.model] = lambda path: save_model(estimator, path)
        if self.table is not None:
            steps[self.table] = lambda path: write_output(path, columns)
        write_all(steps)
