/** YARP for Pi: keeps every tool call in the archive and gives the model a short, true answer. */
import { existsSync, readFileSync } from "node:fs";

import { Capture } from "./capture.ts";
import type { Pi } from "./pi.ts";

export default function yarp(pi: Pi): void {
  const program = installed();
  if (typeof program === "string") {
    let said = false;
    pi.on("session_start", (_event, context) => {
      if (said) return;
      said = true;
      if (context.hasUI) context.ui.notify(`[yarp] off: ${program}`, "warning");
      else console.error(`[yarp] off: ${program}`);
    });
    return;
  }
  register(pi, new Capture(pi, program));
}

export function register(pi: Pi, capture: Capture): void {
  pi.on("session_start", (_event, context) => capture.open(context));
  pi.on("session_shutdown", () => capture.close());
  pi.on("tool_execution_start", (event) => capture.started(event));
  pi.on("tool_call", (event, context) => capture.called(event, context));
  pi.on("tool_result", (event, context) => capture.resulted(event, context));
  pi.on("tool_execution_end", (event, context) => capture.ended(event, context));
  pi.on("message_end", (event) => capture.messageEnded(event));
  pi.on("context", (event) => capture.requested(event));
}

/** The words that start the `yarp` that installed this extension, or why there are none. */
function installed(): readonly string[] | string {
  try {
    const record = JSON.parse(readFileSync(new URL("./yarp.json", import.meta.url), "utf8")) as { program?: unknown };
    const program = record.program;
    if (!Array.isArray(program) || typeof program[0] !== "string") return "yarp.json names no program; run: yarp install pi";
    if (!existsSync(program[0])) return `${program[0]} is gone; run: yarp install pi (or: yarp uninstall pi)`;
    return program as string[];
  } catch {
    return "yarp.json beside the extension cannot be read; run: yarp install pi";
  }
}
