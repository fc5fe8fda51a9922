# Every target sets up .venv by itself, once: make demo | test | check | bench | docs | setup | browser | zoo | sbx | clean
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# One thread per process: workers must not fight for the cores, and timings must not depend on it.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test check bench docs setup browser zoo sbx clean

demo: $(READY)
	$(BIN)/polaug compare MountainCar-v0 FrozenLake8x8 --methods ppo,dqn,ppo+pa,dqn+pa --seeds 3 --steps 8000 --workers 2 --save-models --out runs/demo

setup: $(READY)

# constraints.txt pins what was tested, and torch to a build that needs no CUDA packages.
$(READY): pyproject.toml constraints.txt
	@echo "Installing into $(VENV) (about two minutes on a good line) …"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	@touch $@

test: check browser
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The report page is tested in a real browser, Debian's chromium. Where it can't be installed those tests are skipped, and
# fail in CI.
browser:
	@command -v chromium >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } \
	  || echo "no chromium here: the tests of the report page are skipped"

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks.completion
	$(BIN)/python -m benchmarks.rank_one
	$(BIN)/python -m benchmarks.recovery
	$(BIN)/python -m benchmarks.explorer_cost
	$(BIN)/python -m benchmarks.agent_cost
	$(BIN)/python -m benchmarks.study_cost
	$(BIN)/python -m benchmarks.explorers --first-seed 6000 --workers 2

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html; its search needs a server, which is $(PYTHON) -m http.server -d site"

# rl_zoo3 asks for packages in other versions than constraints.txt has: an environment of its own.
zoo:
	$(PYTHON) -m venv .venv-zoo
	grep "^torch==" constraints.txt > .venv-zoo/constraints.txt
	.venv-zoo/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-zoo/constraints.txt --editable ".[contrib]" rl_zoo3 pytest
	.venv-zoo/bin/python -m pytest tests/test_zoo.py

# SBX depends on a nightly build of TensorFlow Probability, which no file can pin for long: an environment of its own.
sbx:
	$(PYTHON) -m venv .venv-sbx
	.venv-sbx/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[sbx]" pytest
	.venv-sbx/bin/python -m pytest tests/sb3/test_sbx.py

# runs/ stays: it may be days of work.
clean:
	rm -rf $(VENV) .venv-zoo .venv-sbx site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
