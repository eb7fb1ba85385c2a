"""``coterie demo``: a simulated table, its clusters, and a report with pictures."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from coterie.cli import layout, options
from coterie.cli.outputs import Outputs, write_output
from coterie.cli.progress import progress_unless, shown_notes
from coterie.cli.summary import Run, print_summary
from coterie.errors import OutputError
from coterie.runtime.atomic_files import output_errors, write_text

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
    shops: Annotated[int, typer.Option(min=30, metavar="N", help="Number of rows.")] = 300,
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
        fresh_folder(output, "coterie demo", (FEATURES, CLUSTERS, MODEL, REPORT)),
    ):
        features = output / FEATURES
        write_output(features, {"shop": names, **dict(zip(_COLUMNS, X.T, strict=True))})
        outputs = Outputs(output / CLUSTERS, None, output / MODEL, output / REPORT)
        with progress_unless(quiet):
            estimator = ConsensusClusterer(n_partitions=16, standardize=True, random_state=seed)
            estimator.fit(X)
            estimator.feature_names_in_ = np.array(_COLUMNS, dtype=object)
        outputs.write_consensus(estimator, {"shop": names}, features=(X, _COLUMNS))
    least = np.argsort(estimator.confidence_, kind="stable")[:3]
    of_kind = np.bincount(kinds, minlength=len(_KINDS)).tolist()
    run = Run(
        str(features),
        consensus_facts(estimator, index=names.tolist()),
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
def fresh_folder(folder: Path, made_by: str, names: Sequence[str]) -> Iterator[None]:
    """Make a folder, or remove the files of an earlier demo from it.

    The demo is the command ``made_by``, and writes files and folders of these ``names``. A record
    in the folder has the SHA-256 of each file, and none while a demo is writing. The next demo
    removes what an earlier one wrote, even one that failed or was killed, and raises an OutputError
    if a path of its own holds another file or a changed one. The arguments of a KeyboardInterrupt
    are the paths that were written.
    """
    paths, record = [folder / name for name in names], folder / _RECORD

    def write_record(files: dict[str, str] | None) -> None:
        write_text(record, json.dumps({"made_by": made_by, "files": files}, indent=2) + "\n")

    with output_errors(folder):
        found, others = _digests(folder, paths), [_RECORD]
        earlier: Any = {"made_by": made_by, "files": {}}
        # an unreadable record is not one of a demo
        with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError):
            if record.exists():
                earlier = json.loads(record.read_text(encoding="utf-8"))
            if earlier["made_by"] == made_by:
                known = found if earlier["files"] is None else earlier["files"]
                others = [name for name, digest in found.items() if known.get(name) != digest]
        if others:
            raise OutputError(
                f"{folder / others[0]} was not written by a demo, and a new demo would replace it; "
                "move it, or name another folder with --output"
            )
        folder.mkdir(parents=True, exist_ok=True)
        write_record(None)
        for path in paths:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    try:
        yield
    except BaseException as failure:
        # If the folder cannot be changed either, the first failure is the one to report.
        with contextlib.suppress(OSError):
            if written := _digests(folder, paths):
                write_record(written)
            else:
                record.unlink()
                folder.rmdir()
        if isinstance(failure, KeyboardInterrupt):
            raise KeyboardInterrupt(*(path for path in paths if path.exists())) from None
        raise
    write_record(_digests(folder, paths))


def _digests(folder: Path, paths: Sequence[Path]) -> dict[str, str]:
    """Return the SHA-256 of the files at these paths or below; a link has an empty one."""
    digests = {}
    for path in paths:
        for file in (path, *(() if path.is_symlink() else sorted(path.rglob("*")))):
            name = file.relative_to(folder).as_posix()
            if file.is_symlink():
                digests[name] = ""
            elif file.is_file():
                with file.open("rb") as content:
                    digests[name] = hashlib.file_digest(content, "sha256").hexdigest()
    return digests
