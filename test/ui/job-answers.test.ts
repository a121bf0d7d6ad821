/** What the job page asks of the server besides facts: why, routes of a pipeline; and pause and resume as actions. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { until } from "../engine/stage.ts"
import { adapter, numbers, route } from "../pipeline/scene.ts"
import { moveTo, openUiStage, type UiStage } from "./ui-stage.ts"

let stage: UiStage
/** Messages of the pipeline wait here until the test lets them go on. */
let open: () => void
const gate = new Promise<void>(resolve => {
  open = resolve
})

beforeAll(async () => {
  const held = adapter("held", async ({ body }) => {
    await gate
    const { n } = body as { n: number }
    if (n === 3) throw Object.assign(new Error("three is refused"), { retryable: false })
    return body
  })
  const keep = adapter("keep", ({ body }) => body)
  stage = await openUiStage({ umbra: { adapters: [numbers, held, keep] } })
})
afterAll(async () => {
  open()
  await stage?.close()
})

const waits = {
  name: "waits",
  nodes: [
    { id: "draft", handler: "transform", config: { value: "a draft" } },
    { id: "ask", handler: "approval", dependencies: ["draft"] },
    { id: "ship", handler: "transform", dependencies: ["ask"], config: { value: "{{ ask }}" } },
    { id: "bill", handler: "transform", dependencies: ["ship"], config: { value: 1 } },
  ],
}

const waiting = (job: string) =>
  until("ask waits", async () => (await stage.umbra.graph(job)).nodes[1]!.status === "WAITING")

/** Requests for `why`; the page also has scripts whose names contain that word. */
const ASKED = /\/jobs\/[^/]+\/why(\?|$)/

describe("why, by the server", () => {
  it("has sentence, chain of causes and action of a node that waits, and ends with the wait", async () => {
    const job = await stage.start(waits)
    await waiting(job)
    const { page, close, problems } = await stage.open(`/ui/jobs/${job}?node=bill`)
    onTestFinished(close)
    await page.waitForSelector(".drawer .why .chain")
    const { body } = await stage.ask(`/jobs/${job}/why?node=bill`)
    expect(body.chain.map(({ node }: { node: string }) => node)).toEqual(["bill", "ship", "ask"])
    expect(await page.locator(".why .cause").textContent()).toBe(body.sentence)
    expect(await page.locator(".why .chain li").allTextContents()).toEqual(
      body.chain.map(({ sentence }: { sentence: string }) => sentence),
    )
    expect(body.action).toContain(`umbra jobs signal ${job} approved`)
    expect(await page.locator(".why .cmd").textContent()).toContain(`umbra jobs signal ${job} approved`)
    await page.click(".why .chain >> text=ask >> nth=-1")
    await page.waitForSelector('.drawer[aria-label="Node ask"] .why .cause >> text=signal approved')
    await stage.umbra.signal(job, "approved", null)
    await page.waitForSelector('.pill[data-s="completed"]')
    await page.waitForSelector(".why", { state: "detached" })
    expect(problems).toEqual([])
  })

  it("changes with the facts of the job, with few requests although many facts arrive", async () => {
    const names = Array.from({ length: 30 }, (_, n) => `s${n}`)
    const nodes = names.map((id, n) => ({
      id,
      handler: "wait_for_signal",
      config: { signal: id },
      ...(n === 0 ? {} : { dependencies: [names[n - 1]] }),
    }))
    const job = await stage.start({ name: "many-signals", nodes })
    const { page, close, requests } = await stage.open(`/ui/jobs/${job}?panel=job`)
    onTestFinished(close)
    await page.waitForSelector(".why .cause >> text=signal s0")
    const asked = () => requests.filter(path => ASKED.test(path)).length
    const before = asked()
    const began = performance.now()
    for (const [n, name] of names.slice(0, -1).entries()) {
      await stage.umbra.signal(job, name, null)
      await page.waitForSelector(`.jfacts dd >> text="${n + 1} of ${names.length}"`)
    }
    await page.waitForSelector(".why .cause >> text=signal s29")
    // At most one in three seconds, however many facts arrived.
    expect(asked() - before).toBeLessThanOrEqual(Math.floor((performance.now() - began) / 3000) + 1)
  })

  it("explains a past moment, from its facts, once for each moment", async () => {
    const job = await stage.start(waits)
    await waiting(job)
    await stage.umbra.signal(job, "approved", null)
    await stage.umbra.wait(job)
    const { facts } = (await stage.ask(`/jobs/${job}/facts`)).body
    const index = facts.findIndex(({ type }: { type: string }) => type === "node_waiting") + 1
    expect(index).toBeGreaterThan(0)
    const { page, close } = await stage.open(`/ui/jobs/${job}?node=ship`)
    onTestFinished(close)
    await page.waitForSelector('.node[data-id="ship"][data-s="completed"]')
    expect(await page.locator(".why").count()).toBe(0)
    const answered = page.waitForResponse(response => ASKED.test(response.url()))
    await moveTo(page, index)
    expect(new URL((await answered).url()).searchParams.get("at")).toBe(String(facts[index - 1].seq))
    await page.waitForSelector(".why .cause")
    const { body } = await stage.ask(`/jobs/${job}/why?node=ship&at=${facts[index - 1].seq}`)
    expect(await page.locator(".why .cause").textContent()).toBe(body.sentence)
    await page.waitForSelector(".why >> text=Not recorded then")
  })

  it("says that it could not be read, and still shows the page", async () => {
    const job = await stage.start(waits)
    await waiting(job)
    const context = await stage.browser.newContext()
    onTestFinished(() => context.close())
    await context.route(ASKED, answer => answer.abort())
    const page = await context.newPage()
    await page.goto(`${stage.url}/ui/jobs/${job}?node=ask`)
    await page.waitForSelector('[data-why="failed"]')
    expect(await page.locator(".drawer .say").textContent()).toContain("Waits for signal approved")
  })
})

