"""
One session that takes every route, its refusals included, on a real server.

The session serves three purposes. The titled steps become the examples of API.md and of the
docs page (`record.py`, run by `make docs`). The tests in `tests/reference` compare every answer
with OpenAPI. `tests/engine/test_both_engines.py` compares the answers of the two engines.

- `steps.py`: one request (`Step`), one request with its answer (`Exchange`), taking the walk
- `story.py`, `chat_story.py`: the steps
- `server.py`: the server that answers, on a folder of its own
- `stand_ins.py`: fixed texts for times, tokens and all else that differs each time
- `record.py`: writes `valuetracker/reference/examples.json`
"""
