"""`yarp plugins` and `yarp hooks`: what is installed, what it adds, and in which order."""

from __future__ import annotations

import difflib
import inspect
import os
import re
from typing import TYPE_CHECKING, Any

import rich_click as click

from yarp import hookspecs
from yarp.cli import text
from yarp.errors import PluginError, UsageError
from yarp.plugins import CALLBACKS, Plugins, discover, hook_names

if TYPE_CHECKING:
    from collections.abc import Iterator

_CAPABILITIES = {
    "yarp_host": "host",
    "yarp_rewrite_input": "rewrites input",
    "yarp_call_started": "follows calls",
    "yarp_call_finished": "follows calls",
    "yarp_rule_packs": "rules",
    "yarp_reducers": "reducers",
    "yarp_redactors": "redactors",
    "yarp_spool_location": "spools",
    "yarp_receipt_published": "follows receipts",
    "yarp_importers": "importers",
    "yarp_trace_readers": "trace readers",
    "yarp_commands": "commands",
}


@click.group(invoke_without_command=True)
@text.json_option
@click.pass_context
@text.shows("yarp plugins --json", "yarp plugins new acme", "YARP_PLUGINS=acme yarp plugins")
def plugins(ctx: click.Context, as_json: bool) -> None:
    """List the plugins in the order they are asked, with version, status and capabilities.

    The order is that of `plugins.order` in the configuration, then by name. YARP_PLUGINS=a,b
    leaves all others out. A plugin that cannot be used stays listed, with the reason on stderr
    and exit status 70.
    """
    if ctx.invoked_subcommand is not None:
        return
    loaded = _declared()
    if as_json:
        text.print_json({"plugins": [_row(plugin) for plugin in loaded.plugins]})
    elif loaded.plugins:
        rows = [
            (
                plugin.entry.name,
                plugin.entry.version,
                plugin.status,
                plugin.entry.distribution,
                ", ".join(_capabilities(plugin.hooks)),
            )
            for plugin in loaded.plugins
        ]
        click.echo(text.table(("NAME", "VERSION", "STATUS", "PACKAGE", "CAPABILITIES"), rows))
    else:
        click.echo("no plugins are installed; a host comes with its package, such as yarp-acme")
    _end(ctx, loaded)


@plugins.command()
@click.argument("name")
@click.argument("directory", required=False)
@text.shows("yarp plugins new zeta", "yarp plugins new zeta ~/src/yarp-zeta")
def new(name: str, directory: str | None) -> None:
    """Write a package for a host NAME to start from, into DIRECTORY (by default yarp-NAME).

    It has a declaration, an entry point and the conformance suite; it can be installed as it is.
    """
    if re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) is None or name == "core":
        raise UsageError(f"{name!r} is no name for a plugin; use a-z, 0-9 and single dashes inside")
    directory = directory or f"yarp-{name}"
    if os.path.lexists(directory):
        raise UsageError(f"{directory} exists already; name another directory")
    if name in {entry.name for entry in discover()}:
        raise UsageError(f"a plugin {name} is installed already, and no two can have one name")
    words = {
        "yarp_acme": f"yarp_{name.replace('-', '_')}",
        "TestAcme": f"Test{name.title().replace('-', '')}",
        "Acme": name.replace("-", " ").title(),
        "acme": name,
    }

    def renamed(text: str) -> str:
        return re.sub("|".join(words), lambda found: words[found[0]], text)

    for path, content in sorted(_template()):
        target = os.path.join(directory, renamed(path))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(renamed(content))
        click.echo(f"wrote {target}")
    click.echo(f"next: pip install -e '{directory}', then: yarp hooks, and pytest {directory}")


def _template() -> Iterator[tuple[str, str]]:
    """The files of the example host, by path below its folder."""
    package = os.path.dirname(os.path.abspath(hookspecs.__file__))
    # A wheel carries the example as package data; in a checkout it lies where people read it.
    installed = os.path.join(package, "template")
    checkout = os.path.join(os.path.dirname(package), "examples", "yarp-acme")
    root = installed if os.path.isdir(installed) else checkout
    for directory, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith((".", "__pycache__"))]
        for name in files:
            path = os.path.join(directory, name)
            if not name.endswith(".pyc"):
                with open(path, encoding="utf-8") as file:
                    yield os.path.relpath(path, root), file.read()


