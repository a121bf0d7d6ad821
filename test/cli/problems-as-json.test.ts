/** With `--json` the problems of a workflow are what the server answers, wherever they are found. */
import { expect, it, onTestFinished } from "vitest"
import { openStage } from "../server/stage.ts"
import { umbra } from "./same-process.ts"
import { folderWith } from "./umbra.ts"

const wrong = `name: hello
nodes:
  - id: greet
    handler: transfrom
    config: { value: "Hello {{ input.name }}" }
`

it("S2 with --json problems are on standard output, as the server answers them", async () => {
  const stage = await openStage()
  onTestFinished(() => stage.close())
  const files = folderWith({ "wrong.yaml": wrong })
  onTestFinished(files.remove)
  const headers = { "content-type": "application/yaml" }
  const { body: expected } = await stage.ask("/workflows", { method: "POST", headers, body: wrong })
  expect(expected).toMatchObject({ status: 422, code: "E103", errors: [{ line: 4, column: 14 }] })
  for (const command of [
    ["push", "wrong.yaml", "--server", stage.server.url],
    ["push", "wrong.yaml", "--data-dir", "data"],
    ["run", "wrong.yaml", "--data-dir", "data"],
    ["graph", "wrong.yaml"],
  ]) {
    const { code, stdout, stderr } = await umbra([...command, "--json"], { cwd: files.path })
    expect({ code, stderr }, command.join(" ")).toEqual({ code: 2, stderr: "" })
    const { errors, ...document } = JSON.parse(stdout)
    expect({ ...document, errors: [] }, command.join(" ")).toEqual({ ...expected, errors: [] })
    expect(errors).toMatchObject([{ code: "E103", path: "nodes[0].handler", line: 4, column: 14 }])
  }
})
