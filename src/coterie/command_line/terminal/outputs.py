"""The files a command was asked for: checked before the work, written after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coterie.errors import InvalidParameterError, OutputError
from coterie.runtime.atomic_files import check_writable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Outputs", "write_all"]

_RESULT_COLUMNS = ("label", "confidence")
_PICTURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True)
class Outputs:
    """Where the results go; what is None was not asked for.

    Attributes
    ----------
    table : Path or None
        Labels and confidences.
    picture : Path or None
    model : Path or None
        The fitted estimator.
    """

    table: Path | None = None
    picture: Path | None = None
    model: Path | None = None

    @property
    def paths(self) -> dict[str, Path]:
        """The files that were asked for, by what they hold."""
        named = {"table": self.table, "picture": self.picture, "model": self.model}
        return {kind: path for kind, path in named.items() if path is not None}

    def check(self, source: Path, ids: Sequence[str] = ()) -> None:
        """Refuse what cannot be written, before the work is done.

        Parameters
        ----------
        source : Path
            The table that is read; it is never overwritten.
        ids : sequence of str
            The columns carried through to the table.
        """
        self.check_apart([source])
        for path in self.paths.values():
            check_writable(path)
        if self.table is not None:
            self._check_table(self.table, ids)
        if self.picture is not None:
            self._check_picture(self.picture)

    def check_apart(self, sources: Iterable[Path]) -> None:
        """Refuse two outputs of one name, and an output that is, or lies in, what is read."""
        read = [source.resolve() for source in sources]
        taken = dict.fromkeys(read, "the input")
        for kind, path in self.paths.items():
            target, what = path.resolve(), f"the {kind}"
            if (other := taken.setdefault(target, what)) != what:
                raise OutputError(f"cannot write {what} to {path}: it is {other} already")
            folder = next((source for source in read if source in target.parents), None)
            if folder is not None and folder.is_dir():
                raise OutputError(
                    f"cannot write {what} to {path}: it lies in {folder}, which is read; name "
                    "another place"
                )

    def write(self, columns: Mapping[str, Any], estimator: Any, draw: Callable[[], Figure]) -> None:
        """Write the results; the picture is drawn before anything is written.

        Parameters
        ----------
        columns : mapping of str to (n,) arrays
            The table.
        estimator : fitted estimator
            The model.
        draw : callable
            Makes the picture; called only if there is to be one.
        """
        from coterie.command_line.terminal.pictures import write_picture
        from coterie.files.model_files import save_model
        from coterie.files.tables import write_table

        steps: dict[Path, Callable[[Path], None]] = {}
        if self.picture is not None:
            figure = draw()
            steps[self.picture] = lambda path: write_picture(figure, path)
        if self.model is not None:
            steps[self.model] = lambda path: save_model(estimator, path)
        if self.table is not None:
            steps[self.table] = lambda path: write_table(path, columns)
        write_all(steps)

    @staticmethod
    def _check_picture(path: Path) -> None:
        from coterie.command_line.terminal.pictures import prepare_to_draw

        if path.suffix.lower() not in _PICTURES:
            raise OutputError(
                f"{path}: no picture has this name; it must end in one of {', '.join(_PICTURES)}"
            )
        prepare_to_draw()

    @staticmethod
    def _check_table(path: Path, ids: Sequence[str]) -> None:
        from coterie.files.tables import check_table_output

        check_table_output(path)
        for name in ids:
            if name in _RESULT_COLUMNS:
                raise InvalidParameterError(
                    f"an id column is named {name!r}, and so is a column of the result; "
                    "rename it in the input"
                )


def write_all(steps: Mapping[Path, Callable[[Path], None]]) -> None:
    """Write files one after the other; an interrupt tells, as its arguments, which are complete."""
    written: list[Path] = []
    try:
        for path, write in steps.items():
            write(path)
            written.append(path)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*written) from None
