// @i-know-the-amp-plugin-api-is-wip-and-very-experimental-right-now
// gitshadow-managed: amp
// Reports each prompt and tool call to gitshadow. It allows every call and never throws.
import { spawnSync } from "node:child_process"

const COMMAND = "git-agent-undo"
const OPTIONS = { stdio: ["pipe", "ignore", "ignore"] as any, timeout: 3000 }
const FIELDS = ["toolUseID", "tool", "input", "status", "error", "message", "id"]

export default function (amp: any) {
  const files = (event: any) => {
    try {
      return (amp.helpers.filesModifiedByToolCall(event) ?? []).map(String)
    } catch {}
  }
  const send = (hook: string, event: any) => {
    try {
      const root = String(amp.system?.workspaceRoot ?? process.cwd())
      const cwd = root.startsWith("file:") ? decodeURIComponent(new URL(root).pathname) : root
      const fields = Object.fromEntries(FIELDS.map((name) => [name, event?.[name]]))
      const kept = { ...fields, thread: { id: event?.thread?.id } }
      const input = JSON.stringify({ hook, event: kept, files: files(event), cwd })
      spawnSync(COMMAND, ["hook", "amp"], { ...OPTIONS, cwd, input })
    } catch {}
  }
  amp.on("session.start", (event: any) => send("session.start", event))
  amp.on("agent.start", (event: any) => (send("agent.start", event), {}))
  amp.on("tool.call", (event: any) => (send("tool.call", event), { action: "allow" }))
  amp.on("tool.result", (event: any) => send("tool.result", event))
  amp.on("agent.end", (event: any) => send("agent.end", event))
}
