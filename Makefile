# Every target makes the environment it needs in .venv; nothing else is touched.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready
SPARK  := $(VENV)/spark
PARTITIONERS := $(VENV)/partitioners

.PHONY: demo test check bench docs clean

demo: $(READY)            ## simulate a week of auctions, find segments, forecast: demo-output/report.html
	$(BIN)/coterie demo --output demo-output

test: $(READY) $(SPARK) $(PARTITIONERS)  ## the tests and the examples in the docstrings
	$(BIN)/python -m pytest -n 2 --dist loadgroup

check: $(READY)           ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# gpu needs a GPU and tables some hours: name them to run them
BENCH ?= features noise regret table2 table3 peers speed relaxation divided growing scale ads \
  ads-segments ads-decisions ads-speed ads-real serve
bench: $(READY)           ## the figures of docs/benchmarks; one with: make bench BENCH=noise
	$(BIN)/python -m benchmarks $(BENCH) -o docs/benchmarks/generated

docs: $(READY)            ## HTML documentation in docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

clean:
	rm -rf $(VENV) docs/_build docs/gallery docs/reference/api/generated docs/reference/methods/generated demo-output

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "coterie needs Python 3.11 or newer; try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "Python's venv is missing; on Debian or Ubuntu: apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(READY)

# Spark's tests need Java and PySpark; where either cannot be had they are skipped, and say so.
$(SPARK): $(READY) requirements-spark.txt
	@if command -v java >/dev/null; then \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-spark.txt \
	    || echo "PySpark could not be installed; its tests will be skipped"; \
	else echo "There is no Java here; Spark's tests will be skipped"; fi
	@touch $(SPARK)

# CSPA, HGPA, MCLA and HBGF run without graph partitioners too; tests of these packages need them.
$(PARTITIONERS): $(READY) requirements-partitioners.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-partitioners.txt \
	  || echo "The graph partitioners could not be installed; their tests will be skipped"
	@touch $(PARTITIONERS)
