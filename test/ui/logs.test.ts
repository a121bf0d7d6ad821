/** The log of a node's attempts in Chromium, against a real server. */
import type { Page } from "playwright-core"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { defineHandler } from "../../src/worker/handler.ts"
import { violations } from "./axe.ts"
import { intercept, moveTo, type OpenOptions, openUiStage, type UiStage } from "./ui-stage.ts"

let stage: UiStage
/** By job: ends the wait of its handler. */
const waits = new Map<string, () => void>()

const talks = defineHandler({
  name: "talks",
  async run(config, ctx) {
    const {
      lines = 0,
      waits: isLong = false,
      fails = 0,
    } = config as {
      lines?: number
      waits?: boolean
      fails?: number
    }
    ctx.log.info({ attempt: ctx.attempt, stack: "Error: x\n    at y" }, `attempt ${ctx.attempt} begins`)
    ctx.log.warn({}, "first of three\nsecond\n  third")
    ctx.log.debug({}, "a detail")
    ctx.log.error({}, '<img src=x onerror="window.hacked = 1"> \u202e')
    for (let n = 1; n <= lines; n++) ctx.log.info({}, `number ${n}`)
    while (isLong && !waits.has(`${ctx.jobId} over`)) {
      await new Promise<void>(resolve => waits.set(ctx.jobId, resolve))
      ctx.log.info({}, "woken")
    }
    if (ctx.attempt <= fails) throw new Error(`attempt ${ctx.attempt} failed`)
    return null
  },
})

const flow = (name: string, config: object, more: object = {}) => ({
  name,
  nodes: [
    { id: "talk", handler: "talks", config, retry: { max_attempts: 3, initial_seconds: 0 }, ...more },
    { id: "after", handler: "transform", config: { value: 1 }, dependencies: ["talk"] },
  ],
})

beforeAll(async () => {
  stage = await openUiStage({ umbra: { handlers: [talks], worker: { maxLogLines: 20_000 } } })
})
afterAll(() => stage?.close())

const wake = async (job: string) => {
  await expect.poll(() => waits.get(job)).toBeDefined()
  const resolve = waits.get(job)!
  waits.delete(job)
  resolve()
}

/** Lines are stored behind the facts. */
const stored = (job: string, count: number) =>
  expect
    .poll(async () => {
      const { body } = await stage.ask(`/jobs/${job}/logs?before=end&limit=1`)
      return body.lines[0]?.line
    })
    .toBe(count)

const open = async (path: string | null, options: OpenOptions = {}) => {
  const opened = await stage.open(path, options)
  onTestFinished(opened.close)
  return opened
}

/** The texts of the rows in the page, without times. */
const texts = (page: Page) => page.locator(".lg p").allTextContents()
const has = (page: Page, text: string) => page.waitForSelector(`.lg p:has-text("${text}")`)

