"""Several players on the same games of a recipe, one after the other: models, scripts, models behind an endpoint."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from trl_envs.config.compose import Composed
from trl_envs.config.model_location import TINY_RANDOM, base_model, model_location
from trl_envs.config.schema import EvalConfig
from trl_envs.errors import ConfigError
from trl_envs.launch import default_run_name, machine_facts, write_down
from trl_envs.plan.build import build_plan, plan_problems
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.launch_plan import LaunchPlan
from trl_envs.plan.mode import INSTALL_VLLM
from trl_envs.plan.problem import refuse
from trl_envs.plan.spec import ProcessSpec
from trl_envs.preflight.findings import Report, raise_errors
from trl_envs.rehearse import bench_config
from trl_envs.results.contest import Contest, write_contest
from trl_envs.results.evaluation import Evaluation, read_evaluation
from trl_envs.results.rundir import RunDirectory
from trl_envs.stage import standing
from trl_envs.stage.display import Display

# Episodes at once, unless rollout.concurrency says otherwise.
SESSIONS = 32
# Where evaluations lie in the folder of runs, which isn't taken for a run.
FOLDER = "evaluations"
_CHECKPOINT = re.compile(r"model|checkpoint-\d+")


@dataclass(frozen=True)
class Contestant:
    """One of those who play.

    Args:
        label: Its name for people.
        arguments: What the evaluation child is told of it.
    """

    label: str
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible endpoint.

    Args:
        url: Its base URL, which mostly ends in /v1.
        key_variable: Environment variable that holds its key.
        plain: Whether to send only what OpenAI's own API knows.
    """

    url: str
    key_variable: str
    plain: bool = False


def local_models(chosen: Sequence[tuple[str, str]], backend: str) -> list[Contestant]:
    """Models that are played on this machine.

    Args:
        chosen: Each as it was typed, and its `model.path`.
        backend: transformers or vllm.

    Raises:
        ConfigError: A run directory without a model.
    """
    for _, path in chosen:
        location = model_location(path)
        if backend == "vllm" and path == TINY_RANDOM:
            raise ConfigError(
                f"--backend vllm reads weights from files, and {path} has none", "leave --backend vllm out"
            )
        if backend == "vllm" and base_model(location) != location:
            raise ConfigError(f"--backend vllm plays no adapter, and {path} is one", "leave --backend vllm out")
    return [
        Contestant(label, ("--model", path, "--backend", backend))
        for label, (_, path) in zip(_labels(chosen), chosen, strict=True)
    ]


