"""A launch, decided before anything starts: pure data that can be printed, pasted and tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from trl_envs.plan.batch import BatchPlan
from trl_envs.plan.spec import ProcessSpec


@dataclass(frozen=True)
class EnvironmentPlan:
    """Where one environment's sessions come from.

    Args:
        urls: Base URLs of its servers; sessions are spread over them. None for a class that needs no server, and for a
            Space whose address the Hub hasn't been asked for yet.
        sessions: Sessions that the run will hold open with them at once.
        process: The server that the launcher starts; None if it runs already.
        token: Whether to send the token (of the variable `server.token_env`) along.
        space: The Space that serves it, owner/name, if it was asked for by that name.
        declared: Sessions that the Space's own variables allow; None if they can't be read or don't say.
        shared: Whether the server may be somebody else's, so that not all sessions are opened on it for a trial.
        image: The container image that `process` runs.
    """

    urls: tuple[str, ...]
    sessions: int
    process: ProcessSpec | None
    token: bool
    space: str | None = None
    declared: int | None = None
    shared: bool = False
    image: str | None = None


@dataclass(frozen=True)
class EnginePlan:
    """The vLLM server that generates for the trainer.

    Args:
        process: `vllm serve`.
        url: Its base URL.
        model: What it serves, by the name under which it must list it.
        world_size: GPUs that take part in each weight transfer.
        group_port: TCP port on which trainer and server meet for weight transfers.
    """

    process: ProcessSpec
    url: str
    model: str
    world_size: int
    group_port: int


@dataclass(frozen=True)
class LaunchPlan:
    """All processes of a run.

    Args:
        mode: How the model generates: single, colocate or server.
        reason: Why that mode, in words.
        device: cpu, mps or cuda.
        batch: Sizes of a generation.
        environments: Servers by environment name.
        trainer: The training worker.
        import_folders: Folders from which `_target_`s are imported.
        mix: Groups of each environment in a generation batch; None leaves them to chance.
        evaluations: What plays `before` and `after` training, or the players of `trl-env eval`, by name.
        grpo: Fields of GRPOConfig that follow from the launch.
        engine: The vLLM server; None if the model generates in the trainer.
        report_to: Where metrics go beside the run directory, by transformers' names.
        project: Name of the project there.
    """

    mode: str
    reason: str
    device: str
    batch: BatchPlan
    environments: Mapping[str, EnvironmentPlan]
    trainer: ProcessSpec
    import_folders: tuple[str, ...]
    mix: Mapping[str, int] | None = None
    evaluations: Mapping[str, ProcessSpec] = field(default_factory=dict)
    grpo: Mapping[str, Any] = field(default_factory=dict)
    engine: EnginePlan | None = None
    report_to: tuple[str, ...] = ()
    project: str = ""

    def processes(self) -> list[ProcessSpec]:
        """Processes in the order of their start."""
        servers = [env.process for env in self.environments.values() if env.process is not None]
        before = [spec for name, spec in self.evaluations.items() if name == "before"]
        others = [spec for name, spec in self.evaluations.items() if name != "before"]
        engine = [self.engine.process] if self.engine is not None else []
        return [*servers, *engine, *before, self.trainer, *others]

    def with_servers(self, environments: Mapping[str, EnvironmentPlan]) -> LaunchPlan:
        """The plan with what has been found out since about where these environments' sessions come from."""
        return replace(self, environments={**self.environments, **environments})

    def resuming(self, attempt: int, checkpoint: str) -> LaunchPlan:
        """The plan of a later attempt at the same run, whose processes write logs of their own.

        What was played before training was played in the first attempt.

        Args:
            attempt: 2 for the first one that goes on.
            checkpoint: Folder of the checkpoint from which training goes on.
        """

        def renamed(spec: ProcessSpec, *arguments: str) -> ProcessSpec:
            return replace(spec, name=f"{spec.name}-{attempt}", argv=(*spec.argv, *arguments))

        return replace(
            self,
            environments={
                name: replace(env, process=env.process and renamed(env.process))
                for name, env in self.environments.items()
            },
            engine=self.engine and replace(self.engine, process=renamed(self.engine.process)),
            trainer=renamed(self.trainer, "--resume", checkpoint, "--attempt", str(attempt)),
            evaluations={name: renamed(spec) for name, spec in self.evaluations.items() if name != "before"},
        )

    def as_dict(self) -> dict[str, Any]:
        """JSON-able; what plan.json holds and children read."""
        return {
            **asdict(self),
            "environments": {name: asdict(env) for name, env in self.environments.items()},
            "commands": {spec.name: spec.command() for spec in self.processes()},
        }
