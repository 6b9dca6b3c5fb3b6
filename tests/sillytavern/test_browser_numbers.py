"""Integers beyond JavaScript's numbers, in the panel, the prompt and the commands."""

from __future__ import annotations

from tests.sillytavern.model import Model
from tests.sillytavern.panel import EXTENSION, Panel

BIG = 2**53 + 1


def test_integers_beyond_those_of_javascript_are_shown_and_edited_exactly(
    shared_panel: Panel, model: Model
) -> None:
    panel, tab = shared_panel, shared_panel.tab
    chat = tab.context_value("chatMetadata")["integrity"]
    with panel.tavern.client(EXTENSION) as client:
        # Plain JSON is read and written anew by SillyTavern itself.
        exact = {"content-type": "application/vnd.valuetracker+json"}
        body = f'{{"id": {BIG}, "bag": [{{"id": {BIG + 2}, "count": 1}}], "most": {2**64 - 1}}}'
        merged = client.put(f"/chats/{chat}/data/merge", content=body, headers=exact)
        assert merged.status_code == 200
    panel.shows("id", f"{BIG}")
    panel.shows("bag", f'[{{"id":{BIG + 2},"count":1}}]')
    panel.shows("most", f"{2**64 - 1}")

    # Something else in the list; a number itself; a number that only Python has room for.
    panel.edit("bag", f'[{{"id": {BIG + 2}, "count": 2}}]')
    panel.shows("bag", f'[{{"id":{BIG + 2},"count":2}}]')
    panel.edit("id", f"{BIG + 4}")
    panel.shows("id", f"{BIG + 4}")
    assert tab.slash("/vt-inc id 2") == f"{BIG + 6}"
    assert tab.slash("/vt-inc bag.0.id 2") == f"{BIG + 4}"
    assert tab.slash("/vt-set bag.0.count 3") == "3"
    assert tab.slash("/vt-get bag.0.id") == f"{BIG + 4}"
    assert tab.slash(f"/vt-set typed {BIG}") == f"{BIG}"
    assert tab.slash(f'/vt-set held {{"n": {BIG}}}') == f'{{"n":{BIG}}}'
    panel.edit("most", f"{2**64}")
    panel.row("most").get_by_text("too large to be kept exactly").wait_for()
    panel.keeps(
        {
            "id": BIG + 6,
            "bag": [{"id": BIG + 4, "count": 3}],
            "most": 2**64 - 1,
            "typed": BIG,
            "held": {"n": BIG},
        }
    )

    panel.row("id").locator(".vt-key").click()
    panel.row("id").get_by_text(f"{BIG + 4} → {BIG + 6}").wait_for()
    panel.screenshot("values")
    tab.send("I am {{vt::id}}.")
    assert f"I am {BIG + 6}." in model.seen
    assert f"most: {2**64 - 1}" in model.seen
    tab.slash("/vt-checkpoint Here")
    tab.slash(f"/vt-set id {BIG}")
    panel.checkpoint("Here").locator(".vt-restore").click()
    preview = panel.checkpoint("Here").locator(".vt-preview")
    preview.get_by_text(f"{BIG} → {BIG + 6}").wait_for()
    preview.locator(".vt-primary").click()
    panel.shows("id", f"{BIG + 6}")

    # The chat can be saved and read by SillyTavern as ever.
    tab.save()
    tab.open()
    tab.open_character(panel.character)
    panel.shows("id", f"{BIG + 6}")
    assert tab.errors == []
