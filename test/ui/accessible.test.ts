/** axe finds nothing in either theme, on any page and in any state of it; nothing moves where people asked for less motion. */
import { createRequire } from "node:module"
import type { Page } from "playwright-core"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { everything, openUiStage, type UiStage } from "./ui-stage.ts"

let stage: UiStage
let failed: string
let waiting: string
const axePath = createRequire(import.meta.url).resolve("axe-core/axe.min.js")

beforeAll(async () => {
  stage = await openUiStage()
  failed = await stage.start(everything, { list: ["a", "b", ...Array.from({ length: 20 }, String)] })
  await stage.umbra.wait(failed)
  waiting = await stage.start({
    name: "waits",
    nodes: [
      { id: "draft", handler: "transform", config: { value: "a draft" } },
      { id: "ask", handler: "approval", dependencies: ["draft"] },
      { id: "ship", handler: "transform", dependencies: ["ask"], config: { value: 1 } },
    ],
  })
})
afterAll(() => stage?.close())

interface Violation {
  readonly id: string
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[]
}

async function violations(page: Page): Promise<string[]> {
  await page.addScriptTag({ path: axePath }).catch(() => {})
  const found = await page.evaluate(async () => {
    const { axe } = window as unknown as {
      axe: { run(options: object): Promise<{ violations: Violation[] }> }
    }
    const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    return (await axe.run({ runOnly: { type: "tag", values: tags } })).violations.map(violation => ({
      id: violation.id,
      nodes: violation.nodes.map(({ html, failureSummary }) => ({ html, failureSummary })),
    }))
  })
  return found.flatMap(({ id, nodes }) =>
    nodes.slice(0, 3).map(node => `${id}: ${node.html.slice(0, 200)} ${node.failureSummary}`),
  )
}

describe.each(["light", "dark"] as const)("in the %s theme", colorScheme => {
  it("has no violation on any page", { timeout: 240_000 }, async () => {
    const { page, context } = await stage.open("/docs", { colorScheme, bypassCSP: true })
    onTestFinished(() => context.close())
    const places: readonly (readonly [string, string, readonly string[]])[] = [
      ["/", ".jl", []],
      ["/ui/jobs?workflow=none", '[data-state="empty"]', []],
      ["/", ".jl", ["/"]],
      ["/", ".jl", ["Control+k"]],
      ["/", ".jl", ["?"]],
      [`/ui/jobs/${failed}`, ".node", []],
      [`/ui/jobs/${failed}?node=each&tab=Items&item=13`, ".imap", []],
      [`/ui/jobs/${failed}?node=flaky&tab=Attempts&view=outline`, ".att", [","]],
      [`/ui/jobs/${failed}?node=each&view=gantt&tab=Why`, ".gr", []],
      [`/ui/jobs/${failed}?panel=job&tab=Events`, ".ev", []],
      [`/ui/jobs/${failed}?panel=job&tab=Input`, ".jr", []],
      [`/ui/jobs/${waiting}?node=ask`, ".drawer textarea", []],
      ["/ui/jobs/01a1df1d-7c42-7000-8000-000000000000", '[data-state="empty"]', []],
    ]
    for (const [path, selector, keys] of places) {
      await page.goto(`${stage.url}${path}`)
      await page.waitForSelector(selector)
      for (const key of keys) await page.keyboard.press(key)
      if (keys.includes("Control+k") || keys.includes("?")) await page.waitForSelector("dialog[open]")
      expect(await violations(page), path).toEqual([])
    }
    await page.setViewportSize({ width: 390, height: 844 })
    for (const [path, selector] of [places[0]!, places[5]!, places[6]!]) {
      await page.goto(`${stage.url}${path}`)
      await page.waitForSelector(selector === ".node" ? ".or" : selector)
      expect(await violations(page), `${path} at 390 px`).toEqual([])
    }
  })
})

describe("motion", () => {
  it("is absent if a person prefers less of it", async () => {
    const { page, context } = await stage.open(`/ui/jobs/${failed}`, { reducedMotion: "reduce" })
    onTestFinished(() => context.close())
    await page.waitForSelector(".node")
    await page.keyboard.press(",")
    await page.keyboard.press("[")
    expect(await page.evaluate(() => document.getAnimations().length)).toBe(0)
  })

  it("does not begin with a white page in the dark", async () => {
    const { page, context } = await stage.open("/", { colorScheme: "dark" })
    onTestFinished(() => context.close())
    await page.waitForSelector(".jl")
    const [red, green, blue] = await page.evaluate(() =>
      getComputedStyle(document.body).backgroundColor.match(/\d+/g)!.map(Number),
    )
    expect(Math.max(red!, green!, blue!)).toBeLessThan(40)
  })
})
