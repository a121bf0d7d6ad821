/** axe finds nothing in either theme, on any page and in any state of it; nothing moves where people asked for less motion. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { numbers, route } from "../pipeline/scene.ts"
import { violations } from "./axe.ts"
import { everything, openUiStage, type UiStage } from "./ui-stage.ts"

let stage: UiStage
let failed: string
let waiting: string
let paused: string
let pipeline: string

beforeAll(async () => {
  stage = await openUiStage({ umbra: { adapters: [numbers] } })
  failed = await stage.start(everything, { list: ["a", "b", ...Array.from({ length: 20 }, String)] })
  await stage.umbra.wait(failed)
  const waits = {
    name: "waits",
    nodes: [
      { id: "draft", handler: "transform", config: { value: "a draft" } },
      { id: "ask", handler: "approval", dependencies: ["draft"] },
      { id: "ship", handler: "transform", dependencies: ["ask"], config: { value: 1 } },
    ],
  }
  waiting = await stage.start(waits)
  paused = await stage.start(waits)
  await stage.umbra.pause(paused, { reason: "not today" })
  pipeline = await stage.start({
    name: "flow",
    init: { body: { count: 3 } },
    routes: [route("source", ["numbers"])],
  })
})
afterAll(() => stage?.close())

describe("in the light and the dark theme", () => {
  it("has no violation on any page", async () => {
    const { page, close } = await stage.open(null)
    onTestFinished(close)
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
      [`/ui/jobs/${waiting}?node=ship`, ".why .chain", []],
      [`/ui/jobs/${paused}?panel=job`, ".pill.paused", []],
      [`/ui/jobs/${pipeline}?panel=job&tab=Routes`, ".routes", []],
      ["/ui/jobs/01a1df1d-7c42-7000-8000-000000000000", '[data-state="empty"]', []],
    ]
    for (const [path, selector, keys] of places) {
      await page.goto(`${stage.url}${path}`)
      await page.waitForSelector(selector)
      for (const key of keys) await page.keyboard.press(key)
      if (keys.includes("Control+k") || keys.includes("?")) await page.waitForSelector("dialog[open]")
      expect(await violations(page), path).toEqual([])
    }
    await page.route(/\/jobs\?/, route =>
      route.request().resourceType() === "document" ? route.continue() : route.abort(),
    )
    await page.goto(`${stage.url}/ui/jobs`)
    await page.waitForSelector('[data-state="failed"]')
    expect(await violations(page), "a failed list").toEqual([])
    await page.unroute(/\/jobs\?/)
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
    const { page, close } = await stage.open(`/ui/jobs/${failed}`, { reducedMotion: "reduce" })
    onTestFinished(close)
    await page.waitForSelector(".node")
    await page.keyboard.press(",")
    await page.keyboard.press("[")
    expect(await page.evaluate(() => document.getAnimations().length)).toBe(0)
  })

  it("does not begin with a white page in the dark", async () => {
    const { page, close } = await stage.open("/", { colorScheme: "dark" })
    onTestFinished(close)
    await page.waitForSelector(".jl")
    const [red, green, blue] = await page.evaluate(() =>
      getComputedStyle(document.body).backgroundColor.match(/\d+/g)!.map(Number),
    )
    expect(Math.max(red!, green!, blue!)).toBeLessThan(40)
  })
})
