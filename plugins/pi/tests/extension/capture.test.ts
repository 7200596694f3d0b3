import assert from "node:assert/strict";
import { test } from "node:test";

import { Capture } from "../../yarp_pi/extension/capture.ts";
import { register } from "../../yarp_pi/extension/index.ts";
import { FakePi, Peer, text, type Script } from "./harness.ts";

type Use = (pi: FakePi, peer: Peer) => Promise<void>;

async function in_(script: Script, use: Use, entries: FakePi["entries"] = []): Promise<void> {
  const peer = new Peer(script);
  const pi = new FakePi();
  pi.entries = entries;
  register(pi, new Capture(pi, peer.program));
  try {
    await pi.emit("session_start", {});
    await use(pi, peer);
  } finally {
    await pi.emit("session_shutdown", {});
    peer.remove();
  }
}

const wrapped = { plan: [{ ok: { input: { command: "yarp run -- pytest" }, requiresStreams: true } }] };
const raw = { stdout: "all of it\n", stderr: "and this\n" };
const long = "0123456789\n".repeat(1_000);

test("an unchanged call is begun before it runs, and its results are equal", () =>
  in_({}, async (pi, peer) => {
    const result = { content: [text("hello\n")], structuredContent: { output: "hello\n", exit_code: 0, truncated: false } };
    const seen = await pi.call({ input: { command: "echo hello" }, result });
    assert.deepEqual(seen.content, [text("hello\n")]);
    assert.deepEqual(peer.operations(), ["plan", "begin_call", "result_before", "reduce", "stage_result", "update_final_result"]);
    const [begin] = peer.asked("begin_call");
    assert.deepEqual(begin!["inputBefore"], { command: "echo hello" });
    assert.deepEqual(begin!["inputAfter"], { command: "echo hello" });
    assert.deepEqual(begin!["session"].sourceSessionId, "session-1");
    assert.equal(begin!["session"].startedAtMs, Date.parse("2026-01-02T03:04:05.678Z"));
    const { startedAtMs, ...call } = begin!["call"];
    assert.equal(typeof startedAtMs, "number");
    assert.deepEqual(call, { sourceCallId: "call_1", toolName: "bash", provider: "mock", model: "mock-model", workingDirectory: "/project", requiresStreams: false });
    const [before, staged, final] = peer.asked("result_before", "stage_result", "update_final_result");
    assert.deepEqual(before!["result"], { ...result, isError: false });
    assert.deepEqual(staged!["result"], before!["result"]);
    assert.deepEqual(final!["result"], before!["result"]);
  }));

test("other tools are not planned or reduced", () =>
  in_({}, async (pi, peer) => {
    await pi.call({ tool: "read", input: { path: "x" } });
    assert.deepEqual(peer.operations(), ["begin_call", "result_before", "stage_result", "update_final_result"]);
  }));

test("a rewritten command runs only after both inputs are committed", () =>
  in_(wrapped, async (pi, peer) => {
    const seen = await pi.call({ input: { command: "pytest", timeout: 5 } });
    assert.deepEqual(seen.ran, { command: "yarp run -- pytest", timeout: 5 });
    const [begin] = peer.asked("begin_call");
    assert.deepEqual(begin!["inputBefore"], { command: "pytest", timeout: 5 });
    assert.equal(begin!["call"].requiresStreams, true);
    assert.ok(!peer.operations().includes("reduce"));
  }));

test("a begin that cannot be committed blocks the call and leaves its input alone", () =>
  in_({ ...wrapped, begin_call: [{ refuse: "the disk is full" }] }, async (pi, peer) => {
    const seen = await pi.call({ input: { command: "pytest" } });
    assert.match(seen.blocked ?? "", /could not be archived: the disk is full/);
    assert.equal(seen.ran, undefined);
    assert.deepEqual(peer.operations(), ["plan", "begin_call"]);
  }));

