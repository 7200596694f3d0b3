/** A made-up Pi that emits events in the real one's order, and a scripted `yarp` beside it. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import type { Block, Context, Events, Message, Pi, Result } from "../../yarp_pi/extension/pi.ts";

export type Script = Record<string, unknown>;

export interface Logged {
  operation: string;
  pid: number;
  requestId: number;
  [field: string]: any;
}

export class Peer {
  readonly directory = mkdtempSync(join(tmpdir(), "yarp-peer-"));
  readonly program: string[];

  constructor(script: Script = {}) {
    writeFileSync(join(this.directory, "script.json"), JSON.stringify(script));
    this.program = [process.execPath, fileURLToPath(new URL("./peer.mjs", import.meta.url)), this.directory];
  }

  /** What it was asked, without the greetings. */
  asked(...operations: string[]): Logged[] {
    let text = "";
    try {
      text = readFileSync(join(this.directory, "log.jsonl"), "utf8");
    } catch {}
    const all = text.split("\n").filter(Boolean).map((line) => JSON.parse(line) as Logged);
    return all.filter(({ operation }) => (operations.length ? operations.includes(operation) : operation !== "hello"));
  }

  operations(): string[] {
    return this.asked().map(({ operation }) => operation);
  }

  remove(): void {
    rmSync(this.directory, { recursive: true });
  }
}

export function text(value: string): Block {
  return { type: "text", text: value };
}

interface Call {
  id?: string;
  tool?: string;
  input?: Record<string, unknown>;
  parent?: string;
  result?: Partial<Result>;
  isError?: boolean;
  /** `unknown`: never reaches tool_call; `blocked`: another extension refuses it afterwards. */
  fate?: "unknown" | "blocked";
}

export interface Seen {
  content: Block[];
  blocked: string | undefined;
  ran: Record<string, unknown> | undefined;
}

export class FakePi implements Pi {
  readonly handlers: { name: string; handler: (event: any, context: Context) => unknown }[] = [];
  readonly said: string[] = [];
  entries: { type: string; message?: Message }[] = [];
  bashSource = "builtin";
  context: Context;

  constructor(sessionId = "session-1") {
    this.context = {
      cwd: "/project",
      hasUI: true,
      model: { provider: "mock", id: "mock-model" },
      ui: { notify: (line) => void this.said.push(line) },
      sessionManager: {
        getSessionId: () => sessionId,
        getHeader: () => ({ timestamp: "2026-01-02T03:04:05.678Z" }),
        getEntries: () => this.entries,
      },
    };
  }

  on<Name extends keyof Events>(name: Name, handler: (event: Events[Name], context: Context) => unknown): void {
    this.handlers.push({ name, handler });
  }

  getAllTools(): { name: string; sourceInfo: { source: string } }[] {
    return [{ name: "bash", sourceInfo: { source: this.bashSource } }];
  }

  async emit(name: keyof Events, event: object): Promise<any> {
    let last: unknown;
    for (const entry of [...this.handlers]) if (entry.name === name) last = (await entry.handler(event, this.context)) ?? last;
    return last;
  }

  /** One call from start to message, as Pi's agent loop runs it. */
  async call({ id = "call_1", tool = "bash", input = { command: "true" }, parent, result, isError = false, fate }: Call = {}): Promise<Seen> {
    const who = { toolCallId: id, toolName: tool, ...(parent === undefined ? {} : { parentToolCallId: parent }) };
    const preflight = (reason: string): Result => ({ content: [text(reason)], details: {} });
    await this.emit("tool_execution_start", { ...who, args: input });
    let ran: Record<string, unknown> | undefined;
    let final: Result = preflight(`Tool ${tool} not found`);
    let failed = true;
    let blocked: string | undefined;
    if (fate !== "unknown") {
      const event = { ...who, input: structuredClone(input) };
      const answer = await this.emit("tool_call", event);
      blocked = answer?.block ? answer.reason : undefined;
      if (blocked !== undefined || fate === "blocked") final = preflight(blocked ?? "not allowed");
      else {
        ran = event.input;
        failed = isError;
        final = { content: [text("ok\n")], ...result };
        const change = await this.emit("tool_result", { ...who, input: event.input, ...final, isError });
        if (change?.content) {
          final = { ...final, content: change.content };
          delete final.structuredContent;
        }
      }
    }
    await this.emit("tool_execution_end", { ...who, result: final, isError: failed });
    if (parent !== undefined) return { content: final.content, blocked, ran };
    const message = { role: "toolResult", toolCallId: id, content: final.content, isError: failed };
    const replaced = await this.emit("message_end", { message });
    return { content: (replaced?.message ?? message).content, blocked, ran };
  }
}
