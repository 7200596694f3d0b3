"""Why a shell result stays as it is: its class, and a family that names no content.

Only names from the tables here and from the rules are ever told; what a text says itself never
is. Source: rust-YARP's ceiling report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yarp.reduce.plan import plain_argv
from yarp.reduce.rules.match import launched, matching

if TYPE_CHECKING:
    from typing import Any

    from yarp.census.syntax import Syntax
    from yarp.reduce.plan import Plan

EXISTING, REQUIRED, CANDIDATE, UNCLEAR = (
    "existing_rule",
    "required_pass_through",
    "review_candidate",
    "unclear",
)
_GROUPS = {
    "exact inspection": (
        "cat sed head tail nl less more bat awk gawk cut tr sort uniq wc xxd od hexdump strings "
        "stat file echo printf date pwd which type command env printenv whoami id uname test cmp "
        "basename dirname realpath readlink md5sum sha1sum sha256sum base64 comm column"
    ),
    "structured data": "jq yq xmllint sqlite3 duckdb",
    "mutation": (
        "rm mv cp mkdir rmdir touch chmod chown ln tee patch dd install truncate kill pkill "
        "killall cd export sleep true false"
    ),
    "network": "curl wget ssh scp rsync nc ping dig nslookup host telnet sftp ftp",
}
_REQUIRED = {name: group for group, names in _GROUPS.items() for name in names.split()}
_OWN_CODE = frozenset(
    ("python", "python3", "node", "ruby", "perl", "deno", "php", "lua", "java", "Rscript")
)
_TOO_DEEP = 3


class Kind:
    """The class and family of a command text, and the reducer to look at for a candidate."""

    __slots__ = ("family", "name", "outcome", "reducer")

    def __init__(self, outcome: str, name: str, family: str, reducer: str = "") -> None:
        self.outcome = outcome
        self.name = name
        self.family = family
        self.reducer = reducer


def kind_of(
    text: str | None, planned: Plan | None, syntax: Syntax | None, rules: dict[str, Any]
) -> Kind:
    """What is known of a command text; all None: a shell tool whose input holds none.

    `outcome` is `eligible`, or why no rule was selected: `passthrough`, `ambiguous`,
    `unsupported`, `recovery`, `no_command`.
    """
    if text is None or planned is None or syntax is None:
        return Kind("no_command", UNCLEAR, "no command text")
    if planned.recovery:
        return Kind("recovery", REQUIRED, "an answer of YARP's own")
    if planned.selection is not None:
        return Kind("eligible", EXISTING, f"existing/{planned.selection.rule}")
    argv = plain_argv(text)
    if argv is None:
        labels = "+".join(syntax.labels[:_TOO_DEEP])
        return Kind("unsupported", REQUIRED, f"unsupported syntax/{labels}")
    matched = matching(argv, rules)
    guards = sorted({str(rule["id"]) for rule, guard, _ in matched if guard is not None})
    if guards:
        return Kind("passthrough", REQUIRED, f"guarded/{'+'.join(guards[:_TOO_DEEP])}")
    if len(matched) > 1:
        ids = sorted(str(rule["id"]) for rule, _, _ in matched)
        return Kind("ambiguous", UNCLEAR, f"ambiguous/{'+'.join(ids[:_TOO_DEEP])}")
    program, _ = launched(argv, rules)
    group = _REQUIRED.get(program)
    if group is not None:
        return Kind("passthrough", REQUIRED, f"{group}/{program}")
    if program in _OWN_CODE:
        return Kind("passthrough", UNCLEAR, "the user's own code")
    entry = rules["programs"].get(program)
    if entry is not None and entry["rules"]:
        families = sorted({str(rule["family"]) for rule in entry["rules"] if rule["family"]})
        return Kind("passthrough", CANDIDATE, f"subcommand/{program}", "+".join(families[:3]))
    return Kind("passthrough", UNCLEAR, "another program")
