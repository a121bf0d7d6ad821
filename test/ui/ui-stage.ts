/** A real server with the built dashboard, a real Chromium, and a proxy between them that a test can cut. */

import type { AddressInfo } from "node:net"
import { connect, createServer, type Server as NetServer, type Socket } from "node:net"
import { type Browser, type BrowserContext, chromium, type Page, type Route } from "playwright-core"
import { expect } from "vitest"
import { defineHandler } from "../../src/worker/handler.ts"
import { waitForSignal } from "../../src/worker/waiting.ts"
import { openStage, type Stage, type StageOptions } from "../server/stage.ts"
import { chromiumPath } from "../support/services.ts"

/**
 * Chromium has a window with an address bar for every context, and renders what opens below the bar as pages of its own: more
 * work than a page of the dashboard is.
 */
const addressBar = ["WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup"]

/** A renderer that is started beside that of a page, for the next one. Each page is in a context of its own, which ends with it. */
const spareRenderer = "SpareRendererForSitePerProcess"

/** What Playwright disables. Of several lists Chromium reads the last. */
const disabledByPlaywright = [
  "AimEnabled",
  "AvoidCorsURLLoaderRestartOnRedirect",
  "AvoidUnnecessaryBeforeUnloadCheckSync",
  "DestroyProfileOnBrowserClose",
  "HttpsFirstBalancedModeAutoEnable",
  "HttpsUpgrades",
  "LensOverlay",
  "MediaRouter",
  "NetworkTimeServiceQuerying",
  "OptimizationHints",
  "PaintHolding",
  "PreconnectToSearch",
  "ThirdPartyStoragePartitioning",
]

const flags = [
  `--disable-features=${[...disabledByPlaywright, ...addressBar, spareRenderer].join(",")}`,
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--js-flags=--expose-gc",
]

let browserOfProcess: Promise<Browser> | null = null

/** One for all files that run in this process: each test has contexts of its own. Playwright ends it with the process. */
function openBrowser(): Promise<Browser> {
  browserOfProcess ??= launch()
  return browserOfProcess
}

async function launch(): Promise<Browser> {
  const browser = await chromium.launch({ executablePath: chromiumPath(), headless: true, args: flags })
  // If it crashes, the next file starts another.
  return browser.on("disconnected", () => {
    browserOfProcess = null
    freeTab = null
  })
}

/** The viewport of a page that no test has changed. */
const viewport = { width: 1440, height: 900 }

interface Tab {
  readonly context: BrowserContext
  readonly page: Page
}

/** Of the test before, as a new one would be. */
let freeTab: Tab | null = null

export interface OpenOptions {
  readonly viewport?: { readonly width: number; readonly height: number }
  readonly colorScheme?: "light" | "dark"
  readonly reducedMotion?: "reduce"
  readonly hasTouch?: boolean
  readonly timezoneId?: string
  /**
   * A context for this test alone, without cached assets: for a test that adds scripts to the page, sets its clock, or has
   * assets fail.
   */
  readonly isNew?: boolean
}

/** Of these options a page cannot be told once it is there. */
const needsContext = ({ isNew, hasTouch, timezoneId }: OpenOptions): boolean =>
  isNew === true || hasTouch === true || timezoneId !== undefined

/**
 * The tab of the test before, if it is free: a new context starts a renderer, and compiles the dashboard again. That takes
 * twice as long as to load the dashboard where it was loaded before.
 */
async function openTab(browser: Browser, options: OpenOptions): Promise<Tab> {
  if (needsContext(options) || freeTab === null) {
    const { isNew, ...ofContext } = options
    const context = await browser.newContext({ viewport, ...ofContext })
    // As for what is polled: see vitest.config.ts.
    context.setDefaultTimeout(60_000)
    return { context, page: await context.newPage() }
  }
  const tab = freeTab
  freeTab = null
  await tab.page.setViewportSize(options.viewport ?? viewport)
  const { colorScheme = "light", reducedMotion = "no-preference" } = options
  await tab.page.emulateMedia({ colorScheme, reducedMotion })
  return tab
}

/** Keeps a tab as a new one would be, for the next test; ends it if that is not possible. */
async function releaseTab({ context, page }: Tab, options: OpenOptions): Promise<void> {
  const isFree =
    !needsContext(options) && freeTab === null && (await cleared(context, page).catch(() => false))
  if (!isFree) await context.close()
  else if (freeTab === null) freeTab = { context, page }
  else await context.close()
}

