/** What a result of Pi says: its text, how complete that is, how the command ended. */
import type { Block, Result, ToolResult } from "./pi.ts";

export type Completeness = "complete" | "incomplete" | "unknown";

/** The parts of a result that are archived, the same ones before and after. */
export function resultOf(result: Result, isError: boolean): Record<string, unknown> {
  const { content, details, structuredContent, usage } = result;
  return { content, details, structuredContent, usage, isError };
}

export function isText(block: Block): block is Block & { text: string } {
  return block.type === "text" && typeof block.text === "string";
}

/** The ordered text of all text blocks, nothing in between. */
export function textOf(content: readonly Block[]): string {
  return content.filter(isText).map((block) => block.text).join("");
}

/** `content` with `text` in the place of its first text block and no other text; images stay. */
export function withText(content: readonly Block[], text: string): Block[] {
  const first = content.findIndex(isText);
  const blocks = content.filter((block, index) => index === first || !isText(block));
  return blocks.map((block) => (isText(block) ? { ...block, text } : block));
}

/** Where Pi's own shell keeps the whole output: a structured field, never the text. */
export function fullOutputPath(result: Result): string | undefined {
  const path = field(result.details, "fullOutputPath") ?? field(result.structuredContent, "full_output_path");
  return typeof path === "string" && path ? path : undefined;
}

export function exitCode(result: Result): number | undefined {
  const code = field(result.structuredContent, "exit_code");
  return typeof code === "number" && Number.isInteger(code) ? code : undefined;
}

/** Whether the visible text is all that the tool printed, as far as Pi says so. */
export function completenessOf(event: ToolResult): Completeness {
  const shown = field(field(event.details, "truncation"), "truncated");
  const structured = field(event.structuredContent, "truncated");
  if (shown === true || structured === true) return "incomplete";
  // Pi 0.73 tells of a cut only in the text once a command has failed.
  if (event.isError && /\[Showing [^\n]* Full output: [^\n]*\]/.test(textOf(event.content))) return "incomplete";
  return shown === false || structured === false ? "complete" : "unknown";
}

const NOTE =
  /(?:^|\n\n)Command (?:exited with code \d+|timed out after [\d.]+ seconds(?:\. The shell exited with code [^\n]*)?|aborted|terminated without an exit code)$/;

/** What Pi itself appended about the end of a command; "" if nothing. */
export function statusNote(text: string): string {
  return NOTE.exec(text)?.[0] ?? "";
}

/** The status in such a note. */
export function exitedWith(note: string): number | undefined {
  const [, code] = /with code (\d+)$/.exec(note) ?? [];
  return code === undefined ? undefined : Number(code);
}

/** Whether the command, and `yarp run` with it, was ended from outside. */
export function wasKilled(note: string): boolean {
  return /timed out|aborted|terminated/.test(note);
}

function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
