# Every target makes the environment it needs in .venv; nothing else is touched.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready
SPARK  := $(VENV)/spark
TOOLS  := $(VENV)/tools
PARTITIONERS := $(VENV)/partitioners
RELEASE := $(VENV)/release
# Builds use the tools in the environment; without a C compiler, Zig's, which the package index has.
ZIG = $(abspath $(BIN))/python -m ziglang
COMPILER = $(shell command -v $(firstword $(CC)) >/dev/null || echo 'CC="$(ZIG) cc" AR="$(ZIG) ar"')
PIP = $(BIN)/python -m pip install --quiet --disable-pip-version-check
BUILD = PATH="$(abspath $(BIN)):$$PATH" CYTHON="$(abspath $(BIN))/cython" $(COMPILER)

.PHONY: demo test test-all hunt check bench docs links clean test-wheel test-lowest test-newest release release-rehearsal

demo: $(READY)            ## simulate two weeks of auctions, find segments, forecast: demo-output/report.html
	$(BIN)/coterie ads demo --output demo-output

PYTEST = -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test: $(TOOLS) $(PARTITIONERS)  ## the tests that are not marked slow: at most 8 minutes on two cores
	$(BIN)/python $(PYTEST) -m "not slow"

# whole benchmarks, notebooks, browsers, proxies and a Spark cluster, too
test-all: $(TOOLS) $(SPARK) $(PARTITIONERS)  ## all tests; .ci/run runs them
	$(BIN)/python $(PYTEST)

# Other tests draw the same examples in every run; a counter-example found here becomes one of them.
hunt: $(TOOLS) $(PARTITIONERS)  ## the tests of properties, with examples that are new in every run
	COTERIE_HUNT=1 $(BIN)/python $(PYTEST) -m hypothesis

check: $(TOOLS)           ## format, lint, types, layers, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=src MESONPY_EDITABLE_SKIP=$$(echo $$PWD/build/cp*) $(BIN)/lint-imports
	$(BIN)/codespell

# gpu needs a GPU and tables some hours: name them to run them
BENCH ?= features noise regret table2 table3 paper-ads peers speed first-use relaxation divided growing scale ads \
  ads-segments ads-decisions ads-speed ads-real serve
bench: $(TOOLS)           ## the figures of docs/benchmarks; one with: make bench BENCH=noise
	$(BIN)/python -m benchmarks $(BENCH) -o docs/benchmarks/generated

docs: $(TOOLS)            ## HTML documentation in docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# what the jobs below run; all tests with: make test-newest TESTS=tests
TESTS ?= $(addprefix tests/,labels counts search consensus relaxation estimators ensembles tables \
  runtime cli inspection datasets multiview)
ELSEWHERE = $(PYTEST) -p no:cacheprovider $(TESTS)

test-wheel: $(RELEASE)    ## the tests with the wheel and the versions of requirements.txt
	rm -rf build/wheel
	$(BUILD) $(BIN)/python -m build --quiet --no-isolation --wheel --outdir build/wheel
	$(PYTHON) -m venv build/wheel/venv
	$(BIN)/uv pip install -q --python build/wheel/venv -r requirements.txt
	$(BIN)/uv pip install -q --python build/wheel/venv --no-deps build/wheel/*.whl
	build/wheel/venv/bin/python -c 'import coterie; assert "/wheel/venv/" in coterie.__file__'
	build/wheel/venv/bin/python $(ELSEWHERE)

RESOLUTION_lowest := lowest-direct
RESOLUTION_newest := highest
test-lowest test-newest: test-%: $(RELEASE)  ## with the lowest allowed or the newest versions
	rm -rf build/$*
	$(PYTHON) -m venv build/$*
	$(BIN)/uv pip install -q --python build/$* --resolution $(RESOLUTION_$*) \
	  -r pyproject.toml --extra test
	$(BUILD) $(BIN)/uv pip install -q --python build/$* --no-deps .
	build/$*/bin/python $(ELSEWHERE)

release: $(RELEASE)       ## check that the version can be released, and build it into dist
	$(BIN)/python packaging/release.py

release-rehearsal: $(RELEASE)  ## the same, though the version is not ready
	$(BIN)/python packaging/release.py --rehearse

links: $(TOOLS)           ## links of the documentation to other sites; needs the network
	$(BIN)/python -m sphinx -D plot_gallery=0 -b linkcheck docs docs/_build/links

clean:
	rm -rf $(VENV) build dist docs/_build docs/gallery docs/api/generated docs/api/methods/generated demo-output

$(READY): requirements.txt pyproject.toml meson.build
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "coterie needs Python 3.11 or newer; try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "Python's venv is missing; on Debian or Ubuntu: apt install python3-venv"; exit 1; }
	@$(PYTHON) -c 'import os, sys, sysconfig as s; sys.exit(not os.path.exists(s.get_path("include") + "/Python.h"))' || \
	  { echo "Python's headers are missing; on Debian or Ubuntu: apt install python3-dev"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) --constraint requirements.txt cython meson-python ninja
	@command -v $(firstword $(CC)) >/dev/null || $(PIP) -r requirements-compiler.txt
	$(BUILD) $(PIP) --constraint requirements.txt --no-build-isolation -e '.[ads]'
	@touch $(READY)

# what developers need
$(TOOLS): $(READY) requirements.txt
	$(PIP) -r requirements.txt
	@touch $(TOOLS)

# Spark's tests need Java and PySpark; where either cannot be had they are skipped, and say so.
$(SPARK): $(TOOLS) requirements-spark.txt
	@if command -v java >/dev/null; then \
	  $(PIP) -r requirements-spark.txt \
	    || echo "PySpark could not be installed; its tests will be skipped"; \
	else echo "There is no Java here; Spark's tests will be skipped"; fi
	@touch $(SPARK)

# CSPA, HGPA, MCLA and HBGF run without graph partitioners too; tests of these packages need them.
$(PARTITIONERS): $(TOOLS) requirements-partitioners.txt
	@$(PIP) -r requirements-partitioners.txt \
	  || echo "The graph partitioners could not be installed; their tests will be skipped"
	@touch $(PARTITIONERS)

$(RELEASE): $(TOOLS) requirements-release.txt
	$(PIP) -r requirements-release.txt
	@touch $(RELEASE)
