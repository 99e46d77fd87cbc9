"""The live probe, a child process: `python -m trl_envs.preflight.probe RUN_DIR [--all-sessions]`.

It reads config.yaml and plan.json of the run directory as the worker does, checks against the servers that will be
used whatever needs imports, a tokenizer, sessions or an episode, and goes on after each finding. stdout is one JSON
document, `{"findings": [{level, key, message, hint}], "figures": {...}}`, which is left in the run directory as
preflight.json too; everything else goes to stderr. Exit code 0 whenever it could run: the findings decide.

Figures, seconds in all of them:

    model     path, prompt_tokens by environment (before the first observation)
    capacity  one entry a server, or group of servers with environments in common: environments, urls, needed (sessions
              that the run will hold), tried, found, reset_s {median, p95}
    episodes  by environment: calls, rewards by term, step_s {median, p95}
    tokens    games by environment, one entry a scripted player (player, episodes; prompt, completion and calls, each
              {median, p95}; first_turn), and limits: completion, calls, positions, vllm, thinking (a turn's allowance)
    memory    only with a GPU: gpu, gpu_gib, parameters, parts (GiB by what they are for), peak_gib, worst_gib (episodes
              as long as the config allows); or parts empty, and why_not
    seconds   by check, and `all`
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trl_envs.config.store import load_config
from trl_envs.errors import TrlEnvError
from trl_envs.paths import make_importable
from trl_envs.preflight.live import ALL_SESSIONS, probe_deadline_s
from trl_envs.preflight.probe_network import needs_hub, stay_offline_without_network
from trl_envs.preflight.probe_report import Collector

if TYPE_CHECKING:
    from trl_envs.config.schema import TrainConfig


def main(arguments: list[str]) -> int:
    """Probes the run in the directory that the first argument names."""
    stdout_fd = os.dup(1)
    # Whatever a recipe's code or a library prints belongs to the log, not into the JSON document.
    os.dup2(2, 1)
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    run_dir = Path(arguments[0])
    try:
        config = load_config(run_dir / "config.yaml")
        plan = json.loads((run_dir / "plan.json").read_text(encoding="utf-8"))
    except (TrlEnvError, OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    collector = Collector(probe_deadline_s(config.rollout))
    collector.end_at_deadline(run_dir, stdout_fd)
    make_importable(plan["import_folders"])
    probe(config, plan, collector, all_sessions=ALL_SESSIONS in arguments)
    collector.emit(run_dir, stdout_fd)
    return 0


def probe(config: TrainConfig, plan: dict[str, Any], collector: Collector, *, all_sessions: bool) -> None:
    """Runs every check.

    Args:
        config: The run's config.
        plan: plan.json.
        collector: Takes findings and figures.
        all_sessions: Whether to open all sessions on Spaces of others too.
    """
    if needs_hub(config):
        with collector.doing("asking whether the Hub can be reached"):
            stay_offline_without_network()
    # From here on huggingface_hub may be imported, which takes its variables as they are now.
    from trl_envs.agent.chat import ChatFormat
    from trl_envs.preflight.probe_env import load_candidates
    from trl_envs.preflight.probe_memory import check_memory
    from trl_envs.preflight.probe_model import check_model
    from trl_envs.preflight.probe_play import SEED_PAIRS, check_episodes
    from trl_envs.preflight.probe_protocol import check_protocols
    from trl_envs.preflight.probe_sessions import check_capacity
    from trl_envs.preflight.probe_tokens import check_tokens, template_kwargs

    servers = plan["environments"]
    with collector.doing("importing what the recipe names"):
        candidates = load_candidates(config, servers, collector)
    with collector.doing("comparing what classes send with what servers take"):
        playable = check_protocols(config, servers, candidates, collector)
    check_capacity(config, servers, playable, collector, all_sessions=all_sessions)
    episodes = {}
    for candidate in playable:
        shared = servers[candidate.name]["shared"] and not all_sessions
        with collector.doing(f"playing {candidate.name}"):
            figures = check_episodes(candidate, collector, pairs=1 if shared else SEED_PAIRS)
        if figures is not None:
            episodes[candidate.name] = figures
    collector.figure("episodes", episodes)
    with collector.doing(f"loading the tokenizer of {config.model.path}"):
        model = check_model(config, candidates, collector)
    if model is not None and model.speaks:
        with collector.doing("counting the tokens of scripted games"):
            playable = [candidate for candidate in candidates if candidate.name in episodes and candidate.schemas]
            chat = ChatFormat(model.tokenizer, template_kwargs(config))
            # With what the launch derives where the config says nothing, such as the length that vLLM takes.
            launched = replace(config, grpo={**(plan.get("grpo") or {}), **config.grpo})
            games = check_tokens(launched, playable, servers, chat, model.positions, plan["mode"], collector)
        with collector.doing("estimating GPU memory"):
            check_memory(launched, plan, model, games, collector, thinks=chat.thinks())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
