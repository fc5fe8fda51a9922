"""Waiting for other processes and pages: only what never comes is a fault, however busy the machine is."""

import time

PATIENCE = 900
"""Seconds after which something never comes."""


def wait_until(condition, process=None):
    """Wait for `condition()`; at once an error if `process`, which should bring it about, has ended."""
    until = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert process is None or process.poll() is None, "the process ended before"
        assert time.monotonic() < until, "it never came"
        time.sleep(0.1)
    return found
