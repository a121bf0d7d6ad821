/** The job page in Chromium, against a real server: moments, live updates, actions, links. */
import { readFileSync } from "node:fs"
import fc from "fast-check"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { seed } from "../support/seed.ts"
import { everything, openUiStage, shownAfter, shownStates, type UiStage } from "./ui-stage.ts"

let stage: UiStage
let ended: string
// biome-ignore lint/suspicious/noExplicitAny: answers of the API.
let facts: any[]
const list = Array.from({ length: 40 }, (_, n) => `item ${n}`)

const waits = {
  name: "waits",
  nodes: [
    { id: "draft", handler: "transform", config: { value: "a draft" } },
    { id: "ask", handler: "approval", dependencies: ["draft"] },
    { id: "ship", handler: "transform", dependencies: ["ask"], config: { value: "{{ ask }}" } },
  ],
}

beforeAll(async () => {
  stage = await openUiStage()
  ended = await stage.start(everything, { list })
  expect((await stage.umbra.wait(ended)).status).toBe("FAILED")
  facts = (await stage.ask(`/jobs/${ended}/facts?limit=1000`)).body.facts
})
afterAll(() => stage?.close())

/** The states that the API has at a moment. */
async function statesAt(job: string, moment: string): Promise<Record<string, string>> {
  const { body } = await stage.ask(`/jobs/${job}/graph?at=${encodeURIComponent(moment)}`)
  return Object.fromEntries(
    body.nodes.map(({ id, status }: { id: string; status: string }) => [id, status.toLowerCase()]),
  )
}

