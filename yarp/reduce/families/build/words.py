# ruff: noqa: RUF001 - the marks that tools print
"""The words of build tools: how one says that it ended, that it works, that something is wrong."""

from __future__ import annotations

from yarp.reduce.families.patterns import pattern_of

ERROR, UNSAID, WARNING, NOTE = range(4)

# Severities as compilers say them; gcc and clang speak the user's language.
_ERRORS = (
    "error|errors|fatal error|fatal|internal compiler error|critical|failure|fehler"
    "|schwerwiegender fehler|erreur|erreur fatale|error fatal|errore|erro|fel|fout|virhe|hata|chyba"
    "|błąd|ошибка|фатальная ошибка|错误|致命错误|錯誤|エラー|致命的エラー|오류|치명적 오류"
)
_WARNINGS = (
    "warning|warn|warnung|avertissement|attention|aviso|advertencia|avviso|varning|waarschuwing"
    "|varoitus|uyarı|varování|ostrzeżenie|предупреждение|警告|경고|convention|refactor"
)
_NOTES = (
    "note|info|information|hint|remark|suggestion|anmerkung|nota|附注|备注|注意|附註|備考"
    "|примечание|замечание|uwaga|poznámka|opmerking|알림|참고"
)
SEVERITIES: dict[bytes, int] = {
    word.encode(): severity
    for severity, words in ((ERROR, _ERRORS), (WARNING, _WARNINGS), (NOTE, _NOTES))
    for word in words.split("|")
}

_OUTCOMES = (
    # cargo, rustc
    r" *Finished [`\[\w]|error: (?:could not compile|aborting due to|build failed|test failed)"
    r"|warning: (?:`[^`]+` \([^)]*\) generated|build failed|\d+ warnings? emitted)"
    r"|error: \d+ (?:target|doctest)"
    # totals of compilers, linters, type checkers, formatters
    r"|(?:Found|Checked|Formatted|Fixed) (?:an?|no|\d+) |Success: no issues|All checks passed"
    r"|\s*\d+ (?:errors?|warnings?|problems?|issues?|informations?)\b(?:[ ,.:;(!]|$)"
    r"|\* [\w-]+: \d+$"
    r"|\d+ files? (?:inspected|would|already|reformatted|left|changed|are|is)\b|All done!|Oh no!"
    r"|(?:✖|✔|✓|✗|×) \d+ |\s?(?:✖|✔|✓|✗) (?:[Bb]uil[dt]|Compiled|Generating|Finalizing|No )"
    r"|\[warn\] Code style|\[error\] Code style|All matched files use|Code style issues"
    r"|Error occurred when checking code style"
    r"|Your code has been rated|\[\*\] \d+ |No fixes available|ParseError: "
    r"|The command (?:was )?(?:failed|exited)|Command failed|command failed"
    # tests between other tools
    r"|(?:=+ )?\d+ (?:passed|failed|skipped|xfailed|errors?)\b.* in [\d.]+s"
    # workflows
    r"|##\[error\]"
    # coverage
    r"|All files +\|"
    # documentation: sphinx, mkdocs
    r"|build (?:succeeded|finished with problems)\b|Aborted with \d+ |INFO +-  Documentation built"
    # linkers, make, ninja, cmake
    r"|collect2: |(?:\S*clang\S*|\S*ld): error: linker |cc1\w*: "
    r"|\S*make(?:\.exe)?(?:\[\d+\])?: (?:\*\*\*|Nothing|[`'‘]|No targets|.*is up to date)"
    r"|ninja: (?:build stopped|no work|error|fatal)|FAILED: Build did"
    r"|-- (?:Configuring incomplete|Configuring done|Generating done|Build files have)"
    # bundlers
    r"|webpack [\d.]+ compiled|webpack compiled|⚡ Done|created .* in [\d.]+m?s"
    r"|Failed to compile|Compiled (?:successfully|with)|Build (?:succeeded|FAILED|failed|complete)"
    r"|Build (?:did|optimization) |> Build error|\(!\) "
    # maven, gradle, dotnet, bazel, swift
    r"|\[(?:INFO|ERROR|WARNING)\] (?:\d+ errors?|\d+ warnings?|BUILD |Tests run:(?!.*Time elapsed)"
    r"|Total time"
    r"|Reactor Summary)"
    r"|\[ERROR\] Failed to execute goal|BUILD (?:SUCCESSFUL|FAILED)"
    r"|\[(?:INFO|ERROR)\] .* (?:SUCCESS|FAILURE|SKIPPED) \["
    r"|FAILURE: |\d+ actionable tasks?:|\d+ tests? completed\b"
    r"|> Task \S+ FAILED|Execution failed for"
    r"|    \d+ (?:Error|Warning)\(s\)|Time Elapsed|Determining projects|  \d+ of \d+ projects"
    r"|INFO: Build completed|ERROR: Build (?:failed|did)|Executed \d+ out of"
    r"|Target //\S+ (?:failed|up)"
    r"|//\S+ +(?:FAILED|TIMEOUT|NO STATUS|FLAKY)|INFO: Elapsed time"
    # script runners
    r"|npm (?:error|ERR!) (?:code|[Ll]ifecycle|path|command|workspace|[Mm]issing script|E[A-Z]+)"
    r"|\s*(?:ERR_PNPM|ELIFECYCLE)|error Command failed|error: script "
    r"|error Couldn't find a script"
    # tox, nox, pre-commit
    r"|  [\w.,-]+: (?:OK|FAIL|SKIP|commands |exit |ERROR)|  congratulations|  evaluation failed"
    r"|nox > (?:\* |Session \S+ (?:failed|was successful|interrupted|skipped|raised)|Error:)"
    r"|[\w.,-]+: (?:exit \d|FAIL )|[^.\n]{1,80}\.{3,}(?:\([^)]*\))?(?:Failed|Error)$"
    r"|- (?:hook id|exit code|files were modified)"
    # installers
    r"|(?:Resolved|Prepared|Installed|Uninstalled|Audited|Built|Bytecode compiled) \d+ "
    r"|Package operations: |No dependencies to |Would (?:install|make)"
)
OUTCOME = pattern_of(rb"(?:" + _OUTCOMES.encode() + rb")")

