"""What a person may ask for: every key of a run, with its type, default and unit.

YAML key = dataclass field = key on the command line. `grpo` and `sft` are open: their keys are GRPOConfig's and
SFTConfig's own (grpo_fields.py, sft_fields.py).
Settings of an environment class and numbers of a reward term stand beside their `_target_` and are checked against its
signature by whoever builds them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from omegaconf import MISSING


class ServerMode(Enum):
    """Where an environment's server runs."""

    local = "local"
    space = "space"
    docker = "docker"
    url = "url"


class LaunchMode(Enum):
    """How the model generates: with transformers, with vLLM in the trainer, or with a vLLM server beside it."""

    auto = "auto"
    single = "single"
    colocate = "colocate"
    server = "server"


class DeadSignalAction(Enum):
    """What to do about a run that can't learn."""

    warn = "warn"
    stop = "stop"


class JobMode(Enum):
    """Where a submitted run goes."""

    hf_jobs = "hf_jobs"


@dataclass
class LoraConfig:
    """An adapter instead of all weights.

    Args:
        rank: Rank of the update matrices.
        alpha: Scale of the update; the update is multiplied by alpha / rank.
        target_modules: Names of the modules to adapt, or "all-linear".
    """

    rank: int = 16
    alpha: int = 32
    target_modules: Any = "all-linear"


@dataclass
class ModelConfig:
    """The model to train.

    Args:
        path: `tiny` (ships with trl-env), `tiny-random` (the same with random weights), owner/name on the Hub, a
            directory, or a run directory.
        tokenizer: The same for the tokenizer; null takes the model's.
        dtype: Of the weights: float32, bfloat16 or float16; null lets the launch decide.
        lora: Train an adapter; null trains all weights.
    """

    path: str = MISSING
    tokenizer: str | None = None
    dtype: str | None = None
    lora: LoraConfig | None = None


@dataclass
class ServerConfig:
    """Where environment servers run, unless an environment says otherwise.

    Args:
        mode: local starts the embedded server, docker a container; url uses what runs already, space one of the Hub's.
        host: Address on which servers that are started here listen (local, docker).
        port: TCP port of such a server; null takes a free one.
        ready_timeout_s: Seconds until such a server that doesn't answer counts as failed.
        space_timeout_s: Seconds for which a Space that sleeps or is being built is waited for.
        heartbeat_timeout_s: Seconds of silence after which a server counts as hung and the run stops.
        token_env: Name of the environment variable that holds the token for the Hub and for private servers.
    """

    mode: ServerMode = ServerMode.local
    host: str = "127.0.0.1"
    port: int | None = None
    workers: int | None = None
    ready_timeout_s: float = 60.0
    space_timeout_s: float = 600.0
    heartbeat_timeout_s: float = 30.0
    token_env: str = "HF_TOKEN"


@dataclass
class RolloutConfig:
    """How sessions with environment servers behave.

    Args:
        concurrency: Sessions that work at the same time; null means all of the generation batch.
        connect_timeout_s: Seconds to open a connection.
        call_timeout_s: Seconds for the answer to one reset or step.
        capacity_wait_s: Seconds for which a reset is tried again on a full or restarting server.
        ping_interval_s: Seconds between keepalive pings; null turns them off.
        ping_timeout_s: Seconds without a pong after which the connection counts as dead.
        max_lost_fraction: Share of a generation batch's episodes that may be lost before the run stops.
        allow_cut_episodes: Whether limits that cut most episodes off before their end are let pass with a warning: in
            a run that needn't learn, such as preset=smoke.
    """

    concurrency: int | None = None
    connect_timeout_s: float = 10.0
    call_timeout_s: float = 60.0
    capacity_wait_s: float = 60.0
    ping_interval_s: float | None = 20.0
    ping_timeout_s: float | None = 20.0
    max_lost_fraction: float = 0.25
    allow_cut_episodes: bool = False


@dataclass
class LaunchConfig:
    """Which processes train and generate, and on what.

    Args:
        mode: auto chooses by the machine.
        processes: Training processes, over all machines.
        gpus: GPUs of the trainer, as nvidia-smi numbers them; null takes what is visible.
        vllm_gpus: GPUs of the vLLM server; null takes those that the trainer leaves.
        vllm_tensor_parallel: GPUs over which the vLLM server splits the model; it runs as many copies as fit.
        accelerate: multi_gpu, zero2, zero3, fsdp2 or an accelerate config file, for several processes.
        machines: Machines that train together; each is started by hand with the same command and its machine_rank.
        machine_rank: Which of them this one is, from 0.
        main_process_ip: Address of machine 0.
        main_process_port: A free TCP port on machine 0.
        vllm_executable: The `vllm` program, where it lives in another Python environment.
        ready_timeout_s: Seconds until a vLLM server that doesn't answer counts as failed.
        heartbeat_timeout_s: Seconds without an answer, or without a token for requests that wait, after which a vLLM
            server counts as hung and the run stops.
        vllm_args: Further arguments of `vllm serve`.
    """

    mode: LaunchMode = LaunchMode.auto
    processes: int = 1
    gpus: list[int] | None = None
    vllm_gpus: list[int] | None = None
    vllm_tensor_parallel: int = 1
    accelerate: str | None = None
    machines: int = 1
    machine_rank: int = 0
    main_process_ip: str | None = None
    main_process_port: int | None = None
    vllm_executable: str | None = None
    ready_timeout_s: float = 600.0
    heartbeat_timeout_s: float = 60.0
    vllm_args: list[str] = field(default_factory=list)


