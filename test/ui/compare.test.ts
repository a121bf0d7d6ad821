/** The page Compare: two jobs, two moments, a fork and its origin; what the server answers is what is shown. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { until } from "../engine/stage.ts"
import { violations } from "./axe.ts"
import { openUiStage, type UiStage } from "./ui-stage.ts"

let stage: UiStage
let first: string
let second: string
let waiting: string
const draft = {
  name: "draft",
  nodes: [
    { id: "load", handler: "transform", config: { value: { lines: ["one", "two"] } } },
    {
      id: "write",
      handler: "transform",
      dependencies: ["load"],
      config: { value: { title: "Ice", text: "calm", pages: 1 } },
    },
    { id: "send", handler: "transform", dependencies: ["write"], config: { value: "{{ write.text }}" } },
    { id: "count", handler: "transform", dependencies: ["load"], config: { value: 2 } },
  ],
}

beforeAll(async () => {
  stage = await openUiStage()
  first = await stage.start(draft)
  await stage.umbra.wait(first)
  const [load, write, ...rest] = draft.nodes
  const changed = { ...write!, config: { value: { title: "Ice", text: "<b>wild</b>", author: "Ada" } } }
  second = await stage.start({
    ...draft,
    nodes: [load!, changed, ...rest, { id: "extra", handler: "approval" }],
  })
  await until("the last node waits", async () => (await stage.umbra.waits()).groups.length === 1)
  await stage.umbra.signal(second, "approved", {})
  await stage.umbra.wait(second)
  waiting = await stage.start({
    name: "waits",
    nodes: [
      { id: "ask", handler: "approval" },
      { id: "after", handler: "transform", dependencies: ["ask"], config: { value: 1 } },
    ],
  })
})
afterAll(() => stage?.close())

const verdicts = (page: import("playwright-core").Page) =>
  page.evaluate(() =>
    Object.fromEntries(
      [...document.querySelectorAll<HTMLElement>("[data-node]")].map(row => [
        row.dataset.node!,
        row.dataset.verdict!,
      ]),
    ),
  )

describe("two jobs", () => {
  it("shows the first divergence, all nodes by verdict, and the values that differ", async () => {
    const { page, close, problems } = await stage.open(`/ui/compare?a=${first}&b=${second}`)
    onTestFinished(close)
    await page.waitForSelector(".ctbl")
    const api = await stage.ask(`/jobs/compare?a=${first}&b=${second}`)
    expect(api.body.divergence).toEqual({ kind: "definition", node: "write" })
    expect(await page.locator(".first").getAttribute("data-diverges")).toBe("definition")
    expect(await page.locator(".first").textContent()).toContain("First divergence: write.")
    expect(await verdicts(page)).toEqual({
      ...{ load: "same", write: "here", send: "follows", count: "same", extra: "here" },
    })
    // The table has the whole width until a node is open beside it.
    const right = (selector: string) =>
      page.locator(selector).evaluate(element => element.getBoundingClientRect().right)
    expect(await right(".cgrid .panel")).toBe(await right(".first"))
    // A gantt of both from their starts: bars begin where the server says, on one scale.
    const bars = await page.evaluate(() =>
      [...document.querySelectorAll<HTMLElement>("[data-node] .tb")].map(bar => {
        const { left, width } = bar.getBoundingClientRect()
        const inner = bar.querySelector("i")?.getBoundingClientRect()
        return inner === undefined ? null : (inner.left - left) / width
      }),
    )
    interface Timed {
      readonly began_ms: number | null
      readonly took_ms: number | null
    }
    const compared = api.body.nodes as { readonly a: Timed | null; readonly b: Timed | null }[]
    const sides = compared.flatMap(({ a, b }) => [a, b])
    const span = Math.max(1, ...sides.map(side => (side?.began_ms ?? 0) + (side?.took_ms ?? 0)))
    expect(bars).toHaveLength(sides.length)
    for (const [n, side] of sides.entries())
      if (side?.began_ms == null) expect(bars[n]).toBeNull()
      else expect(bars[n]).toBeCloseTo(side.began_ms / span, 1)
    await page.click("text=Show the change")
    await page.waitForSelector(".vdiff li")
    expect(new URL(page.url()).searchParams.get("node")).toBe("write")
    const changes = await page.evaluate(() =>
      [...document.querySelectorAll<HTMLElement>(".vdiff li")].map(li => [
        li.dataset.kind,
        li.querySelector(".mono")!.textContent,
      ]),
    )
    const diff = await stage.ask(`/jobs/compare?a=${first}&b=${second}&diff=write`)
    expect(changes).toEqual(
      diff.body.diffs[0].changes.map(({ kind, path }: { kind: string; path: string }) => [kind, path]),
    )
    expect(changes).toHaveLength(3)
    // A text of a payload stays a text.
    expect(await page.locator(".vdiff ins").allTextContents()).toContain('+ "<b>wild</b>"')
    expect(await page.locator(".vdiff b").count()).toBe(0)
    await page.click('[data-node="extra"] .cn')
    await page.waitForSelector("text=Only one of the jobs has this node.")
    expect(problems).toEqual([])
  })

  it("is used by keys: rows, only what differs, swapped sides", async () => {
    const { page, close } = await stage.open(`/ui/compare?a=${first}&b=${second}`)
    onTestFinished(close)
    await page.waitForSelector(".ctbl")
    await page.keyboard.press("d")
    await page.waitForFunction(() => document.querySelectorAll("[data-node]").length === 3)
    await page.waitForURL(/only=1/)
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await page.waitForSelector('[aria-label="Differences of write"] .vdiff')
    await page.keyboard.press("Escape")
    await page.waitForSelector(".cpanel", { state: "detached" })
    await page.keyboard.press("s")
    await page.waitForURL(new RegExp(`a=${second}&b=${first}|b=${first}.*a=${second}`))
    await page.waitForSelector('[data-node="extra"] >> text=only in A')
    await page.goBack()
    await page.waitForSelector('[data-node="extra"] >> text=only in B')
  })

  it("compares the inputs", async () => {
    const { id: other } = await stage.umbra.submit("draft@1", { seed: 2 })
    await stage.umbra.wait(other)
    const { page, close } = await stage.open(`/ui/compare?a=${first}&b=${other}`)
    onTestFinished(close)
    await page.waitForSelector('.first[data-diverges="input"]')
    await page.click("text=Show the change")
    await page.waitForSelector('[aria-label="Differences of input"] .vdiff li[data-kind="added"]')
  })

  it("says that nothing differs, and never does so for a failed request", async () => {
    const { page, close } = await stage.open(`/ui/compare?a=${first}&b=${first}`)
    onTestFinished(close)
    await page.waitForSelector('.first[data-diverges="none"]:has-text("No difference.")')
    await page.goto(`${stage.url}/ui/compare?a=${first}&b=01a1df1d-7c42-7000-8000-000000000000`)
    await page.waitForSelector('[data-state="failed"] >> text=404, E301')
    expect(await page.locator("text=This does not mean that the jobs are the same.").count()).toBe(1)
    expect(await page.locator(".first").count()).toBe(0)
    await page.fill('input[name="b"]', second)
    await page.click("button.primary")
    await page.waitForSelector('[data-node="write"]')
    // What was asked for stays in the form, the moments too.
    await page.goto(`${stage.url}/ui/compare?a=${first}&b=${second}&at_a=%233&at_b=yesterday`)
    await page.waitForSelector('[data-state="failed"]')
    expect(await page.inputValue('input[name="at_a"]')).toBe("#3")
    expect(await page.inputValue('input[name="at_b"]')).toBe("yesterday")
    await page.fill('input[name="at_b"]', "")
    await page.click("button.primary")
    await page.waitForSelector(".first")
    expect(new URL(page.url()).searchParams.get("at_a")).toBe("#3")
  })
})

describe("one job", () => {
  it("is compared between a past moment and now, from the job's page, and follows the job", async () => {
    const facts = (await stage.ask(`/jobs/${waiting}/facts`)).body.facts as { seq: number }[]
    const { page, close } = await stage.open(`/ui/jobs/${waiting}?at=${facts.at(-1)!.seq}`)
    onTestFinished(close)
    await page.waitForSelector(".node")
    await page.keyboard.press("c")
    await page.waitForURL(/\/ui\/compare\?/)
    await page.waitForSelector('.first[data-diverges="none"]')
    await page.waitForSelector('.conn[data-c="live"]')
    await stage.umbra.signal(waiting, "approved", {})
    await page.waitForSelector('.first[data-diverges="status"]')
    expect(await page.locator(".first").textContent()).toContain("First divergence: ask.")
    expect(await page.locator('[data-node="ask"] .k3').textContent()).toBe("COMPLETED")
  })

  it("requests the other one", async () => {
    const { page, close } = await stage.open(`/ui/jobs/${first}`)
    onTestFinished(close)
    await page.waitForSelector(".node")
    await page.click(".acts >> text=Compare")
    expect(await page.inputValue('input[name="a"]')).toBe(first)
    await page.fill('input[name="b"]', second)
    await page.keyboard.press("Enter")
    await page.waitForSelector('.first[data-diverges="definition"]')
  })
})

describe("a fork", () => {
  it("is compared with its origin: the first divergence is the forked node", async () => {
    const fork = await stage.ask(`/jobs/${first}/fork`, {
      method: "POST",
      body: { overrides: { write: { output: { title: "Ice", text: "new", pages: 1 } } } },
    })
    expect(fork.status).toBe(201)
    await stage.umbra.wait(fork.body.job_id)
    const { page, close } = await stage.open(`/ui/jobs/${fork.body.job_id}`)
    onTestFinished(close)
    await page.waitForSelector(".node")
    await page.keyboard.press("c")
    await page.waitForSelector('.first:has-text("First divergence: write.")')
    expect(new URL(page.url()).searchParams.get("a")).toBe(first)
    expect(await verdicts(page)).toMatchObject({ load: "same", write: "here", send: "follows" })
  })
})

describe("in the light and the dark theme", () => {
  it("has no violation, also at 390 px, without sideways scroll", async () => {
    const path = `/ui/compare?a=${first}&b=${second}&node=write`
    const { page, close } = await stage.open(path)
    onTestFinished(close)
    await page.waitForSelector(".vdiff li")
    expect(await violations(page)).toEqual([])
    await page.setViewportSize({ width: 390, height: 844 })
    expect(await violations(page), "390 px").toEqual([])
    expect(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)).toBe(0)
    await page.goto(`${stage.url}/ui/compare`)
    await page.waitForSelector(".choose")
    expect(await violations(page), "the form").toEqual([])
  })
})