test("a plan that is refused blocks the call", () =>
  in_({ plan: [{ refuse: "plugin acme raised" }] }, async (pi, peer) => {
    assert.match((await pi.call()).blocked ?? "", /plugin acme raised/);
    assert.deepEqual(peer.operations(), ["plan"]);
  }));

test("a plan that takes too long leaves the command as it is, said once", () =>
  in_({ plan: [{ hang: true }] }, async (pi, peer) => {
    assert.deepEqual((await pi.call()).ran, { command: "true" });
    assert.deepEqual((await pi.call({ id: "call_2" })).ran, { command: "true" });
    assert.equal(pi.said.length, 1);
    assert.equal(peer.asked("update_final_result").length, 2);
  }));

test("a writer that ends during begin is restarted and the call runs", () =>
  in_({ begin_call: [{ exit: 74 }, {}] }, async (pi) => {
    assert.deepEqual((await pi.call()).ran, { command: "true" });
  }));

test("a summary is shown when its source is committed", () =>
  in_({ reduce: [{ ok: { changed: true, content: "short", source: "result_text", needsResultText: true } }] }, async (pi, peer) => {
    const result = { content: [text("long long\n")], structuredContent: { exit_code: 3, truncated: false } };
    const seen = await pi.call({ result, isError: true });
    assert.deepEqual(seen.content, [text("short")]);
    assert.deepEqual(peer.operations().slice(-4), ["reduce", "result_text", "stage_result", "update_final_result"]);
    const [reduce] = peer.asked("reduce");
    assert.deepEqual([reduce!["exitCode"], reduce!["isError"], reduce!["sourceCompleteness"]], [3, true, "complete"]);
    const [kept] = peer.asked("result_text");
    assert.equal(kept!["text"], "long long\n");
    const [final] = peer.asked("update_final_result");
    assert.deepEqual(final!["result"], { content: [text("short")], isError: true });
  }));

test("a summary whose source cannot be committed is not shown", () =>
  in_(
    {
      reduce: [{ ok: { changed: true, content: "short", source: "result_text", needsResultText: true } }],
      result_text: [{ refuse: "no" }],
    },
    async (pi) => {
      assert.deepEqual((await pi.call()).content, [text("ok\n")]);
    },
  ));

test("a reduction that fails leaves the result", () =>
  in_({ reduce: [{ refuse: "boom" }] }, async (pi) => {
    assert.deepEqual((await pi.call()).content, [text("ok\n")]);
    assert.match(pi.said.join(), /was not shortened: boom/);
  }));

test("long text is capped across its blocks, and images stay", () =>
  in_({ cap: [{ ok: { changed: true, content: "capped", source: "result_text", needsResultText: true } }] }, async (pi, peer) => {
    const image = { type: "image", data: "…", mimeType: "image/png" };
    const seen = await pi.call({ tool: "look", input: {}, result: { content: [image, text(long), image, text("end")] } });
    assert.deepEqual(seen.content, [image, text("capped"), image]);
    assert.equal(peer.asked("result_text")[0]!["text"], `${long}end`);
  }));

test("what Pi says about a command's end goes along, to stay at the end", () =>
  in_({}, async (pi, peer) => {
    const content = [text(`${long}\n\nCommand exited with code 3`)];
    await pi.call({ result: { content }, isError: true });
    const endings = peer.asked("reduce", "cap").map((asked) => asked["ending"]);
    assert.deepEqual(endings, Array(2).fill("\n\nCommand exited with code 3"));
  }));

test("text within the cap is not sent to be capped", () =>
  in_({}, async (pi, peer) => {
    await pi.call({ tool: "read", result: { content: [text("x".repeat(5120))] } });
    assert.deepEqual(peer.asked("cap"), []);
  }));

test("a recovery answer is never shortened", () =>
  in_({ plan: [{ ok: { result: "recovery" } }] }, async (pi, peer) => {
    const seen = await pi.call({ result: { content: [text(long)] } });
    assert.deepEqual(seen.content, [text(long)]);
    assert.deepEqual(peer.asked("cap", "reduce"), []);
  }));

