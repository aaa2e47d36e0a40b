"""Run ``calcli fit … --cluster`` on a Dask cluster of two processes that is started for it."""

import subprocess
import sys

from dask.distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        words = [
            sys.executable,
            "-m",
            "calcli",
            *sys.argv[1:],
            "--cluster",
            cluster.scheduler_address,
        ]
        subprocess.run(words, check=True)
