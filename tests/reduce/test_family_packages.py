from yarp.reduce.families.base import Status
from yarp.reduce.families.status import Family


def said(command, stdout, exit_code=0):
    family = Family(tuple(command.split()), {})
    family.feed(0, stdout.encode())
    return [piece.text.decode() for piece in family.finish(Status(exit_code))]


def test_a_tree_names_what_each_root_depends_on_itself():
    tree = "shop@1.0.0 /srv/app\n├─┬ a@1.0.0\n│ └── b@2.0.0\n└── c@3.0.0\n"
    assert said("npm ls", tree) == [
        "shop@1.0.0 /srv/app: 2 direct",
        "  a@1.0.0 c@3.0.0",
        "(and 1 deeper lines)",
    ]


def test_what_is_missing_in_a_tree_is_said_as_it_stands():
    tree = "shop@1.0.0 /srv/app\n├── UNMET DEPENDENCY a@^1\n└── UNMET OPTIONAL DEPENDENCY b@1\n"
    shown = said("npm ls", tree, exit_code=1)
    assert "├── UNMET DEPENDENCY a@^1" in shown
    assert not any("├── UNMET OPTIONAL" in line for line in shown)


def test_the_roots_of_a_workspace_keep_their_versions():
    tree = "shop-a v0.1.0 (/srv/app/a)\n└── shop-b v0.2.0 (/srv/app/b)\n\nshop-b v0.2.0 (*)\n"
    assert said("cargo tree", tree) == [
        "shop-a v0.1.0 (/srv/app/a): 1 direct",
        "  shop-b@0.2.0",
        "shop-b v0.2.0 (*)",
    ]


def test_an_outdated_package_says_what_is_wanted_where_that_is_neither():
    table = "Package  Current  Wanted  Latest  Location  Depended by\n"
    table += "a  1.0.0  1.0.9  2.0.0  node_modules/a  shop\nb  1.0.0  1.0.0  3.0.0  x  shop\n"
    assert said("npm outdated", table, exit_code=1) == [
        "2 packages are outdated:",
        "a 1.0.0 -> 2.0.0 (wanted 1.0.9), b 1.0.0 -> 3.0.0",
    ]


def test_advice_in_another_language_stays_beside_the_packages_that_were_added():
    text = "Packages: +2\n++\nWARN  veraltet: request@2\ndependencies:\n+ a 1.0.0\n+ b 2.0.0 (3.0.0 is available)\n"
    shown = said("pnpm install", text)
    assert "WARN  veraltet: request@2" in shown
    assert "+ a 1.0.0, b 2.0.0" in shown


def test_an_audit_says_each_package_with_its_severity_and_the_totals_of_npm():
    report = "# npm audit report\n\na  <2\nSeverity: high\nA is wrong - https://x.example/1\n"
    report += "fix available via `npm audit fix`\nnode_modules/a\n  b  *\n  Depends on vulnerable"
    report += " versions of a\n\n2 vulnerabilities (1 moderate, 1 high)\n"
    shown = said("npm audit", report, exit_code=1)
    assert shown[0] == (
        "a <2 (high): A is wrong - https://x.example/1; fix available via `npm audit fix`"
    )
    assert "2 vulnerabilities (1 moderate, 1 high)" in shown


def test_the_usage_below_an_error_of_npm_is_left_out():
    text = "npm error code EUSAGE\nnpm error Missing: a@1 from lock file\nnpm error Usage:\n"
    text += "npm error npm ci\nnpm error   --omit\nnpm error A complete log of this run can be"
    text += " found in: /tmp/x.log\n"
    shown = said("npm ci", text, exit_code=1)
    assert "npm error Missing: a@1 from lock file" in shown
    assert not any("--omit" in line for line in shown)
    assert any("/tmp/x.log" in line for line in shown)


def test_what_was_not_read_of_a_very_long_output_is_counted_as_at_least():
    tree = "shop@1.0.0 /srv/app\n" + "├── package-with-a-long-name@1.0.0\n│ └── b@2.0.0\n" * 40_000
    shown = said("npm ls", tree)
    assert any("shop@1.0.0 /srv/app: at least " in line for line in shown)
    table = "Package  Current  Wanted  Latest  Location  Depended by\n"
    table += "a  1.0.0  1.0.0  2.0.0  node_modules/a/long/path  shop\n" * 40_000
    assert any(line.startswith("at least ") for line in said("npm outdated", table, exit_code=1))
    files = "src/some/long/name.ts 12ms\nsrc/other.ts 1ms (unchanged)\n" * 40_000
    assert any(line.startswith("at least ") for line in said("prettier --write src", files))


def test_every_step_of_a_workflow_that_failed_is_named_and_its_error_is_shown():
    from yarp.reduce.families.build import Family as Build

    family = Build(("gh", "run", "view", "7", "--log"), {"success_bytes": 4096})
    log = "".join(
        f"test {n}\tRun tests\t2026-11-20T09:14:00.0000000Z {text}\n"
        for n in range(3)
        for text in ("##[group]Run x", "src/a.ts(3,1): error TS1: wrong", "##[error]Exit 1.")
    )
    family.feed(0, log.encode())
    shown = b"\n".join(piece.text for piece in family.finish(Status(0))).decode()
    assert "steps that failed (3): test 0 / Run tests; test 1 / Run tests; test 2" in shown
    assert "src/a.ts(3,1): error TS1: wrong" in shown
    assert "##[error]Exit 1." in shown


def test_a_workflow_that_passed_is_no_failure():
    from yarp.reduce.families.build import Family as Build

    family = Build(("gh", "run", "view", "7", "--log"), {"success_bytes": 4096})
    line = "test\tRun\t2026-11-20T09:14:00.0000000Z %s\n"
    family.feed(0, (line % "✓ built in 2s" + line % "##[group]Complete").encode())
    shown = b"\n".join(piece.text for piece in family.finish(Status(0))).decode()
    assert "built in 2s" in shown
    assert "failed" not in shown
