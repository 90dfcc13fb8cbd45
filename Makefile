# Every target sets up its own environment from nothing but Python >= 3.11 and a package index.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: demo test lint bench format clean

demo: $(VENV)/.ready                ## draw fruit, fit, rank, write demo/report.html
	$(BIN)/ordrank demo

test: $(VENV)/.ready-dev            ## the whole suite, with coverage
	$(BIN)/python -m pytest -n auto --cov --cov-report=term

lint: $(VENV)/.ready-dev            ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.ready-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.ready-dev           ## ratios of the solvers, kept in benchmarks/results
	$(BIN)/python benchmarks/solvers.py --out benchmarks/results/solvers.json

clean:
	rm -rf $(VENV) demo .coverage* .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("ordrank needs Python 3.11 or newer; set PYTHON=" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(VENV)/.ready-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.ready
