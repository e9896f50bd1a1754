"""One Cluster class for every place Dask runs, and one scale in it."""

from dask_fleet._version import __version__

__all__ = ["__version__"]
