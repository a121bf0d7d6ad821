/**
 * Every page while it reads, without data, and when the server fails: three different screens, without a violation of WCAG in
 * either theme and without sideways scroll at 390 px.
 */
import type { Page } from "playwright-core"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { violations } from "../axe.ts"
import { openUiStage, type UiStage } from "../ui-stage.ts"

let stage: UiStage
let job: string
beforeAll(async () => {
  stage = await openUiStage()
  job = await stage.start({ name: "one", nodes: [{ id: "a", handler: "transform", config: { value: 1 } }] })
  await stage.umbra.wait(job)
})
afterAll(() => stage?.close())

const problem = {
  status: 500,
  contentType: "application/problem+json",
  body: JSON.stringify({ code: "E501", detail: "The store did not answer." }),
}
/** Requests of a page for data, not for itself. */
const ofData = (url: URL) => !/^\/(ui|assets|session|favicon|docs|$)/.test(url.pathname)
const failed = '[data-state="failed"]'
const loading = '[data-state="loading"]'

const noStatistics = {
  ...{ workflow: "one", from: "2026-11-16T13:00:00.000Z", to: "2026-11-17T14:00:00.000Z" },
  ...{ jobs: { count: 0, failure_rate: null, duration_ms: null, usage: null }, nodes: [], critical_path: [] },
}

/** By page: the answers without data, and what the page then has. */
const pages: readonly (readonly [
  path: () => string,
  empty: readonly [RegExp, object][],
  selector: string,
])[] = [
  [() => "/ui/now", [], '[data-state="healthy"]'],
  [() => "/ui/workflows", [[/\/workflows\?/, { workflows: [], next: null }]], '[data-state="empty"]'],
  [() => "/ui/workflows/one", [[/\/stats\?/, noStatistics]], '[data-state="empty"] >> text=No data'],
  [() => "/ui/pipelines", [], '[data-state="empty"]'],
  [
    () => "/ui/capacity",
    [[/\/workers$/, { workers: [] }]],
    '[data-state="empty"] >> text=No worker is connected',
  ],
  [() => "/ui/settings", [], "text=No token yet"],
  [() => "/ui/schedules", [], '[data-state="empty"]'],
  [() => `/ui/jobs/${job}/fork`, [], "text=Nothing: every node keeps its result"],
  [() => `/ui/compare?a=${job}&b=${job}`, [], '[data-diverges="none"]'],
  [() => `/ui/jobs/${job}/answer?node=a`, [], '[data-state="empty"]'],
]

const checked = async (page: Page, name: string) => {
  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 844 })
    expect(await violations(page), `${name} at ${width} px`).toEqual([])
    const wider = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
    expect(wider, `${name} at ${width} px`).toBe(0)
  }
}

describe("in the light and the dark theme", () => {
  it.each(pages.map(page => [page[0]().replaceAll("undefined", "JOB"), page] as const))(
    "%s",
    { timeout: 120_000 },
    async (name, [path, empty, selector]) => {
      const { page, close } = await stage.open(null)
      onTestFinished(close)
      for (const [pattern, json] of empty) await page.route(pattern, route => route.fulfill({ json }))
      await page.goto(`${stage.url}${path()}`)
      await page.waitForSelector(selector)
      expect(await page.locator(failed).count()).toBe(0)
      await checked(page, `${name}, empty`)

      const waiting: (() => void)[] = []
      await page.route(ofData, async route => {
        if (route.request().resourceType() === "document") return route.fallback()
        await new Promise<void>(done => waiting.push(done))
        await route.fulfill(problem).catch(() => {})
      })
      await page.goto(`${stage.url}${path()}`)
      await page.waitForSelector(loading)
      // Bars appear after a moment, and a sentence if it takes long.
      await page.waitForSelector(`${loading} >> text=Still reading`)
      for (const other of [failed, selector]) expect(await page.locator(other).count(), other).toBe(0)
      await checked(page, `${name}, loading`)

      await page.unroute(ofData)
      await page.route(ofData, route =>
        route.request().resourceType() === "document" ? route.fallback() : route.fulfill(problem),
      )
      for (const go of waiting) go()
      await page.goto(`${stage.url}${path()}`)
      await page.waitForSelector(`${failed} >> text=500, E501`)
      expect(await page.locator(selector).count()).toBe(0)
      await checked(page, `${name}, failed`)
    },
  )
})
