/** axe-core in a page: what it finds against WCAG 2.2, levels A and AA. */
import { readFileSync } from "node:fs"
import { createRequire } from "node:module"
import type { Page } from "playwright-core"

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8")

interface Violation {
  readonly id: string
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[]
}

/** In the light theme and in the dark: a page follows what the system asks for, and keeps its state. It is light afterwards. */
export async function violations(page: Page): Promise<string[]> {
  const found: string[] = []
  for (const colorScheme of ["dark", "light"] as const) {
    await page.emulateMedia({ colorScheme })
    found.push(...(await violationsNow(page)).map(violation => `${colorScheme}: ${violation}`))
  }
  return found
}

async function violationsNow(page: Page): Promise<string[]> {
  const isLoaded = await page.evaluate(() => "axe" in window)
  // Not as an element: the content security policy of the page allows none.
  if (!isLoaded) await page.evaluate(axe)
  const found = await page.evaluate(async () => {
    const { axe } = window as unknown as {
      axe: { run(options: object): Promise<{ violations: Violation[] }> }
    }
    const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    // To write a unique selector for each element takes a third of the time, and none is printed.
    // Colours of a theme that are reached by a transition.
    await Promise.all(document.getAnimations().map(each => each instanceof CSSTransition && each.finished))
    const options = { runOnly: { type: "tag", values: tags }, resultTypes: ["violations"], selectors: false }
    return (await axe.run(options)).violations.map(violation => ({
      id: violation.id,
      nodes: violation.nodes.map(({ html, failureSummary }) => ({ html, failureSummary })),
    }))
  })
  return found.flatMap(({ id, nodes }) =>
    nodes.slice(0, 3).map(node => `${id}: ${node.html.slice(0, 200)} ${node.failureSummary}`),
  )
}
