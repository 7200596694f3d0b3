"""The compiled cache: settings, rules and declarations in one file, so that a call scans nothing.

One `marshal` file for each environment lies below the cache directory (0700, file 0600).
It holds the key it was made for (versions, search path, configuration file, YARP_PLUGINS) and
the stat of everything it was made from: the site directories, the configuration, the plugins'
modules and every rule file. Whoever finds it stale has it made again in a child process, and
that one call pays. A file that is missing, damaged, not ours or open to others is as good as
none. Source: spec "Architecture", Contract.
"""

from __future__ import annotations

import _imp
import marshal
import os
import stat
import sys

from yarp import __version__, paths
from yarp.errors import ConfigError, PluginError, YarpError
from yarp.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Protocol

    class Selected(Protocol):
        """The rule that a command selects."""

        pack: str
        rule: str
        family: str

    Declared = tuple[str, str, int, tuple[str, ...] | None, str]
    Stamp = tuple[int, int, int] | None
    Key = tuple[object, ...]
    _Base = dict[str, Any]
else:
    _Base = dict

_MAGIC = b"yarp\x00\x02\r\n"
_HASH_KEY = 0x59415250
_COMPILE_LIMIT_MS = 60_000
_LOAD_LIMIT_MS = 10_000  # of one plugin
_UNUSED_SECONDS = 30 * 86400


class Compiled:
    """What a call needs to know of the configuration, the rules and the plugins.

    `hosts`: for each host its declaration as plain values, callables as `module:qualname`;
    of a plugin that failed, just `problem`. Ask `host` for one.
    `callbacks`: for each callback hook the plugins that implement it, in calling order. Only
    where one is named does a call import `yarp.plugins` and those plugins.
    `reducers`: in the order they are asked, each one's plugin, name, band, what it serves
    (None: everything), and its code as `module:qualname`. Ask `candidates` for those of a call.
    `projects`: each trusted project's root and what its rules change, the innermost first.
    `plugins`: for each plugin the module to import. `problems`: a sentence each.
    `condemned`: the plugins that ended or stopped the process that loaded them, and how.
    """

    __slots__ = (
        "_merged",
        "_rules",
        "callbacks",
        "condemned",
        "hosts",
        "plugins",
        "problems",
        "projects",
        "reducers",
        "settings",
    )

    def __init__(
        self,
        settings: dict[str, object],
        hosts: dict[str, dict[str, Any]],
        callbacks: dict[str, tuple[str, ...]],
        plugins: dict[str, str],
        problems: tuple[str, ...],
        reducers: tuple[Declared, ...],
        projects: tuple[tuple[str, bytes], ...],
        condemned: dict[str, str],
        rules: bytes,
    ) -> None:
        self.settings = Settings.restore(settings)
        self.hosts = hosts
        self.callbacks = callbacks
        self.plugins = plugins
        self.problems = problems
        self.reducers = reducers
        self.projects = projects
        self.condemned = condemned
        self._rules: bytes | dict[str, Any] = rules
        self._merged: dict[str, dict[str, Any]] = {}

    @property
    def rules(self) -> dict[str, Any]:
        """The compiled rules where this process runs; read when first asked for."""
        directory = None
        if self.projects:
            try:
                directory = os.getcwd()
            except OSError:  # somebody removed it
                directory = None
        return self.rules_in(directory)

    def rules_for(self, working_directory: str | None) -> dict[str, Any]:
        """The compiled rules for a command that a host runs in `working_directory`.

        As the host names it, through links or not; None: where this process runs.
        """
        if working_directory is None or not self.projects:
            return self.rules
        try:
            return self.rules_in(os.path.realpath(working_directory))
        except (OSError, ValueError):  # no path at all
            return self.rules_in(None)

    def rules_in(self, directory: str | None) -> dict[str, Any]:
        """The compiled rules for a command that runs in `directory`, a canonical path."""
        if isinstance(self._rules, bytes):
            read: dict[str, Any] = marshal.loads(self._rules)  # noqa: S302 - our own bytes, checked
            self._rules = {**read, "programs": Programs(read["programs"])}
        rules = self._rules
        for root, overlay in self.projects:
            if directory is not None and (directory + "/").startswith(root.rstrip("/") + "/"):
                if root not in self._merged:
                    self._merged[root] = merged(rules, marshal.loads(overlay))  # noqa: S302 - as above
                return self._merged[root]
        return rules

    def candidates(self, selection: Selected) -> list[tuple[str, Callable[..., Any]]]:
        """The plugins' reducers for the selected rule: what each is called, and its `make`.

        The first call of a `make` imports its module, and raises what that raises.
        """
        if not self.reducers:
            return []
        # A rule goes by its id, or by its pack's name and its id; a fallback serves them all.
        wanted: tuple[set[str], ...] = (
            {selection.rule, f"{selection.pack}/{selection.rule}"},
            {selection.family},
        )
        return [
            (f"reducer {name} of plugin {plugin}", _later(code))
            for plugin, name, band, serves, code in self.reducers
            if serves is None or not wanted[band].isdisjoint(serves)
        ]

    def host(self, name: str) -> dict[str, Any]:
        """The declaration of the host `name`. Raises PluginError with the reason without it."""
        found = self.hosts.get(name)
        if found is None:
            raise PluginError(
                f"no plugin of the name {name} is installed; install yarp-{name}, "
                "or see: yarp plugins"
            )
        if "problem" in found:
            raise PluginError(found["problem"])
        return found


