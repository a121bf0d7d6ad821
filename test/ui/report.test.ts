/** A replay file from a disk, without a network: the same states at every moment as the server has. */
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import fc from "fast-check"
import type { Page } from "playwright-core"
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest"
import { seed } from "../support/seed.ts"
import { everything, openUiStage, shownAfter, type UiStage } from "./ui-stage.ts"

let stage: UiStage
let folder: string

beforeAll(async () => {
  stage = await openUiStage()
  folder = await mkdtemp(join(tmpdir(), "umbra-report-"))
})
afterAll(async () => {
  await stage?.close()
  await rm(folder, { recursive: true, force: true })
})

/** All texts of the page, attributes included. */
const textOf = (page: Page) => page.evaluate(() => document.documentElement.outerHTML)

it("no secret is in the page, whatever is opened, nor in a file with all payloads", async () => {
  vi.stubEnv("UMBRA_SECRET_TILL", "tea-and-coffee-4711")
  onTestFinished(() => void vi.unstubAllEnvs())
  const job = await stage.start({
    name: "secret",
    nodes: [
      { id: "a", handler: "pick", config: { value: "{{ secrets.TILL }}" } },
      {
        id: "b",
        handler: "fails",
        retry: { max_attempts: 1 },
        config: { message: "refused {{ secrets.TILL }}" },
      },
    ],
  })
  await stage.umbra.wait(job)
  const { page, close } = await stage.open(null)
  onTestFinished(close)
  for (const [node, tab, selector] of [
    ["a", "Config", ".jr"],
    ["a", "Output", ".jr"],
    ["b", "Why", ".errbox"],
    ["b", "Attempts", ".att"],
    ["b", "Logs", ".lg"],
  ] as const) {
    await page.goto(`${stage.url}/ui/jobs/${job}?node=${node}&tab=${tab}`)
    await page.waitForSelector(`.drawer ${selector}`)
    expect(await textOf(page), tab).not.toContain("tea-and-coffee")
  }
  const { body } = await stage.ask(`/jobs/${job}/report?payloads=full`)
  expect(body).toContain('id="umbra-data"')
  expect(body).not.toContain("tea-and-coffee")
})

describe("a replay file", () => {
  it("opens from a disk, shows what the server shows at 50 moments, and makes no request", async () => {
    const secret = "payload that is longer than a preview ".repeat(60)
    const job = await stage.start(everything, {
      list: ["a", "b", secret, "</script><script>window.hit=1</script>"],
    })
    await stage.umbra.wait(job)
    const answer = await stage.ask(`/jobs/${job}/report`)
    expect(answer.status).toBe(200)
    const file = join(folder, "job.html")
    await writeFile(file, answer.body)
    const context = await stage.browser.newContext({ offline: true, viewport: { width: 1440, height: 900 } })
    onTestFinished(() => context.close())
    const page = await context.newPage()
    const problems: string[] = []
    const requests: string[] = []
    page.on("pageerror", error => problems.push(error.message))
    page.on("console", message => message.type() === "error" && problems.push(message.text()))
    page.on("request", request => requests.push(request.url()))
    await page.goto(`${pathToFileURL(file)}#?panel=none`)
    await page.waitForSelector(".node")
    const { facts } = (await stage.ask(`/jobs/${job}/facts?limit=1000`)).body
    const moments = fc.sample(fc.integer({ min: 1, max: facts.length }), { numRuns: 50, seed })
    const shown = await shownAfter(page, moments)
    for (const [n, index] of moments.entries()) {
      const { body } = await stage.ask(`/jobs/${job}/graph?at=${encodeURIComponent(`#${index}`)}`)
      const expected = Object.fromEntries(
        body.nodes.map((node: { id: string; status: string }) => [node.id, node.status.toLowerCase()]),
      )
      expect(shown[n], `fact ${index}`).toEqual(expected)
    }
    for (const key of ["o", "t", "g"]) await page.keyboard.press(key)
    await page.waitForSelector(".node")
    expect(requests).toEqual([pathToFileURL(file).href])
    expect(problems).toEqual([])
    expect(await page.evaluate(() => (window as { hit?: number }).hit)).toBeUndefined()
  })
})
