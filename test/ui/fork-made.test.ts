/** A fork is made: confirmed, refused, with keys alone, as a command; and the page has no violation. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { violations } from "./axe.ts"
import {
  button,
  type ForkStage,
  hostile,
  type Listed,
  openForkStage,
  preview,
  shaky,
  text,
} from "./fork-samples.ts"
import { intercept } from "./ui-stage.ts"

let opened: ForkStage
let stage: ForkStage["stage"]
let failed: string
beforeAll(async () => {
  opened = await openForkStage()
  ;({ stage, failed } = opened)
})
afterAll(() => stage?.close())

describe("the fork", () => {
  it("needs every unsafe effect confirmed, and the unknown ones together; then it opens", async () => {
    const { page, close, problems } = await stage.open(`/ui/jobs/${failed}/fork?from=pay`)
    onTestFinished(close)
    await page.waitForSelector('[data-id="pay"][data-fork="run"]')
    const api = await preview(opened, { from: ["pay"] })
    expect(api.effects).toMatchObject({ unsafe: ["pay", "inform"], unknown: ["note"] })
    const boxes = page.locator(".feffects input")
    expect(await boxes.count()).toBe(3)
    expect(await text(page, ".feffects label >> nth=0")).toBe(
      "pay has an effect outside of Umbra, and has run in the origin.",
    )
    expect(await text(page, ".feffects label >> nth=1")).toContain("has not run in the origin")
    // With keys alone.
    await boxes.nth(0).focus()
    for (const box of [0, 1, 2]) {
      expect(await page.locator(button).isDisabled(), `before box ${box}`).toBe(true)
      await page.keyboard.press("Space")
      await page.keyboard.press("Tab")
    }
    expect(await text(page, button)).toBe("Fork, run 4 nodes")
    shaky.isBroken = false
    onTestFinished(() => {
      shaky.isBroken = true
    })
    await page.locator(button).focus()
    await page.keyboard.press("Enter")
    await page.waitForURL(url => url.pathname.startsWith("/ui/jobs/") && !url.pathname.includes(failed))
    const fork = new URL(page.url()).pathname.split("/").at(-1)!
    await stage.umbra.wait(fork)
    const job = (await stage.ask(`/jobs/${fork}`)).body
    expect(job).toMatchObject({ forked_from: failed, status: "COMPLETED" })
    const { nodes } = (await stage.ask(`/jobs/${fork}/graph`)).body as {
      nodes: { id: string; reused_from?: string; status: string }[]
    }
    const reused = nodes.filter(node => node.reused_from !== undefined).map(({ id }) => id)
    expect(reused.toSorted()).toEqual((api.reused as Listed[]).map(({ node }) => node).toSorted())
    expect(nodes.length - reused.length).toBe(api.will_run.length)
    await page.waitForSelector(".node[data-s]")
    await page.keyboard.press("c")
    await page.waitForSelector('.first:has-text("First divergence: check.")')
    expect(problems).toEqual([])
  })

  it("is reached from the list and made with keys alone, and the focus never gets lost", async () => {
    const { page, close } = await stage.open("/ui/jobs?status=FAILED&workflow=order")
    onTestFinished(close)
    await page.waitForSelector(`[data-job="${failed}"]`)
    const press = async (key: string, selector: string) => {
      await page.keyboard.press(key)
      await page.waitForSelector(selector)
      await page.waitForFunction(() => document.activeElement !== document.body)
    }
    await press("j", "[data-job] :focus, [data-job]:focus")
    await press("Enter", '.node[data-id="check"]')
    await press("Control+k", ".palette input")
    await page.keyboard.type("@check")
    await page.waitForSelector('.po[aria-selected="true"] >> text=check')
    await press("Enter", ".drawer .errbox")
    await press("f", '[data-fork][data-id="check"]')
    await press("ArrowRight", ".fnode, [data-id]:focus")
    // To the boxes by Tab, and to the button behind them.
    const isAt = (selector: string) =>
      page.evaluate(one => document.activeElement?.matches(one) === true, selector)
    const tabTo = async (selector: string) => {
      for (let n = 0; n < 80 && !(await isAt(selector)); n++) await press("Tab", "main")
      expect(await isAt(selector), selector).toBe(true)
    }
    await tabTo(".feffects input")
    while (await isAt(".feffects input")) {
      await press("Space", "main")
      await press("Tab", "main")
    }
    await tabTo(button)
    shaky.isBroken = false
    onTestFinished(() => {
      shaky.isBroken = true
    })
    await page.keyboard.press("Enter")
    await page.waitForURL(url => url.pathname.startsWith("/ui/jobs/") && !url.pathname.includes(failed))
    await page.waitForSelector('.node[data-id="check"]')
    await page.waitForFunction(() => document.activeElement !== document.body)
    const fork = new URL(page.url()).pathname.split("/").at(-1)!
    expect(await stage.umbra.wait(fork)).toMatchObject({ status: "COMPLETED" })
  })

  it("shows why it was refused, and stays", async () => {
    const { page, close } = await stage.open(`/ui/jobs/${failed}/fork`)
    onTestFinished(close)
    await page.waitForSelector(".feffects")
    for (const box of await page.locator(".feffects input").all()) await box.check()
    await intercept(page, /\/fork$/, route =>
      route.fulfill({
        status: 429,
        contentType: "application/problem+json",
        body: JSON.stringify({ code: "E611", detail: `Too many requests ${hostile}` }),
      }),
    )
    await page.click(button)
    await page.waitForSelector('footer [role="alert"]:has-text("Too many requests <img")')
    expect(await page.locator(button).isEnabled()).toBe(true)
    expect(await page.title()).not.toBe("bad")
  })

  it("is copied as a command that the shell reads as it is", async () => {
    const { page, context, close } = await stage.open(`/ui/jobs/${failed}/fork?from=pay&version=2`)
    onTestFinished(close)
    await context.grantPermissions(["clipboard-read", "clipboard-write"])
    await page.waitForSelector('[data-id="pay"][data-fork="run"]')
    await page.locator(".feffects input").first().check()
    await page.click("text=Copy as command")
    await expect
      .poll(() => page.evaluate(() => navigator.clipboard.readText()))
      .toBe(`umbra fork ${failed} --from pay --workflow order@2 --confirm pay`)
  })
})

describe("in the light and the dark theme", () => {
  it("has no violation, also at 390 px, without sideways scroll", async () => {
    const { page, close } = await stage.open(`/ui/jobs/${failed}/fork?node=check&from=pay`)
    onTestFinished(close)
    await page.waitForSelector(".feffects")
    await page.click("text=Set output")
    await page.waitForSelector(".fnode textarea")
    expect(await violations(page)).toEqual([])
    await page.setViewportSize({ width: 390, height: 844 })
    await page.waitForSelector(".flist")
    expect(await violations(page), "390 px").toEqual([])
    expect(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)).toBe(0)
    expect(await page.title()).not.toBe("bad")
  })
})
