"""Catalogue of datasets: sizes, classes, source, licence, files, checksums, addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

_UCI_FILES = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_GITHUB_FILES = "https://raw.githubusercontent.com"
_CSTR_COMMIT = "d301cf8d4073af5e972edd1a05320e2343ab8895"
_CSTR_FOLDER = f"{_GITHUB_FILES}/franrole/cclust_package/{_CSTR_COMMIT}/datasets"
_MSRC_COMMIT = "300b5178c5e7f55b8baa247269ee4c566aeb4356"
_MSRC_FOLDER = f"{_GITHUB_FILES}/weilyshmtu/Multi-view-DataSets/{_MSRC_COMMIT}"
_CC_BY = "CC BY 4.0"


@dataclass(frozen=True)
class Edition:
    """One form of a dataset: its files, the format to read them in, and a folder of URLs if any."""

    format: str
    files: tuple[str, ...]
    address: str = ""

    @property
    def urls(self) -> list[str]:
        return [f"{self.address}/{name}" for name in self.files] if self.address else []


@dataclass(frozen=True)
class DatasetInfo:
    """Description of a dataset.

    Attributes
    ----------
    name : str
        The name for :func:`~coterie.load_dataset`.
    view_sizes : mapping of str to int
        Number of features of each view; a single view is called ``features``.
    class_sizes : mapping of str to int
        Number of points of each class, in the order of the codes in y.
    source, licence, how_to_get : str
        Origin, terms of use, and how to get a copy.
    editions : tuple of Edition
        Files with checksums and addresses, in order of preference; empty for a dataset of
        scikit-learn.
    bundled : bool
        Whether the file is part of this package.
    subsets : mapping of str to int
        Subsets that can be loaded by name, and their numbers of points.
    """

    name: str
    view_sizes: Mapping[str, int]
    class_sizes: Mapping[str, int]
    source: str
    licence: str
    how_to_get: str
    editions: tuple[Edition, ...] = ()
    bundled: bool = False
    subsets: Mapping[str, int] = field(default_factory=dict)

    @property
    def n_samples(self) -> int:
        """Number of points."""
        return sum(self.class_sizes.values())

    @property
    def n_features(self) -> int:
        """Number of features of all views together."""
        return sum(self.view_sizes.values())

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes; ``class_names[c]`` has the code c in y."""
        return tuple(self.class_sizes)


def _numbered(first: int, sizes: list[int]) -> dict[str, int]:
    return {str(number): size for number, size in enumerate(sizes, first)}


def _sizes(names: str, sizes: list[int]) -> dict[str, int]:
    return dict(zip(names.split(), sizes, strict=True))


#: Checksums of files, as far as they are known.
SHA256 = {
    "glass.csv": "2149f02ac25f885c7c5eb83c0555a9729242791a2b37c5a6386604ba570680c7",
    "ionosphere.csv": "6a7d004f3a54294154faee1fb6983c22d7aecc2b5b27945f93e4bad2b4b6e10b",
    "zoo.csv": "896e14cfa6894fddeb791a33096c799ce5d35a92db2449b58ff5098c98da5f16",
    "soybean_small.csv": "9dcec28962b577e117c3646237780c2be3e53c7bb0f95a79ce2143e668266e7d",
    "cstr.npz": "14485e048ccfe93d05eaeaa7b4897a533e53b6051a3c4bf87142b4f1f7fd8087",
    "reuters_top10.npz": "c2424e384d25e2e9b8bacd957a3fa6f4d5429499921c8e03505dff104254932f",
    "reuters21578.tar.gz": "3bae43c9b14e387f76a61b6d82bf98a4fb5d3ef99ef7e7075ff2ccbcf59f9d30",
    "msrc_v1.npz": "758e1a67c3e979298460d2708d12afdf5c50bed7dcca07ec617eb361c56f96f7",
    "caltech101_7.npz": "8ce865d3a185a225d70846f637eba267e00e8f507bf003cd5a90141a409fea8e",
    "caltech101_20.npz": "caeb0f046abc3bd838efa4c7ddb3aac446242e4b0d961fd6f8ba2c20e081a1da",
    "uci_mfeat.npz": "800e7a8799cf0a39005d54ee60316595c42bccbab24eee96dcd8f9d051447ea0",
}


def _small(name: str, n_features: int, class_sizes: dict[str, int], source: str) -> DatasetInfo:
    """Describe a dataset that is part of scikit-learn or of this package."""
    bundled = f"{name}.csv" in SHA256
    return DatasetInfo(
        name=name,
        view_sizes={"features": n_features},
        class_sizes=class_sizes,
        source=source if bundled else f"{source}, as in scikit-learn",
        licence=_CC_BY,
        how_to_get=f"part of {'this package' if bundled else 'scikit-learn'}",
        editions=(Edition("table", (f"{name}.csv",)),) if bundled else (),
        bundled=bundled,
    )


def _caltech(n_classes: str, class_sizes: dict[str, int]) -> DatasetInfo:
    return DatasetInfo(
        name=f"caltech101_{n_classes}",
        view_sizes={"gabor": 48, "wm": 40, "centrist": 254, "hog": 1984, "gist": 512, "lbp": 928},
        class_sizes=class_sizes,
        source="Caltech-101 images (Fei-Fei, Fergus & Perona 2004). The .mat file has the features "
        "that articles use. Those of the .npz file were computed anew with the same dimensions, so "
        "the two files give different numbers",
        licence="images: CC BY 4.0 (CaltechDATA, doi 10.22002/D1.20086)",
        how_to_get=f"the feature file Caltech101-{n_classes}.mat that the GitHub repository "
        "yeqinglee/mvdata links to",
        editions=(
            Edition("views", (f"caltech101_{n_classes}.npz",)),
            Edition("MATLAB views", (f"Caltech101-{n_classes}.mat",)),
        ),
    )


