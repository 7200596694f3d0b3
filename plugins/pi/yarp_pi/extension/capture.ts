/**
 * The life of each call: its input is committed before it runs, its result before YARP shortens
 * it, and what the model got at the end. Every failure either blocks the call (before it runs)
 * or leaves the host's own result (after), and is said.
 */
import { execFile } from "node:child_process";
import { userInfo } from "node:os";

import { IngestClient, Late, Off, Refused, reasonOf, type Session } from "./client.ts";
import type { Context, ContextEvent, Message, MessageEnd, Pi, ToolCall, ToolExecutionEnd, ToolExecutionStart, ToolResult } from "./pi.ts";
import { completenessOf, exitCode, exitedWith, fullOutputPath, isText, resultOf, statusNote, textOf, wasKilled, withText } from "./result.ts";

const SHELL_TOOL = "bash";
const DECISION_MS = 2_000;
const RESTORE_MS = 10_000;
const FINAL_MS = 20_000;
const RESTORE_BYTES = 4 * 1024 * 1024;
/** A killed command's output is committed by a process that outlives it: this long, asked so often. */
const RESCUE_MS = 3_000;
const RESCUE_STEP_MS = 100;

/**
 * Who captures a session: a host can hold this extension twice (user and project scope), and a
 * call must be captured once. The instance that opened last wins.
 */
const OWNERS = Symbol.for("yarp.pi.owners");

interface Life {
  /** The call's id in the archive. */
  id: string;
  toolName: string;
  args: unknown;
  startedAtMs: number;
  /** Made by another tool, whose code reads the result: kept, never changed. */
  nested: boolean;
  /** The command text that runs, for the shell tool. */
  command?: string;
  /** The result answers a recovery command and is never shortened again. */
  recovery: boolean;
  /** Runs below `yarp run`, which keeps both streams. */
  wrapped: boolean;
  /** The archive's own name for the call, once it is begun. */
  archiveRef: string;
  stage: "pending" | "begun" | "staged" | "lost";
  /** What Pi itself said about the end of a wrapped command. */
  note: string;
}

interface Final {
  raw: Promise<string | undefined>;
  resolve(raw: string | undefined): void;
}

interface Open {
  id: string;
  session: Session;
  client: IngestClient;
  calls: Map<string, Life>;
  /** How often each of Pi's call ids was used: some models count from 0 in every answer. */
  used: Map<string, number>;
  /** Wrapped calls on their way to the end: what shall be shown when it could not be committed. */
  finals: Map<string, Final>;
}

export class Capture {
  private readonly pi: Pi;
  private readonly program: readonly string[];
  private opened: Open | undefined;
  private readonly said = new Set<string>();

  constructor(pi: Pi, program: readonly string[]) {
    this.pi = pi;
    this.program = program;
  }

  /** Start a session's writer. Pi 0.73 announces a session twice; the second time is nothing new. */
  async open(context: Context): Promise<void> {
    const id = context.sessionManager.getSessionId();
    if (this.opened?.id === id) return;
    await this.close();
    const session: Session = { agent: "pi", account: account(), sourceSessionId: id };
    const startedAtMs = Date.parse(context.sessionManager.getHeader?.()?.timestamp ?? "");
    if (startedAtMs >= 0) session.startedAtMs = startedAtMs;
    const client = new IngestClient(this.program, session);
    this.opened = { id, session, client, calls: new Map(), used: idsIn(context), finals: new Map() };
    owners().set(id, this);
    // Warm before the first call needs it; Pi's start does not wait.
    client.hello().catch((error: unknown) => this.sayOff(context, error));
  }

  async close(): Promise<void> {
    const open = this.opened;
    this.opened = undefined;
    if (!open) return;
    if (owners().get(open.id) === this) owners().delete(open.id);
    for (const { resolve } of open.finals.values()) resolve(undefined);
    await open.client.close();
  }

  /** Every call, also one that never reaches `tool_call`. */
  started(event: ToolExecutionStart): void {
    const open = this.current();
    if (open) this.live(open, event, event.args);
  }

