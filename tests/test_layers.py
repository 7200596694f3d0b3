"""Who may import whom, and that the core knows no agent; read from the source, not by running it."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
LAYERS = [
    {"errors", "types", "settings"},
    {
        "argv",
        "paths",
        "tokens",
        "canonical",
        "payload",
        "sqlite",
        "config",
        "sources",
        "shell",
        "cache",
        "jsontext",
        "hostfile",
        "wholefile",
    },
    {"archive", "spool", "reduce", "recover", "dataset", "index"},
    {"foreign", "hookspecs", "plugins", "plugin", "packs", "compile"},
    {"capture", "record", "spooling", "rescue", "runner", "ingest", "census", "usage"}
    | {"past"}
    | {"hook", "event", "shorten", "runs"},
    {"testing"},
    {"cli"},
    {"__main__", "scripts"},
]
ENGINES = LAYERS[2]
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
ALLOWED = {
    # When no child can be started to compile a stale cache, the process does it itself.
    ("yarp.cache", "yarp.compile"),
    # The door opens on what plugins may use, wherever it stands, when it is asked for.
    ("yarp.plugin", "yarp.spooling"),
}
# "cursor" alone may be a database's or a stream's.
AGENTS = re.compile(
    r"(?i)(?<![a-z])(pi|codex|claude|gptme|cursor[-_]agent|yarp[-_]cursor)(?![a-z])"
)


def modules(*patterns):
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(source):
    """Every module that the source imports, wherever the statement stands; "" names dropped."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            if node.module == "yarp":
                yield from (f"yarp.{alias.name}" for alias in node.names)
            else:
                yield node.module


def upward(module, source):
    """The imports of a core module that its layer does not allow."""
    own = module.split(".")[1] if "." in module else None
    for imported in imports(source):
        parts = imported.split(".")
        if parts[0] != "yarp" or parts[1:] == ["__version__"] or len(parts) == 1:
            continue
        if own is None:
            yield imported
        elif parts[1] == own or (module, ".".join(parts[:2])) in ALLOWED:
            continue
        elif LEVEL[parts[1]] > LEVEL[own] or {own, parts[1]} <= ENGINES:
            yield imported


def reaching_in(package, source):
    """The imports with which a plugin reaches past the door or into another plugin."""
    for imported in imports(source):
        top = imported.split(".")[0]
        if (top == "yarp" and imported != "yarp.plugin") or (
            top.startswith("yarp_") and top != package
        ):
            yield imported


def agents(source):
    """The identifiers and string literals, documentation apart, that name an agent."""
    tree = ast.parse(source)
    documentation = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        for field in ("id", "attr", "arg", "name", "asname", "module"):
            value = getattr(node, field, None)
            if isinstance(value, str) and AGENTS.search(value):
                yield value
        if (
            isinstance(node, ast.Constant)
            and id(node) not in documentation
            and AGENTS.search(node.value if isinstance(node.value, str) else "")
        ):
            yield node.value


CORE = modules("yarp/**/*.py")
PLUGINS = modules("plugins/*/yarp_*/**/*.py", "examples/*/yarp_*/**/*.py")


@pytest.mark.parametrize("path", CORE, ids=name_of)
def test_a_module_of_the_core_imports_only_from_below(path):
    assert list(upward(name_of(path), path.read_text())) == []


@pytest.mark.parametrize("path", CORE, ids=name_of)
def test_the_core_names_no_agent(path):
    assert list(agents(path.read_text())) == []


@pytest.mark.parametrize("path", PLUGINS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_plugin_imports_from_the_core_only_its_door(path):
    package = next(part for part in path.relative_to(ROOT).parts if part.startswith("yarp_"))
    assert list(reaching_in(package, path.read_text())) == []


def test_every_part_of_the_core_has_a_layer():
    found = {name_of(path).split(".")[1] for path in CORE if "." in name_of(path)}
    assert found <= set(LEVEL)


def test_the_guard_sees_what_it_guards_against():
    assert list(upward("yarp.paths", "from yarp.archive.write import Archive"))
    assert list(upward("yarp.archive.write", "def f():\n    import yarp.plugins"))
    assert list(upward("yarp.archive.write", "from yarp import runner"))
    assert list(upward("yarp.reduce.engine", "from yarp.spool import stream"))
    assert list(upward("yarp", "import yarp.errors"))
    assert not list(upward("yarp.runner", "from yarp.reduce.engine import Reduction"))
    assert not list(upward("yarp.reduce.engine", "from yarp.reduce import cap, marker"))
    assert list(reaching_in("yarp_acme", "import yarp.archive"))
    assert list(reaching_in("yarp_acme", "from yarp import archive"))
    assert list(reaching_in("yarp_acme", "from yarp_other import decode"))
    assert not list(reaching_in("yarp_acme", "from yarp.plugin import Host\nimport yarp_acme.x"))


def test_the_guard_sees_an_agent_by_any_way_of_naming_it():
    assert list(agents("x = {'codex': 1}"))
    assert list(agents("def pi(): pass"))
    assert list(agents("def f(claude_path=None): pass"))
    assert list(agents("gptme = 3"))
    assert list(agents("x = f'run {y} in Claude'"))
    assert list(agents("import yarp_cursor"))
    assert not list(
        agents('"""As Pi does."""\ncursor = connection.cursor()\npiece = "pip install"')
    )
