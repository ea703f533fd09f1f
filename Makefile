# make demo: install, then fit and certify three models.   make test: every check, as continuous integration runs it.
# Both make $(VENV) where there is none, and need Python >= 3.11, make, a C compiler and a package index.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
WORKERS ?= 2
PYTEST_ARGS ?=

BIN := $(VENV)/bin
BENCH := $(VENV)/bench
INSTALL = $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt

export OMP_NUM_THREADS ?= $(WORKERS)
export MPLBACKEND ?= Agg

.DELETE_ON_ERROR:
.PHONY: demo test lint bench certify-suite figures clean

demo: $(VENV)/.run
	$(BIN)/voronoi-circuits demo

test: export OMP_NUM_THREADS = 1
test: lint
	$(BIN)/python -m pytest -n $(WORKERS) $(PYTEST_ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright --pythonpath $(BIN)/python

bench: $(BENCH)/.installed
	$(BENCH)/bin/python -m pytest benchmarks
	$(BENCH)/bin/python -m benchmarks

certify-suite: $(VENV)/.dev
	$(BIN)/python -m tests.certificates.suite

figures: $(VENV)/.run
	$(BIN)/python -m experiments.draw_datasets
	for name in oblique_facet two_level rotated_hyperplane wine_table; do $(BIN)/python -m examples.$$name docs/images || exit 1; done
	$(BIN)/voronoi-circuits demo --out docs/images
	$(BIN)/python -m experiments.report experiments/results/synthetic
	$(BIN)/python -m benchmarks.refinement --draw

clean:
	rm -rf $(VENV) build dist out .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Installed once, and again when what is to be installed has changed.

$(BIN)/pip:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/pip
	$(INSTALL) -e .
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/pip
	$(INSTALL) -e '.[dev]'
	touch $@ $(VENV)/.run

$(BENCH)/.installed: pyproject.toml constraints.txt | $(BIN)/pip
	$(BIN)/python -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --disable-pip-version-check -e '.[bench]' $$(grep '^torch==' constraints.txt)
	touch $@
