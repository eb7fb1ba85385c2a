"""Public advertising data: names of files, where they are searched, and how to get them.

Their licences do not allow this package to include or download them. They are searched as
``<folder>/<dataset>/<file>`` in the folder of the environment variable ``COTERIE_DATA`` and in
the cache.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coterie.datasets.dataset_files import data_folders
from coterie.errors import DatasetUnavailableError, TableError

__all__ = [
    "IPINYOU",
    "PUBLISHER",
    "SNAP",
    "PublicData",
    "files_of",
    "read_columns",
    "refuse_missing",
]


@dataclass(frozen=True)
class PublicData:
    """A public dataset: the name of its folder, its files, and how to get them."""

    name: str
    files: tuple[str, ...]
    how_to_get: str


IPINYOU = PublicData(
    "ipinyou_market_price",
    ("market_price_hist.csv", "advertisers.csv", "rows_1458_2997.csv.gz"),
    "count the prices paid in the iPinYou contest data (ipinyou.contest.dataset, prepared by the "
    "GitHub repository wnzhang/make-ipinyou-data), or take the counts in data/ipinyou-data of "
    "the GitHub repository han-cai/rlb-dp",
)
PUBLISHER = PublicData(
    "publisher_auction_2019",
    ("publisher_auction_2019.csv.gz",),
    "Kaggle, saurav9786/real-time-advertisers-auction",
)
SNAP = PublicData(
    "snap_political_ads",
    ("snap_political_ads.csv.gz",),
    "join the yearly files of the Snap Political Ads Library",
)


def files_of(
    dataset: PublicData,
    folder: str | os.PathLike[str] | None = None,
    names: Sequence[str] | None = None,
) -> list[Path]:
    """Return the paths of a dataset's files, all in one folder.

    Parameters
    ----------
    dataset : PublicData
    folder : path, optional
        The folder above the dataset's; by default COTERIE_DATA and the cache.
    names : sequence of str, optional
        The required files; by default all.

    Raises
    ------
    DatasetUnavailableError
        The message names the files and says how to get them.

    Examples
    --------
    >>> files_of(SNAP, "nowhere")
    Traceback (most recent call last):
    coterie.errors.DatasetUnavailableError: the dataset 'snap_political_ads' is not in nowhere...
    """
    wanted = dataset.files if names is None else tuple(names)
    folders = data_folders() if folder is None else [Path(folder)]
    for place in folders:
        paths = [place / dataset.name / name for name in wanted]
        if all(path.is_file() for path in paths):
            return paths
    files = " + ".join(f"{dataset.name}/{name}" for name in wanted)
    raise DatasetUnavailableError(
        f"the dataset {dataset.name!r} is not in {' nor in '.join(map(str, folders))}. Get it "
        f"({dataset.how_to_get}) and set the environment variable COTERIE_DATA to a folder that "
        f"has {files}."
    )


def refuse_missing(
    datasets: Sequence[PublicData], folder: str | os.PathLike[str] | None = None
) -> None:
    """Raise one error that names every missing dataset."""
    messages = []
    for dataset in datasets:
        try:
            files_of(dataset, folder)
        except DatasetUnavailableError as error:
            messages.append(str(error))
    if messages:
        raise DatasetUnavailableError("\n".join(messages))


def read_columns(path: Path, types: dict[str, str] | None = None) -> dict[str, Any]:
    """Read the columns of a CSV file, plain or gzipped, as numpy arrays.

    Parameters
    ----------
    path : Path
    types : dict of str to str, optional
        Columns and their pyarrow types; by default all columns, with inferred types.

    Raises
    ------
    TableError
        The file cannot be read, or a column is missing or has another type.
    """
    import pyarrow as pa
    from pyarrow import csv

    options = csv.ConvertOptions(strings_can_be_null=False)
    if types is not None:
        options.include_columns = list(types)
        options.column_types = {name: pa.type_for_alias(kind) for name, kind in types.items()}
    try:
        table = csv.read_csv(
            path,
            convert_options=options,
            parse_options=csv.ParseOptions(newlines_in_values=True),
        )
    except (pa.ArrowException, OSError, KeyError) as error:
        raise TableError(f"{path} cannot be read: {error}; get the file again") from error
    for name in table.column_names:
        if table[name].null_count:
            raise TableError(f"{path}, column {name!r}: a value is missing; get the file again")
    return {name: table[name].to_numpy() for name in table.column_names}