class Programs(_Base):
    """The compiled rules by program; those of one are read when somebody asks for them.

    Reading them all costs a tenth of a short `yarp run`.
    """

    def __getitem__(self, name: str) -> Any:
        entry = super().__getitem__(name)
        if isinstance(entry, bytes):
            entry = self[name] = marshal.loads(entry)  # noqa: S302 - our own bytes, checked
        return entry

    def get(self, name: str, default: Any = None) -> Any:
        """The entry of the program `name`, or `default`."""
        try:
            return self[name]
        except KeyError:
            return default


def load() -> Compiled:
    """The compiled declarations, made anew when anything they come from has changed.

    Raises ConfigError when the configuration cannot be used.
    """
    wanted = key()
    return _read(file(wanted), wanted) or _rebuild(wanted)


def merged(rules: dict[str, Any], overlay: dict[str, Any]) -> dict[str, Any]:
    """The compiled rules with what a project changes in them."""
    return {
        **rules,
        **{
            key: type(rules[key])({**rules[key], **value}) if isinstance(value, dict) else value
            for key, value in overlay.items()
        },
    }


def condemned(*, anew: bool = False) -> dict[str, str]:
    """The plugins that must not be imported here, each with what it did to a child.

    `anew` tries them once more. Nothing is said on stderr. Raises ConfigError as `load` does.
    """
    wanted = key()
    found = _read(file(wanted), wanted)
    if found is None or (anew and found.condemned):
        found = _rebuild(wanted, quiet=True)
    return found.condemned


def resolve(reference: str) -> Any:
    """What `module:qualname` or `module` names; imports that module alone."""
    module, _, qualname = reference.partition(":")
    __import__(module)
    found: Any = sys.modules[module]
    for name in qualname.split(".") if qualname else ():
        found = getattr(found, name)
    return found


def _later(reference: str) -> Callable[..., Any]:
    def make(*arguments: object) -> Any:
        return resolve(reference)(*arguments)

    return make


def site_directories() -> tuple[str, ...]:
    """Where plugins may be installed: the search path without the program's own directory.

    Python puts that of the script, or the current one, first; a plugin never comes from there.
    """
    entries = sys.path if sys.flags.safe_path else sys.path[1:]
    return tuple(entry for entry in entries if entry.startswith("/"))


def key() -> Key:
    """What a compiled cache is made for; another key is another file."""
    return (
        __version__,
        sys.hexversion,
        sys.implementation.cache_tag,
        site_directories(),
        paths.config_file(),
        os.environ.get("YARP_PLUGINS"),
    )


def file(wanted: Key) -> str:
    """The path of the cache for the key `wanted`."""
    name = _imp.source_hash(_HASH_KEY, repr(wanted).encode("utf-8", "surrogatepass")).hex()
    return os.path.join(paths.cache_dir(), f"compiled-{name}")


