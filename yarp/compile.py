"""Compiles the configuration, the rules and what the plugins declare into the cache.

`python -m yarp.compile` makes the file anew; with `-` it also writes the bytes to stdout, for
the call that found the old one stale. Source: spec "Architecture", Contract.
"""

from __future__ import annotations

import marshal
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from yarp import cache, paths
from yarp.config import load_config
from yarp.errors import ConfigError
from yarp.plugins import CALLBACKS, HOST_CALLABLES, Plugins, discover, reference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from yarp.settings import Settings
    from yarp.types import Host

    _Found = dict[str, tuple[cache.Stamp, frozenset[str] | None]]

# What decides the shape of the cache: in a checkout it changes without a new version.
_SHAPES = (
    "cache",
    "compile",
    "config",
    "plugins",
    "settings",
    "types",
    "packs",
    "reduce.rules.load",
)
# The coarsest clock that file systems stamp with is the kernel's tick.
_TICK_NS = 10_000_000
# What each call looks at of a plugin that failed.
_SOURCES = 200


def compile_declarations(
    condemned: dict[str, str] | None = None,
    *,
    watch: Callable[[str], None] | None = None,
    quiet: bool = False,
) -> bytes:
    """Make the cache file, put it in place and return its bytes.

    `condemned` and `watch` are for `Plugins`. A sentence for each problem goes to stderr, unless
    `quiet`. Raises ConfigError when the configuration
    cannot be used; a plugin's fault never raises.
    """
    since_ns = time.time_ns()
    key = cache.key()
    found = _look([*cache.site_directories(), paths.config_file(), *_modules(_SHAPES, "yarp.")])
    settings = load_config().settings()
    entries = discover()
    # The files that hold the plugins' declarations: an edit shows there alone.
    packages = [entry.module.partition(":")[0].partition(".")[0] for entry in entries]
    found = _look(_modules(packages)) | found
    sources = {entry.module: _look(_sources(entry.module)) for entry in entries}
    condemned = condemned or {}
    plugins = Plugins(entries, settings, condemned=condemned, watch=watch)
    hosts = {name: _plain(host) for name, host in plugins.hosts().items()}
    rules, projects, files = _rules(plugins, settings)
    found = _look(files) | found
    callbacks = {hook: tuple(plugins.order(hook)) for hook in CALLBACKS if plugins.order(hook)}
    for plugin in plugins.plugins:
        if plugin.status == "failed":
            hosts[plugin.entry.name] = {"problem": plugin.problem}
            # Its fault may lie in any of its files.
            found = sources[plugin.entry.module] | found
        elif plugin.status == "unpinned":
            hosts[plugin.entry.name] = {"problem": f"YARP_PLUGINS leaves {plugin.entry} out"}
    modules = {plugin.entry.name: plugin.entry.module for plugin in plugins.plugins}
    reducers = [
        (name, one.name, one.band, one.serves or None, reference(one.make))
        for name, one in plugins.reducers()
    ]
    stamps, lasting = _stamps(found, since_ns)
    data = cache.pack(
        key,
        stamps,
        settings,
        hosts,
        callbacks,
        modules,
        plugins.problems,
        reducers,
        projects,
        condemned,
        rules,
    )
    for problem in () if quiet else plugins.problems:
        sys.stderr.write(f"yarp: {problem}\n")
    if lasting:
        cache.store(data, key)
    return data


def _look(watched: Iterable[str]) -> _Found:
    """How those files and directories are before they are used, and the names in a directory."""
    return {path: (cache.stamp(path), _names(path)) for path in watched}


def _names(path: str) -> frozenset[str] | None:
    try:
        return frozenset(os.listdir(path)) - {"__pycache__"}
    except OSError:
        return None


def _stamps(found: _Found, since_ns: int) -> tuple[list[tuple[str, cache.Stamp]], bool]:
    """The stamps of what was found, and whether every change after it shows in them.

    A directory counts as it is now when its names are the same but for `__pycache__`, which
    Python makes when it first imports a module from there: here, for a plugin just installed.
    """
    stamps, lasting = [], True
    for path, (stamp, names) in found.items():
        read_ns, latest = time.time_ns(), cache.stamp(path)
        # A change within the clock's tick of our reading would not show in the stat.
        lasting = lasting and _settled(stamp, since_ns)
        if names is not None and stamp != latest and names == _names(path):
            stamp = latest  # noqa: PLW2901 - the same directory, a moment later
            lasting = lasting and _settled(stamp, read_ns)
        stamps.append((path, stamp))
    return stamps, lasting


