"""What plugins declare for spooling: redactors, and where spools go."""

from __future__ import annotations

from yarp.types import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

JOB_BYTES = 32 << 20
CONVERSATION_BYTES = 128 << 20


class Redactor(Value):
    """Takes secrets out of a stream before anything of it is kept.

    `make()` gives one object for one stream, with

    - `feed(chunk: bytes) -> bytes`: the next bytes, valid UTF-8 that ends between code points;
      what may be kept of them and of what was held back before;
    - `finish() -> bytes`: the rest, at the end of the stream;
    - `held: int`: how many bytes it holds back now, because it cannot decide about them yet.

    Any chunking of the same stream gives the same bytes. It holds at most `window_bytes`; past
    them, or past the 64 KiB that all redactors of a stream have together, what is held and the
    rest of its line are left out, a marker says so, and a new object goes on with the next line.
    `bounded`: it cannot hold more, whatever comes, and is not watched; that is faster. Source:
    seed 004, "Capture before eviction".
    """

    __slots__ = ("bounded", "make", "name", "window_bytes")

    def __init__(
        self, name: str, *, window_bytes: int, make: Callable[[], object], bounded: bool = False
    ) -> None:
        self.name = name
        self.window_bytes = window_bytes
        self.make = make
        self.bounded = bounded


class SpoolLocation(Value):
    """Where the spools of a call go, and how much they may hold.

    `directory` is absolute and is created with mode 0700. `conversation` is the directory of the
    conversation that owns it, at or above `directory`: references in receipts are relative to
    it, and no link is followed below it; None: `directory` itself, and no link is followed at
    all. The quotas count retained bytes: of one job's streams together, and of the whole
    directory. Source: seed 004, "Capture before eviction" and "Namespace, permissions and
    access".
    """

    __slots__ = ("conversation", "conversation_bytes", "directory", "job_bytes")
    _shown = "directory"

    def __init__(
        self,
        directory: str,
        *,
        conversation: str | None = None,
        job_bytes: int = JOB_BYTES,
        conversation_bytes: int = CONVERSATION_BYTES,
    ) -> None:
        self.directory = directory
        self.conversation = conversation
        self.job_bytes = job_bytes
        self.conversation_bytes = conversation_bytes