describe("a delayed job", () => {
  it("shows when it starts, and no time that passes, until it has started", async () => {
    await stage.umbra.register(waits)
    const { id } = await stage.umbra.submit("waits", {}, { delaySeconds: 3600 })
    const { page, context, close, problems } = await stage.open(`/ui/jobs/${id}?panel=job`)
    onTestFinished(close)
    await page.waitForSelector('.pill[data-s="pending"]')
    expect(await page.locator(".jfacts dt").allTextContents()).toEqual(["Nodes", "Starts"])
    await page.waitForSelector(".drawer .say >> text=The job starts in")
    const list = await context.newPage()
    await list.goto(`${stage.url}/ui/jobs?workflow=waits&status=PENDING`)
    await list.waitForSelector(`tr[data-job="${id}"] >> text=start time`)
    expect(await list.locator(`tr[data-job="${id}"] .c6`).textContent()).toBe("")
    await list.close()
    await stage.umbra.reschedule(id, { delaySeconds: 0 })
    await page.waitForSelector('.jfacts dt >> text="Started"')
    await page.waitForSelector('.jfacts dt >> text="Elapsed"')
    expect(problems).toEqual([])
  })
})

describe("pause and resume", () => {
  it("pauses with a button and a reason, shows it everywhere, and resumes from the palette", async () => {
    const job = await stage.start(waits)
    await waiting(job)
    const { page, close, problems } = await stage.open(`/ui/jobs/${job}?panel=job`)
    onTestFinished(close)
    await page.click('.acts >> role=button[name="Pause"]')
    await page.fill('dialog input[name="reason"]', "the price list is wrong")
    await page.click("dialog >> text=Pause the job >> nth=-1")
    await page.waitForSelector(".jhead .pill.paused")
    expect((await stage.ask(`/jobs/${job}`)).body.paused).toMatchObject({ reason: "the price list is wrong" })
    await page.waitForSelector(".jwhy >> text=the price list is wrong")
    await page.waitForSelector(".drawer header .tagc >> text=PAUSED")
    expect(await page.locator('.acts >> role=button[name="Pause"]').count()).toBe(0)

    // A node that becomes ready is held, and its card says so.
    await stage.umbra.signal(job, "approved", null)
    await page.waitForSelector('.node[data-id="ship"][data-s="queued"] >> text=paused')
    await page.goto(`${stage.url}/ui/jobs?workflow=waits`)
    await page.waitForSelector(`tr[data-job="${job}"] >> text=the price list is wrong`)
    await page.goto(`${stage.url}/ui/jobs/${job}?node=ship`)
    await page.waitForSelector(".why .cause >> text=paused")

    await page.keyboard.press("Control+k")
    await page.waitForSelector(".palette input")
    await page.keyboard.type(":resume")
    await page.waitForSelector('.po[aria-selected="true"] >> text=Resume the job')
    await page.keyboard.press("Enter")
    await page.click("dialog.ask >> text=Resume the job >> nth=-1")
    await page.waitForSelector('.pill[data-s="completed"]')
    expect(await page.locator(".pill.paused").count()).toBe(0)
    // The past still has it.
    const { facts } = (await stage.ask(`/jobs/${job}/facts`)).body
    await moveTo(page, facts.findIndex(({ type }: { type: string }) => type === "job_paused") + 1)
    await page.waitForSelector(".jhead .pill.paused")
    expect(problems).toEqual([])
  })

  it("has a key, which the sheet of keys names", async () => {
    const job = await stage.start(waits)
    await waiting(job)
    const { page, close } = await stage.open(`/ui/jobs/${job}`)
    onTestFinished(close)
    await page.waitForSelector('.acts >> role=button[name="Pause"]')
    await page.keyboard.press("?")
    await page.waitForSelector(".sheet >> text=Pause, resume")
    await page.keyboard.press("Escape")
    await page.waitForSelector(".sheet", { state: "detached" })
    await page.keyboard.press("p")
    await page.waitForSelector("dialog.ask >> text=No new node starts")
    await page.keyboard.press("Enter")
    await page.waitForSelector(".jhead .pill.paused")
    await page.keyboard.press("p")
    await page.waitForSelector("dialog.ask >> text=Nodes that are ready start")
    await page.keyboard.press("Enter")
    await page.waitForSelector(".jhead .pill.paused", { state: "detached" })
    expect((await stage.ask(`/jobs/${job}`)).body.paused).toBe(null)
  })
})

