/** The list of jobs, the three states of a page, narrow screens, and what an idle tab asks of the server. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { everything, numberWasRequested, openUiStage, type UiStage } from "./ui-stage.ts"

let stage: UiStage
const ids: string[] = []
const waits = { name: "waits", nodes: [{ id: "ask", handler: "approval" }] }

beforeAll(async () => {
  stage = await openUiStage()
  await stage.umbra.register({
    name: "hello",
    nodes: [{ id: "greet", handler: "transform", config: { value: 1 } }],
  } as never)
  for (let n = 0; n < 60; n++) {
    const { id } = await stage.umbra.submit("hello", {}, { labels: { team: n % 2 === 0 ? "shop" : "web" } })
    ids.push(id)
  }
  for (const id of ids) await stage.umbra.wait(id)
  await stage.umbra.wait(await stage.start(everything, { list: ["a", "b"] }))
  const bad = await stage.start({
    name: "bad",
    nodes: [
      {
        id: "b",
        handler: "fails",
        retry: { max_attempts: 1 },
        config: { message: "connection refused by the till" },
      },
    ],
  })
  await stage.umbra.wait(bad)
  await stage.start(waits)
})
afterAll(() => stage?.close())

describe("the list of jobs", () => {
  it("filters by the address, and pages without repeating a job", async () => {
    const { page, close, problems } = await stage.open("/ui/jobs?workflow=hello")
    onTestFinished(close)
    await page.waitForSelector(".jl")
    expect(await page.locator(".jl").count()).toBe(50)
    await page.click("text=Show 50 older")
    await page.waitForFunction(() => document.querySelectorAll(".jl").length === 60)
    const shown = await page.evaluate(() =>
      [...document.querySelectorAll<HTMLElement>("[data-job]")].map(row => row.dataset.job),
    )
    expect(shown).toEqual(ids.toSorted().toReversed())
    await page.goto(`${stage.url}/ui/jobs?workflow=hello&label=team%3Dshop`)
    await page.waitForSelector(".jl")
    expect(await page.locator(".jl").count()).toBe(30)
    expect(problems).toEqual([])
  })

  it("shows what an unfinished job waits for", async () => {
    const { page, close } = await stage.open("/ui/jobs?workflow=waits")
    onTestFinished(close)
    await expect.poll(() => page.locator("[data-job] .c4").first().textContent()).toContain("signal approved")
  })

  it("continues with a server on this machine while the browser has no network", async () => {
    const { page, close } = await stage.open("/ui/jobs?workflow=waits")
    onTestFinished(close)
    await page.waitForSelector(".jl")
    await page.evaluate(() => window.dispatchEvent(new Event("offline")))
    await page.keyboard.press("Alt+3")
    await page.waitForSelector('a[href="/ui/workflows/waits"]')
  })

  it("adds and removes filters by typing, and keeps a view", async () => {
    const { page, close } = await stage.open("/")
    onTestFinished(close)
    await page.waitForSelector(".jl")
    await page.keyboard.press("/")
    await page.keyboard.type("error connection refused")
    await page.keyboard.press("Enter")
    await page.waitForFunction(() => document.querySelectorAll(".jl").length === 1)
    expect(new URL(page.url()).searchParams.get("error")).toBe("connection refused")
    expect(await page.locator(".jtbl .c4").first().textContent()).toContain("connection refused by the till")
    await page.click("text=Save view")
    await page.fill('dialog input[name="name"]', "Refused")
    await page.keyboard.press("Enter")
    await page.waitForSelector('.views a[aria-current="true"] >> text=Refused')
    await page.click('[aria-label="Remove error connection refused"]')
    await page.waitForFunction(() => document.querySelectorAll(".jl").length === 50)
    await page.keyboard.press("/")
    await page.keyboard.type("colour red")
    await page.keyboard.press("Enter")
    await page.waitForSelector("text=is not a filter")
    await page.click(".views >> text=Refused")
    await page.waitForFunction(() => document.querySelectorAll(".jl").length === 1)
  })

  it("keeps a view of the last hour relative, also for another person on another day", async () => {
    const { page, close } = await stage.open("/")
    onTestFinished(close)
    await page.waitForSelector(".jl")
    await page.keyboard.press("/")
    await page.keyboard.type("started 1 h")
    await page.keyboard.press("Enter")
    await page.click("text=Save view")
    await page.fill('dialog input[name="name"]', "Last hour")
    await page.keyboard.press("Enter")
    const link = page.locator('.views a:has-text("Last hour")')
    await link.waitFor()
    const address = await link.getAttribute("href")
    const other = await stage.browser.newContext()
    onTestFinished(() => other.close())
    const later = Date.now() + 26 * 3600_000
    const { page: shown } = { page: await other.newPage() }
    await shown.clock.setFixedTime(later)
    const asked = shown.waitForRequest(request => /\/jobs\?.*created_from=/.test(request.url()))
    await shown.goto(`${stage.url}${address}`)
    const from = new URL((await asked).url()).searchParams.get("created_from")!
    expect(Math.abs(later - 3600_000 - Date.parse(from))).toBeLessThan(60_000)
    // All jobs are older by then.
    await shown.waitForSelector('[data-state="empty"]')
  })

  it("says how many jobs are newer instead of pushing rows down", async () => {
    const { page, close } = await stage.open("/ui/jobs?workflow=waits")
    onTestFinished(close)
    await page.waitForSelector(".jl")
    await page.waitForSelector('.conn[data-c="live"]')
    const before = await page.evaluate(() => document.querySelector("[data-job]")!.getAttribute("data-job"))
    const { id } = await stage.umbra.submit("waits", {})
    await page.waitForSelector("text=Show 1 newer")
    expect(await page.evaluate(() => document.querySelector("[data-job]")!.getAttribute("data-job"))).toBe(
      before,
    )
    await page.click("text=Show 1 newer")
    await page.waitForSelector(`[data-job="${id}"]`)
    await stage.umbra.cancel(id, "enough")
    await page.waitForSelector(`[data-job="${id}"][data-s="cancelled"]`)
  })

  it("draws a mark for every job, and a brush on them is a filter by time", async () => {
    const { page, close } = await stage.open("/ui/jobs?workflow=hello")
    onTestFinished(close)
    await page.waitForSelector(".plot .pt")
    const label = await page.locator('.plot [role="img"]').getAttribute("aria-label")
    expect(label).toMatch(/^60 jobs/)
    const box = (await page.locator(".plot svg").boundingBox())!
    await page.mouse.move(box.x + 60, box.y + 20)
    await page.mouse.down()
    await page.mouse.move(box.x + box.width - 20, box.y + 40, { steps: 4 })
    await page.mouse.up()
    await page.waitForURL(/started=.*before=/)
  })

  it("has three different screens for loading, empty and failed", async () => {
    const { page, close } = await stage.open("/ui/jobs?workflow=nothing")
    onTestFinished(close)
    await page.waitForSelector('[data-state="empty"] >> text=No job matches')
    let release = () => {}
    const held = new Promise<void>(done => {
      release = done
    })
    await page.route(/\/jobs\?/, async route => {
      if (route.request().resourceType() === "document") return route.continue()
      await held
      await route.fulfill({
        status: 500,
        contentType: "application/problem+json",
        body: JSON.stringify({ code: "E501", detail: "The store did not answer." }),
      })
    })
    await page.goto(`${stage.url}/ui/jobs?workflow=hello`)
    await page.waitForSelector('.panel[aria-label="Jobs"] [data-state="loading"]')
    release()
    await page.waitForSelector('[data-state="failed"] >> text=Jobs could not be read: 500, E501')
    expect(await page.locator("text=This is not an empty list.").count()).toBe(1)
    expect(await page.locator('[data-state="empty"]').count()).toBe(0)
  })

  it("says that a search has ended early, and continues", async () => {
    const { page, close } = await stage.open("/ui/jobs?workflow=waits")
    onTestFinished(close)
    let continued = 0
    await page.route(/\/jobs\?.*workflow=hello/, async route => {
      const { searchParams } = new URL(route.request().url())
      if (route.request().resourceType() === "document") return route.continue()
      if (searchParams.has("after")) {
        continued++
        return route.continue()
      }
      await route.fulfill({
        json: { jobs: [], next: ids[0], scanned_to: "2026-11-15T12:00:00.000Z", complete: false },
      })
    })
    await page.goto(`${stage.url}/ui/jobs?workflow=hello`)
    await page.waitForSelector("text=The search ended early")
    expect(await page.locator('[data-state="empty"]').count()).toBe(0)
    await page.click("text=Search on")
    await page.waitForSelector("text=Search on", { state: "detached" })
    expect(continued).toBe(1)
  })

  it("answers an unknown job and an unknown page without an error screen", async () => {
    const { page, close } = await stage.open("/ui/jobs/01a1df1d-7c42-7000-8000-000000000000")
    onTestFinished(close)
    await page.waitForSelector('[data-state="empty"] >> text=not found')
    await page.goto(`${stage.url}/ui/elsewhere`)
    await page.waitForSelector("text=There is no such page")
  })
})

describe("at 390 × 844", () => {
  it("has no sideways scroll, shows the outline, and cancels a job", async () => {
    const job = await stage.start(
      { ...everything, name: "narrow", nodes: [...everything.nodes, { id: "ask", handler: "approval" }] },
      { list: ["a"] },
    )
    const { page, close } = await stage.open("/", { viewport: { width: 390, height: 844 }, hasTouch: true })
    onTestFinished(close)
    const overflow = () => page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
    await page.waitForSelector(".jl")
    expect(await overflow()).toBe(0)
    await page.goto(`${stage.url}/ui/jobs/${job}`)
    await page.waitForSelector(".or")
    expect(await page.locator(".node").count()).toBe(0)
    expect(await overflow()).toBe(0)
    await page.locator(".or").first().click()
    await page.waitForSelector(".drawer")
    expect(await overflow()).toBe(0)
    await page.click('.drawer [aria-label="Close"]')
    await page.click("text=Gantt")
    await page.waitForSelector(".gr")
    expect(await overflow()).toBe(0)
    await page.click(".acts >> text=Cancel")
    await page.click("dialog >> text=Cancel the job >> nth=-1")
    await page.waitForSelector('.pill[data-s="cancelled"]')
  })
})

describe("an idle tab", () => {
  it("sends at most two requests in a minute, and closes its stream while it is hidden", async () => {
    const job = await stage.start(waits)
    for (const path of ["/ui/jobs", `/ui/jobs/${job}`, `/ui/jobs/${job}?node=ask&tab=Logs`]) {
      const { page, close, requests } = await stage.open(null, { isNew: true })
      await page.clock.install()
      await page.goto(`${stage.url}${path}`)
      await page.waitForSelector('.conn[data-c="live"]')
      // All that the page reads by itself.
      await page.waitForSelector(path === "/ui/jobs" ? ".plot .pt" : ".node")
      await page.waitForSelector(
        path === "/ui/jobs" ? ".jl" : path.endsWith("Logs") ? ".drawer .lg" : ".drawer .why",
      )
      await numberWasRequested(requests)
      const before = requests.length
      await page.clock.runFor(60_000)
      expect(requests.slice(before).length, requests.slice(before).join(" ")).toBeLessThanOrEqual(2)
      const ended = page.waitForEvent(
        "requestfailed",
        request => request.url().includes("stream") || request.url().includes("follow"),
      )
      await page.evaluate(() => {
        Object.defineProperty(document, "hidden", { value: true, configurable: true })
        document.dispatchEvent(new Event("visibilitychange"))
      })
      await page.clock.runFor(61_000)
      await ended
      const shown = page.waitForRequest(
        request => request.url().includes("stream") || request.url().includes("follow"),
      )
      await page.evaluate(() => {
        Object.defineProperty(document, "hidden", { value: false, configurable: true })
        document.dispatchEvent(new Event("visibilitychange"))
      })
      await shown
      await close()
    }
  })
})
