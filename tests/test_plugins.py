from __future__ import annotations

import ast
import inspect
import json
import pathlib
import re
import subprocess
import sys
import time

import pluggy
import pytest

import yarp
from yarp import cache, hookspecs, plugin, types
from yarp.errors import PluginError
from yarp.plugins import CALLBACKS, Entry, Plugins, discover, for_call, hook_names
from yarp.settings import Settings
from yarp.types import Host

ROOT = pathlib.Path(__file__).parents[1]
HOST = """
from yarp.plugin import Host, hookimpl

@hookimpl
def yarp_host():
    return Host("NAME", shell_tools={"sh"})
"""


@pytest.fixture
def site(plugin_site, monkeypatch):
    """Made-up plugins, for this process too; no test sees the modules of another."""
    for name in [name for name in sys.modules if name.startswith("yarp_")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(plugin_site.path))
    yield plugin_site
    for name in [name for name in sys.modules if name.startswith("yarp_")]:
        del sys.modules[name]


def load(site, **settings):
    values = Settings()
    for name, value in settings.items():
        setattr(values, name, value)
    return Plugins(discover([str(site.path)]), values)


def yarp_cli(*words, **more):
    return subprocess.run(
        [sys.executable, "-m", "yarp", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
        **more,
    )


# The door


def test_the_door_is_sorted_complete_and_loads_every_name():
    declared = {
        name
        for name, value in vars(types).items()
        if isinstance(value, type) and value.__module__ == "yarp.types"
    } - {"Value"}
    assert plugin.__all__ == sorted(plugin.__all__)
    assert declared <= set(plugin.__all__)
    for name in plugin.__all__:
        assert getattr(plugin, name).__name__.removeprefix("yarp.") == name
    assert set(dir(plugin)) == set(plugin.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Archive'"):
        plugin.Archive  # noqa: B018 - the look-up is the test


def test_types_declare_to_the_checker_what_the_door_gives_at_run_time():
    tree = ast.parse(pathlib.Path(plugin.__file__).read_text())
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("yarp.")
        if node.module != "yarp.reduce.families" or node.names[0].name != "base"
        for alias in node.names
    }
    assert imported | {"hookimpl", "hostfile"} == set(plugin.__all__)


@pytest.mark.parametrize("marked", [plugin.hookimpl, plugin.hookimpl(tryfirst=True)])
def test_our_marker_is_what_pluggy_looks_for(marked):
    def yarp_host():
        return "answer"

    theirs = pluggy.HookimplMarker("yarp")(lambda: None)
    assert set(marked(yarp_host).yarp_impl) == set(theirs.yarp_impl)
    manager = pluggy.PluginManager("yarp")
    manager.add_hookspecs(hookspecs)
    module = type(sys)("yarp_made_up")
    module.yarp_host = yarp_host
    manager.register(module)
    assert manager.hook.yarp_host() == ["answer"]


def test_a_marker_with_a_name_serves_the_hook_of_that_name():
    def anything():
        return "answer"

    assert plugin.hookimpl(specname="yarp_host")(anything).yarp_impl["specname"] == "yarp_host"


# The contract and its documentation


def documented():
    text = (ROOT / "docs" / "reference" / "hooks.md").read_text()
    sections = re.split(r"^### `", text, flags=re.MULTILINE)[1:]
    return {section.split("`", 1)[0]: section.split("`", 1)[1] for section in sections}


def test_hooks_and_their_arguments_are_those_of_the_reference():
    signatures = [
        f"{name}({', '.join(inspect.signature(getattr(hookspecs, name)).parameters)})"
        for name in hook_names()
    ]
    assert signatures == list(documented())


def test_the_reference_and_the_docstring_agree_on_what_is_not_called_yet():
    for signature, section in documented().items():
        doc = inspect.getdoc(getattr(hookspecs, signature.split("(")[0]))
        assert ("Not called yet" in section) == ("Not called yet" in doc), signature
        assert ("Slows every call" in section) == (signature.split("(")[0] in CALLBACKS)


def test_every_example_in_the_reference_is_python_that_names_its_hook():
    for signature, section in documented().items():
        (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
        functions = [node for node in ast.walk(ast.parse(code)) if hasattr(node, "args")]
        assert functions[0].name == signature.split("(")[0]


@pytest.mark.parametrize("hook", hook_names())
def test_every_docstring_says_when_what_none_means_and_what_an_exception_does(hook):
    doc = inspect.getdoc(getattr(hookspecs, hook))
    assert re.search(r"Called (once|after|when)", doc)
    assert re.search(r"None|Answers\s+are\s+ignored", doc)
    assert "xception" in doc or "error" in doc


def test_every_hook_has_a_typed_function_to_ask_it():
    for hook in hook_names():
        name = hook.removeprefix("yarp_")
        assert hasattr(Plugins, {"host": "hosts"}.get(name, name)), hook


def test_the_version_stands_once():
    text = (ROOT / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in text
    assert re.fullmatch(r"\d+\.\d+\.\d+", yarp.__version__)


# Finding


def test_discovery_imports_nothing(site):
    site.install("acme", "raise SystemExit('imported')")
    assert [(one.name, one.module) for one in discover([str(site.path)])] == [("acme", "yarp_acme")]


def test_a_distribution_found_twice_counts_once_where_python_imports_it(site, tmp_path):
    site.install("acme", HOST, version="2.0")
    other = type(site)(tmp_path / "other")
    other.path.mkdir()
    other.install("acme", HOST, version="1.0")
    found = discover([str(site.path), str(other.path)])
    assert [one.version for one in found] == ["2.0"]


def test_what_an_interrupted_uninstall_leaves_is_passed_over(site):
    (site.path / "broken-1.0.dist-info").mkdir()
    (site.path / "broken-1.0.dist-info" / "METADATA").write_text("")
    site.install("acme", HOST)
    assert [one.name for one in discover([str(site.path)])] == ["acme"]


def test_the_current_directory_is_no_place_for_plugins(plugin_site, monkeypatch):
    plugin_site.install("acme", HOST.replace("NAME", "acme"))
    monkeypatch.delenv("PYTHONPATH")
    done = subprocess.run(
        [sys.executable, "-m", "yarp", "plugins", "--json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=plugin_site.path,
    )
    assert "acme" not in [one["name"] for one in json.loads(done.stdout)["plugins"]]


# Order


def test_plugins_are_asked_by_name_whatever_the_order_of_discovery(site):
    for name in ("carol", "alpha", "bravo"):
        site.install(name, HOST.replace("NAME", name))
    assert load(site).order("yarp_host") == ["alpha", "bravo", "carol"]
    assert list(load(site).hosts()) == ["alpha", "bravo", "carol"]


def test_configured_names_come_first_in_their_order(site):
    for name in ("alpha", "bravo", "carol", "delta"):
        site.install(name, HOST.replace("NAME", name))
    loaded = load(site, plugin_order=("delta", "bravo", "zulu"))
    assert loaded.order("yarp_host") == ["delta", "bravo", "alpha", "carol"]
    assert "plugins.order names zulu" in loaded.problems[0]
    assert not loaded.faulty


def test_a_way_of_wrapping_that_there_is_not_is_told(site):
    site.install("alpha", HOST.replace("NAME", "alpha"))
    for wrap, notes in (("always", 0), ("sometimes", 1), (True, 1)):
        loaded = load(site, hosts={"alpha": {"wrap": wrap}})
        loaded.hosts()
        assert len(loaded.problems) == notes
        assert all("hosts.alpha.wrap is none of never" in problem for problem in loaded.problems)


def test_a_key_that_a_host_does_not_know_is_told(site):
    site.install("alpha", HOST.replace("NAME", "alpha"))
    loaded = load(site, hosts={"alpha": {"foo": 1, "wrap": "never"}, "other": {"foo": 1}})
    loaded.hosts()
    unknown, kept = sorted(loaded.problems)
    assert unknown == "hosts.alpha.foo is no key of alpha's; there are: wrap"
    assert kept.endswith("no plugin of that name is installed; it is kept")


def test_yarp_plugins_pins_the_set_and_names_what_is_missing(site, monkeypatch):
    for name in ("alpha", "bravo"):
        site.install(name, HOST.replace("NAME", name))
    monkeypatch.setenv("YARP_PLUGINS", "bravo, zulu")
    loaded = load(site)
    assert list(loaded.hosts()) == ["bravo"]
    assert [one.status for one in loaded.plugins] == ["unpinned", "active"]
    assert "YARP_PLUGINS names zulu" in loaded.problems[0]


# Failing


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("raise RuntimeError('out of order')", "cannot be loaded: RuntimeError: out of order"),
        ("import yarp_missing", "cannot be loaded: ModuleNotFoundError: No module named"),
        ("raise SystemExit(3)", "cannot be loaded: SystemExit: 3"),
        ("this is no python", "cannot be loaded: SyntaxError"),
        (
            HOST.replace("yarp_host", "yarp_hots"),
            "implements yarp_hots, which is no hook; did you mean yarp_host?",
        ),
        (HOST.replace("yarp_host()", "yarp_host(agent)"), "does not fit the hooks"),
        (HOST.replace("@hookimpl", ""), "implements no hook"),
        (HOST.replace("    return Host", "    raise KeyError('x')  #"), "raised in yarp_host"),
        (HOST.replace('Host("NAME", shell_tools={"sh"})', "3"), "gave a int, where a Host belongs"),
        (HOST.replace('"NAME"', '"other"'), "declares the host other; both must have one name"),
        (
            HOST.replace('{"sh"}', '{"sh"}, decode=lambda event: None'),
            "decode must be a function at the top level of a module",
        ),
    ],
    ids=[
        "raises",
        "imports what is missing",
        "exits",
        "is no Python",
        "misspelt hook",
        "unknown argument",
        "forgotten mark",
        "raises in the hook",
        "wrong answer",
        "another name",
        "hidden function",
    ],
)
def test_a_plugin_at_fault_is_one_clear_sentence_and_takes_nothing_else_down(site, code, sentence):
    site.install("acme", code.replace("NAME", "acme"))
    site.install("bravo", HOST.replace("NAME", "bravo"))
    loaded = load(site)
    assert list(loaded.hosts()) == ["bravo"]
    assert len(loaded.problems) == 1
    assert sentence in loaded.problems[0]
    assert loaded.problems[0].startswith("plugin acme")
    assert "\n" not in loaded.problems[0]
    assert [(one.entry.name, one.status) for one in loaded.plugins] == [
        ("acme", "failed"),
        ("bravo", "active"),
    ]
    done = yarp_cli("plugins")
    assert done.returncode == 70
    assert "acme" in done.stdout
    assert loaded.problems[0] in done.stderr
    assert "Traceback" not in done.stderr


def test_two_plugins_of_one_name_are_both_refused(site):
    site.install("acme", HOST.replace("NAME", "acme"))
    site.install("acme", HOST.replace("NAME", "acme"), distribution="other-acme", version="2.0")
    site.install("bravo", HOST.replace("NAME", "bravo"))
    loaded = load(site)
    assert list(loaded.hosts()) == ["bravo"]
    (problem,) = loaded.problems
    assert problem == (
        "plugin acme is provided by other-acme 2.0 and yarp-acme 1.0.0; neither is used: "
        "uninstall all but one"
    )
    done = yarp_cli("plugins")
    assert done.returncode == 70
    assert done.stderr.count("neither is used") == 1


def test_a_failed_part_leaves_the_host_at_work(site):
    packs = "\n@hookimpl\ndef yarp_rule_packs():\n    raise OSError('no rules today')\n"
    site.install("acme", HOST.replace("NAME", "acme") + packs)
    loaded = load(site)
    assert loaded.rule_packs() == []
    assert list(loaded.hosts()) == ["acme"]
    assert "raised in yarp_rule_packs: OSError: no rules today" in loaded.problems[0]
    assert loaded.faulty


# Asking

CALLBACK = """
from yarp.plugin import hookimpl

@hookimpl
def yarp_rewrite_input(call):
    BODY

@hookimpl
def yarp_call_started(call):
    BODY

@hookimpl
def yarp_call_finished(call):
    BODY
"""
CALL = types.CallStarted("session", "call", "sh", {"command": "ls"})
END = types.CallEnded("session", "call", "out", False)


def test_hook_rewrite_input_takes_the_first_answer(site):
    site.install("alpha", CALLBACK.replace("BODY", "return None"))
    site.install("bravo", CALLBACK.replace("BODY", "return 'first ' + call.input['command']"))
    site.install("carol", CALLBACK.replace("BODY", "return 'second'"))
    assert load(site).rewrite_input(CALL) == "first ls"


def test_hook_rewrite_input_without_an_answer_leaves_the_call_alone(site):
    site.install("alpha", CALLBACK.replace("BODY", "return None"))
    assert load(site).rewrite_input(CALL) is None


@pytest.mark.parametrize("body", ["raise KeyError('x')", "return 3"])
def test_hook_rewrite_input_that_fails_blocks_the_call(site, body):
    site.install("alpha", CALLBACK.replace("BODY", body))
    with pytest.raises(PluginError, match=r"alpha raised in yarp_rewrite_input|gave a int"):
        load(site).rewrite_input(CALL)


@pytest.mark.parametrize(("hook", "value"), [("call_started", CALL), ("call_finished", END)])
def test_hook_call_started_and_call_finished_tell_all_whatever_one_raises(site, hook, value, capfd):
    site.install("alpha", CALLBACK.replace("BODY", "print('alpha')"))
    site.install("bravo", CALLBACK.replace("BODY", "raise OSError('full')"))
    site.install("carol", CALLBACK.replace("BODY", "print('carol')"))
    assert getattr(load(site), hook)(value) == [
        f"plugin bravo raised in yarp_{hook}: OSError: full"
    ]
    assert capfd.readouterr() == ("", "alpha\ncarol\n")


def test_a_live_call_loads_the_plugins_that_the_callback_names_and_no_others(site):
    site.install("alpha", CALLBACK.replace("BODY", "return 'rewritten'"))
    site.install("bravo", "raise RuntimeError('not for this call')")
    compiled = cache.Compiled(
        Settings().dump(),
        {},
        {"yarp_rewrite_input": ("alpha",)},
        {"alpha": "yarp_alpha", "bravo": "yarp_bravo"},
        (),
        (),
        (),
        {},
        b"",
    )
    assert for_call(compiled, "yarp_rewrite_input").rewrite_input(CALL) == "rewritten"
    assert for_call(compiled, "yarp_call_started").call_started(CALL) == []
    (site.path / "yarp_alpha.py").write_text("raise RuntimeError('gone bad')")
    del sys.modules["yarp_alpha"]
    with pytest.raises(PluginError, match="gone bad"):
        for_call(compiled, "yarp_rewrite_input")


def test_asking_for_a_callback_scans_nothing_and_reads_no_configuration(plugin_site):
    plugin_site.install("acme", CALLBACK.replace("BODY", "return 'rewritten'"))
    code = (
        "import sys\n"
        "from yarp import cache, types\n"
        "compiled = cache.load()\n"
        "from yarp import plugins\n"
        "call = types.CallStarted('s', 'c', 'sh', {})\n"
        "assert plugins.for_call(compiled, 'yarp_rewrite_input').rewrite_input(call)\n"
        "print(sorted({'yarp.config', 'attrs', 'yarp_acme', 'click'} & set(sys.modules)))\n"
    )
    for _ in range(2):  # the first one compiles
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/"
        )
    assert done.stdout == "['yarp_acme']\n"


NOISE = "import os; print('printed'); os.write(1, b'written'); os.system('echo spawned')"


@pytest.mark.parametrize("place", ["import", "hook", "callback"])
def test_what_plugins_print_goes_to_stderr_by_whatever_way(site, capfd, place):
    noise = {"import": "", "hook": "", "callback": "", place: NOISE}
    site.install(
        "acme",
        f"{noise['import']}\n"
        + HOST.replace("NAME", "acme").replace("    return", f"    {noise['hook']}\n    return")
        + f"\n@hookimpl\ndef yarp_call_started(call):\n    {noise['callback'] or 'pass'}\n",
    )
    loaded = load(site)
    assert list(loaded.hosts()) == ["acme"]
    assert loaded.call_started(CALL) == []
    print("ours")
    found = capfd.readouterr()
    assert found.out == "ours\n"
    assert sorted(found.err.replace("written", "written\n").split()) == [
        "printed", "spawned", "written"
    ]  # fmt: skip


def test_what_a_plugin_prints_past_sys_stdout_is_not_held_back_until_it_is_ours_again(plugin_site):
    plugin_site.install("acme", "import sys\nsys.__stdout__.write('theirs')\n" + HOST)
    done = yarp_cli("plugins", "--json")
    json.loads(done.stdout)
    assert "theirs" in done.stderr


@pytest.mark.parametrize(
    "fault", ["sys.exit(9)", "raise KeyboardInterrupt", "raise GeneratorExit", "sys.exit()"]
)
def test_an_exit_in_a_hook_is_an_exception_of_the_plugin(site, fault, monkeypatch):
    import signal

    monkeypatch.setattr(signal, "getsignal", lambda number: signal.SIG_DFL)
    body = "import sys\nfrom yarp.plugin import hookimpl\n"
    for hook in ("yarp_host()", "yarp_call_started(call)", "yarp_rewrite_input(call)"):
        body += f"@hookimpl\ndef {hook}: {fault}\n"
    site.install("acme", body)
    loaded = load(site)
    (problem,) = loaded.call_started(CALL)
    assert problem.startswith("plugin acme raised in yarp_call_started: ")
    with pytest.raises(PluginError, match="plugin acme raised in yarp_rewrite_input: "):
        loaded.rewrite_input(CALL)
    assert loaded.hosts() == {}
    assert loaded.problems[0].startswith("plugin acme raised in yarp_host: ")


def test_the_interrupt_of_a_user_is_not_a_fault_of_the_plugin(site):
    site.install("acme", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load(site)


EXITS = "from yarp.plugin import hookimpl\n@hookimpl\ndef yarp_host(): raise SystemExit(9)\n"


@pytest.mark.parametrize("code", ["import os\nos._exit(5)", EXITS])
@pytest.mark.parametrize("command", ["plugins", "hooks", "hosts"])
def test_commands_outlive_a_plugin_that_ends_its_process(plugin_site, code, command):
    plugin_site.install("acme", code)
    done = yarp_cli(command)
    assert done.returncode == 70
    assert done.stdout
    assert done.stderr.startswith("yarp: plugin acme ")
    assert done.stderr.count("\n") == 1
    assert yarp_cli("--help").returncode == 0


def test_asking_for_the_plugins_tries_one_again_that_ended_its_process(plugin_site, tmp_path):
    plugin_site.install(
        "acme", f"import os\nif not os.path.exists({str(tmp_path / 'well')!r}): os._exit(5)\n"
        + HOST.replace("NAME", "acme"),
    )  # fmt: skip
    time.sleep(0.03)
    assert yarp_cli("plugins").returncode == 70
    (tmp_path / "well").write_text("")
    assert yarp_cli("hosts").returncode == 70
    assert yarp_cli("plugins").returncode == 0
    assert yarp_cli("hosts").returncode == 0


@pytest.mark.parametrize("verb", ["install", "uninstall"])
def test_what_installing_prints_or_exits_with_is_the_plugins_own(plugin_site, verb):
    code = HOST.replace("NAME", "acme").replace('{"sh"}', '{"sh"}, install=install, uninstall=off')
    body = "def install(scope, dry_run, directory):\n    print('stray')\n    return ['changed']\n"
    body += "def off(scope, dry_run, directory):\n    raise SystemExit(0)\n"
    plugin_site.install("acme", body + code)
    done = yarp_cli(verb, "acme")
    if verb == "install":
        assert (done.stdout, done.stderr, done.returncode) == ("changed\n", "stray\n", 0)
    else:
        sentence = "yarp: plugin acme failed to uninstall: SystemExit: 0\n"
        assert (done.stdout, done.stderr, done.returncode) == ("", sentence, 70)


def test_hook_reducers_are_sorted_by_band_plugin_and_name(site):
    code = """
from yarp.plugin import Band, Reducer, hookimpl

@hookimpl
def yarp_reducers():
    return [
        Reducer("any", band=Band.FALLBACK, make=print),
        Reducer("zz", band=Band.EXACT, serves=["r"], make=print),
        Reducer("aa", band=Band.EXACT, serves=["r"], make=print),
        Reducer("mid", band=Band.FAMILY, serves=["test"], make=print),
    ]
"""
    site.install("bravo", code)
    site.install("alpha", code)
    assert [(name, one.name) for name, one in load(site).reducers()] == [
        ("alpha", "aa"),
        ("alpha", "zz"),
        ("bravo", "aa"),
        ("bravo", "zz"),
        ("alpha", "mid"),
        ("bravo", "mid"),
        ("alpha", "any"),
        ("bravo", "any"),
    ]


def test_a_reducer_whose_code_cannot_be_named_is_left_out_and_said(site):
    code = """
from yarp.plugin import Band, Reducer, hookimpl

@hookimpl
def yarp_reducers():
    make = lambda argv, options: None
    return [
        Reducer("hidden", band=Band.FALLBACK, make=make),
        Reducer("open", band=Band.FALLBACK, make=print),
    ]
"""
    site.install("acme", code)
    plugins = load(site)
    assert [one.name for _, one in plugins.reducers()] == ["open"]
    assert "reducer hidden must be at the top level" in plugins.problems[0]
    assert plugins.plugins[0].status == "active"


def test_hook_rule_packs_of_a_plugin_are_compiled(plugin_site):
    rules = plugin_site.path / "rules"
    rules.mkdir()
    (rules / "acme.toml").write_text(
        '[[rules]]\nid = "acme"\nprograms = ["acmetool"]\naction = "pass"\n'
    )
    plugin_site.install(
        "acme",
        "from yarp.plugin import RulePack, hookimpl\n"
        "@hookimpl\n"
        f"def yarp_rule_packs(): return [RulePack('acme', {str(rules)!r})]\n",
    )
    code = "from yarp import cache\nprint('acmetool' in cache.load().rules['programs'])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/"
    )
    assert done.stdout == "True\n"


@pytest.mark.parametrize(
    ("hook", "code"),
    [
        (
            "importers",
            "Importer('acme', adapter_version=1, options=[], discover=print, read=print)",
        ),
        ("trace_readers", "TraceReader('acme', options=[], detect=bool, project=print)"),
    ],
)
def test_hook_importers_and_trace_readers_of_one_store_are_refused_by_name(site, hook, code):
    module = f"from yarp.plugin import *\n@hookimpl\ndef yarp_{hook}(): return [{code}]\n"
    site.install("alpha", module)
    assert list(getattr(load(site), hook)()) == ["acme"]
    site.install("bravo", module)
    with pytest.raises(PluginError, match="plugins alpha and bravo both serve acme"):
        getattr(load(site), hook)()


def test_hook_redactors_are_chained_in_order_and_a_missing_one_is_an_error(site):
    code = """
from yarp.plugin import Redactor, hookimpl

@hookimpl
def yarp_redactors(policy):
    return [Redactor(policy + "-NAME", window_bytes=1, make=print)]
"""
    for name in ("bravo", "alpha"):
        site.install(name, code.replace("NAME", name))
    assert [one.name for one in load(site).redactors("default")] == [
        "default-alpha",
        "default-bravo",
    ]
    site.install("carol", code.replace("return", "raise OSError('gone')  #"))
    with pytest.raises(PluginError, match="carol raised in yarp_redactors"):
        load(site).redactors("default")


def test_hook_spool_location_takes_the_first_answer(site):
    code = """
from yarp.plugin import SpoolLocation, hookimpl

@hookimpl
def yarp_spool_location(call):
    return SpoolLocation("/NAME") if call.agent == "NAME" else None
"""
    for name in ("alpha", "bravo"):
        site.install(name, code.replace("NAME", name))
    call = types.CallStarted("s", "c", "sh", {}, agent="bravo")
    assert load(site).spool_location(call).directory == "/bravo"
    assert load(site).spool_location(CALL) is None


def test_hook_receipt_published_tells_all(site, capfd):
    site.install(
        "alpha",
        "from yarp.plugin import hookimpl\n"
        "@hookimpl\n"
        "def yarp_receipt_published(receipt): print(receipt.capture_id)\n",
    )
    receipt = plugin.Receipt(
        "c1",
        process=plugin.ProcessState.EXITED,
        capture=plugin.CaptureState.COMPLETE,
        representation=plugin.Representation.BINARY,
    )
    assert load(site).receipt_published(receipt) == []
    assert capfd.readouterr() == ("", "c1\n")


def test_hook_commands_adds_to_the_command_line_and_replaces_nothing(plugin_site):
    plugin_site.install(
        "acme",
        "from yarp.plugin import hookimpl\n"
        "@hookimpl\n"
        "def yarp_commands(cli):\n"
        "    import click\n"
        "    @cli.command('greet')\n"
        "    def greet(): click.echo('hello')\n"
        "    @cli.command('hooks')\n"
        "    def hooks(): click.echo('hijacked')\n",
    )
    assert yarp_cli("greet").stdout == "hello\n"
    assert "greet" in yarp_cli("--help").stdout
    assert "hijacked" not in yarp_cli("hooks").stdout


def test_hook_commands_that_raises_is_said_and_the_help_still_comes(plugin_site):
    plugin_site.install(
        "acme",
        "from yarp.plugin import hookimpl\n"
        "@hookimpl\n"
        "def yarp_commands(cli): raise OSError('no terminal')\n",
    )
    done = yarp_cli("--help")
    assert done.returncode == 0
    assert "Usage" in done.stdout
    assert done.stderr == "yarp: plugin acme raised in yarp_commands: OSError: no terminal\n"


def test_hook_host_gives_one_host_a_plugin(site):
    site.install("acme", HOST.replace("NAME", "acme"))
    assert load(site).hosts() == {"acme": Host("acme", shell_tools={"sh"})}


def test_an_entry_says_itself_by_name_distribution_and_version():
    assert str(Entry("acme", "yarp_acme", "yarp-acme", "1.0")) == "plugin acme (yarp-acme 1.0)"