test("the full output counts for Pi's own shell alone", () =>
  in_({}, async (pi, peer) => {
    const result = { details: { fullOutputPath: "/tmp/out.log", truncation: { truncated: true } } };
    await pi.call({ result });
    await pi.call({ id: "call_2", tool: "other", result });
    pi.bashSource = "extension";
    await pi.call({ id: "call_3", result });
    assert.deepEqual(peer.asked("result_before").map((asked) => asked["fullOutputPath"]), ["/tmp/out.log", undefined, undefined]);
    assert.equal(peer.asked("reduce")[0]!["sourceCompleteness"], "incomplete");
  }));

test("a full output that cannot be read does not cost the result", () =>
  in_({ result_before: [{ refuse: "not a regular file" }, {}] }, async (pi, peer) => {
    await pi.call({ result: { details: { fullOutputPath: "/tmp/out.log" } } });
    assert.equal(peer.asked("update_final_result").length, 1);
    assert.match(pi.said.join(), /not a regular file/);
  }));

test("a shell that another extension put in place is never wrapped", () =>
  in_(wrapped, async (pi) => {
    pi.bashSource = "extension";
    assert.deepEqual((await pi.call({ input: { command: "pytest" } })).ran, { command: "pytest" });
  }));

test("a failure named only in the text of Pi 0.73 is incomplete", () =>
  in_({}, async (pi, peer) => {
    const content = [text("9\n\n[Showing lines 2-9 of 9. Full output: /tmp/pi-bash-0.log]\n\nCommand exited with code 3")];
    await pi.call({ result: { content, details: {} }, isError: true });
    assert.equal(peer.asked("reduce")[0]!["sourceCompleteness"], "incomplete");
    assert.equal(peer.asked("result_before")[0]!["fullOutputPath"], undefined);
  }));

test("a result that cannot be committed stays the host's own, and the call stays started", () =>
  in_({ result_before: [{ refuse: "the disk is full" }] }, async (pi, peer) => {
    assert.deepEqual((await pi.call()).content, [text("ok\n")]);
    assert.deepEqual(peer.operations(), ["plan", "begin_call", "result_before"]);
    assert.match(pi.said.join(), /the disk is full/);
  }));

test("a reduced result that cannot be staged is shown whole", () =>
  in_({ reduce: [{ ok: { changed: true, content: "short", source: "source_output" } }], stage_result: [{ refuse: "no" }] }, async (pi) => {
    assert.deepEqual((await pi.call()).content, [text("ok\n")]);
  }));

test("a wrapped call whose result cannot be committed shows its exact streams", () =>
  in_({ ...wrapped, restore: [raw], result_before: [{ refuse: "no" }] }, async (pi, peer) => {
    const content = [text("summary\n\nCommand exited with code 1")];
    const seen = await pi.call({ input: { command: "pytest" }, result: { content }, isError: true });
    assert.deepEqual(seen.content, [text("all of it\nand this\n\n\nCommand exited with code 1")]);
    const words = peer.asked("restore")[0]!["words"];
    assert.deepEqual(words.slice(-4), ["--archive-session", "session-1", "--archive-call", "call_1"]);
  }));

test("a wrapped call whose end cannot be committed gets its exact streams back in the message", () =>
  in_({ ...wrapped, restore: [raw], update_final_result: [{ refuse: "no" }] }, async (pi) => {
    const seen = await pi.call({ input: { command: "pytest" }, result: { content: [text("summary")] } });
    assert.deepEqual(seen.content, [text("all of it\nand this\n")]);
  }));

test("a request to the model waits for the end of a wrapped call and gets what was put back", () =>
  in_({ ...wrapped, restore: [raw], update_final_result: [{ refuse: "no" }] }, async (pi) => {
    const who = { toolCallId: "call_1", toolName: "bash" };
    const call = { ...who, input: { command: "pytest" } };
    await pi.emit("tool_execution_start", { ...who, args: call.input });
    await pi.emit("tool_call", call);
    const result = { content: [text("summary")] };
    await pi.emit("tool_result", { ...call, ...result, isError: false });
    const messages = [{ role: "user", content: "go" }, { role: "toolResult", toolCallId: "call_1", ...result }];
    const request = pi.emit("context", { messages });
    await pi.emit("tool_execution_end", { ...who, result, isError: false });
    const { messages: given } = await request;
    assert.equal(given[0], messages[0]);
    assert.deepEqual(given[1].content, [text("all of it\nand this\n")]);
  }));

