"""What holds for the tests of the core and of all plugins."""

import contextlib
import marshal
import os
import subprocess

import pytest
from hypothesis import HealthCheck, settings

from yarp import cache

# How long an example takes says how busy the machine is, not whether the code is right.
_PROFILE = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("yarp", **_PROFILE, max_examples=40)
settings.register_profile("thorough", **_PROFILE, max_examples=200)


def pytest_configure(config):
    """Whoever asks for the slow tests gets more examples of the others, too."""
    thorough = config.getoption("markexpr") != "not slow"
    settings.load_profile("thorough" if thorough else "yarp")


class Precompiled:
    """What the first call in a home without configuration compiles, made once for all homes.

    Each would take half a second for it. A home where anything else holds, a configuration or
    a plugin of its own, compiles as ever; tests/test_cache.py is about that.
    """

    def __init__(self, root):
        directories = {f"XDG_{name.upper()}_HOME": str(root / name) for name in ("config", "cache")}
        environment = {**os.environ, **directories}
        environment.pop("YARP_PLUGINS", None)
        subprocess.run([*cache.interpreter(), "-m", "yarp.compile"], env=environment, check=True)
        self.configuration = str(root / "config")
        self.caches = str(root / "cache")
        # None when something that it is made from changed just now.
        self.values = None
        for file in root.glob("cache/yarp/compiled-*"):
            self.values = marshal.loads(file.read_bytes()[16:])

    def put(self, configuration, caches):
        """Put it into the directory `caches` for the directory `configuration`, both of XDG.

        Gives the path of the file, if there is one.
        """
        if self.values is None:
            return None

        def moved(path):
            below = isinstance(path, str) and path.startswith(self.configuration + "/")
            return str(configuration) + path[len(self.configuration) :] if below else path

        key, stamps, *rest = self.values
        key = tuple(moved(part) for part in key)
        stamps = tuple((moved(path), stamp) for path, stamp in stamps)
        body = marshal.dumps((key, stamps, *rest))
        directory = os.path.join(caches, "yarp")
        os.makedirs(directory, 0o700, exist_ok=True)
        path = os.path.join(directory, os.path.basename(cache.file(key)))
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(cache._MAGIC + cache._imp.source_hash(cache._HASH_KEY, body) + body)
        return path


@pytest.fixture(scope="session")
def precompiled(tmp_path_factory):
    return Precompiled(tmp_path_factory.mktemp("precompiled"))


@pytest.fixture
def yarp_home(yarp_home, precompiled, monkeypatch):
    """A home of its own, as if one call without a configuration had been made there.

    Its cache lies outside, with those of the other homes: there is nothing in it yet.
    """
    monkeypatch.setenv("XDG_CACHE_HOME", precompiled.caches)
    path = precompiled.put(yarp_home / "config", precompiled.caches)
    yield yarp_home
    if path is not None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
