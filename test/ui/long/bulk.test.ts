/** Commands to all jobs that match the filters of the list: dry run, progress, refusals, abort. */
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest"
import { violations } from "../axe.ts"
import { openUiStage, type UiStage } from "../ui-stage.ts"

let stage: UiStage

beforeAll(async () => {
  stage = await openUiStage()
  await stage.umbra.register({ name: "waits", nodes: [{ id: "ask", handler: "approval" }] } as never)
})
afterAll(() => stage?.close())

const submit = async (team: string, number: number) => {
  const jobs = Array.from({ length: number }, () => ({ workflow: "waits", labels: { team } }))
  expect((await stage.ask("/jobs/bulk", { method: "POST", body: { jobs } })).status).toBe(200)
}

const counted = async (team: string, status: "CANCELLED" | "DELETED") =>
  (await stage.umbra.jobs({ labels: { team }, statuses: [status], deleted: true, limit: 1000 })).length

it("cancels exactly what the dry run has counted, then deletes it", async () => {
  await submit("shop", 60)
  await submit("web", 3)
  const { page, close, problems } = await stage.open("/ui/jobs")
  onTestFinished(close)
  await page.waitForSelector(".jl")
  expect(await page.locator("text=All that match").count()).toBe(0)
  await page.goto(`${stage.url}/ui/jobs?workflow=waits&label=team%3Dshop`)
  await page.click("text=All that match")
  await page.click("text=Cancel all that match…")
  await page.waitForSelector("dialog h2:has-text('Cancel 60 jobs')")
  expect(await violations(page)).toEqual([])
  expect(await counted("shop", "CANCELLED")).toBe(0)
  await page.fill('dialog input[name="reason"]', "not needed")
  await page.click("dialog button.danger")
  await page.waitForSelector('[data-bulk="COMPLETED"]:has-text("60 jobs done, 0 left as they were, of 60")')
  expect(await counted("shop", "CANCELLED")).toBe(60)
  expect(await counted("web", "CANCELLED")).toBe(0)
  const [job] = await stage.umbra.jobs({ labels: { team: "shop" }, limit: 1 })
  expect(job!.reason).toBe("not needed")
  await page.keyboard.press("Escape")
  await page.waitForSelector('[data-job][data-s="cancelled"]')
  await page.click("text=All that match")
  await page.click("text=Delete all that match…")
  await page.waitForSelector("dialog h2:has-text('Delete 60 jobs')")
  await page.click("dialog button.danger")
  await page.waitForSelector('[data-bulk="COMPLETED"]')
  await page.keyboard.press("Escape")
  await page.waitForSelector('[data-state="empty"] >> text=No job matches')
  expect(problems).toEqual([])
})

it("lists what was left as it was, with the reason", async () => {
  await submit("late", 2)
  const { page, close } = await stage.open("/ui/jobs?label=team%3Dlate&status=QUEUED&status=PROCESSING")
  onTestFinished(close)
  await page.click("text=All that match")
  await page.click("text=Retry all that match…")
  await page.waitForSelector("dialog h2:has-text('Retry 2 jobs')")
  await page.click("dialog button.primary")
  await page.waitForSelector('[data-bulk="COMPLETED"]:has-text("0 jobs done, 2 left as they were, of 2")')
  await page.waitForSelector(".refused li >> nth=1")
  expect(await page.locator(".refused li").first().textContent()).toMatch(/E\d{3} /)
})

it("aborts: what is done stays done, the rest is left alone", async () => {
  for (let n = 0; n < 5; n++) await submit("many", 1000)
  const { page, close } = await stage.open("/ui/jobs?label=team%3Dmany")
  onTestFinished(close)
  await page.click("text=All that match")
  await page.click("text=Cancel all that match…")
  await page.waitForSelector("dialog h2:has-text('Cancel 5,000 jobs')")
  await page.click("dialog button.danger")
  await page.waitForFunction(() => {
    const bar = document.querySelector<HTMLProgressElement>("dialog progress")
    return bar !== null && bar.value > 0 && bar.max === 5000
  })
  await page.click("dialog >> text=Abort")
  await page.waitForSelector('[data-bulk="CANCELLED"]')
  const text = (await page.locator("[data-bulk]").textContent())!
  const done = Number(/([\d,]+) jobs? done/.exec(text)![1]!.replaceAll(",", ""))
  expect(done).toBeGreaterThan(0)
  expect(done).toBeLessThan(5000)
  expect(await counted("many", "CANCELLED")).toBe(done)
})

it("is not offered without the scope manage", async () => {
  const closed = await openUiStage({ withTokens: true })
  onTestFinished(() => closed.close())
  const { page } = await closed.open("/ui/jobs?workflow=waits")
  await page.fill('input[name="token"]', await closed.token("ada", "read", "submit"))
  await page.keyboard.press("Enter")
  await page.waitForSelector('[data-state="empty"]')
  expect(await page.locator("text=All that match").count()).toBe(0)
})