/** Removes all that a test can have left: other pages, routes, listeners, cookies, permissions, storage, and where the mouse is. */
async function cleared(context: BrowserContext, page: Page): Promise<boolean> {
  for (const other of context.pages()) if (other !== page) await other.close()
  await context.unrouteAll({ behavior: "ignoreErrors" })
  await page.unrouteAll({ behavior: "ignoreErrors" })
  for (const event of ["console", "pageerror", "request", "response"] as const) page.removeAllListeners(event)
  await context.clearPermissions()
  await page.evaluate(() => {
    localStorage.clear()
    sessionStorage.clear()
  })
  await page.goto("about:blank")
  await context.clearCookies()
  await page.mouse.move(-1, -1)
  return true
}

let failures = new Map<string, number>()

/** Handlers that do what a config asks for. */
const handlers = [
  defineHandler({ name: "approval", run: () => waitForSignal("approved") }),
  defineHandler({
    name: "fails",
    run: (config, { jobId, nodeId }) => {
      const { times = 1_000_000, message = "it always fails" } = config as {
        times?: number
        message?: string
      }
      const key = `${jobId} ${nodeId}`
      const before = failures.get(key) ?? 0
      failures.set(key, before + 1)
      if (before < times) throw new Error(message)
      return { tries: before + 1 }
    },
  }),
  defineHandler({
    name: "pick",
    run: config => {
      const { value, bad } = config as { value: unknown; bad?: boolean }
      if (bad === true) throw new Error("this one is bad")
      return { value } as never
    },
  }),
  defineHandler({
    name: "large",
    run: config => {
      const { entries } = config as { entries: number }
      return Array.from({ length: entries }, (_, n) => ({ n, text: `entry ${n} ${"x".repeat(60)}` })) as never
    },
  }),
]

export interface UiStage extends Stage {
  readonly browser: Browser
  /** The address of the dashboard, through the proxy. */
  readonly url: string
  readonly proxy: Proxy
  /**
   * A page without cookies and storage, in a context of its own until it is closed. Errors of its scripts, and of the console,
   * are collected. Without a path the page is blank.
   */
  open(path: string | null, options?: OpenOptions): Promise<OpenPage>
  /** Stores a workflow and runs a job of it. */
  start(definition: object, input?: unknown): Promise<string>
}

export interface OpenPage {
  readonly page: Page
  readonly context: BrowserContext
  readonly problems: readonly string[]
  /** Paths of all requests so far. */
  readonly requests: readonly string[]
  close(): Promise<void>
}

export async function openUiStage(options: StageOptions = {}): Promise<UiStage> {
  failures = new Map()
  const stage = await openStage({ ...options, umbra: { handlers, ...options.umbra } })
  const browser = await openBrowser()
  const proxy = await openProxy(Number(new URL(stage.server.url).port))
  const opened = new Set<() => Promise<void>>()
  return {
    ...stage,
    browser,
    proxy,
    url: proxy.url,
    async open(path, asked = {}) {
      // What one person has read and may cache, the next must not see.
      const ofTab = options.withTokens === true ? { ...asked, isNew: true } : asked
      const tab = await openTab(browser, ofTab)
      const { page, context } = tab
      const close = async () => {
        if (opened.delete(close)) await releaseTab(tab, ofTab)
      }
      opened.add(close)
      const problems: string[] = []
      const requests: string[] = []
      page.on("pageerror", error => problems.push(error.message))
      page.on("console", message => message.type() === "error" && problems.push(message.text()))
      page.on("request", request =>
        requests.push(new URL(request.url()).pathname + new URL(request.url()).search),
      )
      if (path !== null) await page.goto(`${proxy.url}${path}`)
      return { page, context, problems, requests, close }
    },
    async start(definition, input = {}) {
      const { name } = definition as { name: string }
      await stage.umbra.register(definition as never)
      return (await stage.umbra.submit(name, input as never)).id
    },
    async close() {
      for (const close of opened) await close()
      await proxy.close()
      await stage.close()
    },
  }
}

export interface Proxy {
  readonly url: string
  /** Ends all connections, and accepts none until `restore`. */
  cut(): void
  restore(): void
  close(): Promise<void>
}

