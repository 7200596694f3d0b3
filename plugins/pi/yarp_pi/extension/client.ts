/**
 * Speaks to one `yarp archive ingest` child: frames out, one JSON line an answer back.
 *
 * One request is on its way at a time, in the order of asking. A transport failure (the child
 * ends, a broken pipe, no answer in time, an answer that is none) starts the child again once
 * and sends the very same frame; what was answered, refused or too large is never sent again.
 */
import { spawn, type ChildProcess } from "node:child_process";

export const PROTOCOL = 1;
const SCHEMA_VERSION = 1;
const MAX_FRAME_BYTES = 256 * 1024 * 1024;
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;
const STDERR_TAIL = 64 * 1024;

/** Milliseconds; tests shorten them. */
export interface Patience {
  answer: number;
  stop: number;
  close: number;
}
export const PATIENCE: Patience = { answer: 30_000, stop: 2_000, close: 5_000 };

export interface Session {
  agent: string;
  account: string;
  sourceSessionId: string;
  startedAtMs?: number;
}

export interface Settings {
  archiveEnabled: boolean;
  pruningEnabled: boolean;
  capBytes: number;
}

export type Answer = Record<string, unknown>;

/** The writer answered, and said no. */
export class Refused extends Error {}
/** No answer could be had, after one restart. */
export class Failed extends Error {}
/** The answer did not come within the caller's own deadline. */
export class Late extends Error {}
/** YARP cannot work here at all: not startable, a broken configuration, another protocol. */
export class Off extends Error {}

interface Job {
  id: number;
  operation: string;
  frame: Buffer;
  settled: boolean;
  resolve(answer: Answer): void;
  reject(error: Error): void;
}

export class IngestClient {
  private readonly program: readonly string[];
  private readonly session: Session;
  private readonly patience: Patience;
  private readonly queue: Job[] = [];
  private lastId = 0;
  private writer: Writer | undefined;
  private working: Promise<void> | undefined;
  private current: Job | undefined;
  private closing = false;
  private settings: Promise<Settings> | undefined;
  private off: Off | undefined;

  /** `program`: the words that start `yarp`, the first one an absolute path. */
  constructor(program: readonly string[], session: Session, patience: Patience = PATIENCE) {
    this.program = program;
    this.session = session;
    this.patience = patience;
  }

  /** What the running YARP is configured to do; starts the child. Rejects with Off or Failed. */
  hello(): Promise<Settings> {
    this.settings ??= this.request("hello", {}).then(settingsOf, (error: unknown) => {
      this.settings = undefined; // the next call asks again
      throw error;
    });
    return this.settings;
  }

  /**
   * The answer to one operation. Rejects with Refused, Failed, Off, or Late when
   * `deadlineMs` passes first: give one only to operations that commit nothing.
   */
  request(operation: string, fields: object, deadlineMs?: number): Promise<Answer> {
    if (this.off) return Promise.reject(this.off);
    if (this.closing) return Promise.reject(new Failed("the session is closing"));
    const id = ++this.lastId;
    let frame: Buffer;
    try {
      frame = frameOf({
        operation,
        requestId: id,
        schemaVersion: SCHEMA_VERSION,
        session: this.session,
        ...fields,
      });
    } catch (error) {
      return Promise.reject(new Refused(`${operation} cannot be sent: ${reasonOf(error)}`));
    }
    return new Promise<Answer>((resolve, reject) => {
      let timer: NodeJS.Timeout | undefined;
      const job: Job = {
        id,
        operation,
        frame,
        settled: false,
        resolve: (answer) => settle(() => resolve(answer)),
        reject: (error) => settle(() => reject(error)),
      };
      const settle = (finish: () => void): void => {
        if (job.settled) return;
        job.settled = true;
        clearTimeout(timer);
        finish();
      };
      if (deadlineMs !== undefined) {
        timer = setTimeout(() => {
          job.reject(new Late(`${operation} took longer than ${deadlineMs} ms`));
          // A child that is busy with it would only hold up what must be committed.
          if (this.current === job) this.writer?.fail("it was too slow");
        }, deadlineMs);
      }
      this.queue.push(job);
      this.working ??= this.work();
    });
  }

