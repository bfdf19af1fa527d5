# Each target makes .venv when there is none, installs what it needs once, and says in one line what it does.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FLOORS := oracle reference_impl cuda_impl property_tests reports
LINKS := build/lint
# A test process a core, and no more than eight: each imports torch.
TESTS = $(BIN)/python -m pytest -q -n auto --maxprocesses 8
# make gpu OUT=DIR keeps its results in DIR; without it they are the project's: reports/results and docs/gpu-results.md.
GPU_FILES = $(if $(OUT),--out $(OUT)/gpu.json --table $(OUT)/gpu-results.md)
# Accept traces beside the bundled ones: make gate TRACES=DIR. A checkout's neighbour is taken when it is there.
TRACES ?= $(wildcard ../shared/traces/real)
WITH_TRACES = $(if $(TRACES),--traces $(TRACES))
REPORTS = md=$(1)/gate.md,json=$(1)/gate.json,junit=$(1)/gate.xml
# A virtual environment holds absolute paths: its stamp names the checkout and the Python that it was made for.
HOME_ID := $(shell { pwd; $(PYTHON) --version; } 2>&1 | cksum | cut -d ' ' -f 1)
MADE := $(VENV)/.made-$(HOME_ID)
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e
NO_INSTALL = { echo "make: pip could not install the packages (its reason stands above); it must reach a package registry" >&2; exit 1; }

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help gate test lint wheel docs nightly gpu links clean

help:
	@echo "make gate     the equivalence gate, profile ci: table, verdict, reports in build/gate"
	@echo "make test     the test suite, with coverage"
	@echo "make lint     ruff, mypy and the import contract"
	@echo "make wheel    build sdist and wheel, check them, run both and the guide in empty environments"
	@echo "make docs     the documents as a site, build/site, that needs no network"
	@echo "make nightly  the slow tests, and the gate with profile nightly"
	@echo "make gpu      what only a GPU can show; takes this machine's own python3, torch and triton"
	@echo "make clean    remove .venv, build and every cache"

gate: $(VENV)/.run
	@echo "gate: driving every built-in system through the ci profile (reports: build/gate)"
	@mkdir -p build/gate
	@$(BIN)/frontier-oracle gate --profile ci $(WITH_TRACES) --report $(call REPORTS,build/gate)

test: $(VENV)/.run
	@echo "test: running the tests that are neither slow nor for a GPU, with coverage"
	@$(TESTS) -rs --cov --cov-report=term

lint: $(VENV)/.dev links
	@echo "lint: ruff check, ruff format, mypy, import contract"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy -p frontier_oracle
	@PYTHONPATH=$(LINKS) $(BIN)/lint-imports --no-logo

wheel: $(VENV)/.dev
	@echo "wheel: building it and the sdist, checking their contents, running them in environments with nothing else"
	@BIN=$(BIN) bash .ci/wheel

docs: $(VENV)/.docs
	@echo "docs: building build/site"
	@BIN=$(BIN) bash .ci/docs

nightly: $(VENV)/.ray
	@echo "nightly: slow tests, then the nightly profile of the gate (reports: build/nightly)"
	@$(TESTS) -m "slow and not gpu"
	@mkdir -p build/nightly
	@$(BIN)/frontier-oracle gate --profile nightly --report $(call REPORTS,build/nightly)

gpu: links
	@echo "gpu: tests marked gpu, then the gate and measurements (into $(or $(OUT),reports/results and docs/gpu-results.md)), with $$(command -v $(PYTHON)); no environment is made"
	@$(PYTHON) -c 'import torch, triton; assert torch.cuda.is_available()' 2>/dev/null \
		|| { echo "make: gpu needs a CUDA device, and torch and triton in $(PYTHON)" >&2; exit 3; }
	@PYTHONPATH=$(LINKS) $(PYTHON) -m pytest -q -m gpu
	@PYTHONPATH=$(LINKS) $(PYTHON) -m frontier_oracle.cuda_impl.gpu_run $(GPU_FILES)

clean:
	@echo "clean: removing .venv, build and every cache"
	@rm -rf $(VENV) build dist *.egg-info .coverage .hypothesis .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The floors under the names that they are installed under, for tools that read files and not the installation.
links:
	@mkdir -p $(LINKS)/frontier_oracle
	@for floor in $(FLOORS); do ln -sfn ../../../$$floor $(LINKS)/frontier_oracle/$$floor; done

$(MADE):
	@echo "venv: making $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "make: Python 3.11 or newer is needed; name one with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) \
		|| { echo "make: $(PYTHON) cannot make virtual environments; install its venv module" >&2; exit 1; }
	@touch $@

# cuda: Triton's interpreter runs the kernels on the CPU, so they are checked where there is no GPU.
$(VENV)/.run: $(MADE) pyproject.toml setup.py constraints.txt
	@echo "venv: installing frontier-oracle[test,reports,cuda] into $(VENV) (one to three minutes, once)"
	@$(INSTALL) '.[test,reports,cuda]' || $(NO_INSTALL)
	@touch $@

# ray: for the tests of a cluster of local nodes, which are slow.
$(VENV)/.ray: $(VENV)/.run
	@echo "venv: installing frontier-oracle[ray] into $(VENV)"
	@$(INSTALL) '.[ray]' || $(NO_INSTALL)
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	@echo "venv: installing frontier-oracle[dev] into $(VENV)"
	@$(INSTALL) '.[dev]' || $(NO_INSTALL)
	@touch $@

$(VENV)/.docs: $(VENV)/.run
	@echo "venv: installing frontier-oracle[docs] into $(VENV)"
	@$(INSTALL) '.[docs]' || $(NO_INSTALL)
	@touch $@
