"""Finds, orders, loads and asks the plugins.

Discovery reads metadata alone: nothing of a plugin is imported before it is loaded. Load
order decides nothing but the order in which callbacks are asked: configured names first
(`plugins.order`), then by name. A plugin that cannot be used stays listed, with the reason,
and takes nothing else down. Each hook has one typed function on `Plugins`, which names the
plugin in every error. Source: spec "Architecture", Contract.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pluggy

from yarp import cache, hookspecs
from yarp.errors import ConfigError, PluginError
from yarp.foreign import foreign, sentence
from yarp.sources.importers import Importer
from yarp.spool.declared import Redactor, SpoolLocation
from yarp.types import (
    WRAPS,
    Host,
    Reducer,
    RulePack,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import click

    from yarp.index.reader import TraceReader
    from yarp.settings import Settings
    from yarp.spool.receipt import Receipt
    from yarp.types import CallEnded, CallStarted

GROUP = "yarp"
CALLBACKS = ("yarp_rewrite_input", "yarp_call_started", "yarp_call_finished")
"""The hooks that a live call asks: an implementation slows every call."""

HOST_CALLABLES = (
    "decode",
    "reply",
    "replace",
    "refused",
    "install",
    "uninstall",
    "health",
    "probe",
    "sandbox",
    "spools",
)
"""The parts of a host that name code: the cache holds them as `module:qualname`."""


class Entry(Value):
    """What a distribution's metadata says of a plugin; `module` is what is imported."""

    __slots__ = ("distribution", "module", "name", "version")

    def __init__(self, name: str, module: str, distribution: str, version: str) -> None:
        self.name = name
        self.module = module
        self.distribution = distribution
        self.version = version

    def __str__(self) -> str:
        return f"plugin {self.name} ({self.distribution} {self.version})"


class Plugin:
    """A plugin as it stands.

    `status`: active, failed, or unpinned (YARP_PLUGINS leaves it out). `problem` says in a
    sentence what is wrong; an active plugin may have one, about a part that is left out.
    """

    __slots__ = ("entry", "hooks", "module", "problem", "status")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.status = "active"
        self.problem: str | None = None
        self.module: Any = None
        self.hooks: tuple[str, ...] = ()


def hook_names() -> list[str]:
    """The names of all hooks, in the order of the contract."""
    return [name for name in vars(hookspecs) if name.startswith("yarp_")]


def discover(directories: Sequence[str] | None = None) -> list[Entry]:
    """Every plugin installed below `directories`, by name; imports none of them.

    A distribution found twice counts once, where Python would import it from. Names may
    repeat across distributions; `Plugins.load` refuses those.
    """
    import importlib.metadata
    import re

    found, seen = [], set()
    search = list(cache.site_directories() if directories is None else directories)
    for distribution in importlib.metadata.distributions(path=search):
        name = distribution.metadata["Name"]
        if name is None:  # what an interrupted uninstall leaves
            continue
        normal = re.sub(r"[-_.]+", "-", name).lower()
        if normal in seen:
            continue
        seen.add(normal)
        found += [
            Entry(point.name, point.value, name, distribution.version)
            for point in distribution.entry_points
            if point.group == GROUP
        ]
    return sorted(found, key=lambda entry: (entry.name, entry.distribution))