  /** Decide, commit, and only then let the call run: the answer blocks it otherwise. */
  async called(event: ToolCall, context: Context): Promise<{ block: true; reason: string } | undefined> {
    await this.open(context);
    const open = this.current();
    if (!open) return undefined;
    const life = open.calls.get(event.toolCallId) ?? this.live(open, event, event.input);
    try {
      const settings = await open.client.hello();
      const planned = await this.plan(open, life, event, context);
      const after = planned ?? event.input;
      if (settings.archiveEnabled) await this.begin(open, life, event.input, after, context);
      else open.calls.delete(event.toolCallId);
      // Nothing of the input changes before it is committed.
      if (planned) Object.assign(event.input, planned);
      if (event.toolName === SHELL_TOOL) life.command = commandOf(event.input);
      return undefined;
    } catch (error) {
      life.stage = "lost";
      if (error instanceof Off) {
        this.sayOff(context, error);
        return undefined;
      }
      return {
        block: true,
        reason:
          `[yarp] The call was not run, because it could not be archived: ${reasonOf(error)}. ` +
          "Find out more with: yarp archive verify (archive.enabled = false switches the archive off)",
      };
    }
  }

  /** Commit the result as it came; then shorten what the model sees. */
  async resulted(event: ToolResult, context: Context): Promise<{ content: ToolResult["content"] } | undefined> {
    const open = this.current();
    const life = open?.calls.get(event.toolCallId);
    if (!open || life?.stage !== "begun") return undefined;
    // Until it is staged again: a failure on the way leaves the call started.
    life.stage = "lost";
    life.note = statusNote(textOf(event.content));
    try {
      await this.resultBefore(open, life, event, context);
      // Pi ended `yarp run` together with its command: it has printed nothing of what it held.
      const killed = life.wrapped && wasKilled(life.note);
      const partial = killed ? await this.rescued(open, life) : undefined;
      const whole = partial === undefined ? event : { ...event, content: withText(event.content, partial) };
      const shorter = life.recovery || life.nested ? undefined : await this.shorten(open, life, whole, context);
      const content = shorter ?? (whole === event ? undefined : whole.content);
      const result = content ? { ...event, content, structuredContent: undefined } : event;
      await open.client.request("stage_result", {
        sourceCallId: life.id,
        result: resultOf(result, event.isError),
        isError: event.isError,
        capturedAtMs: Date.now(),
      });
      life.stage = "staged";
      if (life.wrapped) open.finals.set(event.toolCallId, final());
      return content && { content };
    } catch (error) {
      if (life.wrapped && wasKilled(life.note)) {
        // It had not lasted long enough to be guarded: there are no streams to put back.
        this.say(context, `a killed command's output was not archived; its call stays incomplete: ${reasonOf(error)}`);
        return undefined;
      }
      if (error instanceof Off) this.sayOff(context, error);
      else this.say(context, `a result could not be archived: ${reasonOf(error)}`);
      if (!life.wrapped) return undefined;
      // 137: somebody else, such as a system short of memory, may have killed `yarp run`.
      const raw = await (exitedWith(life.note) === 137 ? this.rescued(open, life) : this.restore(open, life, context));
      return raw === undefined ? undefined : { content: withText(event.content, raw) };
    }
  }

  /** Commit what the model gets, after every extension had its say. */
  async ended(event: ToolExecutionEnd, context: Context): Promise<void> {
    const open = this.current();
    const life = open?.calls.get(event.toolCallId);
    if (!open || !life) return;
    open.calls.delete(event.toolCallId);
    const raw = await this.finish(open, life, event, context);
    open.finals.get(event.toolCallId)?.resolve(raw);
  }

  /** Where a wrapped call's exact output can be put back for good. */
  async messageEnded({ message }: MessageEnd): Promise<{ message: Message } | undefined> {
    const open = this.current();
    const id = message.role === "toolResult" ? message.toolCallId : undefined;
    const expected = id === undefined ? undefined : open?.finals.get(id);
    if (!open || id === undefined || !expected) return undefined;
    const raw = await expected.raw;
    open.finals.delete(id);
    return raw === undefined ? undefined : { message: withRaw(message, raw) };
  }

