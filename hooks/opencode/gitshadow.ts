// gitshadow-managed: opencode
// Reports each prompt and tool call to gitshadow. It never throws: that would abort the tool.
import { spawnSync } from "node:child_process"

const COMMAND = "git-agent-undo"
const OPTIONS = { stdio: ["pipe", "ignore", "ignore"] as any, timeout: 3000 }
const ENDS = ["session.created", "session.deleted", "server.instance.disposed"]

export const GitshadowPlugin = async ({ directory, worktree }: any) => {
  const parents = new Map() // child session -> parent; only two events have both
  const send = (hook: string, input: any, output?: any) => {
    try {
      const about = input?.event?.properties ?? input
      const { id, parentID: parent } = about?.info ?? {}
      if (id && parent) parents.set(id, parent)
      const parentID = parents.get(about?.sessionID ?? id)
      const payload = JSON.stringify({ hook, input, output, directory, worktree, parentID })
      spawnSync(COMMAND, ["hook", "opencode"], { ...OPTIONS, cwd: directory, input: payload })
    } catch {}
  }
  return {
    "chat.message": async (input: any, output: any) => send("chat.message", input, output),
    "tool.execute.before": async (input: any, output: any) =>
      send("tool.execute.before", input, { args: output?.args }),
    "tool.execute.after": async (input: any, output: any) => {
      const child = input?.tool === "task" && output?.metadata?.sessionId
      if (child && child !== input.sessionID) parents.set(child, input.sessionID)
      send("tool.execute.after", input, { metadata: output?.metadata })
    },
    "shell.env": async (input: any, output: any) => {
      const session = input?.sessionID
      if (session && output?.env) output.env.GITSHADOW_OPENCODE_SESSION = session
    },
    event: async ({ event }: any = {}) => {
      const idle = event?.type === "session.status" && event.properties?.status?.type === "idle"
      if (idle || ENDS.includes(event?.type)) send("event", { event })
    },
  }
}
