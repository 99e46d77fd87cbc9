"""Sessions against real servers on loopback: what can go wrong between a reset and a step must end the episode."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

import pytest
from websockets.sync.server import ServerConnection

from tests.loopback import answer, serving, serving_raw
from trl_envs.errors import ServerFull, SessionLost
from trl_envs.rollout.session import SessionOpener, SessionSettings

QUICK = SessionSettings(connect_timeout_s=2.0, call_timeout_s=2.0, capacity_wait_s=0.4)
SECRET = "hf_very_secret"


def client_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "trl-env-sessions"]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert client_threads() == []


def test_a_session_resets_steps_and_closes() -> None:
    with serving("echo") as server:
        session, first = SessionOpener([server.url + "/"], QUICK)()
        assert first.observation["echoed_message"] == "Echo environment ready!"
        reply = session.step({"message": "hi"})
        assert (reply.observation["echoed_message"], reply.reward, reply.done) == ("hi", pytest.approx(0.2), False)
        assert len(client_threads()) == 1
        session.close()
        session.close()
        assert client_threads() == []
        with pytest.raises(SessionLost, match="is closed"):
            session.step({"message": "hi"})


def test_the_wait_for_a_server_that_is_gone_is_shared_and_over_when_it_is_back() -> None:
    with serving("echo") as server:
        opener = SessionOpener([server.url], SessionSettings(2.0, 2.0, capacity_wait_s=2.0))
        opener()[0].close()
        server.stop()
        started_s = time.monotonic()
        for _ in range(5):
            with pytest.raises(SessionLost, match="no server could be reached"):
                opener()
        # Five waits of their own would take 10 s.
        assert time.monotonic() - started_s < 7
        server.start()
        opener()[0].close()


def test_a_server_that_never_answers_costs_a_batch_one_time_out() -> None:
    def never_answer(connection: ServerConnection) -> None:
        connection.recv()
        time.sleep(1.0)

    with serving_raw(never_answer) as url:
        opener = SessionOpener([url], SessionSettings(2.0, 0.3, 0.4))
        started_s = time.monotonic()
        for _ in range(20):
            with pytest.raises(SessionLost, match=r"no answer within 0\.3 s"):
                opener()
        assert time.monotonic() - started_s < 2


def test_a_restart_between_two_steps_loses_the_episode() -> None:
    # Echo would answer the second step on a session that nobody reset.
    with serving("echo") as server:
        session, _ = SessionOpener([server.url], QUICK)()
        session.step({"message": "one"})
        server.stop()
        server.start()
        with pytest.raises(SessionLost, match=server.url):
            session.step({"message": "two"})
        with pytest.raises(SessionLost, match="is closed"):
            session.step({"message": "three"})


def test_a_dropped_socket_loses_the_episode_though_the_server_would_take_a_new_one() -> None:
    connections: list[int] = []

    def drop_in_the_first_step(connection: ServerConnection) -> None:
        connections.append(1)
        connection.recv()
        answer(connection, text="fresh game")
        connection.recv()
        if len(connections) == 1:
            connection.socket.close()
        else:
            answer(connection, text="a game that nobody reset")

    with serving_raw(drop_in_the_first_step) as url:
        session, _ = SessionOpener([url], QUICK)()
        with pytest.raises(SessionLost):
            session.step({})
        assert len(connections) == 1


def test_a_step_after_a_quiet_drop_opens_no_second_connection() -> None:
    connections: list[int] = []

    def close_after_the_reset(connection: ServerConnection) -> None:
        connections.append(1)
        connection.recv()
        answer(connection, text="fresh game")

    with serving_raw(close_after_the_reset) as url:
        session, _ = SessionOpener([url], QUICK)()
        time.sleep(0.1)
        with pytest.raises(SessionLost):
            session.step({})
        assert len(connections) == 1


def test_a_step_without_an_answer_is_lost_and_leaves_at_once() -> None:
    def fall_silent(connection: ServerConnection) -> None:
        connection.recv()
        answer(connection, text="fresh game")
        for _ in connection:
            time.sleep(0.01)

    settings = SessionSettings(call_timeout_s=0.2, capacity_wait_s=0.4)
    with serving_raw(fall_silent) as url:
        session, _ = SessionOpener([url], settings)()
        started_s = time.monotonic()
        with pytest.raises(SessionLost, match=r"no answer within 0\.2 s"):
            session.step({})
        assert time.monotonic() - started_s < 3.0


def test_a_late_answer_to_the_reset_is_no_episode() -> None:
    def hang(connection: ServerConnection) -> None:
        for _ in connection:
            time.sleep(0.01)

    with serving_raw(hang) as url, pytest.raises(SessionLost, match=r"no answer within 0\.2 s") as caught:
        SessionOpener([url], SessionSettings(call_timeout_s=0.2, capacity_wait_s=5.0))()
    assert "call_timeout_s" in caught.value.hint


@pytest.mark.parametrize("nonsense", ["[]", "not json", '{"type": "observation", "data": []}', '{"data": {}}'])
def test_what_is_no_reply_of_the_protocol_loses_the_episode(nonsense: str) -> None:
    def babble(connection: ServerConnection) -> None:
        connection.recv()
        answer(connection, text="fresh game")
        connection.recv()
        connection.send(nonsense)
        list(connection)

    with serving_raw(babble) as url:
        session, _ = SessionOpener([url], QUICK)()
        with pytest.raises(SessionLost):
            session.step({})


def test_a_servers_error_loses_the_episode_with_the_servers_words() -> None:
    with serving("catch") as server:
        session, _ = SessionOpener([server.url], QUICK)(seed=1)
        with pytest.raises(SessionLost, match="action 99 is not legal"):
            session.step({"action_id": 99})


def test_a_full_server_is_waited_for() -> None:
    with serving("echo", sessions=1) as server:
        open_session = SessionOpener([server.url], SessionSettings(capacity_wait_s=5.0))
        holder, _ = open_session()
        threading.Timer(0.3, holder.close).start()
        started_s = time.monotonic()
        session, _ = open_session()
        assert 0.25 < time.monotonic() - started_s < 4.0
        assert session.step({"message": "mine"}).observation["echoed_message"] == "mine"
        session.close()


def test_a_server_that_stays_full_is_reported_with_its_limit_and_the_remedy() -> None:
    with serving("echo", sessions=1) as server:
        open_session = SessionOpener([server.url], QUICK)
        holder, _ = open_session()
        with pytest.raises(ServerFull, match=r"1/1 sessions") as caught:
            open_session()
        assert server.url in caught.value.message
        assert "MAX_CONCURRENT_ENVS" in caught.value.hint
        assert len(client_threads()) == 1
        holder.close()


def test_servers_with_one_session_each_are_used_in_turn() -> None:
    with serving("echo", sessions=1) as one, serving("echo", sessions=1) as two, serving("echo", sessions=1) as three:
        open_session = SessionOpener([one.url, two.url, three.url], QUICK)
        sessions = [open_session()[0] for _ in range(3)]
        assert {session.url for session in sessions} == {one.url, two.url, three.url}
        with pytest.raises(ServerFull):
            open_session()
        sessions[1].close()
        again, _ = open_session()
        assert again.url == sessions[1].url
        for session in (*sessions, again):
            session.close()


def test_a_dead_server_in_the_list_is_passed_over() -> None:
    with serving("echo") as dead, serving("echo") as alive:
        dead.stop()
        open_session = SessionOpener([dead.url, alive.url], QUICK)
        for _ in range(3):
            session, _ = open_session()
            assert session.url == alive.url
            session.close()
        dead.start()


def test_no_server_at_all_is_named_after_the_wait() -> None:
    open_session = SessionOpener(["http://127.0.0.1:9"], QUICK)
    started_s = time.monotonic()
    with pytest.raises(SessionLost, match=r"after 0\.4 s: http://127\.0\.0\.1:9") as caught:
        open_session()
    assert time.monotonic() - started_s < 2.0
    assert caught.value.hint


@pytest.mark.parametrize(
    "urls", [[], "http://127.0.0.1:1", ["localhost"], ["127.0.0.1:8001"], ["ftp://a"], ["http://"]]
)
def test_what_is_no_list_of_addresses_is_refused(urls: list[str]) -> None:
    with pytest.raises(ValueError, match=r"list of at least one address|no address of a server"):
        SessionOpener(urls)


def test_a_closed_session_frees_its_slot_at_once() -> None:
    with serving("echo", sessions=1) as server:
        open_session = SessionOpener([server.url], SessionSettings(capacity_wait_s=1.0))
        for _ in range(5):
            session, _ = open_session()
            session.close()


def test_the_global_random_generator_is_left_alone() -> None:
    random.seed(5)
    expected = random.random()
    random.seed(5)
    with pytest.raises(SessionLost):
        SessionOpener(["http://127.0.0.1:9"], SessionSettings(capacity_wait_s=0.1))()
    assert random.random() == expected


def test_the_token_goes_into_the_header_and_into_no_message() -> None:
    seen: list[str | None] = []

    def record(connection: ServerConnection) -> None:
        assert connection.request is not None
        seen.append(connection.request.headers.get("Authorization"))
        connection.recv()
        answer(connection, text="fresh game")

    with serving_raw(record) as url:
        session, _ = SessionOpener([url], QUICK, token=SECRET)()
        with pytest.raises(SessionLost) as caught:
            session.step({})
    assert seen == [f"Bearer {SECRET}"]
    assert SECRET not in str(caught.value) + repr(session.__dict__)


def test_wrong_credentials_fail_at_once_and_say_what_to_set() -> None:
    from websockets.sync.server import serve

    def refuse(connection: ServerConnection, request: object) -> object:
        return connection.respond(401, "Unauthorized")

    with serve(list, "127.0.0.1", 0, process_request=refuse) as raw:
        thread = threading.Thread(target=raw.serve_forever, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{raw.socket.getsockname()[1]}"
        with pytest.raises(SessionLost, match="401") as caught:
            SessionOpener([url], SessionSettings(capacity_wait_s=30.0), token=SECRET)()
        assert "token_env" in caught.value.hint
        assert SECRET not in str(caught.value)
        raw.shutdown()
        thread.join()


def test_action_fields_come_from_the_schema_and_are_asked_for_once() -> None:
    with serving("echo") as server:
        open_session = SessionOpener([server.url.replace("http", "ws")], QUICK, token=SECRET)
        assert "message" in open_session.action_fields()
        server.stop()
        assert "message" in open_session.action_fields()
        server.start()


def test_no_schema_is_a_lost_session() -> None:
    with pytest.raises(SessionLost, match="/schema"):
        SessionOpener(["http://127.0.0.1:9"], QUICK).action_fields()