def remote_models(names: Sequence[str], endpoint: Endpoint) -> list[Contestant]:
    """Models behind an endpoint, by their names there.

    Args:
        names: The names.
        endpoint: Where they are.

    Raises:
        ConfigError: The address is none, or no model was named.
    """
    parts = urlsplit(endpoint.url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigError(f"--base-url {endpoint.url} is no address", "write it as in --base-url http://HOST:8000/v1")
    if not names:
        raise ConfigError("--base-url needs the model's name there", "add --model NAME")
    where = ("--base-url", endpoint.url, "--key-variable", endpoint.key_variable)
    plain = ("--plain",) if endpoint.plain else ()
    return [Contestant(name, ("--model", name, *where, *plain)) for name in names]


def scripts(policies: Sequence[str]) -> list[Contestant]:
    """Scripted players.

    Args:
        policies: random, solver.
    """
    return [Contestant(policy, ("--policy", policy)) for policy in policies]


def evaluate(
    composed: Composed, contestants: Sequence[Contestant], asked: EvalConfig, out: Path | None, display: Display
) -> Contest:
    """Has each player play the same episodes, on servers that are started once.

    Args:
        composed: The recipe.
        contestants: Who plays; one at least.
        asked: How many episodes of each environment, on which seeds, at which temperature.
        out: Folder for all that was played, not there yet or empty; None makes one below `output_dir`.
        display: Shows how it goes.

    Raises:
        ConfigError: The folder can't be used, or a model can't be loaded.
        TrlEnvError: A server doesn't start, a reward term fails, too many episodes are lost, an endpoint fails.
        Interrupted: Ctrl-C or a signal.
    """
    facts = machine_facts()
    if any("vllm" in one.arguments for one in contestants):
        _check_vllm(facts)
    sessions = min(composed.config.rollout.concurrency or SESSIONS, max(asked.episodes, 2))
    bench = replace(composed, config=replace(bench_config(composed.config, sessions), eval=asked))
    # Before there is a folder.
    refuse(plan_problems(bench.config, facts))
    run, named = _directory(composed, out), _named(contestants)
    plan = _with_players(build_plan(bench.config, facts, run.path, bench.import_folders), run, named)
    write_down(run, bench, plan)
    with standing(run, plan, bench, display, play=False) as stage:
        raise_errors(Report(list(stage.refused)))
        for name in named:
            stage.evaluate(name)
    evaluations = {}
    for name, one in named.items():
        found = read_evaluation(run, name)
        assert isinstance(found, Evaluation), "stage.evaluate raises otherwise"
        evaluations[one.label] = found
    contest = Contest(composed.config.recipe, run, evaluations)
    write_contest(contest)
    return contest


def _check_vllm(facts: MachineFacts) -> None:
    hint = "leave --backend vllm out: transformers plays on any machine"
    if not facts.gpus:
        raise ConfigError("--backend vllm needs a GPU, and none is visible", hint)
    if facts.vllm is None:
        raise ConfigError("--backend vllm needs vLLM, which isn't installed", f"{INSTALL_VLLM}, or {hint}")


def _directory(composed: Composed, out: Path | None) -> RunDirectory:
    if out is None:
        folder = Path(composed.config.output_dir).expanduser().absolute() / FOLDER
        return RunDirectory.create(folder, default_run_name(composed))
    wanted = out.expanduser().absolute()
    if wanted.is_dir() and not any(wanted.iterdir()):
        return RunDirectory(wanted)
    if wanted.exists():
        raise ConfigError(f"--out {out} is there already", "name a folder that isn't there yet, or an empty one")
    return RunDirectory.create(wanted.parent, wanted.name)


def _with_players(plan: LaunchPlan, run: RunDirectory, named: dict[str, Contestant]) -> LaunchPlan:
    """The plan with an evaluation child for each player."""
    command = (sys.executable, "-m", "trl_envs.evaluate.worker", str(run.path), "--name")
    # Evaluations take one GPU, where the trainer may have several.
    variables = next(iter(plan.evaluations.values())).variables
    specs = {
        name: ProcessSpec(f"eval-{name}", (*command, name, *one.arguments), variables) for name, one in named.items()
    }
    return replace(plan, evaluations=specs)


def _labels(chosen: Sequence[tuple[str, str]]) -> list[str]:
    """Names for models: as typed, folders by their own name where that tells them apart."""
    short = [_short(typed) for typed, _ in chosen]
    meant = {label: {path for other, (_, path) in zip(short, chosen, strict=True) if other == label} for label in short}
    return [label if len(meant[label]) == 1 else typed for label, (typed, _) in zip(short, chosen, strict=True)]


def _short(typed: str) -> str:
    folder = Path(typed).expanduser()
    if not folder.is_dir():
        return typed
    folder = folder.resolve()
    return f"{folder.parent.name}/{folder.name}" if _CHECKPOINT.fullmatch(folder.name) else folder.name


def _named(contestants: Sequence[Contestant]) -> dict[str, Contestant]:
    """Players by the names of their files, labels made unique: the second of a name gets a number."""
    seen: Counter[str] = Counter()
    named: dict[str, Contestant] = {}
    for one in contestants:
        seen[one.label] += 1
        number = seen[one.label]
        label = one.label if number == 1 else f"{one.label} ({number})"
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", label).strip("-.") or "player"
        name = next(name for name in (stem, *(f"{stem}-{n}" for n in range(2, 1000))) if name not in named)
        named[name] = replace(one, label=label)
    return named
