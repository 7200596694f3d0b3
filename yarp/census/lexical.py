"""Labels for a shell text that the grammar cannot read: quoted text aside, by patterns."""

from __future__ import annotations

import re

_QUOTED = re.compile(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_MERGES = re.compile(r"\d?>&[\d-]|&>>?|\|&")
_SUBSTITUTIONS = re.compile(r"\$\(|`|[<>]\(")
_START = r"(?:^|[;&|(\n]\s*|\b(?:then|do|else|time)\s+)\s*"
_SHELLS = r"(?:\S*/)?(?:bash|sh|dash|zsh|ksh|ash)"
_PATTERNS = {
    "and_chain": r"&&",
    "or_chain": r"\|\|",
    "pipeline": r"(?<!\|)\|(?!\|)",
    "semicolon": r"(?<!;);(?!;)",
    "multiline": r"\n",
    "comment": r"(?:^|\s)#",
    "background": r"(?<![&>|<])&(?![&>])",
    "control_structure": _START + r"(?:if|for|while|until|case|select|\[\[)(?=\s|$)",
    "shell_function": r"\b\w+\s*\(\)\s*\{|\bfunction\s+\w",
    "subshell_group": _START + r"(?:\((?!\()|\{\s)",
    "nested_shell": _START + r"(?:\w+=\S*\s+)*" + _SHELLS + r"\s+-\w*c\b",
    "path_invocation": _START + r"(?:\w+=\S*\s+)*[\w.~-]*/\S",
    "unsupported_wrapper": _START + r"(?:sudo|xargs|watch|ssh|nohup|eval|source|script|parallel)\b",
}
_COMPILED = {label: re.compile(pattern) for label, pattern in _PATTERNS.items()}
_EXPANSION = re.compile(r"\$(?:\w|[{?#@*!$])")
_REDIRECTION = re.compile(r"[<>]")


def labels(text: str) -> list[str]:
    """The labels of a text, as far as patterns tell."""
    text = text.strip()
    # Double quotes do not keep the shell from expanding.
    expanding = re.sub(r"'[^']*'", "", text)
    bare = _QUOTED.sub('""', text)
    found = [label for label, pattern in _COMPILED.items() if pattern.search(bare)]
    if _EXPANSION.search(expanding):
        found.append("parameter_expansion")
    if _SUBSTITUTIONS.search(expanding):
        found.append("command_substitution")
    if _MERGES.search(bare):
        found.append("stream_merge")
    if _REDIRECTION.search(_MERGES.sub(" ", re.sub(r"[<>]\(", "", bare))):
        found.append("other_redirection")
    return sorted(found)
