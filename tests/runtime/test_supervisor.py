from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from tests.runtime.programs import IGNORE_TERM, SLEEP, family, is_running, listens, python, read_pid, server, wait_until
from trl_envs.errors import ProcessExited, StartupError
from trl_envs.plan.spec import ProcessSpec, ReadySpec
from trl_envs.runtime.supervisor import Supervisor


def test_the_end_of_a_process_that_nobody_needs_yet_ends_no_wait(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        early = supervisor.start(python("early", "raise SystemExit(3)"), needed=False)
        assert supervisor.watch(supervisor.start(python("main", "import time; time.sleep(1)")), tick_s=0.02) == 0
        assert early.poll() == 3
        assert supervisor.watch(early) == 3


def test_the_exit_code_of_main_is_returned(tmp_path: Path) -> None:
    ticks = []
    with Supervisor(tmp_path) as supervisor:
        assert supervisor.watch(supervisor.start(python("good", "print('done')"))) == 0
        bad = supervisor.start(python("bad", "import time; time.sleep(0.2); raise SystemExit(3)"))
        assert supervisor.watch(bad, lambda: ticks.append(1), tick_s=0.02) == 3
    assert bad.describe_exit() == "exit code 3"
    assert len(ticks) > 3
    assert (tmp_path / "good.log").read_text() == "done\n"


def test_the_signal_that_killed_main_is_named(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        child = supervisor.start(python("main", "import os; os.kill(os.getpid(), 9)"))
        assert supervisor.watch(child, tick_s=0.02) == -9
    assert child.describe_exit() == "killed by SIGKILL"


def test_a_process_gets_its_variables_its_arguments_and_no_input(tmp_path: Path) -> None:
    code = """
        import os, signal, sys
        assert os.environ["ANSWER"] == "4 2" and "HOME" in os.environ or "PATH" in os.environ
        assert sys.stdin.read() == ""
        assert os.getsid(0) == os.getpgid(0) == os.getpid()
        print("error first", file=sys.stderr)
        # Only the three standard descriptors, of which the listing itself opens one more for a moment.
        print(sorted(int(fd) for fd in os.listdir("/dev/fd"))[:4])
    """
    with Supervisor(tmp_path) as supervisor:
        child = supervisor.start(python("main", code, variables={"ANSWER": "4 2"}))
        assert supervisor.watch(child, tick_s=0.02) == 0, child.log_tail()
    assert child.log_tail() == ["error first", "[0, 1, 2, 3]"]


def test_a_child_does_not_inherit_ignored_signals(tmp_path: Path) -> None:
    shell = ProcessSpec("shell", ("sh", "-c", "kill -PIPE $$; echo survived"))
    with Supervisor(tmp_path) as supervisor:
        assert supervisor.watch(supervisor.start(shell), tick_s=0.02) == -13


def test_another_process_that_dies_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    dying = python("game-server", "import time; print('out of words'); time.sleep(0.2); raise SystemExit(7)")
    with (
        pytest.raises(ProcessExited, match=r"(?s)game-server ended while main .*exit code 7.*out of words") as caught,
        Supervisor(tmp_path) as supervisor,
    ):
        supervisor.start(dying)
        main = supervisor.start(python("main", SLEEP))
        supervisor.watch(main)
    assert str(tmp_path / "game-server.log") in str(caught.value)
    assert not is_running(main.pid)


def test_a_server_is_the_cause_when_main_fails_a_moment_before_it_ends(tmp_path: Path) -> None:
    with pytest.raises(ProcessExited, match=r"server ended .*killed by SIGKILL"), Supervisor(tmp_path) as supervisor:
        supervisor.start(python("server", "import os, time; time.sleep(0.35); os.kill(os.getpid(), 9)"))
        supervisor.watch(supervisor.start(python("main", "import time; time.sleep(0.2); raise SystemExit(1)")))


def test_a_finished_main_is_no_longer_needed_by_the_next(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as supervisor:
        supervisor.start(python("server", SLEEP))
        assert supervisor.watch(supervisor.start(python("probe", "pass")), tick_s=0.02) == 0
        assert supervisor.watch(supervisor.start(python("trainer", "import time; time.sleep(0.1)")), tick_s=0.02) == 0


def test_ready_is_waited_for(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with Supervisor(tmp_path) as supervisor:
        seconds = supervisor.wait_ready(supervisor.start(server("server", port, delay_s=0.4)))
        assert 0.3 < seconds < 3
        assert listens(port)
    assert not listens(port)


def test_never_ready_fails_at_the_deadline(tmp_path: Path, port: int) -> None:
    spec = python("slow", "print('loading', flush=True); " + SLEEP, ready=ReadySpec(f"http://127.0.0.1:{port}", 0.5))
    started = time.monotonic()
    with (
        pytest.raises(StartupError, match=r"(?s)slow wasn't ready within 0.5 s .*no answer.*loading"),
        Supervisor(tmp_path) as supervisor,
    ):
        supervisor.wait_ready(supervisor.start(spec))
    assert 0.5 < time.monotonic() - started < 2


@pytest.mark.parametrize(("status", "words"), [(503, "it answers 503"), (307, "it answers 307")])
def test_another_answer_than_200_is_not_ready(tmp_path: Path, port: int, status: int, words: str) -> None:
    with pytest.raises(StartupError, match=words), Supervisor(tmp_path) as supervisor:
        supervisor.wait_ready(supervisor.start(server("busy", port, status=status, timeout_s=0.5)))


def test_a_server_that_accepts_and_never_answers_is_not_ready(tmp_path: Path, port: int) -> None:
    code = f"""
        import socket
        server = socket.create_server(("127.0.0.1", {port}))
        {SLEEP}
    """
    spec = python("mute", code, ready=ReadySpec(f"http://127.0.0.1:{port}/", 0.6))
    started = time.monotonic()
    with pytest.raises(StartupError, match="doesn't answer"), Supervisor(tmp_path) as supervisor:
        supervisor.wait_ready(supervisor.start(spec))
    assert time.monotonic() - started < 2


def test_dying_before_ready_is_noticed_long_before_the_deadline(tmp_path: Path, port: int) -> None:
    code = "import sys; print('no module named wordle', file=sys.stderr); sys.exit(5)"
    spec = python("server", code, ready=ReadySpec(f"http://127.0.0.1:{port}/", 60.0))
    (tmp_path / "server.log").write_text("an earlier attempt\n")
    started = time.monotonic()
    with (
        pytest.raises(StartupError, match=r"(?s)before it was ready: exit code 5.*no module named wordle") as caught,
        Supervisor(tmp_path) as supervisor,
    ):
        supervisor.wait_ready(supervisor.start(spec))
    assert time.monotonic() - started < 2
    assert "an earlier attempt" not in str(caught.value)
    assert (tmp_path / "server.log").read_text().startswith("an earlier attempt\nno module")


def test_another_process_that_dies_ends_the_wait(tmp_path: Path, port: int) -> None:
    started = time.monotonic()
    with (
        pytest.raises(StartupError, match=r"(?s)first ended before second was ready: exit code 5.*no words"),
        Supervisor(tmp_path) as supervisor,
    ):
        supervisor.start(python("first", "import time; time.sleep(0.2); print('no words'); raise SystemExit(5)"))
        supervisor.wait_ready(supervisor.start(server("second", port, delay_s=20, timeout_s=60)))
    assert time.monotonic() - started < 3


def test_a_port_that_is_taken_is_refused_before_starting(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, Supervisor(tmp_path) as supervisor:
        port = other.getsockname()[1]
        with pytest.raises(StartupError, match=f"port {port} on 127.0.0.1 is already taken") as caught:
            supervisor.start(server("server", port))
    assert "server.port=" in caught.value.hint
    assert not (tmp_path / "server.log").exists()


def test_programs_that_cannot_be_run(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("text")
    (tmp_path / "broken").write_bytes(b"\x00\x01")
    (tmp_path / "broken").chmod(0o755)
    with Supervisor(tmp_path / "logs") as supervisor:
        for argv0, words in [
            ("no-such-program-here", "doesn't exist on PATH"),
            (str(tmp_path / "missing"), "doesn't exist"),
            (str(tmp_path / "plain.txt"), "isn't an executable file"),
            (str(tmp_path / "broken"), "Exec format error"),
        ]:
            with pytest.raises(StartupError, match=words):
                supervisor.start(ProcessSpec("main", (argv0,)))
        assert supervisor.watch(supervisor.start(python("next", "pass")), tick_s=0.02) == 0


def test_term_is_enough_for_those_that_heed_it_and_comes_in_reverse_order(tmp_path: Path) -> None:
    order = tmp_path / "order"
    code = """
        import signal, sys, time
        def note(*_):
            with open({path!r}, "a") as file: file.write({name!r})
            sys.exit(0)
        signal.signal(signal.SIGTERM, note)
        print("up", flush=True)
        time.sleep(30)
    """
    with Supervisor(tmp_path) as supervisor:
        for name in "abc":
            child = supervisor.start(python(name, code.format(path=str(order), name=name)))
            wait_until(lambda child=child: child.log_tail() == ["up"])
        started = time.monotonic()
    assert order.read_text() == "cba"
    assert time.monotonic() - started < 3


def test_a_process_that_ignores_term_is_killed_after_the_grace(tmp_path: Path) -> None:
    with Supervisor(tmp_path, stop_grace_s=0.3) as supervisor:
        child = supervisor.start(python("stubborn", IGNORE_TERM))
        wait_until(lambda: child.log_tail() == ["ignoring"])
        started = time.monotonic()
    assert 0.3 < time.monotonic() - started < 2
    assert child.describe_exit() == "killed by SIGKILL"


def test_a_frozen_process_is_stopped_by_term(tmp_path: Path) -> None:
    with Supervisor(tmp_path, stop_grace_s=5) as supervisor:
        child = supervisor.start(
            python(
                "frozen", "import os, signal; print('up', flush=True); os.kill(os.getpid(), signal.SIGSTOP); " + SLEEP
            )
        )
        wait_until(lambda: child.log_tail() == ["up"])
        time.sleep(0.1)
        started = time.monotonic()
    assert time.monotonic() - started < 2
    assert child.describe_exit() == "killed by SIGTERM"


@pytest.mark.parametrize("own_session", [False, True])
def test_a_stubborn_grandchild_goes_with_its_parent(tmp_path: Path, own_session: bool) -> None:
    with Supervisor(tmp_path, stop_grace_s=0.2) as supervisor:
        supervisor.start(python("main", family(tmp_path, own_session=own_session)))
        grandchild = read_pid(tmp_path / "grandchild")
        read_pid(tmp_path / "child")
        assert is_running(grandchild)
    assert not is_running(grandchild)


def test_what_main_leaves_in_its_group_is_stopped_when_it_has_ended(tmp_path: Path) -> None:
    with Supervisor(tmp_path, stop_grace_s=0.2) as supervisor:
        main = supervisor.start(python("main", family(tmp_path, then="sys.exit(0)")))
        assert supervisor.watch(main, tick_s=0.02) == 0
        assert not is_running(read_pid(tmp_path / "grandchild"))


def test_what_a_dead_server_leaves_in_its_group_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(ProcessExited), Supervisor(tmp_path, stop_grace_s=0.2) as supervisor:
        supervisor.start(python("server", family(tmp_path, then="sys.exit(1)")))
        supervisor.watch(supervisor.start(python("main", SLEEP)), tick_s=0.02)
    assert not is_running(read_pid(tmp_path / "grandchild"))


def test_an_error_in_the_tick_stops_all(tmp_path: Path) -> None:
    def tick() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), Supervisor(tmp_path) as supervisor:
        main = supervisor.start(python("main", SLEEP))
        supervisor.watch(main, tick)
    assert not is_running(main.pid)


def test_nothing_is_left_of_a_normal_run(tmp_path: Path) -> None:
    threads = threading.active_count()
    descriptors = len(list(Path("/dev/fd").iterdir()))
    with Supervisor(tmp_path) as supervisor:
        supervisor.start(python("server", SLEEP))
        supervisor.watch(supervisor.start(python("main", "pass")), tick_s=0.02)
        assert supervisor._watchdog is not None
        guard = supervisor._watchdog.pid
        assert is_running(guard)
        started = time.monotonic()
    assert time.monotonic() - started < 2
    assert not is_running(guard)
    assert threading.active_count() == threads
    assert len(list(Path("/dev/fd").iterdir())) == descriptors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["main.log", "server.log"]


def test_it_works_outside_the_main_thread(tmp_path: Path) -> None:
    codes = []

    def run() -> None:
        with Supervisor(tmp_path) as supervisor:
            codes.append(supervisor.watch(supervisor.start(python("main", "pass")), tick_s=0.02))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(10)
    assert codes == [0]
