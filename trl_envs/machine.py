"""What this machine has: GPUs, installed versions, free ports. Asked without loading torch."""

from __future__ import annotations

import csv
import importlib.metadata
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

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
        visible_as: How the shell's CUDA_VISIBLE_DEVICES names it, an index or a UUID; empty without that variable.
    """

    index: int
    name: str
    memory_gib: float | None
    compute_capability: float | None
    visible_as: str = field(default="", compare=False)


@dataclass(frozen=True)
class GpuQuery:
    """The GPUs found, and why there are none or fewer than expected.

    Args:
        gpus: In the order of CUDA_VISIBLE_DEVICES.
        problem: Empty if nothing is amiss, which includes a machine without nvidia-smi.
    """

    gpus: list[Gpu]
    problem: str = ""


# Ports that this process has given away, each marked by its UDP namesake, which the system frees with the process.
_RESERVED: list[socket.socket] = []


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port on which nothing listens now, and which no other call gives away, in any process of this machine.

    Between here and the moment when a server listens there, the system would give the same port to whoever asks. So
    the UDP port of the same number is kept as a mark for as long as this process lives.

    Raises:
        OSError: The host is no address of this machine, or there is no such port.
    """
    passed: list[socket.socket] = []
    try:
        for _ in range(100):
            # Kept open until one is found, so that the next look finds another port.
            passed.append(socket.create_server((host, 0), family=_family(host)))
            port = int(passed[-1].getsockname()[1])
            if _reserve(port):
                return port
    finally:
        for server in passed:
            server.close()
    raise OSError(f"no free port on {host}")


def _reserve(port: int) -> bool:
    mark = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        mark.bind(("127.0.0.1", port))
    except OSError:
        mark.close()
        return False
    _RESERVED.append(mark)
    return True


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
        chosen.append(replace(fitting[0], visible_as=entry))
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


def vllm_program() -> str:
    """How `vllm` is called here: the one beside this Python, whether or not its environment is activated."""
    beside = Path(sys.executable).with_name("vllm")
    found = shutil.which("vllm")
    return str(beside) if beside.is_file() and (found is None or Path(found) != beside) else "vllm"


def accelerate_configs() -> Path | None:
    """The folder of accelerate config files that the installed TRL ships (multi_gpu, zero3, fsdp2 ...)."""
    spec = find_spec("trl")
    folders = spec.submodule_search_locations if spec is not None else None
    return Path(folders[0]) / "accelerate_configs" if folders else None


@dataclass(frozen=True)
class Conflict:
    """Something that an installed package needs of another one, and that isn't so.

    Args:
        package: The package that needs it.
        version: Its version.
        requirement: What it needs, as pip writes it, such as `torch==2.13.0`.
        name: The other package.
        found: Its installed version.
    """

    package: str
    version: str
    requirement: str
    name: str
    found: str


def find_conflicts(packages: Iterable[str], needed: Iterable[str]) -> list[Conflict]:
    """Where installed packages disagree, by their own metadata; what isn't installed disagrees with nothing.

    Args:
        packages: Distributions whose requirements are read.
        needed: Distributions of which they may ask something.
    """
    from packaging.requirements import InvalidRequirement, Requirement

    found, versions = [], installed_versions(needed)
    for package, version in installed_versions(packages).items():
        for line in (importlib.metadata.requires(package) or []) if version else []:
            try:
                asked = Requirement(line)
            except InvalidRequirement:
                continue
            there = versions.get(asked.name.lower().replace("_", "-"))
            if there is None or (asked.marker is not None and not asked.marker.evaluate({"extra": ""})):
                continue
            if not asked.specifier.contains(there, prereleases=True):
                found.append(Conflict(package, str(version), f"{asked.name}{asked.specifier}", asked.name, there))
    return found


def cpus() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
