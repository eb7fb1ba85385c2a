"""Datasets of the benchmarks and examples: bundled, downloaded, or read from COTERIE_DATA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.runtime.imports import lazy_names

# Each public name is listed once, here; lazy_names reads the list.
if TYPE_CHECKING:
    from coterie.datasets.catalogue import DatasetInfo as DatasetInfo
    from coterie.datasets.loading import dataset_info as dataset_info
    from coterie.datasets.loading import dataset_names as dataset_names
    from coterie.datasets.loading import load_dataset as load_dataset
    from coterie.datasets.loading import load_views as load_views
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
