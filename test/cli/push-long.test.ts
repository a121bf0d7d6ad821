/** `umbra push` of documents that a server does not read as YAML. */
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { openStage, type Stage } from "../server/stage.ts"
import { umbra } from "./same-process.ts"
import { type Ended, folderWith } from "./umbra.ts"

const files = folderWith({})
const path = (name: string) => join(files.path, name)
afterAll(() => files.remove())

describe("long documents on a server", () => {
  let stage: Stage
  let env: Record<string, string>
  beforeAll(async () => {
    stage = await openStage({ withTokens: true })
    env = { UMBRA_SERVER: stage.server.url, UMBRA_TOKEN: await stage.token("ada", "admin") }
  })
  afterAll(() => stage?.close())

  const run = (...parameters: string[]): Promise<Ended> => umbra(parameters, { env, cwd: files.path })
  const json = async (...parameters: string[]) => JSON.parse((await run(...parameters, "--json")).stdout)

  it("push converts long YAML, which a server does not read, and shows its problems where they are", async () => {
    const node = (i: number, handler: string) =>
      `  - id: n${i}\n    handler: ${handler}\n    config:\n      value: ${i} # a comment\n`
    const written = (handler: string) =>
      `name: long\nnodes:\n${Array.from({ length: 500 }, (_, i) => node(i, i === 321 ? handler : "transform")).join("")}`
    writeFileSync(path("long.yaml"), written("transform"))
    expect(await json("push", "long.yaml")).toMatchObject({ name: "long", version: 1 })
    writeFileSync(path("long-wrong.yaml"), written("transfrom"))
    const wrong = await run("push", "long-wrong.yaml")
    expect(wrong).toMatchObject({ code: 2, stdout: "" })
    expect(wrong.stderr).toContain(`long-wrong.yaml:${3 + 321 * 4 + 1}:14 error E103  at nodes[321].handler`)
    writeFileSync(path("long-broken.yaml"), `${written("transform")}  - [`)
    expect((await run("push", "long-broken.yaml")).stderr).toContain("Not valid YAML")
    writeFileSync(
      path("long-wrong.json"),
      JSON.stringify({
        name: "many",
        nodes: Array.from({ length: 600 }, (_, i) => ({ id: `n${i}`, handler: "nothing" })),
      }),
    )
    const many = await run("push", "long-wrong.json")
    expect(many.stderr).toContain("… and 500 more\n\n✗ long-wrong.json: 600 problems")
  })
})