  /** Pi 0.73 asks the model before it is done with the end of the calls: the request waits here. */
  async requested({ messages }: ContextEvent): Promise<{ messages: Message[] } | undefined> {
    const finals = [...(this.current()?.finals ?? [])];
    const raws = new Map<string, string>();
    for (const [id, expected] of finals) {
      const raw = await expected.raw;
      if (raw !== undefined) raws.set(id, raw);
    }
    if (raws.size === 0) return undefined;
    return {
      messages: messages.map((message) => {
        const raw = message.role === "toolResult" ? raws.get(message.toolCallId ?? "") : undefined;
        return raw === undefined ? message : withRaw(message, raw);
      }),
    };
  }

  // -- steps ---------------------------------------------------------------------------------

  private current(): Open | undefined {
    return this.opened && owners().get(this.opened.id) === this ? this.opened : undefined;
  }

  private live(open: Open, event: ToolExecutionStart | ToolCall, args: unknown): Life {
    const { toolCallId, toolName, parentToolCallId } = event;
    const life: Life = {
      id: archiveId(open, toolCallId, parentToolCallId),
      toolName: wellFormed(toolName) || "(no name)",
      // A copy: handlers may change the input of a call that then never runs.
      args: JSON.parse(JSON.stringify(args ?? null)),
      startedAtMs: Date.now(),
      nested: parentToolCallId !== undefined,
      recovery: false,
      wrapped: false,
      archiveRef: "",
      stage: "pending",
      note: "",
    };
    open.calls.set(toolCallId, life);
    return life;
  }

  /** The input to run instead, if any. A refusal is thrown and blocks the call. */
  private async plan(open: Open, life: Life, event: ToolCall, context: Context): Promise<Record<string, unknown> | undefined> {
    if (life.nested || event.toolName !== SHELL_TOOL || commandOf(event.input) === undefined) return undefined;
    try {
      const call = {
        sourceCallId: life.id,
        toolName: life.toolName,
        workingDirectory: wellFormed(context.cwd) || undefined,
      };
      const plan = await open.client.request("plan", { call, input: event.input }, DECISION_MS);
      life.recovery = plan["result"] === "recovery";
      const input = plan["input"];
      // Another extension's shell may run elsewhere, where there is no YARP.
      if (typeof input !== "object" || input === null || !this.isOwnShell()) return undefined;
      life.wrapped = plan["requiresStreams"] === true;
      return input as Record<string, unknown>;
    } catch (error) {
      if (!(error instanceof Late)) throw error;
      this.say(context, `commands run as they are: ${reasonOf(error)}`, "plan");
      return undefined;
    }
  }

  private async begin(open: Open, life: Life, before: unknown, after: unknown, context: Context): Promise<void> {
    const { model } = context;
    const begun = await open.client.request("begin_call", {
      call: {
        sourceCallId: life.id,
        toolName: life.toolName,
        provider: wellFormed(model?.provider) || undefined,
        model: wellFormed(model?.id) || undefined,
        workingDirectory: wellFormed(context.cwd) || undefined,
        startedAtMs: life.startedAtMs,
        requiresStreams: life.wrapped,
      },
      inputBefore: before ?? null,
      inputAfter: after ?? null,
      capturedAtMs: Date.now(),
    });
    life.archiveRef = String(begun["archiveRef"]);
    life.stage = "begun";
  }

  private async resultBefore(open: Open, life: Life, event: ToolResult, context: Context): Promise<void> {
    const fields = { sourceCallId: life.id, result: resultOf(event, event.isError), capturedAtMs: Date.now() };
    const path = event.toolName === SHELL_TOOL && this.isOwnShell() ? fullOutputPath(event) : undefined;
    try {
      await open.client.request("result_before", { ...fields, fullOutputPath: path });
    } catch (error) {
      if (path === undefined || !(error instanceof Refused)) throw error;
      // The result itself can still be kept when Pi's file cannot.
      this.say(context, `Pi's full output could not be archived: ${reasonOf(error)}`);
      await open.client.request("result_before", fields);
    }
  }