def stamp(path: str) -> Stamp:
    """The part of the stat of `path` that a change shows in; None: it is not there."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def pack(
    wanted: Key,
    stamps: Iterable[tuple[str, Stamp]],
    settings: Settings,
    hosts: dict[str, dict[str, Any]],
    callbacks: dict[str, tuple[str, ...]],
    plugins: dict[str, str],
    problems: Iterable[str],
    reducers: Iterable[Declared],
    projects: Iterable[tuple[str, bytes]],
    condemned: dict[str, str],
    rules: dict[str, Any],
) -> bytes:
    """The bytes of a cache file."""
    programs = {name: marshal.dumps(entry) for name, entry in rules["programs"].items()}
    values: Any = (
        wanted,
        tuple(stamps),
        settings.dump(),
        hosts,
        callbacks,
        plugins,
        tuple(problems),
        tuple(reducers),
        tuple(projects),
        condemned,
        marshal.dumps({**rules, "programs": programs}),
    )
    body = marshal.dumps(values)
    return _MAGIC + _imp.source_hash(_HASH_KEY, body) + body


def unpack(data: bytes, wanted: Key, *, stale: bool = False) -> Compiled | None:
    """What the cache file `data` holds; None if it is damaged or for another key.

    Also None if anything it was made from has changed since, unless it may be `stale`.
    """
    body = memoryview(data)[16:]
    if data[:8] != _MAGIC or data[8:16] != _imp.source_hash(_HASH_KEY, body):
        return None
    found, stamps, *rest = marshal.loads(body)  # noqa: S302 - our own bytes, checked
    if found != wanted:
        return None
    if not stale and any(stamp(path) != expected for path, expected in stamps):
        return None
    return Compiled(*rest)


def store(data: bytes, wanted: Key) -> None:
    """Put the cache file in place. Failing to do so costs time, and is not an error."""
    path = file(wanted)
    directory = os.path.dirname(path)
    temporary = f"{path}.{os.getpid()}"
    try:
        paths.make_private_dir(directory)
        paths.require_private(directory, directory=True, narrow=True)
        _sweep(directory)
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            os.fchmod(descriptor, 0o600)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        finally:
            os.close(descriptor)
        os.rename(temporary, path)
    except (OSError, YarpError):
        try:
            os.unlink(temporary)
        except OSError:
            return


def _sweep(directory: str) -> None:
    # Files of environments that are gone, and what a killed writer left.
    import time

    oldest = time.time() - _UNUSED_SECONDS
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if name.startswith("compiled-") and os.lstat(path).st_mtime < oldest:
            os.unlink(path)


def _read(path: str, wanted: Key) -> Compiled | None:
    try:
        # Not blocking: a pipe that somebody put there must not stop a call.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
        # It names code that will be run: trusted only if nobody else can have written it.
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            return None
        data = os.read(descriptor, found.st_size)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return unpack(data, wanted)


def _rebuild(wanted: Key, *, quiet: bool = False) -> Compiled:
    condemned: dict[str, str] = {}
    while made := _compile_in_child(condemned, quiet=quiet):
        if made.answer is None:
            if made.plugin is None:  # it did not even begin
                break
            if not made.plugin:
                raise PluginError(
                    f"compiling what the plugins declare {made.ending}; "
                    "leave plugins out with YARP_PLUGINS to find which"
                )
            condemned[made.plugin] = (
                f"{made.ending} while it was loaded; it is tried again when its files change, "
                "or by: yarp plugins"
            )
            continue
        if made.status == ConfigError.exit_code:
            raise ConfigError(made.answer.decode("utf-8", "replace"))
        # What changed while it was compiled shows to the next call.
        compiled = unpack(made.answer, wanted, stale=True)
        if compiled is not None:
            return compiled
        break
    # No child could be started, or it saw another search path than this process.
    from yarp.compile import compile_declarations

    data = compile_declarations(condemned, quiet=quiet)
    # A plugin may have changed what the key is made of.
    return unpack(data, wanted, stale=True) or Compiled(*marshal.loads(memoryview(data)[16:])[2:])  # noqa: S302 - made above


def interpreter() -> list[str]:
    """The words that start this Python again, with what this process sees and no more."""
    words = [sys.executable, "-I" if sys.flags.isolated else "-P"]
    if sys.flags.ignore_environment:
        words.append("-E")
    if sys.flags.no_user_site:
        words.append("-s")
    return words


class _Made:
    """What a child that compiles wrote, and how it ended.

    `answer`: None when it ended before it had one; then `plugin` is the one it was loading, ""
    for none of them, None when it came to none.
    """

    __slots__ = ("answer", "ending", "plugin", "status")

    def __init__(self, output: bytes, status: int, limit_ms: int | None) -> None:
        # The names of the plugins, a line each with an empty one after it, NUL, the answer.
        names, complete, answer = output.partition(b"\0")
        self.answer = answer if complete and limit_ms is None else None
        begun = names.split(b"\n")[-2:-1]
        self.plugin = begun[0].decode() if begun else None
        self.status = status
        if limit_ms is not None:
            self.ending = f"did not end within {limit_ms // 1000} s"
        elif status < 0:
            self.ending = f"was ended by signal {-status}"
        else:
            self.ending = f"ended the process with status {status}"


def _compile_in_child(condemned: dict[str, str], *, quiet: bool) -> _Made | None:
    """Have a child compile without the `condemned` plugins; None if none can be started."""
    if not sys.executable:
        return None
    arguments = [*interpreter(), "-m", "yarp.compile", "-"]
    arguments += [f"{name}={what}" for name, what in condemned.items()]
    reader, writer = os.pipe()
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, writer, 1),
    ]
    if quiet:
        actions.append((os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0))
    try:
        child = os.posix_spawn(sys.executable, arguments, paths.environment(), file_actions=actions)
    except OSError:
        os.close(reader)
        return None
    finally:
        os.close(writer)
    output, limit_ms = _drain(reader, child)
    _, status = os.waitpid(child, 0)
    return _Made(output, os.waitstatus_to_exitcode(status), limit_ms)


def _drain(reader: int, child: int) -> tuple[bytes, int | None]:
    """All that the child writes; and the limit that it was killed for, if it was."""
    import select
    import time

    poll = select.poll()
    poll.register(reader, select.POLLIN)
    limit_ms = _COMPILE_LIMIT_MS
    deadline = time.monotonic() + limit_ms / 1000
    output = bytearray()
    try:
        while True:
            left_ms = (deadline - time.monotonic()) * 1000
            if left_ms <= 0 or not poll.poll(left_ms):
                os.kill(child, 9)
                return bytes(output), limit_ms
            piece = os.read(reader, 1 << 16)
            if not piece:
                return bytes(output), None
            output += piece
            # Each plugin has its own time; an empty line is the end of one.
            loading = b"\0" not in output and output[-2:] != b"\n\n"
            limit_ms = _LOAD_LIMIT_MS if loading else _COMPILE_LIMIT_MS
            deadline = time.monotonic() + limit_ms / 1000
    finally:
        os.close(reader)
