/** Workflows: statistics of versions, new ones, what scopes allow, failed answers, accessibility. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { moveAlias } from "../../../src/jobs/aliases.ts"
import { violations } from "../axe.ts"
import { intercept, type OpenOptions, openUiStage, type UiStage } from "../ui-stage.ts"
import { film, hostile, rolled } from "../workflow-samples.ts"

let stage: UiStage
beforeAll(async () => {
  stage = await openUiStage()
  await stage.umbra.register(film("one") as never)
  await stage.umbra.register(
    film("two", [
      { id: "music", handler: "transform", dependencies: ["script"], config: { value: hostile } },
    ]) as never,
  )
  await stage.umbra.register(rolled(false) as never)
  await stage.umbra.register(rolled(true) as never)
})
afterAll(() => stage?.close())

const open = async (path: string | null, options: OpenOptions = {}) => {
  const opened = await stage.open(path, options)
  onTestFinished(opened.close)
  return opened
}

const path = "/ui/workflows/film"

const point = (alias: string, weights: Record<string, number>) =>
  moveAlias(stage.umbra.registry, {
    ...{ owner: "local", name: "rolled", alias, by: "test" },
    targets: Object.entries(weights).map(([version, weight]) => ({ version: Number(version), weight })),
  })

describe("an alias", () => {
  it("says that a version fails more, and sets it to 0 %", async () => {
    await point("canary", { 1: 50, 2: 50 })
    for (const version of [1, 2])
      await Promise.all(
        Array.from({ length: 15 }, async () =>
          stage.umbra.wait((await stage.umbra.submit(`rolled@${version}`, {})).id),
        ),
      )
    const { page } = await open("/ui/workflows/rolled")
    const panel = page.locator('[data-alias="canary"]')
    await panel.locator("text=v2 fails more than v1").waitFor()
    await panel.locator("text=Set v2 to 0 %").click()
    await panel.locator("text=v2 fails more than v1").waitFor({ state: "detached" })
    const { aliases } = (await stage.ask("/workflows/rolled")).body as {
      aliases: { alias: string; weights: Record<string, number> }[]
    }
    expect(aliases.find(({ alias }) => alias === "canary")!.weights).toEqual({ 1: 100, 2: 0 })
    await panel.locator("text=Remove").click()
    // A refusal is said where it was asked for.
    await intercept(page, /\/aliases\/canary$/, one =>
      one.fulfill({
        status: 500,
        contentType: "application/problem+json",
        body: JSON.stringify({ code: "E501", detail: "The store did not answer." }),
      }),
    )
    await page.click("dialog >> text=Remove the alias")
    await page.waitForSelector('dialog [role="alert"] >> text=The store did not answer.')
    await page.unroute(/\/aliases\/canary$/)
    await page.click("dialog >> text=Remove the alias")
    await panel.waitFor({ state: "detached" })
    await page.click('[aria-label="Versions"] >> text=Alias')
    await page.fill('dialog input[name="alias"]', "beta")
    await page.click("dialog >> text=Create")
    await page.waitForSelector('[data-alias="beta"]')
  })

  it("has statistics of nodes once jobs were counted", async () => {
    const { page } = await open("/ui/workflows/rolled")
    await expect
      .poll(
        async () =>
          ((await stage.ask("/workflows/rolled/stats")).body as { nodes: { node: string }[] }).nodes.length,
        { interval: 500 },
      )
      .toBe(1)
    await page.reload()
    const row = page.locator('[aria-label="Statistics of nodes"] tbody tr')
    await row.waitFor()
    const texts = await row.locator("td").allTextContents()
    expect(texts[0]).toBe("only")
    expect(texts[3]).toMatch(/ms|s$/)
  })
})

describe("the editor", () => {
  it("pushes a new workflow, and leads to it", async () => {
    const { page } = await open("/ui/workflows")
    await page.waitForSelector(".wl")
    await page.keyboard.press("n")
    await page.waitForSelector('[data-verdict="Valid"]')
    const area = page.locator(".carea textarea")
    await area.fill((await area.inputValue()).replace("name: hello", 'name: "a/b c"'))
    await page.waitForSelector("text=Push a/b c")
    await page.keyboard.press("Control+s")
    await page.waitForURL(/a%252Fb/)
    await page.waitForSelector("h1 >> text=a/b c")
    expect((await stage.ask("/workflows/a%2Fb%20c")).body).toMatchObject({ version: 1 })
  })
})

describe("every part", () => {
  it("has no violation in the light and the dark theme, nor at 390 px", async () => {
    const { page } = await open("/ui/workflows")
    for (const [part, ready] of [
      ["/ui/workflows", ".wl"],
      ["/ui/workflows/rolled", "[data-alias]"],
      [`${path}?view=graph`, ".node"],
      [`${path}?view=changes&from=1&to=2`, ".dl.added"],
      [`${path}?view=edit`, '[data-verdict="Valid"]'],
      [`${path}?view=launch`, '[data-path="input.brief"]'],
    ] as const) {
      await page.setViewportSize({ width: 1440, height: 900 })
      await page.goto(`${stage.url}${part}`)
      await page.waitForSelector(ready)
      expect(await violations(page), part).toEqual([])
      await page.setViewportSize({ width: 390, height: 844 })
      expect(await violations(page), `${part} at 390 px`).toEqual([])
      expect(await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth), part).toBe(
        0,
      )
    }
  })

  it("shows a failed answer as one, never as an empty list", async () => {
    const { page } = await open(null)
    const problem = {
      status: 500,
      contentType: "application/problem+json",
      body: JSON.stringify({ code: "E501", detail: "The store did not answer." }),
    }
    await page.route(/\/workflows\?/, one => one.fulfill(problem))
    await page.goto(`${stage.url}/ui/workflows`)
    await page.waitForSelector('[data-state="failed"] >> text=This is not an empty list.')
    await page.unroute(/\/workflows\?/)
    await page.click("text=Try now")
    await page.waitForSelector(".wl")
    await page.goto(`${stage.url}/ui/workflows/nothing`)
    await page.waitForSelector('[data-state="failed"] >> text=404, E305')
  })

  it("has no button that changes something without the scope", async () => {
    const closed = await openUiStage({ withTokens: true })
    onTestFinished(() => closed.close())
    await closed.umbra.register(rolled(false) as never, "ada")
    await moveAlias(closed.umbra.registry, {
      ...{ owner: "ada", name: "rolled", alias: "stable", by: "test" },
      targets: [{ version: 1, weight: 1 }],
    })
    const token = await closed.token("ada", "read")
    const { page } = await closed.open("/ui/workflows/rolled")
    await page.fill('input[name="token"]', token)
    await page.keyboard.press("Enter")
    await page.waitForSelector('[data-alias="stable"]')
    expect(
      await page.locator(".rollout button, .rollout input, [aria-label='Versions'] button").count(),
    ).toBe(0)
    expect(await page.locator('.phead >> text="Launch"').count()).toBe(0)
    await page.click('.phead >> text="Edit"')
    await page.waitForSelector('[data-verdict="Valid"]')
    expect(await page.locator("text=Push").count()).toBe(0)
    const other = await closed.token("bob", "read")
    const { page: theirs } = await closed.open("/ui/workflows/rolled")
    await theirs.fill('input[name="token"]', other)
    await theirs.keyboard.press("Enter")
    await theirs.waitForSelector('[data-state="failed"] >> text=404, E305')
  })
})