  /** The shorter content, or undefined for the result as it is. */
  private async shorten(open: Open, life: Life, event: ToolResult, context: Context): Promise<ToolResult["content"] | undefined> {
    const whole = textOf(event.content);
    const killed = wasKilled(life.note);
    const sourceCompleteness = killed ? "incomplete" : completenessOf(event);
    const ending = life.note;
    let content: ToolResult["content"] | undefined;
    let source: string | undefined;
    const keepText = (): Promise<unknown> =>
      open.client.request("result_text", { sourceCallId: life.id, text: whole, sourceCompleteness, capturedAtMs: Date.now() });
    try {
      const { capBytes, pruningEnabled } = await open.client.hello();
      const [only, ...more] = event.content;
      const ours = life.command !== undefined && commandOf(event.input) === life.command;
      if (pruningEnabled && ours && !life.wrapped && only && isText(only) && more.length === 0) {
        const fields = { command: life.command, text: whole, isError: event.isError, exitCode: exitCode(event) };
        const reduced = await open.client.request("reduce", { sourceCallId: life.id, ...fields, ending, sourceCompleteness }, DECISION_MS);
        if (reduced["changed"] === true) {
          if (reduced["needsResultText"] === true) await keepText();
          content = withText(event.content, String(reduced["content"]));
          source = String(reduced["source"]);
        }
      }
      const visible = textOf(content ?? event.content);
      if (capBytes > 0 && Buffer.byteLength(visible) > capBytes) {
        const summarised = source !== undefined;
        if (life.wrapped) source = "stdout";
        const exact = source === "stdout" || source === "source_output";
        const fields = { text: visible, source, ending, sourceCompleteness: exact && !killed ? "complete" : sourceCompleteness };
        const capped = await open.client.request("cap", { sourceCallId: life.id, ...fields }, DECISION_MS);
        if (capped["changed"] === true) {
          // A wrapped call's own streams come first; its visible text is a second way back.
          if (!summarised && (life.wrapped || capped["needsResultText"] === true)) await keepText();
          content = withText(event.content, String(capped["content"]));
        }
      }
    } catch (error) {
      if (error instanceof Off) throw error;
      this.say(context, `a result was not shortened: ${reasonOf(error)}`, error instanceof Late ? "late" : undefined);
    }
    return content;
  }

  /** Commits the end; resolves to the exact output when a wrapped call's end could not be. */
  private async finish(open: Open, life: Life, event: ToolExecutionEnd, context: Context): Promise<string | undefined> {
    const final = { sourceCallId: life.id, result: resultOf(event.result, event.isError), isError: event.isError };
    try {
      if (life.stage === "lost") return undefined;
      if (life.stage === "staged") {
        await open.client.request("update_final_result", { ...final, finishedAtMs: Date.now() });
        return undefined;
      }
      // It never reached its tool: unknown, malformed, or refused by another extension.
      if (!(await open.client.hello()).archiveEnabled) return undefined;
      if (life.stage === "pending") await this.begin(open, life, life.args, life.args, context);
      await open.client.request("finish_call", { ...final, requirePreResult: false, finishedAtMs: Date.now() });
    } catch (error) {
      if (error instanceof Off) this.sayOff(context, error);
      else this.say(context, `a final result could not be archived: ${reasonOf(error)}`);
      if (life.wrapped && life.stage === "staged") return this.restore(open, life, context);
    }
    return undefined;
  }

  /** The exact streams of a wrapped call, or undefined, and then that is said. */
  private async restore(open: Open, life: Life, context: Context): Promise<string | undefined> {
    try {
      return await this.exact(open, life);
    } catch (error) {
      this.say(context, `the exact output of a command could not be put back: ${reasonOf(error).split("\n")[0]}`);
      return undefined;
    }
  }

  /** What a killed command had printed; undefined when nobody commits it in time. */
  private async rescued(open: Open, life: Life): Promise<string | undefined> {
    const deadline = Date.now() + RESCUE_MS;
    while (Date.now() < deadline) {
      try {
        return await this.exact(open, life);
      } catch (error) {
        if ((error as { code?: unknown }).code === "ERR_CHILD_PROCESS_STDIO_MAXBUFFER") {
          return withNote(`[yarp: its output until then is archived: yarp read ${life.archiveRef} --tail 200]`, life.note);
        }
        await new Promise((resolve) => setTimeout(resolve, RESCUE_STEP_MS));
      }
    }
    return undefined;
  }