describe("the routes of a pipeline", () => {
  it("shows state and counts of each route, live and at its end", async () => {
    const job = await stage.start({
      name: "flow",
      init: { body: { count: 8 } },
      routes: [
        route("source", ["numbers"], { outbound: "work" }),
        route("work", ["held"], {
          outbound: "store",
          concurrency: 2,
          error_handling: { circuit_breaker: false },
        }),
        route("store", ["keep"]),
      ],
    })
    const { page, close, problems } = await stage.open(`/ui/jobs/${job}?panel=job&tab=Routes`)
    onTestFinished(close)
    const shown = (name: string, what: string) => `[data-route="${name}"] [data-f="${what}"] dd`
    await page.waitForSelector(`${shown("work", "in flight")} >> text=2 of 2`)
    await page.waitForSelector('[data-route="work"][data-s="running"]')
    await page.waitForSelector(`${shown("source", "done")} >> text=1`)
    await page.waitForSelector(`${shown("work", "queued")} >> text=6`)
    open()
    await page.waitForSelector('.pill[data-s="completed"]')
    await page.waitForSelector(`${shown("store", "done")} >> text=7`)
    await page.waitForSelector(`${shown("work", "dead letters")} >> text=1`)
    await page.waitForSelector("text=three is refused")
    const { body } = await stage.ask(`/jobs/${job}/graph`)
    for (const { name, done, queued, dead_lettered } of body.routes) {
      expect(await page.locator(shown(name, "done")).textContent()).toBe(String(done))
      expect(await page.locator(shown(name, "queued")).textContent()).toBe(String(queued))
      expect(await page.locator(shown(name, "dead letters")).textContent()).toBe(String(dead_lettered))
    }
    await moveTo(page, 1)
    await page.waitForSelector("text=of a past moment are not recorded")
    expect(problems).toEqual([])
  })
})

describe("a fork with a definition of its own", () => {
  it("is shown, with its origin", async () => {
    const origin = await stage.start(waits)
    await waiting(origin)
    await stage.umbra.cancel(origin)
    const definition = {
      ...waits,
      nodes: waits.nodes.map(node => (node.id === "bill" ? { ...node, id: "invoice" } : node)),
    }
    const { body } = await stage.ask(`/jobs/${origin}/fork`, {
      method: "POST",
      body: { from: ["ask"], workflow: definition, confirm: { unknown: true } },
    })
    const { page, close, problems } = await stage.open(`/ui/jobs/${body.job_id}?panel=job`)
    onTestFinished(close)
    await page.waitForSelector('.node[data-id="invoice"]')
    await page.waitForSelector(".jhead >> text=own definition")
    await page.waitForSelector(`.drawer a[href$="/jobs/${origin}"]`)
    expect(problems).toEqual([])
  })
})