class Plugins:
    """The plugins of this environment, loaded, in order, and their hooks."""

    def __init__(
        self,
        entries: Sequence[Entry],
        settings: Settings,
        *,
        condemned: Mapping[str, str] = MappingProxyType({}),
        watch: Callable[[str], None] | None = None,
    ) -> None:
        """`condemned`: what is known of plugins that must not be imported, as in the cache.

        `watch(name)` is told whose code runs next, and `""` once it is done.
        """
        self._watch = watch
        pinned = os.environ.get("YARP_PLUGINS")
        pins = None if pinned is None else pinned.replace(",", " ").split()
        place = {name: number for number, name in enumerate(settings.plugin_order)}
        self.plugins = [
            Plugin(entry)
            for entry in sorted(entries, key=lambda entry: place.get(entry.name, len(place)))
        ]
        self.manager = pluggy.PluginManager(GROUP)
        self.manager.add_hookspecs(hookspecs)
        self.notes = self._absent(pins, settings)
        self._tables = settings.hosts
        for plugin in self.plugins:
            if pins is not None and plugin.entry.name not in pins:
                plugin.status = "unpinned"
            elif plugin.entry.name in condemned:
                self._fail(plugin, f"{plugin.entry} {condemned[plugin.entry.name]}")
        self._refuse_duplicates()
        # Back to front: pluggy asks first whom it registered last.
        for plugin in reversed(self.plugins):
            if plugin.status == "active":
                self._load(plugin)

    @classmethod
    def load(cls, settings: Settings | None = None, *, anew: bool = False) -> Plugins:
        """Find and load everything installed; `settings` default to the configuration's.

        Never raises for a plugin's fault: see `problems`. What is known to end or to stop the
        process that imports it is not imported; `anew` has a child try it once more.
        """
        if settings is None:
            from yarp.config import load_config

            settings = load_config().settings()
        try:
            condemned = cache.condemned(anew=anew)
        except ConfigError:  # nobody could look: the configuration is broken
            condemned = {}
        return cls(discover(), settings, condemned=condemned)

    def _absent(self, pins: list[str] | None, settings: Settings) -> list[str]:
        installed = {plugin.entry.name for plugin in self.plugins}
        notes = [
            f"YARP_PLUGINS names {name}, but no plugin of that name is installed"
            for name in pins or ()
            if name not in installed
        ]
        notes += [
            f"plugins.order names {name}, but no plugin of that name is installed"
            for name in settings.plugin_order
            if name not in installed
        ]
        notes += [
            f"hosts.{name} is configured, but no plugin of that name is installed; it is kept"
            for name in settings.hosts
            if name not in installed
        ]
        return notes

    def _refuse_duplicates(self) -> None:
        owners: dict[str, list[Plugin]] = {}
        for plugin in self.plugins:
            if plugin.status == "active":
                owners.setdefault(plugin.entry.name, []).append(plugin)
        for name, same in owners.items():
            if len(same) > 1:
                whom = " and ".join(
                    f"{plugin.entry.distribution} {plugin.entry.version}" for plugin in same
                )
                for plugin in same:
                    plugin.status = "failed"
                    plugin.problem = (
                        f"plugin {name} is provided by {whom}; neither is used: "
                        "uninstall all but one"
                    )

    def _load(self, plugin: Plugin) -> None:
        entry = plugin.entry
        try:
            with self._inside(entry.name):
                plugin.module = cache.resolve(entry.module)
        except Exception as error:  # noqa: BLE001 - whatever a plugin raises is its own
            self._fail(plugin, f"{entry} cannot be loaded: {sentence(error)}")
            return
        try:
            with self._inside(entry.name):  # it looks at every attribute of the module
                self.manager.register(plugin.module, entry.name)
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(plugin, f"{entry} does not fit the hooks: {sentence(error)}")
            return
        callers = self.manager.get_hookcallers(plugin.module) or []
        plugin.hooks = tuple(sorted(caller.name for caller in callers))
        unknown = [caller.name for caller in callers if not caller.has_spec()]
        if unknown:
            import difflib

            near = difflib.get_close_matches(unknown[0], hook_names(), 1)
            hint = f"did you mean {near[0]}?" if near else "see: yarp hooks"
            self._fail(plugin, f"{entry} implements {unknown[0]}, which is no hook; {hint}")
        elif not callers:
            self._fail(plugin, f"{entry} implements no hook; mark its functions with hookimpl")

    @contextmanager
    def _inside(self, name: str) -> Iterator[None]:
        """Around the code of the plugin `name`."""
        if self._watch is not None:
            self._watch(name)
        try:
            with foreign():
                yield
        finally:
            if self._watch is not None:
                self._watch("")

    def _fail(self, plugin: Plugin, problem: str) -> None:
        plugin.status, plugin.problem = "failed", problem
        if self.manager.has_plugin(plugin.entry.name):
            self.manager.unregister(name=plugin.entry.name)

    def _complain(self, name: str, problem: str, *, fatal: bool) -> None:
        """Note what is wrong with an active plugin; if `fatal`, it is no longer used."""
        for plugin in self.plugins:
            if plugin.entry.name == name and plugin.status == "active":
                if fatal:
                    self._fail(plugin, problem)
                else:
                    plugin.problem = plugin.problem or problem

    @property
    def problems(self) -> list[str]:
        """A sentence for each plugin in trouble, then `notes`."""
        return [*dict.fromkeys(p.problem for p in self.plugins if p.problem), *self.notes]

    @property
    def faulty(self) -> bool:
        """Whether a plugin has a problem; notes do not count."""
        return any(plugin.problem for plugin in self.plugins)

    # One plugin is asked at a time, so that each answer and each exception has a name.

    def order(self, hook: str) -> list[str]:
        """The plugins that implement `hook`, in calling order."""
        caller: pluggy.HookCaller = getattr(self.manager.hook, hook)
        return [impl.plugin_name for impl in reversed(caller.get_hookimpls())]

    def implementation(self, hook: str, name: str) -> Any:
        """The function with which the plugin `name` implements `hook`."""
        caller: pluggy.HookCaller = getattr(self.manager.hook, hook)
        return next(impl.function for impl in caller.get_hookimpls() if impl.plugin_name == name)

    def _ask(self, name: str, hook: str, arguments: dict[str, object]) -> Any:
        others = [plugin for other, plugin in self.manager.list_name_plugin() if other != name]
        caller = self.manager.subset_hook_caller(hook, others)
        try:
            with self._inside(name):
                answer: Any = caller(**arguments)
        except Exception as error:
            raise PluginError(f"plugin {name} raised in {hook}: {sentence(error)}") from error
        if caller.spec is not None and caller.spec.opts.get("firstresult"):
            return answer
        return answer[0] if answer else None

    def _first(self, hook: str, **arguments: object) -> Any:
        for name in self.order(hook):
            answer = self._ask(name, hook, arguments)
            if answer is not None:
                return answer
        return None

    def _tell(self, hook: str, **arguments: object) -> list[str]:
        problems = []
        for name in self.order(hook):
            try:
                self._ask(name, hook, arguments)
            except PluginError as error:
                problems.append(str(error))
        return problems

    def _declared(self, hook: str, kind: type, *, fatal: bool = False) -> list[tuple[str, Any]]:
        """What each plugin declares, beside its name; one that cannot say declares nothing."""
        found: list[tuple[str, Any]] = []
        for name in self.order(hook):
            try:
                answer = self._ask(name, hook, {})
            except PluginError as error:
                self._complain(name, str(error), fatal=fatal)
                continue
            several = isinstance(answer, list | tuple)
            answers = [one for one in (answer if several else (answer,)) if one is not None]
            wrong = [type(one).__name__ for one in answers if not isinstance(one, kind)]
            if wrong:
                what = f"{hook} gave a {wrong[0]}, where a {kind.__name__} belongs"
                self._complain(name, f"plugin {name}: {what}", fatal=fatal)
                continue
            found += [(name, one) for one in answers]
        return found

    def hosts(self) -> dict[str, Host]:
        """The declared hosts by name, in plugin order. A wrong declaration fails its plugin."""
        found = {}
        for name, host in self._declared("yarp_host", Host, fatal=True):
            with self._inside(name):
                problem = _misdeclared(name, host)
            if problem is None:
                found[name] = host
                self._check_table(host)
            else:
                self._complain(name, problem, fatal=True)
        return found

    def _check_table(self, host: Host) -> None:
        table = self._tables.get(host.name, {})
        known = ["wrap"] if host.sandbox is None else ["wrap", "sandbox"]
        notes = [
            f"hosts.{host.name}.{key} is no key of {host.title}'s; there are: {', '.join(known)}"
            for key in table
            if key not in known
        ]
        if table.get("wrap", WRAPS[0]) not in WRAPS:
            notes.append(
                f"hosts.{host.name}.wrap is none of {', '.join(WRAPS)}; nothing is wrapped"
            )
        if not isinstance(table.get("sandbox", False), bool):
            notes.append(f"hosts.{host.name}.sandbox is neither true nor false; it counts as false")
        self.notes += [note for note in notes if note not in self.notes]

    def rewrite_input(self, call: CallStarted) -> str | None:
        """The command text that the first plugin with an answer gives.

        Raises PluginError when one raises: then the call must not run.
        """
        answer = self._first("yarp_rewrite_input", call=call)
        if answer is not None and not isinstance(answer, str):
            raise PluginError(f"yarp_rewrite_input gave a {type(answer).__name__}, not a text")
        return answer

    def call_started(self, call: CallStarted) -> list[str]:
        """Tell all plugins; a sentence for each that raised."""
        return self._tell("yarp_call_started", call=call)

    def call_finished(self, call: CallEnded) -> list[str]:
        """Tell all plugins; a sentence for each that raised."""
        return self._tell("yarp_call_finished", call=call)

    def rule_packs(self) -> list[tuple[str, RulePack]]:
        """The rule packs, each with its plugin."""
        return self._declared("yarp_rule_packs", RulePack)

    def reducers(self) -> list[tuple[str, Reducer]]:
        """The reducers in the order they are asked, each with its plugin.

        One whose code the cache could not name is left out, and its plugin says so.
        """
        place = {plugin.entry.name: number for number, plugin in enumerate(self.plugins)}
        found = []
        for name, one in self._declared("yarp_reducers", Reducer):
            with self._inside(name):
                usable = _at_top_level(one.make)
            if usable:
                found.append((name, one))
            else:
                what = f"make of reducer {one.name} must be at the top level of a module"
                self._complain(name, f"plugin {name}: {what}", fatal=False)
        return sorted(found, key=lambda one: (one[1].band, place[one[0]], one[1].name))

    def redactors(self, policy: str) -> list[Redactor]:
        """The redactors in the order they are chained. Raises PluginError when one is missing."""
        found: list[Redactor] = []
        for name in self.order("yarp_redactors"):
            answer = self._ask(name, "yarp_redactors", {"policy": policy}) or ()
            if not isinstance(answer, list | tuple) or not all(
                isinstance(one, Redactor) for one in answer
            ):
                raise PluginError(f"plugin {name}: yarp_redactors gives a list of Redactor")
            found += answer
        return found

    def spool_location(self, call: CallStarted) -> SpoolLocation | None:
        """Where the first plugin with an answer wants the spools of `call`.

        Raises PluginError when one raises, or gives something else.
        """
        answer = self._first("yarp_spool_location", call=call)
        if answer is not None and not isinstance(answer, SpoolLocation):
            raise PluginError(
                f"yarp_spool_location gave a {type(answer).__name__}, where a SpoolLocation belongs"
            )
        return answer

    def receipt_published(self, receipt: Receipt) -> list[str]:
        """Tell all plugins; a sentence for each that raised."""
        return self._tell("yarp_receipt_published", receipt=receipt)

    def importers(self) -> dict[str, Importer]:
        """The importers by agent, sorted. Raises PluginError when two serve one agent."""
        return self._by("agent", self._declared("yarp_importers", Importer))

    def trace_readers(self) -> dict[str, TraceReader]:
        """The readers by runtime, sorted. Raises PluginError when two serve one runtime."""
        from yarp.index.reader import TraceReader

        return self._by("runtime", self._declared("yarp_trace_readers", TraceReader))

    def _by(self, attribute: str, declared: list[tuple[str, Any]]) -> dict[str, Any]:
        owners: dict[str, tuple[str, Any]] = {}
        for name, one in declared:
            key = getattr(one, attribute)
            if key in owners:
                raise PluginError(f"plugins {owners[key][0]} and {name} both serve {key}")
            owners[key] = (name, one)
        return {key: owners[key][1] for key in sorted(owners)}

    def commands(self, cli: click.Group) -> list[str]:
        """Let all plugins add commands; a sentence for each that raised."""
        return self._tell("yarp_commands", cli=cli)


def _misdeclared(name: str, host: Host) -> str | None:
    if host.name != name:
        return f"plugin {name} declares the host {host.name}; both must have one name"
    for part in HOST_CALLABLES:
        function = getattr(host, part)
        if function is not None and not _at_top_level(function):
            return f"plugin {name}: {part} must be a function at the top level of a module"
    return None


def _at_top_level(function: Any) -> bool:
    try:
        found: Any = cache.resolve(reference(function))
    except (Exception, SystemExit):  # noqa: BLE001 - whatever importing it raises
        return False
    return found is function


def reference(function: Any) -> str:
    """The `module:qualname` of a function, which `cache.resolve` takes."""
    return f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"


def for_call(compiled: cache.Compiled, hook: str) -> Plugins:
    """The plugins that implement the callback `hook`, and no others, without a scan.

    Raises PluginError when one cannot be loaded: it would have had a say.
    """
    names = compiled.callbacks.get(hook, ())
    entries = [Entry(name, compiled.plugins[name], "installed", "") for name in names]
    plugins = Plugins(entries, compiled.settings)
    if plugins.faulty:
        raise PluginError(plugins.problems[0])
    return plugins
