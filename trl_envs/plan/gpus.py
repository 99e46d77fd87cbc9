"""Which GPUs train and which generate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from trl_envs.config.schema import LaunchConfig, LaunchMode
from trl_envs.machine import Gpu
from trl_envs.plan.facts import MachineFacts
from trl_envs.plan.problem import Problem


@dataclass(frozen=True)
class GpuSplit:
    """The GPUs of a run, in the order in which its processes see them.

    Args:
        trainer: One for each training process of this machine.
        engine: Those of the vLLM server; none without one.
    """

    trainer: tuple[Gpu, ...]
    engine: tuple[Gpu, ...] = ()

    def describe(self) -> str:
        """Such as `vLLM on GPU 0, trainer on GPU 1`."""
        return f"vLLM on {named(self.engine)}, trainer on {named(self.trainer)}"


def named(gpus: Sequence[Gpu]) -> str:
    """Such as `GPU 0` or `GPUs 0, 1`."""
    return f"GPU{'s' if len(gpus) > 1 else ''} {', '.join(str(gpu.index) for gpu in gpus)}"


def local_processes(launch: LaunchConfig) -> int:
    """Training processes on this machine."""
    return launch.processes // max(launch.machines, 1)


def split_gpus(launch: LaunchConfig, facts: MachineFacts, mode: LaunchMode) -> GpuSplit:
    """Who gets which GPU; only for a config with which `gpu_problems` finds nothing wrong.

    As in the recipe with two terminals, the server takes the first GPUs and the trainer the last one.
    """
    visible, wanted = list(facts.gpus), local_processes(launch)
    if mode is not LaunchMode.server:
        return GpuSplit(tuple(_chosen(launch.gpus, visible)[:wanted]))
    if launch.vllm_gpus is None:
        trainer = _chosen(launch.gpus, visible)[-wanted:]
        return GpuSplit(tuple(trainer), tuple(gpu for gpu in visible if gpu not in trainer))
    engine = _chosen(launch.vllm_gpus, visible)
    rest = [gpu for gpu in visible if gpu not in engine]
    return GpuSplit(tuple(_chosen(launch.gpus, rest)[-wanted:]), tuple(engine))


def _chosen(indices: Sequence[int] | None, visible: Sequence[Gpu]) -> list[Gpu]:
    if indices is None:
        return list(visible)
    return [gpu for index in indices for gpu in visible if gpu.index == index]


def visibility(gpus: Sequence[Gpu]) -> dict[str, str]:
    """The variables with which a process sees these GPUs alone.

    What the shell's CUDA_VISIBLE_DEVICES says, UUIDs included, is handed on as it stands. Without it the numbers are
    nvidia-smi's, which count by PCI bus; CUDA by itself counts the fastest first.
    """
    if not gpus:
        return {}
    if gpus[0].visible_as:
        return {"CUDA_VISIBLE_DEVICES": ",".join(gpu.visible_as for gpu in gpus)}
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(str(gpu.index) for gpu in gpus)}


def trainer_visibility(split: GpuSplit, facts: MachineFacts) -> Mapping[str, str]:
    """The variables of the trainer: none where it gets all that the shell shows, in the same order.

    A single process may see one GPU only: TRL refuses nn.DataParallel (trl/trainer/grpo_trainer.py).
    """
    return {} if list(split.trainer) == list(facts.gpus) else visibility(split.trainer)


def gpu_problems(launch: LaunchConfig, facts: MachineFacts, mode: LaunchMode) -> list[Problem]:
    """GPUs that aren't there, that two would use, or of which there are too few or too many."""
    problems = [*_list_problems("launch.gpus", launch.gpus, facts)]
    if mode is LaunchMode.server:
        problems += _list_problems("launch.vllm_gpus", launch.vllm_gpus, facts)
    if problems or launch.processes < 1 or launch.machines < 1 or launch.processes % launch.machines:
        return problems
    wanted = local_processes(launch)
    if launch.gpus is not None and len(launch.gpus) != wanted:
        message = f"launch.gpus={launch.gpus} and {wanted} training process(es) here: each takes exactly one GPU"
        hint = f"set launch.processes={len(launch.gpus) * launch.machines}, or name {wanted} GPU(s)"
        return [Problem("launch.gpus", message, hint)]
    if mode is LaunchMode.server:
        return list(_server_problems(launch, facts, wanted))
    if facts.gpus and wanted > len(facts.gpus):
        message = f"launch.processes={launch.processes}, and {len(facts.gpus)} GPU(s) are visible: each needs its own"
        return [Problem("launch.processes", message, f"set launch.processes={len(facts.gpus) * launch.machines}")]
    return []


def _list_problems(key: str, indices: Sequence[int] | None, facts: MachineFacts) -> Iterator[Problem]:
    if indices is None:
        return
    known = [gpu.index for gpu in facts.gpus]
    seen = f"visible here: {', '.join(map(str, known))}" if known else "no GPU is visible here"
    written = "[" + ",".join(map(str, indices)) + "]"
    missing = [index for index in indices if index not in known]
    if missing or not indices:
        message = f"{key}={written}: " + (f"there is no GPU {missing[0]} ({seen})" if missing else "that is no GPU")
        yield Problem(key, message, f"set {key}=null" + (f", or {key}=[{known[0]}]" if known else ""))
    elif len(set(indices)) < len(indices):
        yield Problem(key, f"{key}={written} names a GPU twice", f"set '{key}={sorted(set(indices))}'")


def _server_problems(launch: LaunchConfig, facts: MachineFacts, wanted: int) -> Iterator[Problem]:
    if facts.gpus and len(facts.gpus) <= wanted:
        there = f"{len(facts.gpus)} GPU(s) are visible"
        message = f"launch=server needs a GPU for vLLM beside the trainer's {wanted}, and {there}"
        yield Problem("launch.mode", message, "use launch=colocate: vLLM and the trainer share one GPU")
        return
    shared = set(launch.gpus or ()) & set(launch.vllm_gpus or ())
    if shared:
        message = (
            f"launch.gpus and launch.vllm_gpus both name GPU {min(shared)}: vLLM and the trainer each take nearly all "
            "memory of theirs, and NCCL can't connect two processes on one GPU"
        )
        yield Problem("launch.vllm_gpus", message, "name different ones, or use launch=colocate to share a GPU")
        return
    split = split_gpus(launch, facts, LaunchMode.server)
    if len(split.trainer) < wanted:
        message = f"launch.vllm_gpus={launch.vllm_gpus} leaves {len(split.trainer)} GPU(s) to the trainer"
        yield Problem("launch.vllm_gpus", message, "leave a GPU to the trainer, or use launch=colocate")
    size = launch.vllm_tensor_parallel
    if size < 1 or len(split.engine) % size:
        message = f"launch.vllm_tensor_parallel={size} doesn't divide the {len(split.engine)} GPU(s) of the vLLM server"
        yield Problem("launch.vllm_tensor_parallel", message, "set launch.vllm_tensor_parallel=1, or name other GPUs")
