"""BLAS on one thread while an explorer fits, and as many as before afterwards."""

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 (its BLAS is one of those that are looked at)
from threadpoolctl import threadpool_info, threadpool_limits

from polaug.exploration.threads import one_thread


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


def test_also_after_an_error():
    @one_thread
    def fails():
        raise ZeroDivisionError

    with threadpool_limits(limits=2, user_api="blas"):
        with pytest.raises(ZeroDivisionError):
            fails()
        assert max(threads()) == 2
