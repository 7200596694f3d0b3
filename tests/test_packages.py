"""The packages as a user gets them: wheels in a fresh environment, far from the checkout."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sysconfig
import venv

ROOT = pathlib.Path(__file__).parents[1]


class Environment:
    """A fresh virtual environment; what YARP depends on is lent by the one that runs the tests."""

    def __init__(self, path):
        self.path = path
        self.home = path / "home"
        self.home.mkdir(parents=True, mode=0o700)
        venv.create(path / "venv", with_pip=True)
        self.bin = path / "venv" / "bin"
        lent = path / "lent"
        lent.mkdir()
        for entry in pathlib.Path(sysconfig.get_path("purelib")).iterdir():
            if "yarp" not in entry.name and entry.suffix != ".pth":
                (lent / entry.name).symlink_to(entry)
        (site,) = (path / "venv" / "lib").glob("python*/site-packages")
        (site / "lent.pth").write_text(f"{lent}\n")

    def run(self, *words, cwd=None):
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("YARP_", "XDG_", "PYTHON", "PYTEST_", "COV_"))
        }
        return subprocess.run(
            [str(self.bin / words[0]), *words[1:]],
            cwd=cwd or self.home,
            env=environment | {"HOME": str(self.home)},
            capture_output=True,
            text=True,
            check=False,
        )

    def install(self, *folders):
        done = self.run(
            "python",
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--quiet",
            "--no-index",
            "--no-deps",
            "--no-build-isolation",
            *map(str, folders),
        )
        assert done.returncode == 0, done.stderr

    def json(self, *words):
        done = self.run("yarp", *words, "--json")
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout)


def test_installed_packages_find_each_other_far_from_the_checkout(tmp_path):
    # One test: the environment is dear, and each step builds on the one before.
    one = Environment(tmp_path)
    one.install(ROOT, ROOT / "plugins" / "pi")
    core_and_one_host_list_just_those(one)
    what_the_core_needs_rides_in_the_wheel(one)
    a_third_party_joins_them(one)
    a_new_plugin_starts_from_the_installed_template(one)


def core_and_one_host_list_just_those(one):
    assert [plugin["name"] for plugin in one.json("plugins")["plugins"]] == ["pi"]
    assert [host["name"] for host in one.json("hosts")["hosts"]] == ["pi"]
    implementations = [
        (implementation["hook"], implementation["plugin"])
        for hook in one.json("hooks")["hooks"]
        for implementation in hook["implementations"]
    ]
    assert ("yarp_host", "pi") in implementations
    assert {plugin for _, plugin in implementations} == {"pi"}


def a_third_party_joins_them(one):
    one.install(ROOT / "examples" / "yarp-acme")
    plugins = one.json("plugins")["plugins"]
    assert [(plugin["name"], plugin["status"]) for plugin in plugins] == [
        ("acme", "active"),
        ("pi", "active"),
    ]
    (host_hook,) = one.json("hooks", "host")["hooks"]
    assert [found["where"].split(":")[0] for found in host_hook["implementations"]] == [
        "yarp_acme/__init__.py",
        "yarp_pi/__init__.py",
    ]
    listed = [line.split()[:2] for line in one.run("yarp", "hooks").stdout.splitlines()]
    assert ["yarp_host", "acme"] in listed


def what_the_core_needs_rides_in_the_wheel(one):
    assert one.run("yarp", "--version").stdout == "yarp 1.0.0\n"
    ran = one.run("yarp", "run", "--", "echo", "hello")
    assert (ran.returncode, ran.stdout) == (0, "hello\n"), ran.stderr
    verified = one.run("yarp", "archive", "verify")
    assert verified.returncode == 0, verified.stderr
    code = "from yarp import cache\nprint('pytest' in cache.load().rules['programs'])"
    assert one.run("python", "-c", code).stdout == "True\n"


def a_new_plugin_starts_from_the_installed_template(one):
    made = one.run("yarp", "plugins", "new", "acme-zeta")
    assert made.returncode == 0, made.stderr
    folder = one.home / "yarp-acme-zeta"
    one.install(folder)
    assert "acme-zeta" in [plugin["name"] for plugin in one.json("plugins")["plugins"]]
    tested = one.run("python", "-m", "pytest", "-q", "-rs", str(folder))
    assert tested.returncode == 0, tested.stdout
    assert "passed" in tested.stdout
    again = one.run("yarp", "plugins", "new", "acme-zeta")
    assert (again.returncode, again.stdout) == (64, "")
    assert "exists already" in again.stderr


def test_the_example_host_stays_small():
    folder = ROOT / "examples" / "yarp-acme"
    lines = [
        line
        for path in (folder / "pyproject.toml", *folder.glob("*/*.py"))
        for line in path.read_text().splitlines()
    ]
    assert len(lines) < 60


def test_every_package_of_the_workspace_bounds_the_core():
    for path in (*ROOT.glob("plugins/*/pyproject.toml"), *ROOT.glob("examples/*/pyproject.toml")):
        assert '"yarp-core>=1.0,<2"' in path.read_text(), path
