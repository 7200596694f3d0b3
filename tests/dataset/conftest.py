from __future__ import annotations

import importlib.util
import os
import pathlib
import sys

import pytest

from yarp.dataset import indexing


def module(name):
    """Make a module of this folder importable by its name: tests are no package."""
    path = pathlib.Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


Store = module("toy_agent").Store


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


@pytest.fixture
def new_store(tmp_path):
    count = iter(range(1000))
    return lambda: Store(tmp_path / f"store-{next(count)}")


@pytest.fixture
def index_of_any_size(monkeypatch):
    """As if it paid to index the smallest dataset, too."""
    monkeypatch.setattr(indexing, "PAYS_BYTES", 0)


@pytest.fixture(autouse=True)
def umask():
    before = os.umask(0o022)
    yield
    os.umask(before)
