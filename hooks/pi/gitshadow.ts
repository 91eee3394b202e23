// gitshadow-managed: pi
// Reports each prompt and tool call to gitshadow. It never throws and makes no decisions.
import { spawnSync } from "node:child_process"

const COMMAND = "git-agent-undo"
const OPTIONS = { stdio: ["pipe", "ignore", "ignore"] as any, timeout: 3000 }
const FIELDS = ["reason", "prompt", "toolName", "toolCallId", "input", "isError"]
const EVENTS = ["session_start", "before_agent_start", "tool_call", "tool_result", "agent_end"]

export default function (pi: any) {
  const ask = (ctx: any, method: string) => {
    try {
      return ctx.sessionManager[method]()
    } catch {}
  }
  const send = (hook: string, event: any, ctx: any) => {
    try {
      const kept = Object.fromEntries(FIELDS.map((name) => [name, event?.[name]]))
      const cwd = ctx?.cwd ?? process.cwd()
      const [session_id, session_file] = [ask(ctx, "getSessionId"), ask(ctx, "getSessionFile")]
      const input = JSON.stringify({ hook, event: kept, ctx: { cwd, session_id, session_file } })
      spawnSync(COMMAND, ["hook", "pi"], { ...OPTIONS, cwd, input })
    } catch {}
  }
  for (const name of [...EVENTS, "session_shutdown"])
    pi.on(name, async (event: any, ctx: any) => send(name, event, ctx))
}
