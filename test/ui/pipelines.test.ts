/** The list of executions and the page of one: routes, backpressure, dead letters with edit and replay, lineage. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { until } from "../engine/stage.ts"
import { adapter, numbers, route } from "../pipeline/scene.ts"
import { violations } from "./axe.ts"
import { intercept, openUiStage, type UiStage } from "./ui-stage.ts"

const hostile = '<img src=x onerror="window.hacked=1"> "><script>window.hacked=1</script>'
let stage: UiStage
let letGo: () => void = () => {}
const held: Promise<void> = new Promise(resolve => {
  letGo = resolve
})
/** Refuses even numbers for good. */
const picky = adapter("picky", ({ body }) => {
  const { n } = body as { n: number }
  if (n % 2 === 0) throw Object.assign(new Error(`${n} is even ${hostile}`), { retryable: false })
  return { n, text: hostile }
})
const pass = adapter("pass", ({ body }) => body)
const away = adapter("away", () => {
  throw new Error("the service is away")
})
const cut = { min_calls: 1, open_seconds: 3600 }
const patient = adapter("patient", () => held)

const flow = (name: string, count: number) => ({
  name,
  init: { body: { count } },
  routes: [
    route("source", ["numbers"], { outbound: "work" }),
    route("work", ["picky"], { outbound: "store", error_handling: { retries: 0, circuit_breaker: false } }),
    route("store", ["log"]),
  ],
})
/** `last` takes no message, so `work` may not add to its queue. */
const stuck = {
  name: "stuck",
  init: { body: { count: 40 } },
  routes: [
    route("source", ["numbers"], { outbound: "work" }),
    route("work", ["pass"], { outbound: "last", concurrency: 1 }),
    route("last", ["patient"], { concurrency: 1, backpressure: { max_queued: 5 } }),
  ],
}
let done: string
let waiting: string

beforeAll(async () => {
  stage = await openUiStage({ umbra: { adapters: [numbers, picky, pass, away, patient] } })
  done = await stage.start(flow("flow", 12))
  await stage.umbra.wait(done)
  waiting = await stage.start(stuck)
  await until(
    "backpressure",
    async () => (await stage.umbra.graph(waiting)).routes?.[1]?.held_up_by === "last",
  )
})
afterAll(async () => {
  letGo()
  await stage?.close()
})

describe("the list of executions", () => {
  it("shows sums and dead letters, filters by them, and follows jobs", async () => {
    const { page, close, problems } = await stage.open("/ui/pipelines")
    onTestFinished(close)
    const cells = (job: string) => page.locator(`tr[data-job="${job}"] td`).allTextContents()
    await page.waitForSelector(`tr[data-job="${done}"]`)
    expect(await cells(done)).toMatchObject({
      0: "COMPLETEDCOMPLETED",
      1: "flow v1",
      3: "13",
      4: "0",
      6: "6",
    })
    await page.click(".seg >> text=With dead letters")
    await page.waitForSelector(`tr[data-job="${waiting}"]`, { state: "detached" })
    expect(new URL(page.url()).searchParams.get("dead")).toBe("1")
    const newer = await stage.start(flow("newer", 2))
    await page.waitForSelector(`tr[data-job="${newer}"]`)
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await page.waitForURL(new RegExp(newer))
    await page.waitForSelector('[data-board="routes"]')
    await page.keyboard.press("Alt+4")
    await page.waitForSelector(`tr[data-job="${done}"]`)
    expect(await page.locator('.nav [aria-current="page"]').textContent()).toBe("Pipelines")
    expect(problems).toEqual([])
  })

  it("is not empty when it could not be read", async () => {
    const { page, close } = await stage.open(null)
    onTestFinished(close)
    await page.route(/\/executions/, one => one.abort())
    await page.goto(`${stage.url}/ui/pipelines`)
    await page.waitForSelector('[data-state="failed"] >> text=This does not mean that there are none.')
    expect(await page.locator('[data-state="empty"]').count()).toBe(0)
  })
})

