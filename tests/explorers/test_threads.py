"""BLAS on one thread while an explorer fits, and as many as before afterwards."""

import ast
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 (its BLAS is one of those that are looked at)
from threadpoolctl import threadpool_info, threadpool_limits

from polaug.explorers.threads import one_thread


def threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_one_thread_inside_and_as_many_as_before_outside():
    @one_thread
    def inside(a, *, b):
        """Said."""
        return threads(), a @ b

    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        assert max(before) == 2
        during, product = inside(np.eye(2), b=np.ones(2))
        assert set(during) == {1}
        assert threads() == before
        np.testing.assert_array_equal(product, np.ones(2))
    assert inside.__doc__ == "Said."


TWO = """
import threading
import scipy.linalg
from threadpoolctl import threadpool_info
from polaug.explorers.threads import one_thread

def threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

both, left = threading.Barrier(2, timeout=900), threading.Event()

@one_thread
def first():
    both.wait()

@one_thread
def second():
    both.wait()
    assert left.wait(900)
    print(threads())

workers = [threading.Thread(target=each) for each in (first, second)]
print(threads())
for worker in workers:
    worker.start()
workers[0].join()
left.set()
workers[1].join()
print(threads())
"""


def test_the_last_to_leave_restores_the_limit():
    """In a process of its own: two BLAS threads, two threads that fit, the first of which leaves first."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", TWO], env=environment, capture_output=True, text=True, check=True)
    before, inside, after = map(ast.literal_eval, done.stdout.splitlines())
    assert set(inside) == {1}
    assert after == before
    assert max(before) == min(2, os.cpu_count() or 1)


def test_also_after_an_error():
    @one_thread
    def fails():
        raise ZeroDivisionError

    with threadpool_limits(limits=2, user_api="blas"):
        with pytest.raises(ZeroDivisionError):
            fails()
        assert max(threads()) == 2