const ending = "Command timed out after 2 seconds";
const timedOut = { input: { command: "pytest" }, result: { content: [text(ending)] }, isError: true };

test("a wrapped command that Pi killed is shown with what it had printed, and finished", () =>
  in_({ ...wrapped, restore: [{ fail: 1 }, { fail: 1 }, raw] }, async (pi, peer) => {
    const seen = await pi.call(timedOut);
    assert.deepEqual(seen.content, [text(`all of it\nand this\n\n\n${ending}`)]);
    assert.equal(peer.asked("restore").length, 3);
    assert.deepEqual(peer.asked("result_before")[0]!["result"].content, [text(ending)]);
    assert.deepEqual(peer.asked("update_final_result")[0]!["result"].content, seen.content);
    assert.deepEqual(pi.said, []);
  }));

test("what a killed command had printed is capped when it is long, its source incomplete", () =>
  in_({ ...wrapped, restore: [{ stdout: long, stderr: "" }], cap: [{ ok: { changed: true, content: "capped" } }] }, async (pi, peer) => {
    assert.deepEqual((await pi.call(timedOut)).content, [text("capped")]);
    const [asked] = peer.asked("cap");
    assert.equal(asked!["text"], `${long}\n\n${ending}`);
    assert.deepEqual([asked!["source"], asked!["sourceCompleteness"], asked!["ending"]], ["stdout", "incomplete", ending]);
  }));

test("too much of a killed command to be shown is pointed to", () =>
  in_({ ...wrapped, restore: [{ stdout: "x".repeat(5 << 20), stderr: "" }] }, async (pi) => {
    const seen = await pi.call(timedOut);
    assert.match(seen.content[0]!.text!, /^\[yarp: [^\n]* yarp read yr_0+ --tail 200\]\n\nCommand timed out/);
  }));

test("a killed command that nobody kept stays as Pi shows it, said once", () =>
  in_({ ...wrapped, stage_result: [{ refuse: "lacks streams" }] }, async (pi, peer) => {
    const seen = await pi.call(timedOut);
    assert.deepEqual(seen.content, [text(ending)]);
    assert.match(pi.said.join("|"), /^[^|]*stays incomplete: lacks streams$/);
    assert.ok(peer.asked("restore").length > 1);
  }));

test("a wrapped command that somebody else killed is shown with what it had printed", () =>
  in_({ ...wrapped, restore: [{ fail: 1 }, raw], stage_result: [{ refuse: "lacks streams" }] }, async (pi) => {
    const result = { content: [text("Command exited with code 137")] };
    const seen = await pi.call({ ...timedOut, result });
    assert.deepEqual(seen.content, [text("all of it\nand this\n\n\nCommand exited with code 137")]);
  }));

test("a restore that fails leaves the summary", () =>
  in_({ ...wrapped, update_final_result: [{ refuse: "no" }] }, async (pi) => {
    const seen = await pi.call({ input: { command: "pytest" }, result: { content: [text("summary")] } });
    assert.deepEqual(seen.content, [text("summary")]);
    assert.match(pi.said.join(), /could not be put back/);
  }));

test("a call that never reaches its tool is kept with its unchanged input", () =>
  in_({}, async (pi, peer) => {
    await pi.call({ tool: "frobnicate", input: { level: 3 }, fate: "unknown" });
    assert.deepEqual(peer.operations(), ["begin_call", "finish_call"]);
    const [begin, finish] = peer.asked();
    assert.deepEqual([begin!["inputBefore"], begin!["inputAfter"]], [{ level: 3 }, { level: 3 }]);
    assert.deepEqual([finish!["requirePreResult"], finish!["isError"]], [false, true]);
  }));