describe("the job page", () => {
  it("shows at 200 moments the states that the server has there", async () => {
    const { page, close, problems } = await stage.open(`/ui/jobs/${ended}?panel=none`)
    onTestFinished(close)
    await page.waitForSelector(".node")
    expect(facts.length).toBeGreaterThan(40)
    const moments = fc.sample(fc.integer({ min: 1, max: facts.length }), { numRuns: 200, seed })
    const expected = new Map<number, Record<string, string>>()
    for (const index of new Set(moments)) expected.set(index, await statesAt(ended, `#${index}`))
    const shown = await shownAfter(page, moments)
    for (const [n, index] of moments.entries()) expect(shown[n], `fact ${index}`).toEqual(expected.get(index))
    expect(problems).toEqual([])
  })

  it("counts as many attempts as it lists, completed ones too", async () => {
    const job = await stage.start(waits)
    for (const [id, node] of [
      [ended, "flaky"],
      [job, "draft"],
    ]) {
      const { page, close } = await stage.open(`/ui/jobs/${id}?node=${node}&tab=Attempts`)
      onTestFinished(close)
      await page.waitForSelector(".att li")
      const listed = await page.locator(".att > li").count()
      expect(await page.textContent("#tab-Attempts .n"), node).toBe(String(listed))
    }
  })

  it("moves no card by a pixel when a live job changes, and shows the change", async () => {
    const job = await stage.start(waits)
    const { page, close, problems } = await stage.open(`/ui/jobs/${job}`)
    onTestFinished(close)
    await page.waitForSelector('.node[data-id="ask"][data-s="waiting"]')
    const boxes = () =>
      page.evaluate(() =>
        [...document.querySelectorAll(".node")].map(card => JSON.stringify(card.getBoundingClientRect())),
      )
    const before = await boxes()
    expect(before).toHaveLength(3)
    await stage.umbra.signal(job, "approved", { by: "Ada" })
    await page.waitForSelector('.node[data-id="ship"][data-s="completed"]')
    expect(await boxes()).toEqual(before)
    expect(await page.locator(".pill").first().textContent()).toBe("COMPLETED")
    expect(problems).toEqual([])
  })

  it("resumes a stream that was cut for 50 events, without a gap and without a double", async () => {
    const [draft, ask] = waits.nodes
    const list = { for_each: Array.from({ length: 50 }, (_, n) => n), config: { value: "{{ item }}" } }
    const ship = { id: "ship", handler: "transform", dependencies: ["ask"], ...list }
    const job = await stage.start({ name: "many", nodes: [draft, ask, ship] })
    const { page, close } = await stage.open(`/ui/jobs/${job}?panel=job&tab=Events`)
    onTestFinished(close)
    await page.waitForSelector('.conn[data-c="live"]')
    stage.proxy.cut()
    try {
      await page.waitForSelector('[data-state="lost"]')
      await stage.umbra.signal(job, "approved", null)
      await stage.umbra.wait(job)
    } finally {
      stage.proxy.restore()
    }
    // The page may have connected again by itself.
    await page.click("text=Try now", { timeout: 5000 }).catch(() => {})
    await page.waitForSelector('.node[data-id="ship"][data-s="completed"]')
    const all = (await stage.ask(`/jobs/${job}/facts?limit=100`)).body.facts
    expect(all.length).toBeGreaterThan(52)
    expect(await page.locator(".slide").getAttribute("max")).toBe(String(all.length))
    const texts = () => page.locator(".ev .num").allTextContents()
    const rows = new Set((await texts()).map(Number))
    await page.locator(".events").evaluate(list => list.scrollTo(0, 0))
    await expect.poll(async () => (await texts())[0]).toBe("1")
    for (const text of await texts()) rows.add(Number(text))
    expect([...rows].toSorted((one, other) => one - other)).toEqual(
      all.map(({ index }: { index: number }) => index),
    )
    expect(await page.locator('[data-state="lost"]').count()).toBe(0)
  })

  it("draws the graph although the connection was lost while its layout was loaded", async () => {
    const context = await stage.browser.newContext()
    onTestFinished(() => context.close())
    let cut = 0
    await context.route(/layout-worker/, route => (cut++ === 0 ? route.abort() : route.continue()))
    const page = await context.newPage()
    await page.goto(`${stage.url}/ui/jobs/${ended}`)
    await page.waitForSelector('.node[data-id="each"]')
    expect(cut).toBe(2)
  })

  it("says that a page could not be loaded, and loads it on demand", async () => {
    const { page, close } = await stage.open("/ui/jobs?workflow=everything", { isNew: true })
    onTestFinished(close)
    await page.waitForSelector(".jtbl")
    stage.proxy.cut()
    await page.click(".jtbl tbody a")
    await page.waitForSelector('[data-state="failed"] >> text=The page could not be read')
    stage.proxy.restore()
    await page.click("text=Try now")
    await page.waitForSelector('.node[data-id="each"]')
  })

  it("opens a link to a moment and a node in a fresh browser, and goes back", async () => {
    const index = Math.floor(facts.length / 2)
    const { seq } = facts[index - 1]
    const { page, close } = await stage.open(`/ui/jobs/${ended}?at=${seq}&node=each&tab=Items&item=13`)
    onTestFinished(close)
    await page.waitForSelector(".node")
    expect(await shownStates(page)).toEqual(await statesAt(ended, String(seq)))
    expect(await page.locator(".drawer h2").textContent()).toBe("each")
    expect(await page.locator('[role="tab"][aria-selected="true"]').textContent()).toContain("Items")
    await page.click(".past button")
    await page.waitForURL(url => !url.searchParams.has("at"))
    await page.locator("a.brand").click()
    await page.waitForSelector(".jtbl")
    await page.goBack()
    await expect.poll(() => page.locator(".drawer h2").textContent()).toBe("each")
  })

  it("has the same nodes with the same states in graph, outline and gantt", async () => {
    const { page, close } = await stage.open(`/ui/jobs/${ended}`)
    onTestFinished(close)
    await page.waitForSelector(".node")
    const inGraph = await shownStates(page)
    const rows = (selector: string) =>
      page.evaluate(
        css =>
          Object.fromEntries(
            [...document.querySelectorAll<HTMLElement>(css)].map(row => [row.dataset.id!, row.dataset.s!]),
          ),
        selector,
      )
    await page.keyboard.press("o")
    await page.waitForSelector(".or")
    expect(await rows(".or")).toEqual(inGraph)
    await page.keyboard.press("t")
    await page.waitForSelector(".gr")
    expect(await rows(".gr")).toEqual(inGraph)
    await page.keyboard.press("g")
    await page.waitForSelector(".node")
  })

  it("goes from the list to the error of a failed node with keys alone, and retries the job", async () => {
    const { page, close } = await stage.open("/ui/jobs?status=FAILED&workflow=everything")
    onTestFinished(close)
    await page.waitForSelector(".jl")
    const isFocused = () => page.waitForFunction(() => document.activeElement !== document.body)
    await page.keyboard.press("j")
    await isFocused()
    await page.keyboard.press("Enter")
    await page.waitForSelector(".node")
    await isFocused()
    await page.keyboard.press("Control+k")
    await page.waitForSelector(".palette input")
    await page.keyboard.type("@each")
    await page.waitForSelector('.po[aria-selected="true"] >> text=each')
    await page.keyboard.press("Enter")
    await page.waitForSelector(".drawer .errbox")
    expect(await page.locator(".drawer .errbox").first().textContent()).toContain("this one is bad")
    await isFocused()
    await page.keyboard.press("6")
    await page.waitForSelector(".imap")
    await page.locator(".imap").focus()
    for (let n = 0; n <= 13; n++) await page.keyboard.press("ArrowRight")
    await page.waitForSelector('.idetail[aria-label="Item 13"] .errbox')
    await page.keyboard.press("Control+k")
    await page.waitForSelector(".palette input")
    await page.keyboard.type(":retry")
    await page.waitForSelector('.po[aria-selected="true"] >> text=Retry the job')
    await page.keyboard.press("Enter")
    await page.waitForSelector("dialog.ask")
    const before = (await stage.ask(`/jobs/${ended}/facts?limit=1000`)).body.facts.length
    await page.waitForSelector("dialog.ask button.primary:focus")
    await page.keyboard.press("Enter")
    await page.waitForSelector("dialog.ask", { state: "detached" })
    await expect
      .poll(async () => (await stage.ask(`/jobs/${ended}/facts?limit=1000`)).body.facts.length)
      .toBeGreaterThan(before)
    await isFocused()
  })

  it("moves between nodes and moments with keys", async () => {
    const { page, close } = await stage.open(`/ui/jobs/${ended}?node=start`)
    onTestFinished(close)
    await page.waitForSelector(".node")
    await page.locator('.node[data-id="start"]').focus()
    await page.keyboard.press("ArrowRight")
    await page.waitForFunction(() => document.activeElement?.getAttribute("data-id") !== "start")
    expect(["never", "each"]).toContain(
      await page.evaluate(() => document.activeElement!.getAttribute("data-id")),
    )
    await page.keyboard.press("ArrowLeft")
    await page.waitForFunction(() => document.activeElement?.getAttribute("data-id") === "start")
    await page.keyboard.press(",")
    await page.waitForSelector(".past")
    await page.keyboard.press("l")
    await page.waitForSelector(".past", { state: "detached" })
    await page.keyboard.press("[")
    await page.waitForSelector(".past")
    await page.keyboard.press("Escape")
    await page.waitForSelector(".drawer", { state: "detached" })
  })

  it("cancels a job with a reason, and sends a signal with data", async () => {
    const cancelled = await stage.start(waits)
    const { page, close } = await stage.open(`/ui/jobs/${cancelled}`)
    onTestFinished(close)
    await page.click("text=Cancel")
    await page.fill('dialog input[name="reason"]', "not wanted any more")
    await page.click("text=Cancel the job >> nth=-1")
    await page.waitForSelector('.pill[data-s="cancelled"]')
    expect((await stage.ask(`/jobs/${cancelled}`)).body).toMatchObject({
      status: "CANCELLED",
      reason: "not wanted any more",
    })

    const job = await stage.start(waits)
    await page.goto(`${stage.url}/ui/jobs/${job}?node=ask`)
    await page.fill(".drawer textarea", "{ not json")
    await page.click("text=Send approved")
    await page.waitForSelector("text=This is not JSON")
    await page.fill(".drawer textarea", '{"by": "Ada"}')
    await page.click("text=Send approved")
    await page.waitForSelector('.pill[data-s="completed"]')
    await page.click('[role="tab"] >> text=Output')
    await page.waitForSelector(".jrows .c-s >> text=Ada")
  })

  it("downloads a replay file and the graph", async () => {
    const { page, close } = await stage.open(`/ui/jobs/${ended}`)
    onTestFinished(close)
    for (const [label, ending] of [
      ["Replay file (HTML)", ".html"],
      ["Graph (JSON)", "-graph.json"],
    ] as const) {
      if ((await page.locator(".menu").count()) === 0) await page.click(".acts >> text=Download")
      const download = page.waitForEvent("download")
      await page.click(`.menu >> text=${label}`)
      const file = await download
      expect(file.suggestedFilename()).toContain(ended)
      expect(file.suggestedFilename().endsWith(ending)).toBe(true)
      expect(readFileSync(await file.path(), "utf8")).toContain(
        ending === ".html" ? 'id="umbra-data"' : '"flaky"',
      )
    }
  })

  it("shows hostile texts as texts", async () => {
    const hostile = `<img src=x onerror="window.hit=1"><script>window.hit=1</script>javascript:window.hit=1`
    const job = await stage.start(
      {
        name: "hostile",
        nodes: [
          { id: "a", handler: "transform", config: { value: { [hostile]: "{{ input.text }}" } } },
          {
            id: "b",
            handler: "fails",
            retry: { max_attempts: 1 },
            dependencies: ["a"],
            config: { message: "{{ input.text }}" },
          },
        ],
      },
      { text: hostile },
    )
    await stage.umbra.wait(job)
    const { page, close, problems } = await stage.open(`/ui/jobs/${job}?node=a&tab=Output`)
    onTestFinished(close)
    await page.waitForSelector(".jr")
    await page.goto(`${stage.url}/ui/jobs/${job}?node=b`)
    await page.waitForSelector(".errbox")
    expect(await page.locator(".errbox p").first().textContent()).toContain(hostile)
    for (const view of ["outline", "gantt"])
      await page.goto(`${stage.url}/ui/jobs/${job}?view=${view}&panel=job`)
    await page.goto(`${stage.url}/ui/jobs?workflow=hostile`)
    await page.waitForSelector(".jl")
    expect(await page.evaluate(() => (window as { hit?: number }).hit)).toBeUndefined()
    expect(await page.locator("img").count()).toBe(0)
    // A violation of the content security policy would be here.
    expect(problems).toEqual([])
  })

  it("shows an error of 5 KB whole", async () => {
    const message = `begin ${"long ".repeat(1000)} end of the error`
    const job = await stage.start({
      name: "verbose",
      nodes: [{ id: "b", handler: "fails", retry: { max_attempts: 1 }, config: { message } }],
    })
    await stage.umbra.wait(job)
    const stored = (await stage.ask(`/jobs/${job}`)).body.error.message as string
    const { page, close } = await stage.open(`/ui/jobs/${job}?node=b`)
    onTestFinished(close)
    await page.waitForSelector(".errbox")
    expect(await page.locator(".errbox p").first().textContent()).toBe(stored)
    const isCut = await page.evaluate(() => {
      const text = document.querySelector<HTMLElement>(".errbox p")!
      return text.scrollHeight > text.clientHeight + 1 || getComputedStyle(text).textOverflow === "ellipsis"
    })
    expect(isCut).toBe(false)
  })
})
