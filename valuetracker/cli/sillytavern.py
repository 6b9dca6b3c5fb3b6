"""
`valuetracker sillytavern …`: installing into a SillyTavern, and the status of an installation.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from valuetracker import __version__
from valuetracker.bridge.configuration import configuration, folder
from valuetracker.bridge.health import probe_plugin
from valuetracker.bridge.install import installation
from valuetracker.bridge.install.conflicts import check_sillytavern
from valuetracker.bridge.install.status import extension_status
from valuetracker.bridge.origins import allowed_origin
from valuetracker.bridge.records import PluginProbe
from valuetracker.cli.failure import fail
from valuetracker.errors import ValueTrackerError
from valuetracker.logging_setup import configure_logging
from valuetracker.settings import Settings

PROBE_SECONDS = 3.0
NOT_FOUND = 404
# The port of a SillyTavern whose configuration says none.
DEFAULT_PORT = 8000
PLUGINS_ARE_OFF = (
    "SillyTavern loads no plugins yet: set `enableServerPlugins: true` in its config.yaml, or "
    "install again with --enable-plugins."
)


@click.group()
def sillytavern() -> None:
    """Install into a SillyTavern, show the status of the installation, and uninstall."""


def folder_command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function a command on a SillyTavern folder; an error ends it with exit code 1."""

    @click.argument("path", type=click.Path(path_type=Path))
    @click.option(
        "--log-level",
        envvar=["VALUETRACKER_LOG_LEVEL", "COMFYVN_LOG_LEVEL"],
        type=click.Choice(("debug", "info", "warning", "error"), case_sensitive=False),
        default="info",
        help="Least serious level to log; debug names each file.",
    )
    @wraps(function)
    def run(path: Path, log_level: str, **given: Any) -> None:
        configure_logging(log_level)
        try:
            function(folder(str(path)) or Path.cwd(), **given)
        except ValueTrackerError as error:
            fail(error)

    return run


@sillytavern.command()
@folder_command
@click.option("--enable-plugins", is_flag=True, help="Also switch server plugins on.")
@click.option("--force", is_flag=True, help="Also over a newer version.")
def install(path: Path, enable_plugins: bool, force: bool) -> None:
    """
    Install the plugin and the extension into the SillyTavern at PATH.

    PATH is the folder with server.js. Install again to update. The plugin starts the server
    with the Python that runs this command. Restart SillyTavern afterwards.
    """
    done = installation.install(path, enable_plugins, force)
    sync = done.sync
    click.echo(f"Installed {__version__} into SillyTavern {done.sillytavern} at {path}.")
    if done.before not in (None, __version__):
        click.echo(f"It was {done.before} before.")
    click.echo(
        f"{sync['created']} files created, {sync['updated']} updated, {sync['skipped']} unchanged."
    )
    click.echo("Restart SillyTavern now." if done.plugins_enabled else PLUGINS_ARE_OFF)


@sillytavern.command()
@folder_command
def uninstall(path: Path) -> None:
    """
    Remove the installed files from the SillyTavern at PATH.

    Files that were changed since are left there and listed. The databases are not touched.
    """
    done = installation.uninstall(path)
    click.echo(f"Removed {len(done.removed)} files from {path}.")
    for each in done.left:
        click.echo(f"Left, because it was changed: {each}")
    if done.config is not None:
        click.echo(done.config)


@sillytavern.command()
@folder_command
@click.option(
    "--url",
    envvar="VALUETRACKER_ST_BASE_URL",
    show_envvar=True,
    help="Where SillyTavern answers; by default its port is read from its config.yaml.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def status(path: Path, url: str | None, as_json: bool) -> None:
    """Show the bundled version, the version installed at PATH, and the running version."""
    report, running = find_status(path, url)
    if as_json:
        click.echo(json.dumps(report, indent=2))
        return
    for name in ("sillytavern", "bundled", "installed", "running", "plugin", "extension"):
        click.echo(f"{name + ':':<13}{report[name] or 'not there'}")
    for line in advice(report, running):
        click.echo(line)


def find_status(path: Path, url: str | None) -> tuple[dict[str, Any], PluginProbe]:
    """Return the report on the SillyTavern at a path, and what its running plugin says."""
    version = check_sillytavern(path)
    paths = installation.paths_of(path)
    found = extension_status(paths)
    if url is None:
        url = f"http://127.0.0.1:{installation.find_port(path) or DEFAULT_PORT}"
    # The address on the command line counts as configured, so it may be fetched.
    settings = Settings(st_base_url=url)
    origin = allowed_origin(url, configuration(settings))
    running = asyncio.run(probe_plugin(origin, settings.st_plugin_base, "", PROBE_SECONDS))
    plugin, package = found["plugin"], found["plugin"]["destination_package"]
    report = {
        "sillytavern": version,
        "bundled": plugin["source"]["package"]["version"],
        "installed": package["version"] if package else None,
        "running": running["version"],
        "plugin": found["plugin_version_status"],
        "extension": found["version_status"],
        "needsSync": found["overall_needs_sync"],
        "pluginsEnabled": installation.plugins_enabled(path),
        "python": plugin["python"],
        "pythonExists": plugin["python_exists"],
        "url": url,
    }
    return report, running


def advice(report: dict[str, Any], running: PluginProbe) -> list[str]:
    """Return sentences on what to do about a report."""
    lines = []
    if report["installed"] and report["needsSync"]:
        lines.append("What is installed differs from what comes with this: install again.")
    if report["installed"] and not report["pythonExists"]:
        lines.append(
            f"The Python it was installed with is gone ({report['python']}): install again."
        )
    if report["installed"] and not report["pluginsEnabled"]:
        lines.append(PLUGINS_ARE_OFF)
    if not report["installed"]:
        lines.append("The plugin is not installed there: install it.")
    elif running["status_code"] is None:
        lines.append("SillyTavern does not answer at its address: start it, or name it with --url.")
    elif running["status_code"] == NOT_FOUND and report["pluginsEnabled"]:
        lines.append("SillyTavern has not loaded the plugin yet: restart SillyTavern.")
    if running["ok"] and running["version"] != report["installed"]:
        lines.append("Another version is running than is installed: restart SillyTavern.")
    return lines
