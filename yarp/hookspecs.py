"""The contract between YARP and its plugins: every hook, in four families, and the commands.

Prefer declarations: a hook that returns `Host`, `RulePack`, `Reducer`, `Redactor`,
`Importer` or `TraceReader` is asked once, when the cache is compiled, and the core sorts what
it gets. A callback costs each call of every host the start of a plugin manager; `yarp hooks`
marks it so. Arguments may be left out by an implementation; new ones come with a default and
none is ever renamed. No hook is called per chunk of a stream: plugin code does not stand
between a pipe and its spool.

Each docstring says when the hook is called, what None means, how answers combine and what an
exception does. The order, where it matters, is that of `yarp plugins`: configured names
first (`plugins.order`), then by name. Source: spec "Architecture", Contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import click

    from yarp.index.reader import TraceReader
    from yarp.sources.importers import Importer
    from yarp.spool.declared import Redactor, SpoolLocation
    from yarp.spool.receipt import Receipt
    from yarp.types import (
        CallEnded,
        CallStarted,
        Host,
        Reducer,
        RulePack,
    )

hookspec = pluggy.HookspecMarker("yarp")


# Capture events


@hookspec
def yarp_host() -> Host | None:
    """Declare the agent whose calls this plugin captures.

    Called once, when the cache is compiled. The name of the host is the name of the plugin's
    entry point; another name is an error. None: the plugin captures no host.
    Answers are collected, one a plugin. An exception marks the plugin as failed: it stays
    listed, and calls of its host fail like a begin that cannot be committed.

    :return: the declaration.
    """


@hookspec(firstresult=True)
def yarp_rewrite_input(call: CallStarted) -> str | None:
    """Replace the command text of a host's shell call before it runs.

    Asked for calls that a host announces (`plan`), not for a `yarp run` that somebody types.
    Called once per call, before the begin transaction, which commits the input before and
    after together; the tool runs after that. Plugins come first, then the core's own
    wrapping, which gets the text as the plugin left it. None: leave the call alone.
    Plugins are asked in order and the first answer wins. An exception blocks the call: YARP
    does not run a command that it could not decide about. A callback: it slows every call.

    :param call: the call as received; `call.input` is parsed JSON.
    :return: the command text that the host shall run.
    """


@hookspec
def yarp_call_started(call: CallStarted) -> None:
    """Learn that a call is about to run.

    Called after the begin is committed, by the process that committed it; `call.archive_ref`
    is set. Answers are ignored. All plugins are told, in order, and an exception in one is
    reported on stderr, keeps no other from being told and changes nothing about the call.
    A callback: it slows every call.

    :param call: the call as committed.
    """


@hookspec
def yarp_call_finished(call: CallEnded) -> None:
    """Learn that a call has finished.

    Called after the finish is committed, by the process that committed it; never for a call
    that stays `started`. Answers are ignored. All plugins are told, in order, and an exception
    in one is reported on stderr, keeps no other from being told and changes nothing about the
    call. A callback: it slows every call.

    :param call: the end as committed; `call.result` is the result before YARP.
    """


# Result reduction


@hookspec
def yarp_rule_packs() -> list[RulePack] | None:
    """Bring rules for commands, as data.

    Called once, when the cache is compiled; the packs' files are checked like the core's own.
    None or an empty list: no packs. All packs are merged, whatever the order; two packs that
    claim the same command in different ways disable each other, and `yarp plugins` says so.
    An exception is reported, and leaves its packs out.

    :return: the packs.
    """


@hookspec
def yarp_reducers() -> list[Reducer] | None:
    """Bring reducers of your own.

    Called once, when the cache is compiled; `Reducer.make` is imported for the calls that it
    serves. None or an empty list: no reducers. Reducers are asked by band (EXACT, FAMILY,
    FALLBACK), plugin order, then name, and the first that does not decline wins; a command
    without a rule meets none. An exception here is reported, and leaves them out; one inside a
    reducer makes the output go out exactly, and is reported on stderr.

    :return: the reducers.
    """


# Stream spooling


@hookspec
def yarp_redactors(policy: str) -> list[Redactor] | None:
    """Bring redactors that run before anything of a stream is kept.

    Called once per spool of a host that spools; `yarp run` keeps exact bytes and does not ask.
    None or an empty list: none for this policy. All redactors are chained: the core's own for
    well-known credentials first, then those of plugins, in plugin order and the order given.
    An exception makes the capture `unavailable`: nothing that may hold a secret is kept because
    a redactor was missing.

    :param policy: the name of the sanitation policy that the host asks for.
    :return: the redactors.
    """


@hookspec(firstresult=True)
def yarp_spool_location(call: CallStarted) -> SpoolLocation | None:
    """Say where the spools of a call go.

    Called once per call of a host that spools, at its start. None: not mine. Plugins are asked
    in order and the first answer wins; without one, or after an exception, the capture is
    `unavailable` and the call runs.

    :param call: the call as received.
    :return: the directory and its quotas.
    """


@hookspec
def yarp_receipt_published(receipt: Receipt) -> None:
    """Learn that a capture's receipt has been published.

    Called once per receipt, after it is in place, by the process that published it. Answers
    are ignored. All plugins are told, in order, and an exception in one is reported on stderr
    and keeps no other from being told.

    :param receipt: the receipt; it never changes.
    """


# Importers


@hookspec
def yarp_importers() -> list[Importer] | None:
    """Bring importers of agents' stores into the dataset.

    Called once by the commands of the dataset, never by a live call. None or an empty list:
    none. Importers are sorted by agent; two for one agent are an error that names both
    plugins. An exception fails the command, naming the plugin.

    :return: the importers.
    """


@hookspec
def yarp_trace_readers() -> list[TraceReader] | None:
    """Bring readers of runtimes' traces into the index.

    Called once by the commands of the index, never by a live call. None or an empty list:
    none. Readers are sorted by runtime; two for one runtime are an error that names both
    plugins. An exception fails the command, naming the plugin.

    :return: the readers.
    """


# Commands


@hookspec
def yarp_commands(cli: click.Group) -> None:
    """Add commands to `yarp`.

    Called when the command line needs them: for its help, and for a command it does not know
    itself. Answers are ignored. All plugins are called, in order; a command of the core cannot
    be replaced. An exception is reported on stderr, naming the plugin, and the rest go on.

    :param cli: the group to add click commands to.
    """
