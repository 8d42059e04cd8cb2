# `make demo` shows the whole chain, `make test` passes the tests. Both make .venv ready by themselves.
# Settings: PYTHON=python3.12, TORCH=torch==2.13.0, TORCH_INDEX=<an index of CPU builds>, PYTEST=<its arguments>

PYTHON ?= python3
TORCH ?= torch==2.13.0
TORCH_INDEX ?=
PYTEST ?= -n 4 --dist loadfile --no-loadscope-reorder
DEMO ?=
BIN := .venv/bin
export PYTHON TORCH TORCH_INDEX
unexport PYTHONDONTWRITEBYTECODE  # the tests start some hundred processes: what is compiled stays so

.PHONY: help demo test test-kubernetes lint format setup dev lock clean

help: ## say what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/'

demo: ## break a real PyTorch job here, watch it recover (DEMO="--keep --seed 7", FAULTCAST_LANGUAGE=en)
	@.ci/setup runtime
	@$(BIN)/faultcast demo $(DEMO)

test: lint ## everything CI asks for: style, types, imports, all tests
	@echo "==> tests"
	@$(BIN)/python -m pytest $(PYTEST) || { \
	    echo "==> once more, one by one: what failed beside the others (who passes now is a test to be mended)"; \
	    $(BIN)/python -m pytest --last-failed --last-failed-no-failures none; }

test-kubernetes: ## the node's agent and a real Kubernetes API server, which is built here once (Debian 12, 5 minutes)
	@.ci/setup dev
	@bin=$$(tests/kubernetes/build) && KUBERNETES_BIN=$$bin $(BIN)/python -m pytest tests/kubernetes

lint: ## style, types and import arrows
	@.ci/setup dev
	@echo "==> ruff, mypy, import-linter"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: ## put the code into shape
	@.ci/setup dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

setup: ## make .venv ready to run faultcast
	@.ci/setup runtime

dev: ## make .venv ready for development
	@.ci/setup dev

lock: ## pin the dependencies anew (needs uv)
	uv pip compile -q --universal --upgrade --python-version 3.11 --generate-hashes --no-header \
	    --no-emit-index-url --no-emit-find-links --group build --all-extras pyproject.toml -o requirements.lock
	uv pip compile -q --universal --upgrade --python-version 3.11 --generate-hashes --no-header \
	    --no-emit-index-url --no-emit-find-links --group build --group dev -c requirements.lock \
	    --all-extras pyproject.toml -o requirements-dev.lock

clean: ## remove what was made here (.venv too)
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
