"""What a run costs through trl-env, against the shortest plain TRL script that does the same work.

    python benchmarks/overhead.py [--steps 20] [--runs 3] [--json]

Both train the tiny agent on catch with the numbers of preset=smoke, on a server that they start themselves, and save
the model. The script checks nothing, supervises nothing and records nothing but TRL's own completions. Whole processes
are timed, in turns; the ratio is trl-env's seconds over the script's, the median of the pairs. The launcher's own peak
memory is that of its process alone, without the children that train and serve.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SCRIPT = """
import os, subprocess, sys, time, urllib.request
os.environ["HF_HUB_OFFLINE"] = "1"
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer
from trl_envs.envs.catch import CatchEnv
from trl_envs.paths import tiny_model_dir
from trl_envs.rollout.session import SessionOpener

port, steps, folder, prompt = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
server = subprocess.Popen(
    [sys.executable, "-m", "uvicorn", "trl_envs.envs.catch.server:app", "--port", port, "--log-level", "warning"],
    env={**os.environ, "MAX_CONCURRENT_ENVS": "16"},
)
while True:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health").close()
        break
    except OSError:
        time.sleep(0.1)
open_session = SessionOpener([f"http://127.0.0.1:{port}"])

def caught(environments, **kwargs):
    return [float(environment.episode.facts["caught"]) for environment in environments]

message = [{"role": "user", "content": prompt}]
trainer = GRPOTrainer(
    model=str(tiny_model_dir()),
    args=GRPOConfig(
        output_dir=folder, use_cpu=True, bf16=False, num_generations=4, per_device_train_batch_size=4,
        gradient_accumulation_steps=2, max_steps=steps, max_completion_length=1024, max_tool_calling_iterations=12,
        chat_template_kwargs={"enable_thinking": False}, temperature=1.0, top_k=0, logging_steps=1, report_to=[],
        save_strategy="no", learning_rate=1e-6, log_completions=True, num_completions_to_print=0, disable_tqdm=True,
    ),
    train_dataset=Dataset.from_list([{"prompt": message, "seed": seed} for seed in range(1000)]),
    reward_funcs=[caught],
    environment_factory=lambda: CatchEnv(open_session),
)
trainer.train()
trainer.save_model(folder)
server.terminate()
server.wait()
"""


def free_port() -> int:
    from trl_envs.machine import free_port as free

    return free("127.0.0.1")


def timed(command: list[str], folder: str) -> tuple[float, float]:
    """Seconds of a whole process, and the peak of its own memory in MiB."""
    variables = {**os.environ, "TRL_EXPERIMENTAL_SILENCE": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    started_s, peak_kib = time.perf_counter(), 0
    log = Path(folder) / "output.log"
    with log.open("ab") as output:
        process = subprocess.Popen(command, cwd=folder, env=variables, stdout=output, stderr=output)
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            if status.exists():
                found = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM")]
                peak_kib = max(peak_kib, *map(int, found), 0)
            time.sleep(0.1)
    if process.returncode != 0:
        raise SystemExit(f"{command[:4]} failed:\n{log.read_text()[-3000:]}")
    return time.perf_counter() - started_s, peak_kib / 1024


def measure(steps: int, runs: int) -> dict[str, Any]:
    from trl_envs.config.compose import compose

    prompt = compose(["recipe=catch"]).config.envs["catch"].prompt
    ours_s, script_s, peaks = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        launcher = [
            sys.executable,
            "-m",
            "trl_envs",
            "train",
            "recipe=catch",
            "preset=smoke",
            f"grpo.max_steps={steps}",
        ]
        for run in range(runs):
            seconds, peak = timed([*launcher, f"run_name=run-{run}"], folder)
            ours_s.append(seconds)
            peaks.append(peak)
            script = [sys.executable, "-c", SCRIPT, str(free_port()), str(steps), f"{folder}/plain-{run}", prompt]
            script_s.append(timed(script, folder)[0])
    return {
        "steps": steps,
        "trl-env_s": statistics.median(ours_s),
        "script_s": statistics.median(script_s),
        "ratio": statistics.median(ours / theirs for ours, theirs in zip(ours_s, script_s, strict=True)),
        "launcher_peak_mib": max(peaks),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(options.steps, options.runs)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(f"{options.steps} steps of catch, whole processes, medians of {options.runs} pairs\n")
    print(f"trl-env train     {result['trl-env_s']:7.1f} s")
    print(f"plain TRL script  {result['script_s']:7.1f} s")
    print(f"\nratio {result['ratio']:.2f}; the launcher's own memory peaks at {result['launcher_peak_mib']:.0f} MiB")


if __name__ == "__main__":
    main()
