"""Each setting is a flag, an environment variable, and a row of the README."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click
import pytest

from valuetracker.cli.serve import secret_settings, serve
from valuetracker.errors import StartupError
from valuetracker.settings import Setting, Settings, settings_table

README = Path(__file__).parent.parent / "README.md"
SETTINGS = {setting.name: setting for setting in settings_table() if not setting.secret}
SECRETS = [setting for setting in settings_table() if setting.secret]


def options() -> dict[str, click.Option]:
    return {each.name or "": each for each in serve.params if isinstance(each, click.Option)}


def readme_rows() -> list[list[str]]:
    """The rows of the README's table of settings, cell by cell."""
    lines = README.read_text(encoding="utf-8").splitlines()
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("| `--")
    ]


def row_of(setting: Setting) -> list[str]:
    default = f"`{setting.default}`" if setting.default not in ("", ()) else ""
    also = f", also `{setting.also}`" if setting.also else ""
    return [f"`{setting.flag}`", f"`{setting.variable}`{also}", default, setting.help]


def sample(setting: Setting) -> str:
    """Return a value that is not the default, as text."""
    if setting.choices:
        return next(each for each in setting.choices if each != setting.default)
    texts = {int: "7", bool: "True", str: "text"}
    return texts.get(setting.kind, "place")


def test_the_command_line_has_exactly_these_flags() -> None:
    assert list(options()) == list(SETTINGS)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_is_a_flag_with_its_variable_default_and_help(name: str) -> None:
    setting, option = SETTINGS[name], options()[name]

    assert option.opts == ["--" + name.replace("_", "-")]
    own = "VALUETRACKER_" + name.upper()
    assert option.envvar == ([own, setting.also] if setting.also else own)
    assert option.help == setting.help
    assert option.default == setting.default


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_can_be_given_in_the_environment(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = SETTINGS[name]
    given = sample(setting)
    monkeypatch.setenv(setting.variable, given)

    context = serve.make_context("serve", [])

    read = context.params[name]
    assert [str(each) for each in read] == [given] if setting.many else str(read) == given
    # An application that is created without the command line reads the same.
    assert getattr(Settings.from_environment(), name) == read


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("allow_host", "  one.example  two.example "),
        ("allow_root", os.pathsep.join(["/a b", "/c"])),
        ("bridge_only", "off"),
        ("bridge_only", "Yes"),
        ("log_level", "DEBUG"),
        ("http", "ASGI"),
        ("data_dir", ""),
        ("port", "65535"),
    ],
)
def test_the_environment_is_read_alike_with_and_without_the_command_line(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTINGS[name].variable, text)

    context = serve.make_context("serve", [])

    assert getattr(Settings.from_environment(), name) == context.params[name]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("port", "65536"),
        ("port", "-1"),
        ("readers", "two"),
        ("http", "quick"),
        ("log_level", "loud"),
        ("watch_stdin", "perhaps"),
    ],
)
def test_a_variable_that_makes_no_sense_is_refused_by_both(
    name: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTINGS[name].variable, text)

    with pytest.raises(StartupError, match=SETTINGS[name].variable):
        Settings.from_environment()
    with pytest.raises(click.BadParameter):
        serve.make_context("serve", [])


@pytest.mark.parametrize(
    ("name", "given"), [("log_level", "DEBUG"), ("st_extensions_dir", "/somewhere")]
)
def test_a_second_variable_is_read_where_the_first_is_not_set(
    name: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = SETTINGS[name]
    monkeypatch.delenv(setting.variable, raising=False)
    monkeypatch.setenv(setting.also, given)

    alone = serve.make_context("serve", []).params[name]
    monkeypatch.setenv(setting.variable, "error")
    beside = serve.make_context("serve", []).params[name]

    assert (alone.lower(), beside) == (given.lower(), "error")


@pytest.mark.parametrize("name", SETTINGS)
def test_the_flag_wins_over_the_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    setting = SETTINGS[name]
    given, other = ("1", "2") if setting.kind is int else ("a", "b")
    if setting.choices:
        given, other = setting.choices[:2]
    arguments = [setting.flag, given]
    if setting.kind is bool:
        given, other, arguments = "True", "0", [setting.flag]
    monkeypatch.setenv(setting.variable, other)

    context = serve.make_context("serve", arguments)

    read = context.params[name]
    assert [str(each) for each in read] == [given] if setting.many else str(read) == given


def test_the_readme_has_a_row_for_each_with_its_variable_and_default() -> None:
    rows = readme_rows()

    for setting in SETTINGS.values():
        row = row_of(setting)
        assert row in rows, f"Add this row to the table of README.md: | {' | '.join(row)} |"
    assert rows == [row_of(setting) for setting in SETTINGS.values()], (
        "The rows in README.md have the order of the fields in valuetracker/settings.py, and no "
        "row is there without its field."
    )


def test_the_readme_names_no_setting_that_is_not_there() -> None:
    text = README.read_text(encoding="utf-8")

    named = set(re.findall(r"VALUETRACKER_[A-Z_]+", text))

    assert named == {setting.variable for setting in settings_table()}


@pytest.mark.parametrize("setting", SECRETS, ids=lambda each: each.name)
def test_a_secret_is_read_from_the_environment_and_shown_nowhere(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(setting.variable, "hush")

    settings = Settings(**secret_settings())

    assert getattr(settings, setting.name) == "hush"
    assert "hush" not in repr(settings)
    assert setting.name not in options()
    assert f"| | `{setting.variable}` | | {setting.help} |" in README.read_text(encoding="utf-8")
