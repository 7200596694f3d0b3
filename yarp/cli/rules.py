"""`yarp rules`: which commands are shortened, why or why not, and rules of your own.

Engines are imported inside the commands, so that each pays for itself alone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import rich_click as click
from click.exceptions import Exit

from yarp.cli import text
from yarp.errors import ConfigError, DataError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yarp.packs import Project, Source
    from yarp.reduce.rules.model import Pack, Rule


@click.group("rules")
@text.shows(
    "yarp rules list",
    "yarp rules explain -- git log --stat",
    "yarp rules new acme && yarp rules test acme",
    "yarp rules trust .",
)
def command() -> None:
    """The rules that say which commands are shortened."""


class _Packs:
    """All packs in force here, and what they make together."""

    def __init__(self) -> None:
        from yarp import packs
        from yarp.config import load_config
        from yarp.plugins import Plugins
        from yarp.reduce.rules.load import compile_rules

        settings = load_config().settings()
        plugins = Plugins.load(settings)
        self.sources: list[Source] = packs.installed(plugins, settings)
        self.problems = [source.problem for source in self.sources if source.problem]
        self.project: Project | None = None
        try:
            self.project = packs.project_at(os.getcwd())
        except (ConfigError, OSError) as error:
            self.problems.append(str(error))
        project = self.project
        if project is not None:
            if project.pack is not None:
                source = packs.Source("this project", packs.PROJECT, project.folder, project.pack)
                self.sources.append(source)
            else:
                self.problems.append(_unused(project))
        self.packs: list[Pack] = [one.pack for one in self.sources if one.pack is not None]
        self.rules = compile_rules(self.packs)
        self.conflicts: tuple[str, ...] = self.rules["problems"]

    def all_rules(self) -> Iterator[tuple[Rule, bool]]:
        """Every rule, and whether it is in force; a conflict takes it out."""
        active = {
            (rule["pack"], rule["id"])
            for entry in self.rules["programs"].values()
            for rule in entry["rules"]
        }
        for pack in self.packs:
            for rule in pack.rules:
                yield rule, (rule.pack, rule.id) in active


def _unused(project: Project) -> str:
    why = {
        "untrusted": "not trusted",
        "changed": project.problem or "changed since they were trusted",
    }[project.state]
    return (
        f"{project.folder}: rules of this project are not used: {why}; "
        f"look at them, then run: yarp rules trust '{project.root}'"
    )


@command.command("list")
@text.json_option
@text.shows("yarp rules list", "yarp rules list --json")
def list_command(as_json: bool) -> None:
    """List the rules in force here: the core's, yours, the plugins', a trusted project's.

    Packs that cannot be used and rules that conflict are named on standard error.
    """
    found = _Packs()
    if as_json:
        rows = [
            {
                "pack": rule.pack,
                "rule": rule.id,
                "state": "on" if on else "conflict",
                "action": rule.action,
                "family": rule.family,
                "programs": list(rule.programs),
                "prefix": [list(words) for words in rule.prefix],
                "options": rule.options,
                "examples": len(rule.examples),
                "recorded": sum(example.recorded for example in rule.examples),
            }
            for rule, on in found.all_rules()
        ]
        text.print_json(
            {
                "rules": rows,
                "packs": [_pack_row(source) for source in found.sources],
                "project": None if found.project is None else _project_row(found.project),
                "conflicts": list(found.conflicts),
            }
        )
    else:
        lines = [
            (
                rule.pack,
                rule.id,
                rule.action if on else "off",
                rule.family or "-",
                " ".join([",".join(rule.programs), *("|".join(words) for words in rule.prefix)]),
            )
            for rule, on in found.all_rules()
        ]
        click.echo(text.table(("PACK", "RULE", "ACTION", "FAMILY", "COMMANDS"), lines))
    text.report([*found.problems, *found.conflicts])


def _pack_row(source: Source) -> dict[str, object]:
    return {
        "name": source.name,
        "owner": source.owner,
        "directory": str(source.directory),
        "rules": None if source.pack is None else len(source.pack.rules),
        "problem": source.problem,
    }


def _project_row(project: Project) -> dict[str, object]:
    return {
        "root": project.root,
        "folder": project.folder,
        "state": project.state,
        "problem": project.problem,
    }


@command.command("explain", context_settings={"ignore_unknown_options": True})
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED)
@text.json_option
@text.shows("yarp rules explain -- git log --stat", "yarp rules explain --json -- kubectl get pods")
def explain_command(argv: tuple[str, ...], as_json: bool) -> None:
    """Say which rule a command selects, or why none. Nothing is run.

    Give the command's words after `--`, as a program gets them.
    """
    from yarp import cache
    from yarp.reduce.rules.match import matching, select

    found = _Packs()
    words = list(argv)
    selection = select(words, found.rules)
    fitting = matching(words, found.rules)
    seen = fitting[0][2] if fitting else words
    rows = [
        {
            "pack": rule["pack"],
            "rule": rule["id"],
            "action": rule["action"],
            "guard": None if rule["action"] == "pass" else guard,
        }
        for rule, guard, _ in fitting
    ]
    outcome = _outcome(selection is not None, rows)
    values: dict[str, object] = {"outcome": outcome, "command": seen}
    if selection is not None:
        settings = cache.load().settings
        budgets = {
            "success_bytes": settings.success_bytes,
            "failure_bytes": settings.failure_bytes,
            **selection.options,
        }
        values |= {
            "command": list(selection.argv),
            "pack": selection.pack,
            "rule": selection.rule,
            "family": selection.family,
            "success_bytes": budgets["success_bytes"],
            "failure_bytes": budgets["failure_bytes"],
            "reducers": [who for who, _ in cache.load().candidates(selection)],
        }
    program = os.path.basename(seen[0]) if seen else ""
    off = [
        f"{rule.pack}/{rule.id}"
        for rule, on in found.all_rules()
        if not on and program in rule.programs
    ]
    if as_json:
        text.print_json({**values, "matching": rows, "conflicting": off})
    else:
        for name, value in values.items():
            if value != []:
                shown = " ".join(map(str, value)) if isinstance(value, list) else value
                click.echo(f"{name}: {shown}")
        for row in rows:
            if outcome != "reduce":
                why = f"guarded by {row['guard']}" if row["guard"] else str(row["action"])
                click.echo(f"matching: {row['pack']}/{row['rule']} ({why})")
        for name in off:
            click.echo(f"off, it conflicts: {name}")
    text.report(found.problems)


def _outcome(selected: bool, rows: list[dict[str, Any]]) -> str:
    if selected:
        return "reduce"
    if not rows:
        return "none"
    if any(row["guard"] for row in rows):
        return "guarded"
    free = [row for row in rows if row["action"] != "pass"]
    if len(free) < len(rows):
        return "pass"
    return "ambiguous" if len(free) > 1 else str(free[0]["action"])


@command.command("check")
@click.argument("directory", required=False)
@text.json_option
@text.shows("yarp rules check", "yarp rules check .yarp/rules")
def check_command(directory: str | None, as_json: bool) -> None:
    """Check the format of a folder of rules, its examples' presence, and conflicts with others.

    Without DIRECTORY, the rules of the project here, else your own. Problems end with 65.
    `yarp rules test` runs the examples.
    """
    from yarp import packs
    from yarp.reduce.rules.load import problems

    folder = _folder(directory)
    pack, rules = _with_others(folder)
    found = [*problems(pack), *(note for note in rules["problems"] if f"{pack.name}/" in note)]
    values: dict[str, object] = {
        "pack": pack.name,
        "directory": folder,
        "rules": len(pack.rules),
        "examples": sum(len(rule.examples) for rule in pack.rules),
        "sha256": packs.digest(folder),
    }
    _conclude(values, found, as_json=as_json)


@command.command("test")
@click.argument("what", metavar="[DIR|RULE]", required=False)
@text.json_option
@text.shows("yarp rules test", "yarp rules test .yarp/rules", "yarp rules test git-log")
def test_command(what: str | None, as_json: bool) -> None:
    """Run the examples of rules: each selects its rule, is shortened, keeps its facts.

    All packs in force here; or those of a folder, whether in force or not; or one rule, given
    by its id or as pack/id. Problems end with 65.
    """
    from yarp.reduce.rules.examples import failures

    if what is not None and (os.path.isdir(what) or what.startswith((".", "/"))):
        pack, rules = _with_others(_folder(what))
        tested = [pack]
    else:
        found = _Packs()
        rules = found.rules
        tested = found.packs if what is None else _only(found.packs, what)
    problems = [problem for pack in tested for problem in failures(pack, rules)]
    values: dict[str, object] = {
        "rules": sum(len(pack.rules) for pack in tested),
        "examples": sum(len(rule.examples) for pack in tested for rule in pack.rules),
    }
    _conclude(values, problems, as_json=as_json)


def _only(packs: list[Pack], wanted: str) -> list[Pack]:
    import attrs

    found = [
        attrs.evolve(pack, rules=rules)
        for pack in packs
        if (rules := tuple(r for r in pack.rules if wanted in (r.id, f"{pack.name}/{r.id}")))
    ]
    if not found:
        import difflib

        names = [rule.id for pack in packs for rule in pack.rules]
        near = difflib.get_close_matches(wanted, names, 1)
        hint = f"did you mean {near[0]}?" if near else "see: yarp rules list"
        raise UsageError(f"there is no rule {wanted!r}; {hint}")
    return found


def _conclude(values: dict[str, object], problems: list[str], *, as_json: bool) -> None:
    if as_json:
        text.print_json({"ok": not problems, **values, "problems": problems})
    else:
        for name, value in values.items():
            click.echo(f"{name}: {value}")
        count = len(problems)
        click.echo(f"{count} problem{'s'[: count != 1]}" if count else "ok")
        text.report(problems)
    if problems:
        raise Exit(DataError.exit_code)


def _folder(directory: str | None) -> str:
    """The folder that a command is about."""
    from yarp import packs

    if directory is None:
        project = packs.project_at(os.getcwd())
        directory = packs.user_folder() if project is None else project.folder
    if not os.path.isdir(directory):
        raise DataError(
            f"{directory}: there is no such folder; start one with: yarp rules new NAME"
        )
    inner = os.path.join(directory, ".yarp", "rules")
    return os.path.realpath(inner if os.path.isdir(inner) else directory)


def _with_others(folder: str) -> tuple[Pack, dict[str, Any]]:
    """The pack in a folder, and the compiled rules of it and of all others in force here."""
    from yarp.reduce.rules.load import compile_rules, load_pack

    found = _Packs()
    same = [
        source
        for source in found.sources
        if isinstance(source.directory, str | os.PathLike)
        and os.path.realpath(source.directory) == folder
    ]
    name = same[0].name if same else os.path.basename(folder)
    if not same and name in {pack.name for pack in found.packs}:
        name = f"{name}-here"
    try:
        pack = load_pack(folder, name)
    except ConfigError as error:
        raise DataError(str(error)) from error
    others = [other for other in found.packs if other.name != name]
    return pack, compile_rules([*others, pack])


@command.command("trust")
@click.argument("directory")
@click.option("--revoke", is_flag=True, help="Do not use its rules any more.")
@text.shows("yarp rules trust .", "yarp rules trust --revoke ~/work/acme")
def trust_command(directory: str, revoke: bool) -> None:
    """Use the rules in a project's `.yarp/rules` for commands that run below that project.

    What is trusted are the files as they are now: any change needs this again. A rule cannot
    run anything; it can hide lines of what a command printed, which stay in the archive.
    """
    from yarp import packs

    if revoke:
        path = os.path.realpath(directory)
        folder = os.path.join(path, ".yarp", "rules")
        if not any([packs.distrust(folder), packs.distrust(path)]):
            raise UsageError(f"{directory}: its rules are not trusted")
        click.echo(f"not trusted any more: {path}")
        return
    folder = packs.folder_of(directory)
    sha256, pack = packs.trust(folder)
    click.echo(f"trusted: {folder}")
    click.echo(f"rules: {len(pack.rules)}")
    click.echo(f"sha256: {sha256}")


_NEW = """\
# Which commands of NAME are shortened, and how; the format: docs/reference/rules.md.

