"""HostSuite: what every host plugin must hold to, whoever wrote it.

    from yarp.testing.host import HostSuite

    class TestAcme(HostSuite):
        plugin = "acme"

        @pytest.fixture
        def exchange(self):
            return [{"kind": "begin", ...}, {"kind": "end", ...}]

A part that the host does not declare is skipped by name, never passed over.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from yarp.archive.read import Reader
from yarp.plugins import HOST_CALLABLES
from yarp.testing.light import HEAVY, loaded_by
from yarp.testing.suite import PluginSuite
from yarp.types import CallEnded, CallStarted, Decision, Health, Host, Probe

if TYPE_CHECKING:
    from pathlib import Path

    from yarp.plugins import Plugins

_UNKNOWN = "yarp-no-such-thing"
_REASON = "the archive cannot be written"
_SHORT = "yarp: a shorter text"


class HostSuite(PluginSuite):
    """Inherit it as `Test<Name>`, set `plugin`, give `exchange`."""

    @pytest.fixture
    def exchange(self) -> list[dict[str, Any]]:
        """The host's own events for one call, from its start to its end, in order."""
        raise NotImplementedError(
            "give a fixture `exchange`: the list of events, as parsed JSON, that the host sends "
            "for one call from its start to its end"
        )

    @pytest.fixture
    def prepared_home(self, yarp_home: Path) -> Path:
        """A home in which the host can be installed; override it to lay out what it needs."""
        return yarp_home

    @pytest.fixture
    def host(self, loaded: Plugins) -> Host:
        """What the plugin declares."""
        hosts = loaded.hosts()
        assert not loaded.problems, loaded.problems
        if not hosts:
            pytest.skip(f"{self.plugin} declares no host")
        return hosts[self.plugin]

    def _part(self, host: Host, part: str) -> Any:
        function = getattr(host, part)
        if function is None:
            pytest.skip(f"{self.plugin} declares no {part}")
        return function

    def _decoded(self, host: Host, event: dict[str, Any]) -> list[CallStarted | CallEnded]:
        answer = self._part(host, "decode")(event)
        found = list(answer) if isinstance(answer, tuple) else [] if answer is None else [answer]
        for one in found:
            assert isinstance(one, CallStarted | CallEnded), f"decode gave a {type(one).__name__}"
        return found

    # The declaration

    def test_the_plugin_loads_and_its_hooks_fit(self, loaded: Plugins) -> None:
        """It imports, implements only hooks there are, at least one, and declares well."""
        loaded.hosts()
        assert not loaded.problems, loaded.problems

    def test_the_host_has_the_name_of_the_entry_point(self, host: Host) -> None:
        """Sessions and entry point go by one name."""
        assert host.name == self.plugin

    def test_the_declaration_can_be_cached(self, host: Host) -> None:
        """Its values are plain, so that a call can read them without importing anything."""
        assert all(isinstance(tool, str) and tool for tool in host.shell_tools)
        assert all(isinstance(key, str) and key for key in host.shell_tools.values())
        assert host.shell is None or isinstance(host.shell, str)
        assert isinstance(host.keeps_shell_state, bool)

    def test_what_it_withholds_is_said_in_sentences(self, host: Host) -> None:
        """`yarp hosts show` prints them one below the other."""
        for sentence in host.withholds:
            assert sentence[:1].isupper() or sentence.split()[0] == host.name, sentence
            assert sentence.endswith("."), sentence
            assert "\n" not in sentence, sentence

    def test_importing_it_stays_light(self, host: Host, loaded: Plugins) -> None:
        """Neither the package nor the modules of its live code load what a call cannot afford."""
        live = [getattr(host, part) for part in ("decode", "reply") if getattr(host, part)]
        modules = [loaded.plugins[0].entry.module.partition(":")[0]]
        modules += [function.__module__ for function in live]
        added = loaded_by("\n".join(f"import {module}" for module in dict.fromkeys(modules)))
        assert not added & HEAVY, f"importing {', '.join(modules)} loads {sorted(added & HEAVY)}"

    # Events

    def test_an_exchange_is_one_start_and_one_end_of_one_call(
        self, host: Host, request: pytest.FixtureRequest
    ) -> None:
        """The archive joins them by session and call id."""
        self._part(host, "decode")
        exchange = request.getfixturevalue("exchange")
        assert exchange, "the exchange is empty"
        found = [one for event in exchange for one in self._decoded(host, event)]
        starts = [one for one in found if isinstance(one, CallStarted)]
        ends = [one for one in found if isinstance(one, CallEnded)]
        assert (len(starts), len(ends)) == (1, 1)
        assert starts[0].source_session_id == ends[0].source_session_id
        assert starts[0].source_call_id == ends[0].source_call_id
        for one in found:
            assert isinstance(one.source_session_id, str)
            assert one.source_session_id
            assert isinstance(one.source_call_id, str)
            assert one.source_call_id
        assert isinstance(starts[0].tool_name, str)
        assert starts[0].tool_name
        assert isinstance(ends[0].is_error, bool)
        json.dumps([starts[0].input, ends[0].result])

    def test_decoding_is_repeatable_and_leaves_the_event_alone(
        self, host: Host, request: pytest.FixtureRequest
    ) -> None:
        """The core archives the event's own input after it was decoded."""
        self._part(host, "decode")
        for event in request.getfixturevalue("exchange"):
            before = json.dumps(event, sort_keys=True)
            first = self._decoded(host, event)
            assert json.dumps(event, sort_keys=True) == before
            assert self._decoded(host, event) == first

    def test_an_event_it_does_not_know_is_declined(
        self, host: Host, request: pytest.FixtureRequest
    ) -> None:
        """A host that learns new events must not break on them."""
        self._part(host, "decode")
        unknown: list[dict[str, Any]] = [{}, {_UNKNOWN: _UNKNOWN}]
        unknown += [
            {key: _UNKNOWN if isinstance(value, str) else value for key, value in event.items()}
            for event in request.getfixturevalue("exchange")
        ]
        for event in unknown:
            assert self._decoded(host, event) == [], event

    def test_replies_are_json_and_nothing_is_said_without_a_decision(
        self, host: Host, request: pytest.FixtureRequest
    ) -> None:
        """A host reads one JSON value or none."""
        reply = self._part(host, "reply")
        for event in request.getfixturevalue("exchange"):
            assert reply(event, Decision()) in (None, {})
            json.dumps(reply(event, Decision(blocked=_REASON)))

    def test_a_call_that_cannot_be_archived_is_refused_with_the_reason(
        self, host: Host, request: pytest.FixtureRequest
    ) -> None:
        """Where the host lets a hook refuse at all."""
        reply = self._part(host, "reply")
        starts = [
            event
            for event in request.getfixturevalue("exchange")
            if any(isinstance(one, CallStarted) for one in self._decoded(host, event))
        ]
        for event in starts:
            said = reply(event, Decision(blocked=_REASON))
            if said is None:
                pytest.skip(f"{self.plugin} has no word for it")
            assert _REASON in json.dumps(said)

    def test_a_shorter_text_takes_the_place_of_the_hosts_own(
        self, host: Host, request: pytest.FixtureRequest
    ) -> None:
        """In the tool's own shape, and in what the host is told."""
        replace, reply = self._part(host, "replace"), self._part(host, "reply")
        texts = 0
        for event in request.getfixturevalue("exchange"):
            for one in self._decoded(host, event):
                if not isinstance(one, CallEnded) or one.text is None:
                    continue
                texts += 1
                before = json.dumps(event, sort_keys=True)
                result = replace(event, _SHORT)
                assert json.dumps(event, sort_keys=True) == before
                assert _SHORT in json.dumps(result), "the text is not in the result"
                said = reply(event, Decision(content=_SHORT, result=result))
                assert _SHORT in json.dumps(said), "the host is not told"
        if not texts:
            pytest.skip("no result of the exchange has a text that could be replaced")

    def test_an_exchange_that_yarp_hook_serves_is_one_call(
        self,
        host: Host,
        yarp_home: Path,
        monkeypatch: pytest.MonkeyPatch,
        request: pytest.FixtureRequest,
    ) -> None:
        """Whole processes, each event twice: two may serve one call."""
        self._part(host, "decode")
        monkeypatch.setenv("YARP_PLUGINS", self.plugin)
        for event in request.getfixturevalue("exchange"):
            for _ in range(2):
                done = subprocess.run(
                    [sys.executable, "-m", "yarp", "hook", self.plugin],
                    input=json.dumps(event).encode(),
                    capture_output=True,
                    check=False,
                )
                said = done.stderr.decode()
                assert (done.returncode, said) == (0, ""), said
                assert not done.stdout or json.loads(done.stdout) is not None
        reader = Reader.open(str(yarp_home / "data" / "yarp" / "tool-calls.sqlite3"))
        (call,) = reader.calls()
        kept = reader.snapshot(call.call_id, "result", "after")
        reader.close()
        assert (call.agent, call.status, call.executed) == (self.plugin, "finished", True)
        assert kept is not None

    # Installation

    def test_health_answers_in_an_empty_home(self, host: Host, yarp_home: Path) -> None:  # noqa: ARG002 - asked for its effect
        """`yarp hosts` asks every host, installed or not."""
        health = self._part(host, "health")(None)
        assert isinstance(health, Health)
        assert health.hooked_in is not True, "nothing is hooked in here"

    def test_a_dry_run_says_what_it_would_do_and_changes_nothing(
        self, host: Host, prepared_home: Path
    ) -> None:
        """`yarp install HOST --dry-run`."""
        install = self._part(host, "install")
        before = _tree(prepared_home)
        assert install("user", True, str(prepared_home)), "a dry run must say what it would do"
        assert _tree(prepared_home) == before

    def test_installing_twice_is_installing_once(self, host: Host, prepared_home: Path) -> None:
        """And uninstalling twice likewise."""
        install, uninstall = self._part(host, "install"), self._part(host, "uninstall")
        install("user", False, str(prepared_home))
        once = _tree(prepared_home)
        install("user", False, str(prepared_home))
        assert _tree(prepared_home) == once
        uninstall("user", False, str(prepared_home))
        gone = _tree(prepared_home)
        assert gone != once
        uninstall("user", False, str(prepared_home))
        assert _tree(prepared_home) == gone

    def test_uninstalling_gives_every_file_its_bytes_back(
        self, host: Host, prepared_home: Path
    ) -> None:
        """Nothing of ours stays, and nothing of theirs goes."""
        install, uninstall = self._part(host, "install"), self._part(host, "uninstall")
        before = {path: data for path, data in _tree(prepared_home).items() if data is not None}
        install("user", False, str(prepared_home))
        uninstall("user", False, str(prepared_home))
        after = {path: data for path, data in _tree(prepared_home).items() if data is not None}
        assert after == before

    def test_its_hooks_can_be_tried(self, host: Host, prepared_home: Path) -> None:
        """`yarp doctor` starts them as the host would."""
        install, probe = self._part(host, "install"), self._part(host, "probe")
        assert list(probe(str(prepared_home))) == [], "nothing is hooked in here"
        install("user", False, str(prepared_home))
        probes = probe(str(prepared_home))
        assert probes, "a hook that is in place can be tried"
        for one in probes:
            assert isinstance(one, Probe)
            assert one.words
            assert all(isinstance(word, str) for word in one.words)
            assert os.path.exists(one.where), one.where
            json.dumps(one.event)
            kinds = [type(told) for told in self._decoded(host, one.event)]
            assert kinds == [CallStarted], "the event must come before a call"

    def test_every_callable_is_at_the_top_level_of_a_module(self, host: Host) -> None:
        """The cache names them as `module:qualname`."""
        for part in HOST_CALLABLES:
            function = getattr(host, part)
            assert function is None or "<" not in function.__qualname__, part


def _tree(root: Path) -> dict[str, bytes | str | None]:
    """Every file below `root` with its content, caches apart."""
    found: dict[str, bytes | str | None] = {}
    for directory, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in ("__pycache__", "cache")]
        for name in folders + files:
            path = os.path.join(directory, name)
            if os.path.islink(path):
                found[path] = os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    found[path] = file.read()
            else:
                found[path] = None
    return found
