/** Modules of handlers that do what a command cannot foresee. */
import { expect, it, onTestFinished } from "vitest"
import { folderWith, root, umbra } from "./umbra.ts"

const talks = `
import { defineHandler } from "${root}/dist/index.js"
console.log("loaded")
export const talk = defineHandler({ name: "talk", run: () => (console.info("running"), 1) })
`

function files() {
  const folder = folderWith({
    "flow.yaml": "name: flow\nnodes: [{ id: a, handler: talk }]\n",
    "talks.mjs": talks,
    "waits.mjs": "await new Promise(() => {})\n",
  })
  onTestFinished(folder.remove)
  return { cwd: folder.path }
}

it("S2 what a module prints is not among the JSON", async () => {
  const start = files()
  for (const command of [
    ["validate", "flow.yaml", "--json"],
    ["graph", "flow.yaml", "--format", "json"],
    ["run", "flow.yaml", "--json", "--data-dir", "data"],
  ]) {
    const { code, stdout, stderr } = await umbra([...command, "--handlers", "./talks.mjs"], start)
    expect({ code, shown: typeof JSON.parse(stdout) }, stderr).toEqual({ code: 0, shown: "object" })
    expect(stderr).toContain(command[0] === "run" ? "running" : "loaded")
  }
}, 60_000)

it("S2 a module that waits for what never comes is told of", async () => {
  const { code, stdout, stderr } = await umbra(
    ["validate", "flow.yaml", "--handlers", "./waits.mjs"],
    files(),
  )
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" })
  expect(stderr).toMatch(/^umbra: E602 .*never comes\.\n$/)
}, 60_000)
