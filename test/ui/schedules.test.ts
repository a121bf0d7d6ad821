/** Schedules: the list, one of them with its calendar and history, and everything that can be done with it. */
import type { Page } from "playwright-core"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { until } from "../engine/stage.ts"
import { violations } from "./axe.ts"
import { type OpenOptions, openUiStage, type UiStage } from "./ui-stage.ts"

let stage: UiStage
const hostile = `<img src=x onerror="document.title='bad'">`
const report = {
  name: "report",
  input: { type: "object", properties: { day: { type: "string" }, kind: { enum: ["short", "long"] } } },
  nodes: [{ id: "write", handler: "transform", config: { value: "{{ input.day }}" } }],
}

const put = (name: string, body: object) => stage.ask(`/schedules/${name}`, { method: "PUT", body })

beforeAll(async () => {
  stage = await openUiStage()
  await stage.umbra.register(report as never)
  await put("nightly", {
    ...{ workflow: "report", cron: "30 2 * * *", zone: "Europe/Berlin", labels: { team: hostile } },
    input: { day: "{{ schedule.time }}", note: hostile },
  })
  await put("quarter", { workflow: "report@1", every: "15m", overlap: "allow" })
  await put("resting", { workflow: "report", cron: "0 0 1 1 *" })
  await stage.ask("/schedules/resting/pause", { method: "POST" })
  const { body } = await stage.ask("/schedules/quarter/run", { method: "POST" })
  await stage.umbra.wait(body.job_id)
})
afterAll(() => stage?.close())

const text = (page: Page, selector: string) => page.locator(selector).textContent()

async function open(path: string | null, options: OpenOptions = {}) {
  const opened = await stage.open(path, options)
  onTestFinished(opened.close)
  return opened
}

describe("the list", () => {
  it("has every schedule with its next tick and last outcomes", async () => {
    const { page, problems } = await open("/ui/schedules")
    await page.waitForSelector("[data-schedule]")
    const names = () =>
      page.evaluate(() =>
        [...document.querySelectorAll<HTMLElement>("[data-schedule]")].map(row => row.dataset.schedule),
      )
    expect(await names()).toEqual(["nightly", "quarter", "resting"])
    const nightly = (await text(page, '[data-schedule="nightly"]'))!
    expect(nightly).toContain("30 2 * * * in Europe/Berlin")
    expect(nightly).toMatch(/02:30 in /)
    expect(await text(page, '[data-schedule="resting"] .k4')).toBe("paused")
    expect(await text(page, '[data-schedule="quarter"] .outs')).toContain("started")
    expect(await text(page, ".phead")).toContain("quarter fires next, in ")
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await page.waitForURL(/\/ui\/schedules\/quarter$/)
    await page.waitForSelector(".shead")
    await page.keyboard.press("Escape")
    await page.waitForURL(/\/ui\/schedules$/)
    expect(problems).toEqual([])
  })

  it("distinguishes an empty list from one that could not be read", async () => {
    const { page } = await open(null)
    let isCut = true
    await page.route(/\/schedules\?/, route =>
      isCut ? route.abort() : route.fulfill({ json: { schedules: [], next: null } }),
    )
    await page.goto(`${stage.url}/ui/schedules`)
    await page.waitForSelector('[data-state="failed"]')
    isCut = false
    await page.click("text=Try now")
    await page.waitForSelector('[data-state="empty"] >> text=No schedule yet')
    await page.goto(`${stage.url}/ui/schedules/nobody`)
    await page.waitForSelector('[data-state="empty"] >> text=Schedule nobody not found')
  })
})