# What says that work is going on. The group names the kind, or what stands in its place.
_NOISES = (
    r"\s*(Compiling|Checking|Downloaded|Downloading|Fresh|Updating|Locking|Adding|Blocking|Building"
    r"|Documenting|Packaging|Dirty|Running|Generating|Scanning|Linking|Fetching|Resolving"
    r"|Collecting|Copying|Preparing|Analyzing|Loading|Using|Uploading|Installing|Transforming"
    r"|Unpacking|Consolidate|Built target|Creating|Caching|Restoring|Processing|Migrating)\b"
    r"(?!.*\b(?:failed|[Ee]rror:))"
    r"|\[ *\d+(?:/\d+|%)\] |-- |\s*\[[=>. -]*\] |\S*make\[?\d*\]?: (?:Entering|Leaving) "
    r"|\[INFO\](?! (?:Building (?:jar|war)|Installing): )|\[DEBUG\]|> Task "
    r"|(?:INFO|DEBUG) +-  |(?:reading sources|writing output|copying [a-z ]+|checking consistency"
    r"|looking for now-outdated files|preparing documents|dumping [a-z ]+|generating indices"
    r"|highlighting module code|writing additional pages|pickling environment)(?:\.\.\.|\b.*done$)"
    r"|> Configure |INFO: |DEBUG: "
    r"|  (?:CC|CXX|LD|AR|GEN|CCLD|CXXLD|HOSTCC|AS|INSTALL|OBJCOPY|UPD|MKDIR|HOSTLD|LDS|DTC) +\S"
    r"|(?:\S*/)?(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|ar|ranlib|ld|rm|mkdir|cp|mv|install|touch|ln"
    r"|rustc|strip|as|libtool|g?cc-\d+|g\+\+-\d+) +[-\w./]"
    r"|transforming|rendering chunks|computing gzip|\*{4,} Module |For more information about"
    r"|Some errors have detailed|=+ ?$|\w+ ━━━━━|-{5,}$|(?:[-\\|/]|⠋|⠙|⠹|⠸|⠼|⠴|⠦|⠧|⠇|⠏) ?$|Passed$"
    r"|[^.\n]{1,80}\.{3,}(?:\([^)]*\))?(?:Passed|Skipped)$|- duration: "
    r"|\* (?:Try|Get more help)|> Run with --|Run with --|Checking formatting"
    r"|  - (?:Installing|Downloading) |.*\[built\] \[code generated\]"
    r"|(?:runtime|cacheable|orphan) modules "
    r"|> \S+@\S+ \S+$|> [a-z]|\$ \S|//\S+ +(?:\(cached\) )?PASSED\b|yarn run v|nox > "
    r"|##\[(?:group|endgroup|command|debug|section)\]|\[command\]|PASS \S|\s+[✓√○] \S"
    r"|hint: |Compilation error\.|\s*[\w./\[\]-]+ *(?:\| +[\d.]+ *){3,}\||-+(?:\|-+){3,}"
    r"|Errors  Files$| {4,}\d+  \S+:\d+$"
)
NOISE = pattern_of(rb"(?:" + _NOISES.encode() + rb")")