[[rules]]
id = "NAME-list"
programs = ["NAME"]
prefix = ["list|ls"]
family = "list"
guards = ["--json", "--output", "-o"]

[[rules.examples]]
command = ["NAME", "list"]
stdout = "examples/NAME-list.stdout"
keep = ["300"]
recorded = false  # made up: put the real output in its place, and the facts that must survive

[[rules.examples]]
command = ["NAME", "list", "--json"]
guard = true
"""


@command.command("new")
@click.argument("name")
@click.argument("directory", required=False)
@text.shows("yarp rules new acme", "yarp rules new acme .yarp/rules")
def new_command(name: str, directory: str | None) -> None:
    """Write a rule for the program NAME to start from, with its examples.

    Into your own folder of rules, or DIRECTORY. Nothing that is there is overwritten.
    """
    from yarp import packs, paths

    if not name or not set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") or name[0] == "-":
        raise UsageError(f"{name!r}: a name is of a-z, 0-9 and -")
    folder = directory or packs.user_folder()
    listing = "".join(f"{name}-item-{number:03}\n" for number in range(300))
    written = {
        os.path.join(folder, f"{name}.toml"): _NEW.replace("NAME", name),
        os.path.join(folder, "examples", f"{name}-list.stdout"): listing,
    }
    for path in written:
        if os.path.lexists(path):
            raise UsageError(f"{path}: is there already")
    if directory is None:
        paths.make_private_dir(folder)
    os.makedirs(os.path.join(folder, "examples"), exist_ok=True)
    for path, content in written.items():
        with open(path, "x", encoding="utf-8") as file:
            file.write(content)
        click.echo(path)
    click.echo(f"next: edit them, then run: yarp rules test {directory or f'{name}-list'}")
