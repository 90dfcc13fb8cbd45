# Every target sets up its own environment from nothing but Python >= 3.11 and a package index.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PEERS  ?= .venv-peers

.PHONY: demo test test-web lint bench peers format clean

demo: $(VENV)/.ready                ## draw fruit, fit, rank, write demo/report.html
	$(BIN)/ordrank demo

test: $(VENV)/.ready-dev            ## the whole suite, with coverage
	$(BIN)/python -m pytest -n auto --cov --cov-report=term

test-web: $(VENV)/.ready-dev        ## the page in a real Chromium, and many more requests to its API
	@command -v chromium chromium-browser google-chrome >/dev/null || apt-get install -y chromium
	ORDRANK_API_CASES=200 $(BIN)/python -m pytest -n auto tests/web

lint: $(VENV)/.ready-dev            ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.ready-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.ready-dev           ## solvers, fits beside other learners (some after make peers), growth: benchmarks/results
	$(BIN)/python benchmarks/solvers.py --out benchmarks/results/solvers.json
	$(BIN)/python benchmarks/speed.py --out benchmarks/results/speed.json
	$(BIN)/python benchmarks/scaling.py --out benchmarks/results/scaling.json --plot docs/images/scaling.png

peers: $(VENV)/.ready-peers $(PEERS)/.ready  ## the packages that ordrank compare compares with

clean:
	rm -rf $(VENV) $(PEERS) demo .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("ordrank needs Python 3.11 or newer; set PYTHON=" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.ready-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.ready

$(VENV)/.ready-peers: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[peers]'
	@touch $@ $(VENV)/.ready

# metric-learn does not run with scikit-learn 1.8 and newer: it has an environment of its own.
$(PEERS)/.ready: | $(BIN)/python
	$(BIN)/python -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check \
		metric-learn==0.7.0 scikit-learn==1.7.2 numpy==2.4.6 scipy==1.17.1
	@touch $@
