# On a fresh machine `make demo` and `make test` do everything; they need Python 3.11 to 3.13, git and make.
.PHONY: help demo test test-long package lint format bench pictures reference lock clean

BIN := .venv/bin
PACKAGES := lcm_tui core/lcm_core core/lcm_host core/lcm_recall core/lcm_remnic prompts/lcm_prompts
# Tests of screens wait a good deal: four workers for two cores. Each takes a row of files (worksteal), so that what
# the tests of a file share is made once.
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2) * 2 )))
# They write gigabytes that nobody keeps, and wait for the disk at every commit: into memory where there is room.
ROOM := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 { print "TMPDIR=/dev/shm" }')
# Without bytecode of the tests and the plugins every worker compiles them again.
PYTEST = env $(ROOM) PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
export PYTHON

help:
	@echo "make demo      open the app on a demonstration database"
	@echo "make test      every check and every test (WORKERS=2 sets how many at a time)"
	@echo "make test-long the rest of them, which takes hours with tests/values"
	@echo "make package   build the wheel, install it elsewhere with the newest dependencies, and try it"
	@echo "make lint      the checks alone: ruff, mypy (the Python of the pages too), import-linter"
	@echo "make format    let ruff format and fix what it can"
	@echo "make bench     measure app and commands on large databases (ARGS: for the app)"
	@echo "make pictures  take the pictures in screenshots/ again"
	@echo "make reference make docs/commands.md and share/ again: the man page, completions"
	@echo "make lock      pin the newest allowed dependencies in requirements.lock"
	@echo "make clean     remove the environment and everything else that was made here"

# The program starts at half the speed without bytecode, and PYTHONDONTWRITEBYTECODE may be set.
demo: .venv/ready
	@$(BIN)/python -m compileall -q $(PACKAGES)
	@$(BIN)/lcm-tui demo $(ARGS)

# The checks use one core; meanwhile the other one compiles the tests once, which each worker would do at a time.
test: .venv/ready
	@$(MAKE) --no-print-directory -j2 lint bytecode
	$(PYTEST) $(ARGS)

.PHONY: bytecode
bytecode: .venv/ready
	@env PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -qq --collect-only >/dev/null || : # the run says what failed

test-long: .venv/ready
	$(PYTEST) -m long --timeout=1800 $(ARGS)

package: .venv/ready
	@.ci/package

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_api.py -m long -k type_check # the Python of the pages
	$(BIN)/lint-imports --no-logo

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/ready
	@$(BIN)/python -m compileall -q $(PACKAGES)
	$(BIN)/python -m benchmarks $(ARGS); table=$$?; \
	$(BIN)/python -m benchmarks.commands; commands=$$?; \
	$(BIN)/python -m benchmarks.calm && exit $$((table | commands))

pictures: .venv/ready
	$(BIN)/python screenshots/take.py $(ARGS)

reference: .venv/ready
	$(BIN)/python -m lcm_tui.cli.reference > docs/commands.md
	$(BIN)/python -m lcm_tui.cli.reference man > share/man/man1/lcm-tui.1
	$(BIN)/lcm-tui --completion bash > share/bash-completion/completions/lcm-tui
	$(BIN)/lcm-tui --completion zsh > share/zsh/site-functions/_lcm-tui
	$(BIN)/lcm-tui --completion fish > share/fish/vendor_completions.d/lcm-tui.fish

.venv/ready: pyproject.toml requirements.lock .ci/environment
	@.ci/environment
	@$(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@

# Not from the settings of this machine: the lock holds the public files for every platform.
lock:
	@command -v uv >/dev/null || { echo "make lock needs uv on PATH."; exit 1; }
	env -u UV_INDEX -u UV_DEFAULT_INDEX -u UV_INDEX_URL -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS \
		uv pip compile pyproject.toml --group dev --no-config --upgrade --quiet \
		--universal --python-version 3.11 --generate-hashes --custom-compile-command "make lock" \
		--output-file requirements.lock

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	rm -rf snapshot_report.html benchmarks/out
	find . -name .git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
