"""``coterie demo``: a simulated table, its clusters, and a report with pictures."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from coterie.cli import layout, options
from coterie.cli.outputs import Outputs, write_output
from coterie.cli.progress import progress_unless, shown_notes
from coterie.cli.summary import Run, print_summary
from coterie.errors import OutputError
from coterie.runtime.atomic_files import atomic_file

_RECORD = "demo.json"
FEATURES, CLUSTERS, MODEL, REPORT = "shops.csv", "clusters.csv", "shops.coterie", "report.html"

#: The kinds of simulated shops: their share, and the means of visitors a day, of the value of a
#: basket, and of the share of goods that come back.
_KINDS = {
    "corner shop": (0.5, (200.0, 12.0, 0.03)),
    "boutique": (0.3, (60.0, 50.0, 0.11)),
    "kiosk at a station": (0.2, (900.0, 8.0, 0.01)),
}
_SPREAD = 0.25  # standard deviation of the logarithms
_COLUMNS = ("visitors", "basket", "returns")


def demo(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder for all files.")
    ] = Path("clustering-demo"),
    shops: Annotated[
        int, typer.Option("--shops", min=30, metavar="N", help="Number of rows.")
    ] = 300,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Simulate a table of shops, cluster them, and write a report.

    FOLDER receives shops.csv (the simulated table), clusters.csv (a label and
    a confidence for each shop), shops.coterie (the model) and report.html.
    Files of an earlier demo are replaced; other files are kept. coterie ads
    demo shows the application in advertising.

    Example: coterie demo --output clustering-demo
    """
    import numpy as np

    from coterie.consensus.results import consensus_facts
    from coterie.estimators.clusterer import ConsensusClusterer
    from coterie.inspection.scores import adjusted_rand_index

    started = time.perf_counter()
    rng = np.random.default_rng(seed)
    shares, means = zip(*_KINDS.values(), strict=True)
    kinds = np.sort(rng.choice(len(shares), shops, p=shares))
    X = np.array(means)[kinds] * np.exp(_SPREAD * rng.standard_normal((shops, len(_COLUMNS))))
    X = X.round(3)
    names = np.array([f"shop {row + 1:03}" for row in range(shops)])
    with (
        shown_notes(quiet) as notes,
        fresh_folder(output, "coterie demo", (FEATURES, CLUSTERS, MODEL, REPORT)) as record,
    ):
        features = output / FEATURES
        record(features)
        write_output(features, {"shop": names, **dict(zip(_COLUMNS, X.T, strict=True))})
        outputs = Outputs(output / CLUSTERS, None, output / MODEL, output / REPORT)
        with progress_unless(quiet):
            estimator = ConsensusClusterer(n_partitions=16, standardize=True, random_state=seed)
            estimator.fit(X)
            estimator.feature_names_in_ = np.array(_COLUMNS, dtype=object)
        runs = estimator.ensemble_
        outputs.write_consensus(
            estimator, runs.labels, runs.names, {"shop": names}, (X, _COLUMNS), before=record
        )
    least = np.argsort(estimator.confidence_, kind="stable")[:3]
    of_kind = np.bincount(kinds, minlength=len(_KINDS)).tolist()
    run = Run(
        str(features),
        consensus_facts(estimator, list(runs.names), index=names.tolist()),
        time.perf_counter() - started,
        {"features": str(features), **outputs.written},
        notes,
    )
    facts = {
        **run.as_json(),
        "planted": dict(zip(_KINDS, of_kind, strict=True)),
        "adjusted_rand": float(adjusted_rand_index(kinds, estimator.labels_)),
        "doubtful": [
            {"shop": str(names[row]), "confidence": float(estimator.confidence_[row])}
            for row in least
        ],
        "commands": [
            shlex.join(["coterie", "cluster", str(features), "--standardize", "-o", "out.csv"]),
            shlex.join(["coterie", "predict", str(output / MODEL), str(features)]),
        ],
    }
    layout.print_answer(facts, lambda facts: _print_demo(run, facts), as_json, quiet)


