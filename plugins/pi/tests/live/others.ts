// A second extension: blocks what it is told to, and lets a test reload.
const word = import.meta.url.includes("/z-") ? "BLOCK-LATE" : "BLOCK-EARLY";

export default function (pi: any) {
  pi.on("tool_call", async (event: any) => {
    if (event.toolName === "bash" && event.input.command.includes(word)) return { block: true, reason: `not allowed: ${word}` };
  });
  if (word === "BLOCK-LATE") {
    pi.registerCommand("test-reload", { description: "Reload", handler: async (_: string, context: any) => void (await context.reload()) });
  }
}