describe("the routes of an execution", () => {
  it("stand left to right, and show where backpressure starts", async () => {
    const { page, close, problems } = await stage.open(`/ui/jobs/${waiting}`)
    onTestFinished(close)
    await page.waitForSelector('.rcard[data-route="work"][data-s="waiting"]')
    const places = await page.evaluate(() =>
      [...document.querySelectorAll<HTMLElement>(".rcard")].map(({ dataset, offsetLeft, offsetTop }) => [
        dataset.route,
        offsetLeft,
        offsetTop,
      ]),
    )
    expect(places.map(([name]) => name)).toEqual(["source", "work", "last"])
    expect(places[0]![1]).toBeLessThan(places[1]![1] as number)
    expect(places[1]![1]).toBeLessThan(places[2]![1] as number)
    expect(await page.locator('.tube[data-queue="last"] .bp').textContent()).toBe("backpressure")
    expect(await page.locator(".bp").count()).toBe(1)
    expect(await page.locator('.tube[data-queue="last"] small').textContent()).toBe("of 5, full")
    expect(await page.locator('.edges path[data-e="held"]').getAttribute("d")).not.toBe("")
    expect(await page.locator('.rcard[data-route="work"] .say1').textContent()).toBe("Waits: last is full")
    expect(await page.locator(".btot .jwhy").textContent()).toContain("last blocks work")
    expect(await page.locator('.rcard[data-route="last"] .two').textContent()).toContain("1 of 1")
    expect(problems).toEqual([])
  })

  it("say that a breaker is open, as do the page Now and why", async () => {
    const job = await stage.start({
      name: "cut",
      init: [{ body: 1 }, { body: 2 }],
      routes: [
        route("fetch", ["pass", "away"], {
          ...{ outbound: "keep", error_handling: { retries: 5, circuit_breaker: cut } },
        }),
        route("keep", ["log"]),
      ],
    })
    const { page, close, problems } = await stage.open(`/ui/jobs/${job}`)
    onTestFinished(close)
    const card = page.locator('.rcard[data-route="fetch"]')
    await page.waitForSelector('.rcard[data-route="fetch"] .say1 >> text=Breaker of away open')
    expect(await card.locator(".ads .row").allTextContents()).toEqual(["pass", "awaybreaker open"])
    expect(await card.textContent()).toMatch(/breaker open/)
    expect(await page.locator('.rcard[data-route="keep"] >> text=breaker').count()).toBe(0)
    await page.goto(`${stage.url}/ui/now`)
    const group = page.locator('[aria-label="Services and workers"] [data-group="breaker fetch"]')
    await group.waitFor()
    expect(await group.locator("a.nl").getAttribute("href")).toContain(job)
    const { sentence, action, routes } = await stage.umbra.why(job)
    expect(routes).toMatchObject([{ route: "fetch", kind: "breaker", sentence, action }])
    expect(sentence).toContain("Route fetch: the circuit breaker of adapter away is open")
    expect(await group.textContent()).toContain(action)
    expect(problems).toEqual([])
    await stage.umbra.cancel(job)
    await page.goto(`${stage.url}/ui/jobs/${job}`)
    await page.waitForSelector('.rcard[data-route="fetch"] .say1')
    expect(await card.locator(".say1").textContent()).not.toContain("Breaker")
  })

  it("narrow the dead letters to a route", async () => {
    const { page, close } = await stage.open(`/ui/jobs/${done}`)
    onTestFinished(close)
    await page.waitForSelector(".dead tr[data-letter]")
    expect(await page.locator(".dead tr[data-letter]").count()).toBe(6)
    await page.click('.rcard[data-route="store"]')
    await page.waitForSelector(".dead >> text=No dead letter of route store")
    await page.waitForSelector('.lmsg[data-message="store:1"][aria-current="true"]')
    // All of them cannot be replayed from a part, whose number is not known.
    expect(await page.locator(".dead >> text=Replay all").count()).toBe(0)
    expect(await page.locator(".dead header .tagc").count()).toBe(0)
    await page.click('.rcard[data-route="store"]')
    await page.waitForSelector(".dead tr[data-letter]")
    await page.waitForSelector(".dead >> text=Replay all 6")
  })

  it("begin with the first dead letter of a route, whatever page was open", async () => {
    const fails = { error_handling: { retries: 0, circuit_breaker: false } }
    const job = await stage.start({
      name: "two",
      init: { body: { count: 60 } },
      routes: [
        route("source", ["numbers"], { outbound: "pick" }),
        route("pick", ["picky"], { outbound: "late", ...fails }),
        route("late", ["away"], fails),
      ],
    })
    await stage.umbra.wait(job)
    const { page, close } = await stage.open(`/ui/jobs/${job}`)
    onTestFinished(close)
    await page.click(".dead >> text=Next")
    await page.waitForSelector('.dead tr[data-letter="late:1"]')
    await page.click('.rcard[data-route="pick"]')
    await page.waitForSelector('.dead tr[data-letter="pick:2"]')
    expect(await page.locator(".dead tr[data-letter]").count()).toBe(25)
  })
})

