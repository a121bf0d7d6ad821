/** The page Settings: who is logged in, the server, and tokens that are created, shown once and revoked. */
import type { Page } from "playwright-core"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { version } from "../../src/version.ts"
import { violations } from "./axe.ts"
import { intercept, openUiStage, type UiStage } from "./ui-stage.ts"

let stage: UiStage

beforeAll(async () => {
  stage = await openUiStage({ withTokens: true })
})
afterAll(() => stage?.close())

async function openAs(token: string): Promise<Page> {
  const { page, close } = await stage.open("/ui/settings")
  onTestFinished(close)
  await page.fill('input[name="token"]', token)
  await page.click("text=Sign in")
  await page.waitForSelector(".settings")
  return page
}

const rows = (page: Page) =>
  page.evaluate(() =>
    [...document.querySelectorAll<HTMLElement>("[data-token]")].map(row => row.dataset.token),
  )

describe("settings", () => {
  it("show who is logged in and the state of the server, and log out", async () => {
    const page = await openAs(await stage.token("shop", "read", "submit"))
    const you = (await page.locator('[aria-labelledby="you"]').textContent())!
    expect(you).toContain("By a session of this browser")
    expect(you).toContain("Ownershop")
    expect(you).toContain("Scopesread, submit")
    await page.waitForSelector('[data-ready="true"]')
    const server = (await page.locator('[aria-labelledby="server"]').textContent())!
    expect(server).toContain(`Release${version}`)
    expect(server).toContain(stage.url)
    expect(server).toContain("DatabaseReachable")
    // Tokens need the scope admin.
    expect(await page.locator("text=New token").count()).toBe(0)
    await page.waitForSelector("text=that needs the scope admin, you have read, submit.")
    await page.click('[aria-labelledby="you"] >> text=Log out')
    await page.waitForSelector(".lcard")
  })

  it("create a token that is shown once and works, and revoke it", async () => {
    const admin = await stage.token("shop", "admin")
    const page = await openAs(admin)
    await page.waitForSelector("[data-token]")
    expect((await rows(page)).length).toBe(
      (await stage.ask("/tokens?owner=shop", { token: admin })).body.tokens.filter(
        (token: { revoked_at: string | null }) => token.revoked_at === null,
      ).length,
    )
    await page.click("text=New token")
    await page.uncheck('input[value="read"]')
    await page.click('dialog >> text="Create"')
    await page.waitForSelector('dialog [role="alert"]:has-text("Choose at least one scope")')
    await page.check('input[value="read"]')
    await page.check('input[value="submit"]')
    await page.click("summary")
    await page.fill('input[name="rate_limit"]', "7")
    await page.fill('input[name="max_unfinished_jobs"]', "20")
    expect(await page.locator('input[name="owner"]').isDisabled()).toBe(true)
    await page.click('dialog >> text="Create"')
    const made = (await page.locator("[data-made]").textContent())!
    expect(made).toMatch(/^umbra_/)
    // Neither Esc nor a press beside it loses the token.
    await page.keyboard.press("Escape")
    await page.mouse.click(5, 300)
    expect(await page.locator("[data-made]").isVisible()).toBe(true)
    await page.click('dialog >> text="Done"')
    await page.waitForSelector("dialog", { state: "detached" })
    expect(await page.content()).not.toContain(made)
    const used = await stage.ask("/session", { token: made })
    expect(used.body).toMatchObject({ owner: "shop", scopes: ["read", "submit"] })
    const row = page.locator(`[data-token]:has-text("…${made.slice(-4)}")`)
    await row.waitFor()
    expect(await row.textContent()).toContain("read, submit7 requests/s, 20 unfinished jobs")

    await row.locator("text=Revoke").click()
    await page.waitForSelector(`dialog >> text=Revoke the token that ends in ${made.slice(-4)}`)
    await page.click('dialog button >> text="Revoke"')
    await row.waitFor({ state: "detached" })
    expect((await stage.ask("/session", { token: made })).status).toBe(401)
    await page.check("text=revoked")
    await row.waitFor()
    expect(await row.textContent()).toContain("revoked")
  })

  it("show why a token was refused, as a text, and never an empty list for an error", async () => {
    const page = await openAs(await stage.token("shop", "admin"))
    await page.waitForSelector("[data-token]")
    await page.click("text=New token")
    await page.click("summary")
    await intercept(page, /\/tokens$/, route =>
      route.fulfill({
        status: 403,
        contentType: "application/problem+json",
        body: JSON.stringify({ code: "E631", detail: '<img src=x onerror="document.title=1">' }),
      }),
    )
    await page.click('dialog >> text="Create"')
    await page.waitForSelector('dialog [role="alert"]:has-text("<img")')
    await page.unroute(/\/tokens$/)
    await page.route(/\/tokens\?/, route => route.abort())
    await page.goto(`${stage.url}/ui/settings`)
    await page.waitForSelector('[aria-labelledby="tokens"] [data-state="failed"]')
    expect(await page.locator("text=No token yet").count()).toBe(0)
  })

  it("keep the tokens of owners apart", async () => {
    await stage.token("other", "admin")
    const page = await openAs(await stage.token("shop", "admin"))
    await page.waitForSelector("[data-token]")
    expect(await page.locator('[aria-labelledby="tokens"] td:has-text("other")').count()).toBe(0)
  })

  it("are reached by the palette and the menu of the account, with keys", async () => {
    const page = await openAs(await stage.token("shop", "read"))
    await page.goto(`${stage.url}/ui/jobs`)
    await page.waitForSelector('.jl, [data-state="empty"]')
    await page.keyboard.press("Control+k")
    await page.waitForSelector("dialog[open] input")
    await page.keyboard.type(":settings")
    await page.keyboard.press("Enter")
    await page.waitForURL(/\/ui\/settings$/)
    await page.goto(`${stage.url}/ui/jobs`)
    await page.waitForSelector('.jl, [data-state="empty"]')
    await page.focus('[aria-label="Account"]')
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await page.waitForURL(/\/ui\/settings$/)
  })

  it("are opened by a palette whose Enter follows the text within one task", async () => {
    const page = await openAs(await stage.token("shop", "read"))
    await page.goto(`${stage.url}/ui/jobs`)
    await page.waitForSelector('.jl, [data-state="empty"]')
    await page.keyboard.press("Control+k")
    await page.waitForSelector("dialog[open] input")
    await page.evaluate(async () => {
      const input = document.querySelector<HTMLInputElement>("dialog[open] input")!
      const { set } = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")!
      set!.call(input, ":settings")
      input.dispatchEvent(new Event("input", { bubbles: true }))
      await Promise.resolve()
      input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }))
    })
    await page.waitForURL(/\/ui\/settings$/)
  })
})

describe("in the light and the dark theme", () => {
  it("have no violation, also at 390 px, without sideways scroll", async () => {
    const page = await openAs(await stage.token("shop", "admin"))
    await page.waitForSelector("[data-token]")
    await page.waitForSelector("[data-ready]")
    expect(await violations(page)).toEqual([])
    await page.setViewportSize({ width: 390, height: 844 })
    expect(await violations(page), "390 px").toEqual([])
    expect(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)).toBe(0)
    await page.click("text=New token")
    await page.waitForSelector("dialog[open]")
    expect(await violations(page), "the form").toEqual([])
  })
})
