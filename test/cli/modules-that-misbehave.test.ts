/** Modules of handlers that do what a command cannot foresee. */
import { expect, it, onTestFinished, vi } from "vitest"
import { validate } from "../../src/cli/commands/validate.ts"
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
    "exits.mjs": "process.exit(0)\n",
    "really-exits.mjs": "process.reallyExit(0)\n",
    "fails.mjs": "process.exit(3)\n",
    "really-fails.mjs": "process.reallyExit(3)\n",
    "throws-later.mjs": "setTimeout(() => { throw new Error('late') }); await new Promise(() => {})\n",
    "hangs.mjs": "setInterval(() => {}, 1000); await new Promise(() => {})\n",
    "exits-later.mjs": `
import { defineHandler } from "${root}/dist/index.js"
export const talk = defineHandler({ name: "talk", run: () => process.exit(0) })
`,
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
})

it("S2 a module that never finishes loading is reported", async () => {
  const { code, stdout, stderr } = await umbra(
    ["validate", "flow.yaml", "--handlers", "./waits.mjs"],
    files(),
  )
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" })
  expect(stderr).toMatch(/^umbra: E602 .*never settles\.\n$/)
})

it("S2 with --json a module that cannot be loaded is a problem in the JSON", async () => {
  const start = files()
  for (const [module, message] of [
    ["./waits.mjs", "never settles"],
    ["./exits.mjs", "process.exit"],
    ["./really-exits.mjs", "process.exit"],
    ["./fails.mjs", "exit code 3"],
    ["./really-fails.mjs", "exit code 3"],
    ["./missing.mjs", "missing.mjs"],
  ] as const) {
    const command = ["validate", "flow.yaml", "--json", "--handlers", module]
    const { code, stdout, stderr } = await umbra(command, start)
    expect({ code, stderr }, module).toEqual({ code: 2, stderr: "" })
    expect(JSON.parse(stdout), module).toEqual({
      valid: null,
      errors: [
        { code: "E602", message: expect.stringContaining(message), path: "", line: null, column: null },
      ],
    })
  }
})

it("S2 with --json an error that a module throws later is in the JSON too", async () => {
  const command = ["validate", "flow.yaml", "--json", "--handlers", "./throws-later.mjs"]
  const { code, stdout, stderr } = await umbra(command, files())
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining("Error: late") })
  expect(JSON.parse(stdout)).toMatchObject({ valid: null, errors: [{ code: "E602" }] })
})

it("S2 validate ends although a module never finishes loading", async () => {
  const { cwd } = files()
  const written = vi.spyOn(process.stdout, "write").mockReturnValue(true)
  onTestFinished(() => void vi.restoreAllMocks())
  const options = { json: true, handlers: [`${cwd}/hangs.mjs`] }
  expect(await validate(`${cwd}/flow.yaml`, options, 200)).toBe(2)
  expect(JSON.parse(String(written.mock.calls[0]![0]))).toMatchObject({
    valid: null,
    errors: [{ code: "E602", message: "the given modules are not loaded after 0.2 s." }],
  })
  await expect(validate(`${cwd}/flow.yaml`, { ...options, json: false }, 200)).rejects.toThrow("0.2 s")
})

it("S2 a module that ends the process does not make the command succeed", async () => {
  const start = files()
  for (const command of [
    ["validate", "flow.yaml", "--handlers", "./exits.mjs"],
    ["validate", "flow.yaml", "--handlers", "./really-exits.mjs"],
    ["validate", "flow.yaml", "--handlers", "./talks.mjs", "--providers", "./exits.mjs"],
    ["run", "flow.yaml", "--handlers", "./talks.mjs", "--adapters", "./exits.mjs", "--data-dir", "data"],
    ["graph", "flow.yaml", "--handlers", "./exits.mjs"],
    ["run", "flow.yaml", "--handlers", "./exits.mjs", "--data-dir", "data"],
    ["run", "flow.yaml", "--handlers", "./exits-later.mjs", "--data-dir", "data"],
    ["push", "flow.yaml", "--handlers", "./exits.mjs", "--data-dir", "data"],
    ["serve", "--port", "0", "--handlers", "./exits.mjs", "--data-dir", "data"],
    ["worker", "--handlers", "./exits.mjs", "--redis-url", "redis://127.0.0.1:1"],
  ]) {
    const { code, stderr } = await umbra(command, start)
    expect({ command, code, stderr }).toEqual({
      command,
      code: 2,
      stderr: expect.stringContaining(
        "umbra: E602 a given module called process.exit before the command had finished",
      ),
    })
  }
})