  /** The exact streams of a wrapped call, stdout first, with what Pi said about its end. */
  private exact(open: Open, life: Life): Promise<string> {
    const { agent, account, sourceSessionId } = open.session;
    const [command = "", ...words] = this.program;
    const ids = ["--archive-agent", agent, "--archive-account", account, "--archive-session", sourceSessionId, "--archive-call", life.id];
    const options = { cwd: "/", encoding: "utf8", timeout: RESTORE_MS, maxBuffer: RESTORE_BYTES } as const;
    return new Promise((resolve, reject) => {
      execFile(command, [...words, "archive", "restore", ...ids], options, (error, stdout, stderr) => {
        if (error) reject(error);
        else resolve(withNote(stdout + stderr, life.note));
      });
    });
  }

  private isOwnShell(): boolean {
    const tool = this.pi.getAllTools().find(({ name }) => name === SHELL_TOOL);
    return tool?.sourceInfo?.source === "builtin";
  }

  // -- saying --------------------------------------------------------------------------------

  /** YARP cannot work in this session; tools run as if it were not there. */
  private sayOff(context: Context, error: unknown): void {
    if (error instanceof Off) this.say(context, `off in this session: ${error.message}`, "off");
  }

  /** Tell the user; with a key, once. */
  say(context: Context, text: string, key?: string): void {
    if (key !== undefined && this.said.has(key)) return;
    if (key !== undefined) this.said.add(key);
    try {
      if (context.hasUI) {
        context.ui.notify(`[yarp] ${text}`, "warning");
        return;
      }
    } catch {
      // The session of this context is over.
    }
    console.error(`[yarp] ${text}`);
  }
}

/** Settles by itself in the end: no request to the model may wait for ever. */
function final(): Final {
  let settle: Final["resolve"] = () => {};
  const raw = new Promise<string | undefined>((resolve) => {
    settle = resolve;
  });
  const timer = setTimeout(() => settle(undefined), FINAL_MS);
  const resolve = (value: string | undefined): void => {
    clearTimeout(timer);
    settle(value);
  };
  return { raw, resolve };
}

/** `text` with Pi's own ending, apart from it as Pi writes it. */
function withNote(text: string, note: string): string {
  return text + (text && note && !note.startsWith("\n") ? "\n\n" : "") + note;
}

function withRaw(message: Message, raw: string): Message {
  return Array.isArray(message.content) ? { ...message, content: withText(message.content, raw) } : message;
}

function owners(): Map<string, Capture> {
  const holder = globalThis as unknown as Record<symbol, Map<string, Capture> | undefined>;
  return (holder[OWNERS] ??= new Map());
}

function account(): string {
  try {
    return userInfo().username;
  } catch {
    return String(process.getuid?.() ?? "unknown"); // a user without an entry in the password file
  }
}

/** How often each call id occurs in the session so far, all branches. */
function idsIn(context: Context): Map<string, number> {
  const used = new Map<string, number>();
  for (const { message } of context.sessionManager.getEntries()) {
    if (message?.role !== "assistant" || !Array.isArray(message.content)) continue;
    for (const block of message.content as { type?: unknown; id?: unknown }[]) {
      if (block.type !== "toolCall" || typeof block.id !== "string") continue;
      used.set(block.id, (used.get(block.id) ?? 0) + 1);
    }
  }
  return used;
}

/** Pi's id; with a number behind it where the session has used that id before. */
function archiveId(open: Open, toolCallId: string, parentId: string | undefined): string {
  const parent = parentId === undefined ? undefined : open.calls.get(parentId);
  if (parent && toolCallId.startsWith(`${parentId}/`)) return parent.id + toolCallId.slice(parentId!.length);
  const times = (open.used.get(toolCallId) ?? 0) + 1;
  open.used.set(toolCallId, times);
  const id = wellFormed(toolCallId) || "(no id)";
  return times === 1 ? id : `${id}#${times}`;
}

function commandOf(input: Record<string, unknown>): string | undefined {
  const command = input?.["command"];
  return typeof command === "string" && command.trim() ? command : undefined;
}

/** Names become columns: UTF-8 has no lone surrogates. */
function wellFormed(text: string | undefined): string {
  return (text ?? "").replace(/\p{Surrogate}/gu, "\ufffd");
}
