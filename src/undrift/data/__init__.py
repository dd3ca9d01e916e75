"""Data sets and their partitions among clients.

>>> import undrift.data as data
>>> d = data.load("digits")
>>> parts = data.exdir(d.train.y, clients=20, classes=2, alpha=10.0, seed=0)
>>> len(parts), sum(len(p) for p in parts) == len(d.train.y)
(20, True)
"""

from undrift.data.catalogue import SHAKESPEARE_CHARACTERS, Entry, catalogue, entry
from undrift.data.cover import Parts, check_cover
from undrift.data.describe import Heterogeneity, describe
from undrift.data.dirichlet import dirichlet
from undrift.data.download import cache_folder, fetch
from undrift.data.errors import DataError, DownloadError, MissingDataError, PartitionError
from undrift.data.exdir import exdir
from undrift.data.load import load
from undrift.data.mapped import mapped
from undrift.data.maps import from_map, to_map
from undrift.data.pathological import pathological
from undrift.data.picture import bubble_figure
from undrift.data.sets import Dataset, Split
from undrift.data.simple import by_group, iid
from undrift.data.verify import Report, Status, status, verify

__all__ = [
    "SHAKESPEARE_CHARACTERS",
    "DataError",
    "Dataset",
    "DownloadError",
    "Entry",
    "Heterogeneity",
    "MissingDataError",
    "PartitionError",
    "Parts",
    "Report",
    "Split",
    "Status",
    "bubble_figure",
    "by_group",
    "cache_folder",
    "catalogue",
    "check_cover",
    "describe",
    "dirichlet",
    "entry",
    "exdir",
    "fetch",
    "from_map",
    "iid",
    "load",
    "mapped",
    "pathological",
    "status",
    "to_map",
    "verify",
]