test("a call that another extension blocks is finished without a result of its own", () =>
  in_({}, async (pi, peer) => {
    await pi.call({ fate: "blocked" });
    assert.deepEqual(peer.operations(), ["plan", "begin_call", "finish_call"]);
  }));

test("parallel calls finish in any order", () =>
  in_({}, async (pi, peer) => {
    const ids = Array.from({ length: 8 }, (_, index) => `call_${index}`);
    await Promise.all(ids.map((id) => pi.call({ id })));
    assert.deepEqual(peer.asked("update_final_result").map((asked) => asked["sourceCallId"]).sort(), ids);
  }));

test("a call made by a script is kept and never changed", () =>
  in_(wrapped, async (pi, peer) => {
    const result = { content: [text(long)], structuredContent: { output: long } };
    const seen = await pi.call({ id: "call_1/1", parent: "call_1", input: { command: "pytest" }, result });
    assert.deepEqual(seen.content, [text(long)]);
    assert.deepEqual(peer.operations(), ["begin_call", "result_before", "stage_result", "update_final_result"]);
  }));

test("an id that the session has used before gets a number", () =>
  in_(
    {},
    async (pi, peer) => {
      await pi.call({ id: "functions.bash:0" });
      await pi.call({ id: "functions.bash:0" });
      const begun = peer.asked("begin_call").map((asked) => asked["call"].sourceCallId);
      assert.deepEqual(begun, ["functions.bash:0#2", "functions.bash:0#3"]);
    },
    [{ type: "message", message: { role: "assistant", content: [{ type: "toolCall", id: "functions.bash:0" }] } }],
  ));

test("a broken configuration lets tools run as if YARP were not there, said once", () =>
  in_({ hello: [{ refuse: "config.toml line 3: no such key" }] }, async (pi, peer) => {
    for (const id of ["call_1", "call_2"]) {
      const seen = await pi.call({ id });
      assert.equal(seen.blocked, undefined);
      assert.deepEqual(seen.content, [text("ok\n")]);
    }
    assert.equal(pi.said.length, 1);
    assert.match(pi.said[0]!, /off in this session: config.toml line 3/);
    assert.deepEqual(peer.operations(), []);
  }));

test("an archive that is switched off leaves wrapping and nothing else", () =>
  in_({ ...wrapped, hello: [{ ok: { archiveEnabled: false } }] }, async (pi, peer) => {
    const seen = await pi.call({ input: { command: "pytest" }, result: { content: [text(long)] } });
    assert.deepEqual(seen.ran, { command: "yarp run -- pytest" });
    assert.deepEqual(seen.content, [text(long)]);
    await pi.call({ fate: "unknown" });
    assert.deepEqual(peer.operations(), ["plan"]);
  }));

test("a session that starts twice has one writer, and a reload closes it", () =>
  in_({}, async (pi, peer) => {
    await pi.emit("session_start", {});
    await pi.call();
    await pi.emit("session_shutdown", {});
    await pi.emit("session_start", {});
    await pi.call({ id: "call_2" });
    assert.equal(new Set(peer.asked("begin_call").map(({ pid }) => pid)).size, 2);
    assert.equal(peer.asked("hello").length, 2);
  }));

test("an extension that is there twice captures once", () =>
  in_({}, async (pi, peer) => {
    const again = new Capture(pi, peer.program);
    register(pi, again);
    await pi.emit("session_start", {});
    await pi.call();
    assert.equal(peer.asked("begin_call").length, 1);
  }));

test("lone surrogates and empty names do not stop a call", () =>
  in_({}, async (pi, peer) => {
    await pi.call({ tool: "", input: { value: "\ud800" }, fate: "unknown" });
    const [begin] = peer.asked("begin_call");
    assert.equal(begin!["call"].toolName, "(no name)");
    assert.equal(begin!["inputBefore"].value, "\ud800");
  }));
