from __future__ import annotations

import platform
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trl_envs import machine

H200 = "0, GPU-aaaa1111, NVIDIA H200, 143771, 9.0"
A100 = "1, GPU-bbbb2222, NVIDIA A100-SXM4-80GB, 81920, 8.0"
OLD = "2, GPU-bbcc3333, Tesla K80, 11441, [N/A]"


@pytest.fixture
def nvidia_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in on a PATH of its own; write a shell script to it."""
    program = tmp_path / "nvidia-smi"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return program


def answering(*rows: str) -> str:
    return "#!/bin/sh\ncat <<'END'\n" + "\n".join(rows) + "\nEND\n"


def test_a_free_port_is_free_until_someone_listens() -> None:
    port = machine.free_port()
    assert machine.port_is_free("127.0.0.1", port)
    with socket.create_server(("127.0.0.1", port)):
        assert not machine.port_is_free("127.0.0.1", port)
        assert not machine.port_is_free("0.0.0.0", port)
    assert machine.port_is_free("127.0.0.1", port)


def test_a_port_whose_connections_are_closing_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        server.accept()[0].close()  # the side that closes first keeps the port in TIME_WAIT
        client.close()
    assert machine.port_is_free("127.0.0.1", port)


def test_a_host_that_is_not_ours_has_no_free_port() -> None:
    assert not machine.port_is_free("192.0.2.1", 8000)


def test_no_nvidia_smi_is_no_gpu_and_no_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.query_gpus() == machine.GpuQuery([], "")


def test_gpus_are_read(nvidia_smi: Path) -> None:
    nvidia_smi.write_text(answering(H200, A100, OLD))
    first, second, third = machine.gpus()
    assert first == machine.Gpu(0, "NVIDIA H200", 143771 / 1024, 9.0)
    assert (second.index, second.compute_capability) == (1, 8.0)
    assert (third.memory_gib, third.compute_capability) == (11441 / 1024, None)


def test_memory_that_is_not_told(nvidia_smi: Path) -> None:
    nvidia_smi.write_text(answering("0, GPU-1, NVIDIA GB10, [N/A], 12.1"))
    assert machine.gpus() == [machine.Gpu(0, "NVIDIA GB10", None, 12.1)]


@pytest.mark.parametrize(
    ("visible", "indices", "problem"),
    [
        ("0,1,2", [0, 1, 2], ""),
        ("2,0", [2, 0], ""),
        (" 1 , 0", [1, 0], ""),
        ("", [], ""),
        ("-1", [], ""),
        ("0,-1,1", [0], ""),
        ("GPU-bbbb2222,GPU-aaaa", [1, 0], ""),
        ("GPU-bb", [], "GPU-bb isn't"),  # fits two
        ("1,7,0", [1], "7 isn't"),
        ("0,0", [0], "0 isn't one more"),
        ("MIG-1234", [], "MIG-1234 isn't"),
    ],
)
def test_cuda_visible_devices_is_honoured(
    nvidia_smi: Path, monkeypatch: pytest.MonkeyPatch, visible: str, indices: list[int], problem: str
) -> None:
    nvidia_smi.write_text(answering(H200, A100, OLD))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    query = machine.query_gpus()
    assert [gpu.index for gpu in query.gpus] == indices
    assert problem in query.problem
    assert bool(query.problem) == bool(problem)


def test_a_driver_that_does_not_know_compute_cap(nvidia_smi: Path) -> None:
    nvidia_smi.write_text(
        "#!/bin/sh\n"
        "case $1 in *compute_cap*) echo 'Field \"compute_cap\" is not a valid field to query.'; exit 2;; esac\n"
        "echo '0, GPU-1, Tesla T4, 15360'\n"
    )
    assert machine.query_gpus() == machine.GpuQuery([machine.Gpu(0, "Tesla T4", 15.0, None)])


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("#!/bin/sh\necho 'NVIDIA-SMI has failed'; exit 9\n", "failed with exit code 9: NVIDIA-SMI has failed"),
        ("#!/bin/sh\necho 'No devices were found'\n", "isn't a list of GPUs: No devices were found"),
        ("#!/bin/sh\necho 'one, two, three, four, five'\n", "isn't a list of GPUs"),
        ("#!/no/such/interpreter\n", "can't be run"),
        ("#!/bin/sh\nprintf '\\377\\376'\n", "can't be run"),
    ],
)
def test_a_broken_nvidia_smi_is_no_gpu_with_a_reason(nvidia_smi: Path, script: str, reason: str) -> None:
    nvidia_smi.write_text(script)
    query = machine.query_gpus()
    assert query.gpus == []
    assert reason in query.problem


def test_a_hanging_nvidia_smi_is_given_up(nvidia_smi: Path) -> None:
    nvidia_smi.write_text("#!/bin/sh\nexec sleep 20\n")
    started = time.monotonic()
    query = machine.query_gpus(timeout_s=0.3)
    assert time.monotonic() - started < 3
    assert query == machine.GpuQuery([], f"{nvidia_smi} gave no answer within 0.3 s")


@pytest.mark.parametrize(
    ("system", "processor", "expected"),
    [("Darwin", "arm64", True), ("Darwin", "x86_64", False), ("Linux", "arm64", False)],
)
def test_mps_is_apple_silicon(monkeypatch: pytest.MonkeyPatch, system: str, processor: str, expected: bool) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: processor)
    assert machine.has_mps() is expected


def test_versions_are_found_without_importing() -> None:
    code = (
        "import sys; from trl_envs.machine import installed_versions\n"
        "versions = installed_versions(['rich', 'no-such-distribution'])\n"
        "assert versions['rich'][0].isdigit() and versions['no-such-distribution'] is None, versions\n"
        "assert 'rich' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[1])


def test_a_port_that_was_given_away_is_given_to_nobody_else() -> None:
    mine = {machine.free_port() for _ in range(20)}
    assert len(mine) == 20
    code = "from trl_envs.machine import free_port; print(*[free_port() for _ in range(20)])"
    root = str(Path(machine.__file__).parent.parent)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert not mine & set(map(int, done.stdout.split()))
    port = mine.pop()
    assert not machine._reserve(port)
    assert machine.port_is_free("127.0.0.1", port)


def test_gpus_keep_the_words_in_which_the_shell_chose_them(nvidia_smi: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi.write_text(answering(H200, A100))
    assert [gpu.visible_as for gpu in machine.gpus()] == ["", ""]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-bbbb,0")
    assert [(gpu.index, gpu.visible_as) for gpu in machine.gpus()] == [(1, "GPU-bbbb"), (0, "0")]


def test_vllm_is_found_beside_this_python_or_left_to_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert machine.vllm_program() == "vllm"
    (tmp_path / "vllm").touch(mode=0o755)
    assert machine.vllm_program() == str(tmp_path / "vllm")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.vllm_program() == "vllm"


def test_packages_that_contradict_each_other_are_found_in_their_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, needs in (("asking", ["answer<2,>=1", 'answer>=9; extra == "more"', "absent>3", "??"]), ("answer", [])):
        metadata = tmp_path / f"{name}-2.5.dist-info" / "METADATA"
        metadata.parent.mkdir()
        lines = [f"Requires-Dist: {need}" for need in needs]
        metadata.write_text("\n".join(["Metadata-Version: 2.1", f"Name: {name}", "Version: 2.5", *lines]) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = machine.find_conflicts(["asking", "missing"], ["answer", "absent"])
    assert found == [machine.Conflict("asking", "2.5", "answer<2,>=1", "answer", "2.5")]


def test_trl_ships_the_accelerate_files_that_are_offered() -> None:
    folder = machine.accelerate_configs()
    assert folder is not None
    for name in ("multi_gpu", "zero2", "zero3", "fsdp2"):
        assert (folder / f"{name}.yaml").is_file()
