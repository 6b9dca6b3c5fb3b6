"""Large answers: what they may take of memory while nobody reads them."""

from __future__ import annotations

from contextlib import ExitStack

import orjson

from tests.conftest import wait_for
from tests.faults.memory import MB, SMALL_BUFFER, SOAK, reaching, watched
from tests.security.raw import ROOT, get, post
from tests.system.conftest import RunProgram
from tests.system.conftest import run_program as run_program

# All large answers together; the rest is for those that are being made.
SHARED = 64 * MB
DEAF = 300 if SOAK else 24
KEYS = 8
LENGTH = 6_000_000
KEPT = b"x-extension-id: demo"


def test_large_answers_that_nobody_reads_take_little(run_program: RunProgram) -> None:
    program = run_program()
    program.register("demo")
    with program.client("demo") as client, ExitStack() as stack:
        made = client.post("/instances", json={"id": "sword", "characterId": "arthur"})
        assert made.status_code == 200
        for number in range(KEYS):
            body = {"key": f"k{number}", "value": f"{number}" + "x" * LENGTH}
            assert client.post("/instances/sword/data", json=body).status_code == 200
        with watched(program) as memory:
            for number in range(DEAF):
                line = stack.enter_context(reaching(program, SMALL_BUFFER))
                path = b"/instances/sword/data/k%d" % (number % KEYS)
                # Some ask for a second answer before they have read the first.
                line.send(get(ROOT + path, KEPT) * (1 + number % 2))
            # One that reads gets everything, although the others hold what they have.
            assert len(client.get("/instances/sword/data/k0").content) > LENGTH
            assert memory.growth < 2 * SHARED

    wait_for(lambda: memory.now - memory.before < SHARED // 2)


def test_an_answer_to_a_write_waits_for_memory_and_comes(run_program: RunProgram) -> None:
    program = run_program()
    program.register("demo")
    with program.client("demo") as client, ExitStack() as stack:
        made = client.post("/instances", json={"id": "sword", "characterId": "arthur"})
        assert made.status_code == 200
        body = {"key": "k", "value": ["x" * LENGTH]}
        assert client.post("/instances/sword/data", json=body).status_code == 200
        append = {"op": "append", "instanceId": "sword", "key": "k", "value": 1}
        request = post(
            ROOT + b"/batch",
            orjson.dumps({"operations": [append]}),
            KEPT,
            b"prefer: return=representation",
        )
        lines = [stack.enter_context(reaching(program, SMALL_BUFFER)) for _ in range(16)]
        for line in lines:
            line.send(request)
        last = stack.enter_context(reaching(program))
        last.send(request)

        assert len(last.answer().content) > LENGTH
        assert client.get("/instances/sword/data/k").json()["k"][-17:] == [1] * 17
