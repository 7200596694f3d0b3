import assert from "node:assert/strict";
import { test } from "node:test";

import { Failed, IngestClient, Late, Off, Refused, frameOf, type Patience } from "../../yarp_pi/extension/client.ts";
import { Peer, type Script } from "./harness.ts";

const session = { agent: "pi", account: "somebody", sourceSessionId: "s" };

async function with_(script: Script, use: (client: IngestClient, peer: Peer) => Promise<void>, patience?: Partial<Patience>): Promise<void> {
  const peer = new Peer(script);
  const client = new IngestClient(peer.program, session, { answer: 5_000, stop: 2_000, close: 5_000, ...patience });
  try {
    await use(client, peer);
  } finally {
    await client.close();
    peer.remove();
  }
}

test("a frame is a big-endian length and well-formed JSON, lone surrogates escaped", () => {
  const frame = frameOf({ text: "é\ud800" });
  assert.equal(Number(frame.readBigUInt64BE(0)), frame.length - 8);
  assert.equal(frame.subarray(8).toString(), '{"text":"é\\ud800"}');
});

test("requests are answered in the order of asking, one at a time", () =>
  with_({}, async (client, peer) => {
    await Promise.all([client.request("a", {}), client.request("b", {}), client.request("c", {})]);
    assert.deepEqual(peer.operations(), ["a", "b", "c"]);
    assert.equal(new Set(peer.asked().map(({ pid }) => pid)).size, 1);
  }));

test("a writer that ends is started once more with the very same request", () =>
  with_({ begin_call: [{ exit: 74, stderr: "gone\n" }, {}] }, async (client, peer) => {
    await client.request("begin_call", { x: 1 });
    const [first, second] = peer.asked("begin_call");
    assert.equal(first!.requestId, second!.requestId);
    assert.notEqual(first!.pid, second!.pid);
  }));

test("a writer that fails twice fails the request, with both reasons", () =>
  with_({ begin_call: [{ exit: 74, stderr: "first\n" }, { exit: 70, stderr: "second\n" }] }, async (client) => {
    await assert.rejects(client.request("begin_call", {}), (error: Error) => {
      assert.ok(error instanceof Failed);
      assert.match(error.message, /after a restart: .*74.*first.*70.*second/);
      return true;
    });
  }));

test("the next request after a failure gets a new writer", () =>
  with_({ begin_call: [{ exit: 74 }, { exit: 74 }, {}] }, async (client) => {
    await assert.rejects(client.request("begin_call", {}), Failed);
    assert.equal((await client.request("begin_call", {}))["ok"], true);
  }));

test("a refusal is final", () =>
  with_({ begin_call: [{ refuse: "disk full" }] }, async (client, peer) => {
    await assert.rejects(client.request("begin_call", {}), (error: Error) => error instanceof Refused && error.message === "disk full");
    assert.equal(peer.asked("begin_call").length, 1);
  }));

test("a missing answer costs a restart", () =>
  with_(
    { begin_call: [{ hang: true }, {}] },
    async (client, peer) => {
      await client.request("begin_call", {});
      assert.equal(peer.asked("begin_call").length, 2);
    },
    { answer: 500 },
  ));

test("an answer that is no acknowledgement costs a restart", () =>
  with_({ begin_call: [{ raw: "Traceback" }, { raw: '{"ok":"yes"}' }] }, async (client, peer) => {
    await assert.rejects(client.request("begin_call", {}), Failed);
    assert.equal(peer.asked("begin_call").length, 2);
  }));

test("answers to other ids and second answers are passed over", () =>
  with_({ a: [{ twice: true }], b: [{ ok: { fine: true } }] }, async (client) => {
    await client.request("a", {});
    assert.equal((await client.request("b", {}))["fine"], true);
  }));

test("a deadline gives up one decision and not what must be committed after it", () =>
  with_({ plan: [{ hang: true }] }, async (client, peer) => {
    await client.hello();
    const plan = client.request("plan", {}, 300);
    const begin = client.request("begin_call", {});
    await assert.rejects(plan, Late);
    assert.equal((await begin)["ok"], true);
    assert.equal(peer.asked("plan").length, 1);
  }));

test("what cannot be framed is refused before any writer starts", () =>
  with_({}, async (client, peer) => {
    const cycle: Record<string, unknown> = {};
    cycle["self"] = cycle;
    await assert.rejects(client.request("result_before", { result: cycle }), Refused);
    const long = "x".repeat(300 * 1024 * 1024);
    await assert.rejects(client.request("result_before", { result: long }), /more than the 268435456/);
    assert.deepEqual(peer.asked("hello", "result_before"), []);
  }));

test("a program that is not there, a broken configuration and another protocol switch YARP off", async () => {
  const missing = new IngestClient(["/nonexistent/yarp"], session);
  await assert.rejects(missing.hello(), Off);
  await assert.rejects(missing.request("begin_call", {}), Off);
  await missing.close();
  for (const script of [
    { hello: [{ refuse: "config.toml line 3: no such key" }] },
    { hello: [{ ok: { protocol: 2 } }] },
    { start: { exit: 64, stderr: "yarp: config.toml line 3: no such key\n" } },
    { start: { exit: 1, stderr: "ModuleNotFoundError: No module named 'yarp'\n" } },
  ])
    await with_(script, async (client) => {
      await assert.rejects(client.hello(), Off);
      await assert.rejects(client.request("begin_call", {}), Off);
    });
});

test("a start that fails for the archive's sake does not switch YARP off", () =>
  with_({ start: { exit: 74, stderr: "yarp: the archive's directory is open to others\n" } }, async (client) => {
    await assert.rejects(client.hello(), /open to others/);
    await assert.rejects(client.request("begin_call", {}), Failed);
  }));

test("closing waits for what was asked and lets the writer end by itself", () =>
  with_({}, async (client, peer) => {
    const last = client.request("finish_call", {});
    await client.close();
    assert.equal((await last)["ok"], true);
    await assert.rejects(client.request("late", {}), /closing/);
    assert.deepEqual(peer.operations(), ["finish_call"]);
  }));

test("closing does not wait for ever", () =>
  with_(
    { finish_call: [{ hang: true }] },
    async (client) => {
      const last = assert.rejects(client.request("finish_call", {}), Failed);
      await client.close();
      await last;
    },
    { close: 300 },
  ));