@dataclass
class EvalConfig:
    """Playing before and after training, outside TRL's own evaluation.

    Args:
        episodes: Episodes each time; 0 is off.
        seed: Of the episodes played, apart from those trained on.
        temperature: Of sampling; null takes the training temperature.
    """

    episodes: int = 0
    seed: int = 1_000_003
    temperature: float | None = None


@dataclass
class WatchConfig:
    """Watching a run for signs that it can't learn.

    Args:
        on_dead_signal: warn says so, stop ends the run.
        patience_steps: Steps for which a sign must last.
    """

    on_dead_signal: DeadSignalAction = DeadSignalAction.warn
    patience_steps: int = 5


@dataclass
class LoggingConfig:
    """Where metrics go beside the run directory.

    Args:
        report_to: Names that transformers knows, such as trackio or wandb; null is trackio where it is installed, an
            empty list is nowhere.
        project: Name of the project there.
    """

    report_to: list[str] | None = None
    project: str = "trl-env"


@dataclass
class JobConfig:
    """Submitting a run to somebody else's machine.

    Args:
        mode: Which service; null runs here.
        flavor: Hardware, in the service's words.
        timeout: Longest run, such as 4h.
    """

    mode: JobMode | None = None
    flavor: str | None = None
    timeout: str | None = None


@dataclass
class EnvConfig:
    """One environment of a recipe.

    Args:
        environment: `_target_`, the class, and its own settings beside it.
        app: The embedded server, `module:attribute` of an ASGI app (server=local).
        space: owner/name of a Space of the Hub (server=space); the Hub gives its address.
        image: Container image whose server listens on port 8000 (server=docker).
        url: One URL or a list of URLs; set means: use what already runs, whatever `server` says.
        server: This environment's own server mode, where it differs from `server.mode`.
        variables: Environment variables of the server that is started (local, docker), and of a copied Space.
        prompt: The user message; what `reset` returns is appended to it.
        system_prompt: A system message before it.
        episodes: Rows of the data set, each with its own episode seed.
        seed: From which the episode seeds are derived.
        rewards: Reward terms by name: `_target_`, `weight` and the term's numbers.
    """

    environment: dict[str, Any] = field(default_factory=dict)
    app: str | None = None
    space: str | None = None
    image: str | None = None
    url: Any = None
    server: ServerMode | None = None
    variables: dict[str, Any] = field(default_factory=dict)
    prompt: str = ""
    system_prompt: str | None = None
    episodes: int = 0
    seed: int = 0
    rewards: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass
class TrainConfig:
    """A whole run.

    Args:
        recipe: Name of the recipe that was composed.
        preset: Name of the preset over it.
        description: One line on the task.
        seed: Of the trainer, and of the episodes unless an environment sets its own.
        output_dir: Folder of run directories.
        run_name: Folder of this run inside it; null makes one from the recipe and the time.
        mix: Share of each environment in every generation batch; null leaves it to chance.
        envs: Environments by name.
        grpo: GRPOConfig's own fields, but those the launcher owns.
        sft: SFTConfig's own fields, but those the launcher owns: for `trl-env sft`, which training doesn't read.
    """

    recipe: str = MISSING
    preset: str = "full"
    description: str = ""
    seed: int = 0
    output_dir: str = "runs"
    run_name: str | None = None
    envs: dict[str, EnvConfig] = field(default_factory=dict)
    mix: dict[str, float] | None = None
    grpo: dict[str, Any] = field(default_factory=dict)
    sft: dict[str, Any] = field(default_factory=dict)
    model: ModelConfig = field(default_factory=ModelConfig)
    server: ServerConfig = field(default_factory=ServerConfig)
    rollout: RolloutConfig = field(default_factory=RolloutConfig)
    launch: LaunchConfig = field(default_factory=LaunchConfig)
    eval: EvalConfig = field(default_factory=EvalConfig)
    watch: WatchConfig = field(default_factory=WatchConfig)
    logging: LoggingConfig = field(default_factory=LoggingConfig)
    job: JobConfig = field(default_factory=JobConfig)
