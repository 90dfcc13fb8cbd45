"""Limits of BLAS threads."""

import os
import subprocess
import sys


def test_the_limit_holds_for_the_blas_of_scipy_too():
    code = (
        "from ordrank.estimators._threads import blas_threads\n"
        "from threadpoolctl import threadpool_info\n"
        "with blas_threads(1):\n"
        "    import scipy.linalg\n"
        "    print({library['num_threads'] for library in threadpool_info() if library['user_api'] == 'blas'})\n"
    )
    two_threads = os.environ | {"OPENBLAS_NUM_THREADS": "2"}
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=two_threads)
    assert run.stdout == "{1}\n"
