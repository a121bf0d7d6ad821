/** Lineage over 10,000 messages, and 1,000 routes: bounded pages, bounded elements, no long script stretch. */
import type { Page } from "playwright-core"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { adapter, numbers, route } from "../../pipeline/scene.ts"
import { openUiStage, type UiStage } from "../ui-stage.ts"

const MESSAGES = 10_000
const MOST_ELEMENTS = 3000
let stage: UiStage
const pass = adapter("pass", ({ body }) => body)

beforeAll(async () => {
  stage = await openUiStage({ umbra: { adapters: [numbers, pass] } })
})
afterAll(() => stage?.close())

const elements = (page: Page) => page.evaluate(() => document.querySelectorAll("*").length)
const centre = (page: Page, message: string) =>
  page.waitForSelector(`.lmsg[data-message="${message}"][data-column="0"]`)

describe("lineage of 10,000 messages", () => {
  it("is walked both ways, a page at a time", async () => {
    const job = await stage.start({
      name: "wide",
      init: { body: { count: MESSAGES, step: MESSAGES } },
      routes: [
        route("source", ["numbers"], { outbound: "work" }),
        route("work", ["pass"], { outbound: "gather" }),
        route("gather", [{ type: "batch", config: { count: 500, seconds: 60 } }], { outbound: "store" }),
        route("store", ["log"]),
      ],
    })
    expect((await stage.umbra.wait(job)).status).toBe("COMPLETED")
    const { page, close, problems } = await stage.open(`/ui/jobs/${job}?message=source:1`)
    onTestFinished(close)
    await centre(page, "source:1")
    const pager = page.locator('[data-pager="what came of it"]')
    expect(await pager.textContent()).toContain("1 to 8 of 10,000")
    expect(await elements(page)).toBeLessThanOrEqual(MOST_ELEMENTS)
    await page.click("text=Last")
    await page.waitForSelector('.lmsg[data-message="work:10000"]')
    expect(await pager.textContent()).toContain("9,993 to 10,000 of 10,000")
    expect(await page.locator('.lmsg[data-column="1"]').count()).toBe(8)
    const answers: number[] = []
    page.on("response", async response => {
      if (response.url().includes("/lineage")) answers.push((await response.body().catch(() => "")).length)
    })
    await page.click('.lmsg[data-message="work:10000"]')
    await centre(page, "work:10000")
    expect(await page.locator('.lmsg[data-message="source:1"]').getAttribute("data-column")).toBe("-1")
    await page.locator('.lmsg[data-column="1"]').first().click()
    await page.waitForSelector('.lmsg[data-column="0"][data-message^="gather:"]')
    await page.locator('.lmsg[data-column="1"][data-message^="gather:"]').first().click()
    await page.waitForSelector('[data-pager="comes from"]:has-text("1 to 8")')
    await page.click('[aria-label="comes from: next"]')
    await page.waitForSelector('[data-pager="comes from"]:has-text("9 to 16")')
    await page.locator('.lmsg[data-column="-1"]').first().click()
    await page.waitForSelector('.lmsg[data-column="-2"][data-message="source:1"], .lmsg[data-column="-1"]')
    expect(await elements(page)).toBeLessThanOrEqual(MOST_ELEMENTS)
    expect(Math.max(...answers)).toBeLessThan(100_000)
    expect(problems).toEqual([])
  })
})

describe("a pipeline of 400 routes", () => {
  it("has only the routes in view in the page, and finds the last one by scrolling", async () => {
    const routes = Array.from({ length: 400 }, (_, n) =>
      route(`r${n}`, ["pass"], n < 399 ? { outbound: `r${n + 1}` } : {}),
    )
    const job = await stage.start({ name: "long", init: { body: 1 }, routes })
    await stage.umbra.wait(job)
    const { page, close } = await stage.open(`/ui/jobs/${job}`)
    onTestFinished(close)
    await page.waitForSelector('.rcard[data-route="r0"]')
    expect(await elements(page)).toBeLessThanOrEqual(MOST_ELEMENTS)
    await page.evaluate(() => {
      document.querySelector(".flow")!.scrollLeft = 1e9
    })
    await page.waitForSelector('.rcard[data-route="r399"]')
    expect(await page.locator('.rcard[data-route="r0"]').count()).toBe(0)
    expect(await elements(page)).toBeLessThanOrEqual(MOST_ELEMENTS)
  })
})
