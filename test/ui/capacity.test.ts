/** The page Capacity: workers, engines, providers with slots and webhooks, and waits. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { type FakeProvider, startFakeProvider } from "../../src/testing/fake-provider.ts"
import { until } from "../engine/stage.ts"
import { make, optionsFor, waiting } from "../provider/stage.ts"
import { violations } from "./axe.ts"
import { numberWasRequested, openUiStage, type UiStage } from "./ui-stage.ts"

let stage: UiStage
let fake: FakeProvider
let holder: string
let queued: string

beforeAll(async () => {
  fake = await startFakeProvider()
  const umbra = optionsFor(fake, { over: { poll_seconds: [3600], concurrency: 2 } })
  stage = await openUiStage({ umbra })
  fake.webhookUrl = `${stage.server.url}/webhooks/fake`
  holder = (await stage.umbra.submit(make())).id
  const operation = await waiting(stage.umbra, fake, holder)
  for (let n = 0; n < 2; n++) queued = (await stage.umbra.submit(make())).id
  const body = fake.webhookBody(operation)
  await stage.ask("/webhooks/fake", { method: "POST", body, headers: fake.signed(body, "a guess") })
  await until("a waiting node", async () => (await stage.umbra.providers())[0]?.slots.waiting === 1)
})
afterAll(async () => {
  await stage?.close()
  await fake?.close()
})

describe("the page Capacity", () => {
  it("shows who holds slots, who waits, and refused webhooks with their reason", async () => {
    const { page, close, problems } = await stage.open("/ui/capacity")
    onTestFinished(close)
    const card = page.locator('[data-provider="fake"]')
    await card.waitFor()
    expect(await card.textContent()).toContain("2 of 2")
    expect(await card.locator(".tagc.full").count()).toBe(1)
    expect(await card.locator(".cells i").count()).toBe(2)
    expect(await card.locator(".hold a").first().getAttribute("href")).toMatch(/\/ui\/jobs\//)
    expect(await card.locator(".pvk").textContent()).toContain("Waiting1, the first for")
    await page.waitForSelector('.hooks li[data-verdict="refused"]')
    await page.click('[data-webhooks="fake"] .seg >> text=Refused')
    expect(await page.locator(".hooks li").count()).toBe(1)
    await page.waitForURL(/refused=1/)
    expect(problems).toEqual([])
  })

  it("shows workers by host and by handler, engines with partitions, and what jobs wait for", async () => {
    const { page, close } = await stage.open("/ui/capacity")
    onTestFinished(close)
    await page.waitForSelector('tr[data-worker][data-state="live"]')
    expect(await page.locator("tr[data-worker]").textContent()).toContain(String(process.pid))
    await page.click("tr[data-worker] .tagc.out")
    expect(await page.locator("tr[data-worker] .tagc >> text=transform").count()).toBe(1)
    await page.click("text=By handler")
    await page.waitForSelector('tr[data-handler="transform"]')
    expect(await page.locator("[data-engine]").textContent()).toContain("64")
    expect(await page.locator("[data-unowned]").count()).toBe(0)
    const wait = page.locator('tr[data-wait="slot"]')
    await wait.waitFor()
    expect(await wait.textContent()).toContain("Slot of fake")
    expect(await wait.locator("a").first().getAttribute("href")).toContain("/ui/jobs/")
  })

  it("reads itself again when jobs change, and seldom otherwise", async () => {
    const { page, close, requests } = await stage.open(null, { isNew: true })
    onTestFinished(close)
    await page.clock.install()
    await page.goto(`${stage.url}/ui/capacity`)
    await page.waitForSelector('.conn[data-c="live"]')
    await page.waitForSelector('tr[data-wait="slot"]')
    await numberWasRequested(requests)
    const before = requests.length
    await page.clock.runFor(59_000)
    expect(requests.slice(before).length, requests.slice(before).join(" ")).toBeLessThanOrEqual(2)
    await page.clock.resume()
    await stage.umbra.cancel(queued)
    await page.waitForSelector('[aria-label="Queue waits"] >> text=No job waits in a queue')
  })

  it("keeps the other parts if one could not be read", async () => {
    const { page, close } = await stage.open(null)
    onTestFinished(close)
    await page.route(/\/engines$/, one => one.abort())
    await page.goto(`${stage.url}/ui/capacity`)
    await page.waitForSelector('[aria-label="Engines, not read"]')
    await page.waitForSelector("tr[data-worker]")
    expect(await page.locator("[data-engine]").count()).toBe(0)
  })

  it("has no violation in the light and the dark theme, nor at 390 px", async () => {
    const { page, close } = await stage.open("/ui/capacity")
    onTestFinished(close)
    await page.waitForSelector(".hooks li")
    expect(await violations(page)).toEqual([])
    await page.setViewportSize({ width: 390, height: 844 })
    expect(await violations(page), "390 px").toEqual([])
    expect(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)).toBe(0)
  })
})

describe("without the scope admin", () => {
  it("counts workers, and requests nothing that belongs to others", async () => {
    const closed = await openUiStage({ withTokens: true })
    onTestFinished(() => closed.close())
    const { page, requests, problems } = await closed.open("/ui/capacity")
    await page.fill('input[name="token"]', await closed.token("ada", "read", "manage"))
    await page.keyboard.press("Enter")
    await page.waitForSelector("[data-counts]:has-text('1 live, 0 dead')")
    await page.waitForSelector('[aria-label="Queue waits"]')
    expect(requests.filter(path => /^\/(workers|engines|providers)/.test(path))).toEqual([])
    expect(problems.filter(text => !text.includes("401"))).toEqual([])
  })
})
