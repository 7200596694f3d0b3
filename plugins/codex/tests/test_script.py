"""Which scripts of code mode only show an output, and which read it."""

from __future__ import annotations

import pytest

from yarp_codex.script import only_shows

RUN = "await tools.exec_command({cmd: \"git status; echo 'x'\", yield_time_ms: 1000})"
SHOWS = [
    f"text({RUN});",
    f"const r = {RUN};\ntext(r);",
    f"const r = {RUN};\ntext(r.output);",
    f"// look\nconst r = {RUN}; /* then */ text(r.output.trim());",
    f"const r = {RUN}; text(JSON.stringify(r));",
    f"const r = {RUN}; text(`${{r.exit_code}}\\n${{r.output}}`);",
    f"const [a, b] = await Promise.all([{RUN}, {RUN}]);\ntext(JSON.stringify({{a, b}}));",
    f"const results = await Promise.all([{RUN}]); for (const r of results) {{ text(r.output); }}",
    f"const results = await Promise.all([{RUN}]); results.forEach(r => text(r.output));",
    f'const all = await Promise.all([{RUN}]); text(all.map((r) => r.output).join("\\n---\\n"));',
    f"const all = await Promise.all([{RUN}]); text(all[0].output); text(all[1]?.output ?? 'none');",
    f"const r = {RUN}; if (r.exit_code !== 0) {{ text(r.output); }} else {{ text('fine'); }}",
    f"const r = {RUN}; text(r.output.slice(0, 4000));",
    'const cmds = ["a", "b"]; for (const cmd of cmds) { const r = await tools.exec_command({cmd}); text(r); }',
    "const run = async (cmd) => text((await tools.exec_command({cmd})).output); await run('pytest -q');",
    f"try {{ text({RUN}); }} catch (e) {{ text('no'); }}",
    "text(await tools.exec_command({cmd: `cd sub && pytest -q`}));",
    f"const rs = [{RUN}]; for (let i = 0; i < rs.length; i++) {{ text(rs[0]); }}",
    "text(await tools.exec_command({cmd: 'a', yield_time_ms: 5 * 1000}));",
    "text('JSON.parse(output) === 1 / 2');",
]
READS = [
    f"const r = {RUN}; const d = JSON.parse(r.output); text(d.name);",
    f"const r = {RUN}; text(JSON.parse(r.output).name);",
    f"const {{output}} = {RUN}; text(output.trim());",
    f"const o = ({RUN}).output; text(o);",
    f"const r = {RUN}; if (r.output.includes('x')) text('y');",
    f"const r = {RUN}; text(r.output.split('\\n').length);",
    f"const r = {RUN}; text(r.output.match(/x/)[0]);",
    f"const r = {RUN}; text(r.output === 'x' ? 'same' : 'other');",
    f"const r = {RUN}; text(/x/.test(r.output));",
    f"const r = {RUN}; text(r['output'] + r[key]);",
    f"const r = {RUN}; await tools.exec_command({{cmd: `cat ${{r.output}}`}});",
    f"const r = {RUN}; await tools.exec_command({{cmd: 'cat ' + r.output}});",
    f"const r = {RUN}; text(await tools.exec_command({{cmd: 'cat ' + r.output}}));",
    f"const r = {RUN}; text(r.output.length);",
    f"const r = {RUN}; store('r', r);",
    f"const r = {RUN}; text(parseInt(r.output));",
    f"const r = {RUN}; text(Number(r.output) - 1);",
    f"const r = {RUN}; text(Object.values(r)[0]);",
    f"const r = {RUN}; text(r.output.replace('a', 'b'));",
    f"const r = {RUN}; text(r.output.length > 10);",
    f"const r = {RUN}; text(`${{r.output.split(`x`)}}`);",
    f"const r = {RUN}; process(r);",
    f"const r = {RUN}; text(eval(r));",
    f"const r = {RUN}; text('open",
    f"const r = {RUN}; text(`open",
    "text(r /* open",
]


@pytest.mark.parametrize("source", SHOWS)
def test_a_script_that_only_shows_is_known(source):
    assert only_shows(source) is True


@pytest.mark.parametrize("source", READS)
def test_a_script_that_reads_an_output_or_may_is_left_alone(source):
    assert only_shows(source) is False


def test_a_long_script_is_read_in_a_moment():
    assert only_shows("text(1);\n" * 20_000) is True
    assert only_shows("// x\n" * 20_000 + "text(a.b);") is False