describe("the log of an attempt", () => {
  it("has messages of several lines whole, fields, levels as words, and what the engine did; texts stay texts", async () => {
    const job = await stage.start(flow("plain", {}))
    await stage.umbra.wait(job)
    await stored(job, 4)
    const { page, problems } = await open(`/ui/jobs/${job}?node=talk&tab=Logs`)
    await has(page, "completed after")
    expect(await texts(page)).toEqual([
      "enginedispatched",
      expect.stringMatching(/^enginestarted on /),
      "attempt 1 beginsattempt=1\nstack=Error: x\n    at y",
      "WARN first of three\nsecond\n  third",
      "DEBUG a detail",
      'ERROR <img src=x onerror="window.hacked = 1"> \\u202e',
      expect.stringMatching(/^enginecompleted after/),
    ])
    const heights = await page
      .locator(".lg p")
      .evaluateAll(rows => rows.map(row => Math.round(row.getBoundingClientRect().height / 18)))
    expect(heights[3]).toBe(3)
    expect(await page.evaluate(() => (window as never as { hacked?: number }).hacked)).toBeUndefined()
    expect(problems).toEqual([])
  })

  it("is apart from those of other attempts, which the panel of attempts leads to", async () => {
    const job = await stage.start(flow("again", { fails: 2 }))
    await stage.umbra.wait(job)
    await expect
      .poll(async () => (await stage.ask(`/jobs/${job}/logs?source=handler`)).body.lines.length)
      .toBe(14)
    const { page } = await open(`/ui/jobs/${job}?node=talk&tab=Logs`)
    await has(page, "attempt 3 begins")
    const own = async () => (await texts(page)).filter(text => /attempt \d begins/.test(text))
    expect(await own()).toHaveLength(1)
    await page.click('.seg[aria-label="Attempt"] button:has-text("1")')
    await has(page, "attempt 1 begins")
    expect(await own()).toHaveLength(1)
    await has(page, "attempt 1 failed; retried at")
    await page.click("#tab-Attempts")
    await page.click('.att button:has-text("of attempt 2")')
    await has(page, "attempt 2 begins")
    expect(await own()).toHaveLength(1)
    await page.waitForURL(/tab=Logs&attempt=2|attempt=2.*tab=Logs/)
  })

  it("continues while it is shown, stays at its end, and does not move what a reader reads", async () => {
    const job = await stage.start(flow("live", { waits: true, lines: 300 }))
    const { page, requests } = await open(`/ui/jobs/${job}?node=talk&tab=Logs`)
    await has(page, "number 300")
    await wake(job)
    await has(page, "woken")
    const atEnd = () =>
      page.locator(".lgs").evaluate(list => list.scrollTop + list.clientHeight >= list.scrollHeight - 4)
    await expect.poll(atEnd).toBe(true)
    // Somewhere in the middle: new lines move nothing.
    await page.locator(".lgs").evaluate(list => list.scrollTo(0, list.scrollHeight / 2))
    await page.waitForFunction(() => {
      const { top } = document.querySelector(".lgs")!.getBoundingClientRect()
      const tops = [...document.querySelectorAll(".lg")].map(row => row.getBoundingClientRect().top - top)
      return Math.min(...tops) <= 0 && tops.some(distance => distance >= 0 && distance < 100)
    })
    const place = () =>
      page.evaluate(() => {
        const { top } = document.querySelector(".lgs")!.getBoundingClientRect()
        const row = [...document.querySelectorAll(".lg")].find(one => one.getBoundingClientRect().top >= top)!
        return `${row.textContent} ${Math.round(row.getBoundingClientRect().top)}`
      })
    const loaded = () => page.locator(".drawer .tiny.dim").last().textContent()
    const [before, count] = [await place(), await loaded()]
    await wake(job)
    await expect.poll(loaded).not.toBe(count)
    expect(await place()).toBe(before)
    await page.click("text=Newest")
    await has(page, "woken")
    waits.set(`${job} over`, () => {})
    await wake(job)
    await has(page, "completed after")
    expect(requests.filter(path => /\/logs\?.*follow/.test(path)).length).toBeLessThanOrEqual(2)
  })

  it("hides lines below a level, and says so", async () => {
    const job = await stage.start(flow("levels", { lines: 50 }))
    await stage.umbra.wait(job)
    await stored(job, 54)
    const { page } = await open(`/ui/jobs/${job}?node=talk&tab=Logs`)
    await has(page, "number 50")
    await page.selectOption('select[aria-label="Lowest level"]', "warn")
    await page.waitForSelector("text=Lines below warn are hidden")
    await expect
      .poll(() => texts(page))
      .toEqual([expect.stringMatching(/^WARN first/), expect.stringMatching(/^ERROR <img/)])
    await page.waitForURL(/level=warn/)
    await page.click("text=Show all")
    await has(page, "number 50")
  })

  /** Without the level. */
  const textOf = (text: string) => text.replace(/^[A-Z]{4,} /, "").slice(0, 9)

  it("shows what had been written by the moment of the slider", async () => {
    const job = await stage.start(flow("past", { fails: 1, lines: 3 }))
    await stage.umbra.wait(job)
    await expect
      .poll(async () => (await stage.ask(`/jobs/${job}/logs?source=handler`)).body.lines.length)
      .toBe(15)
    // High enough for all rows.
    const { page } = await open(`/ui/jobs/${job}?node=talk&tab=Logs`, {
      viewport: { width: 1440, height: 1800 },
    })
    await has(page, "attempt 2 begins")
    await moveTo(page, 1)
    await page.waitForFunction(() => document.querySelector(".lg, .none") !== null)
    const { body } = await stage.ask(`/jobs/${job}/facts?limit=100`)
    for (const { index, at } of body.facts) {
      await moveTo(page, index)
      const until = new Date(at).toISOString()
      const { attempt } = (await stage.ask(`/jobs/${job}/graph?at=%23${index}`)).body.nodes[0]
      const { body: log } = await stage.ask(`/jobs/${job}/logs?source=handler&node=talk&until=${until}`)
      const lines = log.lines as readonly { at: string; attempt: number; message: string }[]
      const of = (wanted: number) =>
        lines.filter(line => line.attempt === wanted).map(({ message }) => message.slice(0, 9))
      // While a retry waits, the attempt before it is shown. It may begin in the millisecond in which it is decided on.
      const hasBegun = lines.some(line => line.attempt === attempt && Date.parse(line.at) < at)
      const isBegun = hasBegun || of(attempt).length > 0
      const expected = [...(isBegun ? [of(attempt)] : []), ...(hasBegun ? [] : [of(attempt - 1)])]
      await expect
        .poll(
          async () => {
            const texts = await page.locator('.lg[data-k="handler"] p').allTextContents()
            return expected.map(each => JSON.stringify(each)).includes(JSON.stringify(texts.map(textOf)))
          },
          { message: `${index}: ${JSON.stringify(expected)}` },
        )
        .toBe(true)
    }
    await page.keyboard.press("l")
    await has(page, "completed after")
  })

  it("finds texts in what is loaded, and goes through them with Enter", async () => {
    const job = await stage.start(flow("search", { lines: 150 }))
    await stage.umbra.wait(job)
    await stored(job, 154)
    const { page } = await open(`/ui/jobs/${job}?node=talk&tab=Logs`)
    await has(page, "number 150")
    await page.fill('input[aria-label="Find in the loaded lines"]', "NUMBER 11")
    await page.waitForSelector("text=1 of 11")
    await page.waitForSelector('.lg[aria-current="true"]:has-text("number 11")')
    await page.keyboard.press("Enter")
    await page.waitForSelector('.lg[aria-current="true"]:has-text("number 110")')
    await page.keyboard.press("Shift+Enter")
    await page.keyboard.press("Shift+Enter")
    await page.waitForSelector('.lg[aria-current="true"]:has-text("number 119")')
    expect(await page.locator(".lg mark").first().textContent()).toBe("number 11")
  })

  it("shows lines of one item, or of all with their items", async () => {
    const list = { for_each: "{{ input.list }}" }
    const job = await stage.start(flow("items", {}, list), { list: ["a", "b", "c"] })
    await stage.umbra.wait(job)
    await expect
      .poll(async () => (await stage.ask(`/jobs/${job}/logs?source=handler`)).body.lines.length)
      .toBe(12)
    const { page } = await open(`/ui/jobs/${job}?node=talk&tab=Items&item=1`)
    await page.click('.idetail button:has-text("Logs")')
    await has(page, "attempt 1 begins")
    await has(page, "completed after")
    expect((await texts(page)).filter(text => text.startsWith("attempt"))).toHaveLength(1)
    await page.click('.chipb:has-text("Item 1")')
    await has(page, "item 2 attempt 1 begins")
    expect((await texts(page)).filter(text => /^item \d attempt/.test(text))).toHaveLength(3)
  })

  it("has three screens for loading, empty and failed", async () => {
    const job = await stage.start(flow("states", {}))
    await stage.umbra.wait(job)
    await stored(job, 4)
    const { page } = await open(`/ui/jobs/${job}?node=talk`)
    await page.waitForSelector(".node")
    let answer: () => void = () => {}
    let isFailing = false
    await intercept(page, /\/logs\?/, async route => {
      if (isFailing) return route.fulfill({ status: 503, body: "" })
      await new Promise<void>(resolve => {
        answer = resolve
      })
      return route.fulfill({ json: { lines: [], next: null } })
    })
    await page.click("#tab-Logs")
    await page.waitForSelector('.drawer [data-state="loading"]')
    await page.unroute(/\/logs\?/)
    answer()
    isFailing = true
    await page.route(/\/logs\?/, route => route.fulfill({ status: 503, body: "" }))
    await page.selectOption('select[aria-label="Lowest level"]', "error")
    await page.waitForSelector('.drawer [data-state="failed"]')
    await page.unroute(/\/logs\?/)
    await page.click('.drawer [data-state="failed"] >> text=Try now')
    await has(page, "ERROR")
    expect(await page.locator('.drawer [data-state="failed"]').count()).toBe(0)
    const silent = await stage.start({
      name: "silent",
      nodes: [{ id: "a", handler: "transform", config: { value: 1 } }],
    })
    await stage.umbra.wait(silent)
    const quiet = await open(`/ui/jobs/${silent}?node=a&tab=Logs&level=warn`)
    await quiet.page.waitForSelector('.drawer [data-state="empty"]')
    expect(await quiet.page.textContent('.drawer [data-state="empty"]')).toBe(
      "No line of level warn or above.",
    )
  })

  it("is read with the keyboard alone", async () => {
    const job = await stage.start(flow("keys", { lines: 400 }))
    await stage.umbra.wait(job)
    await stored(job, 404)
    const { page } = await open(`/ui/jobs/${job}?node=talk`)
    await page.waitForSelector(".node")
    await page.keyboard.press("5")
    await has(page, "number 400")
    await page.locator(".lgs").focus()
    await page.keyboard.press("Home")
    await has(page, "attempt 1 begins")
    await page.keyboard.press("End")
    await has(page, "number 400")
    for (let n = 0; n < 30; n++) await page.keyboard.press("ArrowUp")
    const focused = () => page.evaluate(() => document.activeElement!.closest(".lg")?.textContent ?? null)
    const row = await focused()
    expect(row).toMatch(/number 37\d$/)
    await page.keyboard.press("Enter")
    await page.waitForSelector('.lg[aria-current="true"]')
    expect(await page.textContent('.lg[aria-current="true"]')).toBe(row)
    await page.waitForURL(/line=/)
    // The focus is not lost when its row leaves the page.
    await page.locator(".lgs").evaluate(list => list.scrollTo(0, 0))
    await page.waitForSelector('.lg[aria-current="true"]', { state: "detached" })
    await page.waitForFunction(() => document.activeElement!.className === "lgs")
  })

  it("has no violation of axe in the light and the dark theme, nor at 390 px", async () => {
    const job = await stage.start(flow("axe", { fails: 1 }))
    await stage.umbra.wait(job)
    const { page } = await open(null)
    for (const width of [1440, 390]) {
      await page.setViewportSize({ width, height: 844 })
      await page.goto(`${stage.url}/ui/jobs/${job}?node=talk&tab=Logs`)
      await has(page, "completed after")
      expect(await violations(page), `${width} px`).toEqual([])
      const sideways = () =>
        page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
      expect(await sideways()).toBe(0)
    }
  })
})