# Maven's advice looks like errors.
ADVICE = pattern_of(
    rb"\[ERROR\] *(?:$|-> \[Help|To see the full|Re-run Maven|For more information|\[Help"
    rb"|COMPILATION ERROR|After correcting)"
)

# Files that a formatter would change, packages that an installer changed: kind, name.
LISTED = pattern_of(
    rb"(?:(would reformat|Would reformat:|reformatted|\[warn\]|Would format|would fix) (?=\S+$)"
    rb"| ([-+~]) (?=[\w.\[\]-]+(?:==| @ ))"
    rb"|  - (Installing|Updating|Removing|Downgrading) (?=\S+ \()"
    rb"|-- (Installing|Up-to-date): )(\S.*)$"
)
# What was produced: a file and its size.
PRODUCED = pattern_of(
    r"\[INFO\] (?:Building (?:jar|war)|Installing)(?=: )"
    r"|(?:asset |\s+)?(?:(?:┌|├|└) (?:○|●|ƒ|λ) )?(\S+) +([\d.]+) ?([bB]|bytes|[kKMG]i?[bB])"
    r"\b".encode()
)

# One alternation over a window: what may matter of a long output.
WAKE = (
    rb"(?i:err|warn|fail|fatal|undefined|cannot|can't|not found|denied|exception|traceback"
    rb"|panic|abort|unable|missing|reformat|unused|deprecat|fehler|erreur|timed out|killed)"
    rb"|[A-Za-z]:[0-9]+:[0-9]|\.[A-Za-z]+:[0-9]+: |[a-z]\([0-9]+,[0-9]+\)|--> |\*\*\* |: OK"
    rb"|\xe9\x94\x99\xe8\xaf\xaf|\xe8\xad\xa6\xe5\x91\x8a|\xe3\x82\xa8\xe3\x83\xa9\xe3\x83\xbc"
    rb"|\xd0\xbe\xd1\x88\xd0\xb8\xd0\xb1|\xec\x98\xa4\xeb\xa5\x98|\xe2\x9c[\x93-\x98]|\xe2\x95\xad"
    rb"|Finished|BUILD |compiled|built in|uccess|Tests run|asset "
)
# The same where a stream has had its share: only what says that something failed.
LATE = rb"(?i:error|fatal|failed)[:\[ ]|FAILED|\*\*\* |Traceback"
_WRONG = pattern_of(
    rb"(?i)error|fail|fatal|exception|panic|abort|denied|undefined|cannot |can't |not found|missing"
    rb"|unable|refused|timed out|killed|fehler|erreur|no such|invalid|unexpected|conflict"
    rb"|\xe9\x94\x99\xe8\xaf\xaf|\xe5\xa4\xb1\xe8\xb4\xa5|\xe5\xa4\xb1\xe6\x95\x97"
    rb"|\xe3\x82\xa8\xe3\x83\xa9\xe3\x83\xbc|\xd0\xbe\xd1\x88\xd0\xb8\xd0\xb1\xd0\xba"
)


def looks_wrong(line: bytes) -> bool:
    """Whether a line of free text speaks of trouble."""
    return _WRONG.search(line) is not None
