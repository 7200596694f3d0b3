"""`yarp hosts`, `yarp install`, `yarp uninstall`: the agents, and how they stand here."""

from __future__ import annotations

import difflib
import time
from typing import TYPE_CHECKING, Any

import rich_click as click

from yarp import paths
from yarp.cli import text
from yarp.config import load_config
from yarp.errors import ArchiveUnavailable, PluginError, UsageError, YarpError
from yarp.foreign import foreign, sentence
from yarp.plugins import Plugins
from yarp.types import Health

if TYPE_CHECKING:
    from yarp.types import Host


@click.group(invoke_without_command=True)
@text.json_option
@click.pass_context
@text.shows("yarp hosts", "yarp hosts show acme", "yarp hosts --json")
def hosts(ctx: click.Context, as_json: bool) -> None:
    """List the agents that plugins know: installed here, hooked in, version, last call captured."""
    if ctx.invoked_subcommand is not None:
        return
    loaded, declared = _load()
    rows = [_row(loaded, host) for host in declared.values()]
    if as_json:
        text.print_json({"hosts": rows})
    elif rows:
        header = ("NAME", "INSTALLED", "HOOKED IN", "VERSION", "LAST CALL")
        click.echo(text.table(header, [_cells(row) for row in rows]))
    else:
        click.echo("no plugin declares a host; see: yarp plugins")
    _end(ctx, loaded)


@hosts.command()
@click.argument("name")
@text.json_option
@text.shows("yarp hosts show acme", "yarp hosts show acme --json")
def show(name: str, as_json: bool) -> None:
    """Say of the host NAME how it stands here, and what it withholds from YARP."""
    loaded, declared = _load()
    row = _row(loaded, declared_host(loaded, declared, name))
    if as_json:
        text.print_json(row)
        return
    _, installed, hooked_in, version, last_call = _cells(row)
    click.echo(f"{row['title']} ({name}), by {row['distribution']} {row['plugin_version']}")
    click.echo(f"  installed:  {installed}")
    click.echo(f"  hooked in:  {hooked_in}")
    click.echo(f"  version:    {version}")
    click.echo(f"  last call:  {last_call}")
    click.echo(f"  own cut:    {_cut(row['cut'])}")
    for title, sentences in (("notes", row["notes"]), ("it withholds", row["withholds"])):
        if sentences:
            click.echo(f"\n{title}:")
            for sentence in sentences:
                click.echo(f"  - {sentence}")


_scope = click.option(
    "--scope",
    type=click.Choice(["user", "project"]),
    default="user",
    show_default=True,
    help="Whose configuration of the host: yours, or that of the project here.",
)
_dry_run = click.option("--dry-run", is_flag=True, help="Say what would change; change nothing.")


@click.command()
@click.argument("host")
@_scope
@_dry_run
@text.shows("yarp install acme", "yarp install acme --scope project --dry-run")
def install(host: str, scope: str, dry_run: bool) -> None:
    """Hook YARP into HOST: write into its configuration, and print what changed."""
    _change("install", host, scope, dry_run)


@click.command()
@click.argument("host")
@_scope
@_dry_run
@text.shows("yarp uninstall acme", "yarp uninstall acme --dry-run")
def uninstall(host: str, scope: str, dry_run: bool) -> None:
    """Take YARP out of HOST: remove exactly what `yarp install` wrote."""
    _change("uninstall", host, scope, dry_run)


def _change(verb: str, name: str, scope: str, dry_run: bool) -> None:
    loaded, declared = _load()
    host = declared_host(loaded, declared, name)
    function = host.install if verb == "install" else host.uninstall
    if function is None:
        raise UsageError(f"{host.title} cannot be hooked in yet; see: yarp hosts show {name}")
    try:
        with foreign():
            lines = function(scope, dry_run, None)
    except (YarpError, OSError):
        raise
    except Exception as error:
        raise PluginError(f"plugin {name} failed to {verb}: {sentence(error)}") from error
    for line in lines or ["nothing to change"]:
        click.echo(line)


def _load() -> tuple[Plugins, dict[str, Host]]:
    loaded = Plugins.load(load_config().settings())
    return loaded, loaded.hosts()


def declared_host(loaded: Plugins, declared: dict[str, Host], name: str) -> Host:
    """The host of that name. UsageError, or PluginError with the reason, when there is none."""
    if name in declared:
        return declared[name]
    for plugin in loaded.plugins:
        if plugin.entry.name == name and plugin.problem:
            raise PluginError(plugin.problem)
    near = difflib.get_close_matches(name, declared, 1)
    hint = f"did you mean {near[0]}?" if near else "see: yarp hosts"
    raise UsageError(f"no plugin declares a host {name!r}; {hint}")


def _end(ctx: click.Context, loaded: Plugins) -> None:
    text.report(loaded.problems)
    if loaded.faulty:
        ctx.exit(PluginError.exit_code)


def _row(loaded: Plugins, host: Host) -> dict[str, Any]:
    entry = next(one.entry for one in loaded.plugins if one.entry.name == host.name)
    health, last_call = Health(), None
    notes: list[str] = []
    if host.health is not None:
        try:
            with foreign():
                health = host.health(None)
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own
            notes.append(f"its state cannot be told: {sentence(error)}")
    try:
        last_call = _last_call(host.name)
    except YarpError as error:
        notes.append(str(error))
    return {
        "name": host.name,
        "title": host.title,
        "distribution": entry.distribution,
        "plugin_version": entry.version,
        "installed": health.installed,
        "hooked_in": health.hooked_in,
        "version": health.version,
        "last_call": last_call,
        "notes": [*health.notes, *notes],
        "cut": None if host.cut is None else host.cut.plain(),
        "withholds": list(host.withholds),
    }


def _cut(cut: dict[str, Any] | None) -> str:
    """What the host itself leaves of an output, in words."""
    if cut is None:
        return "unknown"
    part = {"head": "the first", "tail": "the last", "ends": "both ends of"}[cut["keeps"]]
    lines = "" if cut["lines"] is None else f", {cut['lines']:,} lines at most"
    beyond = "" if cut["beyond"] is None else f" of more than {cut['beyond']:,}"
    return f"{part} {cut['limit']:,} {cut['unit']}{lines}{beyond}"


def _last_call(agent: str) -> dict[str, object] | None:
    from yarp.archive.read import Reader

    path = paths.archive_file(load_config().settings().archive_path)
    try:
        reader = Reader.open(path)
    except ArchiveUnavailable:
        return None
    try:
        for row in reader.calls(agent=agent, limit=1):
            return {"archive_ref": row.archive_ref, "started_at_ms": row.started_at_ms}
        return None
    finally:
        reader.close()


def _cells(row: dict[str, Any]) -> tuple[str, str, str, str, str]:
    last = row["last_call"]
    when = "none"
    if last is not None:
        started = time.localtime(last["started_at_ms"] / 1000)
        when = f"{time.strftime('%Y-%m-%d %H:%M', started)} {last['archive_ref']}"
    return (
        row["name"],
        text.known(row["installed"]),
        text.known(row["hooked_in"]),
        text.known(row["version"]),
        when,
    )