  /** Take no more requests, finish those asked for, and end the child. */
  async close(): Promise<void> {
    this.closing = true;
    if (this.working) {
      await within(this.patience.close, this.working);
      this.reject(new Failed("the session closed before the archive writer answered"));
    }
    await this.stop(true);
  }

  private reject(error: Error): void {
    for (const job of [this.current, ...this.queue.splice(0)]) job?.reject(error);
  }

  private async work(): Promise<void> {
    // The promise must be stored before the first job is done.
    await Promise.resolve();
    for (let job = this.queue.shift(); job; job = this.queue.shift()) {
      this.current = job;
      if (!job.settled) await this.serve(job);
      this.current = undefined;
    }
    // In the same turn that found the queue empty, or a request could fall in between.
    this.working = undefined;
  }

  private async serve(job: Job): Promise<void> {
    const reasons: string[] = [];
    while (!job.settled && reasons.length < 2) {
      try {
        const answer = await this.exchange(job);
        if (answer["ok"] === true) job.resolve(answer);
        else job.reject(new Refused(String(answer["error"])));
      } catch (error) {
        await this.stop(false);
        if (error instanceof Off) {
          this.off = error;
          job.reject(error);
          this.reject(error);
        }
        reasons.push(reasonOf(error));
      }
    }
    const [first, second] = reasons;
    job.reject(new Failed(`the archive writer failed after a restart: ${first}; ${second}`));
  }

  /** A fresh child must say hello before anything else, so that a restart is judged like a start. */
  private async exchange(job: Job): Promise<Answer> {
    if (!this.writer) {
      this.writer = new Writer(this.program);
      if (job.operation !== "hello") {
        const hello = frameOf({
          operation: "hello",
          requestId: ++this.lastId,
          schemaVersion: SCHEMA_VERSION,
          session: this.session,
        });
        judge(await this.writer.exchange(this.lastId, hello, this.patience.answer));
      }
    }
    const answer = await this.writer.exchange(job.id, job.frame, this.patience.answer);
    if (job.operation === "hello") judge(answer);
    return answer;
  }

  private async stop(politely: boolean): Promise<void> {
    const writer = this.writer;
    this.writer = undefined;
    await writer?.stop(politely, this.patience.stop);
  }
}

/** Throws Off unless this is the hello of a YARP that this extension can work with. */
function judge(hello: Answer): void {
  if (hello["ok"] !== true) throw new Off(String(hello["error"]));
  if (hello["protocol"] !== PROTOCOL) {
    throw new Off(
      `this extension speaks protocol ${PROTOCOL}, the program ${String(hello["protocol"])}; ` +
        "bring them together with: yarp install pi",
    );
  }
}

function settingsOf(hello: Answer): Settings {
  return {
    archiveEnabled: hello["archiveEnabled"] !== false,
    pruningEnabled: hello["pruningEnabled"] !== false,
    capBytes: Number(hello["capBytes"] ?? 0),
  };
}

/** JSON with an unsigned 8-byte big-endian length in front. */
export function frameOf(request: object): Buffer {
  // JSON.stringify escapes lone surrogates, so the text is always valid UTF-8.
  const body = JSON.stringify(request);
  const length = Buffer.byteLength(body);
  if (length > MAX_FRAME_BYTES) {
    throw new Error(`it takes ${length} bytes, more than the ${MAX_FRAME_BYTES} of a frame`);
  }
  const frame = Buffer.allocUnsafe(8 + length);
  frame.writeBigUInt64BE(BigInt(length));
  frame.write(body, 8);
  return frame;
}

/** One running child. */
class Writer {
  private readonly child: ChildProcess;
  private readonly gone: Promise<void>;
  private pending: { id: number; resolve(answer: Answer): void; reject(error: Error): void } | undefined;
  private broken: Error | undefined;
  private answered = false;
  private partial: Buffer[] = [];
  private partialBytes = 0;
  private stderrTail = "";