_ALL = [
    _small("iris", 4, _sizes("setosa versicolor virginica", [50, 50, 50]), "Fisher (1936)"),
    _small("wine", 13, _numbered(0, [59, 71, 48]), "Aeberhard & Forina (1992)"),
    _small(
        "glass",
        9,
        _sizes("1 2 3 5 6 7", [70, 76, 17, 13, 9, 29]),  # no row has type 4
        "German (1987), Glass Identification, doi 10.24432/C5WW2P",
    ),
    _small(
        "ionosphere",
        34,
        _sizes("bad good", [126, 225]),
        "Sigillito, Wing, Hutton & Baker (1989), Ionosphere, doi 10.24432/C5W01B",
    ),
    _small(
        "zoo",
        16,
        _sizes(
            "mammal bird reptile fish amphibian insect mollusc.et.al", [41, 20, 5, 13, 4, 8, 10]
        ),
        "Forsyth (1990), Zoo, doi 10.24432/C5R59V",
    ),
    DatasetInfo(
        name="soybean_small",
        view_sizes={"features": 35},
        class_sizes={"D1": 10, "D2": 10, "D3": 10, "D4": 17},
        source="Michalski & Chilausky (1980), Soybean (Small)",
        licence=_CC_BY,
        how_to_get="soybean-small.data of UCI dataset 91",
        editions=(
            Edition("table", ("soybean_small.csv",)),
            Edition("headless table", ("soybean-small.data",), f"{_UCI_FILES}/soybean"),
        ),
    ),
    DatasetInfo(
        name="cstr",
        view_sizes={"features": 1000},
        class_sizes=_numbered(1, [101, 71, 178, 125]),
        source="abstracts of technical reports, University of Rochester; term weights",
        licence="BSD-3-Clause (the repository that holds it)",
        how_to_get="datasets/cstr.mat of the GitHub repository franrole/cclust_package",
        editions=(
            Edition("sparse", ("cstr.npz",)),
            Edition("MATLAB sparse", ("cstr.mat",), _CSTR_FOLDER),
        ),
    ),
    DatasetInfo(
        name="reuters",
        view_sizes={"features": 1000},
        class_sizes=_sizes(
            "earn acq crude trade money-fx interest ship sugar coffee gold",
            [3735, 2125, 355, 333, 259, 211, 156, 135, 114, 99],
        ),
        source="Reuters-21578 (Lewis 1997): documents of one topic, ten largest topics; "
        "counts of the 1,000 terms of highest document frequency",
        licence="copyright Reuters Ltd.; free distribution for research purposes only",
        how_to_get="reuters21578.tar.gz of UCI dataset 137",
        editions=(
            Edition("sparse", ("reuters_top10.npz",)),
            Edition("reuters", ("reuters21578.tar.gz",), f"{_UCI_FILES}/reuters21578-mld"),
        ),
        subsets={"2900": 2900},
    ),
    DatasetInfo(
        name="msrc_v1",
        view_sizes={"color_moment": 24, "hog": 576, "gist": 512, "lbp": 256, "centrist": 254},
        class_sizes=_numbered(1, [30] * 7),
        source="features of the MSRC-v1 images (Winn & Jojic 2005)",
        licence="none stated; images (c) Microsoft Research Cambridge, for research",
        how_to_get="MSRC-v1.mat of the GitHub repository weilyshmtu/Multi-view-DataSets",
        editions=(
            Edition("views", ("msrc_v1.npz",)),
            Edition("MATLAB views", ("MSRC-v1.mat",), _MSRC_FOLDER),
        ),
    ),
    _caltech(
        "7",
        _sizes(
            "Faces Motorbikes dollar_bill garfield snoopy stop_sign windsor_chair",
            [435, 798, 52, 34, 35, 64, 56],
        ),
    ),
    _caltech(
        "20",
        _sizes(
            "Faces Leopards Motorbikes binocular brain camera car_side dollar_bill ferry garfield "
            "hedgehog pagoda rhino snoopy stapler stop_sign water_lilly windsor_chair wrench "
            "yin_yang",
            [435, 200, 798, 33, 98, 50, 123, 52, 67, 34, 54, 47, 59, 35, 45, 64, 37, 56, 39, 60],
        ),
    ),
    DatasetInfo(
        name="uci_mfeat",
        view_sizes={"fac": 216, "fou": 76, "kar": 64, "mor": 6, "pix": 240, "zer": 47},
        class_sizes=_numbered(0, [200] * 10),
        source="Duin (1998), Multiple Features: handwritten digits",
        licence=_CC_BY,
        how_to_get="mfeat-fac, -fou, -kar, -mor, -pix and -zer of UCI dataset 72",
        editions=(
            Edition("views", ("uci_mfeat.npz",)),
            Edition(
                "mfeat",
                tuple(f"mfeat-{view}" for view in ("fac", "fou", "kar", "mor", "pix", "zer")),
                f"{_UCI_FILES}/mfeat",
            ),
        ),
    ),
]

DATASETS: dict[str, DatasetInfo] = {info.name: info for info in _ALL}
