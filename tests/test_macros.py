"""Macros resolve as those of the SillyTavern extension do, whose code is run beside ours."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from valuetracker import macros
from valuetracker.errors import InvalidBody, ValueTooLarge
from valuetracker.macros import Owner, Rendering

ROOT = Path(__file__).parents[1]

# Registers the macro in a SillyTavern that only remembers it, and calls it as SillyTavern does.
SCRIPT = """
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
let macro;
const register = (_, given) => { macro = given; };
globalThis.SillyTavern = { getContext: () => ({ macros: { register } }) };
const { registerMacros } = await import(pathToFileURL(process.argv[2]));
const { parseExact } = await import(pathToFileURL(process.argv[3]));
const tracker = { owners: [] };
registerMacros(tracker);
const texts = JSON.parse(readFileSync(0, 'utf8')).map(({ owners, args }) => {
    tracker.owners = parseExact(owners);
    return macro.handler({ args });
});
process.stdout.write(JSON.stringify(texts));
"""

CHAT = {
    "hp": 5,
    "a.b": "dotted",
    "a": {"b": "inside", "c": [1, {"d": None}], "": 0},
    "mira": {"hp": 1},
    "Ünï": True,
    "a::b": "colons",
    "x": {"2": "two", "b": 1, "1": "one", "10": [], "01": {}},
    "numbers": [1.5, 1e-7, -1e-5, 1e21, 1e300, 12345678901234567890, -0.0, 2.0, 0.1, 1e16, 1.5e-9],
    "text": 'a {{user}} "quote" \\ \n\t\x01\x7f\u2028 é 🗡 {{{deep}}}',
    "list": [[], {}, "s", None, False],
    "length": "own",
}
MIRA = {"hp": 9, "bag": {"Lamp": True, "lamp": 2}, "a": {"b.c": {"d": 1}}}
OWNERS = [
    {"id": None, "names": [], "data": CHAT},
    {"id": "7", "names": ["mira", "Mira v.2", "7", ""], "data": MIRA},
    {"id": "8", "names": ["Mira", "BOB"], "data": {"only": "bob", "hp": 2}},
]
ARGS = [
    ["hp"],
    ["HP"],
    [" hp "],
    ["a.b"],
    ["a.c"],
    ["a.c.0"],
    ["a.c.00"],
    ["a.c.1.d"],
    ["a.c.length"],
    ["a.c.Length"],
    ["mira.hp"],
    ["mira.bag.lamp"],
    ["MIRA.BAG.LAMP"],
    ["Mira v.2.hp"],
    ["7.hp"],
    ["bob.only"],
    ["mira.only"],
    ["bob."],
    [".hp"],
    ["a."],
    ["a..b"],
    [""],
    ["gone"],
    ["gone", "else"],
    ["gone", "a", "b"],
    ["gone", ""],
    ["hp", "else"],
    ["a", "b"],
    ["ünï"],
    ["x"],
    ["x.2"],
    ["numbers"],
    *[[f"numbers.{index}"] for index in range(11)],
    ["text"],
    ["list"],
    ["list.2.length"],
    ["length"],
    ["constructor"],
    ["mira.a.b.c.d"],
]


def random_case(dice: random.Random) -> tuple[list[Any], list[str]]:
    names = ["a", "A", "b", "a.b", "B.a", "0", "1", "c", "Length"]

    def value(depth: int) -> Any:
        kind = dice.randrange(6 if depth else 3)
        if kind < 3:
            return dice.choice([1, "t", None, 2.5, True])
        if kind == 3:
            return [value(depth - 1) for _ in range(dice.randrange(3))]
        return {dice.choice(names): value(depth - 1) for _ in range(dice.randrange(4))}

    def data() -> dict[str, Any]:
        return {dice.choice(names): value(3) for _ in range(dice.randrange(5))}

    owners: list[Any] = [{"id": None, "names": [], "data": data()}]
    owners += [
        {"id": str(number), "names": dice.sample(names, 2), "data": data()} for number in range(2)
    ]
    path = ".".join(dice.choice([*names, "b", "a", "length"]) for _ in range(dice.randrange(1, 5)))
    return owners, [path, "none"]


def test_values_are_found_and_written_as_the_extension_does(tmp_path: Path) -> None:
    node = shutil.which("node")
    assert node, "the tests need Node"
    dice = random.Random(7)
    cases: list[tuple[list[Any], list[str]]] = [(OWNERS, args) for args in ARGS]
    cases += [random_case(dice) for _ in range(3000)]
    # As installed: the client is in the folder of the extension.
    extension = tmp_path / "extension"
    shutil.copytree(ROOT / "sillytavern/extension", extension)
    shutil.copytree(ROOT / "sillytavern/client", extension / "client")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "script.js").write_text(SCRIPT)
    files = [tmp_path / "script.js", extension / "tavern/macros.js"]
    given = [{"owners": json.dumps(owners), "args": args} for owners, args in cases]

    run = subprocess.run(
        [node, *map(str, files), str(extension / "client/state/exact.js")],
        input=json.dumps(given),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=600,
    )

    there = json.loads(run.stdout)
    for (owners, args), expected in zip(cases, there, strict=True):
        mine = [Owner(each["names"], each["data"]) for each in owners]
        found = Rendering(mine).render("{{vt::" + "::".join(args) + "}}")
        assert found == expected, (owners, args)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("", ""),
        ("no macro", "no macro"),
        ("{{vt::hp}}/{{VT::hp}}/{{ vt :: hp }}", "5/5/5"),
        ("{{user}} has {{vt::hp}} {{char}}", "{{user}} has 5 {{char}}"),
        ("{{vt::{{vt::which}}}}", "5"),
        ("{{vt::gone::{{vt::hp}} or so}}", "5 or so"),
        ("{{vt::gone::{{a::b}}}}", "{{a::b}}"),
        ("{{vt::{{user}}.hp}}", "7"),
        ("{{if x}}{{vt::hp}}{{/if}}", "{{if x}}5{{/if}}"),
        ("{{other::{{vt::hp}}}}", "{{other::5}}"),
        ("{{{vt::hp}}}", "{5}"),
        ("{{vt::hp", "{{vt::hp"),
        ("{{ {{vt::hp}}", "{{ 5"),
        ("}} {{vt::hp}} }}", "}} 5 }}"),
        ("{{vt}} {{vth::hp}} {{vt:hp}}", "{{vt}} {{vth::hp}} {{vt:hp}}"),
        ("{{vt::macro}}", "{ {vt::hp}}"),
        ("{{vt::gone}}|{{vt::gone::}}", "|"),
        ("{{vt::\nhp\n}}", "5"),
    ],
)
def test_templates(template: str, text: str) -> None:
    values = {"hp": 5, "which": "hp", "macro": "{{vt::hp}}"}
    owners = [Owner([], values), Owner(["Jo", "{{user}}"], {"hp": 7})]

    assert Rendering(owners).render(template) == text


def test_missing_paths_are_listed_once() -> None:
    rendering = Rendering([Owner([], {"hp": None})])

    rendering.render("{{vt::b::x}}{{vt::hp}}{{vt::a}}{{vt::b}}")

    assert list(rendering.missing) == ["b", "a"]


def test_what_a_template_may_cost_is_limited() -> None:
    owners = [Owner([], {"book": "x" * 1_000_000})]
    with pytest.raises(ValueTooLarge):
        Rendering(owners).render("{{vt::book}}" * 20)
    with pytest.raises(InvalidBody):
        Rendering(owners).render("{{vt::a}}" * (macros.MACROS_PER_TEMPLATE + 1))
    with pytest.raises(InvalidBody):
        Rendering(owners).render("x" * (macros.TEMPLATE_LENGTH + 1))


def test_macros_that_are_too_deep_stay_as_they_are() -> None:
    depth = 5_000
    template = "{{else::" * depth + "{{vt::hp}}" + "}}" * depth
    shallow = "{{else::" * 10 + "{{vt::hp}}" + "}}" * 10
    owners = [Owner([], {"hp": 1})]

    assert Rendering(owners).render(template) == template
    assert Rendering(owners).render(shallow) == shallow.replace("{{vt::hp}}", "1")


def test_a_path_with_many_dots_is_looked_up_quickly() -> None:
    """Each rest of a path is looked for once in each object, however many ways lead there."""
    inner: Any = 1
    for _ in range(100):
        inner = {"a": inner, "a.a": inner}
    path = ".".join(["a"] * 400)

    assert Rendering([Owner([], inner)]).look_up(path) is macros.ABSENT