def _row(plugin: Any) -> dict[str, object]:
    return {
        "name": plugin.entry.name,
        "version": plugin.entry.version,
        "distribution": plugin.entry.distribution,
        "module": plugin.entry.module,
        "status": plugin.status,
        "problem": plugin.problem,
        "capabilities": _capabilities(plugin.hooks),
        "hooks": list(plugin.hooks),
    }


def _capabilities(hooks: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(_CAPABILITIES[hook] for hook in hook_names() if hook in hooks))


def _declared() -> Plugins:
    """The plugins with their declarations asked for, so that a wrong one shows."""
    loaded = Plugins.load(anew=True)
    loaded.hosts()
    loaded.rule_packs()
    loaded.reducers()
    return loaded


def _end(ctx: click.Context, loaded: Plugins) -> None:
    text.report(loaded.problems)
    if loaded.faulty:
        ctx.exit(PluginError.exit_code)


@click.command()
@click.argument("name", required=False)
@text.json_option
@click.pass_context
@text.shows("yarp hooks", "yarp hooks yarp_rewrite_input", "yarp hooks --json")
def hooks(ctx: click.Context, name: str | None, as_json: bool) -> None:
    """List every active implementation of a hook, in calling order, with where it comes from.

    With NAME, say also what that hook is for. A callback of live calls is marked "slows every
    call"; a hook that no part of YARP asks for yet is marked "not called yet".
    """
    wanted = hook_names() if name is None else [_known(name)]
    loaded = _declared()
    rows = [row for hook in wanted for row in _implementations(loaded, hook)]
    if as_json:
        described = [
            {
                "name": hook,
                "arguments": arguments(hook),
                "description": inspect.getdoc(getattr(hookspecs, hook)),
                "notes": _notes(hook),
                "implementations": [row for row in rows if row["hook"] == hook],
            }
            for hook in wanted
        ]
        text.print_json({"hooks": described})
    else:
        if name is not None:
            click.echo(f"{wanted[0]}({', '.join(arguments(wanted[0]))})\n")
            click.echo(f"{inspect.getdoc(getattr(hookspecs, wanted[0]))}\n")
        if rows:
            lines = [
                (row["hook"], row["plugin"], row["where"], "; ".join(_notes(row["hook"])))
                for row in rows
            ]
            click.echo(text.table(("HOOK", "PLUGIN", "WHERE", "NOTES"), lines))
        else:
            click.echo("no plugin implements " + ("it" if name else "a hook"))
    _end(ctx, loaded)


def _known(name: str) -> str:
    full = name if name.startswith("yarp_") else f"yarp_{name}"
    if full not in hook_names():
        near = difflib.get_close_matches(full, hook_names(), 1)
        hint = f"did you mean {near[0]}?" if near else "see: yarp hooks"
        raise UsageError(f"there is no hook {name!r}; {hint}")
    return full


def arguments(hook: str) -> list[str]:
    """The names of a hook's arguments, in order."""
    return list(inspect.signature(getattr(hookspecs, hook)).parameters)


def _notes(hook: str) -> list[str]:
    notes = ["slows every call"] if hook in CALLBACKS else []
    if hook == "yarp_rewrite_input":
        notes.append("hosts' calls only")
    if "Not called yet" in (inspect.getdoc(getattr(hookspecs, hook)) or ""):
        notes.append("not called yet")
    return notes


def _implementations(loaded: Plugins, hook: str) -> list[dict[str, str]]:
    entries = {plugin.entry.name: plugin.entry for plugin in loaded.plugins}
    return [
        {
            "hook": hook,
            "plugin": name,
            "distribution": entries[name].distribution,
            "version": entries[name].version,
            "where": _where(loaded.implementation(hook, name)),
        }
        for name in loaded.order(hook)
    ]


def _where(function: Any) -> str:
    code = inspect.unwrap(function).__code__
    return f"{os.path.relpath(code.co_filename, _root(code.co_filename))}:{code.co_firstlineno}"


def _root(path: str) -> str:
    # The directory that holds the outermost package of the file.
    directory = os.path.dirname(path)
    while os.path.exists(os.path.join(directory, "__init__.py")):
        directory = os.path.dirname(directory)
    return directory
