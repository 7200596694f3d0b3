"""A rule as its TOML file states it, checked and frozen."""

import attrs

ACTIONS = ("reduce", "transform", "pass")


@attrs.frozen
class Example:
    """A recorded or synthetic output, and what its summary must and must not say.

    `guard` marks one that must select nothing. `stdout` and `stderr` are bytes; None stands for
    an empty stream. `recorded` is False for output that was written by hand.
    """

    command: tuple[str, ...]
    guard: bool = False
    exit_status: int = 0
    stdout: bytes | None = None
    stderr: bytes | None = None
    keep: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    recorded: bool = True


@attrs.frozen
class Rule:
    """What a command must look like, and which family shortens its output.

    `prefix` holds the alternatives of each leading word. `values` are options that take a value,
    `flags` those that take none and must not be mistaken for the abbreviation of a guard.
    `options` holds only the budgets that the rule sets itself, in bytes and percent, and as
    `progress` the streams that hold progress, where the rule says so: 1 stdout, 2 stderr, 3 both.
    """

    pack: str
    id: str
    file: str
    programs: tuple[str, ...]
    action: str
    family: str | None = None
    prefix: tuple[tuple[str, ...], ...] = ()
    required: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    passes_on: bool = False
    options: dict[str, int] = attrs.field(factory=dict)
    examples: tuple[Example, ...] = ()


@attrs.frozen
class Program:
    """Options that stand before a program's subcommand, and guards for all of its rules."""

    name: str
    flags: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    versioned: bool = False


@attrs.frozen
class Launcher:
    """A program that starts another one: `uv run`, `npx`, `timeout 5`.

    `starts` limits which ones (`pnpm vitest` is a launch, `pnpm install` is not); empty is any.
    """

    program: str
    prefix: tuple[tuple[str, ...], ...] = ()
    flags: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    operands: int = 0
    assignments: bool = False
    starts: tuple[str, ...] = ()


@attrs.frozen
class Pack:
    """The rules of one directory of TOML files; `name` is who they belong to."""

    name: str
    rules: tuple[Rule, ...]
    programs: tuple[Program, ...] = ()
    launchers: tuple[Launcher, ...] = ()
