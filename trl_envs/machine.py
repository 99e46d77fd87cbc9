"""What this machine has: GPUs, installed versions, free ports. Asked without loading torch."""

from __future__ import annotations

import csv
import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

# A driver in trouble makes nvidia-smi hang for ever.
NVIDIA_SMI_TIMEOUT_S = 10.0
# And a container engine that is starting up, or being updated, lets its client wait.
DOCKER_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Gpu:
    """One GPU that a child process would see.

    Args:
        index: As nvidia-smi numbers it (by PCI bus), whatever CUDA_VISIBLE_DEVICES makes of it.
        name: Such as `NVIDIA H200`.
        memory_gib: All its memory, used or not; None where it is the machine's own (GB10), which nvidia-smi can't tell.
        compute_capability: Such as 9.0; None if the driver is too old to tell.
    """

    index: int
    name: str
    memory_gib: float | None
    compute_capability: float | None


@dataclass(frozen=True)
class GpuQuery:
    """The GPUs found, and why there are none or fewer than expected.

    Args:
        gpus: In the order of CUDA_VISIBLE_DEVICES.
        problem: Empty if nothing is amiss, which includes a machine without nvidia-smi.
    """

    gpus: list[Gpu]
    problem: str = ""


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port on which nothing listens now; another process may take it a moment later."""
    with socket.create_server((host, 0), family=_family(host)) as server:
        return int(server.getsockname()[1])


def port_is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    try:
        # create_server sets SO_REUSEADDR as servers do: connections of an earlier run that still close don't count.
        socket.create_server((host, port), family=_family(host)).close()
    except OSError:
        return False
    return True


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def gpus() -> list[Gpu]:
    """The GPUs that a child process would see; `query_gpus` also says what went wrong."""
    return query_gpus().gpus


def query_gpus(timeout_s: float = NVIDIA_SMI_TIMEOUT_S) -> GpuQuery:
    """Asks the program nvidia-smi, and keeps what CUDA_VISIBLE_DEVICES leaves visible.

    Args:
        timeout_s: After this an nvidia-smi that hangs counts as broken.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return GpuQuery([])
    found, problem = _ask_nvidia_smi(program, "index,uuid,name,memory.total,compute_cap", timeout_s)
    if "compute_cap" in problem:
        # Drivers before 510 don't know the field.
        found, problem = _ask_nvidia_smi(program, "index,uuid,name,memory.total", timeout_s)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if problem or visible is None:
        return GpuQuery(list(found.values()), problem)
    return _visible(found, visible)


def _ask_nvidia_smi(program: str, fields: str, timeout_s: float) -> tuple[dict[str, Gpu], str]:
    """GPUs by UUID, and what went wrong."""
    command = [program, f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return {}, f"{program} gave no answer within {timeout_s:g} s"
    except (OSError, UnicodeDecodeError) as error:
        return {}, f"{program} can't be run: {error}"
    if done.returncode != 0:
        # It reports failures on stdout.
        return {}, f"{program} failed with exit code {done.returncode}: {(done.stdout + done.stderr).strip()}"
    try:
        return dict(_parse_gpu(row) for row in csv.reader(done.stdout.splitlines(), skipinitialspace=True) if row), ""
    except (ValueError, IndexError):
        return {}, f"{program} answered what isn't a list of GPUs: {done.stdout.strip()[:200]}"


def _parse_gpu(row: list[str]) -> tuple[str, Gpu]:
    index, uuid, name, memory_mib = (cell.strip() for cell in row[:4])
    capability = row[4].strip() if len(row) > 4 else ""
    # What a driver can't tell reads "[N/A]" or "[Not Supported]".
    memory_gib = None if memory_mib.startswith("[") else float(memory_mib) / 1024
    return uuid, Gpu(int(index), name, memory_gib, float(capability) if capability[:1].isdigit() else None)


def _visible(found: Mapping[str, Gpu], visible: str) -> GpuQuery:
    """As CUDA reads the variable: indices or the beginnings of UUIDs, and nothing after the first that doesn't fit."""
    chosen: list[Gpu] = []
    for entry in (part.strip() for part in visible.split(",")):
        fitting = [
            gpu
            for uuid, gpu in found.items()
            if entry == str(gpu.index) or (entry.startswith("GPU-") and uuid.startswith(entry))
        ]
        if len(fitting) != 1 or fitting[0] in chosen:
            if entry in ("", "-1"):
                return GpuQuery(chosen)
            return GpuQuery(chosen, f"CUDA_VISIBLE_DEVICES={visible}: {entry} isn't one more GPU of this machine")
        chosen.append(fitting[0])
    return GpuQuery(chosen)


def has_mps() -> bool:
    """Whether this is a Mac with an Apple GPU, which torch uses as `mps`."""
    return platform.system() == "Darwin" and platform.machine() == "arm64"


def docker_problem(timeout_s: float = DOCKER_TIMEOUT_S) -> str:
    """Why no container can be run here; empty if one can.

    Args:
        timeout_s: After this an engine that doesn't answer counts as broken.
    """
    if shutil.which("docker") is None:
        return "the program docker isn't on PATH"
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"docker version gave no answer within {timeout_s:g} s"
    except OSError as error:
        return f"the program docker can't be run: {error}"
    said = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return "" if done.returncode == 0 else said[-1] if said else f"docker version gave exit code {done.returncode}"


def installed_versions(names: Iterable[str]) -> dict[str, str | None]:
    """Versions of installed distributions, None for those that aren't installed; imports none of them."""
    versions: dict[str, str | None] = {}
    for name in names:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return versions


def cpus() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
