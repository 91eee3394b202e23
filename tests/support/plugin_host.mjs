// The side of an agent that a plug-in sees: loads it, calls its hooks as the agent would and
// reports what they returned. Steps come as JSON on standard input.
import { execFileSync } from "node:child_process"
import { readFileSync, renameSync, writeFileSync } from "node:fs"
import { pathToFileURL } from "node:url"

const { agent, plugin, directory, broken, steps, session_id = "pi-1" } = JSON.parse(
  readFileSync(0, "utf-8"),
)
const module = await import(pathToFileURL(plugin))
const handlers = {}
const on = (name, handler) => { handlers[name] = handler }
const broke = () => { throw new Error("the host is of another version") }

const hosts = {
  opencode: async () => {
    const [plug, ...more] = Object.values(module) // every export is taken for a plug-in
    if (more.length) throw new Error("more than one plug-in")
    Object.assign(handlers, await plug({ directory, worktree: directory, client: {} }))
  },
  amp: async () => {
    const uris = (event) => (event.input?.path ? [pathToFileURL(event.input.path)] : null)
    const helpers = { filesModifiedByToolCall: broken ? broke : uris }
    module.default({ on, helpers, system: { workspaceRoot: pathToFileURL(directory) } })
  },
  pi: async () => module.default({ on }),
}
const session = {
  getSessionId: () => session_id,
  getSessionFile: () => `/home/dev/${session_id}.jsonl`,
}
const contexts = {
  opencode: [],
  amp: [{ logger: {} }],
  pi: [{ cwd: directory, sessionManager: broken ? { getSessionId: broke } : session }],
}

await hosts[agent]()
const results = []
for (const { hook, args, write, rename, shell } of steps) {
  if (write) writeFileSync(...write)
  else if (rename) renameSync(...rename)
  else if (shell) execFileSync("/bin/sh", ["-c", shell])
  else results.push({ hook, result: await handlers[hook](...args, ...contexts[agent]), args })
}
process.stdout.write(JSON.stringify(results))
