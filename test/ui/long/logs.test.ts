/** 100,000 log lines in Chromium, of a process that was killed while it logged, and of the one after it. */
import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import type { Page } from "playwright-core"
import { expect, it, onTestFinished } from "vitest"
import { defineHandler } from "../../../src/worker/handler.ts"
import { messageOf } from "../../crash/logged-message.ts"
import { programArguments } from "../../support/program.ts"
import { openUiStage } from "../ui-stage.ts"

const program = fileURLToPath(new URL("../../crash/logging-program.ts", import.meta.url))
const LINES = 100_000
const MOST_ROWS = 200

const rows = (page: Page) => page.locator(".lg").count()
const has = (page: Page, text: string) => page.waitForSelector(`.lg p:text-matches("^${text}([^0-9]|$)")`)

/** The numbers of the lines that are in the page. */
const shown = (page: Page) =>
  page.locator('.lg[data-k="handler"] a').evaluateAll(links =>
    links.map(link =>
      Number(
        link
          .getAttribute("title")!
          .match(/[\d,]+/)![0]
          .replaceAll(",", ""),
      ),
    ),
  )

it("shows every stored line of 100,000 with at most 200 rows, and opens a link to one of them", {
  timeout: 900_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), "umbra-killed-logs-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const [location, oracle] = [join(folder, "data"), join(folder, "oracle")]
  const child = spawn(
    process.execPath,
    [...programArguments(program), location, oracle, String(LINES + 2000)],
    {
      stdio: ["ignore", "pipe", "inherit"],
    },
  )
  onTestFinished(() => void child.kill("SIGKILL"))
  const printed = createInterface(child.stdout)[Symbol.asyncIterator]()
  const job: string = (await printed.next()).value
  const written = () => {
    try {
      return Number(readFileSync(oracle, "utf8").trimEnd().split("\n").at(-1))
    } catch {
      return 0
    }
  }
  await expect.poll(written, { timeout: 600_000, interval: 50 }).toBeGreaterThan(LINES + 1500)
  for (const line of ["stored", "recorded"]) expect((await printed.next()).value).toBe(line)
  child.kill("SIGKILL")
  await once(child, "exit")

  const second = defineHandler({
    name: "talk",
    run: (_, ctx) => {
      ctx.log.info({}, "from the beginning")
      return null
    },
  })
  const stage = await openUiStage({ location, umbra: { handlers: [second] } })
  onTestFinished(() => stage.close())
  await stage.umbra.wait(job)
  const tail = async (attempt: number) =>
    (await stage.ask(`/jobs/${job}/logs?node=a&attempt=${attempt}&before=end&limit=1`)).body.lines[0]
  await expect.poll(() => tail(2)).toMatchObject({ line: 1, message: "from the beginning" })
  const last = (await tail(1)).line as number
  expect(last).toBeGreaterThan(LINES / 2)
  expect(last).toBeLessThanOrEqual(written())

  const { page, close, problems } = await stage.open(`/ui/jobs/${job}?node=a&tab=Logs`)
  onTestFinished(close)
  await has(page, "from the beginning")
  await has(page, "enginecompleted.*")
  expect(await shown(page)).toEqual([1])

  // Backwards from the end of the first attempt: no line is missing, and none comes twice.
  await page.click('.seg[aria-label="Attempt"] button:has-text("1")')
  await has(page, `${messageOf(last).split("\n")[0]}`)
  await has(page, "enginelost with worker.*")
  let [low, high] = [last, last]
  while (low > last - 3000) {
    const numbers = await shown(page)
    expect(await rows(page)).toBeLessThanOrEqual(MOST_ROWS)
    expect(numbers).toEqual(numbers.map((_, n) => numbers[0]! + n))
    expect(numbers.at(-1)!).toBeGreaterThanOrEqual(Math.min(high, low) - 1)
    ;[low, high] = [numbers[0]!, numbers.at(-1)!]
    await page.locator(".lgs").evaluate(list => list.scrollBy(0, -0.7 * list.clientHeight))
    await expect.poll(async () => (await shown(page))[0]).toBeLessThan(low)
  }

  // A line in the middle, by its link, in a window that has read nothing.
  const middle = 49_990
  const link = await linkTo(middle)
  const other = await stage.open(link)
  onTestFinished(other.close)
  await other.page.waitForSelector('.lg[aria-current="true"]')
  const current = other.page.locator('.lg[aria-current="true"]')
  expect(await current.locator("p").textContent()).toContain(messageOf(middle))
  const isVisible = await current.evaluate(row => {
    const list = row.closest(".lgs")!.getBoundingClientRect()
    const { top, bottom } = row.getBoundingClientRect()
    return top >= list.top && bottom <= list.bottom
  })
  expect(isVisible).toBe(true)
  expect(await rows(other.page)).toBeLessThanOrEqual(MOST_ROWS)
  // From there in both directions.
  for (const step of [-1, 1]) {
    for (let turn = 0; turn < 12; turn++) {
      const before = await shown(other.page)
      const edge = step < 0 ? before[0]! : before.at(-1)!
      await other.page
        .locator(".lgs")
        .evaluate((list, by) => list.scrollBy(0, by * 2 * list.clientHeight), step)
      await expect
        .poll(async () => {
          const now = await shown(other.page)
          return step < 0 ? now[0]! < edge : now.at(-1)! > edge
        })
        .toBe(true)
      const numbers = await shown(other.page)
      expect(numbers).toEqual(numbers.map((_, n) => numbers[0]! + n))
      expect(await rows(other.page)).toBeLessThanOrEqual(MOST_ROWS)
    }
  }
  await other.page.locator(".lgs").focus()
  await other.page.keyboard.press("Home")
  await has(other.page, "line 1")
  await other.page.keyboard.press("End")
  await has(other.page, messageOf(last).split("\n")[0]!)
  expect([...problems, ...other.problems]).toEqual([])

  /** The address that the time of a line leads to, found by paging through the API. */
  async function linkTo(line: number): Promise<string> {
    let after = ""
    for (;;) {
      const { body } = await stage.ask(
        `/jobs/${job}/logs?node=a&attempt=1&source=handler&limit=1000${after && `&after=${after}`}`,
      )
      // All that was stored is what was written, in its order.
      for (const [n, found] of body.lines.entries()) {
        expect(found.message).toBe(messageOf(found.line))
        expect(found.line).toBe(body.lines[0].line + n)
        expect(found.lost).toBeUndefined()
      }
      const found = body.lines.find((one: { line: number }) => one.line === line)
      if (found !== undefined) return `/ui/jobs/${job}?node=a&tab=Logs&attempt=1&line=${found.id}`
      after = body.next
    }
  }
})
