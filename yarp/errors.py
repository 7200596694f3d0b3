"""Every error YARP raises on purpose, and the exit status each one ends with.

YarpError                     70  a fault of YARP
  PluginError                 70  a plugin failed to load, or raised in a hook
  UsageError                  64  the call's words are off
    ConfigError               64  the configuration cannot be used
  DataError                   65  what was named is missing, malformed or damaged
    ReferenceUnknown          65  no call, source or range of that name
    ArchiveCorrupt            65  the archive holds bytes that do not match their digest
    ArchiveVersionUnsupported 65  the archive was written by a newer or a foreign program
    CallConflict              65  the same call again, with other facts
  StorageError                74  reading or writing failed
    ArchiveUnavailable        74  the archive cannot be opened or written
    PermissionsTooOpen        74  others could read what must be private
    FrameError                74  the peer's frames are broken
  NothingFound                 1  a search that worked and found nothing
  NotWrapped                   3  a command that YARP leaves as it is

A message says which thing, what was found, and what to do; it never holds payload content.
Only the command line catches YarpError.
"""


class YarpError(Exception):
    """Base of every error YARP raises on purpose."""

    exit_code = 70


class PluginError(YarpError):
    """A plugin failed to load, or raised in a hook."""


class UsageError(YarpError):
    """The call's words are off."""

    exit_code = 64


class ConfigError(UsageError):
    """The configuration cannot be used."""


class DataError(YarpError):
    """What was named is missing, malformed or damaged."""

    exit_code = 65


class ReferenceUnknown(DataError):
    """No call, source or range of that name."""


class ArchiveCorrupt(DataError):
    """The archive holds bytes that do not match their digest."""


class ArchiveVersionUnsupported(DataError):
    """The archive was written by a newer or a foreign program."""


class CallConflict(DataError):
    """The same call again, with other facts."""


class StorageError(YarpError):
    """Reading or writing failed."""

    exit_code = 74


class ArchiveUnavailable(StorageError):
    """The archive cannot be opened or written."""


class PermissionsTooOpen(StorageError):
    """Others could read what must be private."""


class FrameError(StorageError):
    """The peer's frames are broken; nothing after them can be trusted."""


class NothingFound(YarpError):
    """A search that worked and found nothing."""

    exit_code = 1


class NotWrapped(YarpError):
    """A command that YARP leaves as it is."""

    exit_code = 3
