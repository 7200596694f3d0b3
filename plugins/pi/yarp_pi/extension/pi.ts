/** What this extension uses of Pi's public extension API, as Pi 0.73 and 1.x have it. */

export interface Block {
  type: string;
  text?: string;
}

/** The parts of a result that the archive keeps; absent ones stay absent. */
export interface Result {
  content: Block[];
  details?: unknown;
  /** 1.x only. */
  structuredContent?: unknown;
  /** 1.x only: what the tool itself spent on models. */
  usage?: unknown;
}

export interface ToolExecutionStart {
  toolCallId: string;
  toolName: string;
  args: unknown;
  /** 1.x only: the call that issued this one, for example a script. */
  parentToolCallId?: string;
}

export interface ToolCall {
  toolCallId: string;
  toolName: string;
  /** Mutable: what it holds after the handlers is what runs. */
  input: Record<string, unknown>;
  parentToolCallId?: string;
}

export interface ToolResult extends Result {
  toolCallId: string;
  toolName: string;
  input: Record<string, unknown>;
  isError: boolean;
}

export interface ToolExecutionEnd {
  toolCallId: string;
  toolName: string;
  result: Result;
  isError: boolean;
}

export interface Message {
  role: string;
  toolCallId?: string;
  content?: unknown;
}

export interface MessageEnd {
  message: Message;
}

/** Before each request to the model: a copy of what it will be given. */
export interface ContextEvent {
  messages: Message[];
}

export interface Context {
  cwd: string;
  hasUI: boolean;
  model: { provider: string; id: string } | undefined;
  ui: { notify(text: string, kind: "info" | "warning" | "error"): void };
  sessionManager: {
    getSessionId(): string;
    getHeader?(): { timestamp?: string } | null;
    getEntries(): readonly { type: string; message?: Message }[];
  };
}

export interface Events {
  session_start: unknown;
  session_shutdown: unknown;
  tool_execution_start: ToolExecutionStart;
  tool_call: ToolCall;
  tool_result: ToolResult;
  tool_execution_end: ToolExecutionEnd;
  message_end: MessageEnd;
  context: ContextEvent;
}

export interface Pi {
  on<Name extends keyof Events>(
    name: Name,
    handler: (event: Events[Name], context: Context) => unknown,
  ): unknown;
  getAllTools(): { name: string; sourceInfo?: { source?: string } }[];
}
