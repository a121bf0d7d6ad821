import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { until } from "../engine/stage.ts"
import { fakeProvider, make } from "../provider/stage.ts"
import { freshDatabase } from "../support/services.ts"
import { umbra } from "./same-process.ts"
import { folderWith, startUmbra } from "./umbra.ts"

async function place() {
  const database = await freshDatabase()
  const fake = await fakeProvider()
  const folder = folderWith({
    "film.json": JSON.stringify(make()),
    "fake.yaml": JSON.stringify({ ...fake.definition(), poll_seconds: [0.05] }),
    "none.yaml": "[]",
  })
  onTestFinished(async () => {
    folder.remove()
    await database.drop()
  })
  const path = (name: string) => join(folder.path, name)
  return { fake, path, store: ["--database-url", database.url] }
}

const secret = { env: { UMBRA_PROVIDER_SECRET_FAKE_PROVIDER_SECRET: "fake-provider-secret" } }

describe("--providers", () => {
  it("umbra run has a provider of a YAML file do a node's work, and says what it waits for", async () => {
    const { fake, path, store } = await place()
    const flags = ["--providers", path("fake.yaml"), "--allow-private-addresses", ...store]
    const running = startUmbra(["run", path("film.json"), ...flags], secret)
    await running.wrote(/waits for provider fake/)
    for (const id of fake.operations.keys()) fake.complete(id)
    const { code, stdout } = await running.ended
    expect({ code, stdout }).toMatchObject({ code: 0 })
    expect(stdout).toContain("COMPLETED")
  })

  it("umbra resume says which provider is missing, and finishes with it", async () => {
    const { fake, path, store } = await place()
    const given = ["--providers", path("fake.yaml"), "--allow-private-addresses"]
    const running = startUmbra(["run", path("film.json"), ...given, ...store], secret)
    await running.wrote(/waits for provider fake/)
    running.kill("SIGKILL")
    await running.ended
    const [job] = JSON.parse((await umbra(["jobs", "list", "--json", ...store])).stdout).jobs
    const shown = (await umbra(["jobs", "show", job.job_id, ...store])).stdout
    expect(shown).toMatch(/waits for op-\S+ of provider fake, next poll at/)
    for (const id of fake.operations.keys()) fake.complete(id)
    const { code, stdout } = await umbra(["resume", "--json", ...given, ...store], secret)
    expect({ code, jobs: JSON.parse(stdout).jobs }).toMatchObject({
      code: 0,
      jobs: [{ status: "COMPLETED" }],
    })
    expect([...fake.operations.values()].map(({ submissions }) => submissions)).toEqual([1])
  })

  it("umbra submit --wait and umbra jobs retry --wait run nodes with it too", async () => {
    const { fake, path, store } = await place()
    const given = ["--providers", path("fake.yaml"), "--allow-private-addresses", ...store]
    expect((await umbra(["push", path("film.json"), ...store])).code).toBe(0)
    const submitted = startUmbra(["submit", "make", "--wait", ...given], secret)
    await submitted.wrote(/waits for provider fake/)
    const [job] = JSON.parse((await umbra(["jobs", "list", "--json", ...store])).stdout).jobs
    expect((await umbra(["jobs", "cancel", job.job_id, ...store])).code).toBe(0)
    expect((await submitted.ended).code).toBe(1)
    const retried = startUmbra(["jobs", "retry", job.job_id, "--wait", ...given], secret)
    await until("it was submitted again", () => fake.operations.size === 2, 60_000)
    for (const id of fake.operations.keys()) fake.complete(id)
    expect(await retried.ended).toMatchObject({ code: 0, stdout: expect.stringContaining("COMPLETED") })
    // Five processes, one after the other.
  })

  it("umbra validate warns of a provider that is not among them, and finds the workflow valid", async () => {
    const { path } = await place()
    const other = make().nodes.map(node => ({ ...node, provider: "fame" }))
    const stdin = JSON.stringify({ ...make(), nodes: [...make(["a"]).nodes, ...other] })
    const given = ["--providers", path("fake.yaml")]
    const { code, stdout } = await umbra(["validate", "-", ...given], { stdin })
    expect({ code, stdout }).toMatchObject({ code: 0 })
    expect(stdout).toMatch(/is valid.*\nwarning: node "film" uses provider "fame".*\(fake\)/)
    const json = await umbra(["validate", "-", "--json", ...given], { stdin })
    expect(JSON.parse(json.stdout)).toMatchObject({ valid: true, errors: [], warnings: { length: 1 } })
    expect(JSON.parse((await umbra(["validate", "-", "--json"], { stdin })).stdout)).toEqual({
      valid: true,
      errors: [],
    })
  })

  it("umbra run refuses a node whose provider it was not given, and stores nothing", async () => {
    const { path, store } = await place()
    const { code, stderr } = await umbra(["run", path("film.json"), ...store])
    expect({ code, stderr }).toMatchObject({ code: 2 })
    expect(stderr).toMatch(/E660 Node "film" uses provider "fake", .*--providers/)
  })

  it("refuses a file without providers", async () => {
    const { path, store } = await place()
    const { code, stderr } = await umbra([
      "run",
      path("film.json"),
      "--providers",
      path("none.yaml"),
      ...store,
    ])
    expect({ code, stderr }).toMatchObject({ code: 2 })
    expect(stderr).toMatch(/E605 .*has no provider/)
  })
})
