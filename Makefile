# Every target sets up its own environment from nothing but Python >= 3.11 and a package index.
PYTHON    ?= python3
VENV      ?= .venv
BIN       := $(VENV)/bin
BASELINES ?= .venv-baselines
PIP       := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test test-all ratios lint format docs bench baselines clean

demo: $(VENV)/.ready                ## draw fruit, fit, rank, write demo/report.html
	$(BIN)/ordrank demo

test: $(VENV)/.ready-dev            ## the tests, without the slow suites
	$(BIN)/python -m pytest -n auto -m "not slow"

test-all: $(VENV)/.ready-dev        ## all tests: also killed processes, clusters and a real browser; with coverage
	$(BIN)/python -m pytest -n auto --cov --cov-report=term
	$(MAKE) ratios

ratios: $(VENV)/.ready-dev          ## guards of speed: ratios of times measured beside each other, on a quiet machine
	$(BIN)/python -m pytest -p no:xdist -p pytest_benchmark.plugin --benchmark-columns median,rounds \
		-o pythonpath=experiments/benchmarks experiments/benchmarks/test_ratios.py

lint: $(VENV)/.ready-dev            ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.ready-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.ready-docs           ## the documentation as a site, docs/_build/html; examples are executed
	@rm -rf docs/api/generated docs/_build/html/.doctrees
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

BENCHMARKS := solvers speed scaling prediction search collection large_collection serve page grading networks end_to_end
.NOTPARALLEL: bench
bench: $(BENCHMARKS:%=bench-%)      ## all measurements of time and memory on a CPU, some hours; bench-NAME for one of them
bench-scaling: BENCH_OPTIONS := --plot docs/images/scaling.png
bench-%: $(VENV)/.ready-dev
	$(BIN)/python experiments/benchmarks/$*.py --out experiments/benchmarks/results/$*.json $(BENCH_OPTIONS)

baselines: $(VENV)/.ready-baselines $(BASELINES)/.ready  ## the packages that ordrank compare compares with

clean:
	rm -rf $(VENV) $(BASELINES) demo docs/_build docs/auto_examples docs/api/generated .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("ordrank needs Python 3.11 or newer; set PYTHON=" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: pyproject.toml experiments/pyproject.toml | $(BIN)/python
	$(PIP) -e '.[all]' -e experiments
	@touch $@

$(VENV)/.ready-dev: pyproject.toml experiments/pyproject.toml | $(BIN)/python
	$(PIP) -e '.[dev]' -e 'experiments[test]'
	@touch $@ $(VENV)/.ready

$(VENV)/.ready-docs: pyproject.toml experiments/pyproject.toml | $(BIN)/python
	$(PIP) -e '.[docs]' -e experiments
	@touch $@ $(VENV)/.ready

$(VENV)/.ready-baselines: pyproject.toml experiments/pyproject.toml | $(BIN)/python
	$(PIP) -e . -e 'experiments[baselines]'
	@touch $@ $(VENV)/.ready

# metric-learn does not run with scikit-learn 1.8 and newer: it has an environment of its own.
$(BASELINES)/.ready: | $(BIN)/python
	$(BIN)/python -m venv $(BASELINES)
	$(BASELINES)/bin/python -m pip install --quiet --disable-pip-version-check \
		metric-learn==0.7.0 scikit-learn==1.7.2 numpy==2.4.6 scipy==1.17.1
	@touch $@