def _settled(stamp: cache.Stamp, read_ns: int) -> bool:
    return stamp is None or stamp[0] < read_ns - _TICK_NS


def _modules(names: Iterable[str], prefix: str = "") -> list[str]:
    """The files of those modules that there are; none of them is imported."""
    from importlib.util import find_spec

    found = []
    for name in names:
        try:
            spec = find_spec(prefix + name)
        except (ImportError, ValueError):
            continue
        if spec is not None and spec.origin:
            found.append(spec.origin)
    return found


def _sources(module: str) -> list[str]:
    """The Python files of the package that holds `module`, and its directories."""
    from importlib.util import find_spec

    try:
        spec = find_spec(module.partition(":")[0].partition(".")[0])
    except (ImportError, ValueError):
        return []
    found = []
    for root in (spec and spec.submodule_search_locations) or ():
        for directory, folders, files in os.walk(root):
            folders[:] = [name for name in folders if name != "__pycache__"]
            found.append(directory)
            found += [os.path.join(directory, name) for name in files if name.endswith(".py")]
            if len(found) >= _SOURCES:
                break
    return found[:_SOURCES]


def _plain(host: Host) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "title": host.title,
        "shell_tools": host.shell_tools,
        "shell": host.shell,
        "keeps_shell_state": host.keeps_shell_state,
        "wrap": host.wrap,
        "judges_words": host.judges_words,
        "withholds": host.withholds,
        "cut": None if host.cut is None else host.cut.plain(),
    }
    for part in HOST_CALLABLES:
        function = getattr(host, part)
        plain[part] = None if function is None else reference(function)
    return plain


def _rules(
    plugins: Plugins, settings: Settings
) -> tuple[dict[str, Any], list[tuple[str, bytes]], list[str]]:
    """The compiled rules, what each trusted project changes in them, and the files of it all.

    A pack that cannot be used is left out and noted: it costs summaries, never a call.
    """
    from yarp import packs
    from yarp.reduce.rules.load import compile_rules

    watched = [packs.user_folder(), packs.trust_file()]
    sources = packs.installed(plugins, settings)
    for source in sources:
        watched += packs.files_of(source.directory)
    plugins.notes += [source.problem for source in sources if source.problem]
    usable = [source.pack for source in sources if source.pack is not None]
    rules = compile_rules(usable)
    plugins.notes += rules["problems"]
    projects = []
    try:
        trusted = packs.trusted_projects()
    except ConfigError as error:
        plugins.notes.append(str(error))
        trusted = []
    # The innermost project comes first: it is the one that counts.
    for project in sorted(trusted, key=lambda project: -len(project.root)):
        watched += packs.files_of(project.folder)
        if project.pack is not None:
            overlay = packs.overlay(rules, usable, project.pack)
            plugins.notes += [
                f"{project.root}: {problem}"
                for problem in overlay["problems"]
                if problem not in rules["problems"]
            ]
            projects.append((project.root, marshal.dumps(overlay)))
        elif os.path.isdir(project.folder):
            plugins.notes.append(
                f"{project.folder}: {project.problem or 'changed since it was trusted'}; "
                "its rules are not used"
            )
    return rules, projects, watched


def main(argv: list[str]) -> int:
    """Compile. Ends with 64 for a broken configuration.

    With `-`, names on stdout the plugin that is being loaded, then gives NUL and the bytes;
    the words after it, `NAME=what it did`, are plugins not to load.
    """
    # What a plugin prints while it loads must not end up among the bytes.
    answer = os.dup(1)
    os.dup2(2, 1)
    asked = argv[1:2] == ["-"]
    condemned = dict(word.split("=", 1) for word in argv[2:])

    def watch(name: str) -> None:
        os.write(answer, f"{name}\n".encode())

    try:
        output = compile_declarations(condemned, watch=watch if asked else None)
        status = 0
    except ConfigError as error:
        status, output = error.exit_code, str(error).encode("utf-8", "surrogateescape")
        if not asked:
            sys.stderr.write(f"yarp: {error}\n")
    if asked:
        rest = memoryview(b"\0" + output)
        while rest:
            rest = rest[os.write(answer, rest) :]
        sys.stderr.flush()
        # A plugin may have left threads, or more code for the end: nobody waits for that.
        os._exit(status)
    return status


if __name__ == "__main__":
    if callable(signal.getsignal(signal.SIGINT)):
        # The interrupt that ends whoever asked; no trace of it is for anybody.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(main(sys.argv))
