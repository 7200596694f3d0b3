"""Lists of packages and reports of coverage."""

import pytest

from yarp.reduce.families.base import Status
from yarp.reduce.families.table import Family


def told(command, text):
    family = Family(tuple(command.split()), {})
    family.feed(0, text.encode())
    pieces = family.finish(Status(0))
    return None if pieces is None else [piece.text.decode() for piece in pieces]


def test_every_package_is_named_with_its_version():
    rows = [f"package-{n:<20} {n}.0.{n}" for n in range(60)]
    lines = told("pip list", "Package   Version\n--------- -------\n" + "\n".join(rows) + "\n")
    assert lines[0] == "60 packages"
    assert all(f"package-{n} {n}.0.{n}" in ", ".join(lines[1:]) for n in range(60))


def test_what_is_newer_stands_with_each_outdated_package():
    rows = [f"package-{n} 1.{n} 2.{n} wheel" for n in range(30)]
    lines = told("pip list --outdated", "Package Version Latest Type\n" + "\n".join(rows) + "\n")
    assert lines[0] == "30 packages"
    assert all(f"package-{n} 1.{n} 2.{n} wheel" in ", ".join(lines[1:]) for n in range(30))


def test_packages_that_are_held_or_half_installed_stand_apart():
    rows = [f"ii  lib{n}  1.{n}  amd64  text" for n in range(40)]
    rows[17] = "hi  kernel  6.1  amd64  text"
    rows[23] = "iF  broken  0.9  amd64  text"
    lines = told("dpkg -l", "\n".join(rows) + "\n")
    assert lines[0] == "40 packages: ii 38, hi 1, iF 1"
    assert "kernel 6.1 (hi)" in lines
    assert "broken 0.9 (iF)" in lines


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("pip list", "Package Version\nalpha 1.0\nERROR\n"),
        ("dpkg -l", "ii  git  1:2.39  amd64  text\ndpkg-query: kein Paket gefunden\n"),
        ("apt list", "git/stable 1.0 amd64 [installed]\nN: There is 1 additional version.\n"),
    ],
)
def test_a_line_of_another_form_leaves_all_exact(command, text):
    assert told(command, text) is None


def test_the_least_covered_files_come_first_and_the_sum_stays():
    rows = [f"src/part{n}.py      100     {n}    {100 - n}%   1-{n}" for n in range(40)]
    report = (
        "Name   Stmts   Miss  Cover   Missing\n-----------------------------\n"
        + "\n".join(rows)
        + "\n-----------------------------\nTOTAL    4000    780    80%\n\n"
        + "Coverage failure: total of 80 is less than fail-under=90\n"
    )
    lines = told("coverage report -m", report)
    assert lines[0] == "40 files: 1 at 100%, 0 below 50%"
    assert lines[2].startswith("src/part39.py  100  39  61%")
    assert lines[-2].startswith("TOTAL")
    assert lines[-1] == "Coverage failure: total of 80 is less than fail-under=90"