def _print_demo(run: Run, facts: dict[str, Any]) -> None:
    console = layout.stdout_console()
    kinds = ", ".join(f"{n:,} of kind {kind!r}" for kind, n in facts["planted"].items())
    console.print(f"Simulated {facts['points']:,} shops: {kinds}.")
    console.print("Sixteen clusterings of the table, and their consensus:\n")
    print_summary(run)
    console.print()
    doubtful = ", ".join(f"{one['shop']} ({one['confidence']:.2f})" for one in facts["doubtful"])
    console.print(
        f"Found {layout.counted(len(facts['sizes']), 'cluster')}; {len(facts['planted'])} were "
        f"planted (adjusted Rand index {facts['adjusted_rand']:.2f}, where 1 is equal and 0 is "
        f"chance). Least certain are {doubtful}.\n"
    )
    console.print("To cluster a table like this one, and to label new rows:")
    for command in facts["commands"]:
        console.print(f"  {layout.one_line(command)}", style="bold", soft_wrap=True)
    console.print("The report shows the clusters and the doubtful points. Open it in a browser:")
    report = layout.one_line(facts["written"]["report"])
    console.print(f"  {report}", style="bold", soft_wrap=True)


# ---- The folder of a demo, replaced without touching files of the user


@contextlib.contextmanager
def fresh_folder(
    folder: Path, made_by: str, names: Sequence[str]
) -> Iterator[Callable[[Path], None]]:
    """Make a folder, or remove the files of an earlier demo from it; write a record at the end.

    The demo is the command ``made_by``, and writes files and folders of these ``names``. Yield a
    function to call with each path before it is written. The record has the SHA-256 of each file
    and, until the end, what is being written; it is also written after a failure. The next demo
    removes exactly those files, even after a demo that was killed, and raises an OutputError if a
    path of its own holds another file or a changed one. The arguments of a KeyboardInterrupt are
    the paths that were written.
    """
    nearest = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not nearest.is_dir():
        raise OutputError(f"cannot write to {folder}: {nearest} is not a folder; name another")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write to {folder}: the folder {nearest} is read-only")
    record, action = folder / _RECORD, "read"
    try:
        recorded, writing = _read_record(record, made_by)
        earlier = _demo_paths(folder, names)
        for path in earlier:
            place = path.relative_to(folder)
            is_ours = not path.is_symlink() and (
                path.is_dir()
                or place.parts[0] == writing
                or (path.is_file() and recorded.get(place.as_posix()) == _digest(path))
            )
            if not is_ours:
                raise OutputError(
                    f"{path} was not written by a demo, and a new demo would replace it; "
                    "move it, or name another folder with --output"
                )
        action = "write to"
        # Folders come before their contents, so the reverse order empties a folder first.
        for path in reversed(earlier):
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()
        record.unlink(missing_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
    except OutputError:
        raise
    except OSError as error:
        raise OutputError(f"cannot {action} {folder}: {error.strerror or error}") from error
    try:
        yield lambda path: _write_record(record, made_by, names, path.name)
    except BaseException as failure:
        # If the record cannot be written either, the first failure is the one to report.
        with contextlib.suppress(OSError):
            _write_record(record, made_by, names)
        if isinstance(failure, KeyboardInterrupt):
            complete = [folder / name for name in names if (folder / name).exists()]
            raise KeyboardInterrupt(*complete) from None
        raise
    _write_record(record, made_by, names)


def _demo_paths(folder: Path, names: Sequence[str]) -> list[Path]:
    """Return the existing paths of the demo, each folder before its contents."""
    existing = []
    for place in (folder / name for name in names):
        if place.is_symlink() or place.exists():
            existing.append(place)
        if place.is_dir() and not place.is_symlink():
            existing += sorted(place.rglob("*"))
    return existing


def _read_record(path: Path, made_by: str) -> tuple[dict[str, str], str]:
    """Return the SHA-256 of each file of an earlier demo, and what it was writing, if anything."""
    if not path.exists():
        return {}, ""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["made_by"] == made_by:
            files = {str(name): str(digest) for name, digest in record["files"].items()}
            return files, str(record.get("writing", ""))
    except (ValueError, LookupError, TypeError, AttributeError):
        pass  # not JSON, or JSON of another form
    raise OutputError(
        f"{path} is not the record of a demo, and a new demo would replace it; "
        "move it, or name another folder with --output"
    )


def _write_record(path: Path, made_by: str, names: Sequence[str], writing: str = "") -> None:
    """Record the files of the demo and what it writes next; without any, remove the folder."""
    folder = path.parent
    written = [path for path in _demo_paths(folder, names) if path.is_file()]
    if not written and not writing:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
            folder.rmdir()
        return
    files = {path.relative_to(folder).as_posix(): _digest(path) for path in written}
    with atomic_file(path) as unfinished:
        record = {"made_by": made_by, "files": files, **({"writing": writing} if writing else {})}
        unfinished.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
