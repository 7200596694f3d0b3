from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

from yarp.testing import live
from yarp.testing.files import neighbour


class Model(live.ScriptedModel):
    base = "/v1"

    def answer(self, path, body):
        self.requests.append(body)
        word, turn = self.turn(body["said"], body["number"])
        return live.EVENTS, live.events([{"type": path, "word": word, "turn": turn}])


@pytest.fixture
def model():
    started = Model({"SHOP": [["first"], ["second"]], "OTHER": [["third"]]})
    yield started
    started.close()


def ask(model, *said, number=0):
    body = json.dumps({"said": said, "number": number}).encode()
    with urllib.request.urlopen(f"{model.url}/chat", body) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        name, data = answer.read().decode().strip().split("\n")
    assert name == "event: /v1/chat"
    found = json.loads(data.removeprefix("data: "))
    return found["word"], found["turn"]


def test_a_scripted_model_replays_the_turns_of_the_first_word_that_is_said(model):
    assert ask(model, "hello", "the SHOP and the OTHER") == ("SHOP", ["first"])
    assert ask(model, "the SHOP", number=1) == ask(model, "the SHOP", number=1)
    assert ask(model, "the SHOP", number=1) == ("SHOP", ["second"])
    assert ask(model, "the SHOP", number=2) == ("SHOP", None)
    assert ask(model, "neither") == (None, None)
    assert [body["number"] for body in model.requests] == [0, 1, 1, 1, 2, 0]
    with urllib.request.urlopen(f"{model.url}/models") as answer:
        assert json.load(answer)["data"] == []


def test_an_agent_that_is_there_is_not_installed_again(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("YARP_TEST_AGENTS", str(tmp_path))
    programs = tmp_path / "acme-1" / "node_modules" / ".bin"
    programs.mkdir(parents=True)
    (programs / "acme").touch()
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho no registry >&2\nexit 1\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = live.from_npm("acme-1", "acme", "@acme/acme@1", factory=tmp_path_factory)
    assert found == tmp_path / "acme-1"
    with pytest.raises(pytest.skip.Exception, match="npm cannot install acme-2: no registry"):
        live.from_npm("acme-2", "acme", "@acme/acme@2", factory=tmp_path_factory)
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(pytest.skip.Exception, match="npm is not installed"):
        live.from_npm("acme-1", "acme", "@acme/acme@1", factory=tmp_path_factory)


def test_a_file_beside_a_test_is_loaded_anew(tmp_path):
    (tmp_path / "helper.py").write_text("COUNTS = []\n")
    first = neighbour(str(Path(tmp_path) / "test_it.py"), "helper")
    first.COUNTS.append(1)
    assert neighbour(str(tmp_path / "test_it.py"), "helper").COUNTS == []
