"""Settings for the whole suite: one thread per process, so that parallel workers do not fight and times do not jump."""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # rendering in tests never opens a window