describe("dead letters", () => {
  it("are edited and replayed, one, selected and all, and say which job has them", async () => {
    const job = await stage.start(flow("edited", 10))
    await stage.umbra.wait(job)
    const { page, close, problems } = await stage.open(`/ui/jobs/${job}`)
    onTestFinished(close)
    await page.click('tr[data-letter="work:2"] .lid')
    await page.waitForSelector(".dlb .errbox >> text=2 is even")
    await page.click(".dlb >> text=Edit")
    await page.fill('.dlb textarea[name="body"]', '{"n": 3,')
    await page.waitForSelector(".dlb .err >> text=This is not JSON")
    expect(await page.locator(".dlb >> text=Replay with this body").isDisabled()).toBe(true)
    await page.fill('.dlb textarea[name="body"]', '{"n": 33}')
    await page.click(".dlb >> text=Replay with this body")
    await page.waitForSelector("dialog >> text=with the body that you have written")
    await page.keyboard.press("Enter")
    const first = await page.waitForSelector("[data-replayed]:has-text('replays 1 message')")
    const replay = (await first.getAttribute("data-replayed"))!
    expect((await stage.umbra.wait(replay)).output).toMatchObject({
      routes: { work: { done: 1, dead_lettered: 0 } },
    })
    const { message } = await stage.umbra.pipelines.lineage(replay, "work:1")
    expect(message).toMatchObject({ body: { n: 33 }, replay_of: { job_id: job, message: "work:2" } })
    await page.waitForSelector('tr[data-letter="work:2"] >> text=replayed, edited')
    expect(await page.locator('tr[data-letter="work:2"] input').isDisabled()).toBe(true)

    await page.check('tr[data-letter="work:4"] input')
    await page.check('tr[data-letter="work:6"] input')
    await page.click("text=Replay 2 selected")
    await page.click("dialog button.primary")
    await page.waitForSelector("[data-replayed]:has-text('replays 2 messages')")
    await page.click("text=Replay all 2")
    await page.click("dialog button.primary >> text=Replay 2")
    await page.waitForSelector('.dead[data-count="0"]')
    const letters = (await stage.umbra.pipelines.deadLetters(job)).dead_letters
    expect(letters.map(({ replayed_by }) => replayed_by !== null)).toEqual([true, true, true, true, true])
    expect(new Set(letters.map(({ replayed_by }) => replayed_by)).size).toBe(3)
    expect(await page.evaluate(() => "hacked" in window)).toBe(false)
    expect(problems).toEqual([])
  })

  it("are walked by keys, and a refusal is said", async () => {
    const { page, close } = await stage.open(`/ui/jobs/${done}`)
    onTestFinished(close)
    await page.waitForSelector("tr[data-letter]")
    await page.keyboard.press("j")
    await page.waitForSelector('tr[data-letter="work:2"][aria-selected="true"]')
    await page.keyboard.press("j")
    await page.waitForSelector('tr[data-letter="work:4"][aria-selected="true"]')
    await page.keyboard.press("x")
    expect(await page.locator('tr[data-letter="work:4"] input').isChecked()).toBe(true)
    await page.keyboard.press("k")
    await page.waitForSelector('[aria-label="Dead letter work:2"]')
    await page.waitForURL(/letter=work%3A2/)
    await intercept(page, /\/replay$/, one =>
      one.fulfill({
        status: 409,
        contentType: "application/problem+json",
        body: JSON.stringify({ code: "E708", detail: "They have been replayed." }),
      }),
    )
    await page.click("text=Replay 1 selected")
    await page.click("dialog button.primary")
    await page.waitForSelector('dialog [role="alert"] >> text=E708 They have been replayed.')
  })

  it("are on the page Now, and lead to the job", async () => {
    const { page, close } = await stage.open("/ui/now")
    onTestFinished(close)
    const group = page.locator(`[data-group="dead ${done}"]`)
    await group.waitFor()
    expect(await group.locator(".gn").textContent()).toBe("6 messages")
    expect(await group.locator(".gh").textContent()).toContain("flow: 2 is even")
    await group.locator("a.nl").click()
    await page.waitForSelector('[aria-label="Dead letter work:2"]')
  })
})