  constructor(program: readonly string[]) {
    const [command = "", ...words] = program;
    // The root directory always exists; the one Pi was started in may be gone.
    this.child = spawn(command, [...words, "archive", "ingest"], { cwd: "/", stdio: "pipe" });
    this.child.stdout?.on("data", (chunk: Buffer) => this.receive(chunk));
    this.child.stderr?.on("data", (chunk: Buffer) => {
      this.stderrTail = (this.stderrTail + chunk.toString()).slice(-STDERR_TAIL);
    });
    this.child.stdin?.on("error", () => {}); // the exit tells more than a broken pipe
    this.gone = new Promise((resolve) => {
      this.child.once("error", (error) => {
        if (this.child.pid !== undefined) return; // it runs; a signal could not be sent
        this.break(new Off(`${command} cannot be started: ${error.message}`));
        resolve();
      });
      this.child.once("exit", (status, signal) => {
        // What it wrote last is still in the pipes; a grandchild may keep them open.
        const done = setTimeout(() => finish(), 200);
        const finish = (): void => {
          clearTimeout(done);
          this.break(this.ended(status, signal));
          resolve();
        };
        this.child.once("close", finish);
      });
    });
  }

  /** Send a frame and wait for the answer of its id. */
  exchange(id: number, frame: Buffer, answerMs: number): Promise<Answer> {
    if (this.broken) return Promise.reject(this.broken);
    return new Promise<Answer>((resolve, reject) => {
      const timer = setTimeout(() => this.fail(`no answer within ${answerMs} ms`), answerMs);
      const settle = (): void => {
        clearTimeout(timer);
        this.pending = undefined;
      };
      this.pending = {
        id,
        resolve: (answer) => {
          settle();
          this.answered = true;
          resolve(answer);
        },
        reject: (error) => {
          settle();
          reject(error);
        },
      };
      this.child.stdin?.write(frame);
    });
  }

  /** Give this child up. */
  fail(reason: string): void {
    this.break(new Error(reason));
    this.child.kill("SIGTERM");
  }

  /** Returns when the child is gone; `politely` lets it finish first. */
  async stop(politely: boolean, stopMs: number): Promise<void> {
    if (politely) this.child.stdin?.end();
    else this.child.kill("SIGTERM");
    if (await within(stopMs, this.gone)) return;
    this.child.kill(politely ? "SIGTERM" : "SIGKILL");
    if (await within(stopMs, this.gone)) return;
    this.child.kill("SIGKILL");
  }

  private break(error: Error): void {
    this.broken ??= error;
    this.pending?.reject(this.broken);
  }

  /** Why it ended. One that never answered and blames no file of ours cannot work here at all. */
  private ended(status: number | null, signal: string | null): Error {
    const last = this.stderrTail.trim().split("\n").pop()?.slice(0, 500);
    const how = signal ? `was ended by ${signal}` : `ended with status ${status}`;
    const reason = last ? `it ${how} (${last})` : `it ${how}`;
    const archiveIsToBlame = signal !== null || [65, 70, 74].includes(status ?? 0);
    return this.answered || archiveIsToBlame ? new Error(reason) : new Off(`yarp: ${reason}`);
  }

  private receive(chunk: Buffer): void {
    let rest = chunk;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      const line = Buffer.concat([...this.partial, rest.subarray(0, end)]);
      this.partial = [];
      this.partialBytes = 0;
      rest = rest.subarray(end + 1);
      this.take(line.toString());
    }
    if (rest.length === 0) return;
    this.partial.push(rest);
    this.partialBytes += rest.length;
    if (this.partialBytes > MAX_ANSWER_BYTES) this.fail("its answer is too long");
  }

  private take(line: string): void {
    let answer: Answer;
    try {
      answer = JSON.parse(line) as Answer;
      if (typeof answer !== "object" || typeof answer["ok"] !== "boolean") throw new Error();
    } catch {
      this.fail("it answered with something else than an acknowledgement");
      return;
    }
    // Answers to what nobody waits for any more are passed over.
    if (this.pending?.id === answer["requestId"]) this.pending?.resolve(answer);
  }
}

/** Whether `promise` settles within `ms`. */
async function within(ms: number, promise: Promise<unknown>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), ms);
  });
  try {
    return await Promise.race([promise.then(() => true), late]);
  } finally {
    clearTimeout(timer);
  }
}

export function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
