"""The validated configuration as the hot lane reads it: one plain value, no parser.

`yarp.config` makes it from the TOML file; the compiled cache carries it.
"""


class Settings:
    """What a command needs to know of the configuration; the defaults are the documented ones.

    Byte and line counts are plain numbers; `archive_path` is None for the default location.
    """

    __slots__ = (
        "archive_enabled",
        "archive_path",
        "failure_bytes",
        "hosts",
        "minimum_savings_bytes",
        "minimum_savings_percent",
        "output_cap_bytes",
        "plugin_order",
        "pruning_enabled",
        "recovery_cap_bytes",
        "recovery_cap_lines",
        "rule_packs",
        "success_bytes",
    )

    def __init__(self) -> None:
        self.pruning_enabled: bool = True
        self.output_cap_bytes: int = 5120
        self.recovery_cap_bytes: int = 32768
        self.recovery_cap_lines: int = 1900
        self.success_bytes: int = 1024
        self.failure_bytes: int = 4096
        self.minimum_savings_bytes: int = 256
        self.minimum_savings_percent: int = 15
        self.archive_enabled: bool = True
        self.archive_path: str | None = None
        self.rule_packs: tuple[str, ...] = ()
        self.plugin_order: tuple[str, ...] = ()
        self.hosts: dict[str, dict[str, object]] = {}

    def dump(self) -> dict[str, object]:
        """The settings as values `marshal` can carry."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def restore(cls, values: dict[str, object]) -> "Settings":
        """The inverse of `dump`."""
        settings = cls()
        for name, value in values.items():
            setattr(settings, name, value)
        return settings