describe("lineage", () => {
  it("leads from an output to its inputs and back, by clicks and by keys", async () => {
    const { page, close, problems } = await stage.open(`/ui/jobs/${done}?message=store:1`)
    onTestFinished(close)
    await page.waitForSelector('.lmsg[data-message="store:1"][data-column="0"]')
    const before = page.locator('.lmsg[data-column="-1"]')
    expect(await page.locator('.lmsg[data-column="-2"]').getAttribute("data-message")).toBe("source:1")
    await before.focus()
    await page.keyboard.press("ArrowLeft")
    await page.keyboard.press("Enter")
    await page.waitForSelector('.lmsg[data-message="source:1"][data-column="0"]')
    expect(new URL(page.url()).searchParams.get("message")).toBe("source:1")
    expect(await page.locator('.lmsg[data-column="1"]').count()).toBe(8)
    expect(await page.locator('[data-pager="what came of it"]').textContent()).toContain("1 to 8 of 12")
    await page.click('[aria-label="what came of it: next"]')
    await page.waitForSelector('.lmsg[data-message="work:12"]')
    expect(await page.locator('.lmsg[data-column="1"]').count()).toBe(4)
    await page.click('.lmsg[data-message="work:11"]')
    await page.waitForSelector('.lmsg[data-message="work:11"][data-column="0"]')
    await page.fill('.linf input[name="message"]', "work:999")
    await page.keyboard.press("Enter")
    await page.waitForSelector('.lin [data-state="empty"] >> text=No message work:999')
    expect(problems.filter(text => !text.includes("404"))).toEqual([])
  })
})

describe("without the scope submit", () => {
  it("nothing can be replayed, and other owners see nothing", async () => {
    const closed = await openUiStage({ withTokens: true, umbra: { adapters: [numbers, picky] } })
    onTestFinished(() => closed.close())
    const { jobId } = await closed.umbra.accept(flow("flow", 4) as never, {}, { owner: "ada" })
    await closed.umbra.wait(jobId)
    const login = async (owner: string, path: string) => {
      const { page } = await closed.open(path)
      await page.fill('input[name="token"]', await closed.token(owner, "read"))
      await page.keyboard.press("Enter")
      return page
    }
    const page = await login("ada", `/ui/jobs/${jobId}`)
    await page.waitForSelector("tr[data-letter]")
    expect(await page.locator(".dead button:has-text('Replay'), .dead input").count()).toBe(0)
    const theirs = await login("bob", "/ui/pipelines")
    await theirs.waitForSelector('[data-state="empty"] >> text=No pipeline has run yet')
  })
})

describe("in the light and the dark theme", () => {
  it("has no violation, also at 390 px", async () => {
    const { page, close } = await stage.open(null)
    onTestFinished(close)
    for (const [path, selector] of [
      ["/ui/pipelines", "tr[data-job]"],
      [`/ui/jobs/${waiting}`, ".lmsg"],
      [`/ui/jobs/${done}?letter=work:4&message=source:1`, ".dlb .jr"],
    ] as const) {
      await page.setViewportSize({ width: 1440, height: 900 })
      await page.goto(`${stage.url}${path}`)
      await page.waitForSelector(selector)
      expect(await violations(page), path).toEqual([])
      await page.setViewportSize({ width: 390, height: 844 })
      expect(await violations(page), `${path} at 390 px`).toEqual([])
      expect(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth), path).toBe(
        0,
      )
    }
    await page.waitForSelector('.routes li[data-route="work"]')
  })
})
