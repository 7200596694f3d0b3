"""The public door: all that a plugin may import from YARP.

A plugin is a package with an entry point in group `yarp`, whose name is the plugin's:

    [project.entry-points.yarp]
    acme = "yarp_acme"

The package implements hooks (`docs/reference/hooks.md`) as functions marked with
`hookimpl`, and returns declarations from them:

    from yarp.plugin import Host, hookimpl

    @hookimpl
    def yarp_host():
        return Host("acme", shell_tools={"sh"}, decode=decode)

Names are loaded when first used: importing this module costs nothing, and neither may
importing a host's package, since that happens inside a tool call. `yarp plugins new acme`
writes a package to start from.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar, overload

    from yarp import hostfile
    from yarp.errors import (
        ConfigError,
        DataError,
        PluginError,
        StorageError,
        UsageError,
        YarpError,
    )
    from yarp.index.facts import (
        Amend,
        Drop,
        Fact,
        Item,
        Link,
        LoopEnd,
        LoopModel,
        LoopStart,
        SessionFact,
        UsageSample,
    )
    from yarp.index.reader import Injected, Projector, TraceReader, classify_injected
    from yarp.index.remembered import Remembered
    from yarp.index.text import instant_ms
    from yarp.reduce.families.base import Family, Piece, Status
    from yarp.sources.content import json_sha256, rendered, without_copies
    from yarp.sources.facts import (
        Call,
        Issue,
        Observation,
        Rejected,
        Result,
        Session,
        SourceFact,
    )
    from yarp.sources.importers import Importer, SourceItem, SourceOption
    from yarp.sources.jsonl import JsonlFile, Line
    from yarp.sources.values import parse_json
    from yarp.sources.walk import files_below, items_below
    from yarp.spool.declared import Redactor, SpoolLocation
    from yarp.spool.live import Cursor, CursorInvalid, captures
    from yarp.spool.preview import Budget, Preview
    from yarp.spool.receipt import (
        Accounting,
        CaptureState,
        Identity,
        PreviewFact,
        PreviewState,
        ProcessState,
        Receipt,
        ReferenceState,
        Representation,
        StreamReceipt,
    )
    from yarp.spool.running import Running
    from yarp.spool.spool import Spool
    from yarp.spool.whole import save_text
    from yarp.spooling import open_spool
    from yarp.types import (
        Band,
        CallEnded,
        CallStarted,
        Cut,
        Decision,
        Health,
        Host,
        Probe,
        Reducer,
        RulePack,
    )

    Hook = TypeVar("Hook", bound=Callable[..., Any])

__all__ = [
    "Accounting",
    "Amend",
    "Band",
    "Budget",
    "Call",
    "CallEnded",
    "CallStarted",
    "CaptureState",
    "ConfigError",
    "Cursor",
    "CursorInvalid",
    "Cut",
    "DataError",
    "Decision",
    "Drop",
    "Fact",
    "Family",
    "Health",
    "Host",
    "Identity",
    "Importer",
    "Injected",
    "Issue",
    "Item",
    "JsonlFile",
    "Line",
    "Link",
    "LoopEnd",
    "LoopModel",
    "LoopStart",
    "Observation",
    "Piece",
    "PluginError",
    "Preview",
    "PreviewFact",
    "PreviewState",
    "Probe",
    "ProcessState",
    "Projector",
    "Receipt",
    "Redactor",
    "Reducer",
    "ReferenceState",
    "Rejected",
    "Remembered",
    "Representation",
    "Result",
    "RulePack",
    "Running",
    "Session",
    "SessionFact",
    "SourceFact",
    "SourceItem",
    "SourceOption",
    "Spool",
    "SpoolLocation",
    "Status",
    "StorageError",
    "StreamReceipt",
    "TraceReader",
    "UsageError",
    "UsageSample",
    "YarpError",
    "captures",
    "classify_injected",
    "files_below",
    "hookimpl",
    "hostfile",
    "instant_ms",
    "items_below",
    "json_sha256",
    "open_spool",
    "parse_json",
    "rendered",
    "save_text",
    "without_copies",
]

# What only readers of the past and spooling hosts use, by the module it comes from: no live call
# of another host may load these.
_COLD = {
    "yarp.index.facts": (
        *("Amend", "Drop", "Fact", "Item", "Link", "LoopEnd", "LoopModel", "LoopStart"),
        *("SessionFact", "UsageSample"),
    ),
    "yarp.index.remembered": ("Remembered",),
    "yarp.index.reader": ("Injected", "Projector", "TraceReader", "classify_injected"),
    "yarp.index.text": ("instant_ms",),
    "yarp.sources.content": ("json_sha256", "rendered", "without_copies"),
    "yarp.sources.facts": (
        *("Call", "Issue", "Observation", "Rejected", "Result", "Session", "SourceFact"),
    ),
    "yarp.sources.importers": ("Importer", "SourceItem", "SourceOption"),
    "yarp.sources.jsonl": ("JsonlFile", "Line"),
    "yarp.sources.values": ("parse_json",),
    "yarp.sources.walk": ("files_below", "items_below"),
    "yarp.spool.declared": ("Redactor", "SpoolLocation"),
    "yarp.spool.live": ("Cursor", "CursorInvalid", "captures"),
    "yarp.spool.preview": ("Budget", "Preview"),
    "yarp.spool.receipt": (
        *("Accounting", "CaptureState", "Identity", "PreviewFact", "PreviewState"),
        *("ProcessState", "Receipt", "ReferenceState", "Representation", "StreamReceipt"),
    ),
    "yarp.spool.running": ("Running",),
    "yarp.spool.spool": ("Spool",),
    "yarp.spool.whole": ("save_text",),
    "yarp.spooling": ("open_spool",),
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'yarp.plugin' has no attribute {name!r}")
    value: object
    if name == "hostfile":
        from yarp import hostfile

        value = hostfile
    else:
        from yarp import errors, types

        module = next((module for module in (types, errors) if name in vars(module)), None)
        if module is None:
            place = next((place for place, names in _COLD.items() if name in names), None)
            module = __import__(place or "yarp.reduce.families.base", fromlist=("*",))
        value = vars(module)[name]
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:

    @overload
    def hookimpl(function: Hook, /) -> Hook: ...

    @overload
    def hookimpl(
        function: None = None,
        /,
        *,
        specname: str | None = None,
        tryfirst: bool = False,
        trylast: bool = False,
    ) -> Callable[[Hook], Hook]: ...


def hookimpl(
    function: Any = None,
    /,
    *,
    specname: str | None = None,
    tryfirst: bool = False,
    trylast: bool = False,
) -> Any:
    """Mark a function as the implementation of the hook of its name.

    With `specname`, of the hook of that name. `tryfirst` and `trylast` move it within the
    calling order; a declaration needs neither, since the core sorts declarations.
    """

    def mark(implementation: Any) -> Any:
        # What pluggy looks for on a function of project "yarp", set without importing it.
        implementation.yarp_impl = {
            "wrapper": False,
            "hookwrapper": False,
            "optionalhook": False,
            "tryfirst": tryfirst,
            "trylast": trylast,
            "specname": specname,
        }
        return implementation

    return mark if function is None else mark(function)
