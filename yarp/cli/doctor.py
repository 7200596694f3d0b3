"""`yarp doctor`: what keeps calls from being captured, and what to do about it.

It looks, and it tries: the hooks of each host are started the way the host starts them, on an
archive that is thrown away, and a file is written from inside the host's sandbox. Nothing of
the user's is changed. Source: spec "Hosts", Rules for all.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
import time
from typing import TYPE_CHECKING

import rich_click as click
from attrs import asdict, frozen

from yarp import paths
from yarp.archive.read import Reader
from yarp.cli import text
from yarp.cli.config import pack_problems
from yarp.cli.hosts import declared_host
from yarp.config import load_config
from yarp.errors import ArchiveUnavailable, ConfigError, DataError, YarpError
from yarp.foreign import foreign, sentence
from yarp.plugins import Plugins
from yarp.settings import Settings
from yarp.types import Health

if TYPE_CHECKING:
    from yarp.types import Host, Probe

_PROBE_SECONDS = 60
# Between what an agent notes and what its hook commits.
_SLACK_MS = 60_000


@frozen
class Checked:
    """One thing that was looked at: how it stands in a few words, and what is wrong with it."""

    about: str
    state: str
    findings: tuple[str, ...] = ()


@click.command()
@click.argument("host", required=False)
@text.json_option
@click.pass_context
@text.shows("yarp doctor", "yarp doctor acme", "yarp doctor --json")
def doctor(ctx: click.Context, host: str | None, as_json: bool) -> None:
    """Find what keeps calls from being captured, of HOST or of every agent that is hooked in.

    Ends with 65 when something was found.
    """
    configuration, settings = _configuration()
    loaded = Plugins.load(settings, anew=True)
    hosts = loaded.hosts()
    named = [declared_host(loaded, hosts, host)] if host is not None else list(hosts.values())
    checked = [configuration, _archive(settings), _plugins(loaded)]
    checked += [_host(one, settings, named=host is not None) for one in named]
    if as_json:
        text.print_json({"checked": [asdict(one) for one in checked]})
    else:
        width = max(len(one.about) for one in checked)
        for one in checked:
            click.echo(f"{one.about.ljust(width)}  {one.state}")
            for finding in one.findings:
                click.echo(f"{' ' * width}  - {finding}")
    if any(one.findings for one in checked):
        ctx.exit(DataError.exit_code)


def _configuration() -> tuple[Checked, Settings]:
    path = paths.config_file()
    try:
        loaded = load_config()
        settings = loaded.settings()
    except ConfigError as error:
        found = f"{_end(error)} Until then every agent runs as if YARP were not there."
        return Checked("configuration", path, (found,)), Settings()
    state = path if os.path.exists(path) else "defaults"
    return Checked("configuration", state, tuple(map(_end, pack_problems(loaded)))), settings


def _archive(settings: Settings) -> Checked:
    """Whether the archive can be opened, and written."""
    if not settings.archive_enabled:
        found = (
            "The archive is switched off, so nothing is kept: yarp config set archive.enabled true."
        )
        return Checked("archive", "off", (found,))
    try:
        path = paths.archive_file(settings.archive_path)
        if os.path.exists(path):
            Reader.open(path).close()
            _try_lock(path)
        elif not os.access(_nearest(path), os.W_OK | os.X_OK):
            raise ArchiveUnavailable(f"{path} cannot be made: {_nearest(path)} is not writable")
    except YarpError as error:
        return Checked("archive", "cannot be used", (_end(error),))
    return Checked("archive", path if os.path.exists(path) else f"{path}, not yet made")


def _try_lock(path: str) -> None:
    """Take the write lock and give it back, changing nothing."""
    from yarp import sqlite

    if not os.access(path, os.W_OK):
        raise ArchiveUnavailable(f"{path} is read-only: chmod 600 '{path}'")
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=5, isolation_level=None)) as found:
            found.execute("BEGIN IMMEDIATE")
            found.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise sqlite.classify(error, path) from error


def _nearest(path: str) -> str:
    """The innermost directory above `path` that is there."""
    directory = os.path.dirname(path)
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    return directory


def _plugins(loaded: Plugins) -> Checked:
    active = [one.entry.name for one in loaded.plugins if one.status == "active"]
    return Checked("plugins", ", ".join(active) or "none", tuple(map(_end, loaded.problems)))


# -- hosts --------------------------------------------------------------------------------------


def _host(host: Host, settings: Settings, *, named: bool) -> Checked:
    findings: list[str] = []
    health = Health()
    try:
        if host.health is not None:
            with foreign():
                health = host.health(None)
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own
        findings.append(f"How it stands cannot be told: {sentence(error)}.")
    probed, found = _probe(host, settings)
    # An agent that is not here, and nothing of ours in its configuration: nothing to mend.
    if named or health.installed is not False or health.hooked_in or probed:
        findings += map(_end, health.notes)
    states = []
    if health.installed is not None:
        states.append("installed" if health.installed else "not installed")
    if health.version is not None:
        states.append(health.version)
    states.append({True: "hooked in", False: "not hooked in", None: "unknown"}[health.hooked_in])
    if named and not health.hooked_in and not findings and host.install is not None:
        findings.append(f"YARP is not hooked in; run: yarp install {host.name}.")
    findings += found
    if probed:
        states.append(probed)
    if health.hooked_in:
        findings += _silence(host, health, settings) + _sandbox(host, settings)
    return Checked(host.name, ", ".join(states), tuple(findings))


def _probe(host: Host, settings: Settings) -> tuple[str, list[str]]:
    """What trying its hooks gave, in words, and what is wrong with them."""
    if host.probe is None:
        return "", []
    try:
        with foreign():
            probes = host.probe(None)
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own
        return "", [f"Its hooks cannot be tried: {sentence(error)}."]
    reasons = {probe.where: _try(probe, host.name, settings) for probe in probes}
    again = f"run: yarp install {host.name}"
    findings = [
        f"The hook in {where} does not keep calls ({reason}); {again}."
        for where, reason in reasons.items()
        if reason is not None
    ]
    works = sum(reason is None for reason in reasons.values())
    return f"{works} of {len(reasons)} hooks proven" if reasons else "", findings


def _try(probe: Probe, host: str, settings: Settings) -> str | None:
    """Start a hook as its host would; why it kept nothing, or None."""
    with tempfile.TemporaryDirectory(prefix="yarp-doctor-") as folder:
        archive = os.path.join(folder, "calls.sqlite3")
        environment = {**os.environ, "YARP_ARCHIVE": archive}
        event = json.dumps(probe.event).encode()
        try:
            done = subprocess.run(
                probe.words,
                input=event,
                capture_output=True,
                env=environment,
                timeout=_PROBE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"it did not end within {_PROBE_SECONDS} s"
        except OSError as error:
            return f"it cannot be started: {error.strerror}"
        if settings.archive_enabled and done.returncode == 0:
            with contextlib.suppress(YarpError), contextlib.closing(Reader.open(archive)) as reader:
                if any(reader.calls(agent=host)):
                    return None
        elif done.returncode == 0:
            return None
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["it said nothing"]
        return f"status {done.returncode}: {said[-1]}"


def _silence(host: Host, health: Health, settings: Settings) -> list[str]:
    """Whether the agent called tools that nobody kept, as its own records tell."""
    if health.last_call_ms is None or not settings.archive_enabled:
        return []
    kept = None
    with contextlib.suppress(YarpError):
        path = paths.archive_file(settings.archive_path)
        with contextlib.closing(Reader.open(path)) as reader:
            for row in reader.calls(agent=host.name, limit=1):
                kept = row.started_at_ms
    if kept is not None and health.last_call_ms <= kept + _SLACK_MS:
        return []
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(health.last_call_ms / 1000))
    found = f"{host.title} called a tool at {when} that was not kept"
    return [f"{found}; sessions from before YARP was hooked in must be started again."]


def _sandbox(host: Host, settings: Settings) -> list[str]:
    """Whether a command in the host's sandbox can write where the archive is."""
    if host.sandbox is None or not settings.archive_enabled:
        return []
    try:
        with foreign():
            words = host.sandbox(None)
    except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own
        return [f"Its sandbox cannot be entered: {sentence(error)}."]
    if words is None:
        return []
    folder = os.path.dirname(paths.archive_file(settings.archive_path))
    os.makedirs(folder, mode=0o700, exist_ok=True)
    written = os.path.join(folder, f".doctor-{os.getpid()}")
    try:
        done = subprocess.run(
            [*words, shutil.which("touch") or "touch", written],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
        works = done.returncode == 0 and os.path.exists(written)
    except (OSError, subprocess.TimeoutExpired):
        works = False
    finally:
        with contextlib.suppress(OSError):
            os.unlink(written)
    if works:
        return []
    found = f"A command in its sandbox cannot write to {folder}, so nothing is wrapped there"
    way = f"yarp config set hosts.{host.name}.sandbox true; yarp install {host.name}"
    return [f"{found}; to open it: {way}."]


def _end(found: object) -> str:
    """A sentence with its stop."""
    words = str(found)
    return words if words.endswith((".", "!")) else f"{words}."
