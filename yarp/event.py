"""One event of a host: its JSON, and the exact bytes to archive of any part of it.

Source: spec "Archive", Payloads.
"""

from __future__ import annotations

import os

from yarp import canonical, payload
from yarp.errors import DataError, FrameError, StorageError
from yarp.types import CallEnded, CallStarted

MAX_BYTES = 256 << 20
_READ_BYTES = 1 << 20
_IDS = ("source_session_id", "source_call_id")
_NAMES = ("tool_name", "provider", "model")


class Event:
    """What a host sent: `members` is the parsed object.

    `json` is imported only for what the canonical form cannot say.
    """

    __slots__ = ("_is_exact", "_text", "members")

    def __init__(self, data: bytes | bytearray) -> None:
        """Raises DataError for what is no JSON object."""
        # Whether the members hold all that the text says.
        self._is_exact = True
        try:
            self._text = data.decode()
            members = self._parsed()
        except (ValueError, FrameError) as error:
            raise DataError(f"the event is no JSON ({type(error).__name__})") from None
        if not isinstance(members, dict):
            raise DataError("the event is no JSON object")
        self.members: dict[str, object] = members

    @classmethod
    def read(cls, descriptor: int) -> Event:
        """The event that comes through `descriptor`, up to its end. StorageError: too long."""
        data = bytearray()
        too_long = False
        while chunk := os.read(descriptor, _READ_BYTES):
            too_long = too_long or len(data) + len(chunk) > MAX_BYTES
            if not too_long:
                data += chunk
        if too_long:
            raise StorageError(f"an event of more than {MAX_BYTES} bytes is not taken")
        return cls(data)

    def canonical(self, value: object) -> bytes:
        """The canonical bytes of a part of the event, or the host's own text of it."""
        if self._is_exact:
            try:
                return canonical.encode(value)
            except canonical.NotCanonical:
                pass
        import json

        for name, member in self.members.items():
            if member is value and isinstance(value, dict | list | str):
                from yarp.ingest.frames import members_with_text

                exact = members_with_text(self._text.encode(), (name,))[name]
                return bytes(exact.canonical())
        return canonical.encode_text(json.dumps(value))

    def _parsed(self) -> object:
        try:
            return canonical.parse(self._text)
        except canonical.NotCanonical:
            import json

            self._is_exact = False
            try:
                return json.loads(self._text)
            except RecursionError:
                return self._without_depths()

    def _without_depths(self) -> dict[str, object]:
        """The members; one that is nested too deeply to be read is an empty object."""
        from yarp.ingest.frames import members_with_text

        members: dict[str, object] = {}
        for name, member in members_with_text(self._text.encode(), _Everything()).items():
            unread = member.value is None and member.text.strip() != "null"
            members[name] = {} if unread else member.value
        return members


class _Everything:
    def __contains__(self, _: object) -> bool:
        return True


def to_json(value: object) -> bytes:
    """A value as JSON, whatever the host had put into it."""
    try:
        return canonical.encode(value)
    except canonical.NotCanonical:  # a number or a letter that RFC 8785 cannot hold
        import json

        return json.dumps(value).encode()


def name_well(call: CallStarted | CallEnded) -> None:
    """Make columns of what a host calls things: UTF-8 has no lone surrogates."""
    start = call if isinstance(call, CallStarted) else call.start
    for one, names in ((call, _IDS), (start, _NAMES)):
        for name in names if one is not None else ():
            value = getattr(one, name)
            if isinstance(value, str) and not value.isascii():
                setattr(one, name, payload.utf8(value).decode())
