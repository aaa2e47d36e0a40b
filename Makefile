# make demo   set up, run the main job on sample_data/, show the result
# make test   set up with test dependencies, run the suite; SLOW=1 adds what takes seconds a test, as CI does
# make fuzz   mutated files and full disks for an hour (CALCLI_FUZZ_SECONDS)
# make lint   ruff and mypy
# make bench  every benchmark that needs nothing but this checkout
# make papers  the published tables and figures from real logits: make papers DATA=FOLDER
# make reports  the report pages that the documentation shows, and their pictures: make reports DATA=FOLDER
# make exports  docs/exports.json: how far every export is from apply: make exports DATA=FOLDER
# make dist   wheel and sdist in dist/: built, checked, installed and run on every Python; make dist TAG=v0.2.0
# make man    the manual page, calcli.1
# make docs   the documentation, docs/_build/index.html
# make test-lowest  the suite against the lowest versions that pyproject.toml declares

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
OUT    := demo_output
DATA   ?= ../shared/data
PAPERS ?= docs/papers/numbers

# Compiled once here, so that a command starts fast where Python may not write its cache.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test test-lowest fuzz lint bench papers reports exports dist man docs clean

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "calcli needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.plot: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[plot]'
	@touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[test]'
	@touch $@ $(VENV)/.plot

$(VENV)/.lint: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[lint]'
	@touch $@

$(VENV)/.docs: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) --editable '.[docs]'
	@touch $@

$(VENV)/.dist: $(VENV)/bin/python constraints.txt
	$(INSTALL) build packaging
	@touch $@

demo: $(VENV)/.plot
	@$(BIN)/python -m compileall -q calcli
	@PATH="$(abspath $(BIN)):$$PATH" OUT=$(OUT) sh sample_data/demo.sh

test: $(VENV)/.test
	@$(BIN)/python -m compileall -q calcli
	$(BIN)/python -m pytest -n auto --dist worksteal $(if $(SLOW),,-m "not slow") $(TEST_ARGS)

test-lowest: $(VENV)-lowest/.done
	$(VENV)-lowest/bin/python -m pytest $(TEST_ARGS)

$(VENV)-lowest/.done: pyproject.toml constraints.txt .ci/lowest.py
	$(PYTHON) -m venv $(VENV)-lowest
	$(PYTHON) .ci/lowest.py > $(VENV)-lowest/constraints.txt
	$(VENV)-lowest/bin/python -m pip install --quiet --disable-pip-version-check \
	  --constraint $(VENV)-lowest/constraints.txt --editable '.[test]'
	@touch $@

fuzz: $(VENV)/.test
	CALCLI_FUZZ_SECONDS=$${CALCLI_FUZZ_SECONDS:-3600} $(BIN)/python -m pytest tests/fuzz tests/faults

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff check --select C901,PLR0912,PLR0915 --exit-zero --output-format concise calcli # a warning light, not a gate
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Not cuda.py, which needs a GPU, and machinery.py, which compares two revisions.
BENCHMARKS = $(filter-out benchmarks/cuda.py benchmarks/machinery.py,$(wildcard benchmarks/[a-z]*.py))

bench: $(VENV)/.test
	@for script in $(BENCHMARKS); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

# Runs whose files are in DATA; a network that is missing leaves its part as it is stored. At most half an hour on two cores.
papers: $(VENV)/.plot
	BIN=$(abspath $(BIN)) sh reproductions/papers.sh $(DATA) $(PAPERS)
	$(BIN)/python reproductions/papers_pages.py $(PAPERS) -o docs/papers

reports: $(VENV)/.plot
	@PATH="$(abspath $(BIN)):$$PATH" sh docs/reports.sh $(DATA) docs/reports
	@$(BIN)/python docs/screenshots.py docs/reports/sample.html docs

exports: $(VENV)/.test
	$(BIN)/python benchmarks/exports.py $(DATA)/cifar10_resnet20.npz $(DATA)/cifar100_resnet20.npz -o docs/exports.json

dist: $(VENV)/.dist
	$(BIN)/python .ci/dist.py $${TAG:+--tag "$$TAG"}

man: $(VENV)/.plot
	$(BIN)/python -c 'from calcli.cli.manual_page import manual; print(manual(), end="")' > calcli.1

docs: $(VENV)/.docs
	@$(BIN)/python -W ignore -m sphinx -n -W --keep-going -q -b html docs docs/_build
	@echo "The documentation is docs/_build/index.html"

clean:
	rm -rf $(VENV) $(VENV)-lowest $(OUT) calcli.1 docs/_build docs/generated build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
