/** Sessions in a real browser: log-in, log-out, scopes, other owners, and pages of another origin. */
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { violations } from "./axe.ts"
import { openUiStage, type UiStage } from "./ui-stage.ts"

let stage: UiStage
const waits = { name: "waits", nodes: [{ id: "ask", handler: "approval" }] }

beforeAll(async () => {
  stage = await openUiStage({ withTokens: true })
})
afterAll(() => stage?.close())

async function jobOf(owner: string): Promise<string> {
  const token = await stage.token(owner, "admin")
  await stage.ask("/workflows", { method: "POST", body: waits, token })
  return (await stage.ask("/jobs", { method: "POST", body: { workflow: "waits" }, token })).body.job_id
}

describe("access to the dashboard", () => {
  it("requests a token, exchanges it for a session, and ends the session", async () => {
    const job = await jobOf("shop")
    const { page, context, close } = await stage.open(`/ui/jobs/${job}`)
    onTestFinished(close)
    await page.waitForSelector(".lcard")
    await page.fill('input[name="token"]', "umbra_wrong")
    await page.click("text=Sign in")
    await page.waitForSelector("#login-error")
    await page.fill('input[name="token"]', await stage.token("shop", "read", "submit", "manage"))
    await page.click("text=Sign in")
    // The page that was asked for.
    await page.waitForSelector('.node[data-id="ask"]')
    const [cookie] = await context.cookies()
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: "Strict" })
    expect(
      await page.evaluate(() => JSON.stringify([localStorage, sessionStorage, document.cookie])),
    ).not.toContain("umbra_")
    await page.click('[aria-label="Account"]')
    await page.click("text=Log out")
    await page.waitForSelector(".lcard")
    expect(await context.cookies()).toEqual([])
  })

  it("has no violation of WCAG on the login page in the light and the dark theme", async () => {
    const { page, close } = await stage.open("/")
    onTestFinished(close)
    await page.waitForSelector(".lcard")
    expect(await violations(page)).toEqual([])
    await page.fill('input[name="token"]', "umbra_wrong")
    await page.click("text=Sign in")
    await page.waitForSelector("#login-error")
    expect(await violations(page)).toEqual([])
  })

  it("shows only the buttons that the scopes allow, and no job of another owner", async () => {
    const [own, other] = [await jobOf("shop"), await jobOf("elsewhere")]
    const { page, close } = await stage.open(`/ui/jobs/${own}?node=ask`)
    onTestFinished(close)
    await page.fill('input[name="token"]', await stage.token("shop", "read"))
    await page.click("text=Sign in")
    await page.waitForSelector(".drawer")
    await page.waitForSelector(".acts >> text=Download")
    expect(await page.locator(".acts >> text=Cancel").count()).toBe(0)
    expect(await page.locator(".acts >> text=Pause").count()).toBe(0)
    await page.keyboard.press("p")
    await page.keyboard.press("o")
    await page.waitForSelector(".or")
    expect(await page.locator("dialog").count()).toBe(0)
    expect(await page.locator(".drawer textarea").count()).toBe(0)
    await page.goto(`${stage.url}/ui/jobs/${own}/answer?node=ask`)
    await page.waitForSelector("main >> text=this needs the scope submit")
    expect(await page.locator("main button, main textarea, main form").count()).toBe(0)
    await page.goto(`${stage.url}/ui/jobs/${other}`)
    await page.waitForSelector("text=belongs to another owner")
    await page.goto(`${stage.url}/ui/jobs`)
    await page.waitForSelector(".jl")
    expect(await page.locator(`[data-job="${other}"]`).count()).toBe(0)
  })

  it("gives a page on another port nothing, although the browser sends it the cookie", async () => {
    const job = await jobOf("shop")
    const { page, context, close } = await stage.open("/")
    onTestFinished(close)
    await page.fill('input[name="token"]', await stage.token("shop", "read", "submit", "manage"))
    await page.click("text=Sign in")
    await page.waitForSelector(".jl")
    const evil = createServer((_, response) =>
      response.setHeader("content-type", "text/html").end("<title>evil</title>"),
    )
    await new Promise<void>(done => evil.listen(0, "127.0.0.1", done))
    onTestFinished(() => new Promise(done => evil.close(() => done())))
    const attacker = await context.newPage()
    await attacker.goto(`http://127.0.0.1:${(evil.address() as AddressInfo).port}/`)
    const tried = await attacker.evaluate(
      async ([url, id]) => {
        const attempt = async (path: string, init: RequestInit) => {
          try {
            const response = await fetch(`${url}${path}`, { credentials: "include", ...init })
            return response.type === "opaque" ? "opaque" : `${response.status}`
          } catch {
            return "refused"
          }
        }
        const form = document.createElement("form")
        form.method = "post"
        form.action = `${url}/jobs/${id}/cancel`
        const frame = document.createElement("iframe")
        frame.name = "frame"
        form.target = "frame"
        document.body.append(frame, form)
        form.submit()
        await new Promise(done => {
          frame.onload = done
          setTimeout(done, 1000)
        })
        return [
          await attempt(`/jobs/${id}`, {}),
          await attempt(`/jobs/${id}/cancel`, {
            method: "POST",
            headers: { "content-type": "application/json", "umbra-csrf": "1" },
            body: "{}",
          }),
          await attempt(`/jobs/${id}/cancel`, { method: "POST", mode: "no-cors" }),
          await attempt("/session", { method: "DELETE" }),
        ]
      },
      [stage.url, job] as const,
    )
    for (const result of tried) expect(["refused", "opaque"]).toContain(result)
    const token = await stage.token("shop", "read")
    expect((await stage.ask(`/jobs/${job}`, { token })).body.status).not.toBe("CANCELLED")
    await page.reload()
    await page.waitForSelector(".jl")
  })
})