describe("one schedule", () => {
  it("shows its next ticks, and past and planned ticks by day and hour", async () => {
    const { page, problems } = await open("/ui/schedules/nightly")
    await page.waitForSelector(".cal")
    const { body } = await stage.ask("/schedules/nightly")
    const ticks = await page.evaluate(() =>
      [...document.querySelectorAll<HTMLElement>("[data-tick]")].map(tick => tick.dataset.tick),
    )
    expect(ticks).toEqual(body.next_ticks)
    // One planned tick on each of the next days, in the column of 2 h of its zone.
    const cells = await page.evaluate(() =>
      [...document.querySelectorAll<HTMLElement>(".cal td[data-o]")].map(cell => [
        cell.dataset.o,
        (cell as HTMLTableCellElement).cellIndex - 1,
      ]),
    )
    expect(cells.length).toBeGreaterThanOrEqual(6)
    expect(new Set(cells.map(String))).toEqual(new Set(["planned,2"]))
    expect(await text(page, '[aria-labelledby="sfacts"]')).toContain(hostile)
    expect(await page.title()).toBe("nightly · Umbra")
    expect(problems).toEqual([])
  })

  it("runs now, pauses and resumes; the history and the calendar follow", async () => {
    const { page } = await open("/ui/schedules/quarter")
    await page.waitForSelector("[data-outcome]")
    // A tick may fire meanwhile.
    const runs = () => page.locator('[data-outcome]:has-text("run now")').count()
    const before = await runs()
    await page.click("text=Run now")
    await page.click('dialog >> text="Run now"')
    await page.waitForSelector("dialog >> text=The job was started")
    await page.click("dialog >> text=Close")
    await expect.poll(runs).toBe(before + 1)
    await page.waitForSelector('.cal td[data-o="started"]')
    await page.keyboard.press("p")
    await page.click('dialog >> text="Pause"')
    await page.waitForSelector(".pill >> text=PAUSED")
    expect((await stage.ask("/schedules/quarter")).body.paused_at).not.toBeNull()
    await page.keyboard.press("p")
    await page.click('dialog >> text="Resume"')
    await page.waitForSelector(".pill", { state: "detached" })
    await page.click("[data-outcome] .k3 a >> nth=0")
    await page.waitForURL(/\/ui\/jobs\//)
  })

  it("fills past ticks after a dry run", async () => {
    const { page } = await open("/ui/schedules/nightly")
    await page.waitForSelector(".cal")
    await page.click("text=Backfill")
    // In the zone of the schedule: three nights, one of them with a change of the clock.
    await page.fill('input[name="from"]', "2026-03-28T00:00")
    await page.fill('input[name="to"]', "2026-03-31T00:00")
    await page.waitForSelector('[data-dry="3"]')
    const dry = (await text(page, "[data-dry]"))!
    expect(dry).toContain("the first Sat 28 Mar 02:30")
    expect(dry).toContain("the last Mon 30 Mar 02:30")
    const { body } = await stage.ask("/jobs?workflow=report")
    await page.click('dialog >> text="Start 3 jobs"')
    await page.waitForSelector('[data-bulk="COMPLETED"]:has-text("3 jobs done")')
    expect((await stage.ask("/jobs?workflow=report")).body.jobs.length).toBe(body.jobs.length + 3)
    await page.click("dialog >> text=Close")
    await page.waitForFunction(() => document.querySelectorAll("[data-outcome]").length === 3)
    expect(await text(page, "[data-outcome] >> nth=0")).toContain("backfill")
    // A range without ticks starts nothing.
    await page.click("text=Backfill")
    await page.fill('input[name="from"]', "2026-03-28T03:00")
    await page.fill('input[name="to"]', "2026-03-28T04:00")
    await page.waitForSelector("text=This time has no tick.")
    expect(await page.locator("dialog button.primary").isDisabled()).toBe(true)
  })

  it("takes times that are typed digit by digit, and a year of any length", async () => {
    const { page, problems } = await open("/ui/schedules/nightly")
    await page.waitForSelector(".cal")
    await page.click("text=Backfill")
    for (const [side, text] of [
      ["from", "01032026"],
      ["to", "02032026"],
    ] as const) {
      await page.focus(`input[name="${side}"]`)
      await page.keyboard.type(text)
      expect(await page.inputValue(`input[name="${side}"]`)).toMatch(/^2026-0/)
    }
    await page.waitForSelector("[data-dry]")
    await page.focus('input[name="to"]')
    await page.keyboard.type("0102123456")
    await page.waitForSelector('dialog [data-dry], dialog [data-state="failed"]')
    expect(await page.locator("dialog h2").textContent()).toBe("Backfill nightly")
    // 4xx: a range that is too long, while the year has one digit.
    expect(problems.filter(problem => !/status of 4/.test(problem))).toEqual([])
  })

  it("shows the year of ticks in another year", async () => {
    await put("yearly", { workflow: "report", cron: "0 0 1 1 *" })
    onTestFinished(async () => void (await stage.ask("/schedules/yearly", { method: "DELETE" })))
    const { page } = await open("/ui/schedules/yearly")
    await page.waitForSelector("[data-tick]")
    const ticks = await page
      .locator("[data-tick]")
      .evaluateAll(rows =>
        rows.map(row => [(row as HTMLElement).dataset.tick!.slice(0, 4), row.textContent!] as const),
      )
    expect(ticks).toHaveLength(20)
    for (const [year, shown] of ticks) expect(shown).toContain(year)
  })

  it("is named by the jobs that its ticks have started", async () => {
    await put("often", { workflow: "report", every: "1s", overlap: "allow" })
    onTestFinished(async () => void (await stage.ask("/schedules/often", { method: "DELETE" })))
    const fires = async () => (await stage.ask("/schedules/often/fires")).body.fires
    await until("a tick has fired", async () => (await fires()).length > 0)
    const { tick, job_id } = (await fires()).at(-1)
    const { page } = await open(`/ui/jobs/${job_id}?panel=job`)
    await page.waitForSelector("[data-schedule]")
    const shown = (await text(page, "[data-schedule]"))!
    expect(shown).toContain("Started by schedule often")
    expect(shown).toContain(tick.replace("T", " ").replace("Z", " UTC"))
    await page.click(".jfacts >> text=often")
    await page.waitForURL(/\/ui\/schedules\/often$/)
  })

  it("is deleted", async () => {
    await put("old", { workflow: "report", every: "1d" })
    const { page } = await open("/ui/schedules/old")
    await page.waitForSelector(".phead >> text=Delete")
    await page.click(".phead >> text=Delete")
    await page.click('dialog button >> text="Delete"')
    await page.waitForURL(/\/ui\/schedules$/)
    await page.waitForSelector("[data-schedule]")
    expect(await page.locator('[data-schedule="old"]').count()).toBe(0)
    expect((await stage.ask("/schedules/old")).status).toBe(404)
  })
})

describe("the form", () => {
  it("shows the next ticks while typing, in the chosen zone, and stores the schedule", async () => {
    const { page, problems } = await open("/ui/schedules")
    await page.waitForSelector("[data-schedule]")
    await page.keyboard.press("n")
    await page.waitForSelector("[data-tick]")
    await page.getByLabel("Name", { exact: true }).fill("made")
    await page.getByLabel("Workflow", { exact: true }).fill("report")
    await page.getByLabel("Cron", { exact: false }).first().fill("15 6 * * *")
    await page.getByLabel("Time zone").fill("Asia/Tokyo")
    await page.waitForSelector('[data-tick]:has-text(" 06:15")')
    await page.getByLabel("Time zone").fill("America/New_York")
    await page.waitForFunction(() =>
      /T1[01]:15:00\.000Z$/.test(document.querySelector<HTMLElement>("[data-tick]")!.dataset.tick!),
    )
    await page.waitForSelector('[data-tick]:has-text(" 06:15")')
    await page.getByLabel("Cron", { exact: false }).first().fill("15 26 * * *")
    await page.waitForSelector('[aria-labelledby="snext"] .t-failed')
    expect(await page.locator("form .primary").isDisabled()).toBe(true)
    await page.getByLabel("Cron", { exact: false }).first().fill("15 6 * * *")
    await page.waitForSelector("[data-tick]")
    // The input has a form, from the schema of the workflow.
    await page.getByLabel("day", { exact: true }).fill("{{ schedule.time }}")
    await page.getByLabel("While the last job runs").selectOption("queue_one")
    await page.getByLabel("Labels").fill("team=shop, kind=daily")
    await page.click("text=Create the schedule")
    await page.waitForURL(/\/ui\/schedules\/made$/)
    expect((await stage.ask("/schedules/made")).body).toMatchObject({
      ...{ workflow: "report", cron: "15 6 * * *", zone: "America/New_York", overlap: "queue_one" },
      ...{ input: { day: "{{ schedule.time }}" }, labels: { team: "shop", kind: "daily" } },
    })
    await page.waitForSelector(".cal")
    await page.keyboard.press("e")
    await page.waitForSelector("text=Edit made")
    expect(await page.getByLabel("Time zone").inputValue()).toBe("America/New_York")
    await page.click(".seg >> text=Every")
    await page.getByLabel("Every (elapsed time)").fill("6h")
    await page.waitForFunction(() =>
      /T(00|06|12|18):00:00\.000Z$/.test(document.querySelector<HTMLElement>("[data-tick]")!.dataset.tick!),
    )
    await page.click("text=Save the schedule")
    await page.waitForSelector("text=every 6h")
    const { body } = await stage.ask("/schedules/made")
    expect(body).toMatchObject({ every: "6h", overlap: "queue_one", labels: { team: "shop" } })
    expect(body.cron).toBeUndefined()
    // 404: whether there is a schedule of this name.
    expect(problems.filter(problem => !/422|404/.test(problem))).toEqual([])
  })

  it("shows what the server refuses, as a text, and stores nothing", async () => {
    const { page } = await open("/ui/schedules?new=1")
    await page.waitForSelector("[data-tick]")
    await page.getByLabel("Name", { exact: true }).fill("none")
    await page.getByLabel("Workflow", { exact: true }).fill(hostile)
    await page.click("text=Create the schedule")
    await page.waitForSelector('form [role="alert"]')
    expect((await stage.ask("/schedules/none")).status).toBe(404)
    expect(await page.title()).not.toBe("bad")
  })
})

describe("the form of a schedule that exists", () => {
  it("keeps unchanged times, in the zone that the form names", async () => {
    const [start, end] = ["2026-11-01T10:00:30.000Z", "2030-01-01T00:00:00.000Z"]
    await put("anchored", { workflow: "report", every: "6h", start, end })
    onTestFinished(async () => void (await stage.ask("/schedules/anchored", { method: "DELETE" })))
    const { page } = await open("/ui/schedules/anchored?edit=1", { timezoneId: "America/New_York" })
    await page.waitForSelector("[data-tick]")
    expect(await page.getByLabel("From, America/New_York").inputValue()).toBe("2026-11-01T05:00")
    await page.getByLabel("Jitter, seconds").fill("5")
    await page.click("text=Save the schedule")
    await page.waitForURL(/\/ui\/schedules\/anchored$/)
    expect((await stage.ask("/schedules/anchored")).body).toMatchObject({ start, end, jitter_seconds: 5 })
    await page.goto(`${stage.url}/ui/schedules/anchored?edit=1`)
    await page.waitForSelector("[data-tick]")
    await page.getByLabel("From, America/New_York").fill("2026-11-02T06:00")
    await page.click("text=Save the schedule")
    await page.waitForURL(/\/ui\/schedules\/anchored$/)
    expect((await stage.ask("/schedules/anchored")).body).toMatchObject({
      ...{ start: "2026-11-02T11:00:00.000Z", end },
    })
  })

  it("is not replaced by a new one of the same name", async () => {
    const before = (await stage.ask("/schedules/nightly")).body
    const { page } = await open("/ui/schedules?new=1")
    await page.waitForSelector("[data-tick]")
    await page.getByLabel("Name", { exact: true }).fill("nightly")
    await page.getByLabel("Workflow", { exact: true }).fill("report")
    await page.click("text=Create the schedule")
    await page.waitForSelector('form [role="alert"] >> text=There is a schedule nightly already')
    expect((await stage.ask("/schedules/nightly")).body).toMatchObject({
      ...{ cron: before.cron, zone: before.zone, labels: before.labels },
    })
  })
})

describe("in the light and the dark theme", () => {
  it("have no violation, also at 390 px, without sideways scroll", async () => {
    const { page } = await open("/ui/schedules")
    const places = [
      ["/ui/schedules", "[data-schedule]"],
      ["/ui/schedules/quarter", ".cal td[data-o]"],
      ["/ui/schedules?new=1", "[data-tick]"],
    ] as const
    for (const [path, selector] of places)
      for (const width of [1280, 390]) {
        await page.setViewportSize({ width, height: 844 })
        await page.goto(`${stage.url}${path}`)
        await page.waitForSelector(selector)
        expect(await violations(page), `${path} at ${width}`).toEqual([])
        const wider = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
        expect(wider, `${path} at ${width}`).toBe(0)
      }
  })
})
