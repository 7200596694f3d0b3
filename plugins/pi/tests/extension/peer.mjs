// A scripted `yarp`: `node peer.mjs DIR archive ingest|restore …`.
//
// DIR/script.json maps an operation to its behaviours, one for each time it is asked, the last
// one from then on: {"ok": {...}} answers with these fields, {"refuse": "why"}, {"exit": STATUS,
// "stderr": "why"}, {"hang": true}, {"raw": "a line"}, {"twice": true}. Whatever is asked is
// appended to DIR/log.jsonl, so that the counts outlive a restart.
import { appendFileSync, existsSync, readFileSync } from "node:fs";

const [directory, , verb, ...words] = process.argv.slice(2);
const script = JSON.parse(readFileSync(`${directory}/script.json`, "utf8"));
const log = `${directory}/log.jsonl`;
const usual = {
  hello: { protocol: 1, archiveEnabled: true, pruningEnabled: true, capBytes: 5120 },
  plan: { result: "ordinary", requiresStreams: false },
  begin_call: { archiveRef: `yr_${"0".repeat(32)}` },
  reduce: { changed: false, needsResultText: false },
  cap: { changed: false, needsResultText: false },
};

function asked(operation) {
  if (!existsSync(log)) return 0;
  return readFileSync(log, "utf8").split("\n").filter((line) => line && JSON.parse(line).operation === operation).length;
}

function serve(request) {
  const { operation, requestId } = request;
  const behaviours = script[operation] ?? [];
  const behaviour = behaviours[Math.min(asked(operation), behaviours.length - 1)] ?? {};
  appendFileSync(log, JSON.stringify({ pid: process.pid, ...request }) + "\n");
  if (behaviour.hang) return;
  if ("exit" in behaviour) {
    process.stderr.write(behaviour.stderr ?? "");
    process.exit(behaviour.exit);
  }
  if (behaviour.raw !== undefined) return void process.stdout.write(`${behaviour.raw}\n`);
  const answer =
    behaviour.refuse === undefined
      ? { requestId, ok: true, ...usual[operation], ...behaviour.ok }
      : { requestId, ok: false, error: behaviour.refuse };
  const line = JSON.stringify(answer) + "\n";
  process.stdout.write(behaviour.twice ? line + line : line);
}

if (verb === "restore") {
  const behaviours = script.restore ?? [];
  const streams = behaviours[Math.min(asked("restore"), behaviours.length - 1)];
  appendFileSync(log, JSON.stringify({ operation: "restore", words }) + "\n");
  if (!streams || streams.fail) process.exit(74);
  process.stdout.write(streams.stdout);
  process.stderr.write(streams.stderr);
} else {
  if (script.start) {
    process.stderr.write(script.start.stderr);
    process.exit(script.start.exit);
  }
  let buffer = Buffer.alloc(0);
  process.stdin.on("data", (chunk) => {
    buffer = Buffer.concat([buffer, chunk]);
    while (buffer.length >= 8) {
      const length = Number(buffer.readBigUInt64BE(0));
      if (buffer.length < 8 + length) return;
      const request = JSON.parse(buffer.subarray(8, 8 + length).toString());
      buffer = buffer.subarray(8 + length);
      serve(request);
    }
  });
  process.stdin.on("end", () => process.exit(0));
}
