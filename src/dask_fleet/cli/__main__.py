"""``python -m dask_fleet.cli``: the same as ``dask fleet``."""

from dask_fleet.cli.main import fleet

if __name__ == "__main__":
    fleet(prog_name="dask fleet")
