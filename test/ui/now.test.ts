/** The page Now: groups of what needs a person, what can be done about them, and the screen when all is well. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { adapter, route } from "../pipeline/scene.ts"
import { violations } from "./axe.ts"
import { intercept, openUiStage, type UiStage } from "./ui-stage.ts"

let stage: UiStage
const call = adapter("call", () => {
  throw new Error("the service does not answer")
})
const flaky = {
  name: "flaky",
  nodes: [
    {
      id: "pay",
      handler: "fails",
      retry: { max_attempts: 1 },
      config: { times: 1, message: "Payment {{ input.n }} was rejected" },
    },
  ],
}
const review = { name: "review", nodes: [{ id: "ask", handler: "approval" }] }

const everythingWrong = async () => {
  await stage.umbra.register(flaky as never)
  for (let n = 0; n < 3; n++) await stage.umbra.wait((await stage.umbra.submit("flaky", { n })).id)
  const waiting = await stage.start(review)
  await stage.umbra.register({ ...review, name: "held" } as never)
  await stage.umbra.pauseWorkflow("held", { reason: "the list is wrong" })
  const held = (await stage.umbra.submit("held", {})).id
  const pipeline = await stage.start({
    name: "crawl",
    init: [{ body: 1 }, { body: 2 }],
    routes: [
      route("fetch", ["call"], {
        error_handling: { retries: 5, circuit_breaker: { min_calls: 1, open_seconds: 3600 } },
      }),
    ],
  })
  await expect
    .poll(async () => (await stage.umbra.waits()).groups.map(({ kind }) => kind).sort())
    .toEqual(["breaker", "paused", "signal"])
  return { waiting, held, pipeline }
}

beforeAll(async () => {
  stage = await openUiStage({ umbra: { adapters: [call] } })
})
afterAll(() => stage?.close())

describe("what needs a person", () => {
  it("is nothing at first, and numbers say so; a failure and a wait appear by themselves", async () => {
    await stage.umbra.wait(
      await stage.start({ name: "fine", nodes: [{ id: "a", handler: "transform", config: { value: 1 } }] }),
    )
    const { page, context, close, problems } = await stage.open("/ui/now")
    onTestFinished(close)
    await page.waitForSelector('[data-state="healthy"] >> text=Nothing needs you')
    expect(await page.locator(".stat dd").allTextContents()).toEqual([
      "0 jobs",
      "0 ",
      "1 0 failed",
      "1 of 1 live",
    ])
    expect(await page.locator(".nn").count()).toBe(0)
    await page.waitForSelector('.conn[data-c="live"]')
    const { waiting, held, pipeline } = await everythingWrong()
    await page.waitForSelector('[aria-label="Failures"] .gi')
    await page.waitForSelector('[aria-label="Services and workers"] .gi')
    expect(await page.locator('[aria-label="Failures"] .gi').count()).toBe(1)
    expect(await page.locator('[aria-label="Failures"] .gn').textContent()).toBe("3 jobs")
    expect(await page.locator('[aria-label="Failures"] .gh').textContent()).toContain(
      "pay: Payment ? was rejected",
    )
    // The number leads to exactly these jobs.
    const { id: other } = await stage.umbra.submit(
      { ...flaky, nodes: [{ ...flaky.nodes[0]!, config: { message: "no money" } }] } as never,
      {},
    )
    await stage.umbra.wait(other)
    const failures = () => page.locator('[aria-label="Failures"] .gi').count()
    await expect.poll(failures).toBe(2)
    const counted = page.locator('[aria-label="Failures"] .gi:has-text("Payment ?") .gn')
    const list = await context.newPage()
    await list.goto(new URL((await counted.getAttribute("href"))!, page.url()).href)
    await list.waitForSelector("[data-job]")
    expect(await list.locator("[data-job]").count()).toBe(3)
    expect(await list.locator(`[data-job="${other}"]`).count()).toBe(0)
    await list.close()
    await stage.umbra.delete(other)
    await expect.poll(failures).toBe(1)
    expect(await page.locator('[data-group="paused"] .gm').textContent()).toContain("the list is wrong")
    expect(await page.locator('[data-group="paused"] a.nl').getAttribute("href")).toContain(held)
    expect(await page.locator('[data-group="breaker fetch"] a.nl').getAttribute("href")).toContain(pipeline)
    expect(await page.locator('[aria-label="Waiting for people"] .ap').count()).toBe(1)
    // The navigation of every page has their number, also on a phone.
    const things = /^(\d+) things/.exec((await page.locator(".answer").textContent())!)![1]!
    const numbers = () => page.locator('a:has-text("Now") .nn').allTextContents()
    expect(await numbers()).toEqual(Array(2).fill(`${things} things need a person`))
    await page.keyboard.press("Alt+2")
    await page.waitForSelector(".jl")
    expect(await numbers()).toEqual(Array(2).fill(`${things} things need a person`))
    await page.keyboard.press("Alt+1")
    await page.waitForSelector('[aria-label="Waiting for people"] .ap')
    expect(problems).toEqual([])

    await page.click(`[data-job="${waiting}"] >> text=Answer`)
    await page.waitForSelector('form[aria-label="Answer approved"] textarea')
    expect(new URL(page.url()).pathname).toBe(`/ui/jobs/${waiting}/answer`)
    await page.keyboard.press("Alt+1")
    await page.waitForSelector('[aria-label="Waiting for people"] .ap')
    await stage.umbra.signal(waiting, "approved", {})
    await page.waitForSelector('[aria-label="Waiting for people"]', { state: "detached" })
  })

  it("retries a group after a dry run, and the group leaves", async () => {
    const { page, close, problems } = await stage.open("/ui/now")
    onTestFinished(close)
    await page.click("text=Retry 3")
    await page.waitForSelector("dialog >> text=3 FAILED")
    const before = await stage.umbra.jobs({ workflow: "flaky" })
    expect(before.map(({ status }) => status)).toEqual(["FAILED", "FAILED", "FAILED"])
    await page.click("dialog button.primary >> text=Retry 3")
    await page.waitForSelector('[data-bulk="COMPLETED"]:has-text("3 jobs done, 0 left as they were, of 3")')
    await page.keyboard.press("Escape")
    await page.waitForSelector('[aria-label="Failures"]', { state: "detached" })
    await expect
      .poll(async () => (await stage.umbra.jobs({ workflow: "flaky" })).map(({ status }) => status))
      .toEqual(["COMPLETED", "COMPLETED", "COMPLETED"])
    expect(problems).toEqual([])
  })

  it("asks for every item of a list that waits for a person, and opens its form", async () => {
    const each = { id: "ask", handler: "approval", for_each: "{{ [1, 2] }}" }
    const job = await stage.start({ name: "both", nodes: [each] })
    onTestFinished(async () => void (await stage.umbra.cancel(job)))
    const { page, close } = await stage.open("/ui/now")
    onTestFinished(close)
    await page.click(`[data-job="${job}"] >> text=Answer`)
    await page.waitForSelector('form[aria-label="Answer approved"] textarea')
    expect(new URL(page.url()).search).toBe("?node=ask&item=0")
    await page.waitForSelector("main >> text=node ask, item 0")
  })

  it("reads older jobs too, and does not report unread jobs as well", async () => {
    const { page, close } = await stage.open(null)
    onTestFinished(close)
    const waits = { at: new Date().toISOString(), running: 0, scanned_to: null }
    const example = { workflow: "old", node: "a", item: null, until: null }
    const group = (job: string, since: string) => ({
      ...{ kind: "signal", subject: "approved", sentence: "", action: null, jobs: 1, nodes: 1, usual: null },
      ...{ since, until: null, examples: [{ ...example, job_id: job, since }] },
    })
    const pages: Record<string, object> = {
      "": { groups: [group("job-2", "2026-11-02T00:00:00Z")], next: "one" },
      one: { groups: [], next: "two" },
      two: { groups: [group("job-1", "2026-11-01T00:00:00Z")], next: null },
    }
    let isEndless = false
    await page.route(/\/waits/, one => {
      const after = new URL(one.request().url()).searchParams.get("after") ?? ""
      const found = isEndless ? { groups: [], next: "more" } : pages[after]!
      const complete = (found as { next: unknown }).next === null
      return one.fulfill({ json: { ...waits, jobs: 200, complete, ...found } })
    })
    await page.route(/\/failures/, one =>
      one.fulfill({ json: { groups: [], jobs: 0, complete: true, from: waits.at } }),
    )
    await page.route(/\/executions/, one =>
      one.fulfill({ json: { executions: [], next: null, complete: true } }),
    )
    await page.goto(`${stage.url}/ui/now`)
    await page.waitForSelector(".ap >> nth=1")
    const shown = await page
      .locator(".ap")
      .evaluateAll(rows => rows.map(row => (row as HTMLElement).dataset.job))
    expect(shown).toEqual(["job-1", "job-2"])
    expect(await page.locator("text=There are more unfinished jobs").count()).toBe(0)
    isEndless = true
    await page.keyboard.press("r")
    await page.waitForSelector('[data-state="healthy"] >> text=Nothing found that needs you')
    await page.waitForSelector("text=Older jobs than the newest 1,000")
    expect(await page.locator("text=Nothing needs you").count()).toBe(0)
  })

  it("goes through its entries by keys, and keeps its range in the address", async () => {
    const { page, close } = await stage.open("/ui/now")
    onTestFinished(close)
    await page.waitForSelector(".nl")
    await page.keyboard.press("j")
    const focused = () => page.evaluate(() => document.activeElement?.textContent)
    expect(await focused()).toBe("Paused")
    await page.keyboard.press("j")
    expect(await focused()).toBe("Breaker open: crawl, route fetch")
    await page.keyboard.press("k")
    await page.keyboard.press("Enter")
    await page.waitForURL(/\/ui\/jobs\//)
    await page.goBack()
    await page.click('.seg >> text="7 d"')
    await page.waitForURL(url => url.searchParams.get("since") === "7 d")
    await page.reload()
    await page.waitForSelector('.seg [aria-pressed="true"] >> text="7 d"')
  })

  it("never says that all is well after a failed query, and keeps what it knew", async () => {
    const { page, close } = await stage.open(null)
    onTestFinished(close)
    const problem = {
      status: 500,
      contentType: "application/problem+json",
      body: JSON.stringify({ code: "E501", detail: "The store did not answer." }),
    }
    await page.route(/\/waits/, one => one.fulfill(problem))
    await page.goto(`${stage.url}/ui/now`)
    await page.waitForSelector('[data-state="failed"] >> text=500, E501')
    expect(await page.locator("text=This does not mean that nothing needs you.").count()).toBe(1)
    expect(await page.locator('[data-state="healthy"]').count()).toBe(0)
    await page.unroute(/\/waits/)
    await page.click("text=Try now")
    await page.waitForSelector('[data-group="paused"]')
    expect(await page.locator('[data-state="failed"]').count()).toBe(0)
    await intercept(page, /\/waits/, one => one.fulfill(problem))
    await page.keyboard.press("r")
    await page.waitForSelector("text=Below is what was known at")
    expect(await page.locator('[data-group="paused"]').count()).toBe(1)
  })

  it("sends at most two requests in a minute while nothing changes", async () => {
    const { page, close, requests } = await stage.open(null, { isNew: true })
    onTestFinished(close)
    await page.clock.install()
    await page.goto(`${stage.url}/ui/now`)
    await page.waitForSelector('.conn[data-c="live"]')
    await page.waitForSelector(".nl")
    const before = requests.length
    await page.clock.runFor(59_000)
    expect(requests.slice(before).length, requests.slice(before).join(" ")).toBeLessThanOrEqual(2)
  })

  it("has no violation in the light and the dark theme, nor at 390 px", async () => {
    const { page, close } = await stage.open("/ui/now")
    onTestFinished(close)
    await page.waitForSelector(".nl")
    expect(await violations(page)).toEqual([])
    await page.setViewportSize({ width: 390, height: 844 })
    expect(await violations(page), "390 px").toEqual([])
    expect(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)).toBe(0)
  })
})

describe("without the scope manage", () => {
  it("has no button that changes something, and counts workers without naming them", async () => {
    const closed = await openUiStage({ withTokens: true })
    onTestFinished(() => closed.close())
    const { jobId } = await closed.umbra.accept(flaky as never, { n: 1 }, { owner: "ada" })
    await closed.umbra.wait(jobId)
    const token = await closed.token("ada", "read")
    const { page, requests } = await closed.open("/ui/now")
    await page.fill('input[name="token"]', token)
    await page.keyboard.press("Enter")
    await page.waitForSelector('[aria-label="Failures"] .gi')
    expect(await page.locator(".ga button").count()).toBe(0)
    expect(requests.filter(path => path.startsWith("/workers"))).toEqual([])
    const other = await closed.token("bob", "read")
    const { page: theirs } = await closed.open("/ui/now")
    await theirs.fill('input[name="token"]', other)
    await theirs.keyboard.press("Enter")
    await theirs.waitForSelector('[data-state="healthy"]')
  })
})