async function openProxy(port: number): Promise<Proxy> {
  const sockets = new Set<Socket>()
  let isCut = false
  const server: NetServer = createServer(socket => {
    if (isCut) {
      socket.destroy()
      return
    }
    const onward = connect(port, "127.0.0.1")
    for (const one of [socket, onward]) {
      sockets.add(one)
      one.on("error", () => {})
      one.on("close", () => {
        sockets.delete(one)
        ;(one === socket ? onward : socket).destroy()
      })
    }
    socket.pipe(onward)
    onward.pipe(socket)
  })
  await new Promise<void>(done => server.listen(0, "127.0.0.1", done))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut() {
      isCut = true
      for (const socket of sockets) socket.destroy()
    },
    restore() {
      isCut = false
    },
    async close() {
      for (const socket of sockets) socket.destroy()
      await new Promise(done => server.close(done))
    },
  }
}

/**
 * Answers requests of a page that is open already. Chromium tells the page about it on another channel than keys and clicks,
 * which can be faster (33 of 2,743 times on a busy machine): wait until a request of the page is intercepted.
 */
export async function intercept(
  page: Page,
  pattern: RegExp,
  answer: (route: Route) => Promise<unknown>,
): Promise<void> {
  await page.route(pattern, answer)
  await page.route(/\/health\?intercepted$/, route => route.fulfill({ body: "intercepted" }))
  await page.waitForFunction(
    async () => (await (await fetch("/health?intercepted")).text()) === "intercepted",
  )
}

/** Waits until a page has sent what it reads once for the number beside Now. */
export async function numberWasRequested(requests: readonly string[]): Promise<void> {
  for (const path of [/^\/failures/, /^\/waits/, /^\/(workers|health)/, /^\/executions/])
    await expect.poll(() => requests.some(one => path.test(one))).toBe(true)
}

/** By node id: the state that the graph shows. */
export function shownStates(page: Page): Promise<Record<string, string>> {
  return page.evaluate(() =>
    Object.fromEntries(
      [...document.querySelectorAll<HTMLElement>(".node")].map(card => [card.dataset.id!, card.dataset.s!]),
    ),
  )
}

/** Moves the time slider to the state after `index` facts, and waits until the page shows it. */
export async function moveTo(page: Page, index: number): Promise<void> {
  await shownAfter(page, [index])
}

/**
 * Moves the time slider to the state after so many facts, one after the other, waits each time until the page shows it, and
 * reads the states that the graph has then.
 */
export function shownAfter(
  page: Page,
  indexes: readonly number[],
): Promise<readonly Record<string, string>[]> {
  return page.evaluate(async values => {
    const all: Record<string, string>[] = []
    for (const value of values) {
      const slider = document.querySelector<HTMLInputElement>(".slide")!
      Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")!.set!.call(slider, String(value))
      slider.dispatchEvent(new Event("input", { bubbles: true }))
      const text = `event ${value.toLocaleString("en-US")} of`
      while (!document.querySelector(".ctl .now")?.textContent?.includes(text))
        await new Promise(requestAnimationFrame)
      const cards = [...document.querySelectorAll<HTMLElement>(".node")]
      all.push(Object.fromEntries(cards.map(card => [card.dataset.id!, card.dataset.s!])))
    }
    return all
  }, indexes)
}

/** A job with every kind of state: retries, a list, a condition, a failure, nodes behind it. */
export const everything = {
  name: "everything",
  nodes: [
    { id: "start", handler: "transform", config: { value: "{{ input.list }}" } },
    {
      id: "flaky",
      handler: "fails",
      retry: { max_attempts: 4, initial_seconds: 0 },
      config: { times: 2, message: "the service did not answer" },
    },
    { id: "never", handler: "transform", when: "{{ false }}", config: { value: 1 }, dependencies: ["start"] },
    {
      id: "each",
      handler: "pick",
      for_each: "{{ start }}",
      fail_fast: false,
      retry: { max_attempts: 1 },
      config: { value: "{{ item }}", bad: "{{ index == 13 }}" },
    },
    { id: "joined", handler: "transform", dependencies: ["flaky", "never"], config: { value: "joined" } },
    { id: "after", handler: "transform", dependencies: ["each", "joined"], config: { value: "after" } },
    { id: "last", handler: "transform", dependencies: ["after"], config: { value: "last" } },
  ],
}
